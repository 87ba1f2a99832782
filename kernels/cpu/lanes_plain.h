// SPDX-License-Identifier: Apache-2.0
// Sixteen floats at once, in C with vectors of four (an extension of GCC and clang that any
// processor has); see lanes_avx512.h. lanes_fma rounds twice here. Structs of arrays would take a
// compiler four times as long, because it finds the vectors only after it has unrolled every loop.
#pragma once

#include "kernels/dtype.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { LANES_MR = 2 };
enum { LANES_KEYS = 2 };

typedef float floats4 __attribute__((vector_size(16)));
typedef int32_t ints4 __attribute__((vector_size(16)));
typedef uint32_t bits4 __attribute__((vector_size(16)));
typedef uint64_t longs2 __attribute__((vector_size(16)));
typedef int16_t shorts8 __attribute__((vector_size(16)));
typedef uint16_t halves4 __attribute__((vector_size(8)));

struct lanes {
    floats4 a, b, c, d;
};
typedef struct lanes lanes;

#define LANES_INLINE static inline __attribute__((always_inline, unused))

// Applies a function of vectors of four to all lanes.
#define LANES_OF(function, x)                                                                      \
    ((lanes){function((x).a), function((x).b), function((x).c), function((x).d)})

LANES_INLINE floats4 four_set(float x)
{
    return (floats4){x, x, x, x};
}
LANES_INLINE floats4 four_load(const float *p)
{
    floats4 x;
    memcpy(&x, p, sizeof x);
    return x;
}
LANES_INLINE floats4 four_if(ints4 mask, floats4 x, floats4 y)
{
    return (floats4)((mask & (ints4)x) | (~mask & (ints4)y));
}

