// The budget of reasoning in every dialect: it is inside of reasoning exactly where the reader of
// replies is, whatever is written, and the tokens that it forces spell the close that the reader
// finds. Random answers are made of marks, pieces of marks and text.
#include "tests/runtime/dialect_rig.h"

#include "runtime/grammar/vocabulary.h"
#include "runtime/text/dialect/budget.h"
#include "runtime/text/dialect/row.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROUNDS = 60, PIECES = 12, ANSWER = 4096 };

static struct arena *arena;
static uint64_t seed;

static unsigned below(unsigned most)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % most;
}

// Marks around reasoning and parts, halves of them, blanks, characters and words.
static const char *piece_of(const struct dialect_row *row,
                            const struct dialect_reasoning *reasoning, size_t *bytes)
{
    static const char *const texts[] = {" ", "\n", "a", "\xC3\xA9", "word ", "<", "</", "[", ""};
    const char *text = texts[below(9)];
    unsigned which = below(10);
    if (which < 2)
        text = reasoning->syntax.open;
    else if (which < 4)
        text = reasoning->syntax.close;
    for (uint32_t i = 0; which == 4 && i < ROW_MARKERS && row->markers[i].text; i++)
        if ((row->markers[i].role == ROLE_MESSAGE || row->markers[i].role == ROLE_DROP) &&
            below(3) == 0)
            text = row->markers[i].text;
    *bytes = strlen(text);
    if (which < 5 && below(6) == 0)
        *bytes = below((unsigned)*bytes + 1);
    return text;
}

static struct text answer_make(const struct dialect *d, char *out)
{
    size_t at = 0;
    for (unsigned i = below(PIECES); i > 0; i--) {
        size_t bytes;
        const char *piece = piece_of(d->row, d->reasoning, &bytes);
        memcpy(out + at, piece, bytes);
        at += bytes;
    }
    return text_span(out, at);
}

// Feeds both from `at` on, a character or a special token at once.
static void compare(const struct dialect *d, struct text answer, enum dialect_start start)
{
    struct token_budget budget;
    struct dialect_budget_args args = {
        .tokenizer = d->tokenizer, .tokens_max = 5, .start = start, .arena = arena};
    struct reply_args reply = {.dialect = d, .start = start, .reasoning = true};
    struct reply *r = reply_open(&reply);
    (void)dialect_budget(d, &args, &budget); // the rig's tokenizer has no text
    struct token_budget_place place = token_budget_start(&budget);
    for (size_t at = 0, bytes; at < answer.bytes; at += bytes) {
        uint32_t count;
        char token[128] = {(char)VOCABULARY_SPECIAL_BYTE};
        struct text rest = text_span(answer.at + at, answer.bytes - at);
        bytes = rig_special(rest);
        bool special = bytes > 0 && tokenizer_token(d->tokenizer, text_span(rest.at, bytes)) >= 0;
        bytes = special ? bytes : 1;
        memcpy(token + special, rest.at, bytes);
        token_budget_next(&budget, &place, text_span(token, bytes + special));
        reply_feed(r, text_span(rest.at, bytes), special, &count);
        if (place.inside != reply_in_reasoning(r))
            fail_msg("%s, %s: inside is %d after %zu bytes of\n%.*s", dialect_name(d),
                     dialect_reasoning_name(d), place.inside, at + bytes, (int)answer.bytes,
                     answer.at);
    }
    reply_close(r);
}

static struct text marks_of(const struct dialect *d, char *out)
{
    size_t at = (size_t)sprintf(out, "%s%s", d->reasoning->syntax.open, d->reasoning->syntax.close);
    for (uint32_t i = 0; i < ROW_MARKERS && d->row->markers[i].text; i++)
        at += (size_t)sprintf(out + at, "%s", d->row->markers[i].text);
    return text_span(out, at);
}

// With all of its marks that look like special tokens, or without special tokens.
static struct tokenizer *tokenizer_of(const struct dialect *d, bool special)
{
    struct tokenizer *t;
    struct error err;
    char marks[ANSWER];
    if (special)
        return rig_tokenizer(marks_of(d, marks));
    assert_int_equal(tokenizer_open_words(&t, 300, &err), STATUS_OK);
    return t;
}

