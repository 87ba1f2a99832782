// Converts the inputs of a request (`input` of embeddings, `prompt` of completions) to tokens: a
// string, an array of strings, an array of token ids, or an array of such arrays. Runs in
// on_prepare.
#pragma once

#include "http/api/call.h"
#include "http/api/pooled.h"

struct inputs {
    struct body_call *call;
    const char *field;      // name of the field
    uint32_t count_max;     // maximum number of inputs
    uint32_t token_max;     // maximum number of tokens of one input
    bool special;           // true if special tokens are added to texts
    bool truncate;          // true if longer inputs are truncated; false: rejected
    uint32_t last;          // keep only the last N tokens of each input; 0: all
    struct text prompt;     // text put before each input text; empty: none
    bool prompt_counts;     // true if the caller needs prompt_tokens
    uint32_t prompt_tokens; // result: tokens that `prompt` adds, with the special tokens before it
    const json_t *json;     // the field's value, until call_body_end
    struct token_list list; // result: the tokens of all inputs
};

// Tokenizes a text into memory of the arena. Stops after `most` tokens (see encoding_stopped).
// flags: enum encode_flags; ENCODE_ADDED_TOKENS is added if the model reads special tokens in
// texts.
enum status input_encode(const struct body_call *call, struct text text, unsigned flags,
                         struct arena *arena, uint32_t most, int32_t **tokens, uint32_t *count);

// Returns the size of the model's vocabulary: its token ids are below this.
uint32_t input_vocab(const struct served_model *model);

// Reads the required field into `list`. Fails the call's fields if something is wrong.
void inputs_read(struct inputs *in);
