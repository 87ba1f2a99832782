// SPDX-License-Identifier: Apache-2.0
// Emulates AVX-512 (F, BW, DQ, VL, VNNI, BF16) by AVX2 halves, so that the ISA levels above AVX2
// run on any processor. Included before the kernels' files (tests/kernels/CMakeLists.txt) in place
// of the compiler's intrinsics. Sources: Intel's intrinsics guide, and the Software Developer's
// Manual for the bf16 instructions. Contains only what weft's kernels use; a missing intrinsic is a
// compile error. No state.
#pragma once

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define LANES_EMULATED 1 // leaves out inline assembler of the kernels

#define WIDE_INLINE static inline __attribute__((always_inline, unused))

union wide {
    __m512 floats;
    __m512i integers;
    __m256 half[2];
    __m256i half_integers[2];
    float f32[16];
    int32_t i32[16];
    uint32_t u32[16];
    uint64_t u64[8];
    uint16_t u16[32];
    uint8_t u8[64];
    int8_t i8[64];
};

#define WIDE_OF(x) ((union wide){.floats = (x)})
#define WORDS_OF(x) ((union wide){.integers = (x)})

// Defines functions whose halves are one AVX2 instruction each; whole, half: members of the union.
#define HALVES(name, type, whole, half, of_half)                                                   \
    WIDE_INLINE type name(type x, type y)                                                          \
    {                                                                                              \
        union wide a = {.whole = x}, b = {.whole = y};                                             \
        a.half[0] = of_half(a.half[0], b.half[0]);                                                 \
        a.half[1] = of_half(a.half[1], b.half[1]);                                                 \
        return a.whole;                                                                            \
    }
#define HALVES_PS(name, of_half) HALVES(name, __m512, floats, half, of_half)
#define HALVES_INTEGERS(name, of_half) HALVES(name, __m512i, integers, half_integers, of_half)
HALVES_PS(wide_add, _mm256_add_ps)
HALVES_PS(wide_sub, _mm256_sub_ps)
HALVES_PS(wide_mul, _mm256_mul_ps)
HALVES_PS(wide_div, _mm256_div_ps)
HALVES_PS(wide_max, _mm256_max_ps)
HALVES_PS(wide_min, _mm256_min_ps)
HALVES_INTEGERS(wide_add_epi32, _mm256_add_epi32)
HALVES_INTEGERS(wide_sub_epi32, _mm256_sub_epi32)
HALVES_INTEGERS(wide_sub_epi8, _mm256_sub_epi8)
HALVES_INTEGERS(wide_mullo_epi32, _mm256_mullo_epi32)
HALVES_INTEGERS(wide_madd_epi16, _mm256_madd_epi16)
HALVES_INTEGERS(wide_and, _mm256_and_si256)
HALVES_INTEGERS(wide_or, _mm256_or_si256)
HALVES_INTEGERS(wide_unpacklo_epi16, _mm256_unpacklo_epi16)
HALVES_INTEGERS(wide_unpackhi_epi16, _mm256_unpackhi_epi16)
HALVES_INTEGERS(wide_unpacklo_epi32, _mm256_unpacklo_epi32)
HALVES_INTEGERS(wide_unpackhi_epi32, _mm256_unpackhi_epi32)
HALVES_INTEGERS(wide_unpacklo_epi64, _mm256_unpacklo_epi64)
HALVES_INTEGERS(wide_unpackhi_epi64, _mm256_unpackhi_epi64)
#undef HALVES_INTEGERS
#undef HALVES_PS
#undef HALVES

WIDE_INLINE __m512 wide_fmadd(__m512 x, __m512 y, __m512 z)
{
    union wide a = WIDE_OF(x), b = WIDE_OF(y), c = WIDE_OF(z);
    c.half[0] = _mm256_fmadd_ps(a.half[0], b.half[0], c.half[0]);
    c.half[1] = _mm256_fmadd_ps(a.half[1], b.half[1], c.half[1]);
    return c.floats;
}
WIDE_INLINE __m512 wide_fmsub(__m512 x, __m512 y, __m512 z)
{
    union wide a = WIDE_OF(x), b = WIDE_OF(y), c = WIDE_OF(z);
    c.half[0] = _mm256_fmsub_ps(a.half[0], b.half[0], c.half[0]);
    c.half[1] = _mm256_fmsub_ps(a.half[1], b.half[1], c.half[1]);
    return c.floats;
}

