// SPDX-License-Identifier: Apache-2.0
// Bodies of the four endpoints with generated text: words are drawn by seed, so that a run can be
// repeated, and so that requests which share prefix blocks in a trace share their text.
#include "bench/load.h"

static const char *const words[64] = {
    "the",   "cat",    "sat",  "on",   "a",      "red",  "mat",   "and",    "saw",  "big",
    "dog",   "run",    "to",   "her",  "mom",    "with", "ball",  "she",    "was",  "very",
    "happy", "they",   "went", "park", "play",   "one",  "day",   "little", "girl", "named",
    "lily",  "found",  "toy",  "in",   "room",   "he",   "liked", "it",     "so",   "much",
    "that",  "wanted", "show", "his",  "friend", "tom",  "said",  "let",    "us",   "go",
    "see",   "bird",   "tree", "sun",  "sky",    "blue", "box",   "new",    "old",  "car",
    "fish",  "water",  "home", "end"};

enum { BLOCK_TOKENS = 512 }; // tokens per hash id of Mooncake

uint64_t load_random(uint64_t seed)
{
    uint64_t z = seed + 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static void words_put(struct json_buffer *out, uint64_t seed, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        json_put_literal(out, " ");
        json_put_literal(out, words[load_random(seed * 0x10001 + i) % 64]);
    }
}

static void prompt_put(struct json_buffer *out, const struct load_options *o,
                       const struct request_spec *spec)
{
    json_put_literal(out, "\"");
    if (o->prompt)
        json_put_escaped(out, text_of(o->prompt));
    uint32_t left = o->prompt ? 0 : spec->words;
    for (uint32_t i = 0; i < spec->hash_count && left > 0; i++) {
        uint32_t now = left < BLOCK_TOKENS ? left : BLOCK_TOKENS;
        words_put(out, o->seed + ((uint64_t)spec->hashes[i] << 20), now);
        left -= now;
    }
    words_put(out, spec->seed, left);
    json_put_literal(out, "\"");
}

static void texts_put(struct json_buffer *out, const struct load_options *o,
                      const struct request_spec *spec)
{
    json_put_literal(out, "[");
    for (uint32_t i = 0; i < o->inputs; i++) {
        struct request_spec one = *spec;
        one.seed = load_random(spec->seed + i);
        if (i > 0)
            json_put_literal(out, ",");
        prompt_put(out, o, &one);
    }
    json_put_literal(out, "]");
}

static void generation_put(struct json_buffer *out, const struct load_options *o,
                           const struct request_spec *spec)
{
    json_put_literal(out, ",\"messages\":[{\"role\":\"user\",\"content\":");
    prompt_put(out, o, spec);
    json_put_format(out, "}],\"max_tokens\":%u,\"temperature\":", spec->max_tokens);
    json_put_double(out, o->temperature);
    bool chat = spec->target->endpoint == ENDPOINT_CHAT;
    if (o->stream)
        json_put_literal(out, ",\"stream\":true");
    if (o->stream && chat)
        json_put_literal(out, ",\"stream_options\":{\"include_usage\":true}");
    if (o->ignore_eos && chat)
        json_put_literal(out, ",\"ignore_eos\":true");
}

void request_body(struct json_buffer *out, const struct load_options *o,
                  const struct request_spec *spec)
{
    out->bytes = 0;
    json_put_literal(out, "{\"model\":");
    json_put_string(out, text_of(spec->target->model));
    switch (spec->target->endpoint) {
    case ENDPOINT_CHAT:
    case ENDPOINT_MESSAGES:
        generation_put(out, o, spec);
        break;
    case ENDPOINT_EMBEDDINGS:
        json_put_literal(out, ",\"input\":");
        texts_put(out, o, spec);
        break;
    case ENDPOINT_RERANK:
        json_put_literal(out, ",\"query\":\"a big red ball\",\"documents\":");
        texts_put(out, o, spec);
        break;
    case ENDPOINT_COUNT:
        break;
    }
    json_put_literal(out, "}");
}

const char *request_path(enum endpoint endpoint)
{
    static const char *const paths[ENDPOINT_COUNT] = {"/v1/chat/completions", "/v1/messages",
                                                      "/v1/embeddings", "/v1/rerank"};
    return paths[endpoint];
}

bool request_streams(const struct load_options *o, enum endpoint endpoint)
{
    return o->stream && (endpoint == ENDPOINT_CHAT || endpoint == ENDPOINT_MESSAGES);
}
