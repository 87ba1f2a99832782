// SPDX-License-Identifier: Apache-2.0
// Cache of the schema compiler for expressions that it created.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct schema;

// A cached expression of a pattern, format or multipleOf; a and b identify it.
enum memo_kind { MEMO_PATTERN = 1, MEMO_FORMAT, MEMO_INTEGERS, MEMO_FRACTIONS };
struct memo {
    uint32_t kind, a, b, expr; // kind 0: unused slot
};

// Finds a cached expression. Returns false if there is none.
bool memo_find(const struct schema *c, uint32_t kind, uint32_t a, uint32_t b, uint32_t *expr);
// Caches an expression that memo_find did not find.
void memo_put(struct schema *c, uint32_t kind, uint32_t a, uint32_t b, uint32_t expr);
// Strings that both expressions match, and strings that `one` matches and `other` does not. If they
// cannot be compared, records an error at the site's keyword and returns GRAMMAR_NOTHING.
uint32_t schema_both(struct schema *c, uint32_t one, uint32_t other, uint32_t site,
                     const char *keyword);
uint32_t schema_except(struct schema *c, uint32_t one, uint32_t other, uint32_t site,
                       const char *keyword);
