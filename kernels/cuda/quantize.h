// SPDX-License-Identifier: Apache-2.0
// Activations as FP8 codes (quantize.cu), for C and kernels.
#pragma once

#include "kernels/cuda/internal.h"

struct quantize_run {
    const void *x;        // [rows][k] act, stride x_stride elements; aligned to 16 bytes
    unsigned char *codes; // [padded][k]
    float *scale;         // [padded]; for blocks of 128 columns [k / 128][padded]
    enum dtype act;       // BF16 or F16
    bool blocks;          // true: a scale for each 128 columns of a row; then k % 128 is 0
    uint32_t rows;
    uint32_t padded;      // rows of codes; those after `rows` become zeros. Without blocks: rows
    uint32_t k, x_stride; // multiples of 8
};

#if defined(__cplusplus)
extern "C" {
#endif
enum status quantize(struct stream *stream, const struct quantize_run *run);
#if defined(__cplusplus)
}
#endif
