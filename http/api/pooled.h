// What embeddings and rerank share: reading a pooling request to its end.
#pragma once

#include "http/api/call.h"

struct pooled {
    struct call call;
    struct port *port;
    struct request *request;
    uint32_t prompt_tokens;
    bool over; // the last event was read and counted
};

// Submits what was read from the field; the request is NULL where the engine refused (answered).
void pooled_submit(struct pooled *p, struct submit_args *args, const char *field);

// True once, when the values are there: the caller copies them and calls pooled_close. A failure is
// answered here.
bool pooled_done(struct pooled *p);
void pooled_close(struct pooled *p);
void pooled_gone(struct pooled *p); // for on_gone: counts what has not ended

// Reading what both have. A field and its other name: true where one of them is there; both fail.
bool pooled_alias(struct fields *f, const char *name, const char *other);
// A flag under either name.
bool pooled_flag(struct fields *f, const char *name, const char *other, bool fallback);
// truncate_prompt_tokens, at most the window, which it is by default; truncate: whether inputs may
// be cut at all.
uint32_t pooled_truncate(struct pooled *p, bool truncate);
// truncation_direction of text-embeddings-inference or truncation_side of vLLM: true where the
// left, the beginning, is what is cut off.
bool pooled_cuts_left(struct fields *f);

// Tokens of many inputs, one after the other.
struct token_list {
    struct arena *arena;
    int32_t *tokens; // [count] i32
    size_t count, max;
    uint32_t *starts; // [sequence_count + 1] prefix sums into tokens
    uint32_t sequence_count;
};
bool token_list_begin(struct token_list *l, struct arena *arena, uint32_t sequences_max);
// Copies one input's tokens; false: no memory.
bool token_list_add(struct token_list *l, const int32_t *tokens, uint32_t count);
