// SPDX-License-Identifier: Apache-2.0
// Reads one reply; see reply.h. The reply is reduced to counts, times and one hash; its text is not
// stored. The server may be hostile: any bytes end as a counted outcome.
#include "loadgen/reply.h"

#include "base/utf8.h"

#include <string.h>

enum { BODY_BYTES_MAX = 256 << 20 };

static const uint64_t HASH_START = 1469598103934665603u;

static uint64_t hash_more(uint64_t hash, struct text text)
{
    for (size_t i = 0; i < text.bytes; i++)
        hash = (hash ^ (unsigned char)text.at[i]) * 1099511628211u;
    return hash;
}

void bench_reply_start(struct bench_reply *r)
{
    sse_reset(&r->sse);
    struct json_buffer body = r->body, said = r->said, head = r->head, tail = r->tail;
    body.bytes = said.bytes = head.bytes = tail.bytes = 0;
    *r = (struct bench_reply){.api = r->api,
                              .streamed = r->streamed,
                              .gaps = r->gaps,
                              .gaps_from = r->gaps_from,
                              .sse = r->sse,
                              .body = body,
                              .keeps = r->keeps,
                              .said = said,
                              .head = head,
                              .tail = tail,
                              .hash = HASH_START};
}

void bench_reply_free(struct bench_reply *r)
{
    sse_free(&r->sse);
    json_buffer_free(&r->body);
    json_buffer_free(&r->said);
    json_buffer_free(&r->head);
    json_buffer_free(&r->tail);
}

static uint64_t count_of(const json_t *object, const char *name)
{
    json_int_t n = json_integer_value(json_object_get(object, name));
    return n > 0 ? (uint64_t)n : 0;
}

// Adds the text of a piece to the hash. Returns true if it has any.
static bool piece_hash(struct bench_reply *r, const json_t *text)
{
    struct text piece = text_span(json_string_value(text), json_string_length(text));
    r->hash = hash_more(r->hash, piece);
    r->effects += piece.bytes > 0;
    r->piece = piece.bytes > 0 ? piece : r->piece;
    return piece.bytes > 0;
}

// Adds a piece of the answer's text to the hash, and to the stored text. Returns true if it has
// any.
static bool said_add(struct bench_reply *r, const json_t *text)
{
    if (r->keeps)
        json_put_raw(&r->said, text_span(json_string_value(text), json_string_length(text)));
    return piece_hash(r, text);
}

// Counts an event with output.
static void event_count(struct bench_reply *r, bool reasoning)
{
    if (r->events++ == 0)
        r->first_at = r->now;
    else if (r->now >= r->gaps_from)
        bench_histogram_add(r->gaps, r->now - r->last_at);
    r->reasoning_events += reasoning;
    r->last_at = r->now;
}

// Stores the counts of a usage object. Later ones replace earlier ones, field by field, because
// Anthropic's streams send the input at the start and the output at the end.
static void usage_read(struct bench_reply *r, const json_t *usage)
{
    if (!json_is_object(usage))
        return;
    r->effects++;
    bool anthropic = r->api == BENCH_MESSAGES;
    const char *in = json_object_get(usage, "prompt_tokens") ? "prompt_tokens" : "input_tokens";
    const char *out =
        json_object_get(usage, "completion_tokens") ? "completion_tokens" : "output_tokens";
    bool rerank = !json_object_get(usage, in) && json_object_get(usage, "total_tokens");
    const json_t *details = json_object_get(usage, "prompt_tokens_details");
    details = details ? details : json_object_get(usage, "input_tokens_details");
    const json_t *out_details = json_object_get(usage, "completion_tokens_details");
    out_details = out_details ? out_details : json_object_get(usage, "output_tokens_details");
    uint64_t cached =
        anthropic ? count_of(usage, "cache_read_input_tokens") : count_of(details, "cached_tokens");
    uint64_t input = count_of(usage, rerank ? "total_tokens" : in);
    if (anthropic)
        input += cached + count_of(usage, "cache_creation_input_tokens");
    if (input > 0) {
        r->input_tokens = input;
        r->cached_tokens = cached;
    }
    if (json_object_get(usage, out))
        r->output_tokens = count_of(usage, out);
    if (out_details)
        r->reasoning_tokens = count_of(out_details, "reasoning_tokens");
    r->has_usage = true;
}

// Hashes the strings of a tool call's function. Returns true if it has any text.
static bool call_hash(struct bench_reply *r, const json_t *calls)
{
    bool any = false;
    size_t i;
    json_t *call;
    json_array_foreach(calls, i, call)
    {
        const json_t *function = json_object_get(call, "function");
        any |= piece_hash(r, json_object_get(function, "name"));
        any |= piece_hash(r, json_object_get(function, "arguments"));
    }
    return any;
}

