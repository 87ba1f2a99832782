// SPDX-License-Identifier: Apache-2.0
// The bias that is added to the scores of attention by the distance from key to query. Used by
// kernels for heads of 64 columns (attn_form::BIASED) and by the plain kernel.
#pragma once

#include "kernels/cuda/attn_math.h"

// Returns the bias of a head for a query and a key, times log2(e).
static __device__ __forceinline__ float bias_of(const attn_run &run, uint32_t head, uint32_t query,
                                                uint32_t key)
{
    int reach = (int)run.args.reach, d = (int)query - (int)key;
    d = d < -reach ? -reach : d > reach ? reach : d;
    return mul_rn(run.bias[(size_t)head * (2 * reach + 1) + (d + reach)], ATTN_LOG2E);
}

// Scales the scores and adds to each the bias of its distance.
template <class F>
static __device__ __forceinline__ void tile_bias(const attn_run &run, const attn_span &w,
                                                 float s[8][4], uint32_t tile, uint32_t first)
{
    uint32_t lane = threadIdx.x % 32;
#pragma unroll 1
    for (uint32_t h = 0; h < 2; h++) {
        uint32_t row = w.first_row + warp_row<F>(tile) + lane / 4 + 8 * h;
        uint32_t head = w.kv_head * run.group + row % run.group;
        uint32_t query = w.position + row / run.group;
#pragma unroll
        for (uint32_t i = 0; i < 8; i++)
#pragma unroll
            for (uint32_t e = 0; e < 2; e++) {
                float bias = bias_of(run, head, query, first + 8 * i + 2 * (lane % 4) + e);
                if (h == 0)
                    s[i][e] = fmaf(s[i][e], run.scale, bias);
                else
                    s[i][e + 2] = fmaf(s[i][e + 2], run.scale, bias);
            }
    }
}
