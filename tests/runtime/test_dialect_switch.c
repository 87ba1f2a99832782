// SPDX-License-Identifier: Apache-2.0
// How each chat template switches reasoning on and off: the variable that was found, the prompts
// for on and off, and the levels of effort that it accepts. Also which templates refuse two calls
// in a message. The templates are those of the shared data, if present, and those of recorded/.
#include "base/arena.h"
#include "runtime/text/dialect/dialect.h"
#include "runtime/text/dialect/switch.h"
#include "tests/assets.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define ALL "minimal low medium high xhigh max"

// by: NULL if the template has no switch. efforts: "" if it reads no effort.
static const struct row {
    const char *file, *by, *efforts;
} rows[] = {
    {"Apertus-8B-Instruct.jinja", "enable_thinking", ""},
    {"Apriel-1.6-15b-Thinker-fixed.jinja", NULL, ""},
    {"ByteDance-Seed-OSS.jinja", "thinking_budget", ""},
    {"Cohere2MoE.jinja", "reasoning", ALL},
    {"CohereForAI-c4ai-command-r7b-12-2024-tool_use.jinja", "enable_thinking", ""},
    {"GLM-4.6.jinja", "enable_thinking", ""},
    {"Kimi-K2-Thinking.jinja", NULL, ""},
    {"LFM2.5-8B-A1B.jinja", NULL, ""},
    {"LFM2.5-Instruct.jinja", NULL, ""},
    {"MiniMax-M2.jinja", NULL, ""},
    {"MiniMax-M3.jinja", "thinking_mode", ""},
    {"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.jinja", "enable_thinking", ""},
    {"NVIDIA-Nemotron-Nano-v2.jinja", NULL, ""}, // reads "/no_think" in a message instead
    {"Qwen-QwQ-32B.jinja", "enable_thinking", ""},
    {"Qwen-Qwen3-0.6B.jinja", "enable_thinking", ""},
    {"Reka-Edge.jinja", "enable_thinking", ""},
    {"StepFun3.5-Flash.jinja", NULL, ""},
    {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja", "enable_thinking", ""},
    {"deepseek-ai-DeepSeek-V3.1.jinja", "enable_thinking", ""},
    {"deepseek-ai-DeepSeek-V4-Flash-0731.jinja", "enable_thinking", ALL},
    {"deepseek-ai-DeepSeek-V4.jinja", "enable_thinking", ALL},
    {"google-gemma-4-31B-it-interleaved.jinja", "enable_thinking", ""},
    {"ibm-granite-granite-3.3-2B-Instruct.jinja", "thinking", ""}, // without a system message
    {"llama-cpp-deepseek-r1.jinja", NULL, ""},
    {"llama-cpp-rwkv-world.jinja", "enable_thinking", ""},
    {"openbmb-MiniCPM5-1B.jinja", "enable_thinking", ""},
    {"poolside-Laguna-S-2.1.jinja", "enable_thinking", ""},
    {"poolside-Laguna-XS.2.jinja", "enable_thinking", ""},
    {"tencent-Hy3.jinja", "reasoning_effort", "low high"},
    {"upstage-Solar-Open-100B.jinja", "reasoning_effort", ALL},
    {"thinking.jinja", "enable_thinking", ""}, // of recorded/
};

static const char *folders_at(size_t i)
{
    return i == 0 ? assets_path("chat/templates")
                  : WEFT_SOURCE_DIR "/tests/runtime/recorded/templates";
}

static struct text file_text(const char *folder, const char *name)
{
    char path[1024];
    static char source[1 << 20];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t bytes = fread(source, 1, sizeof source, file);
    fclose(file);
    return text_span(source, bytes);
}

static void efforts_put(uint32_t efforts, char *out)
{
    *out = 0;
    for (int i = EFFORT_MINIMAL; i < EFFORT_COUNT; i++)
        if (efforts >> i & 1)
            sprintf(out + strlen(out), "%s%s", *out ? " " : "",
                    dialect_effort_name((enum dialect_effort)i));
}

static struct text render(const struct chat_template *chat, const char *variable, const char *value,
                          struct arena *arena)
{
    char source[512];
    struct chat_output out;
    struct error err = {0};
    snprintf(source, sizeof source,
             "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\", \"add_generation_prompt\": true,"
             " \"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\":"
             " \"assistant\", \"content\": \"b\"}, {\"role\": \"user\", \"content\": \"Why?\"}], "
             "\"%s\": %s}",
             variable, value);
    json_t *variables = json_loads(source, 0, NULL);
    assert_non_null(variables);
    const struct chat_input in = {.variables = variables};
    if (chat_render(chat, &in, arena, &out, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    json_decref(variables);
    return out.text;
}

// Checks that on and off give different prompts, in another conversation than that of the
// detection.
static void prompts_compare(const struct row *row, const struct chat_template *chat)
{
    const struct dialect_switch *by = row->by ? dialect_switch_of(row->by) : NULL;
    if (!by || strcmp(row->by, "reasoning_effort") == 0) // two switches have this variable
        return;
    struct arena *arena = arena_create(0, 64u << 20);
    struct text on = render(chat, by->variable, by->on, arena);
    if (text_equal(on, render(chat, by->variable, by->off, arena)))
        fail_msg("%s: one prompt for on and off", row->file);
    arena_destroy(arena);
}

static const char *const one_call[] = {"meta-llama-Llama-3.1-8B-Instruct.jinja",
                                       "meta-llama-Llama-3.3-70B-Instruct.jinja",
                                       "headers.jinja"}; // of recorded/

static unsigned calls_check(const char *folder, const char *file)
{
    struct chat_template *chat;
    struct error err;
    bool listed = false;
    for (size_t i = 0; i < sizeof one_call / sizeof *one_call; i++)
        listed |= strcmp(one_call[i], file) == 0;
    assert_int_equal(chat_template_create(&chat, file_text(folder, file), &err), STATUS_OK);
    bool found = dialect_one_call(chat);
    chat_template_destroy(chat);
    if (found != listed)
        print_error("%s: %s\n", file, found ? "one call" : "any count of calls");
    return found != listed;
}

static unsigned template_check(const char *folder, const char *file)
{
    const struct row *row = NULL;
    struct dialect dialect;
    struct chat_template *chat;
    struct dialect_thinking found;
    struct error err;
    char efforts[128];
    struct text source = file_text(folder, file);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        row = strcmp(rows[i].file, file) == 0 ? &rows[i] : row;
    assert_int_equal(dialect_detect(&dialect, source, NULL, &err), STATUS_OK);
    if (!row && !dialect_reasoning_syntax(&dialect).open)
        return 0;
    assert_int_equal(chat_template_create(&chat, source, &err), STATUS_OK);
    dialect_thinking_find(&found, chat, source);
    efforts_put(found.efforts, efforts);
    bool same = row && (row->by ? found.by && strcmp(found.by->variable, row->by) == 0 : !found.by);
    bool wrong = !same || strcmp(efforts, row->efforts) != 0;
    if (wrong)
        print_error("%s: %s, efforts %s\n", file, found.by ? found.by->variable : "no switch",
                    efforts);
    else
        prompts_compare(row, chat);
    chat_template_destroy(chat);
    return wrong;
}

static void templates_check(unsigned (*check_one)(const char *folder, const char *file))
{
    unsigned wrong = 0;
    for (size_t f = 0; f < 2; f++) {
        DIR *folder = opendir(folders_at(f));
        if (!folder && f == 0)
            printf("%s: not there, so its templates are left out\n", folders_at(f));
        for (struct dirent *entry; folder && (entry = readdir(folder));)
            if (strstr(entry->d_name, ".jinja"))
                wrong += check_one(folders_at(f), entry->d_name);
        if (folder)
            closedir(folder);
    }
    assert_int_equal(wrong, 0);
}

static void test_switches_of_all_templates(void **state)
{
    (void)state;
    templates_check(template_check);
}

static void test_templates_that_refuse_two_calls(void **state)
{
    (void)state;
    templates_check(calls_check);
}

static bool one_call_in(const char *source)
{
    struct chat_template *chat;
    struct error err;
    assert_int_equal(chat_template_create(&chat, text_of(source), &err), STATUS_OK);
    bool one = dialect_one_call(chat);
    chat_template_destroy(chat);
    return one;
}

static void test_detection_of_one_call(void **state)
{
#define EACH(body) "{% for m in messages %}" body "{% endfor %}"
#define REFUSE(when) "{% if " when " %}{{ raise_exception('no') }}{% endif %}"
    (void)state;
    assert_true(one_call_in(EACH(REFUSE("m.tool_calls and m.tool_calls | length > 1"))));
    // Every way to fail is a refusal.
    assert_true(one_call_in(EACH("{% if m.tool_calls | length > 1 %}{{ 1 + 'a' }}{% endif %}")));
    assert_true(one_call_in("{% set ns = namespace(before='') %}" EACH(REFUSE(
        "m.role == ns.before") "{% set ns.before = m.role %}"))); // results would follow each other
    assert_false(one_call_in(EACH(REFUSE("m.tool_calls"))));      // accepts no call
    assert_false(one_call_in(EACH(REFUSE("m.tool_calls and m.tool_calls | length > 2"))));
    assert_false(one_call_in(EACH("{{ m.content }}")));
    // The ids, names and tools of the detection are such as templates require.
    assert_true(one_call_in(EACH(
        REFUSE("not tools or (m.role == 'tool' and (m.tool_call_id | length != 9 or not m.name))")
            REFUSE("m.tool_calls and m.tool_calls | length > 1"))));
}

static void found_in(const char *source, struct dialect_thinking *found)
{
    struct chat_template *chat;
    struct error err;
    assert_int_equal(chat_template_create(&chat, text_of(source), &err), STATUS_OK);
    dialect_thinking_find(found, chat, text_of(source));
    chat_template_destroy(chat);
}

static void test_variables_that_are_not_switches(void **state)
{
    (void)state;
    struct dialect_thinking found;
    found_in("{% set ns = namespace(enable_thinking=true) %}{{ ns.enable_thinking }}", &found);
    assert_null(found.by);
    found_in("{% if enable_thinking %}{% endif %}a", &found); // on and off give equal prompts
    assert_null(found.by);
    found_in("{% if enable_thinking %}{{ raise_exception('no') }}{% endif %}", &found);
    assert_null(found.by);                              // one of the two values is refused
    found_in("Effort: {{ reasoning_effort }}", &found); // every value is accepted
    assert_null(found.by);
    found_in("{{ 'a' if enable_thinking else 'b' if thinking else 'c' }}", &found);
    assert_string_equal(found.by->variable, "enable_thinking");
}

static void test_nearest_effort(void **state)
{
    static const struct {
        const char *taken, *asked, *nearest;
    } cases[] = {
        {"'low', 'high'", "minimal", "low"},    {"'low', 'high'", "medium", "high"},
        {"'low', 'high'", "max", "high"},       {"'low', 'high'", "low", "low"},
        {"'minimal', 'max'", "low", "minimal"}, {"'minimal', 'max'", "high", "max"},
        {"'other'", "medium", "medium"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char source[256];
        struct dialect_thinking found;
        enum dialect_effort effort;
        snprintf(source, sizeof source,
                 "{%% if reasoning_effort not in [%s] %%}{{ raise_exception('no') }}{%% endif %%}",
                 cases[i].taken);
        found_in(source, &found);
        assert_true(dialect_effort_named(text_of(cases[i].asked), &effort));
        assert_string_equal(dialect_effort_name(dialect_effort_nearest(&found, effort)),
                            cases[i].nearest);
    }
    enum dialect_effort effort;
    assert_false(dialect_effort_named(text_of("most"), &effort));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_switches_of_all_templates),
        cmocka_unit_test(test_templates_that_refuse_two_calls),
        cmocka_unit_test(test_detection_of_one_call),
        cmocka_unit_test(test_variables_that_are_not_switches),
        cmocka_unit_test(test_nearest_effort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
