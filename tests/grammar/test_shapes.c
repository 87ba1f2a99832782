// SPDX-License-Identifier: Apache-2.0
// Walks over the shapes of tokens (runtime/grammar/walk.h): every mask bit compared with accepting
// the token's bytes, for grammars that distinguish letters at the beginning, in the middle of a
// token, late, or never.
#include "base/arena.h"
#include "runtime/grammar/mask.h"
#include "runtime/text/grammar/gbnf.h"
#include "tests/grammar/oracle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { TOKENS = 6000, TOKEN_BYTES = 80, WORDS = (TOKENS + 32) / 32 };

// Creates words of few shapes and many letters: some contain a quote, a blank, digits or incomplete
// characters, and a few are long.
static struct vocabulary *words_vocabulary(void)
{
    static char store[TOKENS][TOKEN_BYTES];
    static struct text tokens[TOKENS];
    static const char *const middles[] = {"",   "",  "",   "\"",       " ", "7",
                                          "42", "-", "\n", "\xC3\xA9", "X", "\xE4\xB8"};
    int32_t end = TOKENS;
    uint64_t seed = 11;
    for (uint32_t t = 0; t < TOKENS; t++) {
        uint32_t bytes = 0, letters = t % 500 == 0 ? 40 : 1 + oracle_random(&seed, 6);
        const char *middle = middles[oracle_random(&seed, 12)];
        uint32_t at = oracle_random(&seed, letters + 1);
        for (uint32_t i = 0; i <= letters; i++) {
            if (i == at)
                bytes += (uint32_t)snprintf(store[t] + bytes, TOKEN_BYTES - bytes, "%s", middle);
            if (i < letters)
                store[t][bytes++] = (char)('a' + oracle_random(&seed, 4));
        }
        if (t < 256)
            store[t][0] = (char)t;
        tokens[t] = text_span(store[t], t < 256 ? 1 : bytes);
    }
    struct vocabulary_args args = {TOKENS + 1, tokens, TOKENS, NULL, &end, 1};
    return vocabulary_create(&args);
}

static struct mask_cache *cache_of(const char *source, struct vocabulary *v)
{
    struct grammar_builder *b = grammar_builder_create(NULL);
    struct error err = {0};
    struct grammar *g = NULL;
    uint32_t root;
    if (gbnf_compile(b, text_of(source), &root, &err) != STATUS_OK ||
        grammar_finish(b, root, &g, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    struct mask_cache *c = mask_cache_create(g, v, NULL);
    grammar_unref(g);
    return c;
}

// Compares each mask bit with accepting the token's bytes one by one. Returns the number of allowed
// tokens.
static uint32_t compare_bits(struct matcher *m, struct vocabulary *v)
{
    static uint32_t words[WORDS];
    uint32_t allowed = 0;
    assert_int_equal(matcher_mask(m, words), MATCHER_OK);
    for (int32_t id = 0; id < TOKENS; id++) {
        struct text token = vocabulary_token(v, id);
        struct matcher ahead;
        matcher_copy(&ahead, m);
        bool want = token.bytes > 0;
        for (size_t i = 0; i < token.bytes && want; i++)
            want = matcher_accept_bytes(&ahead, text_span(token.at + i, 1));
        matcher_end(&ahead);
        allowed += want;
        if ((words[id / 32] >> (id % 32) & 1) != want)
            fail_msg("token %d (%.*s) is not %d", id, (int)token.bytes, token.at, want);
    }
    return allowed;
}

static void test_mask_bits_match_bytes_of_shapes(void **state)
{
    (void)state;
    static const struct {
        const char *source, *text;
        uint32_t least; // minimum number of tokens that the first mask allows
    } cases[] = {
        {"root ::= [a-z]+", "ab", 1000},
        {"root ::= [ab]+ [a-z]{0,3}", "aab", 300},
        {"root ::= [a-z] [a-z] (\"abc\" | \"b\"+ | [0-9]) [a-z]*", "abbb", 30},
        {"root ::= [a-z] \"a\" [a-z]* [0-9]*", "ba", 200},
        {"root ::= ([a-z] | [a-z] [0-9] \"4\"? [0-9]?)*", "a7b", 1000},
        {"root ::= \"\\\"\" [^\"\\\\\\x00-\\x1F]{0,100} \"\\\"\"", "\"abcabc", 1},
        {"root ::= [^\"\\\\\\x00-\\x1F]{0,36} \"\\\"\" [a-z]*", "abc abc", 1000},
        {"root ::= [a-z]{0,35} \"!\"?", "abc", 1000},
        {"root ::= [a-c] [^\"\\\\\\x00-\\x1F]* \"\\\"\" [a-c]*", "ab\"", 1000},
        {"root ::= [^\\n]* \"\\n\" \"a\" [a-z]*", "abc 42\"", 2000},
        {"root ::= [a-c] ([a-d] [a-d]){0,50} \"-\" \"a\"*", "abcab", 500},
        {"root ::= [^a]* (\"ab\" [^a]*)*", "bcdab", 100},
    };
    struct vocabulary *v = words_vocabulary();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mask_cache *c = cache_of(cases[i].source, v);
        struct matcher m;
        matcher_init(&m, c);
        uint32_t allowed = compare_bits(&m, v);
        assert_int_equal(compare_bits(&m, v), allowed); // the cached mask
        if (allowed < cases[i].least)
            fail_msg("%s: %u tokens", cases[i].source, allowed);
        for (const char *at = cases[i].text; *at != '\0'; at++) {
            assert_true(matcher_accept_bytes(&m, text_span(at, 1)));
            assert_int_equal(compare_bits(&m, v), compare_bits(&m, v));
        }
        matcher_end(&m);
        mask_cache_destroy(c);
    }
    vocabulary_unref(v);
}

// Returns the work, in steps, of the first mask after `text`.
static uint64_t work_after(const char *source, const char *text, struct vocabulary *v)
{
    static uint32_t words[WORDS];
    struct mask_cache *c = cache_of(source, v);
    struct matcher m;
    matcher_init(&m, c);
    assert_true(matcher_accept_bytes(&m, text_of(text)));
    uint64_t before = mask_cache_stats(c).work;
    assert_int_equal(matcher_mask(&m, words), MATCHER_OK);
    uint64_t work = mask_cache_stats(c).work - before;
    matcher_end(&m);
    mask_cache_destroy(c);
    return work;
}

// If a grammar does not distinguish letters, the walk is over shapes and costs less. A bound that
// no token can reach costs little more than no bound.
static void test_cost_of_a_walk(void **state)
{
    (void)state;
    struct vocabulary *v = words_vocabulary();
    uint64_t alike = work_after("root ::= [a-z]* [0-9]* [a-z]*", "", v);
    uint64_t apart = work_after("root ::= ([a-c] | [b-d])* [0-9]* [a-z]*", "", v);
    assert_in_range(alike * 2, 1, apart);
    uint64_t none = work_after("root ::= \"<\" [a-z\"]* \">\"", "<", v);
    uint64_t bound = work_after("root ::= \"<\" [a-z\"]{0,90} \">\"", "<", v);
    assert_in_range(bound, 1, none * 2);
    vocabulary_unref(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mask_bits_match_bytes_of_shapes),
        cmocka_unit_test(test_cost_of_a_walk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
