// What answers of chat completions and completions have in common: ids, usage, the frame of a
// stream's chunks. A chunk is a constant beginning, made once, what the endpoint puts into its
// choice, and an end.
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

// Steps that no shape changes: keep-alive, the end of a stream, its failure.
void openai_step_put(const struct generation *g, enum generation_tell step,
                     struct json_buffer *out);
