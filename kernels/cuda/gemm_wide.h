// SPDX-License-Identifier: Apache-2.0
// The tile of the product for many tokens, shared by gemm_wide.cu and experts.cu: 128 features x
// TOKENS tokens (32 or 64) through shared memory, with the summation order of gemm_small.h. A block
// has wide_threads<TOKENS>() threads.
#pragma once

#include "kernels/cuda/gemm_wide_weights.h"

template <class T, class W, uint32_t TOKENS> struct wide_shares {
    static constexpr uint32_t THREADS = wide_threads<TOKENS>();
    wide_weights<T, W, THREADS> weight;
    wide_share<T, TOKENS, THREADS> token;
};
// feature, token: first of the tile. row_of: returns the row of x of a token (gemm.h).
template <class T, class W, uint32_t TOKENS, class R>
static __device__ __forceinline__ wide_shares<T, W, TOKENS>
wide_shares_of(const gemm_run &g, uint32_t feature, uint32_t token, R row_of)
{
    wide_shares<T, W, TOKENS> shares;
    shares.weight.begin(g, feature);
    shares.token = share_of<T, TOKENS, shares.THREADS>(g.x, token, g.rows, g.x_stride, row_of);
    return shares;
}
template <class T, class W, uint32_t TOKENS>
static __device__ __forceinline__ void wide_issue(wide_shares<T, W, TOKENS> *shares, char *stage,
                                                  uint32_t k)
{
    shares->weight.copy(stage, k);
    share_copy(&shares->token, stage + wide_row<W>::STAGE, k);
    cp_async_commit();
}

// Multiplies slab `slab` of a step: a warp's 32 features and 32 tokens.
template <class T, class W, uint32_t THREADS>
static __device__ __forceinline__ void wide_slab(float c[2][4][4],
                                                 const wide_weights<T, W, THREADS> &from,
                                                 const char *weight, const char *token, int slab)
{
    uint4 x[4], lo, hi;
#pragma unroll
    for (int j = 0; j < 4; j++)
        x[j] = lds128(token + 8 * j * wide_row<T>::BYTES);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        from.read(weight, i, slab, &lo, &hi);
#pragma unroll
        for (int j = 0; j < 4; j++)
            slab_mma<T>(c[i][j], lo, hi, x[j]);
    }
}

// Computes the tile of 128 features from `feature` and TOKENS tokens from `token` on: 4 warps over
// features x TOKENS / 32 over tokens, each 32 x 32. Shared: wide_bytes<W, TOKENS>(), dynamic; three
// stages of 64 k in flight. before: see gemm_store.
template <class T, class W, uint32_t TOKENS>
static __device__ __forceinline__ void wide_tile(const gemm_run &g, uint32_t feature,
                                                 uint32_t token, wide_shares<T, W, TOKENS> shares,
                                                 uint32_t before)
{
    const uint32_t bytes = wide_stage<W, TOKENS>::BYTES, steps_of_part = PRODUCT_PART / WIDE_K;
    SHARED_DYNAMIC(char, shared);
    uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, r = lane / 4, t = lane % 4;
    uint32_t row0 = warp % 4 * 32, col0 = warp / 4 * 32;
    uint32_t weight_at = decltype(shares.weight)::first(row0);
    uint32_t token_at = wide_at<T>(col0 + r, t * 8 * sizeof(T)) + wide_row<W>::STAGE;
    float c[2][4][4], total[2][4][4];
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                c[i][j][e] = total[i][j][e] = 0;
    wide_scales<T, W> scales(g, before, before + feature + row0);
    uint32_t steps = (g.stride + WIDE_K - 1) / WIDE_K, full = g.stride / WIDE_K;
    for (uint32_t s = 0; s < WIDE_STAGES - 1; s++)
        wide_issue(&shares, shared + s * bytes, g.k);      // zeros if there is no such step
    uint32_t now = 0, free_at = (WIDE_STAGES - 1) * bytes; // offset of the previous step's stage
    for (uint32_t part = 0; part < steps; part += steps_of_part) {
        uint32_t end = part + steps_of_part < steps ? part + steps_of_part : steps;
        for (uint32_t s = part; s < end; s++) {
            shares.weight.step_begin();
            cp_async_wait<WIDE_STAGES - 2>();
            cta_sync();
            wide_issue(&shares, shared + free_at, g.k);
            wide_slab(c, shares.weight, shared + weight_at, shared + token_at, 0);
            if (s < full) // a missing slab is not added, as in the small kernel
                wide_slab(c, shares.weight, shared + (weight_at ^ wide_row<W>::SLAB),
                          shared + (token_at ^ wide_row<T>::SLAB), 1);
            scales.step(c, s);
            free_at = now;
            now = now + bytes < WIDE_STAGES * bytes ? now + bytes : 0;
            weight_at += now - free_at; // offset of the stage plus that of the lane: one register
            token_at += now - free_at;
        }
        scales.part(c);
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    total[i][j][e] = add_rn(total[i][j][e], c[i][j][e]);
                    c[i][j][e] = 0;
                }
    }
    cp_async_wait<0>();
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                gemm_store(g, token + col0 + 8 * j + 2 * t + (e & 1),
                           feature + row0 + 16 * i + r + 8 * (e >> 1),
                           weight_sum(T(), W(), total[i][j][e]), before);
}
