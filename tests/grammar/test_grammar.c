// SPDX-License-Identifier: Apache-2.0
// Grammars compared with the slowest and simplest matcher (oracle.c): random trees, every token of
// a small vocabulary in every state, intersections and differences of two expressions, limits and
// errors.
#include "base/arena.h"
#include "base/utf8.h"
#include "runtime/grammar/matcher.h"
#include "tests/grammar/matcher_looks.h"
#include "tests/grammar/oracle.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

enum { TOKENS = 150, VOCAB = 157, END_ID = 150, OTHER_END = 152, NEVER = 151 };

// Creates tokens of one to six bytes over the letters of the trees. Some occur twice, some contain
// incomplete characters.
static struct vocabulary *words_vocabulary(uint64_t seed)
{
    static const char *pieces[] = {
        "a",        "b",        "c",    "\xC3",  "\xA9",     "\xE2\x82",     "\xAC",
        "\xF0\x9F", "\x98\x80", "\"",   "\\",    " ",        "\x1F",         "\xC3\xA9",
        "aaaa",     "\xED\x9F", "\xFE", "abcab", "aaaaaaaa", "bbbbbbbbbbbb", "\xED\xA0"};
    char store[TOKENS][80];
    struct text tokens[TOKENS + 2];
    int32_t ends[] = {END_ID, OTHER_END, -1, 4000};
    for (uint32_t t = 0; t < TOKENS; t++) {
        size_t bytes = 0;
        for (uint32_t i = 0; i <= (t < 21 ? 0 : oracle_random(&seed, 3)); i++) {
            struct text piece = text_of(pieces[t < 21 ? t : oracle_random(&seed, 21)]);
            memcpy(store[t] + bytes, piece.at, piece.bytes);
            bytes += piece.bytes;
        }
        tokens[t] = text_span(store[t], bytes);
    }
    tokens[END_ID] = text_of("a");
    tokens[NEVER] = (struct text){NULL, 0};
    struct vocabulary_args args = {VOCAB, tokens, TOKENS + 2, NULL, ends, 4};
    return vocabulary_create(&args);
}

