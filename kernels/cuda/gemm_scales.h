// SPDX-License-Identifier: Apache-2.0
// Scales that the tile of gemm_wide.h applies within the sum of a row: those of FP8_128, one for
// 128 columns. Other weights have none here.
#pragma once

#include "kernels/cuda/gemm.h"

enum { WIDE_K = 64 }; // columns of a step of the tile

// Converts sums over the elements that weight8 returns to sums of products, step by step. row: the
// warp's first row in a stack of matrices, in which the matrix begins at row `before`.
template <class T, class W> struct wide_scales {
    __device__ __forceinline__ wide_scales(const gemm_run &, uint32_t, uint32_t)
    {
    }
    __device__ __forceinline__ void step(float[2][4][4], uint32_t)
    {
    }
    __device__ __forceinline__ void part(float[2][4][4])
    {
    }
};
// FP8_128: the sums of blocks, each times the scale of the block, are added in order.
template <class T> struct wide_scales<T, fp8_128> {
    const float *scales[2]; // the scales of each of the two tiles of 16 rows
    float scale[2], sum[2][4][4];
    __device__ __forceinline__ wide_scales(const gemm_run &g, uint32_t before, uint32_t row)
    {
        size_t across = g.k / FP8_SCALE_COLUMNS;
        uint32_t last = (before + g.n - 1) / FP8_SCALE_ROWS;
#pragma unroll
        for (uint32_t i = 0; i < 2; i++) {
            uint32_t at = row / FP8_SCALE_ROWS + i;
            scales[i] = g.scale_128 + (at < last ? at : last) * across;
#pragma unroll
            for (int j = 0; j < 4; j++)
                sum[i][j][0] = sum[i][j][1] = sum[i][j][2] = sum[i][j][3] = 0;
        }
    }
    // Adds the sums of a block after its last step; loads its scale before.
    __device__ __forceinline__ void step(float c[2][4][4], uint32_t s)
    {
        constexpr uint32_t STEPS = FP8_SCALE_COLUMNS / WIDE_K;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            if (s % STEPS == 0)
                scale[i] = scales[i][s / STEPS];
            if (s % STEPS < STEPS - 1)
                continue;
#pragma unroll
            for (int j = 0; j < 4; j++)
                block_add(T(), sum[i][j], c[i][j], scale[i]);
        }
    }
    // Moves the sums of a part to c.
    __device__ __forceinline__ void part(float c[2][4][4])
    {
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    c[i][j][e] = sum[i][j][e];
                    sum[i][j][e] = 0;
                }
    }
};
