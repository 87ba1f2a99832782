// SPDX-License-Identifier: Apache-2.0
// Converts `instructions` and `input` of a Responses request to a conversation (docs/API.md).
// Consecutive reasoning, assistant message and function call items become one assistant message.
// Error paths refer to the request: input[2].content[0].type.
#include "http/api/fields.h"
#include "http/api/conversation.h"
#include "http/api/tools.h"

#include "base/json_keys.h"

#include <string.h>

struct item_reader {
    struct conversation *conversation;
    struct fields *fields;
    // The present assistant message, collected item by item.
    struct json_buffer text, reasoning;
    json_t *calls;    // function_call and custom_tool_call items (borrowed), in order
    bool has_message; // true if it includes a message item
};

// The types of the FIELD_READ_BY rows are checked by the functions below.
static const struct field_rule item_rows[] = {
    FIELD_READ_BY("type"),         FIELD_READ_BY("role"),
    FIELD_READ_BY("content"),      FIELD_READ_BY("call_id"),
    FIELD_READ_BY("name"),         FIELD_READ_BY("arguments"),
    FIELD_READ_BY("output"),       FIELD_READ_BY("summary"),
    FIELD_READ_BY("namespace"),    FIELD_READ_BY("input"),
    FIELD_HARMLESS("id", "s"),     FIELD_HARMLESS("status", "s"),
    FIELD_HARMLESS("phase", "s"),  FIELD_HARMLESS("encrypted_content", "s"),
    FIELD_HARMLESS("caller", "o"), FIELD_HARMLESS("cache_control", "o"),
};
static const struct field_rules item_rules = FIELD_RULES(item_rows, NULL);

// The last two types are those of chat completions, which some clients send.
static const struct part_kind input_parts[] = {
    {"input_text", "text"}, {"text", "text"}, {"output_text", "text"}, {NULL, NULL}};
static const struct part_kind output_parts[] = {{"output_text", "text"},
                                                {"refusal", "refusal"},
                                                {"text", "text"},
                                                {"input_text", "text"},
                                                {NULL, NULL}};
static const struct part_kind reasoning_parts[] = {{"reasoning_text", "text"}, {NULL, NULL}};
static const struct part_kind summary_parts[] = {{"summary_text", "text"}, {NULL, NULL}};

// Adds a call to the message. The input of a custom tool is a member of its arguments.
static void call_add(struct item_reader *t, json_t *message, const json_t *item)
{
    const json_t *input = json_member(item, "input");
    json_t *arguments = input ? json_pack("{sO}", ANSWER_CUSTOM_INPUT, input) : NULL;
    struct text space = json_text(json_member(item, "namespace"));
    struct tool_call call = {
        .id = json_text(json_member(item, "call_id")),
        .name = responses_flat_name(t->fields->arena, space, json_text(json_member(item, "name"))),
        .arguments = arguments,
        .arguments_text = json_text(json_member(item, "arguments")),
    };
    conversation_add_call(t->conversation, message, &call);
    json_decref(arguments);
}

// Adds the assistant message that was collected. Reasoning alone is dropped.
static void assistant_end(struct item_reader *t)
{
    size_t i;
    json_t *call;
    if (t->has_message || json_array_size(t->calls) > 0) {
        json_t *message =
            conversation_add(t->conversation, "assistant", json_buffer_text(&t->text));
        if (t->reasoning.bytes > 0)
            json_object_set_new(message, "reasoning_content",
                                json_string_of(json_buffer_text(&t->reasoning)));
        json_array_foreach(t->calls, i, call)
        {
            call_add(t, message, call);
        }
    }
    t->text.bytes = t->reasoning.bytes = 0;
    json_array_clear(t->calls);
    t->has_message = false;
}

// Appends the text of another item on its own line.
static void text_add(struct item_reader *t, struct json_buffer *text, const json_t *parts,
                     const char *path, const struct part_kind *kinds)
{
    struct json_buffer more = {0};
    parts_read(&more, t->fields, parts, path, kinds);
    conversation_line(text, json_buffer_text(&more));
    json_buffer_free(&more);
}

