// SPDX-License-Identifier: Apache-2.0
// Launches of the attention kernel of attn.h: its arguments, its grid, and the tables of instances
// that attn.cu chooses from.
#pragma once

#include "kernels/cuda/attn.h"

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
