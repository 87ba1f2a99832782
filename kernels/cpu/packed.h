// SPDX-License-Identifier: Apache-2.0
// Weights of the cpu device (weight.c): the functions of its device_api, and the places of elements
// in a packed matrix. Loading thread; the caller owns the memory.
#pragma once

#include "base/status.h"
#include "kernels/weight.h"

#include <stddef.h>

struct device;

size_t cpu_weight_bytes(const struct device *, const struct weight_shape *);
enum status cpu_weight_put(struct device *, struct weight *, uint32_t first_row,
                           const struct weight_source *, struct error *);
enum status cpu_weight_finish(struct device *, struct weight *, struct error *);

// Reads elements [at, at + count) of a source's tensor as floats; the source has no blocks.
void source_read(float *out, const struct device *, const struct weight_source *, size_t at,
                 uint32_t count);

// For weights that are not held as codes:
size_t packed_bytes(const struct weight_shape *);   // matrix only; int8 scales follow it
uint32_t packed_depth(const struct weight_shape *); // K including padding
// Index of element (row, column) in a packed matrix.
size_t packed_index(const struct weight_shape *, uint32_t row, uint32_t column);
