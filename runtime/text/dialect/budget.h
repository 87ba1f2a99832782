// SPDX-License-Identifier: Apache-2.0
// Creates the rule that limits the reasoning of an answer to a number of tokens
// (runtime/grammar/token_budget.h), with the marks of a dialect.
#pragma once

#include "base/arena.h"
#include "runtime/grammar/token_budget.h"
#include "runtime/text/dialect/dialect.h"

// Tokens that end reasoning; see token_budget_args. A plain value, computed once per model.
struct dialect_closing {
    int32_t forced[TOKEN_BUDGET_BYTES_MAX];
};
// Called at model load. vocab: number of ids of the model; 0: all ids of the tokenizer. arena:
// scratch. Returns false if the dialect has no reasoning, or if the model's ids cannot write its
// close.
bool dialect_closing_make(struct dialect_closing *out, const struct dialect *d,
                          const struct tokenizer *tokenizer, uint32_t vocab, struct arena *arena);

struct dialect_budget_args {
    const struct dialect_closing *closing; // from dialect_closing_make for the model
    uint32_t tokens_max;                   // budget for reasoning
    enum dialect_start start;
    bool calls;         // true if the reader of the answer recognizes calls
    struct text before; // text that the answer continues
};

// Fills out for one answer. Returns false if dialect_closing_make returned false.
bool dialect_budget(const struct dialect *d, const struct dialect_budget_args *args,
                    struct token_budget *out);
