// SPDX-License-Identifier: Apache-2.0
// Bodies of the APIs. Generated words are drawn by seed, so that a run can be repeated, and so that
// requests which share prefix blocks in a trace share their text. Members of --extra-body replace
// those of the generator.
#include "loadgen/content.h"

#include <math.h>

enum { BLOCK_TOKENS = 512 }; // tokens per hash id of Mooncake

static void words_put(struct json_buffer *out, const struct bench_words *words, uint64_t seed,
                      uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (out->bytes > 0 && out->at[out->bytes - 1] != '"')
            json_put_literal(out, " ");
        json_put_literal(out, words->at[bench_random(seed * 0x10001 + i) % words->count]);
    }
}

static void item_put(struct json_buffer *out, const struct bench_item *item)
{
    size_t i;
    json_t *message;
    if (item->text)
        json_put_escaped(out, text_of(item->text));
    json_array_foreach(item->messages, i, message)
    {
        const char *content = json_string_value(json_object_get(message, "content"));
        if (content && i > 0)
            json_put_literal(out, "\\n");
        if (content)
            json_put_escaped(out, text_of(content));
    }
}

// Writes the text of a prompt, an input or a document as a JSON string.
static void prompt_put(struct json_buffer *out, const struct bench_options *o,
                       const struct bench_words *words, const struct bench_request *r)
{
    json_put_literal(out, "\"");
    if (r->item) {
        item_put(out, r->item);
    } else if (o->prompt) {
        json_put_escaped(out, text_of(o->prompt));
    } else {
        uint32_t left = r->words;
        uint32_t prefix = (uint32_t)lround(o->prefix_tokens / words->tokens_per_word);
        prefix = prefix < left ? prefix : left;
        words_put(out, words, o->seed ^ 0x5eed, prefix);
        left -= prefix;
        uint32_t block = (uint32_t)fmax(1, round(BLOCK_TOKENS / words->tokens_per_word));
        for (uint32_t i = 0; i < r->hash_count && left > 0; i++) {
            uint32_t now = left < block ? left : block;
            words_put(out, words, o->seed + ((uint64_t)r->hashes[i] << 20), now);
            left -= now;
        }
        words_put(out, words, r->seed, left);
    }
    json_put_literal(out, "\"");
}

static void texts_put(struct json_buffer *out, const struct bench_options *o,
                      const struct bench_words *words, const struct bench_request *r)
{
    json_put_literal(out, "[");
    for (uint32_t i = 0; i < o->inputs; i++) {
        struct bench_request one = *r;
        one.seed = bench_random(r->seed + i);
        if (i > 0)
            json_put_literal(out, ",");
        prompt_put(out, o, words, &one);
    }
    json_put_literal(out, "]");
}

// Writes `,"name":`, unless --extra-body has the member. Returns true if written.
static bool field_begin(struct json_buffer *out, const struct bench_options *o, const char *name)
{
    if (json_object_get(o->extra_body, name))
        return false;
    json_put_format(out, ",\"%s\":", name);
    return true;
}

static void messages_put(struct json_buffer *out, const struct bench_options *o,
                         const struct bench_words *words, const struct bench_request *r)
{
    const json_t *messages = r->messages ? r->messages : r->item ? r->item->messages : NULL;
    if (messages) {
        json_put_value(out, messages);
        return;
    }
    json_put_literal(out, "[{\"role\":\"user\",\"content\":");
    prompt_put(out, o, words, r);
    json_put_literal(out, "}]");
}

static void generation_put(struct json_buffer *out, const struct bench_options *o,
                           const struct bench_words *words, const struct bench_request *r)
{
    enum bench_api api = r->target->api;
    if (api == BENCH_COMPLETIONS) {
        json_put_literal(out, ",\"prompt\":");
        prompt_put(out, o, words, r);
    } else {
        json_put_literal(out, api == BENCH_RESPONSES ? ",\"input\":" : ",\"messages\":");
        messages_put(out, o, words, r);
    }
    const char *most = api == BENCH_RESPONSES ? "max_output_tokens" : "max_tokens";
    // the newer name of the same limit
    bool newer = api == BENCH_CHAT && json_object_get(o->extra_body, "max_completion_tokens");
    if (!newer && field_begin(out, o, most))
        json_put_unsigned(out, r->max_tokens);
    if (o->temperature >= 0 && field_begin(out, o, "temperature"))
        json_put_double(out, o->temperature);
    if (o->stream && field_begin(out, o, "stream"))
        json_put_literal(out, "true");
    bool openai = api == BENCH_CHAT || api == BENCH_COMPLETIONS;
    if (o->stream && openai && field_begin(out, o, "stream_options"))
        json_put_literal(out, "{\"include_usage\":true}");
    if (o->ignore_eos && openai && field_begin(out, o, "ignore_eos"))
        json_put_literal(out, "true");
}

static void extra_put(struct json_buffer *out, const struct bench_options *o)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)o->extra_body, name, value)
    {
        json_put_literal(out, ",");
        json_put_string(out, text_of(name));
        json_put_literal(out, ":");
        json_put_value(out, value);
    }
}

void bench_body_write(struct json_buffer *out, const struct bench_options *o,
                      const struct bench_words *words, const struct bench_request *r)
{
    out->bytes = 0;
    json_put_literal(out, "{\"model\":");
    json_put_string(out, text_of(r->target->model));
    switch (r->target->api) {
    case BENCH_CHAT:
    case BENCH_COMPLETIONS:
    case BENCH_RESPONSES:
    case BENCH_MESSAGES:
        generation_put(out, o, words, r);
        break;
    case BENCH_EMBEDDINGS:
        json_put_literal(out, ",\"input\":");
        texts_put(out, o, words, r);
        break;
    case BENCH_COHERE:
    case BENCH_JINA:
    case BENCH_TEI:
        json_put_literal(out, ",\"query\":\"a big red ball\"");
        json_put_literal(out, r->target->api == BENCH_TEI ? ",\"texts\":" : ",\"documents\":");
        texts_put(out, o, words, r);
        break;
    case BENCH_API_COUNT:
        break;
    }
    extra_put(out, o);
    json_put_literal(out, "}");
}

bool bench_body_streams(const struct bench_options *o, enum bench_api api)
{
    return o->stream && bench_api_generates(api);
}