static void assistant_read(struct item_reader *t, const json_t *item, const char *path)
{
    t->has_message = true;
    text_add(t, &t->text, json_member(item, "content"), fields_path(t->fields, "%s.content", path),
             output_parts);
}

static void message_read(struct item_reader *t, const json_t *item, const char *path)
{
    struct fields *f = t->fields;
    struct field_path base = fields_path_keep(path);
    struct text role = fields_member_string(f, item, path, "role"), shown = text_head(role, 32);
    struct json_buffer content = {0};
    bool system = text_is(role, "system") || text_is(role, "developer");
    if (!f->failed && !json_member(item, "content"))
        fields_fail(f, HTTP_MISSING_FIELD, fields_path(f, "%s.content", base.at), "is required");
    if (f->failed)
        return;
    if (text_is(role, "assistant")) {
        assistant_read(t, item, base.at);
        return;
    }
    if (!system && !text_is(role, "user"))
        fields_fail(f, HTTP_INVALID_VALUE, fields_path(f, "%s.role", base.at),
                    "must be one of 'system', 'developer', 'user' and 'assistant', got '%.*s'",
                    (int)shown.bytes, shown.at);
    assistant_end(t);
    parts_read(&content, f, json_member(item, "content"), fields_path(f, "%s.content", base.at),
               input_parts);
    if (!f->failed)
        conversation_add(t->conversation, system ? "system" : "user", json_buffer_text(&content));
    json_buffer_free(&content);
}

// Reads an item that is a call. arguments: name of the member with the arguments of a function, or
// with the input of a custom tool.
static void call_read(struct item_reader *t, const json_t *item, const char *arguments,
                      const char *path)
{
    struct field_path base = fields_path_keep(path);
    const json_t *space = json_member(item, "namespace");
    if (space && !json_is_string(space))
        fields_fail(t->fields, HTTP_INVALID_TYPE, fields_path(t->fields, "%s.namespace", base.at),
                    "must be a string");
    struct text id = fields_member_string(t->fields, item, path, "call_id");
    conversation_check_id(t->conversation, t->fields, id,
                          fields_path(t->fields, "%s.call_id", base.at));
    (void)fields_member_string(t->fields, item, path, "name");
    (void)fields_member_string(t->fields, item, path, arguments);
    if (!t->fields->failed)
        json_array_append(t->calls, (json_t *)item); // only read
}

static void result_read(struct item_reader *t, const json_t *item, const char *path)
{
    struct fields *f = t->fields;
    struct field_path base = fields_path_keep(path);
    const json_t *output = json_member(item, "output");
    struct json_buffer content = {0};
    struct tool_result result = {.id = fields_member_string(f, item, path, "call_id")};
    assistant_end(t);
    if (!output)
        fields_fail(f, HTTP_MISSING_FIELD, fields_path(f, "%s.output", base.at), "is required");
    if (!f->failed)
        parts_read(&content, f, output, fields_path(f, "%s.output", base.at), input_parts);
    if (!f->failed) {
        result.content = json_buffer_text(&content);
        result.path = fields_path(f, "%s.call_id", base.at);
        conversation_add_result(t->conversation, f, &result);
    }
    json_buffer_free(&content);
}

// Reads the reasoning text; if another server sent none, its summary.
static void reasoning_read(struct item_reader *t, const json_t *item, const char *path)
{
    const json_t *content = json_member(item, "content"), *summary = json_member(item, "summary");
    const char *name = json_array_size(content) > 0 || !summary ? "content" : "summary";
    const json_t *from = json_member(item, name);
    if (from)
        text_add(t, &t->reasoning, from, fields_path(t->fields, "%s.%s", path, name),
                 from == content ? reasoning_parts : summary_parts);
}

// Returns true if only OpenAI's servers write items of this type: calls of hosted tools and their
// results.
static bool type_is_hosted(struct text type)
{
    static const char *const endings[] = {"_call", "_output", "_list_tools", "_approval_request",
                                          "_approval_response"};
    bool ends = false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        ends = ends || text_ends(type, endings[i]);
    return ends && tools_type_is_hosted(type);
}

