// Lists of code points: ordered ones are sorted, apart from each other, and have neither surrogates
// nor anything over U+10FFFF. Pure functions.
#pragma once

#include "runtime/grammar/grammar.h"

// Orders the list in place, which has room for one more; returns the new count.
uint32_t ranges_order(struct grammar_range *ranges, uint32_t count);
// What is in none of an ordered list, ordered; out has room for count + 3. Returns its count.
uint32_t ranges_invert(const struct grammar_range *ranges, uint32_t count,
                       struct grammar_range *out);
