// What the schema compiler made before, so that it is made once.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct schema;

// Expressions that were made before: patterns, formats, multiples.
enum memo_kind { MEMO_PATTERN = 1, MEMO_FORMAT, MEMO_INTEGERS, MEMO_FRACTIONS };
struct memo {
    uint32_t kind, a, b, expr;
};

bool memo_find(const struct schema *c, uint32_t kind, uint32_t a, uint32_t b, uint32_t *expr);
void memo_put(struct schema *c, uint32_t kind, uint32_t a, uint32_t b, uint32_t expr);
// Strings that both match, or that the first matches and the second does not. GRAMMAR_NOTHING with
// an error where they cannot be compared; the keyword is for its sentence.
uint32_t schema_both(struct schema *c, uint32_t one, uint32_t other, uint32_t site,
                     const char *keyword);
uint32_t schema_except(struct schema *c, uint32_t one, uint32_t other, uint32_t site,
                       const char *keyword);
