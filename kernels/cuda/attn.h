// SPDX-License-Identifier: Apache-2.0
// The attention kernel on tensor cores, for prefill and decode: in blocks of four warps the queries
// of prefill rows share the tiles of keys and values; blocks of one warp serve decode rows. Tiles
// and addresses are in attn_tile.h, the arithmetic in attn_math.h, its order in attn_walk.h, parts
// that are separate items in attn_parts.h.
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

// --- launch -------------------------------------------------------------------------------------

static inline attn_run attn_run_of(struct stream *stream, const struct attn_args *args)
{
    attn_run run;
    run.args = *args;
    if (args->shape.causal)
        run.args.shape.ahead = 0;
    else if (args->shape.ahead == 0)
        run.args.shape.ahead = ATTN_AHEAD_ALL;
    run.work = (const attn_work *)((const char *)args->step + args->step_host->layout.private_part);
    run.partial_out = stream->partial_out;
    run.partial_state = stream->partial_state;
    run.walk_out = stream->walk_out;
    run.arrived = stream->arrived;
    run.group = args->shape.heads / args->shape.kv_heads;
    run.scale = args->shape.scale * ATTN_LOG2E;
    run.bias = args->bias ? (const float *)args->bias->data : NULL;
    run.sinks = args->sinks ? (const float *)args->sinks->data : NULL;
    run.next = {NULL, 0};
    run.mask_all = attn_plan_of(args->step_host)->mask_all != 0;
    return run;
}

// Returns the bytes of shared memory for a head dim: panels of queries, keys and values.
template <class F> static size_t attn_shared(uint32_t dim)
{
    return (size_t)F::ROWS * 128 * divide_up(dim, 64) +
           (size_t)2 * ATTN_TILE_KEYS * 128 * divide_up(dim, F::KV_COLUMNS);
}
// *out: blocks that an SM runs at the same time, limited by the space for walk states. Allows the
// kernel the shared memory of its largest dim, because the engine of another dim may launch it at
// the same time.
template <class F> static enum status attn_blocks(uint32_t dim, uint32_t *out)
{
    int blocks = 0;
    uint32_t walked = ATTN_WALK_ROWS / F::ROWS;
    auto kernel = attn_kernel<typename F::T, typename F::KV, F::DIM, F::ROWS>;
    enum status status = call_status(SHARED_ALLOW(kernel, attn_shared<F>(F::COLUMNS)));
    if (status == STATUS_OK)
        status = call_status(OCCUPANCY(kernel, F::THREADS, attn_shared<F>(dim), &blocks));
    *out = (uint32_t)blocks < walked ? (uint32_t)blocks : walked;
    return status;
}

template <class T, class KV, int DIM, int ROWS>
static enum status attn_launch(struct stream *stream, attn_run run, uint32_t count)
{
    using F = attn_form<T, KV, DIM, ROWS>;
    uint32_t dim = run.args.shape.dim;
    if (count == 0)
        return STATUS_OK;
    uint32_t *most = &stream->attn_blocks[F::WARPS == 1];
    if (*most == 0) {
        enum status status = attn_blocks<F>(dim, most);
        if (status != STATUS_OK)
            return status;
        *most *= stream->device->processors;
    }
    dim3 grid(count < *most ? count : *most);
    if (F::WARPS == 1)
        run.next = prefetch_of(stream, run.args.next, run.args.token_count, grid.x * 32);
    LAUNCH_STEP((attn_kernel<T, KV, DIM, ROWS>), grid, dim3(F::THREADS), attn_shared<F>(dim),
                stream, run);
    return launch_status();
}

// While a graph is recorded the counts of later replays are unknown, so the full grid is launched.
// A wide kernel is needed for rows of several tokens, and if a token has more than 16 heads per KV
// head (`many`); in the latter case narrow items exist only outside exact mode, where wide rows may
// be cut.
template <class T, class KV, int DIM, int WIDE>
static enum status attn_typed(struct stream *stream, const struct attn_args *args)
{
    attn_run run = attn_run_of(stream, args);
    const struct attn_work *work = attn_plan_of(args->step_host);
    uint32_t wide = work->wide_count * args->shape.kv_heads;
    uint32_t narrow = work->narrow_count * args->shape.kv_heads;
    if (stream->capturing) {
        bool many = run.group > ATTN_TILE_ROWS, cut = stream->attn_capacity.workers > 0;
        wide = many || args->step_host->q_len_max > 1 ? 0xFFFFFFFFu : 0;
        narrow = many && !cut ? 0 : 0xFFFFFFFFu;
    }
    enum status status = attn_launch<T, KV, DIM, WIDE>(stream, run, wide);
    return status != STATUS_OK ? status
                               : attn_launch<T, KV, DIM, ATTN_TILE_ROWS>(stream, run, narrow);
}
template <int DIM, int WIDE>
static enum status attn_of(struct stream *stream, const struct attn_args *args)
{
    return args->act == DTYPE_BF16 ? attn_typed<bf16, bf16, DIM, WIDE>(stream, args)
                                   : attn_typed<f16, f16, DIM, WIDE>(stream, args);
}
template <int DIM, int WIDE>
static enum status attn_fp8_of(struct stream *stream, const struct attn_args *args)
{
    return args->act == DTYPE_BF16 ? attn_typed<bf16, e4m3, DIM, WIDE>(stream, args)
                                   : attn_typed<f16, e4m3, DIM, WIDE>(stream, args);
}

template <int DIM, int WIDE> constexpr attn_kernels kernels_of()
{
    using narrow = attn_form<bf16, bf16, DIM, ATTN_TILE_ROWS>;
    return {attn_of<DIM, WIDE>, attn_blocks<narrow>, narrow::WALK_FLOATS, WIDE};
}
template <int DIM, int WIDE> constexpr attn_kernels kernels_fp8()
{
    using narrow = attn_form<bf16, e4m3, DIM, ATTN_TILE_ROWS>;
    return {attn_fp8_of<DIM, WIDE>, attn_blocks<narrow>, narrow::WALK_FLOATS, WIDE};
}
