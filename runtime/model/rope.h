// Rotary tables for all scalings: one frequency per pair of columns, one factor on cos and sin.
// Pure functions in double; the table is rounded to f32 once.
#pragma once

#include "runtime/model/config.h"

#include <stdint.h>

// Frequencies of a model served up to length tokens; the return value multiplies cos and sin.
// length matters to dynamic scaling (its base) and longrope (short or long factors).
double rope_frequencies(double *out, // [dim / 2]
                        const struct rope_config *rope, uint32_t positions, uint32_t length);

// cos and sin of positions first .. first + count.
struct rope_span {
    const double *frequencies; // [pairs]
    double scale;
    uint32_t pairs, first, count;
};
void rope_table(float *out, const struct rope_span *span); // [count][pairs][2] f32
