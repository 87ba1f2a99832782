// SPDX-License-Identifier: Apache-2.0
// Reads one reply: server-sent events piece by piece with the time of each, or a complete JSON
// body. The reply is reduced to counts and one hash; nothing else is stored.
#include "bench/load.h"

#include <string.h>

enum { EVENT_BYTES_MAX = 1 << 20, BODY_BYTES_MAX = 256 << 20 };

static const uint64_t HASH_START = 1469598103934665603u;

static uint64_t hash_more(uint64_t hash, const char *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ (unsigned char)at[i]) * 1099511628211u;
    return hash;
}

void reply_start(struct reply *r, double now)
{
    struct json_buffer text = r->text;
    text.bytes = 0;
    *r = (struct reply){.endpoint = r->endpoint,
                        .streamed = r->streamed,
                        .gaps = r->gaps,
                        .text = text,
                        .started = now,
                        .hash = HASH_START};
}

static uint64_t count_of(const json_t *object, const char *name)
{
    json_int_t n = json_integer_value(json_object_get(object, name));
    return n > 0 ? (uint64_t)n : 0;
}

static void reply_piece(struct reply *r, const json_t *text, double now)
{
    size_t bytes = json_string_length(text);
    if (bytes == 0)
        return;
    r->hash = hash_more(r->hash, json_string_value(text), bytes);
    if (r->pieces++ == 0)
        r->first_at = now;
    else
        histogram_add(r->gaps, now - r->last_at);
    r->last_at = now;
}

static void reply_usage(struct reply *r, const json_t *usage)
{
    static const char *const in[] = {"prompt_tokens", "input_tokens", "cache_read_input_tokens"};
    static const char *const out[] = {"completion_tokens", "output_tokens"};
    uint64_t prompt = 0;
    for (size_t i = 0; i < sizeof in / sizeof *in; i++)
        prompt += count_of(usage, in[i]);
    r->prompt_tokens = prompt > 0 ? prompt : r->prompt_tokens;
    for (size_t i = 0; i < sizeof out / sizeof *out; i++)
        r->tokens = json_object_get(usage, out[i]) ? count_of(usage, out[i]) : r->tokens;
}

static void reply_event(struct reply *r, const json_t *data, double now)
{
    if (json_object_get(data, "error"))
        r->failed = true;
    if (r->endpoint == ENDPOINT_CHAT) {
        const json_t *choice = json_array_get(json_object_get(data, "choices"), 0);
        reply_piece(r, json_object_get(json_object_get(choice, "delta"), "content"), now);
        reply_usage(r, json_object_get(data, "usage"));
        return;
    }
    const char *type = json_string_value(json_object_get(data, "type"));
    if (!type)
        r->failed = true;
    else if (strcmp(type, "content_block_delta") == 0)
        reply_piece(r, json_object_get(json_object_get(data, "delta"), "text"), now);
    else if (strcmp(type, "message_start") == 0)
        reply_usage(r, json_object_get(json_object_get(data, "message"), "usage"));
    else if (strcmp(type, "message_delta") == 0)
        reply_usage(r, json_object_get(data, "usage"));
    else if (strcmp(type, "message_stop") == 0)
        r->complete = true;
}

static void reply_line(struct reply *r, struct text text, double now)
{
    static const struct text head = {"data: ", 6};
    if (text.bytes < head.bytes || memcmp(text.at, head.at, head.bytes) != 0)
        return;
    text = text_span(text.at + head.bytes, text.bytes - head.bytes);
    if (text_is(text, "[DONE]")) {
        r->complete = true;
        return;
    }
    json_t *data = NULL;
    if (json_parse(&data, text, NULL) == STATUS_OK)
        reply_event(r, data, now);
    else
        r->failed = true;
    json_decref(data);
}

bool reply_feed(struct reply *r, const char *at, size_t bytes, double now)
{
    const size_t most = r->streamed ? EVENT_BYTES_MAX : BODY_BYTES_MAX;
    while (r->streamed && bytes > 0) {
        const char *end = memchr(at, '\n', bytes);
        if (!end)
            break;
        json_put_raw(&r->text, text_span(at, (size_t)(end - at)));
        reply_line(r, text_span(r->text.at, r->text.bytes), now);
        r->text.bytes = 0;
        bytes -= (size_t)(end + 1 - at);
        at = end + 1;
    }
    if (r->text.bytes + bytes > most)
        return false;
    json_put_raw(&r->text, text_span(at, bytes));
    return true;
}

static void hash_json(struct reply *r, const json_t *value)
{
    struct json_buffer flat = {0};
    json_put_value(&flat, value);
    r->hash = hash_more(r->hash, flat.at, flat.bytes);
    json_buffer_free(&flat);
}

static bool whole_body(struct reply *r, const json_t *body, double now)
{
    if (r->endpoint == ENDPOINT_EMBEDDINGS || r->endpoint == ENDPOINT_RERANK) {
        bool embed = r->endpoint == ENDPOINT_EMBEDDINGS;
        const json_t *list = json_object_get(body, embed ? "data" : "results");
        if (json_array_size(list) > 0)
            hash_json(r, list);
        return json_array_size(list) > 0;
    }
    if (r->endpoint == ENDPOINT_CHAT) {
        const json_t *choice = json_array_get(json_object_get(body, "choices"), 0);
        const json_t *text = json_object_get(json_object_get(choice, "message"), "content");
        reply_piece(r, text, now);
        return json_is_string(text);
    }
    const json_t *content = json_object_get(body, "content");
    reply_piece(r, json_object_get(json_array_get(content, 0), "text"), now);
    return json_is_array(content);
}

void reply_end(struct reply *r, double now)
{
    if (r->streamed)
        return;
    json_t *body = NULL;
    if (json_parse(&body, text_span(r->text.at, r->text.bytes), NULL) == STATUS_OK) {
        r->complete = whole_body(r, body, now);
        reply_usage(r, json_object_get(body, "usage"));
    }
    json_decref(body);
}
