// SPDX-License-Identifier: Apache-2.0
// `tools` of Responses: see tools.h. The members of a function are next to its type here. Converts
// tools to the form of chat completions, because templates read that:
//
//   function    as it is
//   custom      a function with one string, `input`; answers contain that string alone
//   namespace   its tools, each with the name "namespace__name"
//   hosted      left out: a tool that OpenAI's servers run. Agents list them in every request.
#include "http/api/tools.h"

#include <string.h>

static const struct field_rule tool_rows[] = {
    FIELD_READ_BY("type"),
    FIELD_READ_BY("name"),
    FIELD_TYPED("description", "s"),
    FIELD_TYPED("parameters", "o"),
    FIELD_TYPED("strict", "b"),
    FIELD_HARMLESS("output_schema", "o"),
    FIELD_HARMLESS("allowed_callers", "a"),
    FIELD_HARMLESS("defer_loading", "b"), // nothing loads tools later, so all are loaded
    FIELD_NOT_SERVED("async", "b", "[false]"),
};
static const struct field_rules tool_rules = FIELD_RULES(tool_rows, NULL);

static const struct field_rule custom_rows[] = {
    FIELD_READ_BY("type"),
    FIELD_READ_BY("name"),
    FIELD_TYPED("description", "s"),
    FIELD_TYPED("format", "o"),
    FIELD_HARMLESS("allowed_callers", "a"),
    FIELD_HARMLESS("defer_loading", "b"),
};
static const struct field_rules custom_rules = FIELD_RULES(custom_rows, NULL);

static const struct field_rule space_rows[] = {
    FIELD_READ_BY("type"),
    FIELD_READ_BY("name"),
    FIELD_TYPED("description", "s"),
    FIELD_READ_BY("tools"),
    FIELD_HARMLESS("defer_loading", "b"),
};
static const struct field_rules space_rules = FIELD_RULES(space_rows, NULL);

// Where a tool is read from and added to.
struct tool_place {
    struct generation *g;
    struct fields *fields;
    struct text space; // name of the namespace that contains the tool; at is NULL: none
    json_t *names, *out;
};

struct text responses_flat_name(struct arena *arena, struct text space, struct text name)
{
    if (!space.at)
        return name;
    struct text flat =
        arena_format(arena, "%.*s__%.*s", (int)space.bytes, space.at, (int)name.bytes, name.at);
    return flat.at ? flat : name; // if the arena is full, the request fails
}

// Reads the name of a tool and returns it as the model sees it (new reference); NULL on failure.
static json_t *name_read(struct tool_place *p, const json_t *tool, const char *path)
{
    struct fields *f = p->fields;
    json_t *own = json_object(), *flat = NULL;
    tools_name_read(f, json_member(tool, "name"), fields_path(f, "%s.name", path), TOOL_NAME_MAX,
                    p->space.at ? own : p->names);
    json_decref(own);
    if (f->failed)
        return NULL;
    struct text name = json_text(json_member(tool, "name"));
    flat = json_string_of(responses_flat_name(f->arena, p->space, name));
    if (!p->space.at)
        return flat;
    if (json_object_get(p->names, json_string_value(flat)))
        fields_fail(f, HTTP_INVALID_VALUE, fields_path(f, "%s.name", path),
                    "must be unique: '%s' is used already", json_string_value(flat));
    json_object_set_new(p->names, json_string_value(flat), json_true());
    json_t **spaces = &p->g->tools.spaces;
    *spaces = *spaces ? *spaces : json_object();
    json_object_set_new(*spaces, json_string_value(flat), json_string_of(p->space));
    return flat;
}

// Adds the tool under the name that the model sees (takes the reference).
static void tool_add(struct tool_place *p, const json_t *tool, json_t *name,
                     const json_t *parameters)
{
    json_t *entry = tools_entry(tool, parameters);
    json_object_set_new(json_object_get(entry, "function"), "name", name);
    json_array_append_new(p->out, entry);
}

static void function_read(struct tool_place *p, const json_t *tool, const char *path)
{
    fields_check_object(p->fields, &tool_rules, tool, path);
    json_t *name = name_read(p, tool, path);
    if (name)
        tool_add(p, tool, name, json_member(tool, "parameters"));
}

static void custom_read(struct tool_place *p, const json_t *tool, const char *path)
{
    struct field_path base = fields_path_keep(path);
    fields_check_object(p->fields, &custom_rules, tool, path);
    json_t *name = name_read(p, tool, base.at);
    if (name && !p->fields->failed)
        tools_custom_add(p->g, tool, name, base.at, p->out);
    json_decref(name);
}

static void any_read(struct tool_place *p, const json_t *tool, const char *path);

static void space_read(struct tool_place *p, const json_t *space, const char *path)
{
    struct fields *f = p->fields;
    struct field_path base = fields_path_keep(path);
    json_t *own = json_object();
    fields_check_object(f, &space_rules, space, path);
    tools_name_read(f, json_member(space, "name"), fields_path(f, "%s.name", path), TOOL_NAME_MAX,
                    own);
    json_decref(own);
    const json_t *tools = f->failed ? NULL : fields_member(f, space, path, "tools", JSON_ARRAY);
    struct tool_place inside = *p;
    inside.space = json_text(json_member(space, "name"));
    for (size_t i = 0; i < json_array_size(tools) && !f->failed; i++)
        any_read(&inside, json_array_get(tools, i), fields_path(f, "%s.tools[%zu]", base.at, i));
}

static void any_read(struct tool_place *p, const json_t *tool, const char *path)
{
    struct fields *f = p->fields;
    struct field_path base = fields_path_keep(path);
    struct text type = fields_member_string(f, tool, path, "type"), shown = text_head(type, 64);
    if (f->failed)
        return;
    if (text_is(type, "function"))
        function_read(p, tool, base.at);
    else if (text_is(type, "custom"))
        custom_read(p, tool, base.at);
    else if (text_is(type, "namespace") && !p->space.at)
        space_read(p, tool, base.at);
    else if (tools_type_is_hosted(type))
        tools_hosted_log(shown);
    else
        fields_fail(f, HTTP_UNSUPPORTED_VALUE, fields_path(f, "%s.type", base.at),
                    "must be 'function', 'custom' or 'namespace': tools of the type '%.*s' are "
                    "not supported",
                    (int)shown.bytes, shown.at);
}

static void tool_read(struct generation *g, const json_t *tool, size_t i, json_t *names,
                      json_t *out)
{
    struct fields *f = &g->call.fields;
    struct field_path path = fields_path_keep(fields_path(f, "tools[%zu]", i));
    struct tool_place place = {.g = g, .fields = f, .names = names, .out = out};
    any_read(&place, tool, path.at);
}

void responses_tools_read(struct generation *g)
{
    json_t *names = json_object(), *converted = tools_convert(g, names, tool_read);
    tools_choose(g, names, true, converted);
    g->options.spaces = g->tools.spaces;
    json_decref(converted);
    json_decref(names);
}
