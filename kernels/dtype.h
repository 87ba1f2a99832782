// SPDX-License-Identifier: Apache-2.0
// Element types of tensors, and the conversions between them. Widening is exact; narrowing rounds
// to nearest even, and a NaN stays a NaN.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum dtype {
    DTYPE_F32,
    DTYPE_BF16,
    DTYPE_F16,
    DTYPE_I8,    // symmetric, with scales: weights (kernels/weight.h), keys and values
    DTYPE_COUNT, // number of the types that weights can have
    // Keys and values only, FP8 as in the OCP specification "8-bit floating point" (2023): sign,
    // four bits of exponent with bias 7, three of mantissa. The largest number is 448, the smallest
    // 2^-9; 0x7F and 0xFF are NaN, and there are no infinities.
    DTYPE_E4M3 = DTYPE_COUNT,
    DTYPE_KV_COUNT
};

static inline size_t dtype_bytes(enum dtype dtype)
{
    static const size_t bytes[DTYPE_KV_COUNT] = {4, 2, 2, 1, 1};
    return bytes[dtype];
}

// Returns the bytes of a token's key or value of one head. int8 elements are followed by their
// scale, a float32: an element is q * scale, scale = max |x| / 127 of the head. The pairs of
// each 16 elements in e4m3 are stored in the order 0 4 1 5 2 6 3 7 (kernels/cuda/e4m3.h).
static inline size_t kv_token_bytes(enum dtype kv, uint32_t dim)
{
    return dim * dtype_bytes(kv) + (kv == DTYPE_I8 ? sizeof(float) : 0);
}

// "float32", "bfloat16", "float16", "int8", "fp8": the names of the options --dtype and
// --kv-cache-dtype.
static inline const char *dtype_name(enum dtype dtype)
{
    static const char *const name[DTYPE_KV_COUNT] = {"float32", "bfloat16", "float16", "int8",
                                                     "fp8"};
    return name[dtype];
}

static inline float bf16_to_f32(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static inline uint16_t f32_to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) // a NaN stays a NaN: rounding could make it infinity
        return (uint16_t)((bits >> 16) | 0x40u);
    return (uint16_t)((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

static inline float f16_to_f32(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    uint32_t exponent = (bits >> 10) & 0x1Fu;
    uint32_t mantissa = bits & 0x3FFu;
    uint32_t wide;
    if (exponent == 0x1Fu) {
        wide = sign | 0x7F800000u | (mantissa << 13);
    } else if (exponent != 0) {
        wide = sign | ((exponent + 112u) << 23) | (mantissa << 13);
    } else { // zero or subnormal: mantissa * 2^-24 is exact in f32
        float small = (float)mantissa * 0x1p-24f;
        memcpy(&wide, &small, sizeof wide);
        wide |= sign;
    }
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static inline uint16_t f32_to_f16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint16_t sign = (uint16_t)((bits >> 16) & 0x8000u);
    bits &= 0x7FFFFFFFu;
    if (bits > 0x7F800000u)
        return (uint16_t)(sign | 0x7E00u);
    if (bits >= 0x477FF000u) // 65520 and above round to infinity
        return (uint16_t)(sign | 0x7C00u);
    if (bits < 0x38800000u) { // below 2^-14: adding 0.5 lets the FPU round at 2^-24
        float magic = 0.5f;
        float magnitude;
        memcpy(&magnitude, &bits, sizeof magnitude);
        float sum = magnitude + magic;
        uint32_t sum_bits;
        memcpy(&sum_bits, &sum, sizeof sum_bits);
        return (uint16_t)(sign | (sum_bits - 0x3F000000u));
    }
    uint32_t rounded = bits + 0xFFFu + ((bits >> 13) & 1u);
    return (uint16_t)(sign | ((rounded - 0x38000000u) >> 13));
}
