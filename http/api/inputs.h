// The texts of a request (`input` of embeddings, `prompt` of completions) -> tokens: a string, an
// array of strings, token ids, or an array of arrays of them. In on_prepare.
#pragma once

#include "http/api/call.h"
#include "http/api/pooled.h"

struct inputs {
    struct call *call;
    const char *field;      // its name
    uint32_t count_max;     // inputs
    uint32_t token_max;     // of one input
    bool special;           // special tokens are added to texts
    bool truncate;          // inputs with more tokens are cut instead of refused
    uint32_t last;          // of longer inputs so many tokens at their end are kept; 0: all
    struct text prompt;     // put in front of each text; empty: nothing
    bool prompt_counts;     // how many tokens that puts in front is wanted
    uint32_t prompt_tokens; // the answer, special tokens before the prompt included
    const json_t *json;     // the field, until call_body_end
    struct token_list list;
};

// Tokens of a text into memory of the arena, at most `most` (encoding_stopped tells); flags: of
// enum encode_flags, to which the model's own about special tokens in texts is added.
enum status input_encode(const struct call *call, struct text text, unsigned flags,
                         struct arena *arena, uint32_t most, int32_t **tokens, uint32_t *count);

uint32_t input_vocab(const struct served_model *model); // its ids are below

// Reads the field, which is required, into the list. What is not right fails the call's fields.
void inputs_read(struct inputs *in);
