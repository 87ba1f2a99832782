// SPDX-License-Identifier: Apache-2.0
// Fill in the middle: the marks of published vocabularies are found, and both orders of prompts.
#include "http/api/infill.h"
#include "tests/runtime/tokenizer_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static struct tokenizer *open_marks(const char *prefix, const char *suffix, const char *middle)
{
    char json[512];
    struct tokenizer *t = NULL;
    struct error err;
    snprintf(json, sizeof json,
             "{\"added_tokens\":[{\"id\":10,\"content\":\"%s\"},{\"id\":11,\"content\":\"%s\"},"
             "{\"id\":12,\"content\":\"%s\"}],\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}",
             prefix, suffix, middle);
    if (tokenizer_open_memory(&t, text_of(json), text_span(NULL, 0), &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return t;
}

static void test_marks_are_found(void **state)
{
    (void)state;
    static const struct {
        const char *prefix, *suffix, *middle;
        int32_t want; // id of the middle; -2: no marks
    } cases[] = {
        {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", 12},
        {"<fim_prefix>", "<fim_suffix>", "<fim_middle>", 12},
        {"<fim-prefix>", "<fim-suffix>", "<fim-middle>", 12},
        {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", 12},
        {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", 12},
        {"▁<PRE>", "▁<SUF>", "▁<MID>", 12},
        {"[PREFIX]", "[SUFFIX]", "other", -1},
        {"<|fim_prefix|>", "<|fim_suffix|>", "other", -2},
        {"<fim_prefix>", "<|fim_suffix|>", "<|fim_middle|>", -2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tokenizer *t = open_marks(cases[i].prefix, cases[i].suffix, cases[i].middle);
        struct infill_marks marks;
        bool found = infill_find(&marks, t);
        assert_int_equal(found, cases[i].want != -2);
        if (found)
            assert_true(marks.prefix == 10 && marks.suffix == 11 && marks.middle == cases[i].want);
        tokenizer_close(t);
    }
}

static void test_both_orders(void **state)
{
    (void)state;
    static const int32_t prefix[] = {1, 5, 6}, suffix[] = {7, 8}; // 1: BOS
    const struct infill_text text = {prefix, suffix, 1, 2, 2};
    static const int32_t with_middle[] = {1, 10, 5, 6, 11, 7, 8, 12};
    static const int32_t suffix_first[] = {1, 11, 7, 8, 10, 5, 6};
    int32_t out[8];
    assert_int_equal(infill_join(&(struct infill_marks){10, 11, 12, -1, -1}, &text, out), 8);
    assert_memory_equal(out, with_middle, sizeof with_middle);
    assert_int_equal(infill_join(&(struct infill_marks){10, 11, -1, -1, -1}, &text, out), 7);
    assert_memory_equal(out, suffix_first, sizeof suffix_first);
}

// Names of repositories and files have marks in some vocabularies; all marks end a text.
static void test_marks_of_files_and_ends(void **state)
{
    (void)state;
    static const struct {
        const char *first, *second;
        int32_t repo, file;
    } cases[] = {
        {"<|repo_name|>", "<|file_sep|>", 13, 14},
        {"<repo_name>", "<file_sep>", 13, 14},
        {"<reponame>", "<|endoftext|>", 13, -1},
        {"<|file_separator|>", "<|fim_pad|>", -1, 13},
        {"<a>", "<b>", -1, -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[512];
        struct tokenizer *t = NULL;
        struct error err;
        struct infill_marks marks;
        int32_t ends[INFILL_ENDS_MAX];
        snprintf(
            json, sizeof json,
            "{\"added_tokens\":[{\"id\":10,\"content\":\"<|fim_prefix|>\"},{\"id\":11,\"content\":"
            "\"<|fim_suffix|>\"},{\"id\":12,\"content\":\"<|fim_middle|>\"},{\"id\":13,\"content\":"
            "\"%s\"},{\"id\":14,\"content\":\"%s\"}],\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}"
            "}",
            cases[i].first, cases[i].second);
        assert_int_equal(tokenizer_open_memory(&t, text_of(json), text_span(NULL, 0), &err),
                         STATUS_OK);
        assert_true(infill_find(&marks, t));
        assert_int_equal(marks.repo, cases[i].repo);
        assert_int_equal(marks.file, cases[i].file);
        assert_int_equal(infill_ends(&marks, t, ends), i < 4 ? 5 : 3);
        tokenizer_close(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_marks_are_found),
                                       cmocka_unit_test(test_marks_of_files_and_ends),
                                       cmocka_unit_test(test_both_orders)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
