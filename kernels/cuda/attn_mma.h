// SPDX-License-Identifier: Apache-2.0
// The products of attention on tensor cores, S = Q K^T and O += P V, of tiles of 64 keys, in 16
// bits or in fp8.
#pragma once

#include "kernels/cuda/attn_tile.h"

template <class T>
static __device__ __forceinline__ void mma_attn(T, float c[4], const uint32_t a[4],
                                                const uint32_t b[2]);
template <>
__device__ __forceinline__ void mma_attn(bf16, float c[4], const uint32_t a[4], const uint32_t b[2])
{
    mma_bf16(c, a, b);
}
template <>
__device__ __forceinline__ void mma_attn(f16, float c[4], const uint32_t a[4], const uint32_t b[2])
{
    mma_f16(c, a, b);
}

// Loads the fragments of Q for 16 columns. mine: lane_row of the warp's rows.
template <class F>
static __device__ __forceinline__ void query_load(uint32_t a[F::TILES][4], const attn_tiles<F> &at,
                                                  uint32_t mine, uint32_t d)
{
#pragma unroll
    for (uint32_t t = 0; t < F::TILES; t++)
        ldsm_x4(a[t],
                at.query.at + d / 4 * at.query.PANEL + t * ATTN_TILE_ROWS * 128 + lane_at(mine, d));
}

// S += Q K^T with keys in 16 bits.
template <class F>
static __device__ __forceinline__ void scores_half(float s[F::TILES][8][4], const attn_tiles<F> &at,
                                                   uint32_t dim, uint32_t mine, uint32_t theirs)
{
#pragma unroll
    for (uint32_t d = 0; d < F::COLUMNS / 16; d++) {
        if (F::DIM == 0 && d * 16 >= dim)
            continue;
        uint32_t a[F::TILES][4], b[4];
        query_load<F>(a, at, mine, d);
#pragma unroll
        for (uint32_t j = 0; j < 4; j++) {
            ldsm_x4(b, at.keys.at + d / 4 * at.keys.PANEL + j * 16 * 128 + lane_at(theirs, d));
#pragma unroll
            for (uint32_t t = 0; t < F::TILES; t++) {
                mma_attn(typename F::T(), s[t][2 * j], a[t], b);
                mma_attn(typename F::T(), s[t][2 * j + 1], a[t], b + 2);
            }
        }
    }
}

// S += Q K^T with keys in fp8. ldmatrix moves two codes as one element: 16 codes of 32 keys at a
// time, so that only the queries' fragments of these columns are held. The stored order of columns
// (e4m3_place) gives a lane the codes 2t, 2t + 1, 2t + 8 and 2t + 9 of a key. These are its
// operands b0 and b1 of an mma of 16 columns.
template <class F>
static __device__ __forceinline__ void scores_fp8(float s[F::TILES][8][4], const attn_tiles<F> &at,
                                                  uint32_t dim, uint32_t mine, uint32_t theirs)
{
#pragma unroll
    for (uint32_t d = 0; d < F::COLUMNS / 16; d++) {
        if (F::DIM == 0 && d * 16 >= dim)
            continue;
        uint32_t a[F::TILES][4], codes[4];
        query_load<F>(a, at, mine, d);
#pragma unroll
        for (uint32_t j = 0; j < 2; j++) {
            ldsm_x4(codes,
                    at.keys.at + d / 8 * at.keys.PANEL + j * 32 * 128 + lane_chunk(theirs, d));
#pragma unroll
            for (uint32_t i = 0; i < 4; i++) { // eight keys
                uint32_t b[2];
                e4m3_to_f16(b, codes[i]);
#pragma unroll
                for (uint32_t t = 0; t < F::TILES; t++)
                    mma_f16(s[t][4 * j + i], a[t], b);
            }
        }
    }
}

// S = Q K^T for the rows of a warp x 64 keys; the tiles of a warp share the loads of K.
template <class F>
static __device__ __forceinline__ void tile_scores(float s[F::TILES][8][4], const attn_tiles<F> &at,
                                                   uint32_t dim)
{
    uint32_t lane = threadIdx.x % 32;
    uint32_t mine = lane_row(warp_row<F>(0) + lane % 16, lane / 16);
    uint32_t theirs = F::FP8 ? lane_row(lane, 0) : lane_row(lane / 16 * 8 + lane % 8, lane / 8 % 2);
#pragma unroll
    for (uint32_t t = 0; t < F::TILES; t++)
#pragma unroll
        for (uint32_t i = 0; i < 8; i++)
            s[t][i][0] = s[t][i][1] = s[t][i][2] = s[t][i][3] = 0;
    if constexpr (F::FP8)
        scores_fp8<F>(s, at, dim, mine, theirs);
    else
        scores_half<F>(s, at, dim, mine, theirs);
}

