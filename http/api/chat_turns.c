// SPDX-License-Identifier: Apache-2.0
// Converts the messages of a chat completion request to a conversation (docs/API.md). Error paths
// refer to the request: messages[2].content[0].type.
#include "http/api/answer.h"
#include "http/api/conversation.h"
#include "http/api/fields.h"

#include <string.h>

// The types of the FIELD_READ_BY rows are checked by the functions below.
static const struct field_rule message_rows[] = {
    FIELD_READ_BY("role"),
    FIELD_READ_BY("content"),
    FIELD_TYPED("name", "s"),
    FIELD_TYPED("reasoning_content", "s"),
    FIELD_TYPED("reasoning", "s"),
    FIELD_READ_BY("tool_calls"),
    FIELD_TYPED("tool_call_id", "s"),
    FIELD_TYPED("prefix", "b"),
    FIELD_HARMLESS("refusal", "s"),
    FIELD_HARMLESS("annotations", "a"),
    FIELD_HARMLESS("cache_control", "o"),
    FIELD_NOT_SERVED_BUT("partial", "b", "[false]", "use prefix"),
    FIELD_NOT_SERVED("audio", "o", NULL),
    FIELD_NOT_SERVED_BUT("function_call", "o", NULL, "use tool_calls"),
    FIELD_NOT_SERVED("images", "a", "[[]]"),
    FIELD_NOT_SERVED("documents", "a", "[[]]"),
    FIELD_NOT_SERVED("tools", "a", "[[]]"),
};
static const struct field_rules message_rules = FIELD_RULES(message_rows, NULL);

static const struct field_rule function_rows[] = {
    FIELD_TYPED("name", "s"),
    FIELD_TYPED("arguments", "so"),
};
static const struct field_rules function_members = FIELD_RULES(function_rows, NULL);

static const struct field_rule custom_rows[] = {
    FIELD_TYPED("name", "s"),
    FIELD_TYPED("input", "s"),
};
static const struct field_rules custom_members = FIELD_RULES(custom_rows, NULL);

static const struct field_rule call_rows[] = {
    FIELD_TYPED("id", "s"),
    FIELD_TYPED("type", "s"),
    FIELD_OBJECT("function", function_members),
    FIELD_OBJECT("custom", custom_members),
    FIELD_HARMLESS("index", "i"),
    FIELD_HARMLESS("cache_control", "o"),
};
static const struct field_rules call_rules = FIELD_RULES(call_rows, NULL);

static const struct part_kind text_parts[] = {{"text", "text"}, {NULL, NULL}};
static const struct part_kind assistant_parts[] = {
    {"text", "text"}, {"refusal", "refusal"}, {NULL, NULL}};

// Reads the call of a custom tool, whose input is a member of its arguments.
static void custom_read(struct conversation *c, struct fields *f, json_t *message,
                        const json_t *entry, struct tool_call *call, const char *path)
{
    struct field_path base = fields_path_keep(path);
    const json_t *custom = fields_member(f, entry, path, "custom", JSON_OBJECT);
    if (f->failed)
        return;
    call->name = fields_member_string(f, custom, fields_path(f, "%s.custom", base.at), "name");
    (void)fields_member_string(f, custom, fields_path(f, "%s.custom", base.at),
                               ANSWER_CUSTOM_INPUT);
    if (f->failed)
        return;
    json_t *arguments = json_pack("{sO}", ANSWER_CUSTOM_INPUT, json_member(custom, "input"));
    call->arguments = arguments;
    conversation_add_call(c, message, call);
    json_decref(arguments);
}

static void call_read(struct conversation *c, struct fields *f, json_t *message,
                      const json_t *entry, const char *path)
{
    struct tool_call call = {0};
    if (!json_is_object(entry)) {
        fields_fail(f, HTTP_INVALID_TYPE, path, "must be an object");
        return;
    }
    fields_check_object(f, &call_rules, entry, path);
    const json_t *type = json_member(entry, "type");
    bool custom = text_is(json_text(type), "custom");
    if (type && !custom && !text_is(json_text(type), "function"))
        fields_fail(f, HTTP_INVALID_VALUE, fields_path(f, "%s.type", path),
                    "must be 'function' or 'custom'");
    call.id = fields_member_string(f, entry, path, "id");
    conversation_check_id(c, f, call.id, fields_path(f, "%s.id", path));
    if (custom) {
        custom_read(c, f, message, entry, &call, path);
        return;
    }
    const json_t *function = fields_member(f, entry, path, "function", JSON_OBJECT);
    if (f->failed)
        return;
    call.name = fields_member_string(f, function, fields_path(f, "%s.function", path), "name");
    const json_t *arguments = json_object_get(function, "arguments");
    call.arguments = json_is_object(arguments) ? arguments : NULL;
    call.arguments_text = json_text(arguments);
    if (!f->failed)
        conversation_add_call(c, message, &call);
}

