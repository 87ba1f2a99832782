// SPDX-License-Identifier: Apache-2.0
// The arithmetic of attention on tensor cores: tiles of 64 keys for 16 packed query rows (query
// token x head of one KV head), of which a warp has one or two. Softmax is in base 2; P is rounded
// to the type of the tensor cores for P V, while the sum uses it unrounded.
//
// Exact by construction: tiles ascend, parts of 1,024 keys are folded in order, every multiply-add
// is an explicit fma, and a fully masked tile leaves the state unchanged, so that a warp may skip
// it.
#pragma once

#include "kernels/cuda/attn_mma.h"

#define ATTN_LOG2E 1.44269504088896341f

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

// Returns the sum of a finished row with the term of its head's sink, which has no value. max: of
// the row's scores in base 2; -INFINITY if the row sees no keys, whose result stays zero.
static __device__ __forceinline__ float sum_with_sink(const attn_run &run, uint32_t head, float sum,
                                                      float max)
{
    return add_rn(sum, ex2(fmaf(run.sinks[head], ATTN_LOG2E, -max)));
}
