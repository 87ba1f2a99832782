// SPDX-License-Identifier: Apache-2.0
// Sixteen floats at once, on AVX2 with FMA and F16C; see lanes_avx512.h.
#pragma once

#include <immintrin.h>
#include <stdint.h>

enum { LANES_MR = 2 };
enum { LANES_KEYS = 4 };

struct lanes {
    __m256 lo, hi;
};
typedef struct lanes lanes;

#define LANES_INLINE static inline __attribute__((always_inline, unused))

LANES_INLINE lanes lanes_set(float x)
{
    return (lanes){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
LANES_INLINE lanes lanes_zero(void)
{
    return (lanes){_mm256_setzero_ps(), _mm256_setzero_ps()};
}
LANES_INLINE lanes lanes_load(const float *p)
{
    return (lanes){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
LANES_INLINE lanes lanes_load_n(const float *p, uint32_t n) // other lanes are 0
{
    float padded[16] = {0};
    __builtin_memcpy(padded, p, n * sizeof(float));
    return lanes_load(padded);
}
LANES_INLINE void lanes_store(float *p, lanes x)
{
    _mm256_storeu_ps(p, x.lo);
    _mm256_storeu_ps(p + 8, x.hi);
}
LANES_INLINE void lanes_store_n(float *p, lanes x, uint32_t n)
{
    float padded[16];
    lanes_store(padded, x);
    __builtin_memcpy(p, padded, n * sizeof(float));
}
LANES_INLINE lanes lanes_add(lanes a, lanes b)
{
    return (lanes){_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
LANES_INLINE lanes lanes_sub(lanes a, lanes b)
{
    return (lanes){_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
LANES_INLINE lanes lanes_mul(lanes a, lanes b)
{
    return (lanes){_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
LANES_INLINE lanes lanes_div(lanes a, lanes b)
{
    return (lanes){_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
LANES_INLINE lanes lanes_max(lanes a, lanes b)
{
    return (lanes){_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
LANES_INLINE lanes lanes_min(lanes a, lanes b)
{
    return (lanes){_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
LANES_INLINE lanes lanes_fma(lanes a, lanes b, lanes c)
{
    return (lanes){_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
LANES_INLINE lanes lanes_abs(lanes a)
{
    __m256 sign = _mm256_set1_ps(-0.0f);
    return (lanes){_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}
LANES_INLINE lanes lanes_if_less(lanes a, lanes b, lanes x, lanes y)
{
    __m256 lo = _mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ);
    __m256 hi = _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ);
    return (lanes){_mm256_blendv_ps(y.lo, x.lo, lo), _mm256_blendv_ps(y.hi, x.hi, hi)};
}
LANES_INLINE uint32_t lanes_mask_ge(lanes a, lanes b)
{
    int lo = _mm256_movemask_ps(_mm256_cmp_ps(a.lo, b.lo, _CMP_GE_OQ));
    int hi = _mm256_movemask_ps(_mm256_cmp_ps(a.hi, b.hi, _CMP_GE_OQ));
    return (uint32_t)lo | (uint32_t)hi << 8;
}
LANES_INLINE lanes lanes_if_bit(uint32_t bits, lanes x, lanes y)
{
    __m256i place = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    __m256i lo = _mm256_and_si256(_mm256_set1_epi32((int)bits), place);
    __m256i hi = _mm256_and_si256(_mm256_set1_epi32((int)(bits >> 8)), place);
    __m256 lo_on = _mm256_castsi256_ps(_mm256_cmpeq_epi32(lo, place));
    __m256 hi_on = _mm256_castsi256_ps(_mm256_cmpeq_epi32(hi, place));
    return (lanes){_mm256_blendv_ps(y.lo, x.lo, lo_on), _mm256_blendv_ps(y.hi, x.hi, hi_on)};
}
LANES_INLINE float lanes_sum(lanes a)
{
    __m256 h = _mm256_add_ps(a.lo, a.hi);
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    q = _mm_add_ss(q, _mm_shuffle_ps(q, q, 1));
    return _mm_cvtss_f32(q);
}
LANES_INLINE float lanes_top(lanes a)
{
    __m256 h = _mm256_max_ps(a.lo, a.hi);
    __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    q = _mm_max_ss(q, _mm_shuffle_ps(q, q, 1));
    return _mm_cvtss_f32(q);
}
LANES_INLINE lanes lanes_round(lanes a)
{
    return (lanes){_mm256_round_ps(a.lo, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
                   _mm256_round_ps(a.hi, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
LANES_INLINE __m256 half_exp2i(__m256 n)
{
    __m256i bits = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(bits, 23));
}
LANES_INLINE lanes lanes_exp2i(lanes n)
{
    return (lanes){half_exp2i(n.lo), half_exp2i(n.hi)};
}
LANES_INLINE void half_split(__m256 x, __m256 *m, __m256 *e)
{
    __m256i bits = _mm256_castps_si256(x);
    __m256i moved = _mm256_sub_epi32(bits, _mm256_set1_epi32(0x3F3504F3));
    __m256i exponent = _mm256_srai_epi32(moved, 23);
    *e = _mm256_cvtepi32_ps(exponent);
    *m = _mm256_castsi256_ps(_mm256_sub_epi32(bits, _mm256_slli_epi32(exponent, 23)));
}
LANES_INLINE void lanes_split(lanes x, lanes *m, lanes *e)
{
    half_split(x.lo, &m->lo, &e->lo);
    half_split(x.hi, &m->hi, &e->hi);
}
LANES_INLINE __m256 half_from_bf16(const uint16_t *p)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
LANES_INLINE lanes lanes_from_bf16(const uint16_t *p)
{
    return (lanes){half_from_bf16(p), half_from_bf16(p + 8)};
}
LANES_INLINE lanes lanes_from_f16(const uint16_t *p)
{
    return (lanes){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
                   _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 8)))};
}
LANES_INLINE lanes lanes_pairs_first(const uint16_t *p)
{
    __m256i lo = _mm256_loadu_si256((const __m256i *)p);
    __m256i hi = _mm256_loadu_si256((const __m256i *)(p + 16));
    return (lanes){_mm256_castsi256_ps(_mm256_slli_epi32(lo, 16)),
                   _mm256_castsi256_ps(_mm256_slli_epi32(hi, 16))};
}
LANES_INLINE lanes lanes_pairs_second(const uint16_t *p)
{
    __m256 upper = _mm256_castsi256_ps(_mm256_set1_epi32((int)0xFFFF0000u));
    return (lanes){_mm256_and_ps(_mm256_loadu_ps((const float *)(const void *)p), upper),
                   _mm256_and_ps(_mm256_loadu_ps((const float *)(const void *)(p + 16)), upper)};
}
LANES_INLINE __m128i half_to_bf16(__m256 x)
{
    __m256i bits = _mm256_castps_si256(x);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i up = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
    __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    __m256 nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
    up = _mm256_blendv_epi8(up, quiet, _mm256_castps_si256(nan));
    up = _mm256_srli_epi32(up, 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(up), _mm256_extracti128_si256(up, 1));
}
LANES_INLINE void lanes_to_bf16(uint16_t *p, lanes x)
{
    _mm_storeu_si128((__m128i *)p, half_to_bf16(x.lo));
    _mm_storeu_si128((__m128i *)(p + 8), half_to_bf16(x.hi));
}
LANES_INLINE void lanes_to_f16(uint16_t *p, lanes x)
{
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(x.lo, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((__m128i *)(p + 8), _mm256_cvtps_ph(x.hi, _MM_FROUND_TO_NEAREST_INT));
}

LANES_INLINE lanes lanes_swap(lanes a, const uint32_t d)
{
    if (d == 1)
        return (lanes){_mm256_permute_ps(a.lo, 0xB1), _mm256_permute_ps(a.hi, 0xB1)};
    if (d == 2)
        return (lanes){_mm256_permute_ps(a.lo, 0x4E), _mm256_permute_ps(a.hi, 0x4E)};
    if (d == 4)
        return (lanes){_mm256_permute2f128_ps(a.lo, a.lo, 1),
                       _mm256_permute2f128_ps(a.hi, a.hi, 1)};
    return (lanes){a.hi, a.lo};
}

// Products of bytes, widened to 16 bits. Each column has two partial sums until lanes_i8_end.
// Weights are unsigned (BYTE_ZERO), activations signed.
struct lanes_i8 {
    __m256i four[4]; // columns 4i .. 4i+3, two partial sums each
};
typedef struct lanes_i8 lanes_i8;

LANES_INLINE lanes_i8 lanes_i8_zero(void)
{
    __m256i zero = _mm256_setzero_si256();
    return (lanes_i8){{zero, zero, zero, zero}};
}
LANES_INLINE lanes_i8 lanes_i8_dot(lanes_i8 sum, const uint8_t *w, const int8_t *x)
{
    int32_t bytes;
    __builtin_memcpy(&bytes, x, 4);
    __m256i a = _mm256_cvtepi8_epi16(_mm_set1_epi32(bytes));
    for (int i = 0; i < 4; i++) {
        __m256i b = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(w + 16 * i)));
        sum.four[i] = _mm256_add_epi32(sum.four[i], _mm256_madd_epi16(a, b));
    }
    return sum;
}
LANES_INLINE __m256 half_i8_end(__m256i first, __m256i second, __m256i offset)
{
    // columns 0 1 4 5 2 3 6 7 after the horizontal sum
    __m256i pairs = _mm256_hadd_epi32(first, second);
    pairs = _mm256_permute4x64_epi64(pairs, 0xD8);
    return _mm256_cvtepi32_ps(_mm256_add_epi32(pairs, offset));
}
LANES_INLINE lanes lanes_i8_end(lanes_i8 sum, int32_t offset)
{
    __m256i added = _mm256_set1_epi32(offset);
    return (lanes){half_i8_end(sum.four[0], sum.four[1], added),
                   half_i8_end(sum.four[2], sum.four[3], added)};
}
LANES_INLINE __m128i half_to_i16(__m256 x)
{
    __m256i whole = _mm256_cvtps_epi32(x);
    return _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
}
LANES_INLINE void lanes_to_i8(int8_t *p, lanes x)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm_packs_epi16(half_to_i16(x.lo), half_to_i16(x.hi)));
}
