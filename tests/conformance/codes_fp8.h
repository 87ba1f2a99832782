// SPDX-License-Identifier: Apache-2.0
// Weights held as FP8 codes, for tests: random codes and scales, or random floats that the device
// rounds, and what they mean by the definition of e4m3 (kernels/format.h).
#pragma once

#include "tests/conformance/trial.h"

// Makes a weight of one part in an FP8 format; floats: the device gets floats and rounds them.
struct trial_weight trial_fp8_make(struct trial *t, const struct weight_shape *shape, bool floats);

// Returns the value of an e4m3 code; 0x7F and 0xFF, which are NaN, count as 480 and -480.
double fp8_value(uint32_t code);
