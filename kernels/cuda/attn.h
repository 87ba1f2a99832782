// SPDX-License-Identifier: Apache-2.0
// The attention kernel on tensor cores, for prefill and decode: in blocks of four warps the queries
// of prefill rows share the tiles of keys and values; blocks of one warp serve decode rows. Tiles
// and addresses are in attn_tile.h, the arithmetic in attn_math.h, its order in attn_walk.h, parts
// that are separate items in attn_parts.h, launches in attn_launch.h.
#pragma once

#include "kernels/cuda/attn_parts.h"

// Writes the finished rows in 16-byte stores, after collecting them in the warp's rows of the query
// tile.
template <class F>
static __device__ __forceinline__ void tile_store(const attn_run &run, const attn_span &w,
                                                  const attn_tile<F::ROWS> &through, uint32_t t,
                                                  const attn_state<F> *st)
{
    uint32_t lane = threadIdx.x % 32, row0 = warp_row<F>(t), dim = dim_of<F>(run.args);
    typename F::T type;
    warp_sync();
#pragma unroll
    for (uint32_t h = 0; h < 2; h++) {
        float sum = st->sum[h];
        if (F::BIASED && run.sinks) {
            uint32_t row = w.first_row + row0 + lane / 4 + 8 * h;
            sum = sum_with_sink(run, w.kv_head * run.group + row % run.group, sum, st->max[h]);
        }
        float inverse = sum > 0.0f ? 1.0f / sum : 0.0f;
#pragma unroll
        for (uint32_t i = 0; i < F::COLUMNS / 8; i++) {
            if (F::DIM == 0 && i * 8 >= dim)
                continue;
            float v[2] = {mul_rn(st->out[i][2 * h], inverse),
                          mul_rn(st->out[i][2 * h + 1], inverse)};
            char *at = through.chunk(row0 + lane / 4 + 8 * h, i / 8, i % 8) + lane % 4 * 4;
            *(uint32_t *)at = pack2(v, type);
        }
    }
    warp_sync();
    uint32_t chunk = lane % 8, packed = w.row.q_len * run.group;
#pragma unroll
    for (uint32_t i = 0; i < ATTN_TILE_ROWS; i += 4) {
        uint32_t local = row0 + i + lane / 8, row = w.first_row + local;
        if (row >= packed)
            break;
        size_t token = w.row.q_start + row / run.group;
        uint32_t head = w.kv_head * run.group + row % run.group;
        char *out = (char *)run.args.out +
                    ((token * run.args.shape.heads + head) * dim + chunk * 8) * sizeof type;
#pragma unroll
        for (uint32_t p = 0; p < (F::COLUMNS + 63) / 64; p++)
            if ((8 * p + chunk) * 8 < dim)
                stg128(out + p * 128, lds128(through.chunk(local, p, chunk)));
    }
}

// Returns the number of pieces of this kernel: one for each item of the plan and KV head.
template <class F> static __device__ __forceinline__ uint32_t piece_count(const attn_run &run)
{
    uint32_t items = F::WARPS == 1 ? run.work->narrow_count : run.work->wide_count;
    return items * run.args.shape.kv_heads;
}
template <class F>
static __device__ __forceinline__ attn_item item_of(const attn_run &run, uint32_t piece)
{
    uint32_t at = F::WARPS == 1 ? run.work->narrow_at : run.work->wide_at;
    return ((const attn_item *)((const char *)run.work + at))[piece / run.args.shape.kv_heads];
}
static __device__ __forceinline__ uint32_t part_of(const attn_item &item)
{
    return item.tile_part & ((1u << ATTN_TILE_SHIFT) - 1u);
}
template <class F>
static __device__ __forceinline__ attn_span span_of(const attn_run &run, const attn_item &item,
                                                    uint32_t piece)
{
    const step *step = run.args.step;
    attn_span w;
    w.row = ((const step_row *)((const char *)step + step->layout.rows))[item.row];
    w.kv_head = piece % run.args.shape.kv_heads;
    w.first_row =
        (item.merge == ATTN_ALL_PARTS ? item.tile_part : item.tile_part >> ATTN_TILE_SHIFT) *
        F::ROWS;
    w.position = w.row.kv_len > w.row.q_len ? w.row.kv_len - w.row.q_len : 0;
    return w;
}

