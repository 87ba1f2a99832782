// SPDX-License-Identifier: Apache-2.0
// The walk of a warp's queries over the keys of an item: tile by tile within a part, and part by
// part with the state of earlier parts folded in.
#pragma once

#include "kernels/cuda/attn_bias.h"

// Positions of the first and the last query of a warp's rows; none: true if there are no rows.
struct attn_reach {
    uint32_t first, last;
    bool none;
};
template <class F>
static __device__ __forceinline__ attn_reach warp_reach(const attn_run &run, const attn_span &w)
{
    uint32_t row = w.first_row + warp_row<F>(0), packed = w.row.q_len * run.group;
    if (F::WARPS > 1)
        row = shfl_idx(row, 0); // so the compiler knows that branches on it do not diverge
    uint32_t end = row + ATTN_TILE_ROWS * F::TILES;
    return {w.position + row / run.group,
            w.position + ((end < packed ? end : packed) - 1) / run.group, row >= packed};
}
// tile_seen returns true if any row of the warp sees a key of the tile, tile_whole if all rows of
// the warp see all its keys.
static __device__ __forceinline__ bool tile_seen(const attn_shape &s, const attn_reach &r,
                                                 uint32_t tile, uint32_t kv_len)
{
    return !r.none && tile < attn_hi(s, r.last, kv_len) &&
           tile + ATTN_TILE_KEYS > attn_lo(s, r.first);
}
static __device__ __forceinline__ bool tile_whole(const attn_run &run, const attn_reach &r,
                                                  uint32_t tile, uint32_t kv_len)
{
    const attn_shape &s = run.args.shape;
    return !run.mask_all && tile >= attn_lo(s, r.last) &&
           tile + ATTN_TILE_KEYS <= attn_hi(s, r.first, kv_len);
}

// Computes a part, or less, of an item: keys [first, last), which are in one part. A tile whose
// keys all rows of the warp see is not masked. Rows past the end may then see it as well: their
// queries are zeros and their results are not used.
template <class F>
static __device__ __forceinline__ void part_run(const attn_run &run, const attn_span &w,
                                                const attn_tiles<F> &at, uint32_t first,
                                                uint32_t last, attn_state<F> st[F::TILES])
{
    const attn_args &a = run.args;
    attn_reach reach = warp_reach<F>(run, w);
    if (first < last) {
        tile_issue<F>(a, w, at.keys, first, 0);
        cp_async_commit();
        tile_issue<F>(a, w, at.values, first, 1);
        cp_async_commit();
    }
    for (uint32_t tile = first; tile < last; tile += ATTN_TILE_KEYS) {
        float s[F::TILES][8][4];
        uint32_t next = tile + ATTN_TILE_KEYS;
        bool seen = F::WARPS == 1 || tile_seen(a.shape, reach, tile, w.row.kv_len);
        cp_async_wait<1>();
        block_sync<F>();
        if (seen)
            tile_scores<F>(s, at, dim_of<F>(a));
        block_sync<F>();
        if (next < last)
            tile_issue<F>(a, w, at.keys, next, 0);
        cp_async_commit();
        if (seen) {
#pragma unroll
            for (uint32_t t = 0; t < F::TILES; t++) {
                if (F::BIASED && run.bias)
                    tile_bias<F>(run, w, s[t], t, tile);
                if (!tile_whole(run, reach, tile, w.row.kv_len))
                    tile_mask<F>(run, w, s[t], t, tile);
                tile_softmax<F>(s[t], &st[t], F::BIASED && run.bias ? 1.0f : run.scale);
            }
        }
        cp_async_wait<1>();
        block_sync<F>();
        if (seen)
            tile_values<F>(st, s, at.values, dim_of<F>(a));
        block_sync<F>();
        if (next < last)
            tile_issue<F>(a, w, at.values, next, 1);
        cp_async_commit();
    }
    cp_async_wait<0>();
#pragma unroll
    for (uint32_t t = 0; t < F::TILES; t++)
#pragma unroll
        for (uint32_t h = 0; h < 2; h++) {
            st[t].sum[h] = add_rn(st[t].sum[h], shfl_xor(st[t].sum[h], 1));
            st[t].sum[h] = add_rn(st[t].sum[h], shfl_xor(st[t].sum[h], 2));
        }
}

// Computes the factors that fold the state of a part into that of the earlier parts. Used by the
// walk below and by merges (attn_parts.h).
static __device__ __forceinline__ void fold_weights(float before, float part, float *keep,
                                                    float *add, float *max)
{
    *max = fmaxf(before, part);
    *keep = before == *max ? 1.0f : ex2(add_rn(before, -*max));
    *add = part == *max ? 1.0f : ex2(add_rn(part, -*max));
}

// Stores the walk state of a query tile in global scratch, with each word of all lanes side by
// side; only this warp reads it. All columns are stored, so that nothing depends on the head dim
// here. Words are stored instead of 16 bytes, because the sums leave few aligned registers.
template <class F>
static __device__ __forceinline__ void walk_keep(const attn_state<F> *st, float *scratch)
{
#pragma unroll
    for (uint32_t i = 0; i < F::COLUMNS / 2; i++)
        scratch[32 * i] = st->out[i / 4][i % 4];
#pragma unroll
    for (uint32_t h = 0; h < 2; h++) {
        scratch[32 * (F::COLUMNS / 2 + h)] = st->max[h];
        scratch[32 * (F::COLUMNS / 2 + 2 + h)] = st->sum[h];
    }
}

// Folds the stored walk state into st.
template <class F>
static __device__ __forceinline__ void walk_fold(attn_state<F> *st, const float *scratch)
{
    float keep[2], add[2];
#pragma unroll
    for (uint32_t h = 0; h < 2; h++) {
        float max = scratch[32 * (F::COLUMNS / 2 + h)];
        float sum = scratch[32 * (F::COLUMNS / 2 + 2 + h)];
        fold_weights(max, st->max[h], &keep[h], &add[h], &st->max[h]);
        st->sum[h] = fmaf(add[h], st->sum[h], mul_rn(keep[h], sum));
    }
#pragma unroll
    for (uint32_t i = 0; i < F::COLUMNS / 2; i++) {
        float *mine = &st->out[i / 4][i % 4];
        *mine = fmaf(add[i % 4 / 2], *mine, mul_rn(keep[i % 4 / 2], scratch[32 * i]));
    }
}

// Computes all parts in order. Uses the scratch only if there is more than one part.
template <class F>
static __device__ __forceinline__ void walk_run(const attn_run &run, const attn_span &w,
                                                const attn_tiles<F> &at, uint32_t first,
                                                uint32_t last, attn_state<F> st[F::TILES])
{
    for (uint32_t from = first; from < last;) {
        uint32_t part_end = (from / ATTN_PART_TOKENS + 1) * ATTN_PART_TOKENS;
        uint32_t end = part_end < last ? part_end : last;
        state_clear<F>(st);
        part_run<F>(run, w, at, from, end, st);
        uint32_t tile = blockIdx.x * (F::ROWS / ATTN_TILE_ROWS) + warp_row<F>(0) / ATTN_TILE_ROWS;
        float *scratch = run.walk_out + tile * F::WALK_FLOATS + threadIdx.x % 32;
#pragma unroll
        for (uint32_t t = 0; t < F::TILES; t++) {
            if (from != first)
                walk_fold<F>(&st[t], scratch + t * F::WALK_FLOATS);
            if (end != last)
                walk_keep<F>(&st[t], scratch + t * F::WALK_FLOATS);
        }
        from = end;
    }
}
