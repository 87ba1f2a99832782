// SPDX-License-Identifier: Apache-2.0
// Weights without a checkpoint that are held as codes: random codes of 4 bits or FP8 with constant
// scales. A code's value is a whole number from -4 to 4 with mean 0, and the scales give the
// elements a deviation of about 0.02, as random floats have. The codes of a row depend on the seed,
// the row's number in the unsplit tensor and the column, so that ranks hold parts of one model.
// One thread for each struct.
#pragma once

#include "runtime/model/weights.h"

struct dummy { // zeroed by its owner
    uint8_t *codes;
    size_t bytes; // size of `codes`; 0 before the first use
    int kind;     // how a whole number becomes a code
};

// Loads the part of a weight that is held in one format: FP8, FP8_128, MXFP4, Q4_0 or an int4
// format.
enum status dummy_put(struct dummy *, const struct weight_load_args *, struct weight *,
                      const struct weight_part *, uint64_t seed, struct error *err) MUST_USE;
void dummy_close(struct dummy *);
