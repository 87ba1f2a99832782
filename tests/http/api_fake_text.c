// The chat template and the tokenizer of api_fake.h.
#include "api_fake.h"

#include "http/api/fields.h"
#include "runtime/text/chat.h"
#include "runtime/text/tokenizer.h"

#include <string.h>

// Chat template

bool chat_template_uses(const struct chat_template *chat, const char *name)
{
    return chat->thinks && strcmp(name, "enable_thinking") == 0;
}

bool chat_template_takes_system_inside(const struct chat_template *chat)
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
        if (chat->object_arguments && !json_is_object(json_object_get(function, "arguments")))
            return error_set(err, STATUS_INVALID, "line 3: arguments must be a mapping");
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

    rendering.bytes = rendering.count = 0;
    rendering.segments =
        arena_take(a, (json_array_size(messages) * 12 + 8) * sizeof *rendering.segments);
    if (chat->refuses)
        return error_set(err, STATUS_REFUSED, "Roles must alternate");
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

// Tokenizer

uint32_t tokenizer_bound(const struct tokenizer *t, size_t text_bytes)
{
    (void)t;
    return (uint32_t)text_bytes + 4;
}

struct encoding {
    int32_t *tokens;
    uint32_t count, max;
    bool more; // than max
};

static void token_put(struct encoding *e, int32_t token)
{
    if (e->count < e->max)
        e->tokens[e->count++] = token;
    else
        e->more = true;
}

enum status tokenizer_encode(const struct tokenizer *t, const struct encode_args *args,
                             int32_t *tokens, uint32_t token_max, uint32_t *token_count,
                             struct error *err)
{
    struct encoding e = {.tokens = tokens, .max = token_max};
    (void)t;
    if (args->flags & ENCODE_SPECIAL)
        token_put(&e, FAKE_BOS);
    for (size_t i = 0; i < args->text.bytes; i++) {
        token_put(&e,
                  (unsigned char)args->text.at[i] + (args->flags & ENCODE_ADDED_TOKENS ? 1000 : 0));
    }
    if (args->flags & ENCODE_SPECIAL)
        token_put(&e, FAKE_SEP);
    if (args->pair) {
        *args->pair_start = e.count;
        for (size_t i = 0; i < args->pair->bytes; i++)
            token_put(&e, (unsigned char)args->pair->at[i]);
        token_put(&e, FAKE_SEP);
        for (uint32_t i = 0; args->type_ids && i < e.count; i++)
            args->type_ids[i] = i >= *args->pair_start;
    }
    *token_count = e.count;
    return e.more ? error_set(err, STATUS_TOO_LARGE, "too many") : STATUS_OK;
}

enum status tokenizer_encode_segments(const struct tokenizer *t, const struct encode_args *args,
                                      int32_t *tokens, uint32_t token_max, uint32_t *token_count,
                                      struct error *err)
{
    struct encoding e = {.tokens = tokens, .max = token_max};
    (void)t;
    if (args->flags & ENCODE_SPECIAL)
        token_put(&e, FAKE_BOS);
    for (uint32_t s = 0; s < args->segment_count; s++) {
        const struct text_segment *segment = &args->segments[s];
        for (size_t i = 0; i < segment->text.bytes; i++)
            token_put(&e, (unsigned char)segment->text.at[i] + (segment->plain ? 0 : 1000));
    }
    *token_count = e.count;
    return e.more ? error_set(err, STATUS_TOO_LARGE, "too many") : STATUS_OK;
}

// A byte each; id 300 + n is n letters "x", the end token and those beyond are none.
struct text tokenizer_token_bytes(const struct tokenizer *t, int32_t id)
{
    static char bytes[256];
    if (id == FAKE_MARK && t->mark)
        return text_of(t->mark);
    if (id >= 1000 && id < 1256) // of the server's own text
        id -= 1000;
    if (id >= 300 && id < 316)
        return text_span("xxxxxxxxxxxxxxxx", (size_t)id - 300);
    if (id == FAKE_SPAN)
        return text_of("b<tool");
    if (id < 0 || id > 255)
        return id == FAKE_END ? text_of("<end>") : text_span("", 0);
    bytes[id] = (char)id;
    return text_span(&bytes[id], 1);
}

struct text tokenizer_token_text(const struct tokenizer *t, int32_t id)
{
    return tokenizer_token_bytes(t, id);
}

bool tokenizer_is_special(const struct tokenizer *t, int32_t id)
{
    return (id >= FAKE_END && id <= FAKE_SEP) || (id == FAKE_MARK && t->mark);
}

enum status tokenizer_decode(const struct tokenizer *t, const struct decode_args *args,
                             struct text *out, struct error *err)
{
    (void)t, (void)err;
    char *text = arena_take(args->arena, args->count + 1);
    for (uint32_t i = 0; i < args->count; i++)
        text[i] = (char)(args->tokens[i] % 1000);
    *out = text_span(text, args->count);
    return STATUS_OK;
}

uint32_t tokenizer_vocab(const struct tokenizer *t)
{
    (void)t;
    return FAKE_VOCAB;
}

struct text tokenizer_special_text(const struct tokenizer *t, enum special_token which)
{
    (void)t;
    return which == SPECIAL_BOS ? text_of("<s>") : (struct text){0};
}

const char *tokenizer_special_name(enum special_token which)
{
    return which == SPECIAL_BOS ? "bos_token" : "other";
}

void detok_init(struct detok *d, const struct tokenizer *t, bool skip_special)
{
    *d = (struct detok){.tokenizer = t, .skip_special = skip_special};
}

void detok_continue(struct detok *d)
{
    d->begun = true;
}

uint32_t detok_bound(const struct tokenizer *t)
{
    (void)t;
    return 16;
}

// Bytes of a character are held until it is whole; id 300 + n is n letters "x".
uint32_t detok_push(struct detok *d, int32_t token, char *out, uint32_t out_max)
{
    (void)out_max;
    if (tokenizer_is_special(d->tokenizer, token)) {
        struct text name = tokenizer_token_bytes(d->tokenizer, token);
        memcpy(out, name.at, d->skip_special ? 0 : name.bytes);
        return d->skip_special ? 0 : (uint32_t)name.bytes;
    }
    if (token >= 300 && token < 316) {
        memset(out, 'x', (size_t)token - 300);
        return (uint32_t)token - 300;
    }
    if (token == FAKE_SPAN) {
        struct text span = tokenizer_token_bytes(d->tokenizer, token);
        memcpy(out, span.at, span.bytes);
        return (uint32_t)span.bytes;
    }
    d->held[d->held_bytes++] = (char)token;
    unsigned char first = (unsigned char)d->held[0];
    uint8_t wanted = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (d->held_bytes < wanted)
        return 0;
    memcpy(out, d->held, wanted);
    d->held_bytes = 0;
    return wanted;
}

uint32_t detok_finish(struct detok *d, char *out, uint32_t out_max)
{
    (void)out_max;
    if (d->held_bytes == 0)
        return 0;
    d->held_bytes = 0;
    memcpy(out, "\xEF\xBF\xBD", 3);
    return 3;
}
