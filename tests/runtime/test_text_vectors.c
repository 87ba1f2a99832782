// SPDX-License-Identifier: Apache-2.0
// Patterns, normal forms and scripts compared with the reference library: the words of
// text_vectors.json, written by tools/pattern_diff.py. The vocabulary has one id for each byte, and
// 256 more for the last byte of a word. Also patterns that must be refused.
#include "tests/runtime/tokenizer_memory.h"

#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { TOKENS_MAX = 4096 };

static struct tokenizer *open_case(const json_t *model, const json_t *normalizer, const json_t *pre)
{
    json_t *root =
        json_pack("{sOsOsO}", "model", (json_t *)(uintptr_t)model, "normalizer",
                  (json_t *)(uintptr_t)normalizer, "pre_tokenizer", (json_t *)(uintptr_t)pre);
    char *text = json_dumps(root, 0);
    struct tokenizer *t = NULL;
    struct error err;
    if (tokenizer_open_memory(&t, text_of(text), text_span(NULL, 0), &err) != STATUS_OK)
        fail_msg("%s", err.text);
    free(text);
    json_decref(root);
    return t;
}

static void words_of(const struct tokenizer *t, struct text text, char out[TOKENS_MAX * 4])
{
    int32_t tokens[TOKENS_MAX];
    uint32_t count = 0;
    struct error err;
    size_t n = 0;
    struct encode_args args = {.text = text, .arena = arena_create(0, 0)};
    assert_int_equal(tokenizer_encode(t, &args, tokens, TOKENS_MAX, &count, &err), STATUS_OK);
    arena_destroy(args.arena);
    for (uint32_t i = 0; i < count; i++) {
        out[n++] = (char)(tokens[i] & 0xFF);
        if (tokens[i] < 256)
            continue;
        memcpy(out + n, "\u2016", 3);
        n += 3;
    }
    out[n] = '\0';
}

static unsigned case_check(const json_t *root, const json_t *one)
{
    static char got[TOKENS_MAX * 4];
    const json_t *texts = json_object_get(root, json_string_value(json_object_get(one, "texts")));
    const json_t *words = json_object_get(one, "words");
    struct tokenizer *t =
        open_case(json_object_get(root, "model"), json_object_get(one, "normalizer"),
                  json_object_get(one, "pre_tokenizer"));
    unsigned wrong = 0;
    assert_true(json_array_size(words) == json_array_size(texts) && json_array_size(words) > 0);
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const json_t *text = json_array_get(texts, i);
        words_of(t, text_span(json_string_value(text), json_string_length(text)), got);
        if (strcmp(got, json_string_value(json_array_get(words, i))) == 0)
            continue;
        wrong++;
        print_error("%s, text %zu:\n  want %s\n  got  %s\n",
                    json_string_value(json_object_get(one, "name")), i,
                    json_string_value(json_array_get(words, i)), got);
    }
    tokenizer_close(t);
    return wrong;
}

static void test_words_match_the_reference(void **state)
{
    (void)state;
    json_t *root;
    struct error err;
    const char *path = WEFT_SOURCE_DIR "/tests/runtime/text_vectors.json";
    assert_int_equal(json_file_parse(&root, path, 16 << 20, &err), STATUS_OK);
    const json_t *cases = json_object_get(root, "cases");
    unsigned wrong = 0;
    for (size_t i = 0; i < json_array_size(cases); i++)
        wrong += case_check(root, json_array_get(cases, i));
    assert_int_equal(wrong, 0);
    assert_true(json_array_size(cases) > 180);
    json_decref(root);
}

// Patterns that have no exact translation, and patterns that the reference library refuses.
static void test_some_patterns_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *why;
    } cases[] = {
        {"\\\\X", "\\X has no exact translation"},
        {"(a?){2}", "an interval {n,m} of a group that can match nothing"},
        {"(a|b*|\\\\b){1,}", "an interval {n,m} of a group that can match nothing"},
        {"((a{0,3}){2,4}){1,5}", "an interval {n,m} of a group that can match nothing"},
        {"(a?|b){2}", "an interval {n,m} of a group that can match nothing"},
        {"(?:a|(?=b)){2}?", "an interval {n,m} of a group that can match nothing"},
        {"(?i)ss", "(?i) over ss, which is also one character"},
        {"(?i)\u00e9", "(?i) over a character outside of ASCII"},
        {"(?i)[\\\\p{Lu}]", "(?i) over a set"},
        {"(?i)[a-z&&[^B]]", "(?i) over a set"},
        {"\\\\p{Nonsense}", "\\p{Nonsense} is not known"},
        {"[[:nonsense:]]", "not a POSIX bracket"},
        {"[z-a]", "ends before it begins"},
        {"[a-\\\\d]", "ends with a set"},
        {"[\\\\w-z]", "begins with a set"},
        {"[a", "is not closed"},
        {"[a[b]", "is not closed"},
        {"[]", "is empty"},
        {"(a", "a group is not closed"},
        {"a)", "closes no group"},
        {"*a", "a repeat has nothing before it"},
        {"a|+", "a repeat has nothing before it"},
        {"^*", "a repeat follows something that cannot be repeated"},
        {"a**", "a repeat of a repeat"},
        {"a{3,1}", "n over m"},
        {"(?s)a", "(?s is not known"},
        {"(?~a)", "(?~ is not known"},
        {"\\\\u12", "four hexadecimal digits"},
        {"\\\\xff", "begins no character"},
        {"a\\\\", "ends with a backslash"},
        {"(a)(?<n>b)\\\\1", "together with named groups"},
        {"\\\\g<n>", "\\g has no exact translation"},
        {"(?<=a*)b", "cannot be read"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[512];
        struct tokenizer *t = NULL;
        struct error err = {0};
        snprintf(json, sizeof json,
                 "{\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":"
                 "{\"Regex\":\"%s\"}},\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}",
                 cases[i].pattern);
        if (tokenizer_open_memory(&t, text_of(json), text_span(NULL, 0), &err) == STATUS_OK)
            fail_msg("%s was taken", cases[i].pattern);
        if (!strstr(err.text, cases[i].why))
            fail_msg("%s: \"%s\" does not say \"%s\"", cases[i].pattern, err.text, cases[i].why);
    }
}

// Neither a long nor a deeply nested pattern ends the process.
static void test_hostile_patterns(void **state)
{
    (void)state;
    static const char *const parts[] = {"(",    "[",       "(?:",  "[^a&&",
                                        "(?i)", "\\\\p{L", "a{1}", "\\\\"};
    enum { BYTES = 200000 };
    char *json = heap_alloc(BYTES + 512);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct tokenizer *t = NULL;
        struct error err;
        size_t n = (size_t)snprintf(json, BYTES,
                                    "{\"normalizer\":{\"type\":\"Replace\",\"content\":\"\","
                                    "\"pattern\":{\"Regex\":\"a");
        for (size_t bytes = strlen(parts[i]); n < BYTES; n += bytes)
            memcpy(json + n, parts[i], bytes);
        snprintf(json + n, 512, "\"}},\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}");
        if (tokenizer_open_memory(&t, text_of(json), text_span(NULL, 0), &err) == STATUS_OK)
            tokenizer_close(t);
    }
    heap_free(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words_match_the_reference),
        cmocka_unit_test(test_some_patterns_are_refused),
        cmocka_unit_test(test_hostile_patterns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
