// SPDX-License-Identifier: Apache-2.0
// Rotary tables for all kinds of scaling: one frequency per pair of columns, and one factor on cos
// and sin. Pure functions in double; the table is rounded to f32 once.
#pragma once

#include "runtime/model/config.h"

#include <stdint.h>

// Computes the frequencies of a model that serves up to `length` tokens, and returns the factor for
// cos and sin. `length` matters only to dynamic scaling (its base) and longrope (short or long
// factors). `positions`: max_position_embeddings.
double rope_frequencies(double *out, // [dim / 2]
                        const struct rope_config *rope, uint32_t positions, uint32_t length);

// Returns the factor of the queries at a position: 1 if the settings have none.
float rope_query_factor(const struct rope_config *rope, uint32_t position);

// The positions first .. first + count - 1 of a table.
struct rope_span {
    const double *frequencies; // [pairs]
    double scale;              // factor for cos and sin
    uint32_t pairs, first, count;
};
void rope_table(float *out, const struct rope_span *span); // [count][pairs][2] f32: cos, sin