LANES_INLINE lanes lanes_set(float x)
{
    return (lanes){four_set(x), four_set(x), four_set(x), four_set(x)};
}
LANES_INLINE lanes lanes_zero(void)
{
    return lanes_set(0);
}
LANES_INLINE lanes lanes_load(const float *p)
{
    return (lanes){four_load(p), four_load(p + 4), four_load(p + 8), four_load(p + 12)};
}
LANES_INLINE lanes lanes_load_n(const float *p, uint32_t n) // other lanes are 0
{
    float padded[16] = {0};
    memcpy(padded, p, n * sizeof(float));
    return lanes_load(padded);
}
LANES_INLINE void lanes_store(float *p, lanes x)
{
    memcpy(p, &x.a, sizeof x.a);
    memcpy(p + 4, &x.b, sizeof x.b);
    memcpy(p + 8, &x.c, sizeof x.c);
    memcpy(p + 12, &x.d, sizeof x.d);
}
LANES_INLINE void lanes_store_n(float *p, lanes x, uint32_t n)
{
    float padded[16];
    lanes_store(padded, x);
    memcpy(p, padded, n * sizeof(float));
}
LANES_INLINE lanes lanes_add(lanes x, lanes y)
{
    return (lanes){x.a + y.a, x.b + y.b, x.c + y.c, x.d + y.d};
}
LANES_INLINE lanes lanes_sub(lanes x, lanes y)
{
    return (lanes){x.a - y.a, x.b - y.b, x.c - y.c, x.d - y.d};
}
LANES_INLINE lanes lanes_mul(lanes x, lanes y)
{
    return (lanes){x.a * y.a, x.b * y.b, x.c * y.c, x.d * y.d};
}
LANES_INLINE lanes lanes_div(lanes x, lanes y)
{
    return (lanes){x.a / y.a, x.b / y.b, x.c / y.c, x.d / y.d};
}
LANES_INLINE lanes lanes_max(lanes x, lanes y)
{
    return (lanes){four_if(x.a > y.a, x.a, y.a), four_if(x.b > y.b, x.b, y.b),
                   four_if(x.c > y.c, x.c, y.c), four_if(x.d > y.d, x.d, y.d)};
}
LANES_INLINE lanes lanes_min(lanes x, lanes y)
{
    return (lanes){four_if(x.a < y.a, x.a, y.a), four_if(x.b < y.b, x.b, y.b),
                   four_if(x.c < y.c, x.c, y.c), four_if(x.d < y.d, x.d, y.d)};
}
LANES_INLINE lanes lanes_fma(lanes x, lanes y, lanes z)
{
    return lanes_add(lanes_mul(x, y), z);
}
LANES_INLINE floats4 four_abs(floats4 x)
{
    return (floats4)((bits4)x & 0x7FFFFFFFu);
}
LANES_INLINE lanes lanes_abs(lanes x)
{
    return LANES_OF(four_abs, x);
}
LANES_INLINE lanes lanes_if_less(lanes p, lanes q, lanes x, lanes y)
{
    return (lanes){four_if(p.a < q.a, x.a, y.a), four_if(p.b < q.b, x.b, y.b),
                   four_if(p.c < q.c, x.c, y.c), four_if(p.d < q.d, x.d, y.d)};
}
LANES_INLINE floats4 four_if_bit(uint32_t bits, floats4 x, floats4 y)
{
    bits4 chosen = (bits4){bits, bits, bits, bits} & (bits4){1, 2, 4, 8};
    return four_if(chosen != 0, x, y);
}
LANES_INLINE lanes lanes_if_bit(uint32_t bits, lanes x, lanes y)
{
    return (lanes){four_if_bit(bits, x.a, y.a), four_if_bit(bits >> 4, x.b, y.b),
                   four_if_bit(bits >> 8, x.c, y.c), four_if_bit(bits >> 12, x.d, y.d)};
}
LANES_INLINE uint32_t four_mask(ints4 mask)
{
    longs2 bits = (longs2)(mask & (ints4){1, 2, 4, 8});
    uint64_t both = bits[0] | bits[1];
    return (uint32_t)(both | both >> 32);
}
LANES_INLINE uint32_t lanes_mask_ge(lanes x, lanes y)
{
    return four_mask(x.a >= y.a) | four_mask(x.b >= y.b) << 4 | four_mask(x.c >= y.c) << 8 |
           four_mask(x.d >= y.d) << 12;
}
LANES_INLINE float lanes_sum(lanes x)
{
    floats4 sum = (x.a + x.c) + (x.b + x.d);
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}
LANES_INLINE float lanes_top(lanes x)
{
    float at[16];
    lanes_store(at, x);
    float top = at[0];
    for (int i = 1; i < 16; i++)
        top = at[i] > top ? at[i] : top;
    return top;
}
LANES_INLINE floats4 four_round(floats4 x)
{
    floats4 moved = x + 12582912.0f;
    return moved - 12582912.0f;
}
LANES_INLINE lanes lanes_round(lanes x) // |x| < 2^22: adding 1.5 * 2^23 rounds to even
{
    return LANES_OF(four_round, x);
}
LANES_INLINE floats4 four_exp2i(floats4 n)
{
    return (floats4)((bits4)(__builtin_convertvector(n, ints4) + 127) << 23);
}
LANES_INLINE lanes lanes_exp2i(lanes n)
{
    return LANES_OF(four_exp2i, n);
}
LANES_INLINE void four_split(floats4 x, floats4 *m, floats4 *e)
{
    ints4 exponent = ((ints4)x - 0x3F3504F3) >> 23;
    *e = __builtin_convertvector(exponent, floats4);
    *m = (floats4)((bits4)x - ((bits4)exponent << 23));
}
LANES_INLINE void lanes_split(lanes x, lanes *m, lanes *e)
{
    four_split(x.a, &m->a, &e->a);
    four_split(x.b, &m->b, &e->b);
    four_split(x.c, &m->c, &e->c);
    four_split(x.d, &m->d, &e->d);
}
LANES_INLINE bits4 four_halves(const uint16_t *p)
{
    halves4 bits;
    memcpy(&bits, p, sizeof bits);
    return __builtin_convertvector(bits, bits4);
}
LANES_INLINE floats4 four_from_bf16(const uint16_t *p)
{
    return (floats4)(four_halves(p) << 16);
}
LANES_INLINE lanes lanes_from_bf16(const uint16_t *p)
{
    return (lanes){four_from_bf16(p), four_from_bf16(p + 4), four_from_bf16(p + 8),
                   four_from_bf16(p + 12)};
}
// As f16_to_f32: the exponent grows by 112, that of infinities and NaN by 112 twice; a subnormal is
// its mantissa times 2^-24.
LANES_INLINE floats4 four_from_f16(const uint16_t *p)
{
    bits4 bits = four_halves(p);
    bits4 size = (bits & 0x7FFFu) << 13;
    floats4 small = __builtin_convertvector((ints4)(bits & 0x3FFu), floats4) * 0x1p-24f;
    bits4 ends = (bits4)(size >= 0x0F800000u) & 0x38000000u;
    floats4 out = four_if(size < 0x00800000u, small, (floats4)(size + 0x38000000u + ends));
    return (floats4)((bits4)out | (bits & 0x8000u) << 16);
}
LANES_INLINE lanes lanes_from_f16(const uint16_t *p)
{
    return (lanes){four_from_f16(p), four_from_f16(p + 4), four_from_f16(p + 8),
                   four_from_f16(p + 12)};
}
LANES_INLINE bits4 four_words(const void *p)
{
    bits4 words;
    memcpy(&words, p, sizeof words);
    return words;
}
// The first elements of sixteen pairs of bf16; lanes_pairs_second: the second ones.
LANES_INLINE lanes lanes_pairs_first(const uint16_t *p)
{
    return (lanes){(floats4)(four_words(p) << 16), (floats4)(four_words(p + 8) << 16),
                   (floats4)(four_words(p + 16) << 16), (floats4)(four_words(p + 24) << 16)};
}
LANES_INLINE lanes lanes_pairs_second(const uint16_t *p)
{
    uint32_t high = 0xFFFF0000u;
    return (lanes){(floats4)(four_words(p) & high), (floats4)(four_words(p + 8) & high),
                   (floats4)(four_words(p + 16) & high), (floats4)(four_words(p + 24) & high)};
}
LANES_INLINE void lanes_to_bf16(uint16_t *p, lanes x)
{
    float at[16];
    lanes_store(at, x);
    for (int i = 0; i < 16; i++)
        p[i] = f32_to_bf16(at[i]);
}
LANES_INLINE void lanes_to_f16(uint16_t *p, lanes x)
{
    float at[16];
    lanes_store(at, x);
    for (int i = 0; i < 16; i++)
        p[i] = f32_to_f16(at[i]);
}

