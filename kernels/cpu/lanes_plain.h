// SPDX-License-Identifier: Apache-2.0
// Sixteen floats at once, in plain C; see lanes_avx512.h. lanes_fma rounds twice here.
#pragma once

#include "kernels/dtype.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { LANES_MR = 2 };
enum { LANES_KEYS = 2 };

struct lanes {
    float at[16];
};
typedef struct lanes lanes;

#define LANES_INLINE static inline __attribute__((always_inline, unused))

LANES_INLINE lanes lanes_set(float x)
{
    lanes out;
    for (int i = 0; i < 16; i++)
        out.at[i] = x;
    return out;
}
LANES_INLINE lanes lanes_zero(void)
{
    lanes out;
    for (int i = 0; i < 16; i++)
        out.at[i] = 0;
    return out;
}
LANES_INLINE lanes lanes_load(const float *p)
{
    lanes out;
    memcpy(out.at, p, sizeof out.at);
    return out;
}
LANES_INLINE lanes lanes_load_n(const float *p, uint32_t n) // other lanes are 0
{
    lanes out = {{0}};
    memcpy(out.at, p, n * sizeof(float));
    return out;
}
LANES_INLINE void lanes_store(float *p, lanes x)
{
    memcpy(p, x.at, sizeof x.at);
}
LANES_INLINE void lanes_store_n(float *p, lanes x, uint32_t n)
{
    memcpy(p, x.at, n * sizeof(float));
}
LANES_INLINE lanes lanes_add(lanes a, lanes b)
{
    lanes out;
    for (int i = 0; i < 16; i++)
        out.at[i] = a.at[i] + b.at[i];
    return out;
}
LANES_INLINE lanes lanes_sub(lanes a, lanes b)
{
    lanes out;
    for (int i = 0; i < 16; i++)
        out.at[i] = a.at[i] - b.at[i];
    return out;
}
LANES_INLINE lanes lanes_mul(lanes a, lanes b)
{
    lanes out;
    for (int i = 0; i < 16; i++)
        out.at[i] = a.at[i] * b.at[i];
    return out;
}
LANES_INLINE lanes lanes_div(lanes a, lanes b)
{
    lanes out;
    for (int i = 0; i < 16; i++)
        out.at[i] = a.at[i] / b.at[i];
    return out;
}
LANES_INLINE lanes lanes_max(lanes a, lanes b)
{
    lanes out;
    for (int i = 0; i < 16; i++)
        out.at[i] = a.at[i] > b.at[i] ? a.at[i] : b.at[i];
    return out;
}
LANES_INLINE lanes lanes_min(lanes a, lanes b)
{
    lanes out;
    for (int i = 0; i < 16; i++)
        out.at[i] = a.at[i] < b.at[i] ? a.at[i] : b.at[i];
    return out;
}
LANES_INLINE lanes lanes_fma(lanes a, lanes b, lanes c)
{
    lanes out;
    for (int i = 0; i < 16; i++)
        out.at[i] = a.at[i] * b.at[i] + c.at[i];
    return out;
}
LANES_INLINE lanes lanes_abs(lanes a)
{
    lanes out;
    for (int i = 0; i < 16; i++)
        out.at[i] = fabsf(a.at[i]);
    return out;
}
LANES_INLINE lanes lanes_if_less(lanes a, lanes b, lanes x, lanes y)
{
    lanes out;
    for (int i = 0; i < 16; i++)
        out.at[i] = a.at[i] < b.at[i] ? x.at[i] : y.at[i];
    return out;
}
LANES_INLINE lanes lanes_if_bit(uint32_t bits, lanes x, lanes y)
{
    lanes out;
    for (int i = 0; i < 16; i++)
        out.at[i] = (bits >> i & 1u) != 0 ? x.at[i] : y.at[i];
    return out;
}
LANES_INLINE uint32_t lanes_mask_ge(lanes a, lanes b)
{
    uint32_t bits = 0;
    for (int i = 0; i < 16; i++)
        bits |= (uint32_t)(a.at[i] >= b.at[i]) << i;
    return bits;
}
LANES_INLINE float lanes_sum(lanes a)
{
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            a.at[i] += a.at[i + half];
    return a.at[0];
}
LANES_INLINE float lanes_top(lanes a)
{
    float top = a.at[0];
    for (int i = 1; i < 16; i++)
        top = a.at[i] > top ? a.at[i] : top;
    return top;
}
LANES_INLINE lanes lanes_round(lanes a) // |a| < 2^22: adding 1.5 * 2^23 rounds to even
{
    lanes out;
    for (int i = 0; i < 16; i++) {
        float moved = a.at[i] + 12582912.0f;
        out.at[i] = moved - 12582912.0f;
    }
    return out;
}
LANES_INLINE lanes lanes_exp2i(lanes n)
{
    lanes out;
    for (int i = 0; i < 16; i++) {
        uint32_t bits = (uint32_t)((int32_t)n.at[i] + 127) << 23;
        memcpy(&out.at[i], &bits, sizeof bits);
    }
    return out;
}
LANES_INLINE void lanes_split(lanes x, lanes *m, lanes *e)
{
    for (int i = 0; i < 16; i++) {
        int32_t bits;
        memcpy(&bits, &x.at[i], sizeof bits);
        int32_t exponent = (bits - 0x3F3504F3) >> 23;
        e->at[i] = (float)exponent;
        bits -= exponent * (1 << 23);
        memcpy(&m->at[i], &bits, sizeof bits);
    }
}
LANES_INLINE lanes lanes_from_bf16(const uint16_t *p)
{
    lanes out;
    for (int i = 0; i < 16; i++)
        out.at[i] = bf16_to_f32(p[i]);
    return out;
}
LANES_INLINE lanes lanes_from_f16(const uint16_t *p)
{
    lanes out;
    for (int i = 0; i < 16; i++)
        out.at[i] = f16_to_f32(p[i]);
    return out;
}
LANES_INLINE lanes lanes_pairs_first(const uint16_t *p)
{
    lanes out;
    for (int i = 0; i < 16; i++)
        out.at[i] = bf16_to_f32(p[2 * i]);
    return out;
}
LANES_INLINE lanes lanes_pairs_second(const uint16_t *p)
{
    return lanes_pairs_first(p + 1);
}
LANES_INLINE void lanes_to_bf16(uint16_t *p, lanes x)
{
    for (int i = 0; i < 16; i++)
        p[i] = f32_to_bf16(x.at[i]);
}
LANES_INLINE void lanes_to_f16(uint16_t *p, lanes x)
{
    for (int i = 0; i < 16; i++)
        p[i] = f32_to_f16(x.at[i]);
}

LANES_INLINE lanes lanes_swap(lanes a, const uint32_t d)
{
    lanes out;
    for (uint32_t i = 0; i < 16; i++)
        out.at[i] = a.at[i ^ d];
    return out;
}

struct lanes_i8 {
    int32_t at[16];
};
typedef struct lanes_i8 lanes_i8;

LANES_INLINE lanes_i8 lanes_i8_zero(void)
{
    return (lanes_i8){{0}};
}
LANES_INLINE lanes_i8 lanes_i8_dot(lanes_i8 sum, const uint8_t *w, const int8_t *x)
{
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 4; j++)
            sum.at[i] += w[4 * i + j] * x[j];
    return sum;
}
LANES_INLINE lanes lanes_i8_end(lanes_i8 sum, int32_t offset)
{
    lanes out;
    for (int i = 0; i < 16; i++)
        out.at[i] = (float)(sum.at[i] + offset);
    return out;
}
LANES_INLINE void lanes_to_i8(int8_t *p, lanes x)
{
    lanes whole = lanes_round(x);
    for (int i = 0; i < 16; i++)
        p[i] = (int8_t)whole.at[i];
}
