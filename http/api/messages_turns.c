// SPDX-License-Identifier: Apache-2.0
// Converts the messages and `system` of a Messages request to a conversation (docs/API.md). Error
// paths are written as messages[1].content[0].type here; fields_fail shows
// messages.1.content.0.type.
#include "http/api/conversation.h"

#include "base/json_keys.h"

#include <string.h>

enum message_role { ROLE_USER, ROLE_ASSISTANT, ROLE_SYSTEM };

// State of reading the messages; text, thinking and calls are those of the present message.
struct message {
    struct conversation *conversation;
    struct fields *fields;
    enum message_role role;
    struct json_buffer text, thinking;
    json_t *calls;   // tool_use blocks (borrowed), in order
    json_t *pending; // ids of the last assistant turn's calls without a result: id -> true
};

// The types of the FIELD_READ_BY rows are checked by the functions below.
static const struct field_rule message_rows[] = {
    FIELD_READ_BY("role"),
    FIELD_READ_BY("content"),
    FIELD_HARMLESS("id", "s"),
    FIELD_HARMLESS("cache_control", "o"),
};
static const struct field_rules message_rules = FIELD_RULES(message_rows, NULL);

static const struct field_rule block_rows[] = {
    FIELD_READ_BY("type"),
    FIELD_READ_BY("text"),
    FIELD_READ_BY("thinking"),
    FIELD_READ_BY("tool_use_id"),
    FIELD_READ_BY("content"),
    FIELD_READ_BY("id"),
    FIELD_READ_BY("name"),
    FIELD_READ_BY("input"),
    FIELD_READ_BY("tool_name"),
    FIELD_TYPED("is_error", "b"),
    FIELD_HARMLESS("signature", "s"),
    FIELD_HARMLESS("data", "s"),
    FIELD_HARMLESS("citations", "ao"), // array in text blocks, object in documents
    FIELD_HARMLESS("caller", "o"),
    FIELD_HARMLESS("cache_control", "o"),
};
static const struct field_rules block_rules = FIELD_RULES(block_rows, NULL);

static void refuse_type(struct fields *f, const char *path, struct text type)
{
    struct text shown = text_head(type, 64);
    if (text_is(type, "image") || text_is(type, "document"))
        fields_fail(f, HTTP_UNSUPPORTED_CONTENT, path, "has the content type '%.*s', " TEXT_ONLY,
                    (int)shown.bytes, shown.at);
    else
        fields_fail(f, HTTP_UNSUPPORTED_CONTENT, path, "cannot have the content type '%.*s'",
                    (int)shown.bytes, shown.at);
}

// Returns the type of a block, which must be an object. On failure, at is NULL.
static struct text block_type(struct fields *f, const json_t *block, const char *path)
{
    struct text type = fields_member_string(f, block, path, "type");
    if (type.at)
        fields_check_object(f, &block_rules, block, path);
    return type;
}

// Appends the text of a tool_reference block; messages_tools.c loads the tool that it names.
static void reference_put(struct json_buffer *out, struct fields *f, const json_t *block,
                          const char *path)
{
    struct text name = fields_member_string(f, block, path, "tool_name");
    if (f->failed)
        return;
    json_put_literal(out, "The tool ");
    json_put_raw(out, name);
    json_put_literal(out, " is now available.");
}

// Appends the content of a tool result: absent, a string, or text blocks joined by newlines.
static void result_content(struct json_buffer *out, struct fields *f, const json_t *content,
                           const char *path)
{
    struct field_path base = fields_path_keep(path);
    size_t i;
    json_t *block;
    if (!content || json_is_string(content)) {
        json_put_raw(out, json_text(content));
        return;
    }
    if (!json_is_array(content)) {
        fields_fail(f, HTTP_INVALID_TYPE, path, "must be a string or an array of blocks");
        return;
    }
    json_array_foreach(content, i, block)
    {
        const char *here = fields_path(f, "%s[%zu]", base.at, i);
        struct text type = block_type(f, block, here);
        bool reference = text_is(type, "tool_reference");
        if (type.at && !reference && !text_is(type, "text"))
            refuse_type(f, here, type);
        if (f->failed)
            return;
        if (i > 0)
            json_put_literal(out, "\n");
        if (reference)
            reference_put(out, f, block, here);
        else
            json_put_raw(out, fields_member_string(f, block, here, "text"));
    }
}

static void result_read(struct message *t, const json_t *block, const char *path)
{
    struct fields *f = t->fields;
    struct field_path base = fields_path_keep(path);
    struct json_buffer content = {0};
    const json_t *is_error = json_member(block, "is_error");
    struct tool_result result = {.id = fields_member_string(f, block, path, "tool_use_id")};
    if (json_is_true(is_error))
        json_put_literal(&content, "Error: ");
    if (!f->failed) {
        result_content(&content, f, json_member(block, "content"),
                       fields_path(f, "%s.content", path));
    }
    if (!f->failed) {
        result.content = json_buffer_text(&content);
        result.path = fields_path(f, "%s.tool_use_id", base.at);
        conversation_add_result(t->conversation, f, &result);
        json_object_deln(t->pending, result.id.at, result.id.bytes);
    }
    json_buffer_free(&content);
}

