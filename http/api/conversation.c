// SPDX-License-Identifier: Apache-2.0
// Conversations: see conversation.h. Input and output are JSON values; texts are not interpreted.
#include "http/api/conversation.h"

#include <string.h>

json_t *json_string_of(struct text t)
{
    json_t *string = json_stringn(t.at ? t.at : "", t.bytes);
    check(string, "a string of %zu bytes that came from JSON is not UTF-8", t.bytes);
    return string;
}

void conversation_begin(struct conversation *c, struct slice *slice)
{
    *c = (struct conversation){.slice = slice,
                               .messages = json_array(),
                               .calls = json_object(),
                               .turn_ids = json_object()};
}

// Counts the work of copying and checking a text. If the client has left, the next reader notices.
static void copy_count(struct conversation *c, size_t bytes)
{
    enum { COPY_WORK = 64, COPY_BYTES = 4 }; // work per copy; bytes copied per unit of work
    (void)slice_spend(c->slice, COPY_WORK + bytes / COPY_BYTES);
}

void conversation_end(struct conversation *c)
{
    json_decref(c->messages);
    json_decref(c->calls);
    json_decref(c->turn_ids);
    *c = (struct conversation){0};
}

json_t *conversation_add(struct conversation *c, const char *role, struct text content)
{
    json_t *message = json_object();
    json_object_set_new(message, "role", json_string(role));
    json_object_set_new(message, "content", json_string_of(content));
    json_array_append_new(c->messages, message);
    if (strcmp(role, "assistant") != 0 && json_object_size(c->turn_ids) > 0) {
        json_decref(c->turn_ids); // clearing costs as much as the table's largest size
        c->turn_ids = json_object();
    }
    copy_count(c, content.bytes);
    return message;
}

void conversation_check_id(struct conversation *c, struct fields *f, struct text id,
                           const char *path)
{
    struct text shown = text_head(id, 64);
    if (f->failed)
        return;
    if (json_object_getn(c->turn_ids, id.at, id.bytes))
        fields_fail(f, HTTP_INVALID_VALUE, path,
                    "must differ from the ids of the turn's other calls; '%.*s' is used twice",
                    (int)shown.bytes, shown.at);
    json_object_setn_new(c->turn_ids, id.at, id.bytes, json_true());
}

// Returns the arguments (new reference). "" and "null" become an empty object; text that is not a
// JSON object stays text.
static json_t *arguments_of(struct conversation *c, const struct tool_call *call)
{
    json_t *value = NULL;
    struct error err;
    if (call->arguments)
        return json_incref((json_t *)call->arguments); // shared, but never modified
    if (call->arguments_text.bytes == 0)
        return json_object();
    if (json_parse_in_slices(&value, call->arguments_text, c->slice, &err) == STATUS_OK &&
        json_is_object(value))
        return value;
    json_decref(value);
    if (text_is(call->arguments_text, "null"))
        return json_object();
    c->raw_arguments = true;
    return json_string_of(call->arguments_text);
}

void conversation_add_call(struct conversation *c, json_t *message, const struct tool_call *call)
{
    json_t *calls = json_object_get(message, "tool_calls");
    json_t *function = json_object(), *entry = json_object(), *known = json_object();
    if (!calls) {
        calls = json_array();
        json_object_set_new(message, "tool_calls", calls);
    }
    json_object_set_new(function, "name", json_string_of(call->name));
    json_object_set_new(function, "arguments", arguments_of(c, call));
    json_object_set_new(entry, "id", json_string_of(call->id));
    json_object_set_new(entry, "type", json_string("function"));
    json_object_set_new(entry, "function", function);
    json_array_append_new(calls, entry);
    json_object_set_new(known, "name", json_string_of(call->name));
    json_object_set_new(known, "answered", json_false());
    json_object_setn_new(c->calls, call->id.at, call->id.bytes, known);
    copy_count(c, call->id.bytes + call->name.bytes);
}

void conversation_add_result(struct conversation *c, struct fields *f,
                             const struct tool_result *result)
{
    struct text shown = text_head(result->id, 64);
    json_t *known = json_object_getn(c->calls, result->id.at, result->id.bytes);
    if (!known) {
        fields_fail(
            f, HTTP_INVALID_VALUE, result->path,
            "must name a tool call of an earlier assistant message; '%.*s' is not a call id",
            (int)shown.bytes, shown.at);
        return;
    }
    if (json_is_true(json_object_get(known, "answered"))) {
        fields_fail(f, HTTP_INVALID_VALUE, result->path,
                    "must not answer a tool call twice; '%.*s' has a result already",
                    (int)shown.bytes, shown.at);
        return;
    }
    json_object_set_new(known, "answered", json_true());
    json_t *message = conversation_add(c, "tool", result->content);
    json_object_set_new(message, "tool_call_id", json_string_of(result->id));
    json_object_set(message, "name", json_object_get(known, "name"));
}

