// Small templates beside jinja2: white space around every kind of tag, subscripts, what is
// undefined, keys with NUL. The cases are in template_vectors.json, which
// tools/template_vectors.py wrote: [template, text], null where jinja2 fails.
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
    enum status status = chat_template_open(&chat, source, &err);
    if (status == STATUS_OK)
        status = chat_render(chat, &in, arena, &out, &err);
    chat_template_close(chat);
    if (json_is_null(want))
        return status != STATUS_OK;
    struct text text = text_span(json_string_value(want), json_string_length(want));
    return status == STATUS_OK && text_equal(out.text, text);
}

static void templates_are_as_jinja2_renders_them(void **state)
{
    (void)state;
    json_t *root;
    struct error err;
    const char *path = WEFT_SOURCE_DIR "/tests/runtime/template_vectors.json";
    assert_int_equal(json_file_parse(&root, path, 4 << 20, &err), STATUS_OK);
    const json_t *cases = json_object_get(root, "cases");
    struct arena *arena = arena_create(0, 64u << 20);
    unsigned wrong = 0;
    assert_true(json_array_size(cases) > 800);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_are_as_jinja2_renders_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
