// SPDX-License-Identifier: Apache-2.0
// Tools of a request: see tools.h. Checks them; the template renders them, and the reply parser
// (runtime/text/dialect) finds the calls.
#include "http/api/tools.h"

#include <string.h>

static const struct field_rule function_rows[] = {
    FIELD_READ_BY("name"),
    FIELD_TYPED("description", "s"),
    FIELD_TYPED("parameters", "o"),
    FIELD_TYPED("strict", "b"),
};
static const struct field_rules function_rules = FIELD_RULES(function_rows, NULL);

static const struct field_rule custom_rows[] = {
    FIELD_READ_BY("name"),
    FIELD_TYPED("description", "s"),
    FIELD_TYPED("format", "o"),
};
static const struct field_rules custom_rules = FIELD_RULES(custom_rows, NULL);

static const struct field_rule tool_rows[] = {
    FIELD_READ_BY("type"),
    FIELD_READ_BY("function"),
    FIELD_READ_BY("custom"),
    FIELD_HARMLESS("cache_control", "o"),
};
static const struct field_rules tool_rules = FIELD_RULES(tool_rows, NULL);

static bool name_is_sound(struct text name, size_t bytes_max)
{
    for (size_t i = 0; i < name.bytes; i++) {
        char c = name.at[i], lower = (char)(c | 0x20);
        if (!(c >= '0' && c <= '9') && !(lower >= 'a' && lower <= 'z') && c != '_' && c != '-')
            return false;
    }
    return name.bytes > 0 && name.bytes <= bytes_max;
}

void tools_name_read(struct fields *f, const json_t *name, const char *path, size_t bytes_max,
                     json_t *names)
{
    if (!name)
        fields_fail(f, HTTP_MISSING_FIELD, path, "is required");
    else if (!json_is_string(name))
        fields_fail(f, HTTP_INVALID_TYPE, path, "must be a string");
    else if (!name_is_sound(json_text(name), bytes_max))
        fields_fail(f, HTTP_INVALID_VALUE, path, "must be 1 to %zu letters, digits, '_' and '-'",
                    bytes_max);
    else if (json_object_get(names, json_string_value(name)))
        fields_fail(f, HTTP_INVALID_VALUE, path, "must be unique: '%s' is used already",
                    json_string_value(name));
    else
        json_object_set_new(names, json_string_value(name), json_true());
}

// Checks the members of a function or a custom tool.
static void tool_check(struct fields *f, const struct field_rules *rules, const json_t *function,
                       const char *path, json_t *names)
{
    struct field_path kept = fields_path_keep(path);
    fields_check_object(f, rules, function, kept.at);
    tools_name_read(f, json_member(function, "name"), fields_path(f, "%s.name", kept.at),
                    TOOL_NAME_MAX, names);
}

static void tool_read(struct generation *g, const json_t *tool, size_t i, json_t *names,
                      json_t *out)
{
    struct fields *f = &g->call.fields;
    struct field_path path = fields_path_keep(fields_path(f, "tools[%zu]", i));
    struct text type = fields_member_string(f, tool, path.at, "type"), shown = text_head(type, 32);
    bool custom = text_is(type, "custom");
    const char *member = custom ? "custom" : "function";
    if (!f->failed && !custom && !text_is(type, "function"))
        fields_fail(f, HTTP_UNSUPPORTED_VALUE, fields_path(f, "%s.type", path.at),
                    "must be 'function' or 'custom', got '%.*s'", (int)shown.bytes, shown.at);
    const json_t *function = fields_member(f, tool, path.at, member, JSON_OBJECT);
    if (f->failed)
        return;
    fields_check_object(f, &tool_rules, tool, path.at);
    struct field_path inside = fields_path_keep(fields_path(f, "%s.%s", path.at, member));
    tool_check(f, custom ? &custom_rules : &function_rules, function, inside.at, names);
    if (custom && !f->failed)
        tools_custom_add(g, function, json_member(function, "name"), inside.at, out);
    else
        json_array_append_new(out, tools_entry(function, json_member(function, "parameters")));
}

json_t *tools_entry(const json_t *function, const json_t *parameters)
{
    static const char *const texts[] = {"name", "description"};
    json_t *out = json_object(), *entry = json_object();
    for (int i = 0; i < 2; i++)
        if (json_member(function, texts[i]))
            json_object_set(out, texts[i], (json_t *)json_member(function, texts[i])); // only read
    if (parameters)
        json_object_set(out, "parameters", (json_t *)parameters);
    if (json_is_true(json_member(function, "strict")))
        json_object_set_new(out, "strict", json_true());
    json_object_set_new(entry, "type", json_string("function"));
    json_object_set_new(entry, "function", out);
    return entry;
}

bool tools_are_generic(const struct served_model *model)
{
    return model->generic_calls.row != NULL;
}

void tools_use(struct generation *g, json_t *tools)
{
    const struct served_model *model = g->call.model;
    const struct dialect *dialect =
        tools_are_generic(model) && tools ? &model->generic_calls : &model->dialect;
    if (tools && dialect->row && !dialect_has_calls(dialect))
        fields_fail(
            &g->call.fields, HTTP_UNSUPPORTED_VALUE, "tools",
            "must be empty: the chat template of this model does not support tools (the server's "
            "option --chat-template sets another)");
    g->tools.converted = tools;
    if (g->call.fields.failed || !dialect->row)
        return;
    g->options.one_call |= dialect->one_call; // the template renders one call per message
    bool reasons = dialect_reasoning_syntax(dialect).open != NULL;
    g->options.reads_reply = tools || reasons || dialect_marks_text(dialect);
    g->options.reply = (struct reply_args){.dialect = dialect,
                                           .calls = tools != NULL,
                                           .reasoning = reasons,
                                           .keep_special = g->options.special_shown,
                                           .tools = tools};
}

static size_t tools_count(struct fields *f, const json_t *tools)
{
    size_t n = json_array_size(tools);
    if (n > TOOLS_MAX)
        fields_fail(f, HTTP_INVALID_VALUE, "tools", "must hold at most %d tools, got %zu",
                    TOOLS_MAX, n);
    return n;
}

json_t *tools_convert(struct generation *g, json_t *names, tool_reader *read)
{
    struct fields *f = &g->call.fields;
    const json_t *tools = fields_get(f, "tools");
    size_t n = tools_count(f, tools);
    json_t *out = json_array();
    for (size_t i = 0; i < n && !f->failed; i++)
        read(g, json_array_get(tools, i), i, names, out);
    if (n <= TOOLS_MAX && !f->failed)
        (void)tools_count(f, out); // namespaces contain several
    return out;
}

void tools_choose(struct generation *g, const json_t *names, bool flat, const json_t *tools)
{
    struct fields *f = &g->call.fields;
    tool_choice_read(f, names, flat, &g->tools.choice);
    bool parallel = fields_bool(f, "parallel_tool_calls", true);
    g->options.one_call = !parallel || g->tools.choice.one;
    g->options.custom_tools = g->tools.custom;
    bool called = !g->tools.choice.hidden && json_array_size(tools) > 0 && !f->failed;
    tools_use(g, called ? json_incref((json_t *)tools) : NULL); // tools is only read
}

void tools_read(struct generation *g)
{
    json_t *names = json_object(), *converted = tools_convert(g, names, tool_read);
    tools_choose(g, names, false, converted);
    json_decref(converted);
    json_decref(names);
}
