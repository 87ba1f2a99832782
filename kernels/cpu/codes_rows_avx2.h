// SPDX-License-Identifier: Apache-2.0
// Products of codes on AVX2 for four rows at a time: eight sums stay in registers while the codes
// of a group are unpacked pair by pair, so that a row costs fewer loads than alone. No state.
#pragma once

#include "kernels/cpu/codes_avx2.h"

enum { CODE_ROWS = 4 }; // rows that are computed together if there are as many

// The steps are asm, because gcc 12 delays the additions and spills the products.
LANES_INLINE __m256i code_broadcast(const struct code_x *x, int i)
{
    __m256i out;
    __asm__ volatile("vpbroadcastd %1, %0"
                     : "=x"(out)
                     : "m"(*(const int32_t(*)[1])(const void *)(x->q + 4 * i)));
    return out;
}
// Adds the products of a quad to 16-bit sums.
LANES_INLINE __m256i code_add4(__m256i sum, __m256i codes, __m256i x)
{
    __m256i t;
    __asm__ volatile("vpmaddubsw %3, %2, %1\n\tvpaddw %1, %0, %0"
                     : "+x"(sum), "=&x"(t)
                     : "x"(codes), "x"(x));
    return sum;
}
// Computes the sums of code_dot for CODE_ROWS rows x 16 columns of a 4-bit format.
LANES_INLINE void code_dot_rows(code_ints sum[CODE_ROWS][2], const char *at, const struct code_x *x,
                                const int32_t zero)
{
    __m256i low = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);
#pragma GCC unroll 4
    for (int r = 0; r < CODE_ROWS; r++)
        sum[r][0] = sum[r][1] = _mm256_setzero_si256();
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m256i left = code_line(at + 64 * i), right = code_line(at + 64 * i + 32);
        __m256i first[2] = {_mm256_and_si256(left, low), _mm256_and_si256(right, low)};
        __m256i second[2] = {_mm256_and_si256(_mm256_srli_epi16(left, 4), low),
                             _mm256_and_si256(_mm256_srli_epi16(right, 4), low)};
#pragma GCC unroll 4
        for (int r = 0; r < CODE_ROWS; r++) {
            __m256i x0 = code_broadcast(x + r, i);
            sum[r][0] = code_add4(sum[r][0], first[0], x0);
            sum[r][1] = code_add4(sum[r][1], first[1], x0);
            __m256i x1 = code_broadcast(x + r, i + 4);
            sum[r][0] = code_add4(sum[r][0], second[0], x1);
            sum[r][1] = code_add4(sum[r][1], second[1], x1);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < CODE_ROWS; r++) {
        __m256i offset = _mm256_slli_epi32(_mm256_set1_epi32(x[r].sum), 3);
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++) {
            sum[r][h] = _mm256_madd_epi16(sum[r][h], ones);
            if (zero > 0) // it is 8
                sum[r][h] = _mm256_sub_epi32(sum[r][h], offset);
        }
    }
}
