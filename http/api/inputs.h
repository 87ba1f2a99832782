// The texts of a request (`input` of embeddings, `prompt` of completions) -> tokens: a string, an
// array of strings, token ids, or an array of arrays of them. In on_prepare.
#pragma once

#include "http/api/call.h"
#include "http/api/pooled.h"

struct inputs {
    struct call *call;
    const char *field;  // its name
    uint32_t count_max; // inputs
    uint32_t token_max; // of one input
    bool special;       // special tokens are added to texts
    bool truncate;      // inputs with more tokens are cut instead of refused
    uint32_t last;      // of longer inputs so many tokens at their end are kept; 0: all
    const json_t *json; // the field, until call_body_end
    struct token_list list;
};

// Reads the field, which is required, into the list. What is not right fails the call's fields.
void inputs_read(struct inputs *in);
