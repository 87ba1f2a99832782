// SPDX-License-Identifier: Apache-2.0
// Products of codes on AVX-512 VNNI: sixteen columns at a time; see codes_avx2.h.
#pragma once

#include "kernels/cpu/codes.h"

enum { CODE_COLUMNS = 16 };
enum { CODE_ROWS = 1 }; // code_dot_rows is not used

typedef __m512 code_floats;
typedef __m512i code_ints;

typedef struct { // 32 elements of K of the columns, unsigned
    __m512i at[8];
} code_quads;

typedef struct { // int8 scales of the two halves of a group; both: 16 bits each
    __m512i first, second, both;
} code_halves;

// e2m1: the codes become twice their values plus 16.
LANES_INLINE code_quads code_unpack(const char *at, const uint32_t bits, const bool e2m1)
{
    code_quads q;
    __m512i low4 = _mm512_set1_epi32(0x0F0F0F0F), low6 = _mm512_set1_epi32(0x3F3F3F3F);
    for (int i = 0; bits == 4 && i < 4; i++) {
        __m512i line = _mm512_load_si512(at + 64 * i);
        q.at[i] = _mm512_and_si512(line, low4);
        q.at[i + 4] = _mm512_and_si512(_mm512_srli_epi32(line, 4), low4);
    }
    for (int i = 0; bits == 8 && i < 8; i++)
        q.at[i] = _mm512_load_si512(at + 64 * i);
    for (int i = 0; (bits == 5 || bits == 6) && i < 8; i += 4, at += 192) {
        __m512i a = _mm512_load_si512(at), b = _mm512_load_si512(at + 64);
        __m512i c = _mm512_load_si512(at + 128);
        q.at[i] = _mm512_and_si512(a, low6);
        q.at[i + 1] = _mm512_and_si512(b, low6);
        q.at[i + 2] = _mm512_and_si512(c, low6);
        a = _mm512_and_si512(_mm512_srli_epi32(a, 6), _mm512_set1_epi32(0x03030303));
        b = _mm512_and_si512(_mm512_srli_epi32(b, 4), _mm512_set1_epi32(0x0C0C0C0C));
        c = _mm512_and_si512(_mm512_srli_epi32(c, 2), _mm512_set1_epi32(0x30303030));
        q.at[i + 3] = _mm512_or_si512(_mm512_or_si512(a, b), c);
    }
    static const uint8_t table[64] = {16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4,
                                      16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4,
                                      16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4,
                                      16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4};
    const __m512i values = _mm512_loadu_si512(table);
    for (int i = 0; e2m1 && i < 8; i++)
        q.at[i] = _mm512_shuffle_epi8(values, q.at[i]);
    return q;
}
LANES_INLINE __m512i code_step(__m512i sum, __m512i q, const int8_t *x)
{
#ifdef LANES_EMULATED // tests/kernels/lanes512.h
    int32_t quad;
    __builtin_memcpy(&quad, x, sizeof quad);
    return _mm512_dpbusd_epi32(sum, q, _mm512_set1_epi32(quad));
#else
    // asm, because gcc 12 copies every sum of the intrinsic twice
    __asm__("vpdpbusd %2%{1to16%}, %1, %0"
            : "+v"(sum)
            : "v"(q), "m"(*(const int32_t(*)[1])(const void *)x));
    return sum;
#endif
}
// Returns sums of (code - zero) * x.
LANES_INLINE code_ints code_dot(const code_quads *q, const struct code_x *x, const uint32_t bits,
                                const int32_t zero)
{
    (void)bits;
    __m512i sum = _mm512_setzero_si512();
    if (zero > 0)
        sum = _mm512_sub_epi32(sum, _mm512_slli_epi32(_mm512_set1_epi32(x->sum), zero == 8    ? 3
                                                                                 : zero == 16 ? 4
                                                                                              : 7));
    for (int i = 0; i < 8; i++)
        sum = code_step(sum, q->at[i], x->q + 4 * i);
    return sum;
}
LANES_INLINE code_halves code_halves_of(const char *first, const char *second)
{
    __m512i a = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)first));
    __m512i b = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)second));
    __m512i low = _mm512_and_si512(a, _mm512_set1_epi32(0xFFFF));
    return (code_halves){a, b, _mm512_or_si512(low, _mm512_slli_epi32(b, 16))};
}
// Returns sums of (code - 32) * x of a group of Q6_K, each half multiplied by its int8 scale.
LANES_INLINE code_ints code_dot_halves(const code_quads *q, const struct code_x *x,
                                       const code_halves *s)
{
    int32_t sums;
    __builtin_memcpy(&sums, x->half, sizeof sums);
    __m512i zero = _mm512_madd_epi16(s->both, _mm512_set1_epi32(sums));
    __m512i first = _mm512_setzero_si512(), second = first;
    for (int i = 0; i < 4; i++) {
        first = code_step(first, q->at[i], x->q + 4 * i);
        second = code_step(second, q->at[i + 4], x->q + 4 * i + 16);
    }
    first = _mm512_mullo_epi32(first, s->first);
    second = _mm512_mullo_epi32(second, s->second);
    return _mm512_sub_epi32(_mm512_add_epi32(first, second), _mm512_slli_epi32(zero, 5));
}
LANES_INLINE void code_dot_rows(code_ints sum[CODE_ROWS][2], const char *at, const struct code_x *x,
                                const int32_t zero)
{
    (void)sum, (void)at, (void)x, (void)zero;
}

LANES_INLINE code_floats code_half_floats(const char *at)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)at));
}
LANES_INLINE code_floats code_bf16_floats(const char *at)
{
    __m256i bits = _mm256_loadu_si256((const __m256i *)(const void *)at);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
LANES_INLINE code_floats code_byte_floats(const char *at) // unsigned
{
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
}
LANES_INLINE code_floats code_floats_of(code_ints x)
{
    return _mm512_cvtepi32_ps(x);
}
LANES_INLINE code_floats code_load(const float *at)
{
    return _mm512_load_ps(at);
}
LANES_INLINE void code_store(float *at, code_floats x)
{
    _mm512_store_ps(at, x);
}
LANES_INLINE code_floats code_mul(code_floats a, code_floats b)
{
    return _mm512_mul_ps(a, b);
}
LANES_INLINE code_floats code_scaled(code_floats a, float b)
{
    return _mm512_mul_ps(a, _mm512_set1_ps(b));
}
LANES_INLINE code_floats code_fma(code_floats a, code_floats b, code_floats c) // a * b + c
{
    return _mm512_fmadd_ps(a, b, c);
}
LANES_INLINE code_floats code_fma_by(code_floats a, float b, code_floats c) // a * b + c
{
    return _mm512_fmadd_ps(a, _mm512_set1_ps(b), c);
}
