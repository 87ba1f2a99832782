// SPDX-License-Identifier: Apache-2.0
// How a lane of the product for few tokens (gemm_small.h) gets its weights: elements, or codes
// whose elements it computes.
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

// The weights that a lane multiplies: rows r and r + 8 of the tile's features, eight elements of
// each slab. Those of SLABS slabs are loaded before the first is used. Rows past the end repeat the
// last row; their results are not stored.
template <class T, class W> struct small_weights {
    enum { SLABS = 4 };
    typedef decltype(weight_load((const W *)NULL)) loaded;
    const W *lo, *hi;
    struct slabs {
        loaded lo[SLABS], hi[SLABS];
    };
    __device__ __forceinline__ void begin(const gemm_run &g, uint32_t feature)
    {
        uint32_t lane = threadIdx.x % 32, r = feature + lane / 4, r8 = r + 8;
        const W *weight = (const W *)g.weight + 8 * (lane % 4);
        lo = weight + (size_t)(r < g.n ? r : g.n - 1) * g.stride;
        hi = weight + (size_t)(r8 < g.n ? r8 : g.n - 1) * g.stride;
    }
    // Returns the weights from column k on.
    __device__ __forceinline__ small_weights from(uint32_t k) const
    {
        return {lo + k, hi + k};
    }
    __device__ __forceinline__ void load(slabs *b) const
    {
#pragma unroll
        for (int s = 0; s < SLABS; s++) {
            b->lo[s] = weight_load(lo + s * PRODUCT_SLAB);
            b->hi[s] = weight_load(hi + s * PRODUCT_SLAB);
        }
    }
    static __device__ __forceinline__ void slab(const slabs &b, int s, uint4 *low, uint4 *high)
    {
        *low = weight8(T(), b.lo[s]);
        *high = weight8(T(), b.hi[s]);
    }
    __device__ __forceinline__ void slab_at(uint32_t k, uint4 *low, uint4 *high) const
    {
        *low = weight8(T(), weight_load(lo + k));
        *high = weight8(T(), weight_load(hi + k));
    }
    __device__ __forceinline__ void advance()
    {
        lo += SLABS * PRODUCT_SLAB;
        hi += SLABS * PRODUCT_SLAB;
    }
};

// Weights held as codes. A tile of 16 features is a panel.
template <class T, int KIND, int RUN> struct small_weights<T, codes<KIND, RUN>> {
    enum { SLABS = 4 };
    code_lane<KIND, RUN> at;
    struct slabs {
        uint2 code[SLABS];
        code_words scale[SLABS / RUN];
        code_factors row[2]; // factors of rows r and r + 8 for the slabs being multiplied
    };
    __device__ __forceinline__ void begin(const gemm_run &g, uint32_t feature)
    {
        at.begin(g.codes, feature / CODE_ROWS);
    }
    __device__ __forceinline__ small_weights from(uint32_t k) const
    {
        return {at.after(k / CODE_SLAB)};
    }
    __device__ __forceinline__ void load(slabs *b) const
    {
#pragma unroll
        for (int s = 0; s < SLABS; s++)
            b->code[s] = at.codes_of(s);
#pragma unroll
        for (int i = 0; i < SLABS / RUN; i++)
            b->scale[i] = at.words_of(i * RUN);
    }
    static __device__ __forceinline__ void elements(uint2 code, const code_factors row[2],
                                                    uint4 *low, uint4 *high)
    {
        *low = code_elements<KIND>(code.x, row[0], T());
        *high = code_elements<KIND>(code.y, row[1], T());
    }
    static __device__ __forceinline__ void slab(slabs &b, int s, uint4 *low, uint4 *high)
    {
        if (s % RUN == 0)
            for (int half = 0; half < 2; half++)
                b.row[half] = code_factors_of<KIND>(b.scale[s / RUN], half);
        elements(b.code[s], b.row, low, high);
    }
    __device__ __forceinline__ void slab_at(uint32_t k, uint4 *low, uint4 *high) const
    {
        uint32_t slab = k / CODE_SLAB;
        code_words scale = at.words_of(slab);
        const code_factors row[2] = {code_factors_of<KIND>(scale, 0),
                                     code_factors_of<KIND>(scale, 1)};
        elements(at.codes_of(slab), row, low, high);
    }
    __device__ __forceinline__ void advance()
    {
        at = at.after(SLABS);
    }
};
