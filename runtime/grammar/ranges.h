// SPDX-License-Identifier: Apache-2.0
// Lists of code point ranges. An ordered list is sorted, without overlapping or adjacent ranges,
// surrogates or code points above U+10FFFF. Pure functions.
#pragma once

#include "runtime/grammar/grammar.h"

// Orders the list in place and returns the new count. The array must have space for count + 1.
uint32_t ranges_order(struct grammar_range *ranges, uint32_t count);
// Writes the ordered complement of an ordered list to out, which has space for count + 3. Returns
// its count.
uint32_t ranges_invert(const struct grammar_range *ranges, uint32_t count,
                       struct grammar_range *out);
