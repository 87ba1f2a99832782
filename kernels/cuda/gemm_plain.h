// SPDX-License-Identifier: Apache-2.0
// The tile of the plain product, for float32 and for mixed types, shared by gemm_wide.cu and
// experts.cu: parts of K as in gemm_small.h, with a fixed tree over the lanes. It uses no tensor
// cores, which would round float32.
#pragma once

#include "kernels/cuda/gemm.h"

enum { PLAIN_TOKENS = 4, PLAIN_FEATURES = 8 }; // tokens of a tile, features of a block

template <class T>
static __device__ __forceinline__ float plain_weight(const gemm_run &g, size_t i, enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_F32:
        return ((const float *)g.weight)[i];
    case DTYPE_BF16:
        return widen(((const bf16 *)g.weight)[i]);
    case DTYPE_F16:
        return widen(((const f16 *)g.weight)[i]);
    default:
        return (float)((const int8 *)g.weight)[i].value;
    }
}

struct plain_run {
    gemm_run g;
    enum dtype dtype; // dtype of the weight
};

// A warp computes one feature of PLAIN_TOKENS tokens from `token` on. row_of: returns the row of x
// of a token (gemm.h). before: see gemm_store.
template <class T, class R>
static __device__ __forceinline__ void plain_tile(const plain_run &p, uint32_t feature,
                                                  uint32_t token, R row_of, uint32_t before)
{
    const gemm_run &g = p.g;
    uint32_t lane = threadIdx.x % 32;
    const T *x[PLAIN_TOKENS];
    float total[PLAIN_TOKENS];
#pragma unroll
    for (uint32_t i = 0; i < PLAIN_TOKENS; i++) {
        uint32_t at = token + i < g.rows ? token + i : g.rows - 1;
        x[i] = (const T *)g.x + (size_t)row_of(at) * g.x_stride;
        total[i] = 0;
    }
    for (uint32_t part = 0; part < g.k; part += PRODUCT_PART) {
        float sum[PLAIN_TOKENS] = {0, 0, 0, 0};
        uint32_t end = part + PRODUCT_PART < g.k ? part + PRODUCT_PART : g.k;
        for (uint32_t k = part + lane; k < end; k += 32) {
            float w = plain_weight<T>(g, (size_t)feature * g.stride + k, p.dtype);
#pragma unroll
            for (uint32_t i = 0; i < PLAIN_TOKENS; i++)
                if (token + i < g.rows)
                    sum[i] = fmaf(widen(x[i][k]), w, sum[i]);
        }
#pragma unroll
        for (uint32_t i = 0; i < PLAIN_TOKENS; i++)
            total[i] = add_rn(total[i], warp_sum(sum[i]));
    }
#pragma unroll
    for (uint32_t i = 0; i < PLAIN_TOKENS; i++)
        if (lane == i)
            gemm_store(g, token + i, feature, total[i], before);
}
