// SPDX-License-Identifier: Apache-2.0
// Launch and start of a step's kernels: a kernel may start before the previous one has ended, and
// may prefetch weights of the next product (decision 0049).
#pragma once

#include "kernels/cuda/dev.h"
#include "kernels/cuda/internal.h"
#include "kernels/ways.h"

// Launches a kernel of a step; it may start while the step's previous kernel still runs.
#define LAUNCH_STEP(kernel, grid, block, shared, stream, args)                                     \
    (kernel_prepare((stream)->device, (const void *)(kernel)),                                     \
     LAUNCH_EARLY(kernel, grid, block, shared, (stream)->cuda, stream_early(stream), args))
// Returns true if the next kernel of the step may start early: not the first one after a copy,
// graph or library call. Records that a kernel of a step is the stream's last work, and that it
// writes no codes of activations.
static inline bool stream_early(struct stream *stream)
{
    bool early = stream->device->early && stream->after_kernel;
    stream->after_kernel = true;
    stream->coded.x = NULL;
    return early;
}

// The beginning of every kernel of a step. Before it a kernel may only prefetch weights: it must
// not read or write global memory, and no thread may exit, because a kernel that waits for this one
// also relies on the earlier ones having ended.
static __device__ __forceinline__ void grid_begin()
{
    grid_wait();
    grid_trigger();
}

// Weights of the next product, which the kernel before it loads into L2. No kernel writes weights,
// so prefetching need not wait. It loads the beginning of the weight, because with few tokens a
// product reads all of it at about the same time.
struct prefetch_run {
    const char *at;
    uint32_t lines;       // lines of PREFETCH_LINE bytes
    bool sectors = false; // false: in bulk
};
enum {
    PREFETCH_LINE = 128,
    PREFETCH_SECTOR = 32,     // an instruction certainly loads no more
    PREFETCH_BULK = 4096,     // bytes that one instruction loads in bulk
    PREFETCH_BYTES = 4 << 20, // memory delivers that many in a little more than a microsecond
    PREFETCH_EACH = 16,       // most lines per thread
    PREFETCH_ROWS = 32,       // for more tokens, products are bound by math
};
// Returns what a kernel with `threads` threads prefetches of `next` (or NULL) in a step of `rows`
// tokens; no lines if kernels do not start early.
static inline prefetch_run prefetch_of(const struct stream *stream, const struct weight *next,
                                       uint32_t rows, uint32_t threads)
{
    if (!stream->device->early || !next || rows > PREFETCH_ROWS)
        return {NULL, 0};
    size_t bytes = (size_t)next->shape.n * weight_stride(&next->shape);
    bytes = weight_nibbles(&next->shape) ? next->bytes : bytes * weight_element_bytes(&next->shape);
    const size_t most_bytes = PREFETCH_BYTES; // g++ warns of enums of two types in one ?:
    size_t lines = (bytes < most_bytes ? bytes : most_bytes) / PREFETCH_LINE;
    size_t most = (size_t)threads * PREFETCH_EACH;
    return {(const char *)next->data, (uint32_t)(lines < most ? lines : most),
            (stream->device->options.ways & WAY_SECTORS) != 0};
}
// Prefetches the share of thread `thread` of `threads`: in bulk, the first lane of each warp for
// it.
static __device__ __forceinline__ void prefetch_share(const prefetch_run &p, uint32_t thread,
                                                      uint32_t threads)
{
    const uint32_t end = p.lines * PREFETCH_LINE, bulk = PREFETCH_BULK;
    if (p.sectors)
        for (uint32_t at = thread * PREFETCH_SECTOR; at < end; at += threads * PREFETCH_SECTOR)
            prefetch_l2(p.at + at);
    else if (thread % 32 == 0)
        for (uint32_t at = thread / 32 * bulk; at < end; at += threads / 32 * bulk)
            prefetch_l2_bulk(p.at + at, end - at < bulk ? end - at : bulk);
}