// Returns true if only Anthropic's servers write blocks of this type: calls of tools that they run
// and their results.
static bool type_is_hosted(struct text type)
{
    return text_ends(type, "_tool_use") || text_ends(type, "_tool_result");
}

// Removes what the model cannot read.
static void hosted_trim(json_t *block)
{
    static const char *const left_out[] = {"id",     "tool_use_id",       "cache_control",
                                           "caller", "encrypted_content", "encrypted_stdout"};
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
        json_object_del(block, left_out[i]);
}

// Appends such a block as text: the model has no such tool, so it is no call that a template could
// render.
static void hosted_read(struct message *t, const json_t *block)
{
    struct json_buffer text = {0};
    json_t *shown = json_object_copied(block), *content = json_object_get(shown, "content");
    json_t *entries = json_is_array(content) ? json_array() : NULL, *entry;
    size_t i;
    hosted_trim(shown);
    json_array_foreach(content, i, entry)
    {
        json_t *copy = json_is_object(entry) ? json_object_copied(entry) : json_incref(entry);
        hosted_trim(copy);
        json_array_append_new(entries, copy);
    }
    if (entries)
        json_object_set_new(shown, "content", entries);
    json_put_value(&text, shown);
    if (fields_spend(t->fields, text.bytes))
        conversation_line(&t->text, json_buffer_text(&text));
    json_buffer_free(&text);
    json_decref(shown);
}

static void assistant_block(struct message *t, const json_t *block, struct text type,
                            const char *path)
{
    struct fields *f = t->fields;
    if (text_is(type, "text")) {
        json_put_raw(&t->text, fields_member_string(f, block, path, "text"));
    } else if (text_is(type, "thinking")) {
        json_put_raw(&t->thinking, fields_member_string(f, block, path, "thinking"));
    } else if (text_is(type, "tool_use")) {
        struct text id = fields_member_string(f, block, path, "id");
        conversation_check_id(t->conversation, f, id, fields_path(f, "%s.id", path));
        fields_member_string(f, block, path, "name");
        fields_member(f, block, path, "input", JSON_OBJECT);
        json_array_append(t->calls, (json_t *)block);
    } else if (type_is_hosted(type)) {
        hosted_read(t, block);
    } else if (!text_is(type, "redacted_thinking")) {
        refuse_type(f, path, type);
    }
}

static void block_read(struct message *t, const json_t *block, const char *path)
{
    struct text type = block_type(t->fields, block, path);
    if (t->fields->failed)
        return;
    if (t->role == ROLE_ASSISTANT)
        assistant_block(t, block, type, path);
    else if (text_is(type, "text"))
        json_put_raw(&t->text, fields_member_string(t->fields, block, path, "text"));
    else if (text_is(type, "tool_reference"))
        reference_put(&t->text, t->fields, block, path);
    else if (t->role == ROLE_USER && text_is(type, "tool_result"))
        result_read(t, block, path);
    else
        refuse_type(t->fields, path, type);
}

static void turn_content(struct message *t, const json_t *content, const char *path)
{
    struct field_path base = fields_path_keep(path);
    size_t i;
    json_t *block;
    if (!content) {
        fields_fail(t->fields, HTTP_MISSING_FIELD, path, "is required");
    } else if (json_is_string(content)) {
        json_put_raw(&t->text, json_text(content));
    } else if (!json_is_array(content)) {
        fields_fail(t->fields, HTTP_INVALID_TYPE, path, "must be a string or an array of blocks");
    } else {
        json_array_foreach(content, i, block)
        {
            if (t->fields->failed)
                return;
            block_read(t, block, fields_path(t->fields, "%s[%zu]", base.at, i));
        }
    }
}

static void assistant_end(struct message *t)
{
    json_t *message = conversation_add(t->conversation, "assistant", json_buffer_text(&t->text));
    size_t i;
    json_t *block;
    if (t->thinking.bytes > 0) {
        json_object_set_new(message, "reasoning_content",
                            json_string_of(json_buffer_text(&t->thinking)));
    }
    json_array_foreach(t->calls, i, block)
    {
        struct text id = json_text(json_object_get(block, "id"));
        conversation_add_call(t->conversation, message,
                              &(struct tool_call){
                                  .id = id,
                                  .name = json_text(json_object_get(block, "name")),
                                  .arguments = json_object_get(block, "input"),
                              });
        json_object_setn_new(t->pending, id.at, id.bytes, json_true());
    }
}

// Adds the message. Its tool results were added while reading; its text follows them.
static void turn_end(struct message *t, bool has_results)
{
    struct text text = json_buffer_text(&t->text);
    if (t->role == ROLE_ASSISTANT) {
        assistant_end(t);
        return;
    }
    if (t->role == ROLE_SYSTEM) {
        conversation_add(t->conversation, "system", text);
        return;
    }
    if (text.bytes > 0 || !has_results)
        conversation_add(t->conversation, "user", text);
}

