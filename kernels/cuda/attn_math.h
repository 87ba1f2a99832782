// SPDX-License-Identifier: Apache-2.0
// The arithmetic of attention on tensor cores: tiles of 64 keys for 16 packed query rows (query
// token x head of one KV head), of which a warp has one or two. Softmax is in base 2; P is rounded
// to the activation type for P V, while the sum uses it unrounded.
//
// Exact by construction: tiles ascend, parts of 1,024 keys are folded in order, every multiply-add
// is an explicit fma, and a fully masked tile leaves the state unchanged, so that a warp may skip
// it.
#pragma once

#include "kernels/cuda/attn_tile.h"

#define ATTN_LOG2E 1.44269504088896341f

template <class T>
static __device__ __forceinline__ void mma_attn(T, float c[4], const uint32_t a[4],
                                                const uint32_t b[2]);
template <>
__device__ __forceinline__ void mma_attn(bf16, float c[4], const uint32_t a[4], const uint32_t b[2])
{
    mma_bf16(c, a, b);
}
template <>
__device__ __forceinline__ void mma_attn(f16, float c[4], const uint32_t a[4], const uint32_t b[2])
{
    mma_f16(c, a, b);
}

// Keys that a query at position p sees: [lo, hi).
static __device__ __forceinline__ uint32_t attn_lo(const attn_shape &s, uint32_t p)
{
    return s.window != 0 && p + 1 > s.window ? p + 1 - s.window : 0;
}
static __device__ __forceinline__ uint32_t attn_hi(const attn_shape &s, uint32_t p, uint32_t kv_len)
{
    uint32_t end = p + 1 + s.ahead;
    return end < kv_len ? end : kv_len;
}

// State of the two query rows (r and r + 8) of a lane: rows are shared by the four lanes of a quad.
template <class F> struct attn_state {
    float max[2], sum[2]; // sum: this lane's share
    float out[F::COLUMNS / 8][4];
};

template <class F> static __device__ __forceinline__ void state_clear(attn_state<F> st[F::TILES])
{
#pragma unroll
    for (uint32_t t = 0; t < F::TILES; t++) {
        st[t].max[0] = st[t].max[1] = -INFINITY;
        st[t].sum[0] = st[t].sum[1] = 0;
#pragma unroll
        for (uint32_t i = 0; i < F::COLUMNS / 8; i++)
            st[t].out[i][0] = st[t].out[i][1] = st[t].out[i][2] = st[t].out[i][3] = 0;
    }
}

// First row of a warp's query tile within the block's.
template <class F> static __device__ __forceinline__ uint32_t warp_row(uint32_t t)
{
    return (threadIdx.x / 32 * F::TILES + t) * ATTN_TILE_ROWS;
}

// S = Q K^T for the rows of a warp x 64 keys; the tiles of a warp share the loads of K.
template <class F>
static __device__ __forceinline__ void tile_scores(float s[F::TILES][8][4], const attn_tiles<F> &at,
                                                   uint32_t dim)
{
    uint32_t lane = threadIdx.x % 32;
    uint32_t mine = lane_row(warp_row<F>(0) + lane % 16, lane / 16);
    uint32_t theirs = lane_row(lane / 16 * 8 + lane % 8, lane / 8 % 2);
#pragma unroll
    for (uint32_t t = 0; t < F::TILES; t++)
#pragma unroll
        for (uint32_t i = 0; i < 8; i++)
            s[t][i][0] = s[t][i][1] = s[t][i][2] = s[t][i][3] = 0;
#pragma unroll
    for (uint32_t d = 0; d < F::COLUMNS / 16; d++) {
        if (F::DIM == 0 && d * 16 >= dim)
            continue;
        uint32_t a[F::TILES][4], b[4];
#pragma unroll
        for (uint32_t t = 0; t < F::TILES; t++)
            ldsm_x4(a[t], at.query.at + d / 4 * at.query.PANEL + t * ATTN_TILE_ROWS * 128 +
                              lane_at(mine, d));
#pragma unroll
        for (uint32_t j = 0; j < 4; j++) {
            ldsm_x4(b, at.keys.at + d / 4 * at.keys.PANEL + j * 16 * 128 + lane_at(theirs, d));
#pragma unroll
            for (uint32_t t = 0; t < F::TILES; t++) {
                mma_attn(typename F::T(), s[t][2 * j], a[t], b);
                mma_attn(typename F::T(), s[t][2 * j + 1], a[t], b + 2);
            }
        }
    }
}

