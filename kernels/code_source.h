// SPDX-License-Identifier: Apache-2.0
// Checks of the sources of weights that are held as codes, for every device. Pure functions; any
// thread.
#pragma once

#include "kernels/weight.h"

// Returns NULL if a device can hold the source in the weight's rows from first_row on, else a
// sentence about what is wrong.
const char *code_source_check(const struct weight_shape *, uint32_t first_row,
                              const struct weight_source *);
// Returns the index of the scale of a row's group in the array of scales.
uint64_t code_int4_scale_at(const struct weight_int4 *, uint64_t row, uint32_t group);
// Returns a scale, which is not that of E2M1 codes, as bits of float16.
uint16_t code_int4_scale(const struct weight_int4 *, uint64_t at);
