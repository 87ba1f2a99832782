// SPDX-License-Identifier: Apache-2.0
// The tile of the product for few tokens, shared by gemm_small.cu and experts.cu: WARPS warps
// compute 16 features x 8 * TILES tokens. The parts of K are distributed over the warps and added
// in index order.
#pragma once

#include "kernels/cuda/gemm_small_rows.h"

// Loads eight elements one by one.
template <class T> static __device__ __forceinline__ uint4 elements8(const T *x)
{
    uint4 w = {x[0].bits | (uint32_t)x[1].bits << 16, x[2].bits | (uint32_t)x[3].bits << 16,
               x[4].bits | (uint32_t)x[5].bits << 16, x[6].bits | (uint32_t)x[7].bits << 16};
    return w;
}

// Computes the sum of part [k, end). row: the tile's first row in a stack of matrices.
template <class T, class W, int TILES> struct small_part {
    static __device__ __forceinline__ void sum(const gemm_run &g, float c[][4], uint32_t k,
                                               uint32_t end, const small_rows<T, W, TILES> &rows,
                                               uint32_t row)
    {
        (void)row;
        small_sum<T, W, TILES>(g, c, k, end, rows);
    }
};
// The sums of blocks, each times the scale of the block, are added in order.
template <class T, int TILES> struct small_part<T, fp8_128, TILES> {
    typedef small_rows<T, fp8_128, TILES> rows_type;
    // Adds the products of a block to the sums. VECTORS: x can be read in vectors of 8.
    template <bool VECTORS>
    static __device__ __forceinline__ void block(float sum[][4], uint32_t k, const rows_type &rows)
    {
        constexpr uint32_t SLABS = FP8_SCALE_COLUMNS / PRODUCT_SLAB;
        e4m3x8 low[SLABS], high[SLABS];
#pragma unroll
        for (uint32_t s = 0; s < SLABS; s++) {
            low[s] = weight_load(rows.weights.lo + k + s * PRODUCT_SLAB);
            high[s] = weight_load(rows.weights.hi + k + s * PRODUCT_SLAB);
        }
        k += threadIdx.x % 4 * 8;
#pragma unroll
        for (uint32_t s = 0; s < SLABS; s++) {
            uint4 a = weight8(T(), low[s]), b = weight8(T(), high[s]);
#pragma unroll
            for (int i = 0; i < TILES; i++) {
                const T *x = rows.token[i] + k + s * PRODUCT_SLAB;
                slab_mma<T>(sum[i], a, b, VECTORS ? ldg128(x) : elements8(x));
            }
        }
    }
    static __device__ __forceinline__ void sum(const gemm_run &g, float c[][4], uint32_t k,
                                               uint32_t end, const rows_type &rows, uint32_t row)
    {
        size_t across = g.k / FP8_SCALE_COLUMNS;
        const float *scales = g.scale_128 + row / FP8_SCALE_ROWS * across;
        float sum[TILES][4];
        for (int i = 0; i < TILES; i++)
            sum[i][0] = sum[i][1] = sum[i][2] = sum[i][3] = 0;
        for (; k < end; k += FP8_SCALE_COLUMNS) {
            float scale = scales[k / FP8_SCALE_COLUMNS];
            if (g.vectors)
                block<true>(sum, k, rows);
            else
                block<false>(sum, k, rows);
#pragma unroll
            for (int i = 0; i < TILES; i++)
                block_add(T(), c[i], sum[i], scale);
        }
    }
};

// Returns the index of element o = token * 16 + feature of a tile in shared memory: tokens that a
// warp writes together are on different banks, and a warp reads 32 elements of one pair of tokens.
static __device__ __forceinline__ uint32_t shared_at(uint32_t o)
{
    return o ^ (o >> 5 & 3u) << 3;
}

// WARPS warps compute the tile of 16 features from `feature` and 8 * TILES tokens from `token` on:
// in round i warp w sums part WARPS * i + w, then the parts of the round are added in order.
// Shared: 512 bytes for each warp and each 8 tokens. A warp has the weights of
// small_weights::SLABS slabs in flight. before: see gemm_store.
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
        small_part<T, W, TILES>::sum(g, c, begin, end, rows, before + feature);
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
            gemm_store(g, token + o / 16, feature + o % 16, weight_sum(T(), W(), total[i]), before);
    }
}