static void openai_event(struct bench_reply *r, const json_t *data)
{
    const json_t *choice = json_array_get(json_object_get(data, "choices"), 0);
    if (r->api == BENCH_COMPLETIONS) {
        if (piece_hash(r, json_object_get(choice, "text")))
            event_count(r, false);
    } else {
        const json_t *delta = json_object_get(choice, "delta");
        const json_t *thought = json_object_get(delta, "reasoning_content");
        bool reasoning = piece_hash(r, thought ? thought : json_object_get(delta, "reasoning"));
        bool text = said_add(r, json_object_get(delta, "content"));
        bool call = call_hash(r, json_object_get(delta, "tool_calls"));
        if (reasoning || text || call)
            event_count(r, reasoning && !text);
    }
    usage_read(r, json_object_get(data, "usage"));
}

static void responses_event(struct bench_reply *r, const json_t *data, const char *type)
{
    static const char tail[] = ".delta";
    size_t bytes = strlen(type);
    bool delta = bytes > sizeof tail && strcmp(type + bytes - (sizeof tail - 1), tail) == 0;
    bool text = strcmp(type, "response.output_text.delta") == 0;
    const json_t *piece = json_object_get(data, "delta");
    if (delta && (text ? said_add(r, piece) : piece_hash(r, piece)))
        event_count(r, strncmp(type, "response.reasoning", 18) == 0);
    bool ended =
        strcmp(type, "response.completed") == 0 || strcmp(type, "response.incomplete") == 0;
    if (ended) {
        usage_read(r, json_object_get(json_object_get(data, "response"), "usage"));
        r->complete = true;
    }
    if (strcmp(type, "response.failed") == 0 || strcmp(type, "error") == 0)
        r->failed = true;
}

static void messages_event(struct bench_reply *r, const json_t *data, const char *type)
{
    if (strcmp(type, "content_block_delta") == 0) {
        const json_t *delta = json_object_get(data, "delta");
        bool reasoning = piece_hash(r, json_object_get(delta, "thinking"));
        bool text = said_add(r, json_object_get(delta, "text"));
        bool call = piece_hash(r, json_object_get(delta, "partial_json"));
        if (reasoning || text || call)
            event_count(r, reasoning);
    } else if (strcmp(type, "message_start") == 0) {
        usage_read(r, json_object_get(json_object_get(data, "message"), "usage"));
    } else if (strcmp(type, "message_delta") == 0) {
        usage_read(r, json_object_get(data, "usage"));
    } else if (strcmp(type, "message_stop") == 0) {
        r->complete = true;
    }
}

// Returns the number of bytes of a string that are plain: no quote, escape or control character.
static size_t plain_bytes(struct text text)
{
    size_t i = 0;
    while (i < text.bytes && text.at[i] != '"' && text.at[i] != '\\' &&
           (unsigned char)text.at[i] >= ' ')
        i++;
    return i;
}

// Stores what is around the text of an event that had one text and no other effect, if the member
// is found without doubt. A quote within a string is escaped, so the name below is no part of one.
static void form_learn(struct bench_reply *r, struct text event)
{
    static const char *const names[] = {[BENCH_CHAT] = "\"content\":\"",
                                        [BENCH_COMPLETIONS] = "\"text\":\"",
                                        [BENCH_RESPONSES] = "\"delta\":\"",
                                        [BENCH_MESSAGES] = "\"text\":\""};
    const char *name = names[r->api], *end = event.at + event.bytes;
    const char *at = memmem(event.at, event.bytes, name, strlen(name));
    if (!at || memmem(at + 1, (size_t)(end - at) - 1, name, strlen(name)))
        return;
    at += strlen(name);
    size_t bytes = plain_bytes(text_span(at, (size_t)(end - at)));
    if (at + bytes == end || at[bytes] != '"' || r->piece.bytes != bytes ||
        memcmp(at, r->piece.at, bytes) != 0)
        return;
    r->head.bytes = r->tail.bytes = 0;
    json_put_raw(&r->head, text_span(event.at, (size_t)(at - event.at)));
    json_put_raw(&r->tail, text_span(at + bytes, (size_t)(end - at) - bytes));
}

