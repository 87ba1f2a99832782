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

// Weights held as codes. Panels have whole tiles of features.
template <class T, int KIND> struct small_weights<T, codes<KIND>> {
    enum { SLABS = 8 };
    code_arrays arrays;
    uint32_t panel, slab0;
    struct slabs {
        uint2 code[SLABS];
        code_words scale[SLABS];
    };
    __device__ __forceinline__ void begin(const gemm_run &g, uint32_t feature)
    {
        arrays = g.codes;
        panel = feature / CODE_ROWS;
        slab0 = 0;
    }
    __device__ __forceinline__ small_weights from(uint32_t k) const
    {
        return {arrays, panel, slab0 + k / CODE_SLAB};
    }
    __device__ __forceinline__ uint2 codes_of(uint32_t slab) const
    {
        size_t at = (size_t)panel * arrays.panel_slabs + slab;
        return load64(arrays.slabs + at * CODE_SLAB_BYTES + threadIdx.x % 32 * 8);
    }
    __device__ __forceinline__ code_words scale_of(uint32_t slab) const
    {
        return code_words_load<KIND>(arrays, panel, slab, threadIdx.x % 32 / 4);
    }
    __device__ __forceinline__ void load(slabs *b) const
    {
#pragma unroll
        for (int s = 0; s < SLABS; s++) {
            b->code[s] = codes_of(slab0 + s);
            b->scale[s] = scale_of(slab0 + s);
        }
    }
    static __device__ __forceinline__ void elements(uint2 code, const code_words &scale, uint4 *low,
                                                    uint4 *high)
    {
        *low = code_elements<KIND>(code.x, code_factors_of<KIND>(scale, 0), T());
        *high = code_elements<KIND>(code.y, code_factors_of<KIND>(scale, 1), T());
    }
    static __device__ __forceinline__ void slab(const slabs &b, int s, uint4 *low, uint4 *high)
    {
        elements(b.code[s], b.scale[s], low, high);
    }
    __device__ __forceinline__ void slab_at(uint32_t k, uint4 *low, uint4 *high) const
    {
        elements(codes_of(k / CODE_SLAB), scale_of(k / CODE_SLAB), low, high);
    }
    __device__ __forceinline__ void advance()
    {
        slab0 += SLABS;
    }
};
