// SPDX-License-Identifier: Apache-2.0
// Computes elements from 4-bit codes (codes.h). The value of an element is exact in float32, or
// rounded once where a minimum is added, and is then rounded to T: these are the bits of the
// element of T that a conversion of the checkpoint would store, so a product with codes has the
// bits of a product with these elements.
#pragma once

#include "kernels/cuda/codes.h"
#include "kernels/cuda/lane.h"

// The codes of a part: where its arrays are.
struct code_arrays {
    const char *slabs, *scales, *supers;
    uint32_t panel_slabs, groups, group_shift, supers_of_row;
};

static __device__ __forceinline__ uint2 load64(const void *p)
{
    uint64_t v = *(const uint64_t *)p;
    uint2 w = {(uint32_t)v, (uint32_t)(v >> 32)};
    return w;
}

// Type of the weight of a product whose codes are of a kind (enum code_kind).
template <int KIND> struct codes {
};

// element = factor * (code + base) + addend
struct code_factors {
    float factor, addend;
};

// The scales of rows r and r + 8 in a group, as they are stored.
struct code_words {
    uint32_t scale, other; // other: zero points or minima; Q4_K: d of both rows
    uint32_t least;        // Q4_K: dmin of both rows
};

static __device__ __forceinline__ uint32_t code_panels(uint32_t rows)
{
    return (rows + CODE_ROWS - 1) / CODE_ROWS;
}

// Loads the scales of a slab. panel: of the part; r: lane / 4.
template <int KIND>
static __device__ __forceinline__ code_words code_words_load(const code_arrays &a, uint32_t panel,
                                                             uint32_t slab, uint32_t r)
{
    uint32_t at = (panel * a.groups + (slab >> a.group_shift)) * 8 + r;
    code_words w = {0, 0, 0};
    if (KIND == CODES_ZERO || KIND == CODES_LEAST) {
        uint2 both = load64(a.scales + (size_t)at * 8);
        w.scale = both.x;
        w.other = both.y;
    } else {
        w.scale = *(const uint32_t *)(a.scales + (size_t)at * 4);
    }
    if (KIND == CODES_NESTED) {
        uint2 d = load64(a.supers + (size_t)((panel * a.supers_of_row + slab / 8) * 8 + r) * 8);
        w.other = d.x;
        w.least = d.y;
    }
    return w;
}

// Computes scale and addend of row r (half: 0) or r + 8 (half: 1).
template <int KIND>
static __device__ __forceinline__ code_factors code_factors_of(const code_words &w, uint32_t half)
{
    code_factors s = {0, 0};
    uint16_t scale = (uint16_t)(half ? w.scale >> 16 : w.scale);
    uint16_t other = (uint16_t)(half ? w.other >> 16 : w.other);
    if (KIND == CODES_E2M1) {
        s.factor = bf16_to_float(scale);
    } else if (KIND == CODES_NESTED) {
        uint16_t least = (uint16_t)(half ? w.least >> 16 : w.least);
        s.factor = mul_rn(f16_to_float(other), (float)(scale & 255u));
        s.addend = -mul_rn(f16_to_float(least), (float)(scale >> 8));
    } else if (KIND == CODES_LEAST) {
        s.factor = f16_to_float(scale);
        s.addend = f16_to_float(other);
    } else { // 128 is added to codes; this product is exact
        s.factor = f16_to_float(scale);
        s.addend = mul_rn(KIND == CODES_EIGHT ? -136.0f : -(float)(128u + other), s.factor);
    }
    return s;
}

// Computes the eight elements of a word of codes.
template <int KIND, class T>
static __device__ __forceinline__ uint4 code_elements(uint32_t word, code_factors s, T)
{
    float v[8];
    if (KIND == CODES_E2M1) {
        // Bytes of the bfloat16 numbers 0, 0.5, 1, 1.5, 2, 3, 4, 6, chosen by three bits.
        uint32_t index = word & 0x77777777u;
#pragma unroll
        for (int i = 0; i < 8; i += 4, index >>= 16) {
            uint32_t high = byte_perm(0x3F3F3F00u, 0x40404040u, index);
            uint32_t low = byte_perm(0xC0800000u, 0xC0804000u, index);
#pragma unroll
            for (int j = 0; j < 4; j += 2) {
                uint32_t pair = byte_perm(low, high, j == 0 ? 0x5140u : 0x7362u);
                pair |= (word << (28 - 4 * (i + j + 1)) & 0x80000000u) |
                        (word >> 4 * (i + j) << 12 & 0x8000u);
                v[i + j] = mul_rn(bits_float(pair << 16), s.factor);
                v[i + j + 1] = mul_rn(bits_float(pair & 0xFFFF0000u), s.factor);
            }
        }
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            uint32_t bits = i < 4 ? word << (16 - 4 * i) : word >> (4 * i - 16);
            float x = bits_float((bits & 0x000F0000u) | 0x43000000u); // 128 + code
            bool exact = KIND == CODES_EIGHT || KIND == CODES_ZERO;
            v[i] = fmaf(exact ? x : add_rn(x, -128.0f), s.factor, s.addend);
        }
    }
    uint4 w = {pack2(v, T()), pack2(v + 2, T()), pack2(v + 4, T()), pack2(v + 6, T())};
    return w;
}
