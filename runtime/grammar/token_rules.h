// SPDX-License-Identifier: Apache-2.0
// Rules for single tokens that apply in addition to a grammar or without one: which ids are allowed
// at all, sequences of ids that are banned, and the budget for reasoning (token_budget.h). Created
// once per request, then immutable, reference-counted and readable by any thread. The caller stores
// the position of an answer: one number for the sequences, a token_budget_place for the budget.
#pragma once

#include "runtime/grammar/token_budget.h"

#include <stdbool.h>
#include <stdint.h>

struct token_rules;

struct token_rules_args {
    uint32_t vocab;         // all ids are less than this
    const int32_t *allowed; // [allowed_count] allowed ids; allowed_count 0: every id
    uint32_t allowed_count;
    // [bad_count] banned sequences, concatenated; none is empty. bad_start: [bad_count + 1] prefix
    // sums.
    const int32_t *bad;
    const uint32_t *bad_start;
    uint32_t bad_count;
};
// Returns NULL if no id is allowed. Ends the process if no memory is left.
struct token_rules *token_rules_create(const struct token_rules_args *args);
// Copies the budget into r. To be called once, before r is shared.
void token_rules_limit(struct token_rules *r, const struct token_budget *budget);
struct token_rules *token_rules_ref(struct token_rules *r); // adds a reference; any thread
// Drops a reference, the last frees it; NULL is allowed.
void token_rules_unref(struct token_rules *r);
uint32_t token_rules_vocab(const struct token_rules *r);
uint32_t token_rules_owners(const struct token_rules *r); // current number; for tests
const struct token_budget *token_rules_budget(const struct token_rules *r); // NULL: none

enum { TOKEN_RULES_START = 0 }; // position at the beginning of an answer
// Returns the position after one more token.
uint32_t token_rules_next(const struct token_rules *r, uint32_t at, int32_t token);

// Clears the tokens that are not allowed at position `at` in a mask row of [(vocab + 31) / 32]
// words. Returns false if no token is left.
bool token_rules_apply(const struct token_rules *r, uint32_t at, uint32_t *words);
// Writes the row of all ids that are allowed at some position; never empty.
void token_rules_row(const struct token_rules *r, uint32_t *words);
