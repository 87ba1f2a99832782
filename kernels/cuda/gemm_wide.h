// SPDX-License-Identifier: Apache-2.0
// The tile of the product for many tokens, shared by gemm_wide.cu and experts.cu: 128 features x 64
// tokens through shared memory, with the summation order of gemm_small.h.
#pragma once

#include "kernels/cuda/gemm_scales.h"

enum { WIDE_FEATURES = 128, WIDE_TOKENS = 64, WIDE_STAGES = 3 };

// A stage contains WIDE_K columns of both operands. The halves of a row (one slab each) are swapped
// in half of the rows, so that fragment reads of 16 (int8: 8) bytes and asynchronous writes have no
// bank conflicts.
template <class W> struct wide_stage {
    W weight[WIDE_FEATURES * WIDE_K];
    uint16_t token[WIDE_TOKENS * WIDE_K];
};
template <class W> constexpr size_t wide_bytes()
{
    return WIDE_STAGES * sizeof(wide_stage<W>);
}
template <class W> struct wide_row {
    static constexpr uint32_t BYTES = WIDE_K * sizeof(W), SLAB = PRODUCT_SLAB * sizeof(W);
};
// Returns the offset of a byte of a row. Rows 8 apart have a constant distance; the other slab is
// at the offset ^ SLAB.
template <class W> static __device__ __forceinline__ uint32_t wide_at(uint32_t row, uint32_t byte)
{
    uint32_t swapped = (sizeof(W) == 1 ? row >> 1 : row) & 1u;
    return row * wide_row<W>::BYTES + (byte ^ swapped * wide_row<W>::SLAB);
}

// A thread's share of the copy of an operand in each step: the same 16 bytes of rows at constant
// distances in a stage. Rows past the end repeat the last row; their results are not stored.
template <class W, uint32_t ROWS> struct wide_share {
    static constexpr uint32_t CHUNKS = wide_row<W>::BYTES / 16, APART = 256 / CHUNKS;
    static constexpr uint32_t COUNT = ROWS / APART;
    const char *from[COUNT];
    uint32_t to, k; // offset in the operand's stage; k of its first element
};
template <class W, uint32_t ROWS, class R>
static __device__ __forceinline__ wide_share<W, ROWS>
share_of(const void *from, uint32_t first, uint32_t rows, uint32_t stride, R row_of)
{
    wide_share<W, ROWS> share;
    uint32_t row = threadIdx.x / share.CHUNKS, byte = threadIdx.x % share.CHUNKS * 16;
    share.to = wide_at<W>(row, byte);
    share.k = byte / (uint32_t)sizeof(W);
#pragma unroll
    for (uint32_t i = 0; i < share.COUNT; i++) {
        uint32_t at = first + row + i * share.APART;
        share.from[i] = (const char *)from +
                        (size_t)row_of(at < rows ? at : rows - 1) * stride * sizeof(W) + byte;
    }
    return share;
}
// Issues the copy of a step and advances to the next; columns from k on become zeros.
template <class W, uint32_t ROWS>
static __device__ __forceinline__ void share_copy(wide_share<W, ROWS> *share, char *to, uint32_t k)
{
    bool valid = share->k < k;
    share->k += WIDE_K;
#pragma unroll
    for (uint32_t i = 0; i < share->COUNT; i++) {
        cp_async16(to + share->to + i * share->APART * wide_row<W>::BYTES, share->from[i], valid);
        share->from[i] += wide_row<W>::BYTES;
    }
}
template <class T, class W> struct wide_shares {
    wide_share<W, WIDE_FEATURES> weight;
    wide_share<T, WIDE_TOKENS> token;
};
// feature, token: first of the tile. row_of: returns the row of x of a token (gemm.h).
template <class T, class W, class R>
static __device__ __forceinline__ wide_shares<T, W>
wide_shares_of(const gemm_run &g, uint32_t feature, uint32_t token, R row_of)
{
    return {share_of<W, WIDE_FEATURES>(g.weight, feature, g.n, g.stride, row_itself()),
            share_of<T, WIDE_TOKENS>(g.x, token, g.rows, g.x_stride, row_of)};
}
template <class T, class W>
static __device__ __forceinline__ void wide_issue(wide_shares<T, W> *shares, char *stage,
                                                  uint32_t k)
{
    share_copy(&shares->weight, stage, k);
    share_copy(&shares->token, stage + sizeof(wide_stage<W>::weight), k);
    cp_async_commit();
}

template <class T> static __device__ __forceinline__ uint4 wide_weight8(T, T, const char *at)
{
    return lds128(at);
}
template <class T> static __device__ __forceinline__ uint4 wide_weight8(int8, T, const char *at)
{
    return weight8(T(), load64(at));
}

template <class T> static __device__ __forceinline__ uint4 wide_weight8(fp8, T, const char *at)
{
    return weight8(T(), e4m3x8{load64(at)});
}
template <class T> static __device__ __forceinline__ uint4 wide_weight8(fp8_128, T, const char *at)
{
    return weight8(T(), e4m3x8{load64(at)});
}

// Multiplies one slab of a warp's 32 features and 32 tokens.
template <class T, class W>
static __device__ __forceinline__ void wide_slab(float c[2][4][4], const char *weight,
                                                 const char *token)
{
    const uint32_t row = wide_row<W>::BYTES;
    uint4 x[4];
#pragma unroll
    for (int j = 0; j < 4; j++)
        x[j] = lds128(token + 8 * j * wide_row<T>::BYTES);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        uint4 lo = wide_weight8(W(), T(), weight + 16 * i * row);
        uint4 hi = wide_weight8(W(), T(), weight + (16 * i + 8) * row);
#pragma unroll
        for (int j = 0; j < 4; j++)
            slab_mma<T>(c[i][j], lo, hi, x[j]);
    }
}

// 8 warps compute the tile of 128 features from `feature` and 64 tokens from `token` on: 4 over
// features x 2 over tokens, each 32 x 32. Shared: wide_bytes<W>(), dynamic; three stages of 64 k in
// flight. before: see gemm_store.
template <class T, class W>
static __device__ __forceinline__ void wide_tile(const gemm_run &g, uint32_t feature,
                                                 uint32_t token, wide_shares<T, W> shares,
                                                 uint32_t before)
{
    const uint32_t bytes = sizeof(wide_stage<W>), steps_of_part = PRODUCT_PART / WIDE_K;
    SHARED_DYNAMIC(char, shared);
    uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, r = lane / 4, t = lane % 4;
    uint32_t row0 = warp % 4 * 32, col0 = warp / 4 * 32;
    uint32_t weight_at = wide_at<W>(row0 + r, t * 8 * sizeof(W));
    uint32_t token_at = wide_at<T>(col0 + r, t * 8 * sizeof(T)) + sizeof(wide_stage<W>::weight);
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
            cp_async_wait<WIDE_STAGES - 2>();
            cta_sync();
            wide_issue(&shares, shared + free_at, g.k);
            wide_slab<T, W>(c, shared + weight_at, shared + token_at);
            if (s < full) // a missing slab is not added, as in the small kernel
                wide_slab<T, W>(c, shared + (weight_at ^ wide_row<W>::SLAB),
                                shared + (token_at ^ wide_row<T>::SLAB));
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