// Loads and stores at any alignment. Bit i of a mask is element i; masked loads set the other
// elements to 0.
WIDE_INLINE __m512i wide_load(const void *p)
{
    union wide a;
    memcpy(&a, p, sizeof a);
    return a.integers;
}
WIDE_INLINE __m512 wide_load_ps(const void *p)
{
    return (union wide){.integers = wide_load(p)}.floats;
}
WIDE_INLINE void wide_store(void *p, __m512i x)
{
    memcpy(p, &x, sizeof x);
}
WIDE_INLINE void wide_store_ps(void *p, __m512 x)
{
    memcpy(p, &x, sizeof x);
}
WIDE_INLINE __m512i wide_load_masked(uint32_t mask, const void *p, size_t size)
{
    union wide a;
    memset(&a, 0, sizeof a);
    for (size_t i = 0; i < sizeof a / size; i++)
        if (mask >> i & 1)
            memcpy(a.u8 + i * size, (const char *)p + i * size, size);
    return a.integers;
}
WIDE_INLINE __m512 wide_load_masked_ps(uint32_t mask, const float *p)
{
    return (union wide){.integers = wide_load_masked(mask, p, sizeof *p)}.floats;
}
WIDE_INLINE void wide_store_masked(void *p, uint32_t mask, __m512i x, size_t size)
{
    union wide a = WORDS_OF(x);
    for (size_t i = 0; i < sizeof a / size; i++)
        if (mask >> i & 1)
            memcpy((char *)p + i * size, a.u8 + i * size, size);
}
WIDE_INLINE void wide_store_masked_ps(float *p, uint32_t mask, __m512 x)
{
    wide_store_masked(p, mask, WIDE_OF(x).integers, sizeof *p);
}

// Defines a function that computes an expression of element e for each of 16 words.
#define EACH(name, argument, field, from, expression)                                              \
    WIDE_INLINE __m512i name(argument x)                                                           \
    {                                                                                              \
        union wide a = from(x);                                                                    \
        for (int i = 0; i < 16; i++) {                                                             \
            uint32_t e = a.u32[i];                                                                 \
            a.field[i] = expression;                                                               \
        }                                                                                          \
        return a.integers;                                                                         \
    }
EACH(wide_abs_words, __m512, u32, WIDE_OF, e & 0x7FFFFFFFu)
// as bf16 instructions treat denormals: zeros with their sign
EACH(wide_flush_words, __m512, u32, WIDE_OF, (e & 0x7F800000u) == 0 ? e & 0x80000000u : e)
EACH(wide_high_words, __m512i, u32, WORDS_OF, e & 0xFFFF0000u)
EACH(wide_low_words, __m512i, u32, WORDS_OF, e << 16)
#undef EACH

WIDE_INLINE __m512 wide_abs(__m512 x)
{
    return (union wide){.integers = wide_abs_words(x)}.floats;
}
WIDE_INLINE __m512 wide_flush(__m512 x)
{
    return (union wide){.integers = wide_flush_words(x)}.floats;
}
WIDE_INLINE __m512i wide_set1_epi32(int32_t x)
{
    union wide a;
    a.half_integers[0] = a.half_integers[1] = _mm256_set1_epi32(x);
    return a.integers;
}
WIDE_INLINE __m512 wide_set1_ps(float x)
{
    union wide a;
    a.half[0] = a.half[1] = _mm256_set1_ps(x);
    return a.floats;
}
WIDE_INLINE __m512i wide_slli(__m512i x, int count)
{
    union wide a = WORDS_OF(x);
    for (int h = 0; h < 2; h++)
        a.half_integers[h] = _mm256_slli_epi32(a.half_integers[h], count);
    return a.integers;
}
WIDE_INLINE __m512i wide_srli(__m512i x, int count)
{
    union wide a = WORDS_OF(x);
    for (int h = 0; h < 2; h++)
        a.half_integers[h] = _mm256_srli_epi32(a.half_integers[h], count);
    return a.integers;
}
WIDE_INLINE __m512i wide_srai(__m512i x, int count)
{
    union wide a = WORDS_OF(x);
    for (int h = 0; h < 2; h++)
        a.half_integers[h] = _mm256_srai_epi32(a.half_integers[h], count);
    return a.integers;
}

