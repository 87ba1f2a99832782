// SPDX-License-Identifier: Apache-2.0
// Matchers and their caches: every mask bit compared with accepting the token's bytes one by one,
// small caches that evict states, several vocabularies, ends of answers, bounds of work and memory.
#include "base/arena.h"
#include "runtime/grammar/matcher.h"
#include "tests/grammar/matcher_looks.h"
#include "tests/grammar/oracle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

enum { TOKENS = 700, VOCAB = 711, WORDS = (VOCAB + 31) / 32, END_ID = 705 };

// Creates tokens like those of real vocabularies: words, blanks, runs, quotes, incomplete
// characters, long tokens. shift: ids are rotated by this number.
static struct vocabulary *mixed_vocabulary(uint32_t shift)
{
    static char store[TOKENS][160];
    static struct text tokens[TOKENS];
    static const char *const pieces[] = {
        "the", " of", "\"",   "\\",       ",",    "x",    "1", // pieces of plain ASCII are first
        "é",   "\n",  "\xE4", "\x8A\x9B", ":",    "}",    "{",        "[",        "]", " ",
        "0",   "e",   "-",    ".",        "true", "中文", "\xF0\x9F", "\x98\x80", "Q", "_"};
    int32_t end = END_ID;
    uint64_t seed = 7;
    for (uint32_t t = 0; t < TOKENS; t++) {
        // 256 single bytes, mixed tokens, two groups with a common prefix, some very long tokens.
        const char *begin = t < 500 ? "" : t < 600 ? "xxQ" : "yyQ";
        uint32_t count = t < 256 || t >= 690 ? 0 : 1 + oracle_random(&seed, t % 40 == 0 ? 30 : 4);
        size_t bytes = (size_t)snprintf(store[t], sizeof store[t], "%s", begin);
        for (uint32_t i = 0; i < count; i++) {
            const char *piece = pieces[oracle_random(&seed, t < 600 ? 27 : 7)];
            bytes += (size_t)snprintf(store[t] + bytes, sizeof store[t] - bytes, "%s", piece);
        }
        if (t < 256)
            store[t][bytes++] = (char)t;
        for (; t >= 690 && bytes < 30 + 10 * (t - 690); bytes++)
            store[t][bytes] = 'x';
        tokens[(t + shift) % TOKENS] = text_span(store[t], bytes < 160 ? bytes : 159);
    }
    struct vocabulary_args args = {VOCAB, tokens, TOKENS, NULL, &end, 1};
    return vocabulary_create(&args);
}

