// SPDX-License-Identifier: Apache-2.0
// Products of codes in plain C: sixteen columns at a time; see codes_avx2.h. fmaf rounds once, so
// that the bits are those of the other ISA levels.
#pragma once

#include "kernels/cpu/codes.h"

enum { CODE_COLUMNS = 16 };
enum { CODE_ROWS = 1 }; // code_dot_rows is not used

typedef lanes code_floats;

typedef lanes_i8 code_ints;

typedef struct { // 32 elements of K of the columns, unsigned
    uint8_t at[8][64];
} code_quads;

typedef struct { // int8 scales of the two halves of a group
    int8_t first[16], second[16];
} code_halves;

// e2m1: the codes become twice their values plus 16.
LANES_INLINE code_quads code_unpack(const char *at, const uint32_t bits, const bool e2m1)
{
    code_quads q;
    const uint8_t *line = (const uint8_t *)at;
    for (int j = 0; bits == 4 && j < 64; j++)
        for (int i = 0; i < 4; i++) {
            q.at[i][j] = line[64 * i + j] & 15;
            q.at[i + 4][j] = line[64 * i + j] >> 4;
        }
    if (bits == 8)
        memcpy(q.at, at, sizeof q.at);
    for (int i = 0; (bits == 5 || bits == 6) && i < 8; i += 4, line += 192)
        for (int j = 0; j < 64; j++) {
            int a = line[j], b = line[64 + j], c = line[128 + j];
            q.at[i][j] = (uint8_t)(a & 63);
            q.at[i + 1][j] = (uint8_t)(b & 63);
            q.at[i + 2][j] = (uint8_t)(c & 63);
            q.at[i + 3][j] = (uint8_t)(a >> 6 | b >> 6 << 2 | c >> 6 << 4);
        }
    for (int i = 0; e2m1 && i < 8; i++)
        for (int j = 0; j < 64; j++)
            q.at[i][j] = (uint8_t)(weight_e2m1_twice(q.at[i][j]) + 16);
    return q;
}
// Adds the products of quads [first, end).
LANES_INLINE code_ints code_steps(code_ints sum, const code_quads *q, const struct code_x *x,
                                  int first, int end)
{
    for (int i = first; i < end; i++)
        sum = lanes_i8_dot(sum, q->at[i], x->q + 4 * i);
    return sum;
}
// Returns sums of (code - zero) * x.
LANES_INLINE code_ints code_dot(const code_quads *q, const struct code_x *x, const uint32_t bits,
                                const int32_t zero)
{
    (void)bits;
    return code_steps(lanes_i8_set(-zero * x->sum), q, x, 0, 8);
}
LANES_INLINE code_halves code_halves_of(const char *first, const char *second)
{
    code_halves s;
    memcpy(s.first, first, sizeof s.first);
    memcpy(s.second, second, sizeof s.second);
    return s;
}
// Returns sums of (code - 32) * x of a group of Q6_K, each half multiplied by its int8 scale.
LANES_INLINE code_ints code_dot_halves(const code_quads *q, const struct code_x *x,
                                       const code_halves *s)
{
    int32_t first[16], second[16];
    code_ints sum = code_steps(lanes_i8_set(-32 * x->half[0]), q, x, 0, 4);
    memcpy(first, &sum, sizeof first);
    sum = code_steps(lanes_i8_set(-32 * x->half[1]), q, x, 4, 8);
    memcpy(second, &sum, sizeof second);
    for (int c = 0; c < 16; c++)
        first[c] = first[c] * s->first[c] + second[c] * s->second[c];
    memcpy(&sum, first, sizeof sum);
    return sum;
}
LANES_INLINE void code_dot_rows(code_ints sum[CODE_ROWS][2], const char *at, const struct code_x *x,
                                const int32_t zero)
{
    (void)sum, (void)at, (void)x, (void)zero;
}

LANES_INLINE code_floats code_half_floats(const char *at)
{
    return lanes_from_f16((const uint16_t *)(const void *)at);
}
LANES_INLINE code_floats code_bf16_floats(const char *at)
{
    return lanes_from_bf16((const uint16_t *)(const void *)at);
}
LANES_INLINE code_floats code_byte_floats(const char *at) // unsigned
{
    float out[16];
    for (int c = 0; c < 16; c++)
        out[c] = (float)(uint8_t)at[c];
    return lanes_load(out);
}
LANES_INLINE code_floats code_floats_of(code_ints x)
{
    return lanes_i8_end(x, 0);
}
LANES_INLINE code_floats code_load(const float *at)
{
    return lanes_load(at);
}
LANES_INLINE void code_store(float *at, code_floats x)
{
    lanes_store(at, x);
}
LANES_INLINE code_floats code_mul(code_floats a, code_floats b)
{
    return lanes_mul(a, b);
}
LANES_INLINE code_floats code_scaled(code_floats a, float b)
{
    return lanes_mul(a, lanes_set(b));
}
LANES_INLINE code_floats code_fma(code_floats a, code_floats b, code_floats c) // a * b + c
{
    float x[16], y[16], sum[16];
    lanes_store(x, a);
    lanes_store(y, b);
    lanes_store(sum, c);
    for (int i = 0; i < 16; i++)
        sum[i] = fmaf(x[i], y[i], sum[i]);
    return lanes_load(sum);
}
LANES_INLINE code_floats code_fma_by(code_floats a, float b, code_floats c) // a * b + c
{
    return code_fma(a, lanes_set(b), c);
}
