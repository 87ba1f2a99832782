// SPDX-License-Identifier: Apache-2.0
// The tile of the product for few tokens, shared by gemm_small.cu and experts.cu: WARPS warps
// compute 16 features x 8 * TILES tokens. The parts of K are distributed over the warps and added
// in index order.
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

// Returns the index of element o = token * 16 + feature of a tile in shared memory: tokens that a
// warp writes together are on different banks, and a warp reads 32 elements of one pair of tokens.
static __device__ __forceinline__ uint32_t shared_at(uint32_t o)
{
    return o ^ (o >> 5 & 3u) << 3;
}

// WARPS warps compute the tile of 16 features from `feature` and 8 * TILES tokens from `token` on:
// in round i warp w sums part WARPS * i + w, then the parts of the round are added in order.
// Shared: 512 bytes for each warp and each 8 tokens. A warp has the weights of four slabs in
// flight, 4 KB. before: see gemm_store.
template <class T, class W, int TILES, int WARPS>
static __device__ __forceinline__ void
small_tile(const gemm_run &g, uint32_t feature, uint32_t token, const small_rows<T, W, TILES> &rows,
           uint32_t before)
{
    constexpr int OUTPUTS = (4 * TILES + WARPS - 1) / WARPS; // sums per thread
    SHARED(float, shared, [WARPS][16 * 8 * TILES]);
    uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, r = lane / 4, t = lane % 4;
    uint32_t parts = (g.stride + PRODUCT_PART - 1) / PRODUCT_PART;
    float total[OUTPUTS];
    for (int i = 0; i < OUTPUTS; i++)
        total[i] = 0;
    for (uint32_t first = 0; first < parts; first += WARPS) {
        float c[TILES][4];
        for (int i = 0; i < TILES; i++)
            c[i][0] = c[i][1] = c[i][2] = c[i][3] = 0;
        uint32_t begin = (first + warp) * PRODUCT_PART;
        uint32_t end = begin + PRODUCT_PART < g.stride ? begin + PRODUCT_PART : g.stride;
        small_sum<T, W, TILES>(g, c, begin, end, rows);
        for (int i = 0; i < TILES; i++) {
            uint32_t o = (8 * i + 2 * t) * 16 + r;
            shared[warp][shared_at(o)] = c[i][0];
            shared[warp][shared_at(o + 16)] = c[i][1];
            shared[warp][shared_at(o + 8)] = c[i][2];
            shared[warp][shared_at(o + 24)] = c[i][3];
        }
        cta_sync();
        for (int i = 0; i < OUTPUTS; i++) {
            uint32_t o = i * 32 * WARPS + threadIdx.x;
            for (uint32_t w = 0; w < WARPS && first + w < parts && o < 128 * TILES; w++)
                total[i] = add_rn(total[i], shared[w][shared_at(o)]);
        }
        cta_sync();
    }
    for (int i = 0; i < OUTPUTS; i++) {
        uint32_t o = i * 32 * WARPS + threadIdx.x;
        if (o < 128 * TILES)
            gemm_store(g, token + o / 16, feature + o % 16, total[i], before);
    }
}
