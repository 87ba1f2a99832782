// SPDX-License-Identifier: Apache-2.0
// Converts elements of a tensor to float32, whatever its type: plain floats, the quantised block
// formats of GGUF, and rows that a file stores in another order than the model. The arithmetic of
// each format is exact except for the float32 operations that its definition names. Used by
// the threads that load weights; reads the mapped file.
#pragma once

#include "kernels/weight.h"
#include "runtime/model/tensors.h"

enum { BLOCK_ELEMENTS_MAX = 256 };

// Returns true if blocks of this type can be converted.
bool dequantise_knows(const struct gguf_type *type);
// Returns the format in which a device can hold blocks of this type as they are; WEIGHT_FLOATS:
// none, or type is NULL.
enum weight_format dequantise_format(const struct gguf_type *type);
// Converts one block of type->bytes bytes to out[type->elements].
void dequantise_block(float *out, const struct gguf_type *type, const void *block);

// A rectangle of a tensor.
struct tensor_place {
    uint32_t first_row, rows;
    uint32_t first_col, cols;
    uint32_t stride; // elements from one row to the next: columns of the entire tensor
    uint32_t step;   // elements from one column to the next, for tensors of floats; 0: 1
    uint64_t skip;   // elements before row 0; 0 without a step
};

// Writes the elements of a rectangle to out[rows][cols]. The tensor must have a dtype or a known
// block type, and the rectangle must lie inside it.
void tensor_rows_read(float *out, const struct tensor *tensor, const struct tensor_place *place);
