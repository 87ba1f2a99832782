// SPDX-License-Identifier: Apache-2.0
// The prompts of config_sentence_transformers.json: names, the default, refusals. Their effect on
// vectors is compared in tests/e2e/test_sentence.py.
#include "runtime/text/sentence.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64], path[128];
static struct arena *arena;
static struct sentence_prompts prompts;
static struct error err;

static enum status read_from(const char *json, const char *standard)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(json, file);
    fclose(file);
    return sentence_prompts_read(&prompts, folder, standard, arena, &err);
}

static const char *standard_of(const char *json, const char *standard)
{
    assert_int_equal(read_from(json, standard), STATUS_OK);
    return prompts.default_prompt
               ? arena_format(arena, "%.*s", (int)prompts.default_prompt->text.bytes,
                              prompts.default_prompt->text.at)
                     .at
               : NULL;
}

static void test_prompts_are_found_by_name(void **state)
{
    (void)state;
    assert_int_equal(sentence_prompts_read(&prompts, folder, NULL, arena, &err), STATUS_OK);
    assert_int_equal(prompts.count, 0); // no such file
    assert_true(text_is(sentence_prompts_names(&prompts, arena), "none"));
    assert_int_equal(read_from("{\"prompts\":{\"q\":\"Query: \",\"d\":null,\"\":\"x\"}}", NULL),
                     STATUS_OK);
    assert_int_equal(prompts.count, 3);
    assert_true(text_is(sentence_prompts_find(&prompts, text_of("q"))->text, "Query: "));
    assert_int_equal(sentence_prompts_find(&prompts, text_of("d"))->text.bytes, 0);
    assert_true(text_is(sentence_prompts_find(&prompts, text_of(""))->text, "x"));
    assert_null(sentence_prompts_find(&prompts, text_of("Q")));
    assert_null(prompts.default_prompt);
    assert_true(text_is(sentence_prompts_names(&prompts, arena), "'q', 'd', ''"));
}

static void test_source_of_the_default_prompt(void **state)
{
    static const char both[] =
        "{\"prompts\":{\"q\":\"Q \",\"d\":\"D \"},\"default_prompt_name\":\"q\"}";
    static const char none[] =
        "{\"prompts\":{\"q\":\"Q \",\"d\":\"D \"},\"default_prompt_name\":null}";
    (void)state;
    assert_string_equal(standard_of(both, NULL), "Q ");
    assert_string_equal(standard_of(both, "d"), "D ");
    assert_null(standard_of(both, ""));
    assert_null(standard_of(none, NULL));
    assert_string_equal(standard_of(none, "d"), "D ");
    assert_null(standard_of("{}", NULL));
    assert_null(standard_of("[]", NULL));
}

static void test_refusals_name_the_place(void **state)
{
    static const struct {
        const char *json, *standard, *words;
    } cases[] = {
        {"{\"prompts\":[]}", NULL, "prompts must be an object"},
        {"{\"prompts\":{\"q\":1}}", NULL, "the prompt 'q' must be a string"},
        {"{\"prompts\":{\"q\":\"\"},\"default_prompt_name\":\"x\"}", NULL,
         "has no prompt 'x' (its default_prompt_name; choose another with --default-prompt-name); "
         "it "
         "has: "
         "'q'"},
        {"{}", "x", "has no prompt 'x' (--default-prompt-name); it has: none"},
        {"{\"prompts\":", NULL, "config_sentence_transformers.json"},
        {"3", NULL, "holds neither an object nor a list"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(read_from(cases[i].json, cases[i].standard), STATUS_INVALID);
        if (!strstr(err.text, cases[i].words) || !strstr(err.text, folder))
            fail_msg("%s: %s", cases[i].json, err.text);
    }
}

static int begin(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.40s/sentence-XXXXXX", base ? base : "/tmp");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/config_sentence_transformers.json", folder);
    arena = arena_create(0, 0);
    return 0;
}

static int end(void **state)
{
    (void)state;
    unlink(path);
    rmdir(folder);
    arena_destroy(arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_prompts_are_found_by_name, begin, end),
        cmocka_unit_test_setup_teardown(test_source_of_the_default_prompt, begin, end),
        cmocka_unit_test_setup_teardown(test_refusals_name_the_place, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
