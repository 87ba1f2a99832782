// SPDX-License-Identifier: Apache-2.0
// The product for few tokens: what a lane reads, and its sum over slabs (gemm_small.h).
#pragma once

#include "kernels/cuda/gemm.h"

// Loads eight weights of a row, in their stored type.
static __device__ __forceinline__ uint4 weight_load(const bf16 *row)
{
    return ldg128_stream(row);
}
static __device__ __forceinline__ uint4 weight_load(const f16 *row)
{
    return ldg128_stream(row);
}
static __device__ __forceinline__ uint2 weight_load(const int8 *row)
{
    return load64(row);
}
static __device__ __forceinline__ e4m3x8 weight_load(const fp8 *row)
{
    return {load64(row)};
}
static __device__ __forceinline__ e4m3x8 weight_load(const fp8_128 *row)
{
    return {load64(row)};
}

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

// The rows that a lane reads, from its first element on. Rows past the end repeat the last row;
// their results are not stored.
template <class T, class W, int TILES> struct small_rows {
    const W *lo, *hi;
    const T *token[TILES];
};
// feature, token: first of the tile. row_of: returns the row of x of a token (gemm.h).
template <class T, class W, int TILES, class R>
static __device__ __forceinline__ small_rows<T, W, TILES>
small_rows_of(const gemm_run &g, uint32_t feature, uint32_t token, R row_of)
{
    uint32_t lane = threadIdx.x % 32, r = lane / 4, t = lane % 4;
    uint32_t lo = feature + r, hi = lo + 8;
    const W *weight = (const W *)g.weight + 8 * t;
    small_rows<T, W, TILES> rows;
    rows.lo = weight + (size_t)(lo < g.n ? lo : g.n - 1) * g.stride;
    rows.hi = weight + (size_t)(hi < g.n ? hi : g.n - 1) * g.stride;
#pragma unroll
    for (int i = 0; i < TILES; i++) {
        uint32_t at = token + i * 8 + r;
        rows.token[i] = (const T *)g.x + (size_t)row_of(at < g.rows ? at : g.rows - 1) * g.x_stride;
    }
    return rows;
}

enum { SMALL_SLABS = 4 }; // slabs whose weights are loaded before the first is used

// Multiplies slabs [k, end) of a part, in order.
template <class T, class W, int TILES>
static __device__ __forceinline__ void small_sum(const gemm_run &g, float c[TILES][4], uint32_t k,
                                                 uint32_t end, const small_rows<T, W, TILES> &rows)
{
    uint32_t mine = threadIdx.x % 4 * 8, batch = SMALL_SLABS * PRODUCT_SLAB;
    uint32_t plain = !g.vectors ? 0 : end < g.k ? end : g.k; // below it, lanes have all elements
    const W *lo = rows.lo + k, *hi = rows.hi + k;
    const T *token[TILES];
#pragma unroll
    for (int i = 0; i < TILES; i++)
        token[i] = rows.token[i] + k + mine;
    for (; k + batch <= plain; k += batch) {
        decltype(weight_load(lo)) low[SMALL_SLABS], high[SMALL_SLABS];
#pragma unroll
        for (int s = 0; s < SMALL_SLABS; s++) {
            low[s] = weight_load(lo + s * PRODUCT_SLAB);
            high[s] = weight_load(hi + s * PRODUCT_SLAB);
        }
#pragma unroll
        for (int s = 0; s < SMALL_SLABS; s++) {
            uint4 a = weight8(T(), low[s]), b = weight8(T(), high[s]);
#pragma unroll
            for (int i = 0; i < TILES; i++)
                slab_mma<T>(c[i], a, b, ldg128(token[i] + s * PRODUCT_SLAB));
        }
        lo += batch;
        hi += batch;
#pragma unroll
        for (int i = 0; i < TILES; i++)
            token[i] += batch;
    }
    for (; k < end; k += PRODUCT_SLAB) {
        uint4 a = weight8(T(), weight_load(rows.lo + k)),
              b = weight8(T(), weight_load(rows.hi + k));
#pragma unroll
        for (int i = 0; i < TILES; i++)
            slab_mma<T>(c[i], a, b, token_row8(g, rows.token[i], k + mine));
    }
}
