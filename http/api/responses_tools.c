// `tools` of Responses: see tools.h. The members of a function are next to its type here. Converts
// tools to the form of chat completions, because templates read that.
#include "http/api/tools.h"

static const struct field_rule tool_rows[] = {
    FIELD_READ_BY("type"),
    FIELD_READ_BY("name"),
    FIELD_TYPED("description", "s"),
    FIELD_TYPED("parameters", "o"),
    FIELD_TYPED("strict", "b"),
    FIELD_HARMLESS("output_schema", "o"),
    FIELD_HARMLESS("allowed_callers", "a"),
    FIELD_NOT_SERVED("async", "b", "[false]"),
    FIELD_NOT_SERVED("defer_loading", "b", "[false]"),
};
static const struct field_rules tool_rules = FIELD_RULES(tool_rows, NULL);

static void tool_read(struct generation *g, const json_t *tool, size_t i, json_t *names,
                      json_t *out)
{
    struct fields *f = &g->call.fields;
    struct field_path path = fields_path_keep(fields_path(f, "tools[%zu]", i));
    struct text type = fields_member_string(f, tool, path.at, "type"), shown = text_head(type, 64);
    const json_t *name = json_member(tool, "name");
    if (!f->failed && !text_is(type, "function"))
        fields_fail(f, HTTP_UNSUPPORTED_VALUE, fields_path(f, "%s.type", path.at),
                    "must be 'function': tools of the type '%.*s' are not supported",
                    (int)shown.bytes, shown.at);
    if (f->failed)
        return;
    fields_check_object(f, &tool_rules, tool, path.at);
    tools_name_read(f, name, fields_path(f, "%s.name", path.at), TOOL_NAME_MAX, names);
    if (!f->failed)
        json_array_append_new(out, tools_entry(tool, json_member(tool, "parameters")));
}

void responses_tools_read(struct generation *g)
{
    json_t *names = json_object(), *converted = tools_convert(g, names, tool_read);
    tools_choose(g, names, true, converted);
    json_decref(converted);
    json_decref(names);
}
