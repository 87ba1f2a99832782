// SPDX-License-Identifier: Apache-2.0
// Products of codes on AVX2 for four rows at a time: eight sums stay in registers while the codes
// of a group are unpacked pair by pair, so that a row costs fewer loads than alone. No state.
#pragma once

#include "kernels/cpu/codes_avx2.h"

enum { CODE_ROWS = 4 }; // rows that are computed together if there are as many

// Two quads of all sixteen columns, [quad][half of the columns].
typedef struct {
    __m256i at[2][2];
    int quad[2]; // their indices in a group
} code_pair;

// Unpacks pair `p` of a group's four pairs of quads.
LANES_INLINE code_pair code_unpack_pair(const char *at, const uint32_t bits, const int p)
{
    code_pair out = {.quad = {bits == 4 ? p : 2 * p, bits == 4 ? p + 4 : 2 * p + 1}};
    __m256i low4 = _mm256_set1_epi8(15), low6 = _mm256_set1_epi8(63);
    for (int h = 0; h < 2; h++) {
        const char *line = at + 32 * h;
        if (bits == 4) {
            __m256i both = code_line(line + 64 * p);
            out.at[0][h] = _mm256_and_si256(both, low4);
            out.at[1][h] = _mm256_and_si256(_mm256_srli_epi16(both, 4), low4);
        } else if (bits == 8) {
            __m256i flip = _mm256_set1_epi8(-128);
            out.at[0][h] = _mm256_xor_si256(code_line(line + 128 * p), flip);
            out.at[1][h] = _mm256_xor_si256(code_line(line + 128 * p + 64), flip);
        } else if (p % 2 == 0) {
            line += p / 2 * 192;
            out.at[0][h] = _mm256_and_si256(code_line(line), low6);
            out.at[1][h] = _mm256_and_si256(code_line(line + 64), low6);
        } else {
            line += p / 2 * 192;
            __m256i a = code_line(line), b = code_line(line + 64), c = code_line(line + 128);
            out.at[0][h] = _mm256_and_si256(c, low6);
            a = _mm256_and_si256(_mm256_srli_epi16(a, 6), _mm256_set1_epi8(3));
            b = _mm256_and_si256(_mm256_srli_epi16(b, 4), _mm256_set1_epi8(12));
            c = _mm256_and_si256(_mm256_srli_epi16(c, 2), _mm256_set1_epi8(48));
            out.at[1][h] = _mm256_or_si256(_mm256_or_si256(a, b), c);
        }
    }
    return out;
}
// The steps of code_dot_rows are asm, because gcc 12 delays the additions and spills the products.
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
// Adds the products of two quads, times a factor of 16 bits, to 32-bit sums.
LANES_INLINE __m256i code_add6(__m256i sum, const __m256i codes[2], const __m256i x[2],
                               const __m256i *factor)
{
    __m256i t, u;
    __asm__ volatile("vpmaddubsw %5, %3, %1\n\tvpmaddubsw %6, %4, %2\n\t"
                     "vpaddw %1, %2, %1\n\tvpmaddwd %7, %1, %1\n\tvpaddd %1, %0, %0"
                     : "+x"(sum), "=&x"(t), "=&x"(u)
                     : "x"(codes[0]), "x"(codes[1]), "x"(x[0]), "x"(x[1]), "m"(*factor));
    return sum;
}
// Adds the products of a quad of signed codes to 32-bit sums.
LANES_INLINE __m256i code_add8(__m256i sum, __m256i codes, __m256i x, const __m256i *ones)
{
    __m256i t, u;
    __asm__ volatile("vpsignb %3, %4, %1\n\tvpabsb %3, %2\n\tvpmaddubsw %1, %2, %1\n\t"
                     "vpmaddwd %5, %1, %1\n\tvpaddd %1, %0, %0"
                     : "+x"(sum), "=&x"(t), "=&x"(u)
                     : "x"(codes), "x"(x), "m"(*ones));
    return sum;
}
// Computes sums of CODE_ROWS rows x 16 columns, as code_dot (s is NULL) or code_dot_halves, whose
// scales are s[half of the columns].
LANES_INLINE void code_dot_rows(code_ints sum[CODE_ROWS][2], const char *at, const struct code_x *x,
                                const uint32_t bits, const int32_t zero, const code_halves *s)
{
    __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 4
    for (int r = 0; r < CODE_ROWS; r++)
        sum[r][0] = sum[r][1] = _mm256_setzero_si256();
#pragma GCC unroll 4
    for (int p = 0; p < 4; p++) {
        code_pair pair = code_unpack_pair(at, bits, p);
#pragma GCC unroll 4
        for (int r = 0; r < CODE_ROWS; r++) {
            __m256i quad[2] = {code_broadcast(x + r, pair.quad[0]),
                               code_broadcast(x + r, pair.quad[1])};
#pragma GCC unroll 2
            for (int h = 0; h < 2; h++) {
                const __m256i codes[2] = {pair.at[0][h], pair.at[1][h]};
                const __m256i *factor = !s ? &ones : p < 2 ? &s[h].first : &s[h].second;
                if (bits == 8) {
                    sum[r][h] = code_add8(sum[r][h], codes[0], quad[0], &ones);
                    sum[r][h] = code_add8(sum[r][h], codes[1], quad[1], &ones);
                } else if (bits == 4) {
                    sum[r][h] = code_add4(sum[r][h], codes[0], quad[0]);
                    sum[r][h] = code_add4(sum[r][h], codes[1], quad[1]);
                } else {
                    sum[r][h] = code_add6(sum[r][h], codes, quad, factor);
                }
            }
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < CODE_ROWS; r++) {
        int32_t sums;
        __builtin_memcpy(&sums, x[r].half, sizeof sums);
        __m256i all = _mm256_set1_epi32(x[r].sum), halves = _mm256_set1_epi32(sums);
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++) {
            if (bits == 4)
                sum[r][h] = _mm256_madd_epi16(sum[r][h], ones);
            if (s)
                sum[r][h] = _mm256_sub_epi32(
                    sum[r][h], _mm256_slli_epi32(_mm256_madd_epi16(s[h].both, halves), 5));
            else if (zero > 0 && bits != 8)
                sum[r][h] = _mm256_sub_epi32(sum[r][h], _mm256_slli_epi32(all, zero == 8 ? 3 : 4));
        }
    }
}
