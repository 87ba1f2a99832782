// SPDX-License-Identifier: Apache-2.0
// Products of codes (codes.h) on AVX2: eight columns at a time. The three codes_*.h files define
// the same functions; codes.inc uses them and is compiled once with each. No state.
#pragma once

#include "kernels/cpu/codes.h"

enum { CODE_COLUMNS = 8 }; // columns that are computed together

typedef __m256 code_floats;
typedef __m256i code_ints;

typedef struct { // 32 elements of K of the columns; codes of 8 bits without their zero, signed
    __m256i at[8];
} code_quads;

typedef struct { // int8 scales of the two halves of a group, twice 16 bits for each column
    __m256i first, second, both;
} code_halves;

LANES_INLINE __m256i code_line(const char *at)
{
    return _mm256_load_si256((const __m256i *)(const void *)at);
}
// e2m1: the codes become twice their values plus 16.
LANES_INLINE code_quads code_unpack(const char *at, const uint32_t bits, const bool e2m1)
{
    code_quads q;
    __m256i low4 = _mm256_set1_epi8(15), low6 = _mm256_set1_epi8(63);
    for (int i = 0; bits == 4 && i < 4; i++) {
        __m256i line = code_line(at + 64 * i);
        q.at[i] = _mm256_and_si256(line, low4);
        q.at[i + 4] = _mm256_and_si256(_mm256_srli_epi16(line, 4), low4);
    }
    for (int i = 0; bits == 8 && i < 8; i++)
        q.at[i] = _mm256_xor_si256(code_line(at + 64 * i), _mm256_set1_epi8(-128));
    for (int i = 0; (bits == 5 || bits == 6) && i < 8; i += 4, at += 192) {
        __m256i a = code_line(at), b = code_line(at + 64), c = code_line(at + 128);
        q.at[i] = _mm256_and_si256(a, low6);
        q.at[i + 1] = _mm256_and_si256(b, low6);
        q.at[i + 2] = _mm256_and_si256(c, low6);
        a = _mm256_and_si256(_mm256_srli_epi16(a, 6), _mm256_set1_epi8(3));
        b = _mm256_and_si256(_mm256_srli_epi16(b, 4), _mm256_set1_epi8(12));
        c = _mm256_and_si256(_mm256_srli_epi16(c, 2), _mm256_set1_epi8(48));
        q.at[i + 3] = _mm256_or_si256(_mm256_or_si256(a, b), c);
    }
    const __m256i values = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4));
    for (int i = 0; e2m1 && i < 8; i++)
        q.at[i] = _mm256_shuffle_epi8(values, q.at[i]);
    return q;
}
LANES_INLINE __m256i code_x_quad(const struct code_x *x, int i)
{
    int32_t quad;
    __builtin_memcpy(&quad, x->q + 4 * i, sizeof quad);
    return _mm256_set1_epi32(quad);
}
// Returns 16-bit sums of `steps` quads from quad i on: as many as cannot overflow.
LANES_INLINE __m256i code_steps(const code_quads *q, const struct code_x *x, int i, const int steps)
{
    __m256i sum = _mm256_maddubs_epi16(q->at[i], code_x_quad(x, i));
    for (int j = i + 1; j < i + steps; j++)
        sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(q->at[j], code_x_quad(x, j)));
    return sum;
}
// Returns sums of (code - zero) * x.
LANES_INLINE code_ints code_dot(const code_quads *q, const struct code_x *x, const uint32_t bits,
                                const int32_t zero)
{
    __m256i ones = _mm256_set1_epi16(1);
    __m256i sum = _mm256_setzero_si256();
    if (bits == 8) {
        for (int i = 0; i < 8; i++) {
            __m256i signs = _mm256_sign_epi8(code_x_quad(x, i), q->at[i]);
            __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(q->at[i]), signs);
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, ones));
        }
        return sum;
    }
    const int steps = bits == 4 ? 8 : bits == 5 ? 4 : 2;
    for (int i = 0; i < 8; i += steps)
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(code_steps(q, x, i, steps), ones));
    if (zero == 0)
        return sum;
    __m256i offset = _mm256_slli_epi32(_mm256_set1_epi32(x->sum), zero == 8 ? 3 : 4);
    return _mm256_sub_epi32(sum, offset);
}
LANES_INLINE code_halves code_halves_of(const char *first, const char *second)
{
    __m256i low = _mm256_set1_epi32(0xFFFF);
    __m256i a = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)first));
    __m256i b = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)second));
    __m256i a_high = _mm256_slli_epi32(a, 16), b_high = _mm256_slli_epi32(b, 16);
    a = _mm256_and_si256(a, low);
    b = _mm256_and_si256(b, low);
    return (code_halves){_mm256_or_si256(a, a_high), _mm256_or_si256(b, b_high),
                         _mm256_or_si256(a, b_high)};
}
// Returns sums of (code - 32) * x of a group of Q6_K, each half multiplied by its int8 scale.
LANES_INLINE code_ints code_dot_halves(const code_quads *q, const struct code_x *x,
                                       const code_halves *s)
{
    int32_t sums;
    __builtin_memcpy(&sums, x->half, sizeof sums);
    __m256i zero = _mm256_madd_epi16(s->both, _mm256_set1_epi32(sums));
    __m256i sum = _mm256_madd_epi16(code_steps(q, x, 0, 2), s->first);
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(code_steps(q, x, 2, 2), s->first));
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(code_steps(q, x, 4, 2), s->second));
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(code_steps(q, x, 6, 2), s->second));
    return _mm256_sub_epi32(sum, _mm256_slli_epi32(zero, 5));
}

LANES_INLINE code_floats code_half_floats(const char *at)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)at));
}
LANES_INLINE code_floats code_bf16_floats(const char *at)
{
    __m128i bits = _mm_loadu_si128((const __m128i *)(const void *)at);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
LANES_INLINE code_floats code_byte_floats(const char *at) // unsigned
{
    __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)at);
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
}
LANES_INLINE code_floats code_floats_of(code_ints x)
{
    return _mm256_cvtepi32_ps(x);
}
LANES_INLINE code_floats code_load(const float *at)
{
    return _mm256_load_ps(at);
}
LANES_INLINE void code_store(float *at, code_floats x)
{
    _mm256_store_ps(at, x);
}
LANES_INLINE code_floats code_mul(code_floats a, code_floats b)
{
    return _mm256_mul_ps(a, b);
}
LANES_INLINE code_floats code_scaled(code_floats a, float b)
{
    return _mm256_mul_ps(a, _mm256_set1_ps(b));
}
LANES_INLINE code_floats code_fma(code_floats a, code_floats b, code_floats c) // a * b + c
{
    return _mm256_fmadd_ps(a, b, c);
}
LANES_INLINE code_floats code_fma_by(code_floats a, float b, code_floats c) // a * b + c
{
    return _mm256_fmadd_ps(a, _mm256_set1_ps(b), c);
}