// Reads an item of a hosted tool as text: the model has no such tool, so the item is no call that a
// template could render. Images, which are base64, are left out.
static void hosted_read(struct item_reader *t, const json_t *item, struct text type)
{
    static const char *const left_out[] = {"id", "status", "call_id", "encrypted_content"};
    bool image = text_is(type, "image_generation_call") || text_is(type, "computer_call_output");
    json_t *shown = json_object_copied(item);
    struct json_buffer text = {0};
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
        json_object_del(shown, left_out[i]);
    if (image) {
        json_object_del(shown, "result");
        json_object_del(shown, "output");
    }
    json_put_value(&text, shown);
    (void)fields_spend(t->fields, text.bytes);
    if (text_ends(type, "_output") || text_ends(type, "_response")) {
        assistant_end(t);
        conversation_add(t->conversation, "user", json_buffer_text(&text));
    } else {
        t->has_message = true;
        conversation_line(&t->text, json_buffer_text(&text));
    }
    json_buffer_free(&text);
    json_decref(shown);
}

static void item_read(struct item_reader *t, const json_t *item, const char *path)
{
    struct fields *f = t->fields;
    struct field_path base = fields_path_keep(path);
    const json_t *type = json_member(item, "type");
    struct text name = type ? json_text(type) : text_of("message"), shown = text_head(name, 64);
    if (!json_is_object(item))
        fields_fail(f, HTTP_INVALID_TYPE, path, "must be an object");
    else if (type && !name.at)
        fields_fail(f, HTTP_INVALID_TYPE, fields_path(f, "%s.type", path), "must be a string");
    if (f->failed)
        return;
    fields_check_object(f, &item_rules, item, base.at);
    if (f->failed)
        return;
    if (text_is(name, "message"))
        message_read(t, item, base.at);
    else if (text_is(name, "function_call"))
        call_read(t, item, "arguments", base.at);
    else if (text_is(name, "custom_tool_call"))
        call_read(t, item, ANSWER_CUSTOM_INPUT, base.at);
    else if (text_is(name, "function_call_output") || text_is(name, "custom_tool_call_output"))
        result_read(t, item, base.at);
    else if (text_is(name, "reasoning"))
        reasoning_read(t, item, base.at);
    else if (type_is_hosted(name))
        hosted_read(t, item, name);
    else if (text_is(name, "item_reference"))
        fields_fail(f, HTTP_UNSUPPORTED_VALUE, fields_path(f, "%s.type", base.at),
                    "is 'item_reference', but no item is stored here: send the item itself");
    else
        fields_fail(f, HTTP_UNSUPPORTED_VALUE, fields_path(f, "%s.type", base.at),
                    "must be 'message', 'function_call', 'custom_tool_call', one of these with "
                    "'_output', or 'reasoning', got '%.*s'",
                    (int)shown.bytes, shown.at);
}

static void items_read(struct item_reader *t, const json_t *items)
{
    size_t n = json_array_size(items);
    if (n == 0)
        fields_fail(t->fields, HTTP_INVALID_VALUE, "input", "must hold at least one item");
    else if (n > CONVERSATION_MESSAGES_MAX)
        fields_fail(t->fields, HTTP_INVALID_VALUE, "input", "must hold at most %d items, got %zu",
                    CONVERSATION_MESSAGES_MAX, n);
    for (size_t i = 0; i < n && !t->fields->failed; i++)
        item_read(t, json_array_get(items, i), fields_path(t->fields, "input[%zu]", i));
    if (!t->fields->failed)
        assistant_end(t);
}

void responses_turns_read(struct conversation *c, struct fields *f)
{
    struct item_reader t = {.conversation = c, .fields = f, .calls = json_array()};
    struct text instructions = fields_string(f, "instructions");
    const json_t *input = fields_get_required(f, "input");
    if (instructions.bytes > 0)
        conversation_add(c, "system", instructions);
    if (!f->failed && json_is_string(input))
        conversation_add(c, "user", json_text(input));
    else if (!f->failed && json_is_array(input))
        items_read(&t, input);
    else
        fields_fail(f, HTTP_INVALID_TYPE, "input", "must be a string or an array of items");
    json_decref(t.calls);
    json_buffer_free(&t.text);
    json_buffer_free(&t.reasoning);
}
