// SPDX-License-Identifier: Apache-2.0
// Rows of activations as FP8 codes with scales (quantize.h): the arithmetic of quantize.cu and of
// the kernels that write codes together with their output. scale = greatest magnitude / 448; codes
// are x / scale to nearest, ties to even. A row depends on no other row. If a scale were below the
// smallest normal number, its elements count as zeros. A NaN or an infinity becomes a code of NaN.
//
// In a round, thread i of a block has the eight columns from 8 i on; the next round has the columns
// after those of all threads.
#pragma once

#include "kernels/cuda/e4m3.h"
#include "kernels/cuda/quantize.h"

// Returns the factor that takes elements to codes.
static __device__ __forceinline__ float e4m3_inverse(float scale)
{
    return scale >= 0x1p-126f ? 1.0f / scale : 0.0f;
}

static __device__ __forceinline__ float magnitude8(const float v[8], float top)
{
#pragma unroll
    for (int i = 0; i < 8; i++)
        top = fmaxf(top, fabsf(v[i]));
    return top;
}

static __device__ __forceinline__ void codes8_put(unsigned char *to, const float v[8],
                                                  float inverse)
{
    float x[8];
#pragma unroll
    for (int i = 0; i < 8; i++)
        x[i] = mul_rn(v[i], inverse);
    uint2 both = {scaled_to_e4m3(x), scaled_to_e4m3(x + 4)};
    *(uint2 *)to = both;
}

// Returns the scale of a row from the greatest magnitude that each of WARPS warps has seen. Every
// thread of the block calls it. shared: WARPS floats that the block has not used before.
template <int WARPS> static __device__ __forceinline__ float row_scale(float top, float *shared)
{
    top = warp_max(top);
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = top;
    cta_sync();
#pragma unroll
    for (int i = 0; i < WARPS; i++)
        top = fmaxf(top, shared[i]);
    return top / 448.0f;
}

// Writes eight columns from `at` on with the scale of their 128 columns, which 16 lanes share. All
// lanes of a warp call it, those past the row's end with zeros.
static __device__ __forceinline__ void block_codes8(const e4m3_rows &to, uint32_t row, uint32_t at,
                                                    const float v[8])
{
    float top = magnitude8(v, 0);
#pragma unroll
    for (int step = 8; step > 0; step >>= 1)
        top = fmaxf(top, shfl_xor(top, step));
    float scale = top / 448.0f;
    if (at >= to.k)
        return;
    codes8_put(to.codes + (size_t)row * to.k + at, v, e4m3_inverse(scale));
    if (threadIdx.x % 16 == 0)
        to.scale[(size_t)(at / 128) * to.padded + row] = scale;
}

// Writes the codes of a row of x, and its only scale; a block of THREADS threads.
template <int THREADS, class T>
static __device__ __forceinline__ void row_put(const T *x, const e4m3_rows &to, uint32_t row,
                                               float scale)
{
    float inverse = e4m3_inverse(scale), v[8];
    for (uint32_t at = threadIdx.x * 8; at < to.k; at += 8 * THREADS) {
        load8(x + at, v);
        codes8_put(to.codes + (size_t)row * to.k + at, v, inverse);
    }
    if (threadIdx.x == 0)
        to.scale[row] = scale;
}

// Writes the codes of a row of x, and its scales; a block of THREADS threads. Rows after the last
// become zeros with scale 0. shared: THREADS / 32 floats that the block has not used before.
template <int THREADS, class T>
static __device__ __forceinline__ void row_codes(const T *x, const e4m3_rows &to, uint32_t row,
                                                 float *shared)
{
    uint32_t lane = threadIdx.x % 32;
    float top = 0;
    // all lanes of a warp make the same number of rounds
    for (uint32_t at = threadIdx.x * 8; at - lane * 8 < to.k; at += 8 * THREADS) {
        float v[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        if (at < to.k && row < to.rows)
            load8(x + at, v);
        if (to.blocks)
            block_codes8(to, row, at, v);
        else
            top = magnitude8(v, top);
    }
    if (!to.blocks)
        row_put<THREADS>(x, to, row, row_scale<THREADS / 32>(top, shared));
}
