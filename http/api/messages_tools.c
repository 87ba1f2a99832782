// SPDX-License-Identifier: Apache-2.0
// `tools` and `tool_choice` of Messages: see tools.h. Converts tools to the form of chat
// completions, because templates read that.
#include "http/api/tools.h"

#include "base/json_keys.h"

#include <string.h>

enum { MESSAGES_NAME_MAX = 128 };

static const struct field_rule tool_rows[] = {
    FIELD_READ_BY("name"),
    FIELD_READ_BY("type"),
    FIELD_TYPED("description", "s"),
    FIELD_TYPED("input_schema", "o"),
    FIELD_TYPED("strict", "b"),
    FIELD_HARMLESS("cache_control", "o"),
    FIELD_TYPED("eager_input_streaming", "b"),
    FIELD_HARMLESS("input_examples", "a"),
    FIELD_HARMLESS("allowed_callers", "a"),
    FIELD_TYPED("defer_loading", "b"),
};
static const struct field_rules tool_rules = FIELD_RULES(tool_rows, NULL);

// Checks the type of a tool. Tools that only clients of Anthropic's models run have other types,
// such as bash_20250124, and are rejected.
static void type_check(struct fields *f, const json_t *type, const char *path)
{
    struct text shown = text_head(json_text(type), 64);
    if (type && !json_is_string(type))
        fields_fail(f, HTTP_INVALID_TYPE, path, "must be a string");
    else if (type && !text_is(json_text(type), "custom"))
        fields_fail(f, HTTP_UNSUPPORTED_VALUE, path,
                    "must be 'custom': tools of the type '%.*s' are not supported",
                    (int)shown.bytes, shown.at);
}

// Returns (new reference) the schema, with "type": "object" added if it has no type.
static json_t *schema_of(struct fields *f, const json_t *schema, const char *path)
{
    const json_t *type = json_member(schema, "type");
    if (!schema)
        fields_fail(f, HTTP_MISSING_FIELD, path, "is required");
    else if (type && !text_is(json_text(type), "object"))
        fields_fail(f, json_is_string(type) ? HTTP_INVALID_VALUE : HTTP_INVALID_TYPE,
                    fields_path(f, "%s.type", path), "must be 'object'");
    if (!schema || type)
        return json_incref((json_t *)schema);
    json_t *typed = json_object_copied(schema);
    json_object_set_new(typed, "type", json_string("object"));
    return typed;
}

// Adds the names of the tools that the content refers to, also inside of tool results.
static void references_add(struct fields *f, const json_t *content, json_t *names)
{
    size_t count = json_is_array(content) ? json_array_size(content) : 0;
    for (size_t i = 0; i < count && fields_spend(f, 1); i++) {
        const json_t *block = json_array_get(content, i);
        struct text type = json_text(json_member(block, "type"));
        struct text name = json_text(json_member(block, "tool_name"));
        if (text_is(type, "tool_reference") && name.at)
            json_object_setn_new(names, name.at, name.bytes, json_true());
        else if (text_is(type, "tool_result"))
            references_add(f, json_member(block, "content"), names);
    }
}

// Sets g->tools.loaded to the names of the tools that tool_reference blocks and tool_choice name.
// Does nothing if no tool is deferred.
static void references_read(struct generation *g)
{
    struct fields *f = &g->call.fields;
    const json_t *tools = fields_get(f, "tools"), *messages = fields_get(f, "messages");
    struct text chosen = json_text(json_member(fields_get(f, "tool_choice"), "name"));
    size_t count = json_is_array(messages) ? json_array_size(messages) : 0;
    bool deferred = false;
    for (size_t i = 0; i < json_array_size(tools); i++)
        deferred |= json_is_true(json_member(json_array_get(tools, i), "defer_loading"));
    if (!deferred)
        return;
    g->tools.loaded = json_object();
    for (size_t i = 0; i < count; i++)
        references_add(f, json_member(json_array_get(messages, i), "content"), g->tools.loaded);
    if (chosen.at)
        json_object_setn_new(g->tools.loaded, chosen.at, chosen.bytes, json_true());
}

// Returns true if the tool stays out of the prompt because nothing names it yet.
static bool is_deferred(const struct generation *g, const json_t *tool)
{
    struct text name = json_text(json_member(tool, "name"));
    return json_is_true(json_member(tool, "defer_loading")) &&
           !json_object_getn(g->tools.loaded, name.at, name.bytes);
}

static void tool_read(struct generation *g, const json_t *tool, size_t i, json_t *names,
                      json_t *out)
{
    struct fields *f = &g->call.fields;
    struct field_path path = fields_path_keep(fields_path(f, "tools[%zu]", i));
    if (!json_is_object(tool)) {
        fields_fail(f, HTTP_INVALID_TYPE, path.at, "must be an object");
        return;
    }
    struct text type = json_text(json_member(tool, "type"));
    if (tools_type_is_hosted(type)) {
        tools_hosted_log(text_head(type, 64));
        return;
    }
    type_check(f, json_member(tool, "type"), fields_path(f, "%s.type", path.at));
    fields_check_object(f, &tool_rules, tool, path.at);
    tools_name_read(f, json_member(tool, "name"), fields_path(f, "%s.name", path.at),
                    MESSAGES_NAME_MAX, names);
    json_t *schema =
        schema_of(f, json_member(tool, "input_schema"), fields_path(f, "%s.input_schema", path.at));
    if (f->failed || is_deferred(g, tool)) {
        json_decref(schema);
        return;
    }
    if (json_is_true(json_member(tool, "eager_input_streaming"))) {
        g->tools.streamed = g->tools.streamed ? g->tools.streamed : json_object();
        json_object_set_new(g->tools.streamed, json_string_value(json_member(tool, "name")),
                            json_true());
    }
    json_array_append_new(out, tools_entry(tool, schema));
    json_decref(schema);
}

static void choice_read(struct fields *f, const json_t *names, struct tool_choice *out)
{
    const json_t *choice = fields_get(f, "tool_choice"), *name = json_member(choice, "name");
    struct text type = json_text(json_member(choice, "type"));
    bool one = text_is(type, "tool");
    fields_require_type(f, "tool_choice");
    *out =
        (struct tool_choice){.hidden = text_is(type, "none"), .must = one || text_is(type, "any")};
    if (!choice || text_is(type, "auto"))
        return;
    if (!out->must && !out->hidden)
        fields_fail(f, HTTP_INVALID_VALUE, "tool_choice.type",
                    "must be 'auto', 'any', 'tool' or 'none'");
    if (out->must && json_object_size(names) == 0)
        tools_missing(f);
    if (one && !name)
        fields_fail(f, HTTP_MISSING_FIELD, "tool_choice.name", "is required");
    if (one && json_text(name).at &&
        !json_object_getn(names, json_string_value(name), json_string_length(name)))
        fields_fail(f, HTTP_INVALID_VALUE, "tool_choice.name", "must be the name of a tool");
    if (one && !f->failed)
        out->allowed = json_pack("[O]", name);
}

void messages_tools_read(struct generation *g)
{
    struct fields *f = &g->call.fields;
    const json_t *choice = fields_get(f, "tool_choice");
    references_read(g);
    json_t *names = json_object(), *converted = tools_convert(g, names, tool_read);
    choice_read(f, names, &g->tools.choice);
    bool called = !g->tools.choice.hidden && json_array_size(converted) > 0 && !f->failed;
    g->options.one_call = json_is_true(json_member(choice, "disable_parallel_tool_use"));
    tools_use(g, called ? json_incref(converted) : NULL);
    json_decref(converted);
    json_decref(names);
}
