// SPDX-License-Identifier: Apache-2.0
// Properties of chat templates; see switch.h. The rows are tried in their order.
#include "runtime/text/dialect/switch.h"

#include "base/arena.h"
#include "base/status.h"

#include <stdio.h>
#include <string.h>

static const struct dialect_switch switches[] = {
    {"enable_thinking", "true", "false", NULL},
    {"thinking", "true", "false", NULL},                            // Granite 3.3
    {"thinking_mode", "\"enabled\"", "\"disabled\"", NULL},         // MiniMax M3
    {"reasoning", "true", "false", NULL},                           // Command A
    {"reasoning_effort", "\"high\"", "\"no_think\"", "no_think"},   // Hunyuan 3
    {"reasoning_effort", "\"high\"", "\"minimal\"", "\"minimal\""}, // Solar
    {"thinking_budget", "-1", "0", NULL},                           // Seed-OSS
};
enum { SWITCHES = sizeof switches / sizeof *switches };

static const char *const effort_names[] = {"none", "minimal", "low", "medium",
                                           "high", "xhigh",   "max"};

const char *dialect_effort_name(enum dialect_effort effort)
{
    return effort_names[effort];
}

bool dialect_effort_named(struct text name, enum dialect_effort *effort)
{
    for (int i = 0; i < EFFORT_COUNT; i++)
        if (text_is(name, effort_names[i])) {
            *effort = (enum dialect_effort)i;
            return true;
        }
    return false;
}

enum dialect_effort dialect_effort_nearest(const struct dialect_thinking *t,
                                           enum dialect_effort effort)
{
    for (int far = 0; far < EFFORT_COUNT; far++)
        for (int side = 1; side >= -1; side -= 2) {
            int level = (int)effort + side * far;
            if (level > EFFORT_NONE && level < EFFORT_COUNT && (t->efforts >> level & 1))
                return (enum dialect_effort)level;
        }
    return effort;
}

const struct dialect_switch *dialect_switch_of(const char *variable)
{
    for (uint32_t i = 0; i < SWITCHES; i++)
        if (strcmp(switches[i].variable, variable) == 0)
            return &switches[i];
    return NULL;
}

// Renders the prompt with these variables. Returns false if the template rejects them.
static bool prompt_of(const struct chat_template *chat, const json_t *more, struct arena *arena,
                      struct text *out)
{
    struct chat_output rendered;
    struct error err;
    json_t *variables =
        json_pack("{s:s, s:s, s:b, s:[{s:s, s:s}]}", "bos_token", "", "eos_token", "",
                  "add_generation_prompt", 1, "messages", "role", "user", "content", "Hello");
    check(variables && json_object_update(variables, (json_t *)more) == 0, "no variables");
    const struct chat_input in = {.variables = variables};
    enum status status = chat_render(chat, &in, arena, &rendered, &err);
    json_decref(variables);
    if (status == STATUS_OK)
        *out = rendered.text;
    return status == STATUS_OK;
}

static void value_set(json_t *variables, const char *name, const char *value)
{
    json_t *read = json_loads(value, JSON_DECODE_ANY, NULL);
    check(read, "%s is no JSON", value);
    json_object_set_new(variables, name, read);
}

static bool switch_works(const struct dialect_switch *s, const struct chat_template *chat,
                         struct arena *arena)
{
    struct text on, off;
    json_t *variables = json_object();
    value_set(variables, s->variable, s->on);
    bool works = prompt_of(chat, variables, arena, &on);
    value_set(variables, s->variable, s->off);
    works = works && prompt_of(chat, variables, arena, &off) && !text_equal(on, off);
    json_decref(variables);
    return works;
}

static uint32_t efforts_accepted(const struct dialect_switch *by, const struct chat_template *chat,
                                 struct arena *arena)
{
    uint32_t accepted = 0;
    struct text prompt;
    json_t *variables = json_object();
    if (by)
        value_set(variables, by->variable, by->on);
    for (int i = EFFORT_MINIMAL; i < EFFORT_COUNT; i++) {
        json_object_set_new(variables, "reasoning_effort", json_string(effort_names[i]));
        accepted |= (uint32_t)prompt_of(chat, variables, arena, &prompt) << i;
    }
    json_decref(variables);
    return accepted;
}

// A conversation in which a message has this number of calls, as the endpoints write it. The ids
// have the only form that some templates accept.
static json_t *calls_made(uint32_t calls)
{
    json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "content", "Hello");
    json_t *list = json_array();
    json_t *answer =
        json_pack("{s:s, s:s, s:O}", "role", "assistant", "content", "", "tool_calls", list);
    json_array_append_new(messages, answer);
    for (uint32_t i = 0; i < calls; i++) {
        char id[] = "call00000";
        id[sizeof id - 2] = (char)('0' + i); // at most two calls
        json_array_append_new(list, json_pack("{s:s, s:s, s:{s:s, s:{s:i}}}", "id", id, "type",
                                              "function", "function", "name", "f", "arguments", "a",
                                              (int)i));
        json_array_append_new(messages, json_pack("{s:s, s:s, s:s, s:s}", "role", "tool", "content",
                                                  "1", "tool_call_id", id, "name", "f"));
    }
    json_decref(list);
    return json_pack("{s:o, s:[{s:s, s:{s:s, s:s, s:{s:s, s:{s:{s:s}}}}}]}", "messages", messages,
                     "tools", "type", "function", "function", "name", "f", "description", "F",
                     "parameters", "type", "object", "properties", "a", "type", "integer");
}

static bool calls_accepted(const struct chat_template *chat, uint32_t calls, struct arena *arena)
{
    struct text prompt;
    json_t *more = calls_made(calls);
    bool accepted = prompt_of(chat, more, arena, &prompt);
    json_decref(more);
    return accepted;
}

bool dialect_one_call(const struct chat_template *chat)
{
    struct arena *arena = arena_create(0, 64u * 1024 * 1024);
    bool one = calls_accepted(chat, 1, arena) && !calls_accepted(chat, 2, arena);
    arena_destroy(arena);
    return one;
}

void dialect_thinking_find(struct dialect_thinking *out, const struct chat_template *chat,
                           struct text source)
{
    struct arena *arena = arena_create(0, 64u * 1024 * 1024);
    *out = (struct dialect_thinking){.by = NULL};
    for (uint32_t i = 0; i < SWITCHES && !out->by; i++) {
        const struct dialect_switch *s = &switches[i];
        bool signs = !s->sign || memmem(source.at, source.bytes, s->sign, strlen(s->sign));
        if (signs && chat_template_uses(chat, s->variable) && switch_works(s, chat, arena))
            out->by = s;
    }
    if (chat_template_uses(chat, "reasoning_effort"))
        out->efforts = efforts_accepted(out->by, chat, arena);
    arena_destroy(arena);
}
