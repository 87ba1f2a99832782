// SPDX-License-Identifier: Apache-2.0
// Ranges of decimal numbers as expressions of digits. A magnitude is a number without sign, as text
// without redundant zeros ("12" and "5" is 12.5), so each number has one representation.
#pragma once

#include "base/arena.h"
#include "runtime/grammar/grammar.h"

struct magnitude {
    struct text whole;    // digits before the point; no leading zeros except "0"
    struct text fraction; // digits after the point; no trailing zeros; may be empty
};
// A number that is a limit. The texts are in the arena of bound_read.
struct bound {
    struct magnitude size;
    bool set, negative, exclusive; // set: there is a limit
    double value;                  // the limit as a double, if exclusive
};
// Texts of numbers: those without and those with a fraction.
struct number_parts {
    uint32_t integers, fractions;
};

// Parses a JSON number such as -1.25e3, which must be well-formed, to the arena; sets only `size`,
// `negative` (false for -0) and `set`. Returns false if the number has more than 400 bytes or its
// exponent is beyond -399..399.
bool bound_read(struct arena *arena, struct text number, struct bound *out);
// Returns the order of two bounds by their values: below 0, 0 or above 0.
int bound_compare(const struct bound *one, const struct bound *other);
// Returns a whole number plus one, as digits in the arena.
struct text digits_add_one(struct arena *arena, struct text digits);

// Sets *out to all numbers between the bounds that are set. STATUS_TOO_LARGE: a limit of the
// builder was exceeded.
enum status digits_between(struct grammar_builder *b, struct arena *arena, const struct bound *low,
                           const struct bound *high, struct number_parts *out,
                           struct error *err) MUST_USE;
// Sets *out to all multiples of a positive number. STATUS_UNSUPPORTED: it needs too many states.
enum status digits_multiples(struct grammar_builder *b, struct arena *arena,
                             const struct magnitude *step, struct number_parts *out,
                             struct error *err) MUST_USE;
