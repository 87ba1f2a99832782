// SPDX-License-Identifier: Apache-2.0
// Strips of weights: consecutive features of a weight that is held as codes of 4 bits, FP8 codes or
// int8, converted to 16-bit floats for cuBLASLt (blas_strip.c, strip.cu). For C and kernels.
#pragma once

#include "kernels/cuda/internal.h"

// Features [first, first + rows) of one matrix, not of a stack.
struct strip_fill {
    const struct weight *weight; // k is a multiple of 32
    void *to;                    // [rows][k] act, device memory aligned to 16 bytes
    enum dtype act;              // BF16 or F16
    uint32_t first, rows;        // multiples of 16, or all features
};

#if defined(__cplusplus)
extern "C" {
#endif
// Queues the conversion. Codes of 4 bits become the elements that weft's products multiply
// (decision 0072). Of int8 and FP8 codes it is the value times the scale, rounded to `act`.
enum status strip_fill(struct stream *stream, const struct strip_fill *fill);
#if defined(__cplusplus)
}
#endif
