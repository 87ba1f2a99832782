// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10, and the random weights of a dummy load. All arithmetic up to the last
// multiplication is on integers, so that every device computes the same bits.
#pragma once

#include <stdint.h>

struct philox_block {
    uint32_t word[4];
};

static inline struct philox_block philox4x32(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2,
                                             uint32_t c3)
{
    uint32_t k0 = (uint32_t)key;
    uint32_t k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    struct philox_block out = {{c0, c1, c2, c3}};
    return out;
}

// Returns the sum of the eight 16-bit halves of a block, centred: mean 0, variance 8 (2^32 - 1) /
// 12.
static inline int32_t philox_halves(const struct philox_block *block)
{
    uint32_t sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (block->word[i] & 0xFFFFu) + (block->word[i] >> 16);
    return (int32_t)sum - 262140;
}

// Returns element i of a random source: N(0, deviation), approximated by the central limit theorem
// (|x| < 4.9 deviations). It is an exact integer times a float, with one rounding.
static inline float philox_normal(uint64_t seed, uint64_t i, float deviation)
{
    struct philox_block block = philox4x32(seed, (uint32_t)i, (uint32_t)(i >> 32), 0, 0);
    return (float)philox_halves(&block) * (deviation * 0x1.3988e2p-16f); // 1 / sqrt(variance)
}
