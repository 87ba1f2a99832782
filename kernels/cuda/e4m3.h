// SPDX-License-Identifier: Apache-2.0
// FP8 e4m3 as checkpoints store it (E4M3FN of the OCP specification "8-bit floating point", 2023):
// sign, four bits of exponent with bias 7, three of mantissa. The largest number is 448, the
// smallest 2^-9; 0x7F and 0xFF are NaN; there are no infinities.
//
// Only integer operations and float32 are used, so that all cards and the emulator compute the same
// bits. A code becomes an element of T (bfloat16 or float16) by shifts alone, so the element is the
// code's value divided by e4m3_factor: callers multiply sums of its products by the factor. This is
// exact for all codes, because tensor cores compute subnormal numbers of T exactly.
#pragma once

#include "kernels/cuda/lane.h"

// The factor of the elements that e4m3_unpack4 makes.
static __device__ __forceinline__ float e4m3_factor(bf16)
{
    return 0x1p120f;
}
static __device__ __forceinline__ float e4m3_factor(f16)
{
    return 0x1p8f;
}

// Converts four codes, the lowest byte first, to elements: *lo has the first two, *hi the others,
// each code's value / e4m3_factor. A code of NaN becomes 480 / e4m3_factor with its sign, so
// loaders make the scale a NaN where a code is one (weights.cu).
static __device__ __forceinline__ void e4m3_unpack4(uint32_t codes, uint32_t *lo, uint32_t *hi,
                                                    bf16)
{
    *lo = byte_perm(codes, 0, 0x9180u) << 4 & 0x87F087F0u; // sign-extended bytes
    *hi = byte_perm(codes, 0, 0xB3A2u) << 4 & 0x87F087F0u;
}
static __device__ __forceinline__ void e4m3_unpack4(uint32_t codes, uint32_t *lo, uint32_t *hi, f16)
{
    *lo = byte_perm(codes, 0, 0x9180u) << 7 & 0xBF80BF80u;
    *hi = byte_perm(codes, 0, 0xB3A2u) << 7 & 0xBF80BF80u;
}

// Returns the value of a code.
static __device__ __forceinline__ float e4m3_to_float(uint32_t code)
{
    uint32_t bits = (code & 0x80u) << 24 | (code & 0x7Fu) << 20;
    float value = mul_rn(bits_float(bits), 0x1p120f);
    return (code & 0x7Fu) == 0x7Fu ? bits_float(0x7FC00000u) : value;
}

// Rounds to the nearest code, ties to even; numbers beyond 448 become 448, NaN stays NaN.
static __device__ __forceinline__ uint32_t float_to_e4m3(float x)
{
    uint32_t sign = float_bits(x) >> 24 & 0x80u;
    float magnitude = fminf(fabsf(x), 448.0f);
    uint32_t bits = float_bits(magnitude);
    uint32_t normal = ((bits + 0x7FFFFu + (bits >> 20 & 1u)) >> 20) - (120u << 3);
    uint32_t tiny = float_bits(add_rn(magnitude, 0x1p14f)) & 15u; // rounded to multiples of 2^-9
    uint32_t code = magnitude < 0x1p-6f ? tiny : normal;
    return sign | (x != x ? 0x7Fu : code);
}

// Returns the codes of four numbers, the first in the lowest byte. They are those of float_to_e4m3,
// in two thirds of the instructions; each number is a NaN or of a magnitude up to 448 (1 + 2^-20).
// Adding a power of two whose last bit has the weight of the code's last bit rounds a number.
static __device__ __forceinline__ uint32_t scaled_to_e4m3(const float v[4])
{
    const uint32_t least = 121u << 23; // 2^-6: below it all codes have one distance
    uint32_t code[4], sign[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t power = float_bits(v[i]) & 0x7F800000u;
        power = power > least ? power : least;
        uint32_t sum = float_bits(add_rn(fabsf(v[i]), mul_rn(bits_float(power), 0x1p20f)));
        code[i] = sum - power + (power >> 20) - ((20u << 23) + (121u << 3));
        code[i] = code[i] < 0x7Fu ? code[i] : 0x7Fu; // a NaN makes a large number
        sign[i] = float_bits(v[i]);
    }
    uint32_t signs = byte_perm(byte_perm(sign[0], sign[1], 0x0073u),
                               byte_perm(sign[2], sign[3], 0x0073u), 0x5410u);
    uint32_t codes = byte_perm(byte_perm(code[0], code[1], 0x0040u),
                               byte_perm(code[2], code[3], 0x0040u), 0x5410u);
    return codes | (signs & 0x80808080u);
}

// Returns the byte at which column i of a key or value is stored: the pairs of 16 columns are in
// the order 0 4 1 5 2 6 3 7, so that a lane finds the columns of its mma fragment in one word
// (scores_fp8 of attn_mma.h).
static __device__ __forceinline__ uint32_t e4m3_place(uint32_t i)
{
    return (i & ~15u) + (i & 6u) * 2 + (i >> 3 & 1u) * 2 + (i & 1u);
}
