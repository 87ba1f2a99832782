// The rule that ends the reasoning of an answer after so many tokens
// (runtime/grammar/token_budget.h), with the marks of a dialect.
#pragma once

#include "base/arena.h"
#include "runtime/grammar/token_budget.h"
#include "runtime/text/dialect/dialect.h"

// The tokens that end reasoning, and the one that would begin it again: token_budget_args. A plain
// value.
struct dialect_closing {
    int32_t forced[TOKEN_BUDGET_BYTES_MAX];
    int32_t reopen; // -1: none
    uint8_t reopen_at;
};
// At model load. vocab: ids that the model has; 0: all of the tokenizer's. arena: scratch. False:
// the dialect has no reasoning, or its close cannot be written in ids that the model has.
bool dialect_closing_make(struct dialect_closing *out, const struct dialect *d,
                          const struct tokenizer *tokenizer, uint32_t vocab, struct arena *arena);

struct dialect_budget_args {
    const struct dialect_closing *closing; // of the model
    uint32_t tokens_max;
    enum dialect_start start;
    bool calls;         // the reader of the answer knows calls
    struct text before; // text that the answer continues
};

// False where dialect_closing_make was.
bool dialect_budget(const struct dialect *d, const struct dialect_budget_args *args,
                    struct token_budget *out);
