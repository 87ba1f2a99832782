// SPDX-License-Identifier: Apache-2.0
// tool_choice, and the grammar that keeps the answer to it: see tools.h.
#include "http/api/decoding.h"
#include "http/api/prompt.h"
#include "http/api/tools.h"
#include "runtime/text/dialect/watch.h"

static const struct field_rule name_rows[] = {FIELD_READ_BY("name")};
static const struct field_rules name_rules = FIELD_RULES(name_rows, NULL);

static const struct field_rule entry_rows[] = {
    FIELD_READ_BY("type"),
    FIELD_READ_BY("function"),
    FIELD_READ_BY("custom"),
};
static const struct field_rules entry_rules = FIELD_RULES(entry_rows, NULL);

static const struct field_rule allowed_rows[] = {
    FIELD_READ_BY("mode"),
    FIELD_READ_BY("tools"),
};
static const struct field_rules allowed_rules = FIELD_RULES(allowed_rows, NULL);

static const struct field_rule choice_rows[] = {
    FIELD_READ_BY("type"),
    FIELD_READ_BY("function"),
    FIELD_READ_BY("custom"),
    FIELD_READ_BY("allowed_tools"),
};
static const struct field_rules choice_rules = FIELD_RULES(choice_rows, NULL);

static const struct field_rule flat_rows[] = {
    FIELD_READ_BY("type"), FIELD_READ_BY("name"),  FIELD_TYPED("namespace", "s"),
    FIELD_READ_BY("mode"), FIELD_READ_BY("tools"),
};
static const struct field_rules flat_rules = FIELD_RULES(flat_rows, NULL);

// Arguments of the functions that read tool_choice.
struct choice_reader {
    struct fields *fields;
    const json_t *names; // names of all tools
    bool flat;           // true: the form of Responses
    struct tool_choice *out;
};

static bool is_listed(const json_t *names, const json_t *name)
{
    bool found = false;
    for (size_t i = 0; i < json_array_size(names); i++)
        found |= json_equal(json_array_get(names, i), name);
    return found;
}

// Adds the tool that {"function": {"name"}} or {"custom": {"name"}}, or in the flat form {"name"},
// names.
static void name_add(const struct choice_reader *r, const json_t *entry, const char *path)
{
    struct fields *f = r->fields;
    struct field_path inside = fields_path_keep(path);
    const json_t *function = entry;
    if (!r->flat) {
        bool custom = text_is(json_text(json_member(entry, "type")), "custom");
        const char *member = custom ? "custom" : "function";
        function = fields_member(f, entry, path, member, JSON_OBJECT);
        inside = fields_path_keep(fields_path(f, "%s.%s", inside.at, member));
        if (!function)
            return;
        fields_check_object(f, &name_rules, function, inside.at);
    }
    struct text space = r->flat ? json_text(json_member(entry, "namespace")) : (struct text){0};
    struct text name = fields_member_string(f, function, inside.at, "name");
    if (f->failed)
        return;
    json_t *known = json_string_of(responses_flat_name(f->arena, space, name));
    if (!json_object_getn(r->names, json_string_value(known), json_string_length(known)))
        fields_fail(f, HTTP_INVALID_VALUE, fields_path(f, "%s.name", inside.at),
                    "must be the name of one of the tools");
    if (!is_listed(r->out->allowed, known))
        json_array_append(r->out->allowed, known);
    json_decref(known);
}

// Returns true for the type of a tool that a choice can name.
static bool type_is_callable(const json_t *type)
{
    struct text name = json_text(type);
    return text_is(name, "function") || text_is(name, "custom");
}

