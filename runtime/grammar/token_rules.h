// Rules about single tokens that hold beside a grammar, or without one: which ids may come at all,
// sequences of ids that must not, and how many may be spent on reasoning (token_budget.h). Made
// once a request, immutable then, counted, read by any thread; where an answer stands in the rules
// the caller keeps: one number for the sequences, a place for the budget.
#pragma once

#include "runtime/grammar/token_budget.h"

#include <stdbool.h>
#include <stdint.h>

struct token_rules;

struct token_rules_args {
    uint32_t vocab;         // all ids are below
    const int32_t *allowed; // [allowed_count]; none: every id
    uint32_t allowed_count;
    // [bad_count] sequences, one after the other; bad_start: [bad_count + 1] prefix sums. None is
    // empty.
    const int32_t *bad;
    const uint32_t *bad_start;
    uint32_t bad_count;
};
// NULL: no id may come. Ends the process when the system has no memory.
struct token_rules *token_rules_create(const struct token_rules_args *args);
// Copies the budget. Before anybody else has the rules.
void token_rules_limit(struct token_rules *r, const struct token_budget *budget);
struct token_rules *token_rules_take(struct token_rules *r); // one more owner; any thread
void token_rules_give(struct token_rules *r); // the last one frees it; NULL is allowed
uint32_t token_rules_vocab(const struct token_rules *r);
uint32_t token_rules_owners(const struct token_rules *r);                   // now; for tests
const struct token_budget *token_rules_budget(const struct token_rules *r); // NULL: none

enum { TOKEN_RULES_START = 0 }; // where an answer begins
// Where it stands after one more token.
uint32_t token_rules_next(const struct token_rules *r, uint32_t at, int32_t token);

// Takes out of a mask row ([(vocab + 31) / 32] words) what may not come. False: nothing is left.
bool token_rules_apply(const struct token_rules *r, uint32_t at, uint32_t *words);
// Writes the row of all ids that may come somewhere; never empty.
void token_rules_row(const struct token_rules *r, uint32_t *words);