// Checks that every call of the last assistant turn has a result. Called before the next assistant
// turn and at the end.
static void pending_check(struct message *t, size_t i)
{
    const char *unanswered = json_object_iter_key(json_object_iter(t->pending));
    if (unanswered) {
        struct text shown = text_head(text_of(unanswered), 64);
        fields_fail(t->fields, HTTP_INVALID_VALUE,
                    fields_path(t->fields, "messages[%zu].content", i),
                    "must hold a tool_result for each tool_use of the turn before; '%.*s' has none",
                    (int)shown.bytes, shown.at);
    }
}

static bool role_read(enum message_role *out, struct text role)
{
    static const struct {
        const char *name;
        enum message_role role;
    } roles[] = {
        {"user", ROLE_USER},     {"assistant", ROLE_ASSISTANT},
        {"system", ROLE_SYSTEM}, {"ctx", ROLE_USER},
        {"msg", ROLE_USER}, // a widely used command line client sends it
    };
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        if (text_is(role, roles[i].name)) {
            *out = roles[i].role;
            return true;
        }
    }
    return false;
}

static void turn_read(struct message *t, const json_t *in, size_t i)
{
    const char *path = fields_path(t->fields, "messages[%zu]", i);
    size_t before = json_array_size(t->conversation->messages);
    bool same_turn = i > 0 && t->role == ROLE_ASSISTANT; // the previous message is the assistant's
    struct text role = fields_member_string(t->fields, in, path, "role");
    if (role.at)
        fields_check_object(t->fields, &message_rules, in, path);
    if (!t->fields->failed && !role_read(&t->role, role)) {
        role = text_head(role, 32);
        fields_fail(t->fields, HTTP_INVALID_VALUE, fields_path(t->fields, "%s.role", path),
                    "must be 'user', 'assistant' or 'system', got '%.*s'", (int)role.bytes,
                    role.at);
    }
    if (t->fields->failed)
        return;
    if (t->role == ROLE_ASSISTANT && !same_turn)
        pending_check(t, i > 0 ? i - 1 : 0);
    t->text.bytes = t->thinking.bytes = 0;
    json_array_clear(t->calls);
    turn_content(t, json_member(in, "content"), fields_path(t->fields, "%s.content", path));
    if (!t->fields->failed)
        turn_end(t, json_array_size(t->conversation->messages) > before);
}

// Joins the blocks of `system` by newlines. Skips a block with a billing hash that differs for each
// request, because no prompt would then match the prefix cache.
static void system_read(struct conversation *c, struct fields *f)
{
    static const char billing[] = "x-anthropic-billing-header";
    const json_t *system = fields_get(f, "system");
    struct json_buffer joined = {0};
    size_t i;
    json_t *block;
    if (json_is_string(system))
        json_put_raw(&joined, json_text(system));
    else if (system && !json_is_array(system))
        fields_fail(f, HTTP_INVALID_TYPE, "system", "must be a string or an array of text blocks");
    json_array_foreach(system, i, block)
    {
        const char *path = fields_path(f, "system[%zu]", i);
        struct text type = block_type(f, block, path);
        if (type.at && !text_is(type, "text"))
            refuse_type(f, path, type);
        struct text text = f->failed ? type : fields_member_string(f, block, path, "text");
        if (f->failed)
            break;
        if (text.bytes >= sizeof billing - 1 && memcmp(text.at, billing, sizeof billing - 1) == 0)
            continue;
        if (joined.bytes > 0)
            json_put_literal(&joined, "\n");
        json_put_raw(&joined, text);
    }
    if (joined.bytes > 0)
        conversation_add(c, "system", json_buffer_text(&joined));
    json_buffer_free(&joined);
}

void messages_turns_read(struct conversation *c, struct fields *f)
{
    const json_t *messages = fields_get_required(f, "messages");
    size_t n = json_array_size(messages);
    struct message t = {.conversation = c, .fields = f};
    if (!f->failed && !json_is_array(messages)) {
        fields_fail(f, HTTP_INVALID_TYPE, "messages", "must be an array");
    } else if (!f->failed && (n == 0 || n > CONVERSATION_MESSAGES_MAX)) {
        fields_fail(f, HTTP_INVALID_VALUE, "messages", "must hold 1 to %d messages, got %zu",
                    CONVERSATION_MESSAGES_MAX, n);
    }
    if (f->failed)
        return;
    t.calls = json_array();
    t.pending = json_object();
    system_read(c, f);
    for (size_t i = 0; i < n && !f->failed; i++)
        turn_read(&t, json_array_get(messages, i), i);
    if (!f->failed) {
        pending_check(&t, n - 1);
        conversation_merge(c);
        c->continued = t.role == ROLE_ASSISTANT;
    }
    json_decref(t.calls);
    json_decref(t.pending);
    json_buffer_free(&t.text);
    json_buffer_free(&t.thinking);
}
