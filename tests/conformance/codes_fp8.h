// SPDX-License-Identifier: Apache-2.0
// Weights held as FP8 codes, for tests: random codes and scales, or random floats that the device
// rounds, and what they mean by the definition of e4m3 (kernels/format.h).
#pragma once

#include "tests/conformance/trial.h"

enum fp8_source {
    FP8_CODES,  // codes; scales of blocks differ from 16 rows to the next
    FP8_WHOLE,  // codes; scales of blocks are equal for 128 rows, as those of a checkpoint
    FP8_FLOATS, // floats, which the device rounds
};

// Makes a weight of one part in an FP8 format.
struct trial_weight trial_fp8_make(struct trial *t, const struct weight_shape *shape,
                                   enum fp8_source from);

// Returns the value of an e4m3 code; 0x7F and 0xFF, which are NaN, count as 480 and -480.
double fp8_value(uint32_t code);