// Counts an event that differs from an earlier one of this reply in its text only. Such an event is
// valid JSON with the same effect, so it is not parsed. Returns false for any other event.
static bool form_match(struct bench_reply *r, struct text event)
{
    size_t around = r->head.bytes + r->tail.bytes;
    if (r->head.bytes == 0 || event.bytes <= around ||
        memcmp(event.at, r->head.at, r->head.bytes) != 0 ||
        memcmp(event.at + event.bytes - r->tail.bytes, r->tail.at, r->tail.bytes) != 0)
        return false;
    struct text piece = text_span(event.at + r->head.bytes, event.bytes - around);
    if (plain_bytes(piece) < piece.bytes || utf8_valid_prefix(piece) < piece.bytes)
        return false;
    r->hash = hash_more(r->hash, piece);
    if (r->keeps)
        json_put_raw(&r->said, piece);
    event_count(r, false);
    return true;
}

// Handles one event of a stream. Returns false after the last.
static bool event_handle(void *context, struct text text)
{
    struct bench_reply *r = context;
    if (text_is(text, "[DONE]")) {
        r->complete = true;
        return true;
    }
    if (form_match(r, text))
        return true;
    const struct bench_reply before = *r;
    r->effects = 0;
    json_t *data = NULL;
    if (json_parse(&data, text, NULL) != STATUS_OK || !json_is_object(data)) {
        r->malformed = true;
        json_decref(data);
        return true;
    }
    const json_t *error = json_object_get(data, "error");
    if (error && !json_is_null(error))
        r->failed = true;
    const char *type = json_string_value(json_object_get(data, "type"));
    if (r->api == BENCH_CHAT || r->api == BENCH_COMPLETIONS)
        openai_event(r, data);
    else if (!type)
        r->malformed |= !r->failed;
    else if (r->api == BENCH_RESPONSES)
        responses_event(r, data, type);
    else
        messages_event(r, data, type);
    bool quiet = r->failed == before.failed && r->malformed == before.malformed &&
                 r->complete == before.complete;
    if (quiet && r->effects == 1 && r->events == before.events + 1 &&
        r->reasoning_events == before.reasoning_events)
        form_learn(r, text);
    json_decref(data);
    return true;
}

bool bench_reply_feed(struct bench_reply *r, struct text bytes, double now)
{
    r->now = now;
    if (r->streamed)
        return sse_feed(&r->sse, bytes, event_handle, r) && r->said.bytes <= BODY_BYTES_MAX;
    if (r->body.bytes + bytes.bytes > BODY_BYTES_MAX)
        return false;
    json_put_raw(&r->body, bytes);
    return true;
}

static void hash_json(struct bench_reply *r, const json_t *value)
{
    struct json_buffer flat = {0};
    json_put_value(&flat, value);
    r->hash = hash_more(r->hash, json_buffer_text(&flat));
    json_buffer_free(&flat);
}

// Hashes the text of the items of a response or a message. Returns true if there is a list.
static bool items_hash(struct bench_reply *r, const json_t *list)
{
    size_t i, j;
    json_t *item, *part;
    json_array_foreach(list, i, item)
    {
        said_add(r, json_object_get(item, "text"));
        json_array_foreach(json_object_get(item, "content"), j, part)
            said_add(r, json_object_get(part, "text"));
    }
    return json_is_array(list);
}

// Reads a complete body. Returns true if it has what the API promises.
static bool body_read(struct bench_reply *r, const json_t *body)
{
    const json_t *choice = json_array_get(json_object_get(body, "choices"), 0), *list = body;
    switch (r->api) {
    case BENCH_CHAT:
        said_add(r, json_object_get(json_object_get(choice, "message"), "content"));
        return json_is_object(json_object_get(choice, "message"));
    case BENCH_COMPLETIONS:
        piece_hash(r, json_object_get(choice, "text"));
        return json_is_string(json_object_get(choice, "text"));
    case BENCH_RESPONSES:
        return items_hash(r, json_object_get(body, "output"));
    case BENCH_MESSAGES:
        return items_hash(r, json_object_get(body, "content"));
    case BENCH_EMBEDDINGS:
        list = json_object_get(body, "data");
        break;
    case BENCH_COHERE:
    case BENCH_JINA:
        list = json_object_get(body, "results");
        break;
    case BENCH_TEI:
    case BENCH_API_COUNT:
        break;
    }
    if (json_array_size(list) == 0)
        return false;
    hash_json(r, list);
    return true;
}

void bench_reply_end(struct bench_reply *r, double now)
{
    r->now = now;
    if (r->streamed) {
        sse_end(&r->sse, event_handle, r);
        return;
    }
    json_t *body = NULL;
    if (json_parse(&body, json_buffer_text(&r->body), NULL) == STATUS_OK) {
        r->complete = body_read(r, body);
        usage_read(r, json_object_get(body, "usage"));
        const json_t *meta = json_object_get(body, "meta");
        usage_read(r, json_object_get(meta, "tokens")); // Cohere
    }
    r->malformed = !r->complete;
    json_decref(body);
}
