// SPDX-License-Identifier: Apache-2.0
// The layout of a weight in device memory (struct weight of kernels/weight.h). Pure functions.
#pragma once

#include "kernels/weight.h"

enum { WEIGHT_ROUND = 32 }; // rows of weights are padded with zeros to a multiple of this

// Returns the elements from one row of a weight to the next; not for codes of 4 bits.
static inline uint32_t weight_stride(const struct weight_shape *shape)
{
    return (shape->k + WEIGHT_ROUND - 1) / WEIGHT_ROUND * WEIGHT_ROUND;
}
// Returns true if a weight is held as FP8 codes.
static inline bool weight_e4m3(const struct weight_shape *shape)
{
    return shape->part_count > 0 && shape->parts[0].format >= WEIGHT_FP8;
}
// Returns true if a weight is held as codes of 4 bits (codes.h).
static inline bool weight_nibbles(const struct weight_shape *shape)
{
    return shape->part_count > 0 && !weight_e4m3(shape);
}
static inline size_t weight_element_bytes(const struct weight_shape *shape)
{
    return weight_e4m3(shape) ? 1 : dtype_bytes(shape->dtype);
}
// The float32 scales of int8 and FP8 weights follow the rows. weight_scales_at returns their byte
// offset, weight_scale_count their number; neither is for codes of 4 bits (codes.h).
static inline size_t weight_scales_at(const struct weight_shape *shape)
{
    size_t bytes = (size_t)shape->n * weight_stride(shape);
    return (bytes + 255) & ~(size_t)255;
}
static inline size_t weight_scale_count(const struct weight_shape *shape)
{
    if (shape->part_count == 0 || shape->parts[0].format != WEIGHT_FP8_128)
        return shape->n;
    size_t rows = (shape->n + FP8_SCALE_ROWS - 1) / FP8_SCALE_ROWS;
    return rows * (shape->k / FP8_SCALE_COLUMNS);
}
// FP8_128: a copy of the scales for cuBLASLt follows them (blas_fp8.c), one for each block of 128 x
// 128 elements: [n / 128, rounded up][weight_blocks_stride] f32. weight_blocks_at returns its byte
// offset, weight_blocks_stride the floats from one row of blocks to the next (a multiple of 4), and
// weight_blocks_bytes its bytes.
static inline size_t weight_blocks_at(const struct weight_shape *shape)
{
    size_t scales = weight_scale_count(shape) * sizeof(float);
    return weight_scales_at(shape) + ((scales + 255) & ~(size_t)255);
}
static inline uint32_t weight_blocks_stride(const struct weight_shape *shape)
{
    return (shape->k / FP8_SCALE_COLUMNS + 3) / 4 * 4;
}
static inline size_t weight_blocks_bytes(const struct weight_shape *shape)
{
    return (size_t)((shape->n + 127) / 128) * weight_blocks_stride(shape) * sizeof(float);
}
// Returns true if that copy exists on devices that call cuBLASLt: not for stacks of experts.
static inline bool weight_blocks(const struct weight_shape *shape)
{
    return shape->part_count == 1 && shape->parts[0].format == WEIGHT_FP8_128 && shape->stack < 2;
}

// A vector is stored as f32, then as bf16, then as f16 (cuBLASLt requires a bias of the output's
// type). Returns the byte offset of a copy.
static inline size_t vector_copy_at(const struct weight_shape *shape, enum dtype dtype)
{
    size_t first = ((size_t)shape->n * 4 + 255) & ~(size_t)255;
    size_t second = first + (((size_t)shape->n * 2 + 255) & ~(size_t)255);
    return dtype == DTYPE_F32 ? 0 : dtype == DTYPE_BF16 ? first : second;
}