static struct grammar *finished(struct grammar_builder *b, uint32_t root)
{
    struct error err = {0};
    struct grammar *g;
    if (grammar_finish(b, root, &g, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return g;
}

static uint32_t literal(struct grammar_builder *b, const char *text)
{
    return grammar_literal(b, text_of(text));
}

// {"k":"...", ...}: strings of 3 to 40 characters, numbers, up to 301 members.
static struct grammar *object_grammar(void)
{
    static const struct grammar_range special[] = {{'"', '"'}, {'\\', '\\'}, {0, 0x1F}};
    struct grammar_builder *b = grammar_builder_create(NULL);
    uint32_t one = grammar_either(b, grammar_chars_except(b, special, 3), literal(b, "\\\""));
    uint32_t string[] = {literal(b, "\""), grammar_repeat(b, one, 3, 40), literal(b, "\"")};
    uint32_t number = grammar_repeat(b, grammar_byte(b, '0', '9'), 1, GRAMMAR_UNBOUNDED);
    uint32_t text = grammar_join_all(b, string, 3);
    uint32_t member[] = {text, literal(b, ":"), grammar_either(b, text, number)};
    uint32_t more = grammar_join(b, literal(b, ","), grammar_join_all(b, member, 3));
    uint32_t object[] = {literal(b, "{"), grammar_join_all(b, member, 3),
                         grammar_repeat(b, more, 0, 300), literal(b, "}")};
    return finished(b, grammar_join_all(b, object, 4));
}

// A string of any length, then a line end.
static struct grammar *line_grammar(void)
{
    static const struct grammar_range ends[] = {{'\n', '\n'}};
    struct grammar_builder *b = grammar_builder_create(NULL);
    uint32_t text = grammar_repeat(b, grammar_chars_except(b, ends, 1), 0, GRAMMAR_UNBOUNDED);
    return finished(b, grammar_join(b, text, literal(b, "\n")));
}

static bool bit(const uint32_t *words, uint32_t id)
{
    return words[id / 32] >> (id % 32) & 1;
}

// Compares the mask with accepting each token's bytes one by one. Returns the number of allowed
// tokens.
static uint32_t compare_bits(struct matcher *m, struct vocabulary *v)
{
    uint32_t words[WORDS], allowed = 0;
    matcher_mask(m, words);
    for (uint32_t id = 0; id < VOCAB; id++) {
        struct text token = vocabulary_token(v, (int32_t)id);
        struct matcher ahead;
        matcher_copy(&ahead, m);
        bool want = token.bytes > 0;
        for (size_t i = 0; i < token.bytes && want; i++)
            want = matcher_accept_bytes(&ahead, text_span(token.at + i, 1));
        matcher_end(&ahead);
        allowed += want;
        if (id != END_ID && bit(words, id) != want)
            fail_msg("token %u (%.*s) is %d", id, (int)token.bytes, token.at, bit(words, id));
    }
    assert_int_equal(bit(words, END_ID), matcher_may_end(m) || allowed == 0);
    return allowed;
}

static void test_mask_bits_match_single_bytes(void **state)
{
    (void)state;
    static const char document[] = "{\"a key\":\"of 中文 and é, with \\\" and more of it up "
                                   "to\",\"next\":1024,\"\xF0\x9F\x98\x80...\":\"xyz\"}";
    struct vocabulary *v = mixed_vocabulary(0);
    struct grammar *g = object_grammar();
    struct mask_cache *c = mask_cache_create(g, v, NULL);
    struct matcher m;
    uint32_t most = 0;
    matcher_init(&m, c);
    for (size_t i = 0; i < sizeof document - 1; i++) {
        uint32_t allowed = compare_bits(&m, v);
        most = allowed > most ? allowed : most;
        assert_true(matcher_accept_bytes(&m, text_span(document + i, 1)));
    }
    assert_true(most > 300); // the document has positions inside of strings
    compare_bits(&m, v);
    assert_true(matcher_may_end(&m) && matcher_must_end(&m) && !matcher_is_done(&m));
    matcher_end(&m);
    mask_cache_destroy(c);
    grammar_unref(g);
    vocabulary_unref(v);
}

static void test_mask_bits_in_a_loop(void **state)
{
    (void)state;
    struct vocabulary *v = mixed_vocabulary(0);
    struct grammar *g = line_grammar();
    struct mask_cache *c = mask_cache_create(g, v, NULL);
    struct matcher m;
    matcher_init(&m, c);
    assert_true(compare_bits(&m, v) > 400);
    for (int i = 0; i < 3; i++) {
        assert_true(matcher_accept_bytes(&m, text_of("xQ")));
        compare_bits(&m, v);
    }
    assert_true(matcher_accept_bytes(&m, text_of("xx\xE4")));
    compare_bits(&m, v);
    matcher_end(&m);
    mask_cache_destroy(c);
    grammar_unref(g);
    vocabulary_unref(v);
}

// A small and a large cache give the same masks, although the small one evicts states.
static void test_small_caches_evict(void **state)
{
    (void)state;
    enum { STRINGS = 6000, LENGTH = 40, SEQUENCES = 8 };
    static char store[STRINGS][LENGTH];
    static struct text strings[STRINGS];
    uint64_t seed = 3;
    for (int i = 0; i < STRINGS; i++) {
        for (int k = 0; k < LENGTH; k++)
            store[i][k] = (char)('a' + oracle_random(&seed, 26));
        strings[i] = text_span(store[i], LENGTH);
    }
    struct vocabulary *v = mixed_vocabulary(0);
    struct grammar_builder *b = grammar_builder_create(NULL);
    uint32_t words = grammar_choice(b, strings, STRINGS);
    struct grammar *g = finished(b, grammar_repeat(b, words, 1, 3));
    struct mask_cache_options options[2] = {{.bytes_max = 1}, {.bytes_max = 1 << 28}};
    struct mask_cache *small = mask_cache_create(g, v, &options[0]),
                      *large = mask_cache_create(g, v, &options[1]);
    struct matcher a[SEQUENCES], z[SEQUENCES];
    for (int i = 0; i < SEQUENCES; i++) {
        matcher_init(&a[i], small);
        matcher_init(&z[i], large);
    }
    for (int step = 0; step < 4000; step++)
        for (int i = 0; i < SEQUENCES; i++) {
            uint32_t x[WORDS], y[WORDS];
            assert_int_equal(matcher_mask(&a[i], x), MATCHER_OK);
            assert_int_equal(matcher_mask(&z[i], y), MATCHER_OK);
            assert_memory_equal(x, y, sizeof x);
            uint32_t from = oracle_random(&seed, TOKENS), id = from;
            while (!bit(x, id) && (id = (id + 1) % VOCAB) != from)
                ;
            assert_true(matcher_accept(&a[i], (int32_t)id));
            assert_true(matcher_accept(&z[i], (int32_t)id));
            if (matcher_is_done(&a[i])) {
                matcher_end(&a[i]);
                matcher_end(&z[i]);
                matcher_init(&a[i], small);
                matcher_init(&z[i], large);
            }
        }
    assert_in_range(mask_cache_stats(small).forgotten, 2, 1000);
    assert_int_equal(mask_cache_stats(large).forgotten, 0);
    assert_true(mask_cache_stats(small).bytes <= 4 << 20);
    for (int i = 0; i < SEQUENCES; i++) {
        matcher_end(&a[i]);
        matcher_end(&z[i]);
    }
    mask_cache_destroy(small);
    mask_cache_destroy(large);
    grammar_unref(g);
    vocabulary_unref(v);
}

static void test_vocabularies_have_separate_masks(void **state)
{
    (void)state;
    struct vocabulary *v[2] = {mixed_vocabulary(0), mixed_vocabulary(13)};
    struct grammar *g = object_grammar();
    struct mask_cache *c[2] = {mask_cache_create(g, v[0], NULL), mask_cache_create(g, v[1], NULL)};
    uint32_t words[2][WORDS];
    for (int i = 0; i < 2; i++) {
        struct matcher m;
        matcher_init(&m, c[i]);
        assert_true(matcher_accept_bytes(&m, text_of("{\"ab")));
        compare_bits(&m, v[i]);
        matcher_mask(&m, words[i]);
        matcher_end(&m);
    }
    for (uint32_t t = 0; t < TOKENS; t++)
        assert_int_equal(bit(words[0], t), bit(words[1], (t + 13) % TOKENS));
    for (int i = 0; i < 2; i++) {
        mask_cache_destroy(c[i]);
        vocabulary_unref(v[i]);
    }
    grammar_unref(g);
}

static void test_ends_and_states(void **state)
{
    (void)state;
    struct vocabulary *v = mixed_vocabulary(0);
    struct grammar_builder *b = grammar_builder_create(NULL);
    uint32_t x = literal(b, "x");
    struct grammar *g = finished(b, grammar_repeat(b, x, 1, 2));
    struct mask_cache *c = mask_cache_create(g, v, NULL);
    struct matcher m, copy;
    uint32_t words[WORDS], other[WORDS];
    matcher_init(&m, c);
    assert_false(matcher_accept(&m, END_ID));
    assert_false(matcher_accept(&m, 'y'));
    assert_false(matcher_accept(&m, -1));
    assert_false(matcher_accept(&m, VOCAB));
    assert_true(matcher_accept(&m, 'x'));
    matcher_copy(&copy, &m);
    matcher_mask(&m, words);
    assert_true(bit(words, 'x') && bit(words, END_ID));
    assert_true(matcher_accept(&m, 'x'));
    assert_true(matcher_must_end(&m));
    assert_false(matcher_must_end(&copy)); // the copy is unchanged
    assert_true(matcher_accept(&m, END_ID));
    assert_true(matcher_is_done(&m));
    matcher_mask(&m, words);
    memset(other, 0, sizeof other);
    other[END_ID / 32] = 1u << (END_ID % 32);
    assert_memory_equal(words, other, sizeof words);
    assert_false(matcher_accept(&m, 'x'));
    assert_true(matcher_accept(&m, END_ID));
    struct mask_cache_stats stats = mask_cache_stats(c);
    matcher_mask(&copy, words);
    assert_int_equal(mask_cache_stats(c).computed, stats.computed);
    assert_int_equal(mask_cache_stats(c).reused, stats.reused + 1);
    matcher_end(&m);
    matcher_end(&m);
    matcher_end(&copy);
    mask_cache_destroy(c);
    mask_cache_destroy(NULL);
    grammar_unref(g);
    vocabulary_unref(v);
}

// If the vocabulary has no token for the required byte, the mask reports MATCHER_STUCK and its row
// holds only the end ids.
static void test_missing_token_is_stuck(void **state)
{
    (void)state;
    struct text tokens[] = {text_of("a"), text_of("b")};
    int32_t ends[] = {2, 3};
    struct vocabulary_args args = {40, tokens, 2, NULL, ends, 2};
    struct vocabulary *v = vocabulary_create(&args);
    struct grammar_builder *b = grammar_builder_create(NULL);
    struct grammar *g = finished(b, literal(b, "ac"));
    struct mask_cache *c = mask_cache_create(g, v, NULL);
    struct matcher m;
    uint32_t words[2];
    matcher_init(&m, c);
    assert_int_equal(matcher_mask(&m, words), MATCHER_OK);
    assert_int_equal(words[0], 1);
    assert_false(matcher_accept(&m, 2));
    assert_true(matcher_accept(&m, 0));
    assert_int_equal(matcher_mask(&m, words), MATCHER_STUCK);
    assert_true(matcher_needs_mask(&m));
    assert_int_equal(words[0], 12);
    assert_int_equal(words[1], 0);
    assert_true(matcher_accept(&m, 3));
    assert_true(matcher_is_done(&m));
    matcher_end(&m);
    mask_cache_destroy(c);
    grammar_unref(g);
    vocabulary_unref(v);
}

static bool has_byte(const uint32_t *alphabet, char byte)
{
    return alphabet[(uint8_t)byte / 32] >> ((uint8_t)byte % 32) & 1;
}

// The alphabet of text has no bytes of special tokens, and no alphabet has bytes of tokens that end
// an answer.
static void test_alphabets_of_texts_and_markers(void **state)
{
    (void)state;
    struct text tokens[] = {text_of("ab"), {NULL, 0}, text_of("e"), {NULL, 0}};
    struct text specials[] = {{NULL, 0}, text_of("<c"), {NULL, 0}, text_of("|d")};
    int32_t ends[] = {2, 3};
    struct vocabulary_args args = {40, tokens, 4, specials, ends, 2};
    struct vocabulary *v = vocabulary_create(&args);
    const uint32_t *text = vocabulary_alphabet(v, false), *all = vocabulary_alphabet(v, true);
    for (const char *c = "ab<c|de\xFF"; *c; c++) {
        assert_int_equal(has_byte(text, *c), strchr("ab", *c) != NULL);
        assert_int_equal(has_byte(all, *c), strchr("ab<c\xFF", *c) != NULL);
    }
    vocabulary_unref(v);

    // A special token may provide a byte that no text token has.
    static struct text bytes[257], marks[257];
    static char store[256];
    for (int i = 0; i < 256; i++) {
        store[i] = (char)i;
        bytes[i] = i == 'q' ? (struct text){NULL, 0} : text_span(&store[i], 1);
    }
    marks[256] = text_of("<q>");
    args = (struct vocabulary_args){257, bytes, 257, marks, NULL, 0};
    v = vocabulary_create(&args);
    assert_false(has_byte(vocabulary_alphabet(v, false), 'q'));
    assert_null(vocabulary_alphabet(v, true));
    vocabulary_unref(v);
}

// Alternatives that differ in their counts: each state has thousands of members, and each step
// looks at all of them.
static struct grammar *ways_grammar(uint32_t ways)
{
    struct grammar_builder *b = grammar_builder_create(NULL);
    uint32_t all = GRAMMAR_NOTHING;
    for (uint32_t i = 0; i < ways; i++) {
        char word[16];
        uint32_t count = grammar_repeat(b, grammar_byte(b, ' ', '~'), i + 1, i + 40 + i % 7);
        size_t bytes = (size_t)snprintf(word, sizeof word, "w%u", i);
        all = grammar_either(b, grammar_join(b, count, grammar_literal(b, text_span(word, bytes))),
                             all);
    }
    return finished(b, all);
}

// One call builds a bounded number of states. They stay in the cache, so repeated calls complete
// the mask.
static void test_work_of_a_mask_is_bounded(void **state)
{
    (void)state;
    struct vocabulary *v = mixed_vocabulary(0);
    struct grammar *g = ways_grammar(200);
    struct mask_cache_options options = {.work_max = 50 * 1000};
    struct mask_cache *c = mask_cache_create(g, v, &options);
    struct matcher m;
    uint32_t words[WORDS], ends[WORDS] = {0}, calls = 1;
    ends[END_ID / 32] = 1u << (END_ID % 32);
    matcher_init(&m, c);
    uint64_t before = mask_cache_stats(c).work;
    assert_int_equal(matcher_mask(&m, words), MATCHER_OVER);
    assert_memory_equal(words, ends, sizeof words);
    // The last step may exceed the limit: it covers all alternatives, three byte classes and each
    // pair.
    assert_in_range(mask_cache_stats(c).work - before, 1, options.work_max + 100 * 200);
    assert_int_equal(mask_cache_stats(c).over, 1);
    assert_int_equal(mask_cache_stats(c).computed, 0);
    while (matcher_mask(&m, words) == MATCHER_OVER && calls < 1000)
        calls++;
    assert_in_range(calls, 3, 900);
    assert_int_equal(mask_cache_stats(c).over, calls);
    compare_bits(&m, v);
    // A long string read in one call reaches the limit as well, and leaves the state unchanged.
    char text[1000];
    memset(text, ' ', sizeof text);
    assert_false(matcher_accept_bytes(&m, text_span(text, sizeof text)));
    for (size_t i = 0; i < 40; i++)
        assert_true(matcher_accept_bytes(&m, text_span(text, 1)));
    matcher_end(&m);
    mask_cache_destroy(c);
    grammar_unref(g);
    vocabulary_unref(v);
}

// The work of a walk over the vocabulary is counted when the walk is complete. Beyond the limit no
// new walk starts.
static void test_walks_count_as_work(void **state)
{
    (void)state;
    struct vocabulary *v = mixed_vocabulary(0);
    struct grammar_builder *b = grammar_builder_create(NULL);
    uint32_t letters = grammar_repeat(b, grammar_byte(b, 'a', 'z'), 1, GRAMMAR_UNBOUNDED);
    uint32_t digits = grammar_repeat(b, grammar_byte(b, '0', '9'), 1, GRAMMAR_UNBOUNDED);
    struct grammar *g = finished(b, grammar_join(b, letters, digits));
    uint32_t words[WORDS];
    for (uint64_t limit = 1, made = 0; !made; limit++) {
        struct mask_cache *c = mask_cache_create(g, v, NULL);
        struct matcher m;
        matcher_init(&m, c);
        uint64_t before = mask_cache_stats(c).work;
        mask_cache_limit(c, limit, true);
        made = matcher_mask(&m, words) == MATCHER_OK;
        assert_int_equal(mask_cache_limited(c), !made);
        if (made) {
            assert_in_range(mask_cache_stats(c).work - before, limit + 20, limit + 2000);
            assert_int_equal(matcher_mask(&m, words), MATCHER_OK); // from the cache
            assert_false(mask_cache_limited(c));
            mask_cache_limit(c, 5000, false); // a cached mask and accepting a token need no walk
            assert_int_equal(matcher_mask(&m, words), MATCHER_OK);
            assert_true(matcher_accept_bytes(&m, text_of("a7")));
            assert_false(mask_cache_limited(c));
            for (int walks = 0; walks < 2; walks++) {
                uint64_t work = mask_cache_stats(c).work;
                mask_cache_limit(c, walks ? 0 : 5000, walks);
                assert_int_equal(matcher_mask(&m, words), MATCHER_OVER);
                assert_true(mask_cache_limited(c));
                assert_in_range(mask_cache_stats(c).work - work, 0, 50);
            }
            mask_cache_limit(c, 5000, true);
            assert_int_equal(matcher_mask(&m, words), MATCHER_OK);
            compare_bits(&m, v);
        }
        matcher_end(&m);
        mask_cache_destroy(c);
    }
    grammar_unref(g);
    vocabulary_unref(v);
}

// A text that needs more items than the cache holds is read in one call; the cache evicts states
// meanwhile.
static void test_long_text_in_one_call(void **state)
{
    (void)state;
    enum { BYTES = 65000 };
    static char text[BYTES];
    uint64_t seed = 11;
    for (int i = 0; i < BYTES; i++)
        text[i] = (char)('a' + oracle_random(&seed, 26));
    struct vocabulary *v = mixed_vocabulary(0);
    struct grammar_builder *b = grammar_builder_create(NULL);
    struct grammar *g = finished(b, grammar_literal(b, text_span(text, BYTES)));
    struct mask_cache *c = mask_cache_create(g, v, NULL);
    struct matcher m;
    matcher_init(&m, c);
    assert_true(matcher_accept_bytes(&m, text_span(text, BYTES)));
    assert_true(matcher_must_end(&m));
    assert_in_range(mask_cache_stats(c).forgotten, 1, 10);
    assert_int_equal(mask_cache_stats(c).over + mask_cache_stats(c).out_of_memory, 0);
    matcher_end(&m);
    mask_cache_destroy(c);
    grammar_unref(g);
    vocabulary_unref(v);
}

// A string with a minimum length has one mask while the minimum is out of reach of every token.
static void test_minimum_counts_share_a_mask(void **state)
{
    (void)state;
    struct vocabulary *v = mixed_vocabulary(0);
    struct grammar_builder *b = grammar_builder_create(NULL);
    uint32_t one = grammar_byte(b, 'a', 'z');
    struct grammar *g = finished(b, grammar_repeat(b, one, 5000, GRAMMAR_UNBOUNDED));
    struct mask_cache *c = mask_cache_create(g, v, NULL);
    struct matcher m;
    uint32_t words[WORDS];
    matcher_init(&m, c);
    for (int i = 0; i < 5200; i++) {
        assert_int_equal(matcher_mask(&m, words), MATCHER_OK);
        assert_int_equal(bit(words, END_ID), i >= 5000);
        if (i % 500 == 0 || (i > 4850 && i % 10 == 0))
            compare_bits(&m, v);
        assert_true(matcher_accept(&m, 'a' + i % 26));
    }
    // Each of the last counts that a token can reach has a mask of its own, for tokens of 160 and
    // of 32 bytes.
    assert_in_range(mask_cache_stats(c).computed, 2, 40);
    matcher_end(&m);
    mask_cache_destroy(c);
    grammar_unref(g);
    vocabulary_unref(v);
}

// Bounds that a token cannot reach are left out of masks: tokens of as many repetitions as the
// bound are allowed, those of one more are not, whatever the length of what is repeated.
static void test_bounds_of_long_repetitions(void **state)
{
    (void)state;
    enum { LONGEST = 8, MOST = 40 };
    for (int bytes = 1; bytes <= LONGEST; bytes++) {
        char text[LONGEST * MOST + 1];
        struct text tokens[MOST];
        int32_t end = MOST;
        for (int i = 0; i < LONGEST * MOST; i++)
            text[i] = (char)('a' + i % bytes);
        for (int i = 0; i < MOST; i++)
            tokens[i] = text_span(text, (size_t)bytes * (size_t)(i + 1));
        struct vocabulary_args args = {MOST + 1, tokens, MOST, NULL, &end, 1};
        struct vocabulary *v = vocabulary_create(&args);
        for (uint32_t most = 1; most < MOST; most++) {
            struct grammar_builder *b = grammar_builder_create(NULL);
            uint32_t one = grammar_literal(b, text_span(text, (size_t)bytes)), words[2];
            struct grammar *g = finished(b, grammar_repeat(b, one, most / 2, most));
            struct mask_cache *c = mask_cache_create(g, v, NULL);
            struct matcher m;
            matcher_init(&m, c);
            assert_int_equal(matcher_mask(&m, words), MATCHER_OK);
            for (uint32_t i = 0; i < MOST; i++)
                if (vocabulary_token(v, (int32_t)i).bytes > 0 && bit(words, i) != (i < most))
                    fail_msg("%d bytes, at most %u times: %u", bytes, most, i + 1);
            assert_int_equal(bit(words, MOST), most / 2 == 0);
            matcher_end(&m);
            mask_cache_destroy(c);
            grammar_unref(g);
        }
        vocabulary_unref(v);
    }
}

static size_t resident_bytes(void)
{
    size_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*u %zu", &pages), 1);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

// The statistics report the memory that the process holds, also after a table was full.
static void test_eviction_frees_memory(void **state)
{
    (void)state;
    enum { STEPS = 500000, SLACK = 5 << 20 };
    struct vocabulary *v = mixed_vocabulary(0);
    struct grammar_builder *b = grammar_builder_create(NULL);
    uint32_t word = grammar_repeat(b, grammar_byte(b, 'a', 'z'), 1, 2 * STEPS);
    struct grammar *g = finished(b, grammar_join(b, word, word));
    size_t before = resident_bytes(), most = 0;
    struct mask_cache_options options = {.bytes_max = 128 << 20};
    struct mask_cache *c = mask_cache_create(g, v, &options);
    struct matcher m;
    matcher_init(&m, c);
    uint64_t work = 0;
    for (uint32_t steps = 0; mask_cache_stats(c).forgotten == 0; steps++) {
        assert_true(steps < STEPS);
        size_t bytes = mask_cache_stats(c).bytes;
        work = mask_cache_stats(c).work;
        most = bytes > most ? bytes : most;
        mask_cache_limit(c, 5000, true); // less than an eviction costs, which is not charged
        assert_true(matcher_accept(&m, 'x'));
    }
    struct mask_cache_stats stats = mask_cache_stats(c);
    assert_true(matcher_accept(&m, 'x')); // within the rest of the limit
    assert_false(mask_cache_limited(c));
    assert_true(stats.work - work > most / 512);
    assert_in_range(most, 12 << 20, 128 << 20);
    assert_in_range(stats.bytes_most, most, 128 << 20);
    assert_in_range(stats.bytes, 1, 6 << 20);
#if !defined(__SANITIZE_THREAD__) // its shadow memory of touched pages stays resident
    size_t held = resident_bytes();
    assert_true(held < before + stats.bytes + SLACK);
#else
    (void)before;
#endif
    matcher_end(&m);
    mask_cache_destroy(c);
    grammar_unref(g);
    vocabulary_unref(v);
}

// More simultaneous alternatives than a matcher follows are reported as MATCHER_OVER, not as
// exhausted memory.
static void test_too_many_alternatives_are_reported(void **state)
{
    (void)state;
    enum { WAYS = 17000 };
    static uint32_t ways[WAYS];
    struct vocabulary *v = mixed_vocabulary(0);
    struct grammar_builder *b = grammar_builder_create(NULL);
    for (uint32_t i = 0; i < WAYS; i++) {
        char text[16];
        ways[i] = grammar_literal(b, text_span(text, (size_t)snprintf(text, 16, "a%05u", i)));
    }
    struct grammar *g = finished(b, grammar_either_of(b, ways, WAYS));
    struct mask_cache *c = mask_cache_create(g, v, NULL);
    struct matcher m;
    uint32_t words[WORDS];
    matcher_init(&m, c);
    assert_int_equal(matcher_mask(&m, words), MATCHER_OVER);
    assert_false(matcher_accept(&m, 'a'));
    assert_true(mask_cache_stats(c).over >= 2);
    assert_false(matcher_out_of_memory(&m) || matcher_memory_contended(&m));
    matcher_end(&m);
    mask_cache_destroy(c);
    grammar_unref(g);
    vocabulary_unref(v);
}

// Lists and objects of digits, nested to any depth.
static struct grammar *nested_lists(void)
{
    struct grammar_builder *b = grammar_builder_create(NULL);
    uint32_t rule, value = grammar_rule(b, text_of("value"), &rule);
    uint32_t lists[] = {literal(b, "["), value, literal(b, "]")};
    uint32_t other[] = {literal(b, "{"), value, literal(b, "}")};
    grammar_rule_set(b, rule,
                     grammar_either(b,
                                    grammar_either(b, grammar_join_all(b, lists, 3),
                                                   grammar_join_all(b, other, 3)),
                                    grammar_repeat(b, grammar_byte(b, '0', '9'), 1, 9)));
    return finished(b, value);
}

// Deeply and differently nested answers fill the cache: they end, the others continue.
static void test_nested_answers_do_not_end_others(void **state)
{
    (void)state;
    enum { NESTED = 12, LEVELS = 1500 };
    struct vocabulary *v = mixed_vocabulary(0);
    struct grammar *g = nested_lists();
    struct mask_cache_options options = {.bytes_max = 4 << 20};
    struct mask_cache *c = mask_cache_create(g, v, &options);
    struct matcher nested[NESTED], small;
    uint32_t words[WORDS], lost = 0;
    uint64_t seed = 5;
    matcher_init(&small, c);
    assert_true(matcher_accept_bytes(&small, text_of("[[1")));
    for (int i = 0; i < NESTED; i++)
        matcher_init(&nested[i], c);
    for (int level = 0; level < LEVELS; level++)
        for (int i = 0; i < NESTED; i++) {
            struct text open = text_of(oracle_random(&seed, 2) ? "[" : "{");
            bool accepted = matcher_accept_bytes(&nested[i], open);
            assert_true(accepted || matcher_mask(&nested[i], words) == MATCHER_OVER);
            assert_int_equal(matcher_mask(&small, words), MATCHER_OK);
        }
    for (int i = 0; i < NESTED; i++)
        if (matcher_mask(&nested[i], words) == MATCHER_OVER) {
            assert_true(matcher_out_of_memory(&nested[i]) && matcher_memory_contended(&nested[i]));
            lost++;
        }
    assert_in_range(lost, NESTED / 2, NESTED - 1);
    assert_true(mask_cache_stats(c).out_of_memory >= lost);
    compare_bits(&small, v);
    assert_true(matcher_accept_bytes(&small, text_of("2]]")));
    assert_true(matcher_must_end(&small));
    for (int i = 0; i < NESTED; i++)
        matcher_end(&nested[i]);
    matcher_end(&small);
    mask_cache_destroy(c);
    grammar_unref(g);
    vocabulary_unref(v);
}

// A single answer that needs more than its cache holds runs out of memory, but is not reported as
// contending with others.
static void test_single_answer_is_not_contended(void **state)
{
    (void)state;
    enum { LEVELS = 200000 };
    struct vocabulary *v = mixed_vocabulary(0);
    struct grammar *g = nested_lists();
    struct mask_cache_options options = {.bytes_max = 4 << 20};
    struct mask_cache *c = mask_cache_create(g, v, &options);
    struct matcher m;
    uint64_t seed = 5;
    uint32_t level = 0;
    matcher_init(&m, c);
    while (level < LEVELS &&
           matcher_accept_bytes(&m, text_of(oracle_random(&seed, 2) ? "[" : "{"))) {
        assert_false(matcher_out_of_memory(&m));
        level++;
    }
    assert_in_range(level, 100, LEVELS - 1);
    assert_true(matcher_out_of_memory(&m));
    assert_false(matcher_memory_contended(&m));
    matcher_end(&m);
    mask_cache_destroy(c);
    grammar_unref(g);
    vocabulary_unref(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mask_bits_match_single_bytes),
        cmocka_unit_test(test_mask_bits_in_a_loop),
        cmocka_unit_test(test_small_caches_evict),
        cmocka_unit_test(test_vocabularies_have_separate_masks),
        cmocka_unit_test(test_ends_and_states),
        cmocka_unit_test(test_missing_token_is_stuck),
        cmocka_unit_test(test_alphabets_of_texts_and_markers),
        cmocka_unit_test(test_work_of_a_mask_is_bounded),
        cmocka_unit_test(test_walks_count_as_work),
        cmocka_unit_test(test_eviction_frees_memory),
        cmocka_unit_test(test_too_many_alternatives_are_reported),
        cmocka_unit_test(test_minimum_counts_share_a_mask),
        cmocka_unit_test(test_bounds_of_long_repetitions),
        cmocka_unit_test(test_long_text_in_one_call),
        cmocka_unit_test(test_nested_answers_do_not_end_others),
        cmocka_unit_test(test_single_answer_is_not_contended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
