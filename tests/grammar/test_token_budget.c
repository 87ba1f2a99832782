// SPDX-License-Identifier: Apache-2.0
// The token budget of reasoning: which positions of an answer are inside of reasoning, which tokens
// are counted, and which token is forced. The expectations were worked out by hand.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/grammar/token_budget.h"
#include "runtime/grammar/vocabulary.h"

#include <string.h>

enum { TOKENS_MAX = 4 };

// Reasoning is <t> ... </t>. The marks % and [y] are dropped from the text; @@, @@# and <s> begin a
// part. Token 100 + i is forced after i bytes of the close.
static void make(struct token_budget *b, const char *before, bool inside)
{
    const struct token_budget_mark marks[] = {
        {text_of("<t>"), BUDGET_OPEN}, {text_of("%"), BUDGET_DROP},
        {text_of("@@"), BUDGET_PART},  {text_of("<s>"), BUDGET_PART},
        {text_of("[y]"), BUDGET_DROP}, {text_of("@@#"), BUDGET_PART}};
    const int32_t forced[] = {100, 101, 102, -1};
    token_budget_make(b, &(struct token_budget_args){.tokens_max = TOKENS_MAX,
                                                     .marks = marks,
                                                     .mark_count = sizeof marks / sizeof *marks,
                                                     .close = text_of("</t>"),
                                                     .forced = forced,
                                                     .before = text_of(before),
                                                     .inside = inside});
}

// Returns the position after the answer, in tokens of one byte each.
static struct token_budget_place after(const struct token_budget *b, const char *answer)
{
    struct token_budget_place at = token_budget_start(b);
    for (const char *c = answer; *c; c++)
        token_budget_next(b, &at, text_span(c, 1));
    return at;
}

static void test_positions_of_reasoning(void **state)
{
    static const struct {
        const char *answer;
        bool inside;
        uint32_t tokens;
    } rows[] = {
        {"", false, 0},
        {"<t>", true, 0},
        {" \n\t\r<t>ab", true, 2},
        {"x<t>", false, 0},
        {"<<t>", false, 0},
        {"< t>", false, 0},
        {"<t", false, 0},
        {"<t></t>", false, 4},
        {"<t></t><t>abc", true, 7}, // a part begins after the close
        {"<t></t>a<t>", false, 4},
        {"<t></</t>", false, 6},
        {"<t></</tt>", true, 7},
        {"%<t>a", true, 1},
        {" % %<t>", true, 0},
        {"a%<t>", false, 0},
        {"abc@@<t>a", true, 1},
        {"a@@@<t>", false, 0},
        {"a@b@<t>", false, 0},
        {"<t>@@", true, 2},
        {"<t>@@<t>", true, 5},
        {"<t></t>x@@ <t>", true, 4},
        {"<s><t>", true, 0},
        {"a<s>%<t>", true, 0}, // <s> begins with the same byte as <t>
        {"@@@@<t>", true, 0},
        {"@%<t>", false, 0},
        {"a@@#<t>", true, 0}, // @@# extends the mark @@
        {"[y]<t>", true, 0},
    };
    (void)state;
    struct token_budget b;
    make(&b, "", false);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct token_budget_place at = after(&b, rows[i].answer);
        if (at.inside != rows[i].inside || at.tokens != rows[i].tokens)
            fail_msg("%s: inside %d, %u tokens", rows[i].answer, at.inside, at.tokens);
    }
    make(&b, "", true);
    assert_int_equal(after(&b, "ab").tokens, 2);
    assert_false(after(&b, "ab</t>").inside);
    make(&b, "so far <t>", false); // reasoning does not open after other text
    assert_false(token_budget_start(&b).inside);
    make(&b, " <t>thought </", false);
    assert_true(token_budget_start(&b).inside);
    assert_int_equal(token_budget_start(&b).tokens, 0);
    assert_false(after(&b, "t>").inside);
}

static int32_t forced(const struct token_budget *b, const char *answer)
{
    struct token_budget_place at = after(b, answer);
    return token_budget_forced(b, &at);
}

