// Parts that the answers of chat completions and completions share: ids, usage, the frame of a
// stream's chunks and of a complete answer. A chunk consists of a constant beginning that is made
// once, the endpoint's members of the choice, and an end.
#pragma once

#include "http/api/generation.h"

// Writes the beginning of an answer, up to and including `"choices":[`.
void openai_head_put(const struct generation *g, struct json_buffer *out, const char *object);
// Writes the usage object; during a stream, the usage so far.
void openai_usage_put(const struct generation *g, struct json_buffer *out);
// Returns the finish_reason of a choice that is over; static.
const char *openai_finish_reason(const struct choice *c);

// Makes the constant beginning of the stream's chunks (g->chunk). Returns false if the arena is
// full.
bool openai_chunk_make(struct generation *g, const char *object);
// Writes g->chunk and {"index": of the choice, with a comma at the end.
void openai_chunk_begin(const struct generation *g, uint32_t choice, struct json_buffer *out);
// Closes the choice and the chunk, with usage if the client requested it.
void openai_chunk_end(const struct generation *g, struct json_buffer *out);

// Writes ,"logprobs": with the first `count` visible entries of c; null if c is NULL or the request
// has no logprobs.
void openai_logprobs_put(const struct generation *g, const struct choice *c, uint32_t count,
                         logprobs_part *part, struct json_buffer *out);

// Writes the steps that are the same for every shape: keep-alive, end of the stream, failure.
void openai_step_put(const struct generation *g, enum stream_step step, struct json_buffer *out);

// Writers that differ between the two endpoints.
struct openai_shape {
    const char *object;     // "object" of a complete answer
    const char *empty;      // members of a choice's last chunk
    logprobs_part *entries; // log probabilities of a complete answer
    void (*begin)(const struct generation *g, struct json_buffer *out); // stream's beginning
    void (*piece)(const struct generation *g, struct json_buffer *out); // a piece of its choice
    // Complete answer: the members of a choice between its index and its log probabilities.
    void (*choice)(const struct generation *g, uint32_t choice, struct json_buffer *out);
};
// Writes a step (generation_write_fn), using the endpoint's writers.
enum stream_step openai_put(struct generation *g, const struct openai_shape *shape,
                            enum stream_step step, struct json_buffer *out);
