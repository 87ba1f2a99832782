// What answers of chat completions and completions have in common: ids, usage, the frame of a
// stream's chunks and of a whole answer. A chunk is a constant beginning, made once, what the
// endpoint puts into its choice, and an end.
#pragma once

#include "http/api/generation.h"

// Up to and with `"choices":[`.
void openai_head_put(const struct generation *g, struct json_buffer *out, const char *object);
void openai_usage_put(const struct generation *g, struct json_buffer *out); // so far
const char *openai_finish_reason(const struct choice *c);

// What every chunk of a stream begins with. False: the arena is full.
bool openai_chunk_make(struct generation *g, const char *object);
// {"index": of this choice, and a comma.
void openai_chunk_begin(const struct generation *g, uint32_t choice, struct json_buffer *out);
void openai_chunk_end(const struct generation *g, struct json_buffer *out); // after its last member

// ,"logprobs": and those of the first `count` visible entries; c NULL, or not asked for: null.
void openai_logprobs_put(const struct generation *g, const struct choice *c, uint32_t count,
                         logprobs_part *part, struct json_buffer *out);

// Steps that no shape changes: keep-alive, the end of a stream, its failure.
void openai_step_put(const struct generation *g, enum generation_tell step,
                     struct json_buffer *out);

// What an endpoint writes of its own.
struct openai_shape {
    const char *object;     // of a whole answer
    const char *empty;      // members of the last chunk of a choice
    logprobs_part *entries; // of a whole answer
    void (*begin)(const struct generation *g, struct json_buffer *out); // a stream
    void (*piece)(const struct generation *g, struct json_buffer *out); // of generation_choice
    // Of a choice of a whole answer, what comes between its index and its log probabilities.
    void (*choice)(const struct generation *g, uint32_t choice, struct json_buffer *out);
};
enum generation_tell openai_put(struct generation *g, const struct openai_shape *shape,
                                enum generation_tell step, struct json_buffer *out);
