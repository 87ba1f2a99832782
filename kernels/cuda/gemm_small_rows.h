// SPDX-License-Identifier: Apache-2.0
// The product for few tokens: what a lane reads, and its sum over slabs (gemm_small.h).
#pragma once

#include "kernels/cuda/gemm_small_weights.h"

// Loads eight elements of a token from k on; elements from g.k on are zeros.
template <class T>
static __device__ __forceinline__ uint4 token_row8(const gemm_run &g, const T *row, uint32_t k)
{
    uint4 w = {0, 0, 0, 0};
    if (g.vectors)
        return k < g.k ? ldg128(row + k) : w;
    float v[8];
    load8_row(row, k, g.k, false, v);
    w.x = pack2(v, T());
    w.y = pack2(v + 2, T());
    w.z = pack2(v + 4, T());
    w.w = pack2(v + 6, T());
    return w;
}

// A lane's weights, and its rows of tokens from their first element on.
template <class T, class W, int TILES> struct small_rows {
    small_weights<T, W> weights;
    const T *token[TILES];
};
// feature, token: first of the tile. row_of: returns the row of x of a token (gemm.h).
template <class T, class W, int TILES, class R>
static __device__ __forceinline__ small_rows<T, W, TILES>
small_rows_of(const gemm_run &g, uint32_t feature, uint32_t token, R row_of)
{
    uint32_t r = threadIdx.x % 32 / 4;
    small_rows<T, W, TILES> rows;
    rows.weights.begin(g, feature);
#pragma unroll
    for (int i = 0; i < TILES; i++) {
        uint32_t at = token + i * 8 + r;
        rows.token[i] = (const T *)g.x + (size_t)row_of(at < g.rows ? at : g.rows - 1) * g.x_stride;
    }
    return rows;
}

// Multiplies slabs [k, end) of a part, in order.
template <class T, class W, int TILES>
static __device__ __forceinline__ void small_sum(const gemm_run &g, float c[TILES][4], uint32_t k,
                                                 uint32_t end, const small_rows<T, W, TILES> &rows)
{
    typedef small_weights<T, W> weights;
    constexpr uint32_t BATCH = weights::SLABS * PRODUCT_SLAB;
    uint32_t mine = threadIdx.x % 4 * 8;
    uint32_t plain = !g.vectors ? 0 : end < g.k ? end : g.k; // below it, lanes have all elements
    weights ahead = rows.weights.from(k);
    const T *token[TILES];
    uint4 low, high;
#pragma unroll
    for (int i = 0; i < TILES; i++)
        token[i] = rows.token[i] + k + mine;
    for (; k + BATCH <= plain; k += BATCH) {
        typename weights::slabs loaded;
        ahead.load(&loaded);
#pragma unroll
        for (int s = 0; s < weights::SLABS; s++) {
            weights::slab(loaded, s, &low, &high);
#pragma unroll
            for (int i = 0; i < TILES; i++)
                slab_mma<T>(c[i], low, high, ldg128(token[i] + s * PRODUCT_SLAB));
        }
        ahead.advance();
#pragma unroll
        for (int i = 0; i < TILES; i++)
            token[i] += BATCH;
    }
    for (; k < end; k += PRODUCT_SLAB) {
        rows.weights.slab_at(k, &low, &high);
#pragma unroll
        for (int i = 0; i < TILES; i++)
            slab_mma<T>(c[i], low, high, token_row8(g, rows.token[i], k + mine));
    }
}