static void test_close_is_forced_after_the_budget(void **state)
{
    (void)state;
    struct token_budget b;
    make(&b, "", true);
    assert_int_equal(forced(&b, ""), -1);
    assert_int_equal(forced(&b, "abc"), -1);
    assert_int_equal(forced(&b, "abcd"), 100);
    assert_int_equal(forced(&b, "abcd<"), 101); // the close continues
    assert_int_equal(forced(&b, "abcd</"), 102);
    assert_int_equal(forced(&b, "abcd</t"), -1); // forced[3] is -1: no token
    assert_int_equal(forced(&b, "abcd</t>"), -1);
    assert_int_equal(forced(&b, "abc<"), 101); // the model itself began the close
    assert_int_equal(forced(&b, "</t>abcdefgh"), -1);
    assert_int_equal(forced(&b, "</t><t>"), 100); // </t> used four tokens
    make(&b, "", false);
    assert_int_equal(forced(&b, "abcdefgh"), -1);
    assert_int_equal(forced(&b, "<t>abc"), -1);
    assert_int_equal(forced(&b, "<t>abcd"), 100);
}

static void test_characters_are_not_cut(void **state)
{
    (void)state;
    struct token_budget b;
    make(&b, "", true);
    assert_int_equal(forced(&b, "abc\xC3"), -1);
    assert_int_equal(forced(&b, "abc\xC3\xA9"), 100);
    assert_int_equal(forced(&b, "abc\xF0"), -1);
    assert_int_equal(forced(&b, "abc\xF0\x9F\x98"), -1);
    assert_int_equal(forced(&b, "abc\xF0\x9F\x98\x80"), 100);
    assert_int_equal(forced(&b, "abcd\xE2"), -1);  // the rule forces 100 before this byte
    assert_int_equal(forced(&b, "abc\xC3x"), 100); // the model itself cut the character
    assert_int_equal(forced(&b, "abc\xFF"), 100);  // no byte of a character: a special token
    assert_int_equal(forced(&b, "abc\xF0\xF0\xF0"), -1);
    assert_int_equal(forced(&b, "abc\xF0\xF0\xF0\xF0"), 100); // at most 3 tokens of delay
}

static void test_tokens_of_many_bytes_or_none(void **state)
{
    (void)state;
    struct token_budget b;
    make(&b, "", false);
    struct token_budget_place at = token_budget_start(&b);
    token_budget_next(&b, &at, text_of("<t>abcdef"));
    assert_true(at.inside);
    assert_int_equal(at.tokens, 0);
    for (uint32_t i = 0; i < TOKENS_MAX; i++) {
        assert_int_equal(token_budget_forced(&b, &at), -1);
        token_budget_next(&b, &at, text_span(NULL, 0));
    }
    assert_int_equal(token_budget_forced(&b, &at), 100);
    token_budget_next(&b, &at, text_of("</t> x"));
    assert_false(at.inside || at.head);
}

// The mark # begins a call, {} are its arguments, ; ends it.
static void test_reasoning_after_calls(void **state)
{
    static const struct {
        const char *answer;
        bool inside;
    } rows[] = {
        {"a#{}<t>", true},      {"a#f{<t>", false},        {"#{{}}<t>", true},
        {"#{{}<t>", false},     {"#{\"}\"<t>", false},     {"#{\"\\\"}\"}<t>", true},
        {"#{};<t>", true},      {"#{} ; <t>", true},       {"#{};a<t>", false},
        {"a;<t>", false},       {"#{\"};<t>\"}", false},   {"#{\"a\n};<t>", true},
        {"#f;<t>", true},       {"#{}{\"a\":1}<t>", true}, {"#{}{a}<t>", false},
        {"#{}},<t>", true},     {"#{} a{\"\"}<t>", false}, {"#{\"@@<t>\"", false},
        {"[\"\"{}]<t>", false}, {"!{\"\"}<t>", false},     {"{\"\"}<t>", true},
        {"{1}<t>", false},      {"a{\"\"}<t>", false},     {"<t>#{}</t>x<t>", false},
    };
    const struct token_budget_mark marks[] = {{text_of("<t>"), BUDGET_OPEN},
                                              {text_of("@@"), BUDGET_PART},
                                              {text_of("#"), BUDGET_CALL},
                                              {text_of(";"), BUDGET_END}};
    const int32_t forced[] = {100, 101, 102, -1};
    struct token_budget b;
    (void)state;
    token_budget_make(&b, &(struct token_budget_args){.tokens_max = TOKENS_MAX,
                                                      .marks = marks,
                                                      .mark_count = 4,
                                                      .close = text_of("</t>"),
                                                      .forced = forced,
                                                      .calls = {"{", "{", "{", "\""}});
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (after(&b, rows[i].answer).inside != rows[i].inside)
            fail_msg("%s", rows[i].answer);
}