static void test_it_is_inside_where_the_reader_is(void **state)
{
    char answer[ANSWER];
    uint32_t inside = 0;
    (void)state;
    for (uint32_t i = 0; dialect_row_name(i); i++)
        for (uint32_t k = 0; k < 2 * dialect_reasoning_count; k++) {
            struct dialect d;
            assert_true(
                dialect_named(&d, dialect_row_name(i), dialect_reasoning_row_name(k / 2), NULL));
            if (!d.reasoning->syntax.open)
                continue;
            struct tokenizer *t = tokenizer_of(&d, k % 2);
            dialect_named(&d, dialect_row_name(i), dialect_reasoning_row_name(k / 2), t);
            for (unsigned round = 0; round < ROUNDS; round++) {
                arena_reset(arena);
                struct text text = answer_make(&d, answer);
                compare(&d, text, round % 3 ? DIALECT_START_TEXT : DIALECT_START_REASONING);
                inside++;
            }
            tokenizer_close(t);
        }
    assert_true(inside > 10000);
}

// From each place in the close, with a tokenizer of bytes and words.
static void test_what_is_forced_spells_the_close(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < dialect_reasoning_count; k++) {
        struct tokenizer *t = tokenizer_of(NULL, false);
        struct dialect d;
        struct token_budget budget;
        arena_reset(arena);
        dialect_named(&d, "hermes", dialect_reasoning_row_name(k), t);
        struct dialect_budget_args args = {
            .tokenizer = t, .tokens_max = 3, .start = DIALECT_START_REASONING, .arena = arena};
        const char *close = d.reasoning->syntax.close;
        assert_int_equal(dialect_budget(&d, &args, &budget), close != NULL);
        for (size_t from = 0; close && from < strlen(close); from++) {
            struct token_budget_place place = token_budget_start(&budget);
            for (size_t i = 0; i + from < 3; i++)
                token_budget_next(&budget, &place, text_of("x"));
            for (size_t i = 0; i < from; i++)
                token_budget_next(&budget, &place, text_span(close + i, 1));
            for (unsigned steps = 0; place.inside; steps++) {
                int32_t token = token_budget_forced(&budget, &place);
                if (token < 0 || steps > 64)
                    fail_msg("%s: no token after %zu bytes", close, from);
                token_budget_next(&budget, &place, tokenizer_token_bytes(t, token));
            }
        }
        tokenizer_close(t);
    }
}

static void test_a_special_close_is_one_token(void **state)
{
    (void)state;
    struct tokenizer *t = rig_tokenizer(text_of("<|channel|><|message|><|end|>"));
    struct dialect d;
    struct token_budget budget;
    dialect_named(&d, "harmony", "harmony", t);
    struct dialect_budget_args args = {.tokenizer = t, .tokens_max = 0, .arena = arena};
    assert_true(dialect_budget(&d, &args, &budget));
    args.vocab = (uint32_t)tokenizer_token(t, text_of("<|end|>")); // the model lacks the id
    assert_false(dialect_budget(&d, &args, &budget));
    args.vocab++;
    assert_true(dialect_budget(&d, &args, &budget));
    struct token_budget_place place = token_budget_start(&budget);
    static const char *const tokens[] = {"\xFF<|channel|>", "analysis", "\xFF<|message|>"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(token_budget_forced(&budget, &place), -1);
        token_budget_next(&budget, &place, text_of(tokens[i]));
    }
    assert_int_equal(token_budget_forced(&budget, &place), tokenizer_token(t, text_of("<|end|>")));
    token_budget_next(&budget, &place, text_of("<|end|>")); // text that spells it
    assert_true(place.inside);
    token_budget_next(&budget, &place, text_of("\xFF<|end|>"));
    assert_false(place.inside);
    tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_inside_where_the_reader_is),
        cmocka_unit_test(test_what_is_forced_spells_the_close),
        cmocka_unit_test(test_a_special_close_is_one_token),
    };
    arena = arena_create(0, 16u << 20);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_destroy(arena);
    return failed;
}
