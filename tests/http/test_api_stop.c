// SPDX-License-Identifier: Apache-2.0
// Stop strings: the output does not depend on how the stream was split, and equals the result of a
// plain search in the complete text (leftmost match, then the longer string).
#include "api_cases.h"

#include "http/api/choice.h"

#define TEST(name) API_TEST(name, NULL)

enum { TEXT_MAX = 512 };

struct result {
    char text[TEXT_MAX];
    size_t bytes;
    bool found;
    uint32_t which, tokens;
    size_t end; // end of the match, set by search
};

static void result_add(struct result *r, struct text t)
{
    assert_true(r->bytes + t.bytes < TEXT_MAX);
    if (t.bytes > 0)
        memcpy(r->text + r->bytes, t.at, t.bytes);
    r->bytes += t.bytes;
    r->text[r->bytes] = 0;
}

// Feeds the text in pieces: if bit i of cuts is set, a piece ends after byte i.
static struct result feed(const char *text, const struct stop_strings *stops, uint64_t cuts)
{
    struct arena *arena = arena_create(0, 0);
    struct stop_scan scan;
    struct result r = {0};
    size_t n = strlen(text), from = 0;
    uint32_t ordinal = 0;

    assert_true(stop_scan_init(&scan, stops, arena, TEXT_MAX));
    for (size_t i = 0; i < n && !scan.found; i++) {
        if (i + 1 == n || (cuts >> (i % 64) & 1)) {
            result_add(&r, stop_scan_push(&scan, text_span(text + from, i + 1 - from), ++ordinal));
            from = i + 1;
        }
    }
    if (!scan.found)
        result_add(&r, stop_scan_finish(&scan));
    r.found = scan.found;
    r.which = scan.which;
    r.tokens = scan.tokens;
    arena_destroy(arena);
    return r;
}

// The reference: a search in the complete text.
static struct result search(const char *text, const struct stop_strings *stops)
{
    struct result r = {0};
    size_t n = strlen(text), longest = 0, at;

    for (at = 0; at < n && !r.found; at += !r.found) {
        for (uint32_t i = 0; i < stops->count; i++) {
            struct text s = stops->strings[i];
            if (s.bytes <= n - at && s.bytes > longest && memcmp(text + at, s.at, s.bytes) == 0) {
                r.found = true;
                r.which = i;
                longest = s.bytes;
            }
        }
    }
    r.end = at + longest;
    result_add(&r, text_span(text, stops->included ? r.end : at));
    return r;
}

// Compares the text, the stop string and the piece that completed it with the reference.
static void same(const char *text, const struct stop_strings *stops, uint64_t cuts,
                 const struct result *want)
{
    struct result got = feed(text, stops, cuts);
    uint32_t pieces = 1;
    assert_string_equal(got.text, want->text);
    assert_int_equal(got.found, want->found);
    if (!want->found)
        return;
    for (size_t i = 0; i + 1 < want->end; i++)
        pieces += (uint32_t)(cuts >> (i % 64) & 1);
    if (got.tokens != pieces)
        fail_msg("%s, cut by %llx: piece %u, not %u", text, (unsigned long long)cuts, got.tokens,
                 pieces);
    assert_true(text_equal(stops->strings[got.which], stops->strings[want->which]));
}

static struct stop_strings strings_of(const char *const *list)
{
    struct stop_strings stops = {0};
    for (; list[stops.count]; stops.count++)
        stops.strings[stops.count] = text_of(list[stops.count]);
    return stops;
}

