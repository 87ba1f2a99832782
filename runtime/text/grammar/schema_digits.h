// Ranges of decimal numbers as digits. Magnitudes are texts without needless zeros: "12" and "5" is
// 12.5, so each number has one way of being written.
#pragma once

#include "base/arena.h"
#include "runtime/grammar/grammar.h"

struct magnitude {
    struct text whole;    // no leading zeros but in "0"
    struct text fraction; // no trailing zeros; may be empty
};
struct bound {
    struct magnitude size;
    bool set, negative, exclusive;
    double value; // as readers with doubles have it, where it is exclusive
};
// Numbers as text, those without a fraction and those with one apart.
struct number_parts {
    uint32_t integers, fractions;
};

// From -1.25e3 and so on; false: the exponent is out of all bounds.
bool bound_read(struct arena *arena, struct text number, struct bound *out);
int bound_compare(const struct bound *one, const struct bound *other);
struct text digits_add_one(struct arena *arena, struct text digits);

// All numbers between the bounds, where they are set. STATUS_TOO_LARGE: the builder's limit.
enum status digits_between(struct grammar_builder *b, struct arena *arena, const struct bound *low,
                           const struct bound *high, struct number_parts *out,
                           struct error *err) MUST_USE;
// All multiples of a positive number. STATUS_UNSUPPORTED: it needs too many states.
enum status digits_multiples(struct grammar_builder *b, struct arena *arena,
                             const struct magnitude *step, struct number_parts *out,
                             struct error *err) MUST_USE;