// O += P V with values in 16 bits for 16 keys.
template <class F>
static __device__ __forceinline__ void values_half(attn_state<F> st[F::TILES],
                                                   const uint32_t a[F::TILES][4], const char *rows,
                                                   uint32_t panel, uint32_t theirs, uint32_t dim)
{
#pragma unroll
    for (uint32_t d = 0; d < F::COLUMNS / 16; d++) {
        if (F::DIM == 0 && d * 16 >= dim)
            continue;
        uint32_t b[4];
        ldsm_x4_t(b, rows + d / 4 * panel + lane_at(theirs, d));
#pragma unroll
        for (uint32_t t = 0; t < F::TILES; t++) {
            mma_attn(typename F::T(), st[t].out[2 * d], a[t], b);
            mma_attn(typename F::T(), st[t].out[2 * d + 1], a[t], b + 2);
        }
    }
}

// O += P V with values in fp8 for 16 keys, 32 columns at a time. A lane gets two adjacent codes of
// each pair of keys: the first belongs to one mma, the second to the other. The stored order of
// columns makes the sums of both mma the elements that the lane has of the unpermuted tiles.
template <class F>
static __device__ __forceinline__ void values_fp8(attn_state<F> st[F::TILES],
                                                  const uint32_t a[F::TILES][4], const char *rows,
                                                  uint32_t panel, uint32_t theirs, uint32_t dim)
{
    uint32_t codes[4];
#pragma unroll
    for (uint32_t d = 0; d < F::COLUMNS / 16; d++) {
        if (F::DIM == 0 && d * 16 >= dim)
            continue;
        if (d % 2 == 0)
            ldsm_x4_t(codes, rows + d / 8 * panel + lane_at(theirs, d / 2));
        uint32_t b[2], first[2], second[2];
#pragma unroll
        for (uint32_t h = 0; h < 2; h++) { // keys 0 to 7, 8 to 15
            e4m3_to_f16(b, byte_perm(codes[d % 2 * 2 + h], 0, 0x3120u));
            first[h] = b[0];
            second[h] = b[1];
        }
#pragma unroll
        for (uint32_t t = 0; t < F::TILES; t++) {
            float *lo = st[t].out[2 * d], *hi = st[t].out[2 * d + 1];
            float c[2][4] = {{lo[0], hi[0], lo[2], hi[2]}, {lo[1], hi[1], lo[3], hi[3]}};
            mma_f16(c[0], a[t], first);
            mma_f16(c[1], a[t], second);
#pragma unroll
            for (uint32_t i = 0; i < 2; i++) {
                lo[2 * i] = c[0][2 * i];
                hi[2 * i] = c[0][2 * i + 1];
                lo[2 * i + 1] = c[1][2 * i];
                hi[2 * i + 1] = c[1][2 * i + 1];
            }
        }
    }
}

// Packs the probabilities of 16 keys: two adjacent score tiles are one A fragment.
template <class F>
static __device__ __forceinline__ void values_pack(uint32_t a[F::TILES][4],
                                                   const float s[F::TILES][8][4], uint32_t j)
{
    typename F::M type;
#pragma unroll
    for (uint32_t t = 0; t < F::TILES; t++)
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            a[t][i] = pack2(s[t][2 * j + i / 2] + i % 2 * 2, type);
}

// O += P V. With values in fp8 all probabilities are packed first, because conversions need the
// registers of the scores.
template <class F>
static __device__ __forceinline__ void
tile_values(attn_state<F> st[F::TILES], const float s[F::TILES][8][4],
            const attn_tile<ATTN_TILE_KEYS> &values, uint32_t dim)
{
    uint32_t lane = threadIdx.x % 32, a[4][F::TILES][4];
    uint32_t theirs = lane_row(lane % 16, lane / 16);
#pragma unroll
    for (uint32_t j = 0; F::FP8 && j < 4; j++)
        values_pack<F>(a[j], s, j);
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
        const char *rows = values.at + j * 16 * 128;
        if constexpr (F::FP8) {
            values_fp8<F>(st, a[j], rows, values.PANEL, theirs, dim);
        } else {
            values_pack<F>(a[j], s, j);
            values_half<F>(st, a[j], rows, values.PANEL, theirs, dim);
        }
    }
}