LANES_INLINE floats4 four_swap(floats4 x, const uint32_t d)
{
    if (d == 1)
        return (floats4){x[1], x[0], x[3], x[2]};
    return (floats4){x[2], x[3], x[0], x[1]};
}
// Exchanges lanes that are d (1, 2, 4 or 8) apart.
LANES_INLINE lanes lanes_swap(lanes x, const uint32_t d)
{
    if (d == 8)
        return (lanes){x.c, x.d, x.a, x.b};
    if (d == 4)
        return (lanes){x.b, x.a, x.d, x.c};
    return (lanes){four_swap(x.a, d), four_swap(x.b, d), four_swap(x.c, d), four_swap(x.d, d)};
}

struct lanes_i8 {
    ints4 a, b, c, d;
};
typedef struct lanes_i8 lanes_i8;

LANES_INLINE ints4 four_ints(int32_t x)
{
    return (ints4){x, x, x, x};
}
LANES_INLINE lanes_i8 lanes_i8_set(int32_t x)
{
    return (lanes_i8){four_ints(x), four_ints(x), four_ints(x), four_ints(x)};
}
LANES_INLINE lanes_i8 lanes_i8_zero(void)
{
    return lanes_i8_set(0);
}
// Adds four columns' products of four unsigned bytes each. A product fits 16 bits.
LANES_INLINE ints4 four_dot(ints4 sum, const uint8_t *w, shorts8 even, shorts8 odd)
{
    bits4 words = four_words(w);
    bits4 p = (bits4)((shorts8)(words & 0x00FF00FFu) * even);
    bits4 q = (bits4)((shorts8)(words >> 8 & 0x00FF00FFu) * odd);
    sum += ((ints4)(p << 16) >> 16) + ((ints4)p >> 16);
    return sum + ((ints4)(q << 16) >> 16) + ((ints4)q >> 16);
}
LANES_INLINE lanes_i8 lanes_i8_dot(lanes_i8 sum, const uint8_t *w, const int8_t *x)
{
    shorts8 even = {x[0], x[2], x[0], x[2], x[0], x[2], x[0], x[2]};
    shorts8 odd = {x[1], x[3], x[1], x[3], x[1], x[3], x[1], x[3]};
    return (lanes_i8){four_dot(sum.a, w, even, odd), four_dot(sum.b, w + 16, even, odd),
                      four_dot(sum.c, w + 32, even, odd), four_dot(sum.d, w + 48, even, odd)};
}
LANES_INLINE lanes lanes_i8_end(lanes_i8 sum, int32_t offset)
{
    return (lanes){__builtin_convertvector(sum.a + offset, floats4),
                   __builtin_convertvector(sum.b + offset, floats4),
                   __builtin_convertvector(sum.c + offset, floats4),
                   __builtin_convertvector(sum.d + offset, floats4)};
}
LANES_INLINE void lanes_to_i8(int8_t *p, lanes x)
{
    float at[16];
    lanes_store(at, lanes_round(x));
    for (int i = 0; i < 16; i++)
        p[i] = (int8_t)at[i];
}
