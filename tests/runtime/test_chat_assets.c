// SPDX-License-Identifier: Apache-2.0
// Every template of recorded/, and every real chat template of the shared data if present, gives
// byte for byte the rendering recorded from an independent implementation. Recorded refusals are
// refused, and the segments of each rendering are its text. Prints the counts.
#include "base/arena.h"
#include "runtime/text/chat.h"
#include "tests/assets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NOW = 1752148800 }; // 2025-07-10 12:00:00 UTC, the time of the recordings

static const char *const trusted[] = {"bos_token", "eos_token"};

static char *file_text(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *text = test_malloc((size_t)size + 1);
    *bytes = fread(text, 1, (size_t)size, file);
    fclose(file);
    return text;
}

static void segments_check(const struct chat_output *out)
{
    const char *at = out->text.at;
    for (uint32_t i = 0; i < out->segment_count; i++) {
        assert_ptr_equal(out->segments[i].text.at, at);
        assert_true(out->segments[i].text.bytes > 0);
        assert_true(i == 0 || out->segments[i].plain != out->segments[i - 1].plain);
        at += out->segments[i].text.bytes;
    }
    assert_int_equal(at - out->text.at, out->text.bytes);
}

// Returns 1 if the result is as recorded. Otherwise prints the difference and returns 0.
static int case_run(const char *folder, const json_t *contexts, const json_t *one,
                    struct arena *arena)
{
    char path[1024];
    const char *file = json_string_value(json_object_get(one, "template_file"));
    const char *context = json_string_value(json_object_get(one, "context_name"));
    const json_t *expected = json_object_get(one, "expected");
    snprintf(path, sizeof path, "%s/templates/%s", folder, file);
    size_t bytes = 0;
    char *source = file_text(path, &bytes);
    assert_non_null(source);
    struct chat_template *chat = NULL;
    struct chat_output out;
    struct error err = {0};
    enum status status = chat_template_create(&chat, text_span(source, bytes), &err);
    test_free(source);
    if (status != STATUS_OK) {
        printf("%s: not opened: %s\n", file, err.text);
        return 0;
    }
    const struct chat_input in = {.variables = json_object_get(contexts, context),
                                  .trusted = trusted,
                                  .trusted_count = 2,
                                  .now = NOW};
    arena_reset(arena);
    status = chat_render(chat, &in, arena, &out, &err);
    bool fine = json_is_string(expected)
                    ? status == STATUS_OK && text_is(out.text, json_string_value(expected))
                    : status != STATUS_OK;
    if (status == STATUS_OK)
        segments_check(&out);
    if (!fine && status == STATUS_OK && json_is_string(expected)) {
        size_t at = 0;
        const char *want = json_string_value(expected);
        while (at < out.text.bytes && want[at] == out.text.at[at])
            at++;
        printf("%s %s: differs at byte %zu\n  want: %.60s\n  have: %.*s\n", file, context, at,
               want + at, (int)(out.text.bytes - at < 60 ? out.text.bytes - at : 60),
               out.text.at + at);
    } else if (!fine) {
        printf("%s %s: %s %s\n", file, context, status_name(status),
               status == STATUS_OK ? "but a refusal is recorded" : err.text);
    }
    chat_template_destroy(chat);
    return fine;
}

static void recordings_check(const char *folder, const char *recordings, bool optional)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, recordings);
    json_t *all = json_load_file(path, 0, NULL);
    if (!all && optional) {
        printf("%s: not there, so its templates are left out\n", path);
        return;
    }
    const json_t *cases = json_object_get(all, "cases");
    struct arena *arena = arena_create(0, 256u * 1024 * 1024);
    size_t passed = 0;
    size_t refusals = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *one = json_array_get(cases, i);
        refusals += !json_is_string(json_object_get(one, "expected"));
        passed += (size_t)case_run(folder, json_object_get(all, "contexts"), one, arena);
    }
    printf("%s: %zu of %zu cases as recorded, %zu of them refusals\n", path, passed,
           json_array_size(cases), refusals);
    assert_true(json_array_size(cases) > 0);
    assert_int_equal(passed, json_array_size(cases));
    arena_destroy(arena);
    json_decref(all);
}

static void test_recorded(void **state)
{
    (void)state;
    recordings_check(WEFT_SOURCE_DIR "/tests/runtime/recorded", "templates.json", false);
    recordings_check(assets_path("chat"), "templates-rendered.json", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_recorded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
