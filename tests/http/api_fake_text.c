// SPDX-License-Identifier: Apache-2.0
// The chat template of api_fake.h, and its queries of grammars.
#include "api_fake.h"

#include "http/api/fields.h"
#include "runtime/grammar/matcher.h"
#include "runtime/text/chat.h"

#include <string.h>

// Chat template

bool chat_template_uses(const struct chat_template *chat, const char *name)
{
    return chat->thinks && strcmp(name, "enable_thinking") == 0;
}

bool chat_template_accepts_late_system(const struct chat_template *chat)
{
    return chat->system_inside;
}

struct rendering {
    struct arena *arena;
    char text[65536 * 8];
    size_t bytes;
    struct text_segment *segments;
    uint32_t count;
};

static struct rendering rendering;

static void render(struct text text, bool plain)
{
    struct text_segment *segment = &rendering.segments[rendering.count++];
    *segment =
        (struct text_segment){text_span(rendering.text + rendering.bytes, text.bytes), plain};
    memcpy(rendering.text + rendering.bytes, text.at, text.bytes);
    rendering.bytes += text.bytes;
}

static enum status render_calls(const struct chat_template *chat, const json_t *calls,
                                struct error *err)
{
    size_t i;
    json_t *call;
    json_array_foreach(calls, i, call)
    {
        json_t *function = json_object_get(call, "function");
        struct json_buffer out = {0};
        bool object = json_is_object(json_object_get(function, "arguments"));
        if (chat->text_fails != STATUS_OK && !object)
            return error_set(err, chat->text_fails, "line 3: arguments must be a mapping");
        if (chat->wrapped_fails &&
            json_object_get(json_object_get(function, "arguments"), "arguments"))
            return error_set(err, STATUS_REFUSED, "line 4: another matter");
        json_put_format(&out, "(%s ", json_string_value(json_object_get(function, "name")));
        json_put_value(&out, json_object_get(function, "arguments"));
        json_put_literal(&out, ")");
        render(text_span(out.at, out.bytes), true);
        json_buffer_free(&out);
    }
    return STATUS_OK;
}

static void names_put(const struct chat_template *chat, const json_t *message)
{
    static const char *const keys[] = {"name", "tool_call_id"};
    for (int i = 0; i < 2 && chat->names; i++) {
        const json_t *value = json_object_get(message, keys[i]);
        if (!value)
            continue;
        render(text_of(i == 0 ? "<" : "#"), false);
        render(text_span(json_string_value(value), json_string_length(value)), true);
        render(text_of(i == 0 ? ">" : ""), false);
    }
}

enum status chat_render(const struct chat_template *chat, const struct chat_input *in,
                        struct arena *a, struct chat_output *out, struct error *err)
{
    size_t i;
    json_t *message;
    json_t *messages = json_object_get(in->variables, "messages");

    fake_now = in->now;
    rendering.bytes = rendering.count = 0;
    rendering.segments =
        arena_alloc(a, (json_array_size(messages) * 12 + 8) * sizeof *rendering.segments);
    if (chat->refuses)
        return error_set(err, STATUS_REFUSED, "Roles must alternate");
    *out = (struct chat_output){text_of(""), rendering.segments, 0};
    if (chat->silent)
        return STATUS_OK;
    json_array_foreach(messages, i, message)
    {
        const json_t *content = json_object_get(message, "content");
        const json_t *reasoning = json_object_get(message, "reasoning_content");
        if (!fake_plain) {
            render(text_of("["), false);
            render(text_of(json_string_value(json_object_get(message, "role"))), false);
            render(text_of("]"), false);
        } else if (i > 0) {
            render(text_of("\n"), false);
        }
        names_put(chat, message);
        if (reasoning) {
            render(text_span(json_string_value(reasoning), json_string_length(reasoning)), true);
            render(text_of("/"), false);
        }
        render(text_span(json_string_value(content), json_string_length(content)), true);
        enum status status = render_calls(chat, json_object_get(message, "tool_calls"), err);
        if (status != STATUS_OK)
            return status;
    }
    const json_t *tools = json_object_get(in->variables, "tools"), *tool;
    json_array_foreach(tools, i, tool)
    {
        render(text_of(i == 0 ? "[tools " : " "), false);
        render(json_text(json_object_get(json_object_get(tool, "function"), "name")), true);
    }
    if (json_array_size(tools) > 0)
        render(text_of("]"), false);
    const json_t *thinks = json_object_get(in->variables, "enable_thinking");
    const json_t *effort = json_object_get(in->variables, "reasoning_effort");
    if (thinks && !chat->shows)
        render(text_of(json_is_false(thinks) ? "[no-think]" : "[think]"), false);
    const json_t *shown = chat->shows ? json_object_get(in->variables, chat->shows) : NULL;
    if (shown) {
        struct json_buffer text = {0};
        json_put_value(&text, shown);
        render(text_of("{"), false);
        render(text_span(text.at, text.bytes), false);
        render(text_of("}"), false);
        json_buffer_free(&text);
    }
    if (effort && !chat->shows) {
        render(text_of("[effort "), false);
        render(json_text(effort), true);
        render(text_of("]"), false);
    }
    if (json_is_true(json_object_get(in->variables, "add_generation_prompt")) && !fake_plain)
        render(text_of(chat->opens ? "[assistant]<think>" : "[assistant]"), false);
    *out = (struct chat_output){text_span(rendering.text, rendering.bytes), rendering.segments,
                                rendering.count};
    return STATUS_OK;
}

struct vocabulary *fake_bytes(void)
{
    char bytes[256];
    struct text tokens[256];
    int32_t end = 256;
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        tokens[i] = text_span(&bytes[i], i < 0xFF ? 1 : 0);
    }
    return vocabulary_create(&(struct vocabulary_args){
        .vocab = 257, .tokens = tokens, .count = 256, .end_ids = &end, .end_count = 1});
}

bool fake_grammar_has(const char *text)
{
    check(fake.grammar, "no grammar was submitted");
    struct vocabulary *v = fake_bytes();
    struct mask_cache *cache = mask_cache_create(fake.grammar, v, NULL);
    struct matcher m;
    matcher_init(&m, cache);
    bool does = matcher_accept_bytes(&m, text_of(text)) && matcher_may_end(&m);
    matcher_end(&m);
    mask_cache_destroy(cache);
    vocabulary_unref(v);
    return does;
}
