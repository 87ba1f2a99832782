// SPDX-License-Identifier: Apache-2.0
// The token budget of reasoning in every dialect: it is inside of reasoning exactly when the reader
// of replies is, for any answer, and the tokens that it forces spell the close that the reader
// finds. Random answers consist of marks, pieces of marks and text.
#include "tests/runtime/dialect_rig.h"

#include "runtime/grammar/vocabulary.h"
#include "runtime/text/dialect/budget.h"
#include "runtime/text/dialect/row.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROUNDS = 60, PIECES = 12, ANSWER = 8192 };

static struct arena *arena;
static uint64_t seed;

static unsigned below(unsigned most)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % most;
}

// Returns a random piece: marks of reasoning and parts, incomplete marks, blanks, characters and
// words.
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

// Appends arguments with a bracket in a string, in the form of the dialect.
static void arguments_put(const struct dialect_syntax *s, struct json_buffer *out)
{
    switch (s->arguments) {
    case ARGUMENTS_JSON:
        json_put_literal(out, "{\"a\": [\"}\\\"{\"]}");
        break;
    case ARGUMENTS_PARAMETERS:
        json_put_format(out, "%sa%sv%s", s->key_open, s->string_open, s->value_close);
        break;
    case ARGUMENTS_ELEMENTS:
        json_put_format(out, "%sa%sv%sa%s", s->key_open, s->string_open, s->value_close,
                        s->value_end);
        break;
    case ARGUMENTS_PYTHON:
        json_put_literal(out, "a=[')(']");
        break;
    case ARGUMENTS_BARE_KEYS:
        json_put_format(out, "{a:%sv%s}", s->string_open, s->value_close);
        break;
    }
}

// Appends one or two complete calls.
static void calls_put(const struct dialect *d, struct json_buffer *out)
{
    const struct dialect_syntax *s = dialect_syntax(d);
    size_t from = out->bytes;
    json_put_literal(out, s->begin);
    for (unsigned i = below(2);; i--) {
        json_put_literal(out, s->call_open);
        json_put_format(out, "f%s", s->name_close);
        arguments_put(s, out);
        json_put_literal(out, s->call_close);
        if (i == 0 || s->one_call)
            break;
        json_put_literal(out, s->separator);
    }
    json_put_literal(out, s->end);
    for (; from < out->bytes; from++)
        out->at[from] = out->at[from] == DIALECT_ID_PLACE ? '0' : out->at[from];
}

static struct text answer_make(const struct dialect *d, bool calls, char *out)
{
    size_t at = 0;
    for (unsigned i = below(PIECES); i > 0; i--) {
        size_t bytes;
        struct json_buffer call = {0};
        if (calls && below(6) == 0) {
            calls_put(d, &call);
            assert_true(at + call.bytes < ANSWER);
            memcpy(out + at, call.at, call.bytes);
            at += call.bytes;
            json_buffer_free(&call);
            continue;
        }
        const char *piece = piece_of(d->row, d->reasoning, &bytes);
        memcpy(out + at, piece, bytes);
        at += bytes;
    }
    return text_span(out, at);
}

struct way {
    enum dialect_start start;
    bool calls, has_text_grammar;
    size_t before; // length of the text that the answer continues
};

// Returns true if text may look like a call: the dialect's calls have no mark, a short one, or one
// that begins like their end mark.
static bool looks_like_calls(const struct dialect_row *row)
{
    return (row->flags & (ROW_BARE_OBJECT | ROW_BARE_LIST | ROW_NAME_ALL)) != 0 ||
           strcmp(row->name, "gigachat") == 0;
}

static uint32_t places_inside, places;

