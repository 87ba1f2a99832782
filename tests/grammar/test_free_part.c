// SPDX-License-Identifier: Apache-2.0
// Free parts: which marker ends a free part and where, compared with a search over all positions;
// markers that are required, that count only at the beginning, or that are special tokens.
#include "base/arena.h"
#include "runtime/grammar/matcher.h"
#include "tests/grammar/matcher_looks.h"
#include "tests/grammar/oracle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

enum { BYTES_END = 256 };

// Creates a vocabulary with one token for each byte.
static struct vocabulary *byte_vocabulary(void)
{
    static char store[256];
    static struct text tokens[256];
    int32_t end = BYTES_END;
    for (uint32_t i = 0; i < 256; i++) {
        store[i] = (char)i;
        tokens[i] = text_span(store + i, 1);
    }
    struct vocabulary_args args = {257, tokens, 256, NULL, &end, 1};
    return vocabulary_create(&args);
}

static uint32_t literal(struct grammar_builder *b, const char *text)
{
    return grammar_literal(b, text_of(text));
}

// Creates a mask cache that owns the only reference to its grammar.
static struct mask_cache *cache_of(struct grammar_builder *b, uint32_t root, struct vocabulary *v)
{
    struct error err = {0};
    struct grammar *g;
    if (grammar_finish(b, root, &g, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    struct mask_cache *c = mask_cache_create(g, v, NULL);
    grammar_unref(g);
    return c;
}

// Free text is followed by brackets after the marker, also if the marker is a special token.
static void test_free_parts_end_at_the_marker(void **state)
{
    (void)state;
    struct text tokens[] = {text_of("a"),  text_of("<c"), text_of("<c>"),   text_of(">"),
                            text_of(">["), text_of(">x"), {NULL, 0},        {NULL, 0},
                            text_of("["),  text_of("]"),  text_of("a\xFF"), {NULL, 0}};
    struct text specials[] = {{0}, {0}, {0}, {0}, {0}, {0}, text_of("<c>"), text_of("<other>"),
                              {0}, {0}, {0}, {0}};
    int32_t end = 12;
    struct vocabulary_args args = {13, tokens, 12, specials, &end, 1};
    struct vocabulary *v = vocabulary_create(&args);
    struct grammar_builder *b = grammar_builder_create(NULL);
    struct grammar_marker markers[] = {
        {.text = text_of("<c>"), .then = literal(b, "[]")},
        // only the special token, not its text
        {.text = text_of("\xFF<other>"), .then = literal(b, "]")},
    };
    struct mask_cache *c =
        cache_of(b, grammar_free_part(b, &(struct grammar_free_part){markers, 2, false}), v);
    static const struct {
        int32_t tokens[6]; // -1: end of the list
        uint32_t mask;
        bool needed;
    } cases[] = {
        // all tokens with bytes and the end of the answer, but no token with byte FF
        {{-1}, 0x13FF, false},
        {{0, 5, 3, -1}, 0x13FF, false},
        {{1, -1}, 0x13FF & ~(1u << 5), true}, // after "<c", the token ">x" would leave the grammar
        {{1, 0, -1}, 0x13FF, false},
        {{1, 1, -1}, 0x13FF & ~(1u << 5), true},
        {{1, 4, -1}, 1u << 9, true},
        {{2, -1}, 1u << 8, true},
        {{0, 6, -1}, 1u << 8, true}, // the marker as one special token
        {{7, -1}, 1u << 9, true},
        {{1, 3, 8, 9, -1}, 1u << 12, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct matcher m;
        uint32_t words[1];
        matcher_init(&m, c);
        for (int k = 0; cases[i].tokens[k] >= 0; k++)
            assert_true(matcher_accept(&m, cases[i].tokens[k]));
        assert_int_equal(matcher_mask(&m, words), MATCHER_OK);
        assert_int_equal(words[0], cases[i].mask);
        assert_int_equal(matcher_needs_mask(&m), cases[i].needed);
        matcher_end(&m);
    }
    mask_cache_destroy(c);
    vocabulary_unref(v);
}

enum { MARKERS = 4, TEXT = 16 };

// Reference: random markers over "ab ", and a search for a text's first marker at all positions.
struct search {
    char store[MARKERS][8];
    struct grammar_marker markers[MARKERS];
    uint32_t count;
};

static void search_make(struct search *s, struct grammar_builder *b, uint64_t *seed)
{
    static const char *const thens[MARKERS] = {"0", "1", "2", "3"};
    s->count = 1 + oracle_random(seed, MARKERS);
    for (uint32_t i = 0; i < s->count; i++) {
        uint32_t bytes = 1 + oracle_random(seed, 4);
        for (uint32_t k = 0; k < bytes; k++)
            s->store[i][k] =
                k > 0 && oracle_random(seed, 6) == 0 ? ' ' : "ab"[oracle_random(seed, 2)];
        s->markers[i] = (struct grammar_marker){.text = text_span(s->store[i], bytes),
                                                .then = literal(b, thens[i]),
                                                .first = oracle_random(seed, 3) == 0};
    }
}

static bool ends_here(const struct grammar_marker *marker, struct text text)
{
    size_t bytes = marker->text.bytes;
    if (bytes > text.bytes || memcmp(text.at + text.bytes - bytes, marker->text.at, bytes) != 0)
        return false;
    for (size_t i = 0; i < text.bytes - bytes && marker->first; i++)
        if (text.at[i] != ' ')
            return false;
    return true;
}

// Returns the markers that end first, as bits, and their end in `end`. Returns 0 if there is none.
static uint32_t search_find(const struct search *s, struct text text, size_t *end)
{
    for (*end = 1; *end <= text.bytes; (*end)++) {
        uint32_t found = 0;
        size_t longest = 0;
        for (uint32_t i = 0; i < s->count; i++) {
            size_t bytes = s->markers[i].text.bytes;
            if (!ends_here(&s->markers[i], text_span(text.at, *end)) || bytes < longest)
                continue;
            found = bytes > longest ? 1u << i : found | 1u << i;
            longest = bytes;
        }
        if (found != 0)
            return found;
    }
    return 0;
}

static void compare_text(const struct search *s, struct mask_cache *c, struct text text, bool must)
{
    struct matcher m;
    size_t end, bytes = 0;
    uint32_t found = search_find(s, text, &end), next = 0, words[9];
    matcher_init(&m, c);
    while (bytes < text.bytes && matcher_accept_bytes(&m, text_span(text.at + bytes, 1)))
        bytes++;
    if (bytes != (found ? end : text.bytes))
        fail_msg("'%.*s' is read up to %zu, not %zu", (int)text.bytes, text.at, bytes, end);
    assert_int_equal(matcher_may_end(&m), !found && !must);
    if (found) {
        assert_int_equal(matcher_mask(&m, words), MATCHER_OK);
        for (uint32_t i = 0; i < MARKERS; i++)
            next |= (words['0' / 32] >> (('0' + i) % 32) & 1) << i;
        assert_int_equal(next, found);
    } else {
        assert_int_equal(matcher_needs_mask(&m), must);
    }
    matcher_end(&m);
}

// The text goes on as the marker that ends first requires, whatever bytes the markers share.
static void test_the_marker_that_ends_first_decides(void **state)
{
    (void)state;
    struct vocabulary *v = byte_vocabulary();
    uint64_t seed = 31;
    for (uint32_t round = 0; round < 150; round++) {
        struct grammar_builder *b = grammar_builder_create(NULL);
        struct search s;
        bool must = round % 3 == 0;
        search_make(&s, b, &seed);
        if (must) // at least one marker must stay possible after other text
            s.markers[0].first = false;
        uint32_t root = grammar_free_part(b, &(struct grammar_free_part){s.markers, s.count, must});
        struct mask_cache *c = cache_of(b, root, v);
        for (uint32_t i = 0; i < 60; i++) {
            char text[TEXT];
            uint32_t bytes = oracle_random(&seed, TEXT);
            for (uint32_t k = 0; k < bytes; k++)
                text[k] = "aab "[oracle_random(&seed, 4)];
            compare_text(&s, c, text_span(text, bytes), must);
        }
        mask_cache_destroy(c);
    }
    vocabulary_unref(v);
}

// Reasoning up to its end mark, inside of which call marks are plain text, then a call, which is
// required or optional.
static void test_free_part_before_another(void **state)
{
    (void)state;
    struct vocabulary *v = byte_vocabulary();
    for (int must = 0; must < 2; must++) {
        struct grammar_builder *b = grammar_builder_create(NULL);
        struct grammar_marker calls = {.text = text_of("<c>"), .then = literal(b, "{}")};
        struct grammar_marker over = {
            .text = text_of("</t>"),
            .then = grammar_free_part(b, &(struct grammar_free_part){&calls, 1, must != 0})};
        uint32_t root = grammar_free_part(b, &(struct grammar_free_part){&over, 1, must != 0});
        struct mask_cache *c = cache_of(b, root, v);
        static const char text[] = "I may <c>all</t> or <c>{}";
        struct matcher m;
        matcher_init(&m, c);
        for (size_t i = 0; i < sizeof text - 1; i++) {
            assert_int_equal(matcher_may_end(&m), !must && i < 23);
            assert_true(matcher_accept_bytes(&m, text_span(text + i, 1)));
        }
        assert_true(matcher_must_end(&m));
        matcher_end(&m);
        mask_cache_destroy(c);
    }
    vocabulary_unref(v);
}

static void test_a_free_part_without_markers_is_any_text(void **state)
{
    (void)state;
    struct vocabulary *v = byte_vocabulary();
    struct grammar_builder *b = grammar_builder_create(NULL);
    struct mask_cache *c = cache_of(b, grammar_free_part(b, &(struct grammar_free_part){0}), v);
    struct matcher m;
    matcher_init(&m, c);
    assert_true(matcher_accept_bytes(&m, text_of("anything \xFE")));
    assert_true(matcher_may_end(&m));
    assert_false(matcher_needs_mask(&m));
    matcher_end(&m);
    mask_cache_destroy(c);
    vocabulary_unref(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_free_parts_end_at_the_marker),
        cmocka_unit_test(test_the_marker_that_ends_first_decides),
        cmocka_unit_test(test_free_part_before_another),
        cmocka_unit_test(test_a_free_part_without_markers_is_any_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