static struct text banned(const struct token_budget *b, const char *answer)
{
    struct token_budget_place at = after(b, answer);
    return token_budget_banned(b, &at).rest;
}

// After the budget is spent, the rest of the mark that would open reasoning is banned, because the
// close would be forced immediately.
static void test_spent_budget_bans_reopening(void **state)
{
    (void)state;
    struct token_budget b;
    make(&b, "", false);
    assert_true(text_is(banned(&b, ""), ""));
    assert_true(text_is(banned(&b, "<t></t>"), "<t>")); // four tokens of the close spend the budget
    assert_true(text_is(banned(&b, "<t>abcd</t> \n"), "<t>"));
    assert_true(text_is(banned(&b, "<t>abcd</t>a"), ""));
    assert_true(text_is(banned(&b, "<t>abcd</t>a@@"), "<t>"));
    assert_true(text_is(banned(&b, "<t>abcd</t><t"), ">"));
    assert_true(text_is(banned(&b, "<t>abcd</t>[y"), ""));  // two bytes of another mark
    assert_true(text_is(banned(&b, "<t>abcd</t><"), "t>")); // also the beginning of another mark
    struct token_budget_place at = after(&b, "<t>abcd</t>");
    assert_string_equal(token_budget_banned(&b, &at).skip, " \n\t\r");
    at = after(&b, "<t>abcd</t><");
    assert_string_equal(token_budget_banned(&b, &at).skip, "");
    make(&b, "", true);
    b.tokens_max = 40;
    assert_true(text_is(banned(&b, "abcd</t>"), ""));
}

static const char *skipped(const char *token, const char *skip)
{
    while (*token && strchr(skip, *token))
        token++;
    return token;
}

// Compares the tokens that vocabulary_forbid clears with those that a search of all texts finds.
static void test_tokens_that_begin_with_a_text_are_forbidden(void **state)
{
    enum { WORDS = 400, BYTES = 7 };
    static const char letters[] = "<t> =";
    char store[WORDS][BYTES];
    struct text tokens[WORDS];
    uint64_t seed = 3;
    uint32_t cleared = 0;
    (void)state;
    for (uint32_t i = 0; i < WORDS; i++) {
        uint32_t bytes = 0;
        do {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            store[i][bytes++] = letters[(seed >> 33) % 5];
        } while (bytes + 1 < BYTES && (seed >> 40) % 4 != 0);
        store[i][bytes] = 0;
        tokens[i] = text_of(store[i]);
    }
    struct vocabulary_args args = {.vocab = WORDS, .tokens = tokens, .count = WORDS};
    struct vocabulary *v = vocabulary_create(&args);
    static const char *const texts[][2] = {{"<t>", " "}, {"t>", ""}, {">", ""}, {"<t>", " ="}};
    for (size_t row = 0; row < 4; row++) {
        uint32_t words[(WORDS + 31) / 32];
        size_t bytes = strlen(texts[row][0]);
        memset(words, 0xFF, sizeof words);
        vocabulary_forbid(v, text_of(texts[row][0]), texts[row][1], words);
        for (uint32_t i = 0; i < WORDS; i++) {
            bool gone = strncmp(skipped(store[i], texts[row][1]), texts[row][0], bytes) == 0;
            assert_int_equal(words[i / 32] >> i % 32 & 1, !gone);
            cleared += gone;
        }
    }
    assert_true(cleared > 50);
    vocabulary_unref(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_positions_of_reasoning),
        cmocka_unit_test(test_close_is_forced_after_the_budget),
        cmocka_unit_test(test_characters_are_not_cut),
        cmocka_unit_test(test_tokens_of_many_bytes_or_none),
        cmocka_unit_test(test_reasoning_after_calls),
        cmocka_unit_test(test_spent_budget_bans_reopening),
        cmocka_unit_test(test_tokens_that_begin_with_a_text_are_forbidden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