// Feeds the budget and the reader a byte or a special token at a time, and compares whether they
// are inside of reasoning. If the text has a grammar, the reader knows fewer marks, and if calls
// have no mark or a short one, text may look like a call (`loose`). In these cases the budget may
// be inside when the reader is not.
static void compare(const struct dialect *d, struct text answer, const struct way *way)
{
    struct token_budget budget;
    size_t before = way->before < answer.bytes ? way->before : answer.bytes;
    struct dialect_closing closing;
    struct dialect_budget_args args = {.closing = &closing,
                                       .tokens_max = 5,
                                       .start = way->start,
                                       .calls = way->calls,
                                       .before = text_span(answer.at, before)};
    struct reply_args reply = {.dialect = d,
                               .start = way->start,
                               .reasoning = true,
                               .calls = way->calls,
                               .has_text_grammar = way->has_text_grammar};
    struct reply *r = reply_create(&reply);
    uint32_t count;
    bool loose = way->has_text_grammar || (way->calls && looks_like_calls(d->row));
    // The rig's tokenizer has no text tokens, so these may fail.
    (void)dialect_closing_make(&closing, d, d->tokenizer, 0, arena);
    (void)dialect_budget(d, &args, &budget);
    struct token_budget_place place = token_budget_start(&budget);
    reply_feed(r, args.before, false, &count);
    for (size_t at = before, bytes; at < answer.bytes; at += bytes) {
        char token[128] = {(char)VOCABULARY_SPECIAL_BYTE};
        struct text rest = text_span(answer.at + at, answer.bytes - at);
        bytes = rig_special(rest);
        bool special = bytes > 0 && tokenizer_token(d->tokenizer, text_span(rest.at, bytes)) >= 0;
        bytes = special ? bytes : 1;
        memcpy(token + special, rest.at, bytes);
        token_budget_next(&budget, &place, text_span(token, bytes + special));
        reply_feed(r, text_span(rest.at, bytes), special, &count);
        places_inside += place.inside;
        places++;
        if (place.inside != reply_in_reasoning(r) && !(loose && place.inside))
            fail_msg("%s, %s: inside is %d after %zu bytes of\n%.*s", dialect_name(d),
                     dialect_reasoning_name(d), place.inside, at + bytes, (int)answer.bytes,
                     answer.at);
    }
    reply_destroy(r);
}

static struct text marks_of(const struct dialect *d, char *out)
{
    size_t at = (size_t)sprintf(out, "%s%s", d->reasoning->syntax.open, d->reasoning->syntax.close);
    for (uint32_t i = 0; i < ROW_MARKERS && d->row->markers[i].text; i++)
        at += (size_t)sprintf(out + at, "%s", d->row->markers[i].text);
    return text_span(out, at);
}

// Returns a tokenizer with all marks that look like special tokens, or one without special tokens.
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

static void test_budget_agrees_with_the_reader(void **state)
{
    char answer[ANSWER];
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
                // No model has both calls without a mark and reasoning that opens with a bracket.
                bool brackets = (d.row->flags & (ROW_BARE_OBJECT | ROW_BARE_LIST)) != 0 &&
                                d.reasoning->syntax.open[0] == '[';
                bool calls = round % 2 && dialect_has_calls(&d);
                struct text text = answer_make(&d, calls, answer);
                compare(
                    &d, text,
                    &(struct way){.start = round % 3 ? DIALECT_START_TEXT : DIALECT_START_REASONING,
                                  .calls = calls,
                                  .has_text_grammar = round % 7 == 0 && !brackets,
                                  .before = round % 5 == 0 ? below(20) : 0});
            }
            tokenizer_close(t);
        }
    assert_in_range(places_inside, places / 4, places / 4 * 3);
    assert_true(places > 100000);
}

// After every prefix of the close, the forced tokens complete it, with a tokenizer of bytes and
// words.
static void test_forced_tokens_spell_the_close(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < dialect_reasoning_count; k++) {
        struct tokenizer *t = tokenizer_of(NULL, false);
        struct dialect d;
        struct token_budget budget;
        arena_reset(arena);
        dialect_named(&d, "hermes", dialect_reasoning_row_name(k), t);
        struct dialect_closing closing;
        struct dialect_budget_args args = {
            .closing = &closing, .tokens_max = 3, .start = DIALECT_START_REASONING};
        const char *close = d.reasoning->syntax.close;
        assert_int_equal(dialect_closing_make(&closing, &d, t, 0, arena), close != NULL);
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
    struct dialect_closing closing;
    struct dialect_budget_args args = {.closing = &closing, .tokens_max = 0};
    uint32_t end = (uint32_t)tokenizer_token(t, text_of("<|end|>"));
    assert_false(dialect_closing_make(&closing, &d, t, end, arena)); // the model lacks the token
    assert_false(dialect_budget(&d, &args, &budget));
    assert_true(dialect_closing_make(&closing, &d, t, end + 1, arena));
    assert_true(dialect_budget(&d, &args, &budget));
    struct token_budget_place place = token_budget_start(&budget);
    static const char *const tokens[] = {"\xFF<|channel|>", "analysis", "\xFF<|message|>"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(token_budget_forced(&budget, &place), -1);
        token_budget_next(&budget, &place, text_of(tokens[i]));
    }
    assert_int_equal(token_budget_forced(&budget, &place), tokenizer_token(t, text_of("<|end|>")));
    token_budget_next(&budget, &place, text_of("<|end|>")); // text with the bytes of the token
    assert_true(place.inside);
    token_budget_next(&budget, &place, text_of("\xFF<|end|>"));
    assert_false(place.inside);
    tokenizer_close(t);
}

