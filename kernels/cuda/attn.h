// The kernel of attention on tensor cores, for prefill and decode alike: blocks of four warps share
// the tiles of keys and values among the queries of prefill rows; blocks of one warp serve decode
// rows. Tiles and addresses are in attn_tile.h, the arithmetic in attn_math.h, its order in
// attn_walk.h, parts on blocks of their own in attn_parts.h.
#pragma once

#include "kernels/cuda/attn_parts.h"

// The finished rows go out through the warp's own rows of the query tile, in 16-byte stores.
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
        float inverse = st->sum[h] > 0.0f ? 1.0f / st->sum[h] : 0.0f;
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

// The pieces of this kernel: an item of the plan for each KV head.
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
template <class F>
static __device__ __forceinline__ attn_span span_of(const attn_run &run, const attn_item &item,
                                                    uint32_t piece)
{
    const step *step = run.args.step;
    attn_span w;
    w.row = ((const step_row *)((const char *)step + step->layout.rows))[item.row];
    w.kv_head = piece % run.args.shape.kv_heads;
    w.first_row = F::WARPS == 1 ? 0 : item.at * F::ROWS;
    w.position = w.row.kv_len > w.row.q_len ? w.row.kv_len - w.row.q_len : 0;
    return w;
}

// Blocks per processor that the compiler must leave registers for: as many as shared memory admits
// of one warp, two of four warps. Left to itself it would spill for a third.
template <int WARPS> constexpr int attn_blocks()
{
    return WARPS == 4 ? 2 : 8;
}

// Blocks take items in turn, so the grid is fixed. Shared: (ROWS + 128) rows of whole panels.
// Bound: four warps math, one warp the bytes of K and V.
template <class T, int DIM, int WARPS>
static __global__ void __launch_bounds__(32 * WARPS, (attn_blocks<WARPS>()))
    attn_kernel(attn_run run)
{
    using F = attn_form<T, DIM, WARPS>;
    SHARED_DYNAMIC(char, shared);
    const attn_args &a = run.args;
    attn_place<F> at = place_of<F>(a, shared);
    for (uint32_t i = blockIdx.x; i < piece_count<F>(run); i += gridDim.x) {
        attn_item item = item_of<F>(run, i);
        attn_span w = span_of<F>(run, item, i);
        query_issue<F>(run, w, at.query);
        cp_async_commit(); // waited for with the first tile of keys
        uint32_t packed = w.row.q_len * run.group;
        uint32_t end_row = w.first_row + F::ROWS < packed ? w.first_row + F::ROWS : packed;
        uint32_t first = attn_lo(a.shape, w.position + w.first_row / run.group);
        uint32_t last = attn_hi(a.shape, w.position + (end_row - 1) / run.group, w.row.kv_len);
        attn_state<F> st[F::TILES];
        state_clear<F>(st);
        first = first / ATTN_TILE_KEYS * ATTN_TILE_KEYS;
        if (F::WARPS != 1 || item.merge == ATTN_WALK) {
            walk_run<F>(run, w, at, first, last, st);
            cp_async_wait<0>();
            w = span_of<F>(run, item_of<F>(run, i), i); // not kept in registers meanwhile
#pragma unroll
            for (uint32_t t = 0; t < F::TILES; t++)
                tile_store<F>(run, w, at.query, t, &st[t]);
        } else {
            uint32_t begin = item.at * run.work->part_tokens, end = begin + run.work->part_tokens;
            part_run<F>(run, w, at, first > begin ? first : begin, last < end ? last : end, st);
            item = item_of<F>(run, i);
            w = span_of<F>(run, item, i);
            const attn_merge &merge =
                ((const attn_merge *)((const char *)run.work + run.work->merge_at))[item.merge];
            part_store<F>(run, w, partial_first(merge, w.kv_head) + item.at - merge.part, &st[0]);
            if (part_last(run, item.merge * a.shape.kv_heads + w.kv_head, merge.parts))
                merge_run<F>(run, w, merge);
        }
        block_sync<F>();
    }
}

// --- launch -------------------------------------------------------------------------------------

static inline attn_run attn_run_of(struct stream *stream, const struct attn_args *args)
{
    attn_run run;
    run.args = *args;
    run.work = (const attn_work *)((const char *)args->step + args->step_host->layout.private_part);
    run.partial_out = stream->partial_out;
    run.partial_state = stream->partial_state;
    run.walk_out = stream->walk_out;
    run.arrived = stream->arrived;
    run.group = args->shape.heads / args->shape.kv_heads;
    run.scale = args->shape.scale * 1.44269504088896341f;
    run.mask_all = attn_plan_of(args->step_host)->mask_all != 0;
    return run;
}

template <class T, int DIM, int WARPS>
static enum status attn_launch(struct stream *stream, const attn_run &run, uint32_t count)
{
    using F = attn_form<T, DIM, WARPS>;
    if (count == 0)
        return STATUS_OK;
    constexpr size_t panel = (size_t)(F::ROWS + 2 * ATTN_TILE_KEYS) * 128; // 64 columns
    size_t shared = panel * divide_up(run.args.shape.dim, 64);
    // The most, because the engine of another dim may launch the same kernel at the same time.
    if (SHARED_ALLOW((attn_kernel<T, DIM, WARPS>), panel * divide_up(F::COLUMNS, 64)) !=
        cudaSuccess)
        return STATUS_DEVICE_FAULT;
    uint32_t *most = &stream->attn_blocks[WARPS == 1];
    if (*most == 0) {
        int blocks = 0;
        enum status status =
            call_status(OCCUPANCY((attn_kernel<T, DIM, WARPS>), 32 * WARPS, shared, &blocks));
        if (status != STATUS_OK)
            return status;
        uint32_t walked = ATTN_WALK_ROWS / F::ROWS; // there is no room for more
        *most =
            stream->device->processors * ((uint32_t)blocks < walked ? (uint32_t)blocks : walked);
    }
    dim3 grid(count < *most ? count : *most);
    LAUNCH((attn_kernel<T, DIM, WARPS>), grid, dim3(32 * WARPS), shared, stream->cuda, run);
    return launch_status();
}

// While a graph is recorded the counts of later replays are unknown: the whole grid is launched,
// the wide kernel only where one query token has more than 16 heads a KV head.
template <int DIM> static enum status attn_of(struct stream *stream, const struct attn_args *args)
{
    attn_run run = attn_run_of(stream, args);
    const struct attn_work *work = attn_plan_of(args->step_host);
    uint32_t wide = work->wide_count * args->shape.kv_heads;
    uint32_t narrow = work->narrow_count * args->shape.kv_heads;
    if (stream->capturing) {
        wide = run.group > ATTN_TILE_ROWS || args->step_host->q_len_max > 1 ? 0xFFFFFFFFu : 0;
        narrow = run.group > ATTN_TILE_ROWS ? 0 : 0xFFFFFFFFu;
    }
    if (args->act == DTYPE_BF16) {
        enum status status = attn_launch<bf16, DIM, 4>(stream, run, wide);
        return status != STATUS_OK ? status : attn_launch<bf16, DIM, 1>(stream, run, narrow);
    }
    enum status status = attn_launch<f16, DIM, 4>(stream, run, wide);
    return status != STATUS_OK ? status : attn_launch<f16, DIM, 1>(stream, run, narrow);
}

template <int DIM> constexpr attn_kernels kernels_of()
{
    using wide = attn_form<bf16, DIM, 4>;
    return {attn_of<DIM>, wide::WALK_FLOATS, wide::ROWS};
}