static void calls_read(struct conversation *c, struct fields *f, json_t *message,
                       const json_t *calls, const char *path)
{
    struct field_path base = fields_path_keep(path);
    size_t i;
    json_t *entry;
    if (!calls || json_is_null(calls))
        return;
    if (!json_is_array(calls)) {
        fields_fail(f, HTTP_INVALID_TYPE, path, "must be an array");
        return;
    }
    json_array_foreach(calls, i, entry)
    {
        if (f->failed)
            return;
        call_read(c, f, message, entry, fields_path(f, "%s[%zu]", base.at, i));
    }
}

static void assistant_read(struct conversation *c, struct fields *f, const json_t *in, size_t i)
{
    struct json_buffer content = {0};
    const json_t *value = json_member(in, "content");
    const json_t *reasoning = json_member(in, "reasoning_content");
    if (value)
        parts_read(&content, f, value, fields_path(f, "messages[%zu].content", i), assistant_parts);
    json_t *message = conversation_add(c, "assistant", json_buffer_text(&content));
    json_buffer_free(&content);
    if (!reasoning)
        reasoning = json_member(in, "reasoning");
    if (json_is_string(reasoning))
        json_object_set(message, "reasoning_content", (json_t *)reasoning);
    calls_read(c, f, message, json_member(in, "tool_calls"),
               fields_path(f, "messages[%zu].tool_calls", i));
    c->continued = json_is_true(json_member(in, "prefix"));
}

static void tool_read(struct conversation *c, struct fields *f, const json_t *in, size_t i,
                      struct text content)
{
    struct tool_result result = {
        .id = fields_member_string(f, in, fields_path(f, "messages[%zu]", i), "tool_call_id"),
        .content = content,
        .path = fields_path(f, "messages[%zu].tool_call_id", i),
    };
    if (!f->failed)
        conversation_add_result(c, f, &result);
}

static void plain_read(struct conversation *c, struct fields *f, const json_t *in, size_t i,
                       const char *role)
{
    struct json_buffer content = {0};
    const json_t *value = json_member(in, "content"), *calls = json_member(in, "tool_calls");
    if (calls && !(json_is_array(calls) && json_array_size(calls) == 0)) {
        fields_fail(f, HTTP_INVALID_VALUE, fields_path(f, "messages[%zu].tool_calls", i),
                    "is for messages with the role 'assistant'");
        return;
    }
    if (!value) {
        fields_fail(f, HTTP_MISSING_FIELD, fields_path(f, "messages[%zu].content", i),
                    "is required");
        return;
    }
    parts_read(&content, f, value, fields_path(f, "messages[%zu].content", i), text_parts);
    struct text text = json_buffer_text(&content);
    if (!f->failed && strcmp(role, "tool") == 0) {
        tool_read(c, f, in, i, text);
    } else if (!f->failed) {
        json_t *message = conversation_add(c, role, text);
        const json_t *name = json_member(in, "name");
        if (json_is_string(name))
            json_object_set(message, "name", (json_t *)name);
    }
    json_buffer_free(&content);
}

// Reads the message according to its role. The message's fields have been checked.
static void role_read(struct conversation *c, struct fields *f, const json_t *in, size_t i)
{
    struct text role = json_text(json_object_get(in, "role"));
    if (text_is(role, "assistant")) {
        assistant_read(c, f, in, i);
    } else if (text_is(role, "user")) {
        plain_read(c, f, in, i, "user");
    } else if (text_is(role, "system") || text_is(role, "developer")) {
        plain_read(c, f, in, i, "system");
    } else if (text_is(role, "tool")) {
        plain_read(c, f, in, i, "tool");
    } else {
        struct text shown = text_head(role, 32);
        fields_fail(f, HTTP_INVALID_VALUE, fields_path(f, "messages[%zu].role", i),
                    "must be one of 'system', 'developer', 'user', 'assistant' and 'tool', "
                    "got '%.*s'%s",
                    (int)shown.bytes, shown.at,
                    text_is(role, "function") ? ", which is of an older interface: use 'tool'"
                                              : "");
    }
}

static void turn_read(struct conversation *c, struct fields *f, const json_t *in, size_t i)
{
    const char *path = fields_path(f, "messages[%zu]", i);
    c->continued = false; // only the last message can be continued
    if (fields_member_string(f, in, path, "role").at)
        fields_check_object(f, &message_rules, in, path);
    if (!f->failed)
        role_read(c, f, in, i);
}

void chat_turns_read(struct conversation *c, struct fields *f)
{
    const json_t *messages = fields_get_required(f, "messages");
    size_t n = json_array_size(messages);
    if (f->failed)
        return;
    if (!json_is_array(messages)) {
        fields_fail(f, HTTP_INVALID_TYPE, "messages", "must be an array");
    } else if (n == 0) {
        fields_fail(f, HTTP_INVALID_VALUE, "messages", "must hold at least one message");
    } else if (n > CONVERSATION_MESSAGES_MAX) {
        fields_fail(f, HTTP_INVALID_VALUE, "messages", "must hold at most %d messages, got %zu",
                    CONVERSATION_MESSAGES_MAX, n);
    }
    for (size_t i = 0; i < n && !f->failed; i++)
        turn_read(c, f, json_array_get(messages, i), i);
    if (!f->failed)
        conversation_join_tail(c);
}