static void allowed_list_read(const struct choice_reader *r, const json_t *tools, const char *path)
{
    struct fields *f = r->fields;
    size_t count = json_array_size(tools);
    if (count == 0)
        fields_fail(f, HTTP_INVALID_VALUE, fields_path(f, "%s.tools", path), "must not be empty");
    else if (count > TOOLS_MAX)
        fields_fail(f, HTTP_INVALID_VALUE, fields_path(f, "%s.tools", path),
                    "must have at most %d tools, got %zu", TOOLS_MAX, count);
    for (size_t i = 0; i < count && !f->failed; i++) {
        const json_t *entry = json_array_get(tools, i);
        struct field_path each = fields_path_keep(fields_path(f, "%s.tools[%zu]", path, i));
        if (!json_is_object(entry))
            fields_fail(f, HTTP_INVALID_TYPE, each.at, "must be an object");
        else if (!type_is_callable(json_member(entry, "type")))
            fields_fail(f, HTTP_UNSUPPORTED_VALUE, fields_path(f, "%s.type", each.at),
                        "must be 'function' or 'custom'");
        if (f->failed)
            return;
        fields_check_object(f, r->flat ? &flat_rules : &entry_rules, entry, each.at);
        name_add(r, entry, each.at);
    }
}

static void allowed_read(const struct choice_reader *r, const json_t *choice)
{
    struct fields *f = r->fields;
    struct tool_choice *out = r->out;
    const char *path = r->flat ? "tool_choice" : "tool_choice.allowed_tools";
    const json_t *of = choice;
    if (!r->flat) {
        of = fields_member(f, choice, "tool_choice", "allowed_tools", JSON_OBJECT);
        if (!of)
            return;
        fields_check_object(f, &allowed_rules, of, path);
    }
    const json_t *mode = fields_member(f, of, path, "mode", JSON_STRING);
    const json_t *tools = fields_member(f, of, path, "tools", JSON_ARRAY);
    if (f->failed)
        return;
    out->must = text_is(json_text(mode), "required");
    if (!out->must && !text_is(json_text(mode), "auto"))
        fields_fail(f, HTTP_INVALID_VALUE, fields_path(f, "%s.mode", path),
                    "must be 'auto' or 'required'");
    allowed_list_read(r, tools, path);
}

static void object_read(const struct choice_reader *r, const json_t *choice)
{
    struct fields *f = r->fields;
    const json_t *type = fields_member(f, choice, "tool_choice", "type", JSON_STRING);
    if (!type)
        return;
    fields_check_object(f, r->flat ? &flat_rules : &choice_rules, choice, "tool_choice");
    r->out->allowed = json_array();
    if (type_is_callable(type)) {
        r->out->must = r->out->one = true;
        name_add(r, choice, "tool_choice");
    } else if (text_is(json_text(type), "allowed_tools")) {
        allowed_read(r, choice);
    } else {
        fields_fail(f, HTTP_UNSUPPORTED_VALUE, "tool_choice.type",
                    "must be 'function', 'custom' or 'allowed_tools'");
    }
}

void tool_choice_read(struct fields *f, const json_t *names, bool flat, struct tool_choice *out)
{
    const json_t *choice = fields_get(f, "tool_choice");
    struct text word = json_text(choice);
    *out = (struct tool_choice){.hidden = text_is(word, "none"), .must = text_is(word, "required")};
    if (!choice || f->failed || out->hidden || text_is(word, "auto"))
        return;
    if (!json_is_string(choice) && !json_is_object(choice))
        fields_fail(f, HTTP_INVALID_TYPE, "tool_choice", "must be a string or an object");
    else if (!out->must && !json_is_object(choice))
        fields_fail(f, HTTP_INVALID_VALUE, "tool_choice",
                    "must be 'none', 'auto', 'required' or an object");
    else if (json_object_size(names) == 0)
        tools_missing(f);
    else if (!out->must)
        object_read(&(struct choice_reader){f, names, flat, out}, choice);
}

// The source of the grammar

static const json_t *function_of(const json_t *tool)
{
    return json_object_get(tool, "function");
}

static bool any_is_strict(const json_t *tools)
{
    for (size_t i = 0; i < json_array_size(tools); i++)
        if (json_is_true(json_object_get(function_of(json_array_get(tools, i)), "strict")))
            return true;
    return false;
}