// The bits of an immediate select quarters: two of the first argument, then two of the second.
WIDE_INLINE __m512i wide_quarters(__m512i x, __m512i y, unsigned int order)
{
    union wide a = WORDS_OF(x), b = WORDS_OF(y), out;
    for (unsigned int i = 0; i < 4; i++)
        memcpy(out.u8 + 16 * i, (i < 2 ? a.u8 : b.u8) + 16 * (order >> (2 * i) & 3), 16);
    return out.integers;
}
WIDE_INLINE __m512 wide_quarters_ps(__m512 x, __m512 y, unsigned int order)
{
    __m512i words = wide_quarters(WIDE_OF(x).integers, WIDE_OF(y).integers, order);
    return (union wide){.integers = words}.floats;
}
WIDE_INLINE __m512 wide_permute(__m512 x, unsigned int order) // permutes within each quarter
{
    union wide a = WIDE_OF(x), out;
    for (unsigned int i = 0; i < 16; i++)
        out.u32[i] = a.u32[(i & ~3u) + (order >> (2 * (i & 3)) & 3)];
    return out.floats;
}
WIDE_INLINE __m512i wide_permute2(__m512i x, __m512i order, __m512i y)
{
    union wide a = WORDS_OF(x), o = WORDS_OF(order), b = WORDS_OF(y), out;
    for (int i = 0; i < 32; i++)
        out.u16[i] = o.u16[i] & 32 ? b.u16[o.u16[i] & 31] : a.u16[o.u16[i] & 31];
    return out.integers;
}

#define wide_compare(x, y, predicate)                                                              \
    ((__mmask16)(_mm256_movemask_ps(                                                               \
                     _mm256_cmp_ps(WIDE_OF(x).half[0], WIDE_OF(y).half[0], predicate)) |           \
                 _mm256_movemask_ps(                                                               \
                     _mm256_cmp_ps(WIDE_OF(x).half[1], WIDE_OF(y).half[1], predicate))             \
                     << 8))
WIDE_INLINE __m512 wide_blend(uint32_t mask, __m512 clear, __m512 set)
{
    union wide a = WIDE_OF(clear), b = WIDE_OF(set);
    for (int i = 0; i < 16; i++)
        a.u32[i] = mask >> i & 1 ? b.u32[i] : a.u32[i];
    return a.floats;
}
WIDE_INLINE __m512i wide_or_masked(__m512i old, uint32_t mask, __m512i x, __m512i y)
{
    union wide a = WORDS_OF(wide_or(x, y)), out = WORDS_OF(old);
    return (union wide){.floats = wide_blend(mask, out.floats, a.floats)}.integers;
}
WIDE_INLINE float wide_reduce_max(__m512 x)
{
    union wide a = WIDE_OF(x);
    __m256 h = _mm256_max_ps(a.half[0], a.half[1]);
    __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(q, _mm_shuffle_ps(q, q, 1)));
}
#define wide_round(x, how)                                                                         \
    ((union wide){.half = {_mm256_round_ps(WIDE_OF(x).half[0], how),                               \
                           _mm256_round_ps(WIDE_OF(x).half[1], how)}}                              \
         .floats)
WIDE_INLINE __m512 wide_scalef(uint32_t mask, __m512 x, __m512 n) // x 2^floor(n)
{
    union wide a = WIDE_OF(x), b = WIDE_OF(n);
    for (int i = 0; i < 16; i++)
        a.f32[i] = mask >> i & 1 ? ldexpf(a.f32[i], (int)floorf(b.f32[i])) : 0;
    return a.floats;
}