static bool role_is(const json_t *message, const char *role)
{
    return text_is(json_text(json_object_get(message, "role")), role);
}

// Returns true if b can be appended to a. calls: messages with calls or reasoning may be joined.
static bool neighbours_join(const json_t *a, const json_t *b, bool calls)
{
    bool plain = !json_object_get(a, "tool_calls") && !json_object_get(b, "tool_calls") &&
                 !json_object_get(b, "reasoning_content");
    return json_equal(json_object_get(a, "role"), json_object_get(b, "role")) &&
           !role_is(a, "tool") && (calls || plain);
}

void conversation_line(struct json_buffer *text, struct text more)
{
    if (text->bytes > 0 && more.bytes > 0)
        json_put_literal(text, "\n");
    json_put_raw(text, more);
}

// Joins this member of the messages [at, end) into the first of them. One buffer, because appending
// them one by one would take quadratic time.
static void texts_join(struct conversation *c, size_t at, size_t end, const char *member)
{
    struct json_buffer joined = {0};
    for (size_t i = at; i < end; i++) {
        struct text more = json_text(json_object_get(json_array_get(c->messages, i), member));
        conversation_line(&joined, more);
    }
    if (joined.bytes > 0)
        json_object_set_new(json_array_get(c->messages, at), member,
                            json_string_of(json_buffer_text(&joined)));
    copy_count(c, joined.bytes);
    json_buffer_free(&joined);
}

static void calls_join(struct conversation *c, size_t at, size_t end)
{
    json_t *all = json_array();
    for (size_t i = at; i < end; i++)
        json_array_extend(all, json_object_get(json_array_get(c->messages, i), "tool_calls"));
    if (json_array_size(all) > 0)
        json_object_set(json_array_get(c->messages, at), "tool_calls", all);
    json_decref(all);
}

// Joins a run of messages into its first one. Returns the index after the run.
static size_t run_join(struct conversation *c, size_t at, bool calls)
{
    const json_t *first = json_array_get(c->messages, at);
    size_t n = json_array_size(c->messages), end = at + 1;
    while (end < n && neighbours_join(first, json_array_get(c->messages, end), calls))
        end++;
    if (end > at + 1) {
        texts_join(c, at, end, "content");
        texts_join(c, at, end, "reasoning_content");
        calls_join(c, at, end);
    }
    return end;
}

static void merge_from(struct conversation *c, size_t from, bool calls)
{
    json_t *merged = json_array();
    for (size_t at = 0; at < json_array_size(c->messages);) {
        size_t end = at < from ? at + 1 : run_join(c, at, calls);
        json_array_append(merged, json_array_get(c->messages, at));
        at = end;
    }
    json_decref(c->messages);
    c->messages = merged;
}

// Moves tool results before the user messages next to them.
static void results_first(struct conversation *c)
{
    json_t *ordered = json_array(), *texts = json_array(), *message;
    size_t i;
    json_array_foreach(c->messages, i, message)
    {
        bool user = role_is(message, "user");
        if (!user && !role_is(message, "tool")) {
            json_array_extend(ordered, texts);
            json_array_clear(texts);
        }
        json_array_append(user ? texts : ordered, message);
    }
    json_array_extend(ordered, texts);
    json_decref(texts);
    json_decref(c->messages);
    c->messages = ordered;
}

void conversation_merge(struct conversation *c)
{
    results_first(c);
    merge_from(c, 0, true);
}

void conversation_join_tail(struct conversation *c)
{
    size_t from = json_array_size(c->messages);
    while (from > 0 && role_is(json_array_get(c->messages, from - 1), "assistant"))
        from--;
    merge_from(c, from, false);
}

static bool system_is_inside(const struct conversation *c)
{
    for (size_t i = 1; i < json_array_size(c->messages); i++)
        if (role_is(json_array_get(c->messages, i), "system"))
            return true;
    return false;
}

// Joins the user and system messages [at, end), of which one is a system message, into a message of
// the user. Appends messages without a system message unchanged.
static void user_run_add(struct conversation *c, size_t at, size_t end, json_t *out)
{
    bool has_system = false;
    for (size_t i = at; i < end; i++)
        has_system = has_system || role_is(json_array_get(c->messages, i), "system");
    if (has_system) {
        texts_join(c, at, end, "content");
        json_object_set_new(json_array_get(c->messages, at), "role", json_string("user"));
        end = at + 1;
    }
    for (size_t i = at; i < end; i++)
        json_array_append(out, json_array_get(c->messages, i));
}

