// Tools of a request: see tools.h. What they may be is checked here; the template renders them and
// the reader of replies (runtime/text/dialect) finds the calls.
#include "http/api/tools.h"

#include <string.h>

static const struct field_rule function_rows[] = {
    FIELD_READ_BY("name"),
    FIELD_TYPED("description", "s"),
    FIELD_TYPED("parameters", "o"),
    FIELD_NOT_SERVED("strict", "b", "[false]"),
};
static const struct field_rules function_rules = FIELD_RULES(function_rows, NULL);

static const struct field_rule tool_rows[] = {
    FIELD_READ_BY("type"),
    FIELD_READ_BY("function"),
    FIELD_HARMLESS("cache_control", "o"),
};
static const struct field_rules tool_rules = FIELD_RULES(tool_rows, NULL);

static bool name_is_sound(struct text name)
{
    for (size_t i = 0; i < name.bytes; i++) {
        char c = name.at[i], lower = (char)(c | 0x20);
        if (!(c >= '0' && c <= '9') && !(lower >= 'a' && lower <= 'z') && c != '_' && c != '-')
            return false;
    }
    return name.bytes > 0 && name.bytes <= TOOL_NAME_MAX;
}

static void function_read(struct fields *f, const json_t *function, const char *path, json_t *names)
{
    struct field_path kept = fields_path_keep(path);
    const json_t *name = json_member(function, "name");
    const char *name_path = fields_path(f, "%s.name", kept.at);
    fields_check_object(f, &function_rules, function, kept.at);
    if (!name)
        fields_fail(f, HTTP_MISSING_FIELD, name_path, "is required");
    else if (!json_is_string(name))
        fields_fail(f, HTTP_INVALID_TYPE, name_path, "must be a string");
    else if (!name_is_sound(json_text(name)))
        fields_fail(f, HTTP_INVALID_VALUE, name_path,
                    "must be 1 to %d letters, digits, '_' and '-'", TOOL_NAME_MAX);
    else if (json_object_get(names, json_string_value(name)))
        fields_fail(f, HTTP_INVALID_VALUE, name_path, "must be another than that of '%s'",
                    json_string_value(name));
    else
        json_object_set_new(names, json_string_value(name), json_true());
}

static void tool_read(struct fields *f, const json_t *tool, size_t i, json_t *names)
{
    const json_t *type = json_member(tool, "type"), *function = json_member(tool, "function");
    struct text shown = text_head(json_text(type), 32);
    if (!json_is_object(tool)) {
        fields_fail(f, HTTP_INVALID_TYPE, fields_path(f, "tools[%zu]", i), "must be an object");
        return;
    }
    if (!type)
        fields_fail(f, HTTP_MISSING_FIELD, fields_path(f, "tools[%zu].type", i), "is required");
    else if (!json_is_string(type))
        fields_fail(f, HTTP_INVALID_TYPE, fields_path(f, "tools[%zu].type", i), "must be a string");
    else if (!text_is(json_text(type), "function"))
        fields_fail(f, HTTP_UNSUPPORTED_VALUE, fields_path(f, "tools[%zu].type", i),
                    "must be 'function', got '%.*s'", (int)shown.bytes, shown.at);
    else if (!function)
        fields_fail(f, HTTP_MISSING_FIELD, fields_path(f, "tools[%zu].function", i), "is required");
    else if (!json_is_object(function))
        fields_fail(f, HTTP_INVALID_TYPE, fields_path(f, "tools[%zu].function", i),
                    "must be an object");
    if (f->failed)
        return;
    fields_check_object(f, &tool_rules, tool, fields_path(f, "tools[%zu]", i));
    function_read(f, function, fields_path(f, "tools[%zu].function", i), names);
}

// Whether the model may call.
static bool choice_read(struct fields *f, bool tools)
{
    const json_t *choice = fields_get(f, "tool_choice");
    struct text word = json_text(choice);
    if (!choice || text_is(word, "auto"))
        return true;
    if (text_is(word, "none"))
        return false;
    bool known = text_is(word, "required") || json_is_object(choice);
    if (!json_is_string(choice) && !known)
        fields_fail(f, HTTP_INVALID_TYPE, "tool_choice", "must be a string or an object");
    else if (!known)
        fields_fail(f, HTTP_INVALID_VALUE, "tool_choice",
                    "must be 'none', 'auto', 'required' or an object");
    else if (!tools)
        fields_fail(f, HTTP_INVALID_VALUE, "tool_choice", "needs tools");
    else
        fields_fail(f, HTTP_UNSUPPORTED_VALUE, "tool_choice",
                    "must be 'none' or 'auto': calls cannot be forced yet");
    return false;
}

void tools_read(struct generation *g)
{
    struct fields *f = &g->call.fields;
    const struct dialect *dialect = &g->call.model->dialect;
    const json_t *tools = fields_get(f, "tools");
    size_t n = json_array_size(tools);
    json_t *names = json_object();
    if (n > TOOLS_MAX)
        fields_fail(f, HTTP_INVALID_VALUE, "tools", "must hold at most %d tools, got %zu",
                    TOOLS_MAX, n);
    for (size_t i = 0; i < n && !f->failed; i++)
        tool_read(f, json_array_get(tools, i), i, names);
    json_decref(names);
    bool called = choice_read(f, n > 0) && n > 0;
    g->options.one_call = !fields_bool(f, "parallel_tool_calls", true);
    if (f->failed || !dialect->row)
        return;
    if (called && !dialect_has_calls(dialect)) {
        fields_fail(f, HTTP_UNSUPPORTED_VALUE, "tools",
                    "must be empty: the chat template of this model takes no tools");
        return;
    }
    bool reasons = dialect_reasoning_syntax(dialect).open != NULL;
    g->tools = called ? json_incref((json_t *)tools) : NULL; // which is only read
    g->options.reads_reply = called || reasons || dialect_marks_text(dialect);
    g->options.reply = (struct reply_args){.dialect = dialect,
                                           .calls = called,
                                           .reasoning = reasons,
                                           .keep_special = g->options.special_shown,
                                           .tools = g->tools};
}
