// Elements of a tensor as float32, whatever its type: the quantised block formats of GGUF, and rows
// that a file has in another order than the model. The arithmetic of each format is exact but for
// the float32 operations that its definition names. Loading thread only; reads the file's mapping.
#pragma once

#include "runtime/model/safetensors.h"

enum { BLOCK_ELEMENTS_MAX = 256 };

// Whether blocks of this type can be computed.
bool dequantise_knows(const struct gguf_type *type);
// One block of type->bytes bytes to out[type->elements].
void dequantise_block(float *out, const struct gguf_type *type, const void *block);

struct tensor_place {
    uint32_t first_row, rows;
    uint32_t first_col, cols;
    uint32_t stride; // columns of the whole tensor
};

// out[rows][cols] = the elements there. The tensor has a dtype or blocks; the place lies inside.
void tensor_rows_read(float *out, const struct tensor *tensor, const struct tensor_place *place);
