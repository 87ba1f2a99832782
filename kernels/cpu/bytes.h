// SPDX-License-Identifier: Apache-2.0
// The definition of int8 products on the cpu device, shared by the packing of weights, all ISA
// levels and the reference. Rows of K elements, of weights and of activations, are padded with
// zeros to blocks of 64. Each block is rotated by a Walsh-Hadamard transform: x' = H D x, where H
// is the Hadamard matrix of 64 (not scaled) and D the signs below. The rotation spreads a single
// large element over its block. Groups of BYTE_GROUP rotated elements are rounded to bytes with one
// scale per group, max |x'| / 127, and
//
//   y = sum over groups of (sum of qx qw) * scale x * scale w,  scale w divided by 64,
//
// which is x W^T, because H D has orthogonal rows of length 8. Decision 0018 has the measurements.
#pragma once

#include <math.h>
#include <stdint.h>

enum {
    BYTE_BLOCK = 64,  // elements rotated together
    BYTE_GROUP = 128, // elements with one scale; the last group of K may be a single block
    BYTE_ZERO = 128,  // weights are stored with this added: one operand of vpdpbusd is unsigned
};

static inline uint32_t byte_depth(uint32_t k) // K including padding
{
    return (k + BYTE_BLOCK - 1) / BYTE_BLOCK * BYTE_BLOCK;
}

static inline uint32_t byte_groups(uint32_t k)
{
    return (k + BYTE_GROUP - 1) / BYTE_GROUP;
}

// Returns D[i]: -1 if i0 i1 + i2 i3 + i4 i5 is odd, over the bits of i. With these signs a constant
// block also gets equal magnitudes.
static inline float byte_sign(uint32_t i)
{
    uint32_t pairs = i & i >> 1;
    return (((pairs ^ pairs >> 2 ^ pairs >> 4) & 1u) != 0) ? -1.0f : 1.0f;
}

// x = H x in place, from the lowest bit of the index to the highest: the order determines the
// result's bits.
static inline void byte_walsh(float x[BYTE_BLOCK])
{
    for (uint32_t d = 1; d < BYTE_BLOCK; d *= 2)
        for (uint32_t i = 0; i < BYTE_BLOCK; i += 2 * d)
            for (uint32_t j = i; j < i + d; j++) {
                float a = x[j], b = x[j + d];
                x[j] = a + b;
                x[j + d] = a - b;
            }
}

// x = H D x in place: the rotation of a block.
static inline void byte_rotate(float x[BYTE_BLOCK])
{
    for (uint32_t i = 0; i < BYTE_BLOCK; i++)
        x[i] *= byte_sign(i);
    byte_walsh(x);
}

// Returns the scale of a group; NaN if an element is NaN.
static inline float byte_scale(const float *x, uint32_t count)
{
    float top = 0, poison = 0;
    for (uint32_t i = 0; i < count; i++) {
        top = fabsf(x[i]) > top ? fabsf(x[i]) : top;
        poison += x[i] * 0;
    }
    return top / 127.0f + poison;
}

// Returns 1 / scale, or 0 if scale is NaN or its inverse would not be a normal number; the bytes of
// such a group are 0.
static inline float byte_inverse(float scale)
{
    return scale >= 0x1p-120f && scale <= 0x1p120f ? 1.0f / scale : 0.0f;
}