TEST(test_cut_everywhere)
{
    static const char *const texts[] = {
        "abcabcdabcde",
        "aaaaab",
        "xaxbxaxc",
        "the end<|im_en<|im_end|>",
        "abab",
        "",
        "h\xC3\xA9llo \xF0\x9F\x98\x80 stop",
    };
    static const char *const lists[][5] = {
        {NULL},
        {"abcd", NULL},
        {"bcd", "c", NULL},
        {"aab", NULL},
        {"ab", "abc", NULL},
        {"xaxc", "a", "axb", NULL},
        {"<|im_end|>", "\xF0\x9F\x98\x80", NULL},
        {"zzz", "abab", "b", NULL},
    };
    for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
        size_t n = strlen(texts[t]);
        for (size_t l = 0; l < sizeof lists / sizeof lists[0]; l++) {
            struct stop_strings stops = strings_of(lists[l]);
            stops.included = l % 2;
            struct result want = search(texts[t], &stops);
            uint64_t cuts_max = n < 13 ? 1ull << n : 1ull << 13;
            for (uint64_t cuts = 0; cuts < cuts_max; cuts++) {
                uint64_t mask = n < 13 ? cuts : cuts * 0x9E3779B97F4A7C15ull;
                same(texts[t], &stops, mask, &want);
            }
        }
    }
}

TEST(test_random)
{
    srand(7); // the seed to reproduce a failure
    for (int round = 0; round < 20000; round++) {
        char text[32] = {0}, words[3][6] = {{0}};
        const char *list[4] = {words[0], words[1], words[2], NULL};
        for (int i = 0; i < 31; i++)
            text[i] = (char)('a' + rand() % 2);
        for (int w = 0; w < 3; w++)
            for (int i = 0, n = 1 + rand() % 5; i < n; i++)
                words[w][i] = (char)('a' + rand() % 3);
        struct stop_strings stops = strings_of(list);
        stops.included = round % 2;
        struct result want = search(text, &stops);
        same(text, &stops, (uint64_t)rand(), &want);
    }
}

// Two matches in one step: the earliest start wins, then the longer string.
TEST(test_choice)
{
    const char *const longer[] = {"ab", "abc", NULL}, *const lines[] = {"\n", "\n\n", NULL};
    const char *const earlier[] = {"c", "bcd", NULL};

    struct stop_strings stops = strings_of(longer);
    struct result r = feed("xxabcxx", &stops, 0);
    assert_true(r.found);
    assert_int_equal(r.which, 1);
    assert_string_equal(r.text, "xx");
    r = feed("xxabcxx", &stops, ~0ull); // the shorter one is complete first, but waits
    assert_int_equal(r.which, 1);
    assert_int_equal(r.tokens, 5);
    stops = strings_of(lines);
    stops.included = true;
    r = feed("a\nb", &stops, ~0ull);
    assert_int_equal(r.which, 0);
    assert_string_equal(r.text, "a\n");
    assert_int_equal(r.tokens, 2);
    stops = strings_of(earlier);
    r = feed("abcde", &stops, ~0ull); // "c" is complete first, but "bcd" starts before it
    assert_int_equal(r.which, 1);
    assert_string_equal(r.text, "a");
    assert_int_equal(r.tokens, 4);
    r = feed("abcx", &stops, ~0ull);
    assert_int_equal(r.which, 0);
    assert_string_equal(r.text, "ab");
    assert_int_equal(r.tokens, 3); // the token that completed it, not the token that decided
}

TEST(test_end_of_text)
{
    const char *const list[] = {"c", "bcd", NULL};
    struct stop_strings stops = strings_of(list);

    struct result r = feed("abc", &stops, ~0ull); // "bcd" can no longer match
    assert_true(r.found);
    assert_int_equal(r.which, 0);
    assert_string_equal(r.text, "ab");
    r = feed("ab", &stops, ~0ull); // delayed, then released
    assert_false(r.found);
    assert_string_equal(r.text, "ab");
}

TEST(test_longest_strings)
{
    char text[TEXT_MAX] = {0}, word[STOP_BYTES_MAX + 1] = {0};
    const char *const list[] = {word, NULL};

    memset(word, 'y', STOP_BYTES_MAX);
    memset(text, 'y', STOP_BYTES_MAX - 1);
    strcat(text, "zend");
    struct stop_strings stops = strings_of(list);
    struct result r = feed(text, &stops, ~0ull);
    assert_false(r.found);
    assert_string_equal(r.text, text);
    memset(text, 'y', STOP_BYTES_MAX);
    r = feed(text, &stops, ~0ull);
    assert_true(r.found);
    assert_string_equal(r.text, "");
    assert_int_equal(r.tokens, STOP_BYTES_MAX);
}
