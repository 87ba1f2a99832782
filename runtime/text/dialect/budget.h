// The rule that ends the reasoning of an answer after so many tokens
// (runtime/grammar/token_budget.h), with the marks of a dialect.
#pragma once

#include "base/arena.h"
#include "runtime/grammar/token_budget.h"
#include "runtime/text/dialect/dialect.h"

struct dialect_budget_args {
    const struct tokenizer *tokenizer; // writes the close
    uint32_t vocab;                    // ids that the model has; 0: all of the tokenizer's
    uint32_t tokens_max;
    enum dialect_start start;
    struct text before;  // text that the answer continues
    struct arena *arena; // scratch
};

// False: the dialect has no reasoning, or the tokenizer cannot write its close in ids that the
// model has.
bool dialect_budget(const struct dialect *d, const struct dialect_budget_args *args,
                    struct token_budget *out);