// Blocks of one warp at dim 64 that fit the shared memory of an SM.
#if __CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 890 || __CUDA_ARCH__ == 1200
enum { ATTN_BLOCKS_64 = 5 };
#else
enum { ATTN_BLOCKS_64 = 12 };
#endif

// Each block loops over pieces, so the grid is fixed. Shared: panels of queries, keys and values.
// Bound: with four warps math, with one warp the bytes of K and V. The launch bounds leave
// registers for two blocks of four warps per SM, or eight of one warp (at dim 64 as many as fit);
// without them the compiler would spill to fit a third.
template <class T, class KV, int DIM, int ROWS>
static __global__ void __launch_bounds__(ROWS == ATTN_TILE_ROWS ? 32 : 128,
                                         ROWS != ATTN_TILE_ROWS ? 2
                                         : DIM == 64            ? ATTN_BLOCKS_64
                                                                : 8) attn_kernel(attn_run run)
{
    using F = attn_form<T, KV, DIM, ROWS>;
    SHARED_DYNAMIC(char, shared);
    const attn_args &a = run.args;
    attn_tiles<F> at = tiles_of<F>(a, shared);
    if (F::WARPS == 1)
        prefetch_share(run.next, blockIdx.x * 32 + threadIdx.x, gridDim.x * 32);
    grid_begin();
    for (uint32_t i = blockIdx.x; i < piece_count<F>(run); i += gridDim.x) {
        attn_item item = item_of<F>(run, i);
        attn_span w = span_of<F>(run, item, i);
        query_issue<F>(run, w, at.query);
        cp_async_commit(); // completes with the first tile of keys
        if (F::CONVERTS) { // before the sums need registers
            cp_async_wait<0>();
            query_convert<F>(a, at.query);
        }
        uint32_t packed = w.row.q_len * run.group;
        uint32_t end_row = w.first_row + F::ROWS < packed ? w.first_row + F::ROWS : packed;
        uint32_t first = attn_lo(a.shape, w.position + w.first_row / run.group);
        uint32_t last = attn_hi(a.shape, w.position + (end_row - 1) / run.group, w.row.kv_len);
        attn_state<F> st[F::TILES];
        state_clear<F>(st);
        first = first / ATTN_TILE_KEYS * ATTN_TILE_KEYS;
        if (F::WARPS != 1 || item.merge == ATTN_ALL_PARTS) {
            walk_run<F>(run, w, at, first, last, st);
            cp_async_wait<0>();
            w = span_of<F>(run, item_of<F>(run, i), i); // reloaded, to save registers
#pragma unroll
            for (uint32_t t = 0; t < F::TILES; t++)
                tile_store<F>(run, w, at.query, t, &st[t]);
        } else {
            uint32_t begin = part_of(item) * run.work->part_tokens;
            uint32_t end = begin + run.work->part_tokens;
            part_run<F>(run, w, at, first > begin ? first : begin, last < end ? last : end, st);
            item = item_of<F>(run, i);
            w = span_of<F>(run, item, i);
            const attn_merge &merge =
                ((const attn_merge *)((const char *)run.work + run.work->merge_at))[item.merge];
            part_store<F>(
                run, w, partial_first(merge, w.kv_head) + part_of(item) - merge.first_part, &st[0]);
            if (part_is_last(run, item.merge * a.shape.kv_heads + w.kv_head, merge.parts))
                merge_run<F>(run, w, merge, (attn_weights *)shared);
        }
        block_sync<F>();
    }
}
