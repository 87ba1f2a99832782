// SPDX-License-Identifier: Apache-2.0
// The arithmetic of mma.m16n8k16 with 16-bit factors and float32 sums, for the emulator (C++) and
// the interpreter of PTX (C). WEFT_SIMT_MMA selects one of three, see enum mma_sums; the tests use
// them as decision 0068 states.
//
// The PTX manual leaves order and rounding of the sums open. Tensor cores do not round each
// addition: they align the significands of a group of products and of c to the largest exponent,
// discard the bits below a fixed place, add exactly and round the sum toward zero. Source: the
// model of MMA-Sim (github.com/microsoft/MMA-Sim, arXiv 2511.10909), against whose vectors this
// file is tested (tools/mma_vectors.py).
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// x86-64 has versions with and without AVX2. The code that selects one runs before ThreadSanitizer
// is ready, so there is only one version under it.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define MMA_CLONES __attribute__((target_clones("avx2", "default"), optimize("O3")))
#else
#define MMA_CLONES __attribute__((optimize("O3")))
#endif

enum mma_sums {
    MMA_ROUNDED, // products are added in ascending order of k; each sum is rounded to nearest
    MMA_HOPPER,  // 16 products and c, 25 fraction bits, toward zero (also Blackwell)
    MMA_AMPERE,  // twice 8 products and c, 24 fraction bits, toward zero (also Ada)
    MMA_SUMS
};

// The arithmetic of one sum of products.
struct mma_rule {
    const char *name; // value of WEFT_SIMT_MMA
    int products;     // number of products in a group
    int bits;         // number of fraction bits that are kept below the largest exponent
};
static const struct mma_rule mma_rules[MMA_SUMS] = {
    {"rounded", 1, 0}, {"hopper", 16, 25}, {"ampere", 8, 24}};

// Returns the arithmetic that WEFT_SIMT_MMA names; MMA_ROUNDED if it is not set. Ends the program
// if the name is unknown.
static inline enum mma_sums mma_sums_read(void)
{
    const char *name = getenv("WEFT_SIMT_MMA");
    for (int i = 0; i < MMA_SUMS; i++)
        if (strcmp(name ? name : "rounded", mma_rules[i].name) == 0)
            return (enum mma_sums)i;
    fprintf(stderr, "WEFT_SIMT_MMA must be rounded, hopper or ampere, not '%s'\n", name);
    exit(2);
}

// Returns the exponent of a factor or of c, which is at least that of the type's smallest normal
// number. Infinities and NaN have 128; any exponent would do for them.
static inline int mma_exponent(float x, int least)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 23 & 255) - 127;
    return exponent > least ? exponent : least;
}

// Returns 2^n; n is the exponent of a normal double.
static inline double mma_power(int n)
{
    uint64_t bits = (uint64_t)(n + 1023) << 52;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// Rounds to float32 toward zero: 2^128 and above become infinite, NaN becomes 0x7FFFFFFF, and zero
// is positive.
static inline float mma_toward_zero(double x)
{
    float y = (float)x;
    uint32_t bits;
    memcpy(&bits, &y, sizeof bits);
    if (fabs(x) < 0x1p128 && fabs((double)y) > fabs(x))
        bits--; // the neighbour of smaller magnitude
    if (x != x)
        bits = 0x7FFFFFFF;
    memcpy(&y, &bits, sizeof y);
    return y == 0 ? 0 : y;
}

// Computes d = a b + d with a product rounded and added at a time.
MMA_CLONES static inline void mma_multiply_rounded(float a[16][16], float b[16][8], float d[16][8])
{
    typedef float row __attribute__((vector_size(32)));
    for (int i = 0; i < 16; i += 4) { // four rows: independent sums, which stay in registers
        row s0, s1, s2, s3, factor;
        memcpy(&s0, d[i], sizeof s0);
        memcpy(&s1, d[i + 1], sizeof s1);
        memcpy(&s2, d[i + 2], sizeof s2);
        memcpy(&s3, d[i + 3], sizeof s3);
        for (int k = 0; k < 16; k++) {
            memcpy(&factor, b[k], sizeof factor);
            s0 += a[i][k] * factor;
            s1 += a[i + 1][k] * factor;
            s2 += a[i + 2][k] * factor;
            s3 += a[i + 3][k] * factor;
        }
        memcpy(d[i], &s0, sizeof s0);
        memcpy(d[i + 1], &s1, sizeof s1);
        memcpy(d[i + 2], &s2, sizeof s2);
        memcpy(d[i + 3], &s3, sizeof s3);
    }
}

// Computes d = a b + d with the sums of a tensor core. A product's exponent is the sum of those of
// its factors, though its significand may be 2 or more; a term that is zero has the exponent
// -108 - bits. Doubles hold each term and each sum of a group exactly.
MMA_CLONES static inline void mma_multiply_aligned(const struct mma_rule *rule, bool bf16,
                                                   float a[16][16], float b[16][8], float d[16][8])
{
    int least = bf16 ? -126 : -14, zero = -108 - rule->bits, of_a[16][16], of_b[16][8];
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < 16; k++)
            of_a[i][k] = mma_exponent(a[i][k], least);
    for (int k = 0; k < 16; k++)
        for (int j = 0; j < 8; j++)
            of_b[k][j] = mma_exponent(b[k][j], least);
    for (int i = 0; i < 16; i++)
        for (int first = 0; first < 16; first += rule->products) {
            int largest[8];
            double scale[8], sum[8];
            for (int j = 0; j < 8; j++)
                largest[j] = d[i][j] == 0 ? zero : mma_exponent(d[i][j], -126);
            for (int k = first; k < first + rule->products; k++)
                for (int j = 0; j < 8; j++) {
                    bool none = a[i][k] == 0 || b[k][j] == 0;
                    int exponent = none ? zero : of_a[i][k] + of_b[k][j];
                    largest[j] = exponent > largest[j] ? exponent : largest[j];
                }
            for (int j = 0; j < 8; j++) {
                scale[j] = mma_power(rule->bits - largest[j]);
                sum[j] = trunc((double)d[i][j] * scale[j]);
            }
            for (int k = first; k < first + rule->products; k++)
                for (int j = 0; j < 8; j++)
                    sum[j] += trunc((double)a[i][k] * (double)b[k][j] * scale[j]);
            for (int j = 0; j < 8; j++)
                d[i][j] = mma_toward_zero(sum[j] * mma_power(largest[j] - rule->bits));
        }
}

// Computes d[16][8] = a[16][16] b[16][8] + d; a and b hold bfloat16 or float16 numbers.
static inline void mma_multiply(enum mma_sums sums, bool bf16, float a[16][16], float b[16][8],
                                float d[16][8])
{
    if (sums == MMA_ROUNDED)
        mma_multiply_rounded(a, b, d);
    else
        mma_multiply_aligned(&mma_rules[sums], bf16, a, b, d);
}
