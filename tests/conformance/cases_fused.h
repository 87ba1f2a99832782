// SPDX-License-Identifier: Apache-2.0
// Activations rounded to FP8, also by the op before the product; part of try_gemm.
#pragma once

#include "tests/conformance/trial.h"

// Runs the cases for one type of activations, BF16 or F16, on a device in the default mode that has
// FP8 weights.
void fused_cases(struct trial *t, enum dtype act);
