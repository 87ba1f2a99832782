// SPDX-License-Identifier: Apache-2.0
// Tails, the rest of tokens after plain characters (runtime/grammar/mask.c): each state that plain
// characters lead back to has tails of its own.
#include "runtime/grammar/mask.h"
#include "runtime/text/grammar/gbnf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

enum { LETTERS = 26, DIGITS = 999, TOKENS_MAX = LETTERS * DIGITS, TOKEN_BYTES = 8 };

struct tails {
    char store[TOKENS_MAX][TOKEN_BYTES];
    struct text tokens[TOKENS_MAX];
    int32_t count;
    struct mask_cache *cache;
    struct vocabulary *v;
};

// Creates a grammar in which each letter begins texts: plain characters up to a quote, then the
// letter's digits, or (any) three digits and the letter again. all: each letter has tokens with all
// digits; otherwise each number belongs to one letter.
static void open_tails(struct tails *t, uint32_t letters, bool all, bool any)
{
    char source[LETTERS * 64], own[32];
    int used = snprintf(source, sizeof source, "s ::= [^\"\\\\\\x00-\\x1F]*\nroot ::= ");
    *t = (struct tails){.count = 0};
    for (uint32_t i = 0; i < letters; i++) {
        snprintf(own, sizeof own, "%03u\"", i);
        if (any)
            snprintf(own, sizeof own, "\" [0-9] [0-9] [0-9] \"%c\"", 'a' + i);
        used += snprintf(source + used, sizeof source - (size_t)used, "%s\"%c\" s \"\\\"%s",
                         i ? " | " : "", 'a' + i, own);
        for (uint32_t k = 0; k < DIGITS; k++) {
            if (!all && k % letters != i)
                continue;
            char *at = t->store[t->count];
            int bytes =
                snprintf(at, TOKEN_BYTES, "%cx%c\"%03u", 'a' + i, k / letters % 2 ? 'x' : 'y', k);
            t->tokens[t->count++] = text_span(at, (size_t)bytes);
        }
    }
    int32_t end = t->count;
    struct vocabulary_args args = {
        (uint32_t)t->count + 1, t->tokens, (uint32_t)t->count, NULL, &end, 1};
    struct grammar_builder *b = grammar_builder_create(NULL);
    struct error err = {0};
    struct grammar *g;
    uint32_t root;
    t->v = vocabulary_create(&args);
    if (gbnf_compile(b, text_of(source), &root, &err) != STATUS_OK ||
        grammar_finish(b, root, &g, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    t->cache = mask_cache_create(g, t->v, NULL);
    grammar_unref(g);
}

static void mask_check(struct tails *t, struct matcher *m)
{
    static uint32_t words[TOKENS_MAX / 32 + 1];
    assert_int_equal(matcher_mask(m, words), MATCHER_OK);
    for (int32_t i = 0; i < t->count; i++) {
        unsigned digits = 0;
        assert_int_equal(sscanf(t->tokens[i].at + 4, "%3u", &digits), 1);
        bool may = digits == (unsigned)(t->tokens[i].at[0] - 'a');
        assert_int_equal((words[i / 32] >> (i % 32)) & 1, may);
    }
}

// Checks that the first mask allows exactly the tokens that end with their letter's digits, and
// that the second mask is that of the cache.
static void first_mask(uint32_t letters, bool all)
{
    static struct tails t;
    struct matcher m;
    open_tails(&t, letters, all, false);
    matcher_init(&m, t.cache);
    mask_check(&t, &m);
    assert_int_equal(mask_cache_stats(t.cache).reused, 0);
    mask_check(&t, &m);
    assert_int_equal(mask_cache_stats(t.cache).reused, 1);
    matcher_end(&m);
    mask_cache_destroy(t.cache);
    vocabulary_unref(t.v);
}

static void test_tails_depend_on_the_state(void **state)
{
    (void)state;
    for (uint32_t letters = 1; letters <= 8; letters++)
        first_mask(letters, true);
    first_mask(LETTERS, true); // more states than tails are computed for
    first_mask(LETTERS, false);
}

// However many states have tails of their own, a mask costs at most about twice a walk over all
// tokens byte by byte. A step of work covers two bytes.
static void test_work_of_tails_is_bounded(void **state)
{
    (void)state;
    static struct tails t;
    static uint32_t words[TOKENS_MAX / 32 + 1];
    struct matcher m;
    uint64_t bytes = 0;
    open_tails(&t, LETTERS, false, true);
    matcher_init(&m, t.cache);
    assert_int_equal(matcher_mask(&m, words), MATCHER_OK);
    for (int32_t i = 0; i < t.count; i++) {
        assert_int_equal((words[i / 32] >> (i % 32)) & 1, 1);
        bytes += t.tokens[i].bytes;
    }
    for (uint32_t i = STATE_FIRST; i < t.cache->a.state_count; i++)
        t.cache->a.states[i].kept = 0; // the second mask builds no state
    uint64_t built = mask_cache_stats(t.cache).work;
    assert_int_equal(matcher_mask(&m, words), MATCHER_OK);
    assert_in_range(mask_cache_stats(t.cache).work - built, bytes / 4, bytes);
    matcher_end(&m);
    mask_cache_destroy(t.cache);
    vocabulary_unref(t.v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tails_depend_on_the_state),
        cmocka_unit_test(test_work_of_tails_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