WIDE_INLINE __m512i wide_to_words(__m512 x) // rounds to nearest even
{
    union wide a = WIDE_OF(x);
    for (int h = 0; h < 2; h++)
        a.half_integers[h] = _mm256_cvtps_epi32(a.half[h]);
    return a.integers;
}
WIDE_INLINE __m512 wide_from_words(__m512i x)
{
    union wide a = WORDS_OF(x);
    for (int h = 0; h < 2; h++)
        a.half[h] = _mm256_cvtepi32_ps(a.half_integers[h]);
    return a.floats;
}
WIDE_INLINE __m512i wide_shuffle8(__m512i x, __m512i index)
{
    union wide a = WORDS_OF(x), b = WORDS_OF(index);
    for (int h = 0; h < 2; h++)
        a.half_integers[h] = _mm256_shuffle_epi8(a.half_integers[h], b.half_integers[h]);
    return a.integers;
}
WIDE_INLINE __m512i wide_from_u16(__m256i x)
{
    union wide a;
    a.half_integers[0] = _mm256_cvtepu16_epi32(_mm256_castsi256_si128(x));
    a.half_integers[1] = _mm256_cvtepu16_epi32(_mm256_extracti128_si256(x, 1));
    return a.integers;
}
WIDE_INLINE __m512i wide_from_u8(__m128i x)
{
    union wide a;
    a.half_integers[0] = _mm256_cvtepu8_epi32(x);
    a.half_integers[1] = _mm256_cvtepu8_epi32(_mm_srli_si128(x, 8));
    return a.integers;
}
WIDE_INLINE __m512i wide_from_i8(__m128i x)
{
    union wide a;
    a.half_integers[0] = _mm256_cvtepi8_epi32(x);
    a.half_integers[1] = _mm256_cvtepi8_epi32(_mm_srli_si128(x, 8));
    return a.integers;
}
WIDE_INLINE __m512 wide_from_f16(__m256i x)
{
    union wide a;
    a.half[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(x));
    a.half[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(x, 1));
    return a.floats;
}
#define wide_to_f16(x, how)                                                                        \
    _mm256_set_m128i(_mm256_cvtps_ph(WIDE_OF(x).half[1], how),                                     \
                     _mm256_cvtps_ph(WIDE_OF(x).half[0], how))
WIDE_INLINE __m256i wide_cut_to_16(__m512i x)
{
    union wide a = WORDS_OF(x), out = a;
    for (int i = 0; i < 16; i++)
        out.u16[i] = (uint16_t)a.u32[i];
    return out.half_integers[0];
}
WIDE_INLINE __m128i wide_saturate_to_8(__m512i x)
{
    union wide a = WORDS_OF(x), out = a;
    for (int i = 0; i < 16; i++)
        out.i8[i] = (int8_t)(a.i32[i] > 127 ? 127 : a.i32[i] < -128 ? -128 : a.i32[i]);
    return _mm256_castsi256_si128(out.half_integers[0]);
}

// Converts each word to bf16: rounds to nearest even, denormals become zeros, a NaN becomes a quiet
// NaN.
WIDE_INLINE __m256i wide_to_bf16(__m512 x)
{
    union wide a = WORDS_OF(wide_flush_words(x)), out = a;
    for (int i = 0; i < 16; i++) {
        uint32_t e = a.u32[i];
        uint32_t near = (e + 0x7FFF + (e >> 16 & 1)) >> 16;
        out.u16[i] = (uint16_t)((e & 0x7FFFFFFFu) > 0x7F800000u ? e >> 16 | 0x40 : near);
    }
    return out.half_integers[0];
}
WIDE_INLINE __m512i wide_to_pairs(__m512 high, __m512 low)
{
    return (union wide){.half_integers = {wide_to_bf16(low), wide_to_bf16(high)}}.integers;
}
WIDE_INLINE __m512 wide_bf16_step(__m512 sum, __m512i x, __m512i y)
{
    return wide_flush(wide_fmadd(wide_flush(WORDS_OF(x).floats), wide_flush(WORDS_OF(y).floats),
                                 wide_flush(sum)));
}
WIDE_INLINE __m512 wide_dot_bf16(__m512 sum, __m512i x,
                                 __m512i y) // adds the second product of each pair first
{
    sum = wide_bf16_step(sum, wide_high_words(x), wide_high_words(y));
    return wide_bf16_step(sum, wide_low_words(x), wide_low_words(y));
}
WIDE_INLINE __m512i wide_dot_bytes(__m512i sum, __m512i x, __m512i y) // bytes of x are unsigned
{
    union wide s = WORDS_OF(sum), a = WORDS_OF(x), b = WORDS_OF(y);
    for (int i = 0; i < 64; i++)
        s.u32[i / 4] += (uint32_t)(a.u8[i] * b.i8[i]);
    return s.integers;
}

