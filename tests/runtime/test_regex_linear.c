// SPDX-License-Identifier: Apache-2.0
// The linear matcher of tokenizer patterns finds the matches of PCRE2: every pattern of
// text_vectors.json on its texts, on random ones, and on long runs of one character, where its work
// grows in proportion to the text.
#include "base/arena.h"
#include "base/json.h"
#include "base/utf8.h"
#include "runtime/text/tokenizer/regex.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct regex *compile(const char *pattern)
{
    struct regex *regex;
    struct error err;
    if (regex_create(&regex, text_of(pattern), &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return regex;
}

typedef enum regex_found find_function(const struct regex *regex, struct regex_scratch *scratch,
                                       struct text text, size_t from, struct regex_span *out);

// Compares all matches in a text, found one after another as pre-tokenizers do.
static void text_check(const struct regex *regex, const char *pattern, struct text text)
{
    struct arena *arena = arena_create(0, 0);
    struct regex_scratch *scratch[] = {regex_scratch_create(arena), regex_scratch_create(arena)};
    static find_function *const finds[] = {regex_find, regex_find_linear};
    for (size_t from = 0; from <= text.bytes;) {
        struct regex_span m[2] = {{0, 0}, {0, 0}};
        enum regex_found found[2];
        for (int i = 0; i < 2; i++)
            found[i] = finds[i](regex, scratch[i], text, from, &m[i]);
        if (found[0] != found[1] || memcmp(&m[0], &m[1], sizeof *m) != 0)
            fail_msg("%s on '%.*s' from %zu: %d %zu to %zu, linear %d %zu to %zu", pattern,
                     (int)text.bytes, text.at, from, found[0], m[0].start, m[0].end, found[1],
                     m[1].start, m[1].end);
        if (found[0] != REGEX_FOUND)
            break;
        from = m[0].end > m[0].start   ? m[0].end
               : m[0].end < text.bytes ? m[0].end + utf8_length(text.at + m[0].end)
                                       : m[0].end + 1;
    }
    arena_destroy(arena);
}

static const char *const pieces[] = {
    "a",      "B",      "b",          "'s",      "'LL",    " ",      "  ",     "\n",     "\r\n",
    "\t",     "1",      "23",         "456",     "!",      "...",    "/",      "\u6f22", "\u304b",
    "\u30ab", "\uac00", "\u0e01",     "e\u0301", "\u00e9", "\u01c5", "\u02b0", "\u0661", "\u2167",
    "\u3000", "\u017f", "\U0001f600", "_",       "-",      "<",      "IMG",    "Z",      "\u1171e"};

static void random_text(char out[256], uint32_t *seed)
{
    size_t n = 0;
    *seed = *seed * 1664525u + 1013904223u;
    for (uint32_t left = *seed >> 27; left > 0; left--) {
        *seed = *seed * 1664525u + 1013904223u;
        const char *piece = pieces[(*seed >> 16) % (sizeof pieces / sizeof *pieces)];
        memcpy(out + n, piece, strlen(piece));
        n += strlen(piece);
    }
    out[n] = '\0';
}

static void pattern_check(const char *pattern, const json_t *texts, uint32_t *linear)
{
    enum { RANDOM_TEXTS = 40 };
    struct regex *regex = compile(pattern);
    if (regex_is_linear(regex)) {
        uint32_t seed = 7;
        char text[256];
        ++*linear;
        for (size_t i = 0; i < json_array_size(texts); i++) {
            const json_t *one = json_array_get(texts, i);
            text_check(regex, pattern, text_span(json_string_value(one), json_string_length(one)));
        }
        for (int i = 0; i < RANDOM_TEXTS; i++) {
            random_text(text, &seed);
            text_check(regex, pattern, text_of(text));
        }
    }
    regex_destroy(regex);
}

// Calls pattern_check for each regular expression below this value, once.
static void patterns_check(const json_t *value, const json_t *texts, json_t *seen, uint32_t *linear)
{
    const char *name;
    json_t *each;
    size_t i;
    json_array_foreach(value, i, each) patterns_check(each, texts, seen, linear);
    json_object_foreach((json_t *)(uintptr_t)value, name, each)
    {
        const char *pattern = json_string_value(each);
        if (strcmp(name, "Regex") != 0 || !pattern)
            patterns_check(each, texts, seen, linear);
        else if (!json_object_get(seen, pattern)) {
            json_object_set_new(seen, pattern, json_true());
            pattern_check(pattern, texts, linear);
        }
    }
}

static void test_matches_equal_those_of_pcre2(void **state)
{
    (void)state;
    json_t *root, *seen = json_object();
    struct error err;
    uint32_t linear = 0;
    const char *path = WEFT_SOURCE_DIR "/tests/runtime/text_vectors.json";
    assert_int_equal(json_file_parse(&root, path, 16 << 20, &err), STATUS_OK);
    patterns_check(json_object_get(root, "cases"), json_object_get(root, "texts"), seen, &linear);
    // Not supported: captures with references, atomic groups, \K, \G and \R.
    assert_int_equal(json_object_size(seen) - linear, 6);
    json_decref(seen);
    json_decref(root);
}

static void test_rules(void **state)
{
    (void)state;
    static const char *const patterns[] = {
        "a|ab|abc",     "(?:ab?)+?c",      "a{2,3}",     "a{2,3}?b*",
        "(?:a|b)*?c",   "(?<=a)b|(?<!a)b", "^a|b$|\\Ab", "\\Aa|b\\z|a\\Z",
        "(?=ab*c)a|b+", "(?!b+c)b",        "[ab]++b|c",  "a?+a|b*+c",
        "(?:a|)b",      "\\bab\\b|\\B.",   "(?i)kS|x",   "(?=(?:aa)+(?!a))a",
    };
    static const char *const letters = "abcA \n";
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        struct regex *regex = compile(patterns[i]);
        assert_true(regex_is_linear(regex));
        for (uint32_t n = 0; n < 6 * 6 * 6 * 6; n++) {
            char text[5] = {0};
            uint32_t rest = n;
            for (int k = 0; k < 4; k++, rest /= 6)
                text[k] = letters[rest % 6];
            text_check(regex, patterns[i], text_span(text, 4));
        }
        regex_destroy(regex);
    }
}

// Returns the number of steps for a run of `count` copies of a character.
static uint64_t run_steps(const struct regex *regex, const char *character, size_t count,
                          size_t *matches)
{
    size_t each = strlen(character), bytes = count * each;
    char *text = heap_alloc(bytes);
    struct arena *arena = arena_create(0, 0);
    struct regex_scratch *scratch = regex_scratch_create(arena);
    struct regex_span m;
    enum regex_found found;
    for (size_t i = 0; i < count; i++)
        memcpy(text + i * each, character, each);
    *matches = 0;
    for (size_t from = 0;
         (found = regex_find(regex, scratch, text_span(text, bytes), from, &m)) == REGEX_FOUND;
         ++*matches)
        from = m.end > m.start ? m.end : m.end + (m.end < bytes ? each : 1);
    assert_int_equal(found, REGEX_NONE);
    uint64_t steps = regex_steps(scratch);
    arena_destroy(arena);
    heap_free(text);
    return steps;
}

static void test_long_runs_take_linear_work(void **state)
{
    (void)state;
#define KIMI_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define KIMI_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
    static const struct {
        const char *pattern, *characters[3];
        size_t count, length; // characters of the run and of a match, 0: all
    } cases[] = {
        {"[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]?" KIMI_UPPER "*" KIMI_LOWER
         "+|[^\\r\\n\\p{L}\\p{N}]?" KIMI_UPPER "+" KIMI_LOWER "*|\\p{N}{1,3}|\\s+(?!\\S)|\\s+",
         {"\u304b", "A", "\u6f22"},
         270000,
         0},
        {"[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}",
         {"a", "\uac00"},
         270000,
         0},
        {"(?:\\p{Han}|\\p{Hiragana}|\\p{Katakana})+", {"\u6f22", "\u30ab"}, 270000, 0},
        {"[^\\S\\n]+", {" "}, 270000, 0},
        {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|"
         " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
         {"!", "\u3002"},
         270000,
         0},
        // lookaheads over the rest of the run
        {"(?=(\\d{3})+(?!\\d))", {"1"}, 30000, 1},
        {"\\d{1,3}(?=(?:\\d{3})*\\b)", {"1"}, 30000, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct regex *regex = compile(cases[i].pattern);
        assert_true(regex_is_linear(regex));
        for (int k = 0; k < 3 && cases[i].characters[k]; k++) {
            uint64_t steps[3]; // steps for a run, its half and its quarter
            size_t count = cases[i].count, matches;
            for (size_t part = 0; part < 3; part++) {
                steps[part] = run_steps(regex, cases[i].characters[k], count >> part, &matches);
                if (cases[i].length == 0 && matches != 1)
                    fail_msg("%s: %zu matches", cases[i].pattern, matches);
            }
            // PCRE2 matches the last characters of a run without steps, so growth is compared.
            if (steps[0] > count * 100 || steps[0] - steps[1] > (steps[1] - steps[2]) * 22 / 10)
                fail_msg("%s: %llu steps for %zu characters, %llu for half, %llu for a quarter",
                         cases[i].pattern, (unsigned long long)steps[0], count,
                         (unsigned long long)steps[1], (unsigned long long)steps[2]);
        }
        regex_destroy(regex);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matches_equal_those_of_pcre2),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_long_runs_take_linear_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
