// SPDX-License-Identifier: Apache-2.0
// Sixteen floats at once, on AVX-512 (F, BW, DQ, VL, VNNI). The three lanes_*.h files define the
// same functions; the .inc files use them and are compiled once with each. No state.
#pragma once

#include <immintrin.h>
#include <stdint.h>

enum { LANES_MR = 12 };  // rows of a product's register tile, 2 x 16 columns each
enum { LANES_KEYS = 8 }; // keys of an attention register tile

typedef __m512 lanes;

#define LANES_INLINE static inline __attribute__((always_inline, unused))

LANES_INLINE lanes lanes_set(float x)
{
    return _mm512_set1_ps(x);
}
LANES_INLINE lanes lanes_zero(void)
{
    return _mm512_setzero_ps();
}
LANES_INLINE lanes lanes_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
LANES_INLINE lanes lanes_load_n(const float *p, uint32_t n) // other lanes are 0
{
    return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
}
LANES_INLINE void lanes_store(float *p, lanes x)
{
    _mm512_storeu_ps(p, x);
}
LANES_INLINE void lanes_store_n(float *p, lanes x, uint32_t n)
{
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), x);
}
LANES_INLINE lanes lanes_add(lanes a, lanes b)
{
    return _mm512_add_ps(a, b);
}
LANES_INLINE lanes lanes_sub(lanes a, lanes b)
{
    return _mm512_sub_ps(a, b);
}
LANES_INLINE lanes lanes_mul(lanes a, lanes b)
{
    return _mm512_mul_ps(a, b);
}
LANES_INLINE lanes lanes_div(lanes a, lanes b)
{
    return _mm512_div_ps(a, b);
}
LANES_INLINE lanes lanes_fma(lanes a, lanes b, lanes c) // a * b + c
{
    return _mm512_fmadd_ps(a, b, c);
}
LANES_INLINE lanes lanes_max(lanes a, lanes b)
{
    return _mm512_max_ps(a, b);
}
LANES_INLINE lanes lanes_min(lanes a, lanes b)
{
    return _mm512_min_ps(a, b);
}
LANES_INLINE lanes lanes_abs(lanes a)
{
    return _mm512_abs_ps(a);
}
// Returns a < b ? x : y in each lane; y if a or b is a NaN.
LANES_INLINE lanes lanes_if_less(lanes a, lanes b, lanes x, lanes y)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}
LANES_INLINE uint32_t lanes_mask_ge(lanes a, lanes b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ);
}
LANES_INLINE lanes lanes_if_bit(uint32_t bits, lanes x, lanes y)
{
    return _mm512_mask_blend_ps((__mmask16)bits, y, x);
}
// Adds the lanes in a fixed tree: 16 -> 8 -> 4 -> 2 -> 1.
LANES_INLINE float lanes_sum(lanes a)
{
    __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    q = _mm_add_ss(q, _mm_shuffle_ps(q, q, 1));
    return _mm_cvtss_f32(q);
}
LANES_INLINE float lanes_top(lanes a)
{
    return _mm512_reduce_max_ps(a);
}
LANES_INLINE lanes lanes_round(lanes a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// Returns 2^n for integers n in [-126, 127].
LANES_INLINE lanes lanes_exp2i(lanes n)
{
    __m512i bits =
        _mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)), 23);
    return _mm512_castsi512_ps(bits);
}
// Splits x = m 2^e with m in [0.7071, 1.4142), for positive normal x.
LANES_INLINE void lanes_split(lanes x, lanes *m, lanes *e)
{
    __m512i bits = _mm512_castps_si512(x);
    __m512i moved = _mm512_sub_epi32(bits, _mm512_set1_epi32(0x3F3504F3));
    __m512i exponent = _mm512_srai_epi32(moved, 23);
    *e = _mm512_cvtepi32_ps(exponent);
    *m = _mm512_castsi512_ps(_mm512_sub_epi32(bits, _mm512_slli_epi32(exponent, 23)));
}
LANES_INLINE lanes lanes_from_bf16(const uint16_t *p)
{
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
LANES_INLINE lanes lanes_from_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
// The first elements, the second elements of 16 pairs of bf16.
LANES_INLINE lanes lanes_pairs_first(const uint16_t *p)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16));
}
LANES_INLINE lanes lanes_pairs_second(const uint16_t *p)
{
    __m512i upper = _mm512_set1_epi32((int)0xFFFF0000u);
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(p), upper));
}
LANES_INLINE void lanes_to_bf16(uint16_t *p, lanes x)
{
    __m512i bits = _mm512_castps_si512(x);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
    __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    up = _mm512_mask_or_epi32(up, nan, bits, _mm512_set1_epi32(0x400000));
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16)));
}
LANES_INLINE void lanes_to_f16(uint16_t *p, lanes x)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

// Moves lane i ^ d to lane i; d is 1, 2, 4 or 8.
LANES_INLINE lanes lanes_swap(lanes a, const uint32_t d)
{
    if (d == 1)
        return _mm512_permute_ps(a, 0xB1);
    if (d == 2)
        return _mm512_permute_ps(a, 0x4E);
    return d == 4 ? _mm512_shuffle_f32x4(a, a, 0xB1) : _mm512_shuffle_f32x4(a, a, 0x4E);
}
LANES_INLINE void lanes_to_i8(int8_t *p, lanes x)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(x)));
}