bool conversation_settle_system(struct conversation *c, const struct chat_template *chat)
{
    size_t count = json_array_size(c->messages), at = 0;
    if (!system_is_inside(c) || chat_template_accepts_late_system(chat))
        return false;
    json_t *out = json_array();
    while (at < count && role_is(json_array_get(c->messages, at), "system"))
        at++;
    if (at > 0) {
        texts_join(c, 0, at, "content");
        json_array_append(out, json_array_get(c->messages, 0));
    }
    while (at < count) {
        const json_t *message = json_array_get(c->messages, at);
        size_t end = at;
        while (role_is(message, "user") || role_is(message, "system"))
            message = json_array_get(c->messages, ++end);
        user_run_add(c, at, end, out);
        if (end < count)
            json_array_append(out, json_array_get(c->messages, end));
        at = end + 1;
    }
    json_decref(c->messages);
    c->messages = out;
    return true;
}

static void content_set(json_t *message, struct json_buffer *text)
{
    json_object_set_new(message, "content", json_string_of(json_buffer_text(text)));
    json_buffer_free(text);
}

// Appends the calls of an assistant message to its text, as the generic form of an answer has them.
static void calls_as_text(json_t *message)
{
    struct json_buffer text = {0};
    size_t i;
    json_t *call;
    json_put_raw(&text, json_text(json_object_get(message, "content")));
    json_array_foreach(json_object_get(message, "tool_calls"), i, call)
    {
        struct json_buffer line = {0};
        json_put_value(&line, json_object_get(call, "function"));
        conversation_line(&text, json_buffer_text(&line));
        json_buffer_free(&line);
    }
    json_object_del(message, "tool_calls");
    content_set(message, &text);
}

// Makes a tool result text of the user, and joins it with the results before it.
static void result_as_text(json_t *message, json_t *out, bool follows)
{
    json_t *into = follows ? json_array_get(out, json_array_size(out) - 1) : message;
    struct json_buffer text = {0};
    if (follows)
        json_put_raw(&text, json_text(json_object_get(into, "content")));
    json_put_literal(&text, follows ? "\nResult of " : "Result of ");
    json_put_raw(&text, json_text(json_object_get(message, "name")));
    json_put_literal(&text, ": ");
    json_put_raw(&text, json_text(json_object_get(message, "content")));
    content_set(into, &text);
    json_object_set_new(into, "role", json_string("user"));
    json_object_del(into, "tool_call_id");
    json_object_del(into, "name");
    if (!follows)
        json_array_append(out, message);
}

static void tools_describe(struct conversation *c, const json_t *tools)
{
    struct json_buffer text = {0};
    json_t *first = json_array_get(c->messages, 0);
    bool system = role_is(first, "system");
    json_put_literal(&text, "You can call these tools:\n");
    for (size_t i = 0; i < json_array_size(tools); i++) {
        json_put_value(&text, json_object_get(json_array_get(tools, i), "function"));
        json_put_literal(&text, "\n");
    }
    json_put_literal(&text, "To call a tool, answer only with JSON: {\"name\": NAME, "
                            "\"arguments\": {...}}");
    if (system)
        json_put_literal(&text, "\n\n");
    json_put_raw(&text, system ? json_text(json_object_get(first, "content")) : (struct text){0});
    json_t *message = json_object();
    json_object_set_new(message, "role", json_string("system"));
    content_set(message, &text);
    if (system)
        json_array_remove(c->messages, 0);
    json_array_insert_new(c->messages, 0, message);
}

void conversation_tools_as_text(struct conversation *c, const json_t *tools)
{
    json_t *out = json_array(), *message;
    size_t i;
    bool follows = false; // the message before is a result
    json_array_foreach(c->messages, i, message)
    {
        bool result = role_is(message, "tool");
        if (json_object_get(message, "tool_calls"))
            calls_as_text(message);
        if (result)
            result_as_text(message, out, follows);
        else
            json_array_append(out, message);
        follows = result;
    }
    json_decref(c->messages);
    c->messages = out;
    if (json_array_size(tools) > 0)
        tools_describe(c, tools);
}

void conversation_wrap_arguments(struct conversation *c)
{
    size_t i, k;
    json_t *message, *call;
    json_array_foreach(c->messages, i, message)
    {
        json_array_foreach(json_object_get(message, "tool_calls"), k, call)
        {
            json_t *function = json_object_get(call, "function");
            json_t *arguments = json_object_get(function, "arguments");
            if (json_is_string(arguments)) {
                json_t *object = json_object();
                json_object_set(object, "arguments", arguments);
                json_object_set_new(function, "arguments", object);
            }
        }
    }
}
