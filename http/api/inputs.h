// SPDX-License-Identifier: Apache-2.0
// Inputs of a request as tokens (inputs.c), and what embeddings and rerank share: fields,
// submission, and the events of a pooling request (pooled.c).
#pragma once

#include "http/api/infill.h"
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

// Converts the inputs of a request (`input` of embeddings, `prompt` of completions) to tokens: a
// string, an array of strings, an array of token ids, or an array of such arrays. Runs in
// on_prepare.

struct inputs {
    struct body_call *call;
    const char *field;                 // name of the field
    uint32_t count_max;                // maximum number of inputs
    uint32_t token_max;                // maximum number of tokens of one input
    bool special;                      // true if special tokens are added to texts
    bool truncate;                     // true if longer inputs are truncated; false: rejected
    uint32_t last;                     // keep only the last N tokens of each input; 0: all
    const struct infill_marks *infill; // fill in the middle, before `suffix`; NULL: no
    struct text suffix;
    struct text prompt;     // text put before each input text; empty: none
    bool prompt_counts;     // true if the caller needs prompt_tokens
    uint32_t prompt_tokens; // result: tokens that `prompt` adds, with the special tokens before it
    const json_t *json;     // the field's value, until call_body_end
    struct token_list list; // result: the tokens of all inputs
};

// Returns bits of enum encode_flags. special_in_text: special tokens in the text become tokens;
// special_added: the tokenizer's own (BOS, ...) are added.
unsigned input_flags(bool special_in_text, bool special_added);

// Tokenizes a text. *tokens: [*count] i32 in the arena. Stops after `most` tokens (see
// encoding_stopped). flags: bits of enum encode_flags. Errors are those of tokenizer_encode, and
// STATUS_NO_SPACE if the arena is full.
enum status input_encode(const struct body_call *call, struct text text, unsigned flags,
                         struct arena *arena, uint32_t most, int32_t **tokens, uint32_t *count);

// Returns the size of the model's vocabulary: its token ids are below this.
uint32_t input_vocab(const struct served_model *model);

// Reads the required field into `list`. Fails the call's fields if something is wrong.
void inputs_read(struct inputs *in);