enum { LETTERS = 128, PARTS = 400, STEPS = 30 };

// A vocabulary of ASCII characters and of parts of a mark with other characters around them.
struct parts {
    char letters[LETTERS], store[PARTS][TOKEN_BUDGET_BYTES_MAX + 4];
    struct text tokens[LETTERS + PARTS];
    struct vocabulary *v;
};

static void parts_open(struct parts *p, const char *mark)
{
    static const char *const around[] = {"", "", "", " ", "=", "\n", "<", "x"};
    unsigned bytes = (unsigned)strlen(mark);
    for (unsigned i = 0; i < LETTERS; i++) {
        p->letters[i] = (char)i;
        p->tokens[i] = text_span(&p->letters[i], i >= ' ' || i == '\n');
    }
    for (unsigned i = 0; i < PARTS; i++) {
        unsigned from = below(2) * below(bytes);
        unsigned count = below(2) ? bytes - from : 1 + below(bytes - from);
        snprintf(p->store[i], sizeof p->store[0], "%s%.*s%s", around[below(8)], (int)count,
                 mark + from, around[below(8)]);
        p->tokens[LETTERS + i] = text_of(p->store[i]);
    }
    struct vocabulary_args args = {
        .vocab = LETTERS + PARTS, .tokens = p->tokens, .count = LETTERS + PARTS};
    p->v = vocabulary_create(&args);
}

// Ends the reasoning, then draws random tokens and skips banned ones. Returns how many it skipped.
static uint32_t spent_walk(const struct dialect *d, const struct token_budget *budget,
                           const struct parts *p)
{
    uint32_t words[(LETTERS + PARTS + 31) / 32], count, banned = 0;
    struct reply_args args = {.dialect = d, .start = DIALECT_START_REASONING, .reasoning = true};
    struct reply *r = reply_create(&args);
    struct token_budget_place place = token_budget_start(budget);
    struct text piece = text_of(d->reasoning->syntax.close);
    for (unsigned step = 0; step < STEPS; step++) {
        token_budget_next(budget, &place, piece);
        reply_feed(r, piece, false, &count);
        if (place.inside || reply_in_reasoning(r))
            fail_msg("%s opens again with %.*s", dialect_reasoning_name(d), (int)piece.bytes,
                     piece.at);
        struct token_budget_ban ban = token_budget_banned(budget, &place);
        memset(words, 0xFF, sizeof words);
        if (ban.rest.bytes > 0)
            vocabulary_forbid(p->v, ban.rest, ban.skip, words);
        for (uint32_t id;;) {
            id = below(8) ? LETTERS + below(PARTS) : below(LETTERS);
            piece = p->tokens[id];
            if (piece.bytes > 0 && (words[id / 32] >> id % 32 & 1))
                break;
            banned += piece.bytes > 0;
        }
    }
    reply_destroy(r);
    return banned;
}

// No token opens reasoning again once the budget is spent, however the tokenizer spells the mark.
static void test_no_token_opens_reasoning_after_the_budget(void **state)
{
    static struct parts parts;
    struct tokenizer *t = tokenizer_of(NULL, false);
    (void)state;
    for (uint32_t k = 0; k < dialect_reasoning_count; k++) {
        struct dialect d;
        struct token_budget budget;
        struct dialect_closing closing;
        struct dialect_budget_args args = {.closing = &closing, .start = DIALECT_START_REASONING};
        uint32_t banned = 0;
        arena_reset(arena);
        dialect_named(&d, "hermes", dialect_reasoning_row_name(k), t);
        if (!dialect_closing_make(&closing, &d, t, 0, arena))
            continue;
        assert_true(dialect_budget(&d, &args, &budget));
        parts_open(&parts, d.reasoning->syntax.open);
        for (unsigned round = 0; round < ROUNDS; round++)
            banned += spent_walk(&d, &budget, &parts);
        vocabulary_unref(parts.v);
        if (banned < 5)
            fail_msg("%s: %u tokens were banned", dialect_reasoning_name(&d), banned);
    }
    tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_budget_agrees_with_the_reader),
        cmocka_unit_test(test_forced_tokens_spell_the_close),
        cmocka_unit_test(test_a_special_close_is_one_token),
        cmocka_unit_test(test_no_token_opens_reasoning_after_the_budget),
    };
    arena = arena_create(0, 16u << 20);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_destroy(arena);
    return failed;
}