#undef _mm512_cmp_ps_mask
#undef _mm512_cvtps_ph
#undef _mm512_extractf32x8_ps
#undef _mm512_permute_ps
#undef _mm512_roundscale_ps
#undef _mm512_shuffle_f32x4
#undef _mm512_shuffle_i32x4
#undef _mm512_slli_epi32
#undef _mm512_srai_epi32
#undef _mm512_srli_epi32
#define _mm512_abs_ps wide_abs
#define _mm512_add_epi32 wide_add_epi32
#define _mm512_add_ps wide_add
#define _mm512_and_si512 wide_and
#define _mm512_castps512_ps256(x) (WIDE_OF(x).half[0])
#define _mm512_castps_si512(x) (WIDE_OF(x).integers)
#define _mm512_castsi512_ps(x) (WORDS_OF(x).floats)
#define _mm512_cmp_ps_mask wide_compare
#define _mm512_cvtepi32_epi16 wide_cut_to_16
#define _mm512_cvtepi32_ps wide_from_words
#define _mm512_cvtepi8_epi32 wide_from_i8
#define _mm512_cvtepu16_epi32 wide_from_u16
#define _mm512_cvtepu8_epi32 wide_from_u8
#define _mm512_cvtne2ps_pbh wide_to_pairs
#define _mm512_cvtneps_pbh wide_to_bf16
#define _mm512_cvtph_ps wide_from_f16
#define _mm512_cvtps_epi32 wide_to_words
#define _mm512_cvtps_ph wide_to_f16
#define _mm512_cvtsepi32_epi8 wide_saturate_to_8
#define _mm512_div_ps wide_div
#define _mm512_dpbf16_ps(sum, x, y) wide_dot_bf16(sum, (__m512i)(x), (__m512i)(y))
#define _mm512_dpbusd_epi32 wide_dot_bytes
#define _mm512_extractf32x8_ps(x, which) (WIDE_OF(x).half[which])
#define _mm512_fmadd_ps wide_fmadd
#define _mm512_fmsub_ps wide_fmsub
#define _mm512_load_ps wide_load_ps
#define _mm512_load_si512 wide_load
#define _mm512_loadu_ps wide_load_ps
#define _mm512_loadu_si512 wide_load
#define _mm512_madd_epi16 wide_madd_epi16
#define _mm512_mask_blend_ps wide_blend
#define _mm512_mask_or_epi32 wide_or_masked
#define _mm512_mask_storeu_epi16(p, mask, x) wide_store_masked(p, mask, x, 2)
#define _mm512_mask_storeu_epi32(p, mask, x) wide_store_masked(p, mask, x, 4)
#define _mm512_mask_storeu_ps wide_store_masked_ps
#define _mm512_maskz_loadu_epi16(mask, p) wide_load_masked(mask, p, 2)
#define _mm512_maskz_loadu_ps wide_load_masked_ps
#define _mm512_maskz_scalef_ps wide_scalef
#define _mm512_max_ps wide_max
#define _mm512_min_ps wide_min
#define _mm512_mul_ps wide_mul
#define _mm512_mullo_epi32 wide_mullo_epi32
#define _mm512_or_si512 wide_or
#define _mm512_permute_ps wide_permute
#define _mm512_permutex2var_epi16 wide_permute2
#define _mm512_reduce_max_ps wide_reduce_max
#define _mm512_roundscale_ps wide_round
#define _mm512_set1_epi32 wide_set1_epi32
#define _mm512_set1_ps wide_set1_ps
#define _mm512_setzero_ps() wide_set1_ps(0)
#define _mm512_setzero_si512() wide_set1_epi32(0)
#define _mm512_shuffle_epi8 wide_shuffle8
#define _mm512_shuffle_f32x4 wide_quarters_ps
#define _mm512_shuffle_i32x4 wide_quarters
#define _mm512_slli_epi32 wide_slli
#define _mm512_srai_epi32 wide_srai
#define _mm512_srli_epi32 wide_srli
#define _mm512_store_ps wide_store_ps
#define _mm512_store_si512 wide_store
#define _mm512_storeu_ps wide_store_ps
#define _mm512_sub_epi32 wide_sub_epi32
#define _mm512_sub_epi8 wide_sub_epi8
#define _mm512_sub_ps wide_sub
#define _mm512_unpackhi_epi16 wide_unpackhi_epi16
#define _mm512_unpackhi_epi32 wide_unpackhi_epi32
#define _mm512_unpackhi_epi64 wide_unpackhi_epi64
#define _mm512_unpacklo_epi16 wide_unpacklo_epi16
#define _mm512_unpacklo_epi32 wide_unpacklo_epi32
#define _mm512_unpacklo_epi64 wide_unpacklo_epi64