// Masks scores of keys that their row does not see; rows past the end see no keys.
template <class F>
static __device__ __forceinline__ void tile_mask(const attn_run &run, const attn_span &w,
                                                 float s[8][4], uint32_t tile, uint32_t first)
{
    const attn_shape &shape = run.args.shape;
    uint32_t lane = threadIdx.x % 32, lo[2], hi[2];
#pragma unroll
    for (uint32_t h = 0; h < 2; h++) {
        uint32_t row = w.first_row + warp_row<F>(tile) + lane / 4 + 8 * h;
        uint32_t p = w.position + row / run.group;
        lo[h] = attn_lo(shape, p);
        hi[h] = row < w.row.q_len * run.group ? attn_hi(shape, p, w.row.kv_len) : 0;
    }
#pragma unroll
    for (uint32_t i = 0; i < 8; i++)
#pragma unroll
        for (uint32_t e = 0; e < 4; e++) {
            uint32_t key = first + 8 * i + 2 * (lane % 4) + (e & 1);
            if (key < lo[e >> 1] || key >= hi[e >> 1])
                s[i][e] = -INFINITY;
        }
}

// Turns scores into probabilities relative to the new maximum and rescales the state to it. If no
// row's maximum has risen, every factor is 1.
template <class F>
static __device__ __forceinline__ void tile_softmax(float s[8][4], attn_state<F> *st, float scale)
{
    float keep[2];
#pragma unroll
    for (uint32_t h = 0; h < 2; h++) {
        float top = -INFINITY;
#pragma unroll
        for (uint32_t i = 0; i < 8; i++)
            top = fmaxf(top, fmaxf(s[i][2 * h], s[i][2 * h + 1]));
        top = fmaxf(top, shfl_xor(top, 1));
        top = fmaxf(top, shfl_xor(top, 2));
        float now = fmaxf(st->max[h], mul_rn(top, scale));
        float against = now == -INFINITY ? 0.0f : now;
        keep[h] = now == st->max[h] ? 1.0f : ex2(add_rn(st->max[h], -against));
        float sum = 0;
#pragma unroll
        for (uint32_t i = 0; i < 8; i++)
#pragma unroll
            for (uint32_t e = 2 * h; e < 2 * h + 2; e++) {
                s[i][e] = ex2(fmaf(s[i][e], scale, -against));
                sum = add_rn(sum, s[i][e]);
            }
        st->max[h] = now;
        st->sum[h] = fmaf(st->sum[h], keep[h], sum);
    }
    if (warp_ballot(keep[0] != 1.0f || keep[1] != 1.0f) == 0)
        return;
#pragma unroll
    for (uint32_t i = 0; i < F::COLUMNS / 8; i++)
#pragma unroll
        for (uint32_t e = 0; e < 4; e++)
            st->out[i][e] = mul_rn(st->out[i][e], keep[e >> 1]);
}

// O += P V: two adjacent score tiles, packed, are one A fragment.
template <class F>
static __device__ __forceinline__ void
tile_values(attn_state<F> st[F::TILES], const float s[F::TILES][8][4],
            const attn_tile<ATTN_TILE_KEYS> &values, uint32_t dim)
{
    typename F::T type;
    uint32_t lane = threadIdx.x % 32;
    uint32_t theirs = lane_row(lane % 16, lane / 16);
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
        uint32_t a[F::TILES][4];
#pragma unroll
        for (uint32_t t = 0; t < F::TILES; t++)
#pragma unroll
            for (uint32_t i = 0; i < 4; i++)
                a[t][i] = pack2(s[t][2 * j + i / 2] + i % 2 * 2, type);
#pragma unroll
        for (uint32_t d = 0; d < F::COLUMNS / 16; d++) {
            if (F::DIM == 0 && d * 16 >= dim)
                continue;
            uint32_t b[4];
            ldsm_x4_t(b, values.at + d / 4 * values.PANEL + j * 16 * 128 + lane_at(theirs, d));
#pragma unroll
            for (uint32_t t = 0; t < F::TILES; t++) {
                mma_attn(type, st[t].out[2 * d], a[t], b);
                mma_attn(type, st[t].out[2 * d + 1], a[t], b + 2);
            }
        }
    }
}
