// SPDX-License-Identifier: Apache-2.0
// Small templates compared with jinja2: white space around every kind of tag, subscripts, undefined
// values, keys with NUL. The cases are in template_vectors.json, written by
// tools/template_vectors.py: [template, text], null if jinja2 fails.
#include "base/arena.h"
#include "base/json.h"
#include "runtime/text/chat.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static bool agrees(const json_t *variables, struct text source, const json_t *want,
                   struct arena *arena)
{
    struct chat_template *chat = NULL;
    struct chat_output out;
    struct error err;
    const struct chat_input in = {.variables = variables, .now = 1752148800};
    enum status status = chat_template_create(&chat, source, &err);
    if (status == STATUS_OK)
        status = chat_render(chat, &in, arena, &out, &err);
    chat_template_destroy(chat);
    if (json_is_null(want))
        return status != STATUS_OK;
    struct text text = text_span(json_string_value(want), json_string_length(want));
    if (status != STATUS_OK)
        print_error("%s\n", err.text);
    else if (!text_equal(out.text, text))
        print_error("%.*s\n", (int)out.text.bytes, out.text.at);
    return status == STATUS_OK && text_equal(out.text, text);
}

static void test_templates_match_jinja2(void **state)
{
    (void)state;
    json_t *root;
    struct error err;
    const char *path = WEFT_SOURCE_DIR "/tests/runtime/template_vectors.json";
    assert_int_equal(json_file_parse(&root, path, 4 << 20, &err), STATUS_OK);
    const json_t *cases = json_object_get(root, "cases");
    struct arena *arena = arena_create(0, 64u << 20);
    unsigned wrong = 0;
    assert_true(json_array_size(cases) > 1200);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *one = json_array_get(cases, i), *source = json_array_get(one, 0);
        struct text text = text_span(json_string_value(source), json_string_length(source));
        arena_reset(arena);
        if (agrees(json_object_get(root, "variables"), text, json_array_get(one, 1), arena))
            continue;
        wrong++;
        print_error("case %zu is not as jinja2 has it: %s\n", i, text.at);
    }
    assert_int_equal(wrong, 0);
    arena_destroy(arena);
    json_decref(root);
}

// strftime as in Python, at the borders of days, weeks and years.
static void test_time_matches_python(void **state)
{
    (void)state;
    static const struct {
        int64_t now;
        const char *want;
    } rows[] = {
        {1672531205, "Sun 01 Jan 23 01 00 7 0 001 12 AM 05"},
        {1704113999, "Mon 01 Jan 24 00 01 1 1 001 12 PM 59"},
        {1735686000, "Tue 31 Dec 24 52 53 2 2 366 11 PM 00"},
        {68173200, "Tue 29 Feb 72 09 09 2 2 060 01 AM 00"},
        {1988283600, "Sun 02 Jan 33 01 00 7 0 002 01 PM 00"},
        {936615600, "Mon 06 Sep 99 36 36 1 1 249 11 AM 00"},
    };
    struct chat_template *chat = NULL;
    struct error err;
    const char *source = "{{ strftime_now('%a %d %b %y %U %W %u %w %j %I %p %S') }}";
    struct arena *arena = arena_create(0, 1u << 20);
    json_t *none = json_object();
    assert_int_equal(chat_template_create(&chat, text_of(source), &err), STATUS_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct chat_output out;
        const struct chat_input in = {.variables = none, .now = rows[i].now};
        assert_int_equal(chat_render(chat, &in, arena, &out, &err), STATUS_OK);
        if (!text_is(out.text, rows[i].want))
            fail_msg("%lld: %.*s", (long long)rows[i].now, (int)out.text.bytes, out.text.at);
    }
    chat_template_destroy(chat);
    json_decref(none);
    arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_templates_match_jinja2),
        cmocka_unit_test(test_time_matches_python),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