// Returns the state in which the answer begins. Fails the fields if no grammar can begin there:
// inside a call or a marker.
static enum dialect_start start_of(struct generation *g)
{
    enum dialect_start start = g->options.reply.start;
    const struct answer_parts *continued = g->options.continued;
    if (g->tools.choice.must && g->prompt.conversation.continued)
        fields_fail(&g->call.fields, HTTP_INVALID_VALUE, "tool_choice",
                    "cannot force a call if the last message is continued");
    else if (continued && !reply_place(continued->reply, &start))
        fields_fail(
            &g->call.fields, HTTP_INVALID_VALUE, "messages",
            "cannot end inside a call or a marker: strict functions and forms of the answer "
            "need a grammar, and the grammar cannot begin inside a call");
    return start;
}

bool tools_form_text(const struct generation *g)
{
    return g->structured.source.kind != GRAMMAR_KIND_NONE && !g->tools.choice.must;
}

bool tools_form_calls(const struct generation *g)
{
    return g->tools.converted &&
           (g->tools.choice.must || g->tools.choice.allowed || any_is_strict(g->tools.converted));
}

static void calls_set(struct generation *g, struct text text)
{
    struct text copy = arena_copy(exchange_arena(g->call.exchange), text);
    struct grammar_source source = {
        .kind = GRAMMAR_KIND_CALLS, .text = copy, .dialect = g->options.reply.dialect};
    if (!copy.at)
        fields_fail(&g->call.fields, HTTP_TOO_LARGE, "tools", "is too large");
    else
        structured_set(g, &source, tools_form_text(g) ? g->structured.path : "tools");
}

// Sets the grammar of calls that the model may write: it holds from the marker of a call on. If
// there can be none, the answer is read without one.
static void optional_calls(struct generation *g)
{
    const struct served_model *model = g->call.model;
    const struct dialect *dialect = g->options.reply.dialect;
    enum dialect_start start = g->options.reply.start;
    const struct answer_parts *continued = g->options.continued;
    struct json_buffer text = {0};
    if (!model->watch || dialect != &model->dialect || json_array_size(g->tools.converted) == 0 ||
        (continued && !reply_place(continued->reply, &start)))
        return;
    struct grammar_calls calls = {.tools = g->tools.converted,
                                  .resumes = true,
                                  .parallel = !g->options.one_call,
                                  .reasoning = g->options.reply.reasoning};
    if (grammar_calls_put(&text, &calls, STRUCTURED_BYTES_MAX) &&
        fields_spend(&g->call.fields, text.bytes)) {
        calls_set(g, json_buffer_text(&text));
        g->structured.optional = true;
        g->submit.watch = model->watch;
        g->submit.watch_phase = (uint8_t)dialect_watch_start(dialect, start);
    }
    json_buffer_free(&text);
}

void tools_constrain(struct generation *g)
{
    struct fields *f = &g->call.fields;
    struct json_buffer text = {0};
    bool has_text_grammar = tools_form_text(g);
    bool called = tools_form_calls(g);
    // A grammar for text leaves reasoning unconstrained.
    if (!called && !has_text_grammar)
        optional_calls(g);
    if (!called && !(has_text_grammar && g->options.reads_reply))
        return;
    struct grammar_calls calls = {.tools = g->tools.converted,
                                  .allowed = g->tools.choice.allowed,
                                  .must = g->tools.choice.must,
                                  .parallel = !g->options.one_call,
                                  .reasoning = g->options.reply.reasoning,
                                  .no_reasoning = thinking_is_off(g),
                                  .reasoning_once = g->thinking.budget.limited,
                                  .start = start_of(g)};
    if (has_text_grammar)
        calls.content = g->structured.source;
    if (!grammar_calls_put(&text, &calls, STRUCTURED_BYTES_MAX))
        fields_fail(f, HTTP_INVALID_VALUE, "tools",
                    "must have at most %d bytes if calls are forced or strict, or the answer has "
                    "a form",
                    STRUCTURED_BYTES_MAX);
    else if (fields_spend(f, text.bytes))
        calls_set(g, json_buffer_text(&text));
    json_buffer_free(&text);
}