static struct grammar *tree_grammar(const struct oracle *o)
{
    struct error err = {0};
    struct grammar *g;
    struct grammar_builder *b = grammar_builder_create(NULL);
    if (grammar_finish(b, oracle_build(o, b), &g, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return g;
}

static bool bit(const uint32_t *words, uint32_t id)
{
    return words[id / 32] >> (id % 32) & 1;
}

// Compares every bit of the mask after `prefix` with the tree.
static void compare_mask(const struct oracle *o, struct vocabulary *v, struct matcher *m,
                         const char *prefix, size_t bytes)
{
    uint32_t words[(VOCAB + 31) / 32], any = 0;
    memset(words, 0xA5, sizeof words);
    enum matcher_result result = matcher_mask(m, words);
    for (uint32_t id = 0; id < VOCAB; id++) {
        struct text token = vocabulary_token(v, (int32_t)id);
        char text[256];
        if (id == END_ID || id == OTHER_END || bytes + token.bytes > ORACLE_TEXT_MAX)
            continue;
        memcpy(text, prefix, bytes);
        if (token.bytes > 0)
            memcpy(text + bytes, token.at, token.bytes);
        bool want = token.bytes > 0 && oracle_match(o, text_span(text, bytes + token.bytes)).begins;
        if (bit(words, id) != want)
            fail_msg("tree %llu, after %.*s: token %u is %d", (unsigned long long)o->number,
                     (int)bytes, prefix, id, bit(words, id));
        any |= want;
    }
    bool ends = oracle_match(o, text_span(prefix, bytes)).matches;
    assert_int_equal(matcher_may_end(m), ends);
    assert_int_equal(result, ends || any ? MATCHER_OK : MATCHER_STUCK);
    assert_int_equal(bit(words, END_ID), ends || !any);
    assert_int_equal(bit(words, OTHER_END), bit(words, END_ID));
    assert_int_equal(words[VOCAB / 32] >> (VOCAB % 32), 0);
}

// Walks once through the grammar by tokens that it allows.
static void walk_tree(const struct oracle *o, struct vocabulary *v, struct mask_cache *c,
                      uint64_t seed)
{
    struct matcher m;
    char text[256];
    size_t bytes = 0;
    matcher_init(&m, c);
    for (int step = 0; step < 12 && bytes < 24; step++) {
        compare_mask(o, v, &m, text, bytes);
        uint32_t from = oracle_random(&seed, TOKENS), id = 0;
        for (uint32_t i = 0; i < TOKENS; i++) {
            id = (from + i) % TOKENS;
            struct text token = vocabulary_token(v, (int32_t)id);
            memcpy(text + bytes, token.at, token.bytes);
            bool want = oracle_match(o, text_span(text, bytes + token.bytes)).begins;
            assert_int_equal(matcher_accept(&m, (int32_t)id), want);
            if (want)
                break;
            id = TOKENS;
        }
        if (id == TOKENS)
            break;
        bytes += vocabulary_token(v, (int32_t)id).bytes;
    }
    assert_false(matcher_accept(&m, NEVER));
    assert_false(matcher_accept(&m, VOCAB - 1));
    matcher_end(&m);
}

static void test_masks_match_the_reference(void **state)
{
    (void)state;
    static struct oracle o;
    for (uint64_t seed = 0; seed < 180; seed++) {
        struct vocabulary *v = words_vocabulary(seed);
        if (seed < 150)
            oracle_grow(&o, seed, seed % 2);
        else
            oracle_grow_once(&o, seed);
        struct grammar *g = tree_grammar(&o);
        struct mask_cache *c = mask_cache_create(g, v, NULL);
        for (uint64_t walk = 0; walk < 4; walk++)
            walk_tree(&o, v, c, seed * 100 + walk);
        mask_cache_destroy(c);
        grammar_unref(g);
        vocabulary_unref(v);
    }
}

// Compares the product of two trees with the trees on strings of up to five letters.
static void compare_product(const struct oracle *x, const struct oracle *y, struct grammar *g,
                            bool except, uint64_t seed)
{
    static const char letters[] = "abc";
    struct vocabulary *v = words_vocabulary(1);
    struct mask_cache *c = g ? mask_cache_create(g, v, NULL) : NULL;
    for (uint32_t bytes = 0, count = 1; bytes <= 5; bytes++, count *= 3)
        for (uint32_t i = 0; i < count; i++) {
            char text[8];
            for (uint32_t k = 0, rest = i; k < bytes; k++, rest /= 3)
                text[k] = letters[rest % 3];
            struct text in = text_span(text, bytes);
            bool want = oracle_match(x, in).matches && oracle_match(y, in).matches != except;
            struct matcher m;
            if (c)
                matcher_init(&m, c);
            bool got = c && matcher_accept_bytes(&m, in) && matcher_may_end(&m);
            if (c)
                matcher_end(&m);
            if (got != want)
                fail_msg("seed %llu: %.*s %d", (unsigned long long)seed, (int)bytes, text, got);
        }
    mask_cache_destroy(c);
    vocabulary_unref(v);
}

static void test_intersections_and_differences(void **state)
{
    (void)state;
    static struct oracle x, y;
    uint32_t empty = 0;
    for (uint64_t seed = 0; seed < 120; seed++) {
        bool except = seed % 2;
        struct error err;
        struct grammar *g = NULL;
        struct grammar_builder *b = grammar_builder_create(NULL);
        oracle_grow(&x, 2 * seed + 5000, false);
        oracle_grow(&y, 2 * seed + 5001, false);
        uint32_t out, one = oracle_build(&x, b), other = oracle_build(&y, b);
        enum status status = except ? grammar_except(b, one, other, &out, &err)
                                    : grammar_both(b, one, other, &out, &err);
        if (status == STATUS_TOO_LARGE) { // the product of two long counts
            grammar_builder_destroy(b);
            continue;
        }
        assert_int_equal(status, STATUS_OK);
        empty += out == GRAMMAR_NOTHING;
        if (out == GRAMMAR_NOTHING)
            grammar_builder_destroy(b);
        else
            assert_int_equal(grammar_finish(b, out, &g, &err), STATUS_OK);
        compare_product(&x, &y, g, except, seed);
        grammar_unref(g);
    }
    assert_in_range(empty, 1, 100);
}

static void test_expressions_match_before_finish(void **state)
{
    (void)state;
    static struct oracle o;
    uint64_t seed = 1;
    for (uint64_t tree = 0; tree < 30; tree++) {
        struct error err;
        struct grammar_builder *b = grammar_builder_create(NULL);
        oracle_grow(&o, 9000 + tree, tree % 2);
        uint32_t e = oracle_build(&o, b);
        for (int i = 0; i < 20; i++) {
            char text[8];
            uint32_t bytes = oracle_random(&seed, 8);
            bool matches;
            for (size_t k = 0; k < sizeof text; k++)
                text[k] = (char)('a' + oracle_random(&seed, 3));
            assert_int_equal(grammar_matches(b, e, text_span(text, bytes), &matches, &err),
                             STATUS_OK);
            assert_int_equal(matches, oracle_match(&o, text_span(text, bytes)).matches);
        }
        grammar_builder_destroy(b);
    }
}

// A product that is too large leaves the builder unchanged.
static void test_large_products_are_refused(void **state)
{
    (void)state;
    static const struct grammar_range any = {0, 0x10FFFF};
    struct error err;
    struct grammar *g;
    struct grammar_builder *b = grammar_builder_create(NULL);
    uint32_t out, one = grammar_chars(b, &any, 1);
    uint32_t pairs = grammar_repeat(b, grammar_join(b, one, one), 0, 100000);
    uint32_t count = grammar_repeat(b, one, 7, 90000);
    assert_int_equal(grammar_both(b, pairs, count, &out, &err), STATUS_TOO_LARGE);
    assert_non_null(strstr(err.text, "50000 states"));
    assert_int_equal(out, GRAMMAR_NOTHING);
    assert_false(grammar_failed(b));
    assert_int_equal(grammar_finish(b, pairs, &g, &err), STATUS_OK);
    grammar_unref(g);
}

// The members that the automata of a product examine count as work, not only their steps.
static void test_product_members_count_as_work(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct error err;
        struct grammar_limits limits = {.work_max = i == 0 ? 100 * 1000 * 1000 : 6 * 1000 * 1000};
        struct grammar_builder *b = grammar_builder_create(&limits);
        uint32_t out, any = grammar_byte(b, ' ', '~'), ways = GRAMMAR_NOTHING;
        for (uint32_t k = 0; k < 200; k++) {
            char word[16];
            struct text text = text_span(word, (size_t)snprintf(word, sizeof word, "w%u", k));
            uint32_t some = grammar_repeat(b, any, k % 30 + 1, k % 30 + 8 + k % 7);
            ways = grammar_either(b, grammar_join(b, some, grammar_literal(b, text)), ways);
        }
        enum status status = grammar_both(b, ways, grammar_repeat(b, any, 0, 50), &out, &err);
        assert_int_equal(status, i == 0 ? STATUS_OK : STATUS_TOO_LARGE);
        assert_int_equal(grammar_failed(b), i == 1);
        grammar_builder_destroy(b);
    }
}

static uint32_t length_of(struct grammar *g, struct vocabulary *v, const char *text, bool *ends)
{
    struct mask_cache *c = mask_cache_create(g, v, NULL);
    struct matcher m;
    uint32_t bytes = 0;
    matcher_init(&m, c);
    while (text[bytes] != '\0' && matcher_accept_bytes(&m, text_span(text + bytes, 1)))
        bytes++;
    *ends = matcher_may_end(&m);
    matcher_end(&m);
    mask_cache_destroy(c);
    return bytes;
}

static struct grammar *finished(struct grammar_builder *b, uint32_t root)
{
    struct error err = {0};
    struct grammar *g;
    if (grammar_finish(b, root, &g, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return g;
}

static bool every_point; // true: compare_chars compares all code points

// Returns true if a code point is near a bound of a range or of a UTF-8 length, or one of the
// sample of all others.
static bool point_chosen(uint32_t point, const struct grammar_range *ranges, uint32_t count)
{
    enum { NEAR = 70, SAMPLE = 61 }; // continuation bytes repeat after 64 code points
    static const uint32_t bounds[] = {0, 0x80, 0x800, 0xD800, 0xE000, 0x10000, 0x10FFFF};
    if (every_point || point % SAMPLE == 0)
        return true;
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        if (point + NEAR > bounds[i] && point < bounds[i] + NEAR)
            return true;
    for (uint32_t r = 0; r < count; r++)
        for (uint32_t i = 0; i < 2; i++) {
            uint32_t bound = i == 0 ? ranges[r].first : ranges[r].last;
            if (point + NEAR > bound && point < (uint64_t)bound + NEAR)
                return true;
        }
    return false;
}

// Compares code points with the ranges, for a list of ranges or its complement.
static void compare_chars(const struct grammar_range *ranges, uint32_t count, bool except)
{
    struct vocabulary *v = words_vocabulary(1);
    struct grammar_builder *b = grammar_builder_create(NULL);
    uint32_t e = except ? grammar_chars_except(b, ranges, count) : grammar_chars(b, ranges, count);
    struct grammar *g = finished(b, e);
    struct mask_cache *c = mask_cache_create(g, v, NULL);
    struct matcher start, m;
    matcher_init(&start, c);
    for (uint32_t point = 0; point <= 0x10FFFF; point++) {
        char utf8[4];
        bool want = false;
        for (uint32_t r = 0; r < count; r++)
            want |= point >= ranges[r].first && point <= ranges[r].last;
        if ((point >= 0xD800 && point <= 0xDFFF) || !point_chosen(point, ranges, count))
            continue;
        matcher_copy(&m, &start);
        bool got = matcher_accept_bytes(&m, text_span(utf8, utf8_write(point, utf8))) &&
                   matcher_may_end(&m) && matcher_must_end(&m);
        matcher_end(&m);
        if (got != (want != except))
            fail_msg("U+%04X is %d", point, got);
    }
    static const char *const wrong[] = {
        "\xC0\x80",         "\xC1\xBF",         "\xE0\x9F\xBF", "\xED\xA0\x80",
        "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80",     "\x80"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(matcher_accept_bytes(&start, text_of(wrong[i])));
    matcher_end(&start);
    mask_cache_destroy(c);
    grammar_unref(g);
    vocabulary_unref(v);
}

static void test_code_points_become_utf8(void **state)
{
    (void)state;
    static const struct grammar_range ranges[][4] = {
        {{0x41, 0x5A}, {0x61, 0x7A}, {0xC0, 0x17F}, {0x4E00, 0x9FFF}},
        {{0x10000, 0x10FFFF}, {0x7FF, 0x800}, {0x7F, 0x81}, {0xFFFD, 0xFFFF}},
        {{0xD7FF, 0xE000}, {0, 0}, {0x1F5FF, 0x1F601}, {0x12345, 0x23456}},
        {{0xD800, 0xDFFF}, {0xFF, 0xFF}, {0xFF, 0x101}, {0x110000, 0x7FFFFFFF}},
    };
    for (int i = 0; i < 4; i++)
        compare_chars(ranges[i], 4, i % 2);
    struct grammar_builder *b = grammar_builder_create(NULL);
    assert_int_equal(grammar_chars(b, NULL, 0), GRAMMAR_NOTHING);
    struct grammar_range surrogates = {0xD800, 0xDFFF}, all = {0, 0x10FFFF};
    assert_int_equal(grammar_chars(b, &surrogates, 1), GRAMMAR_NOTHING);
    assert_int_equal(grammar_chars_except(b, &all, 1), GRAMMAR_NOTHING);
    assert_int_equal(grammar_chars_except(b, NULL, 0), grammar_chars(b, &all, 1));
    grammar_builder_destroy(b);
}

static void test_choices_share_prefixes(void **state)
{
    (void)state;
    enum { STRINGS = 3000 };
    static char store[STRINGS][12];
    static struct text strings[STRINGS + 2];
    struct vocabulary *v = words_vocabulary(1);
    for (int i = 0; i < STRINGS; i++)
        strings[i] = text_span(store[i], (size_t)snprintf(store[i], 12, "word%d", i * 7));
    strings[STRINGS] = strings[5];
    strings[STRINGS + 1] = text_of("");
    struct grammar_builder *b = grammar_builder_create(NULL);
    struct grammar *g = finished(b, grammar_choice(b, strings, STRINGS + 2));
    assert_in_range(grammar_bytes(g), 1, 400000);
    bool ends;
    static const struct {
        const char *text;
        uint32_t bytes;
        bool ends;
    } cases[] = {{"", 0, true},          {"word", 4, false},      {"word0", 5, true},
                 {"word7", 5, true},     {"word8", 5, false},     {"word20993", 9, true},
                 {"word21000", 8, true}, {"word209930", 9, true}, {"x", 0, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(length_of(g, v, cases[i].text, &ends), cases[i].bytes);
        assert_int_equal(ends, cases[i].ends);
    }
    grammar_unref(g);
    vocabulary_unref(v);
}

static void test_large_repeats_stay_small(void **state)
{
    (void)state;
    enum { MOST = 100000 };
    static char text[MOST + 2];
    struct vocabulary *v = words_vocabulary(1);
    struct grammar_builder *b = grammar_builder_create(NULL);
    // Counts with many ways to read a text: one or two letters per repetition.
    uint32_t pair =
        grammar_either(b, grammar_literal(b, text_of("a")), grammar_literal(b, text_of("aa")));
    struct grammar *g = finished(b, grammar_repeat(b, pair, 1000, MOST / 2));
    assert_in_range(grammar_bytes(g), 1, 4096);
    bool ends;
    memset(text, 'a', MOST + 1);
    assert_int_equal(length_of(g, v, text, &ends), MOST);
    assert_true(ends);
    text[999] = 'b';
    assert_int_equal(length_of(g, v, text, &ends), 999);
    assert_false(ends);
    grammar_unref(g);
    vocabulary_unref(v);
}

// Thousands of alternatives with a common beginning that are not built as a choice are all
// followed, also in a small cache.
static void test_thousands_of_alternatives(void **state)
{
    (void)state;
    enum { WAYS = 6000 };
    static uint32_t ways[WAYS];
    struct vocabulary *v = words_vocabulary(1);
    struct grammar_builder *b = grammar_builder_create(NULL);
    for (uint32_t i = 0; i < WAYS; i++) {
        char text[16];
        ways[i] = grammar_literal(b, text_span(text, (size_t)snprintf(text, 16, "x%u.", i)));
    }
    struct grammar *g = finished(b, grammar_either_of(b, ways, WAYS));
    struct mask_cache *c = mask_cache_create(g, v, NULL);
    struct matcher m;
    matcher_init(&m, c);
    assert_true(matcher_accept_bytes(&m, text_of("x59")));
    assert_false(matcher_accept_bytes(&m, text_of("999")));
    assert_true(matcher_accept_bytes(&m, text_of("99.")));
    assert_true(matcher_must_end(&m));
    matcher_end(&m);
    mask_cache_destroy(c);
    grammar_unref(g);
    vocabulary_unref(v);
}

// One or four letters per repetition, six repetitions: the lengths in between do not match.
static void test_counts_with_gaps(void **state)
{
    (void)state;
    struct vocabulary *v = words_vocabulary(1);
    struct grammar_builder *b = grammar_builder_create(NULL);
    uint32_t turn =
        grammar_either(b, grammar_literal(b, text_of("a")), grammar_literal(b, text_of("aaaa")));
    struct grammar *g = finished(b, grammar_repeat(b, turn, 6, 6));
    for (uint32_t bytes = 0; bytes <= 24; bytes++) {
        char text[25] = {0};
        bool ends;
        memset(text, 'a', bytes);
        assert_int_equal(length_of(g, v, text, &ends), bytes);
        assert_int_equal(ends, bytes >= 6 && bytes % 3 == 0);
    }
    grammar_unref(g);
    vocabulary_unref(v);
}

static struct grammar *brackets_grammar(void)
{
    struct grammar_builder *b = grammar_builder_create(NULL);
    uint32_t rule, list = grammar_rule(b, text_of("list"), &rule);
    uint32_t parts[] = {grammar_literal(b, text_of("(")), grammar_optional(b, list),
                        grammar_literal(b, text_of(")"))};
    grammar_rule_set(b, rule, grammar_join_all(b, parts, 3));
    return finished(b, list);
}

static void test_nesting_is_followed_and_bounded(void **state)
{
    (void)state;
    enum { DEEP = 3000, TOO_DEEP = 20000 };
    static char text[TOO_DEEP + 1];
    struct vocabulary *v = words_vocabulary(1);
    struct grammar *g = brackets_grammar();
    bool ends;
    memset(text, '(', DEEP);
    memset(text + DEEP, ')', DEEP + 1);
    assert_int_equal(length_of(g, v, text, &ends), 2 * DEEP);
    assert_true(ends);
    memset(text, '(', TOO_DEEP);
    uint32_t bytes = length_of(g, v, text, &ends);
    assert_in_range(bytes, DEEP, 4000);
    memset(text + bytes, ')', bytes + 1); // every open bracket can still be closed
    assert_int_equal(length_of(g, v, text, &ends), 2 * bytes);
    assert_true(ends);
    grammar_unref(g);
    vocabulary_unref(v);
}

// Brackets must contain something: at the deepest level there is still space for it.
static void test_deepest_level_can_be_closed(void **state)
{
    (void)state;
    enum { TOO_DEEP = 5000 };
    static char text[2 * TOO_DEEP + 8];
    struct vocabulary *v = words_vocabulary(1);
    static const char *const inside[] = {"ab", "abcaaaabbbb", "a"};
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
        struct grammar_builder *b = grammar_builder_create(NULL);
        uint32_t rule, list = grammar_rule(b, text_of("list"), &rule);
        uint32_t parts[] = {grammar_literal(b, text_of("(")),
                            grammar_repeat(b, list, 1, 1 + (uint32_t)i),
                            grammar_literal(b, text_of(")"))};
        uint32_t leaf = grammar_literal(b, text_of(inside[i]));
        for (int k = 0; k < 9; k++) // parts that nest to the left
            leaf = grammar_join(b, leaf, grammar_byte(b, 'c', 'd'));
        grammar_rule_set(b, rule, grammar_either(b, grammar_join_all(b, parts, 3), leaf));
        struct grammar *g = finished(b, list);
        bool ends;
        memset(text, '(', TOO_DEEP);
        text[TOO_DEEP] = '\0';
        uint32_t levels = length_of(g, v, text, &ends);
        assert_in_range(levels, 1900, 4000);
        int bytes = snprintf(text + levels, 40, "%sccccccccc", inside[i]);
        memset(text + levels + bytes, ')', levels);
        text[2 * levels + (uint32_t)bytes] = '\0';
        assert_int_equal(length_of(g, v, text, &ends), 2 * levels + (uint32_t)bytes);
        assert_true(ends);
        grammar_unref(g);
    }
    vocabulary_unref(v);
}

// Returns "(" inside ")". The ")" closes a level.
static uint32_t level_around(struct grammar_builder *b, uint32_t inside)
{
    uint32_t parts[] = {grammar_literal(b, text_of("(")), inside,
                        grammar_level(b, grammar_literal(b, text_of(")")))};
    return grammar_join_all(b, parts, 3);
}

// A required part inside of the deepest level has levels of its own, and may occur twice.
static void test_levels_are_bounded(void **state)
{
    (void)state;
    enum { TOO_DEEP = 300 };
    struct vocabulary *v = words_vocabulary(1);
    for (uint32_t inner = 0; inner < 3; inner++) {
        struct grammar_builder *b = grammar_builder_create(NULL);
        uint32_t rule, list = grammar_rule(b, text_of("list"), &rule);
        uint32_t leaf = grammar_literal(b, text_of("a"));
        char text[3 * TOO_DEEP];
        bool ends;
        for (uint32_t i = 0; i < inner; i++)
            leaf = level_around(b, leaf);
        leaf = grammar_join(b, grammar_literal(b, text_of("b")), leaf);
        uint32_t either = grammar_either(b, list, leaf);
        grammar_rule_set(b, rule, level_around(b, grammar_repeat(b, either, 1, 2)));
        struct grammar *g = finished(b, list);
        memset(text, '(', TOO_DEEP);
        text[TOO_DEEP] = '\0';
        uint32_t levels = length_of(g, v, text, &ends);
        assert_int_equal(levels, GRAMMAR_LEVELS_MAX - inner);
        uint32_t bytes = levels;
        for (int twice = 0; twice < 2; twice++)
            bytes +=
                (uint32_t)sprintf(text + bytes, "b%.*sa%.*s", (int)inner, "((", (int)inner, "))");
        memset(text + bytes, ')', levels);
        text[bytes + levels] = '\0';
        assert_int_equal(length_of(g, v, text, &ends), bytes + levels);
        assert_true(ends);
        grammar_unref(g);
    }
    vocabulary_unref(v);
}

static void test_required_levels_are_bounded(void **state)
{
    (void)state;
    for (uint32_t levels = GRAMMAR_LEVELS_MAX; levels <= GRAMMAR_LEVELS_MAX + 1; levels++) {
        struct grammar_builder *b = grammar_builder_create(NULL);
        struct error err = {0};
        struct grammar *g;
        uint32_t e = GRAMMAR_EMPTY;
        for (uint32_t i = 0; i < levels; i++)
            e = level_around(b, e);
        assert_int_equal(grammar_finish(b, e, &g, &err),
                         levels == GRAMMAR_LEVELS_MAX ? STATUS_OK : STATUS_TOO_LARGE);
        grammar_unref(g);
    }
}

// Text that nests deeper than any list may is refused when the grammar is finished.
static void test_deeply_nested_joins_are_refused(void **state)
{
    (void)state;
    for (uint32_t levels = 3000; levels <= 5000; levels += 2000) {
        struct error err;
        struct grammar *g;
        struct grammar_builder *b = grammar_builder_create(NULL);
        uint32_t e = grammar_literal(b, text_of("x"));
        for (uint32_t i = 0; i < levels; i++)
            e = grammar_join(b, e, grammar_literal(b, text_of(i % 2 ? "a" : "b")));
        enum status status = grammar_finish(b, e, &g, &err);
        assert_int_equal(status, levels < 4000 ? STATUS_OK : STATUS_TOO_LARGE);
        if (status != STATUS_OK)
            assert_non_null(strstr(err.text, "nested too deep"));
        grammar_unref(g);
    }
}

static void finish_fails(struct grammar_builder *b, uint32_t root, enum status status,
                         const char *sentence)
{
    struct error err;
    struct grammar *g = (struct grammar *)&err;
    assert_int_equal(grammar_finish(b, root, &g, &err), status);
    assert_null(g);
    assert_string_equal(err.text, sentence);
}

static void test_errors_name_the_rule(void **state)
{
    (void)state;
    struct grammar_builder *b = grammar_builder_create(NULL);
    uint32_t one, other, x = grammar_rule(b, text_of("x"), &one),
                         y = grammar_rule(b, text_of("y"), &other);
    finish_fails(b, x, STATUS_INVALID, "the rule x is used and not defined");

    b = grammar_builder_create(NULL);
    x = grammar_rule(b, text_of("x"), &one);
    y = grammar_rule(b, text_of("y"), &other);
    grammar_rule_set(b, one,
                     grammar_join(b, grammar_optional(b, grammar_literal(b, text_of("-"))), y));
    grammar_rule_set(b, other,
                     grammar_either(b, grammar_literal(b, text_of("b")), grammar_join(b, x, x)));
    struct error err;
    struct grammar *g;
    assert_int_equal(grammar_finish(b, y, &g, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, " begins with itself (left recursion): write it as a repeat"));

    b = grammar_builder_create(NULL);
    x = grammar_rule(b, text_of("x"), &one);
    grammar_rule_set(b, one, grammar_join(b, grammar_literal(b, text_of("a")), x));
    finish_fails(b, x, STATUS_INVALID, "no text at all matches the grammar");

    b = grammar_builder_create(&(struct grammar_limits){.work_max = 1000});
    for (int i = 0; i < 1000; i++)
        x = grammar_literal(b, text_of("abcdefgh"));
    assert_true(grammar_failed(b));
    finish_fails(b, x, STATUS_TOO_LARGE,
                 "the grammar takes too long to compile: make it smaller or simpler");

    b = grammar_builder_create(&(struct grammar_limits){.bytes_max = 1 << 20});
    for (uint32_t i = 0; i < 100000; i++)
        x = grammar_repeat(b, grammar_byte(b, 1, (uint8_t)(1 + i % 2)), i, i + 1);
    for (uint32_t i = 0; i < 100000; i++)
        x = grammar_join(b, grammar_byte(b, (uint8_t)i, (uint8_t)i),
                         grammar_repeat(b, grammar_byte(b, 1, 2), i, i + 7));
    assert_true(grammar_failed(b));
    assert_int_equal(grammar_finish(b, x, &g, &err), STATUS_TOO_LARGE);

    b = grammar_builder_create(NULL); // recursive, so it has no finite automaton
    x = grammar_rule(b, text_of("x"), &one);
    grammar_rule_set(
        b, one,
        grammar_join(b, grammar_literal(b, text_of("(")),
                     grammar_join(b, grammar_optional(b, x), grammar_literal(b, text_of(")")))));
    assert_int_equal(grammar_both(b, x, x, &y, &err), STATUS_UNSUPPORTED);
    assert_false(grammar_failed(b));
    grammar_builder_destroy(b);
    grammar_builder_destroy(NULL);
}

// `worked` reports the number of steps. That number is just enough as a limit, one step less is
// not.
static void test_worked_reports_the_steps(void **state)
{
    (void)state;
    uint64_t worked = 0, again = 0;
    for (int pass = 0; pass < 3; pass++) {
        struct error err;
        struct grammar *g = NULL;
        struct grammar_limits limits = {.work_max = pass == 0 ? 0 : worked - (pass == 2),
                                        .worked = pass == 0 ? &worked : &again};
        struct grammar_builder *b = grammar_builder_create(&limits);
        uint32_t x = grammar_optional(b, grammar_literal(b, text_of("abc")));
        enum status status = grammar_finish(b, grammar_repeat(b, x, 2, 7), &g, &err);
        assert_int_equal(status, pass < 2 ? STATUS_OK : STATUS_TOO_LARGE);
        grammar_unref(g);
    }
    assert_true(worked > 100);
    assert_int_equal(again, worked);
}

// The work limit may be reached at any step of a compile: the status is the same, and no memory is
// read that was not written.
static void test_work_limit_at_any_step(void **state)
{
    (void)state;
    char letters[700]; // more than malloc keeps in its caches
    uint32_t failed = 0, made = 0;
    memset(letters, 'a', sizeof letters);
    mallopt(M_PERTURB, 0x5A); // unwritten memory is no valid expression number
    for (uint64_t work = 500; made == 0; work += 500) {
        struct error err;
        struct grammar *g = NULL;
        struct grammar_builder *b =
            grammar_builder_create(&(struct grammar_limits){.work_max = work});
        uint32_t e = grammar_literal(b, text_span(letters, sizeof letters));
        enum status status = grammar_finish(b, grammar_repeat(b, e, 2, 7), &g, &err);
        made += status == STATUS_OK;
        failed += status == STATUS_TOO_LARGE;
        assert_true(status == STATUS_OK || status == STATUS_TOO_LARGE);
        assert_int_equal(g != NULL, status == STATUS_OK);
        grammar_unref(g);
    }
    mallopt(M_PERTURB, 0);
    assert_in_range(failed, 5, 1000);
}

// Alternatives that can never end are not started: x has a branch that recurses forever.
static void test_endless_alternatives_are_dropped(void **state)
{
    (void)state;
    struct vocabulary *v = words_vocabulary(1);
    struct grammar_builder *b = grammar_builder_create(NULL);
    uint32_t rule, endless = grammar_rule(b, text_of("endless"), &rule);
    grammar_rule_set(b, rule, grammar_join(b, grammar_literal(b, text_of("a")), endless));
    uint32_t root = grammar_either(
        b, grammar_join(b, grammar_literal(b, text_of("b")), endless),
        grammar_repeat(b, grammar_repeat(b, grammar_literal(b, text_of("c")), 0, 2), 2, 3));
    struct grammar *g = finished(b, root);
    bool ends;
    assert_int_equal(length_of(g, v, "ba", &ends), 0);
    assert_true(ends);
    assert_int_equal(length_of(g, v, "ccccccc", &ends), 6);
    grammar_unref(g);
    vocabulary_unref(v);
}

static void test_equal_grammars_have_equal_hashes(void **state)
{
    (void)state;
    struct grammar *g[3];
    static const char *const words[] = {"same", "same", "other"};
    for (int i = 0; i < 3; i++) {
        struct grammar_builder *b = grammar_builder_create(NULL);
        uint32_t root = grammar_repeat(b, grammar_literal(b, text_of(words[i])), 1, 9);
        if (i == 1) // an unused expression does not change the hash
            grammar_literal(b, text_of("unused"));
        g[i] = finished(b, root);
    }
    struct grammar_hash a = grammar_hash(g[0]), c = grammar_hash(g[1]), d = grammar_hash(g[2]);
    assert_memory_equal(&a, &c, sizeof a);
    assert_true(a.at[0] != d.at[0] && a.at[1] != d.at[1]);
    for (int i = 0; i < 3; i++)
        grammar_unref(g[i]);
}

// usage: test_grammar [all: every code point in test_code_points_become_utf8]
int main(int argc, char **argv)
{
    every_point = argc > 1 && strcmp(argv[1], "all") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_masks_match_the_reference),
        cmocka_unit_test(test_intersections_and_differences),
        cmocka_unit_test(test_expressions_match_before_finish),
        cmocka_unit_test(test_large_products_are_refused),
        cmocka_unit_test(test_product_members_count_as_work),
        cmocka_unit_test(test_code_points_become_utf8),
        cmocka_unit_test(test_choices_share_prefixes),
        cmocka_unit_test(test_large_repeats_stay_small),
        cmocka_unit_test(test_thousands_of_alternatives),
        cmocka_unit_test(test_counts_with_gaps),
        cmocka_unit_test(test_nesting_is_followed_and_bounded),
        cmocka_unit_test(test_levels_are_bounded),
        cmocka_unit_test(test_required_levels_are_bounded),
        cmocka_unit_test(test_deepest_level_can_be_closed),
        cmocka_unit_test(test_deeply_nested_joins_are_refused),
        cmocka_unit_test(test_errors_name_the_rule),
        cmocka_unit_test(test_work_limit_at_any_step),
        cmocka_unit_test(test_worked_reports_the_steps),
        cmocka_unit_test(test_endless_alternatives_are_dropped),
        cmocka_unit_test(test_equal_grammars_have_equal_hashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
