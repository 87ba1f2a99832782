// SPDX-License-Identifier: Apache-2.0
// Activations as FP8 codes, for C and kernels: rounded by a launch of their own (quantize.cu), or
// written by the op that computes them, together with its output (decision 0076). The arithmetic is
// in e4m3_rows.h. Used by the stream's engine thread.
#pragma once

#include "kernels/cuda/internal.h"

// Where rows of activations go as codes.
struct e4m3_rows {
    unsigned char *codes; // [padded][k]; NULL: nothing is written
    float *scale;         // [padded]; for blocks of 128 columns [k / 128][padded]
    uint32_t rows;
    uint32_t padded; // rows of codes; those after `rows` become zeros. Without blocks: rows
    uint32_t k;      // multiple of 8
    bool blocks;     // true: a scale for each 128 columns of a row; then k % 128 is 0
};

struct quantize_run {
    const void *x;     // [rows][k] act, stride x_stride elements; aligned to 16 bytes
    enum dtype act;    // BF16 or F16
    uint32_t x_stride; // multiple of 8
    struct e4m3_rows to;
};

#if defined(__cplusplus)
extern "C" {
#endif
enum status quantize(struct stream *stream, const struct quantize_run *run);
// For an op whose output x ([rows][k] act, without gaps) is the input of a product with `next` (or
// NULL): returns where the op also writes x as codes. `codes` is NULL if the library would not
// multiply codes, or if codes are rounded apart (ways.h).
struct e4m3_rows fp8_fused(const struct stream *stream, const struct weight *next, enum dtype act,
                           const void *x, uint32_t rows, uint32_t k);
// Records, right after its launch, that an op writes x as codes, so that a product that follows at
// once does not round x. The next launch of the stream ends this.
void fp8_fused_done(struct stream *stream, const void *x, const struct e4m3_rows *to);
#if defined(__cplusplus)
}
#endif
