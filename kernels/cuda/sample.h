// SPDX-License-Identifier: Apache-2.0
// Shared by the sampling kernels: their arguments, the Gumbel noise of a token, and the best of a
// block.
#pragma once

#include "kernels/cuda/lane.h"

const uint32_t NO_TOKEN = STEP_NO_ROW;

struct sample_run {
    sample_args args;
    float *processed;     // [n][vocab]; only of rows that are drawn
    sample_chunk *chunk;  // [n][chunks]
    sample_decision *row; // [n]
    uint32_t chunks, mask_words;
};

// Returns true if the token with the greatest processed logit is taken and nothing is drawn.
static __device__ __forceinline__ bool takes_best(const sample_params &p)
{
    return p.temperature < 1e-5f || p.top_p <= 0.0f || p.top_k == 1;
}

// Returns the factor of a drawn row's logits; all kernels must use exactly the same number.
static __device__ __forceinline__ float temperature_inverse(const sample_decision &row)
{
    return 1.0f / row.temperature;
}

// Returns the number of logits in the chunk that begins at `base`.
static __device__ __forceinline__ uint32_t chunk_count(uint32_t vocab, uint32_t base)
{
    uint32_t most = SAMPLE_CHUNK;
    return vocab - base < most ? vocab - base : most;
}

// Returns the random words of four tokens from `token` on, a multiple of four. They depend only on
// the sequence's counters, not on the batch.
static __device__ __forceinline__ philox noise_words(const sample_params &p, uint32_t token)
{
    return philox_at(p.seed, token >> 2, p.output_count, p.choice, 0);
}

// Returns -log(-log(1 - u)), u = (word + 1/2) / 2^32, accurate for small u, where the winners are.
static __device__ __forceinline__ float gumbel_noise(uint32_t word)
{
    float u = ((float)word + 0.5f) * 0x1p-32f, rest = ((float)~word + 0.5f) * 0x1p-32f;
    float e = u < 0.25f ? log1pf(-u) : logf(rest);
    return -logf(-e);
}

// Maps floats to integers in the same order; -0 and +0 differ by one, which does not matter here.
static __device__ __forceinline__ uint32_t order_key(float x)
{
    uint32_t u = float_bits(x);
    return u >> 31 ? ~u : u | 0x80000000u;
}
static __device__ __forceinline__ float order_value(uint32_t key)
{
    return bits_float(key >> 31 ? key & 0x7FFFFFFFu : ~key);
}

// The better pair has the greater value, or at equal values the lower id; an id of NO_TOKEN always
// loses. block_best returns the best pair of 256 threads to all of them; shared: 8 pairs. Every
// thread of the block must call it.
struct best_pair {
    float value;
    uint32_t id;
};
static __device__ __forceinline__ bool pair_better(best_pair a, best_pair b)
{
    if (a.id == NO_TOKEN || b.id == NO_TOKEN)
        return b.id == NO_TOKEN && a.id != NO_TOKEN;
    return a.value > b.value || (a.value == b.value && a.id < b.id);
}
static __device__ __forceinline__ best_pair warp_best(best_pair mine)
{
    for (int step = 16; step > 0; step >>= 1) {
        best_pair other = {shfl_xor(mine.value, step), shfl_xor(mine.id, step)};
        if (pair_better(other, mine))
            mine = other;
    }
    return mine;
}
static __device__ __forceinline__ best_pair block_best(best_pair mine, best_pair *shared)
{
    mine = warp_best(mine);
    cta_sync();
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = mine;
    cta_sync();
    mine = shared[0];
    for (uint32_t i = 1; i < blockDim.x / 32; i++)
        if (pair_better(shared[i], mine))
            mine = shared[i];
    return mine;
}
