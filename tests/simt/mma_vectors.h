// SPDX-License-Identifier: Apache-2.0
// Vectors of mma.m16n8k16 from tests/simt/mma_vectors.txt: inputs, and the results of each
// arithmetic of mma.h. Used by test_emulator.c and by bench/gpu_probe.c, which compares a card.
#pragma once

#include "tests/simt/mma.h"
#include "tests/simt/probe.h"

struct mma_vector {
    char name[24]; // what the numbers are, for messages
    bool bf16;     // true: bfloat16 factors, false: float16
    uint16_t a[16][16], b[16][8];
    uint32_t c[16][8];              // float32
    uint32_t want[MMA_SUMS][16][8]; // float32
};

// Reads the next vector. Returns 1, at the end of the file 0, and -1 if the text is damaged.
int mma_vector_read(FILE *from, struct mma_vector *out);

// mma_vector_put writes the fragments that PROBE_MMA_BF16 and PROBE_MMA_F16 read,
// words[PROBE_WORDS]; mma_vector_take reads the result of such a probe.
void mma_vector_put(const struct mma_vector *vector, uint32_t *words);
void mma_vector_take(const uint32_t *words, uint32_t result[16][8]);

// Returns true if a card that follows the arithmetic may have this result: the bits are equal, or
// the arithmetic does not fix those of a NaN.
bool mma_word_fits(enum mma_sums sums, uint32_t want, uint32_t got);
