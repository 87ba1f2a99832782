// Parts that embeddings and rerank share: fields, submission, and the events of a pooling request.
#pragma once

#include "http/api/call.h"

struct pooled {
    struct body_call call;
    struct port *port;
    struct request *request;
    uint32_t prompt_tokens;
    bool over; // true once the last event was read and counted
};

// Submits the request. field: where the inputs were read from, for messages. If no engine accepts
// it, sends the failure and leaves p->request NULL.
void pooled_submit(struct pooled *p, struct submit_args *args, const char *field);

// Reads events. Returns true once, when the result is complete: the caller then copies the values
// and calls pooled_close, which frees the engine's request. A failure is sent to the client here.
bool pooled_done(struct pooled *p);
void pooled_close(struct pooled *p);
// For on_gone: counts a request that had not ended as aborted.
void pooled_gone(struct pooled *p);

// Fields that both endpoints have. pooled_alias checks a field that has two names: returns true if
// it is present; fails f if both names are.
bool pooled_alias(struct fields *f, const char *name, const char *other);
// Returns a bool field that has two names.
bool pooled_flag(struct fields *f, const char *name, const char *other, bool fallback);
// Returns the maximum number of tokens of an input: truncate_prompt_tokens, at most (and by
// default) the context window. truncate: false if inputs may not be truncated, so the field must be
// absent.
uint32_t pooled_truncate(struct pooled *p, bool truncate);
// Returns true if the left end of an input is cut off: truncation_direction
// (text-embeddings-inference) or truncation_side (vLLM).
bool pooled_cuts_left(struct fields *f);

// The tokens of several inputs, concatenated.
struct token_list {
    struct arena *arena;
    int32_t *tokens; // [count] i32
    size_t count, max;
    uint32_t *starts; // [sequence_count + 1] prefix sums into tokens
    uint32_t sequence_count;
};
// Allocates the list for at most sequences_max inputs. Returns false if the arena is full.
bool token_list_begin(struct token_list *l, struct arena *arena, uint32_t sequences_max);
// Appends a copy of one input's tokens. Returns false if the arena is full or the list would exceed
// 2^32 - 1 tokens.
bool token_list_add(struct token_list *l, const int32_t *tokens, uint32_t count);
