// SPDX-License-Identifier: Apache-2.0
// Custom tools, whose argument is one string, and tools that only their provider runs: see tools.h.
#include "http/api/tools.h"

#include "base/log.h"

#include <stdatomic.h>
#include <string.h>

// Logs a line; after the first time with level debug.
static void log_first(atomic_bool *logged, const char *what, struct text name)
{
    bool again = atomic_exchange_explicit(logged, true, memory_order_relaxed);
    log_line(again ? LOG_DEBUG : LOG_INFO, "%s: '%.*s'%s", what, (int)name.bytes, name.at,
             again ? "" : " (later ones: log level debug)");
}

// The form of a custom tool's input. Both members are new references, or NULL.
struct custom_format {
    json_t *text;    // states the form to the model
    json_t *pattern; // regular expression that a grammar enforces
};

// Returns a regular expression that matches complete texts.
static json_t *pattern_of(struct text definition)
{
    struct json_buffer all = {0};
    json_put_literal(&all, "^(?:");
    json_put_raw(&all, definition);
    json_put_literal(&all, ")$");
    json_t *pattern = json_string_of(json_buffer_text(&all));
    json_buffer_free(&all);
    return pattern;
}

static struct custom_format format_read(struct fields *f, const json_t *format, const char *path)
{
    static atomic_bool logged; // relaxed: without atomicity two threads could log the first line
    struct custom_format out = {0};
    struct field_path base = fields_path_keep(path);
    struct text type = format ? fields_member_string(f, format, path, "type") : text_of("text");
    if (f->failed || text_is(type, "text"))
        return out;
    if (!text_is(type, "grammar")) {
        fields_fail(f, HTTP_UNSUPPORTED_VALUE, fields_path(f, "%s.type", base.at),
                    "must be 'text' or 'grammar'");
        return out;
    }
    // chat completions have these members in `grammar`
    const json_t *in = json_member(format, "grammar");
    in = json_is_object(in) ? in : format;
    struct text syntax = fields_member_string(f, in, base.at, "syntax");
    struct text definition = fields_member_string(f, in, base.at, "definition");
    if (f->failed)
        return out;
    out.text = json_sprintf("The input must match this grammar (%.*s):\n%.*s", (int)syntax.bytes,
                            syntax.at, (int)definition.bytes, definition.at);
    if (text_is(syntax, "regex"))
        out.pattern = pattern_of(definition);
    else
        log_first(&logged, "the grammar of a custom tool is in the prompt, but is not enforced",
                  text_head(syntax, 32));
    return out;
}

static json_t *parameters_of(const struct custom_format *format)
{
    json_t *input = json_pack("{s:s}", "type", "string");
    if (format->text)
        json_object_set(input, "description", format->text);
    if (format->pattern)
        json_object_set(input, "pattern", format->pattern);
    return json_pack("{s:s,s:{s:o},s:[s],s:b}", "type", "object", "properties", ANSWER_CUSTOM_INPUT,
                     input, "required", ANSWER_CUSTOM_INPUT, "additionalProperties", 0);
}

void tools_custom_add(struct generation *g, const json_t *tool, const json_t *name,
                      const char *path, json_t *out)
{
    struct fields *f = &g->call.fields;
    struct custom_format format =
        format_read(f, json_member(tool, "format"), fields_path(f, "%s.format", path));
    if (!f->failed) {
        json_t *parameters = parameters_of(&format), *entry = tools_entry(tool, parameters);
        json_t *function = json_object_get(entry, "function");
        json_object_set(function, "name", (json_t *)name); // only read
        if (format.pattern)
            json_object_set_new(function, "strict", json_true());
        json_array_append_new(out, entry);
        json_t **custom = &g->tools.custom;
        *custom = *custom ? *custom : json_object();
        json_object_set_new(*custom, json_string_value(name), json_true());
        json_decref(parameters);
    }
    json_decref(format.text);
    json_decref(format.pattern);
}

bool tools_type_is_hosted(struct text type)
{
    static const char *const names[] = {
        "web_search",
        "web_fetch",
        "file_search",
        "image_generation",
        "code_interpreter",
        "code_execution",
        "mcp",
        "computer",
        "shell",
        "local_shell",
        "apply_patch",
        "tool_search",
        "container",
        "x_search",
        "advisor",
        "programmatic_tool_calling",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t bytes = strlen(names[i]);
        // also with a version: web_search_20250305, computer-preview, mcp_list_tools
        if (text_begins(type, names[i]) &&
            (type.bytes == bytes || type.at[bytes] == '_' || type.at[bytes] == '-'))
            return true;
    }
    return false;
}

void tools_missing(struct fields *f)
{
    bool left_out = json_array_size(fields_get(f, "tools")) > 0;
    fields_fail(f, HTTP_INVALID_VALUE, "tool_choice", "needs tools%s",
                left_out ? " other than those that only their provider runs" : "");
}

void tools_hosted_log(struct text type)
{
    static atomic_bool logged; // relaxed: without atomicity two threads could log the first line
    log_first(&logged, "left out a tool that only its provider runs", type);
}
