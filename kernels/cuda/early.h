// How the kernels of a step are launched, and how they begin: before the one in front of them has
// ended, with the weights of the next product on their way (decision 0049).
#pragma once

#include "kernels/cuda/dev.h"
#include "kernels/cuda/internal.h"

// A kernel of a step: it may begin while the step's kernel in front of it still runs.
#define LAUNCH_STEP(kernel, grid, block, shared, stream, args)                                     \
    LAUNCH_EARLY(kernel, grid, block, shared, (stream)->cuda, stream_early(stream), args)
static inline bool stream_early(struct stream *stream)
{
    bool early = stream->device->early && stream->after_kernel;
    stream->after_kernel = true;
    return early;
}

// How a kernel of a step begins: before it nothing in global memory may be read or written, and no
// thread may leave, since whoever waits for this kernel relies on those in front of it, too.
static __device__ __forceinline__ void grid_begin()
{
    grid_wait();
    grid_trigger();
}

// Weights that the kernel in front of a product brings to L2: nobody writes them, so that it need
// not wait for anything. The first ones, since all are read at once by few tokens.
struct prefetch_run {
    const char *at;
    uint32_t lines; // of PREFETCH_LINE bytes
};
enum {
    PREFETCH_LINE = 128,
    PREFETCH_BYTES = 4 << 20, // what memory brings in a little more than a microsecond
    PREFETCH_EACH = 16,       // lines of a thread, at most
    PREFETCH_ROWS = 32,       // of more tokens products are bound by their math
};
static inline prefetch_run prefetch_of(const struct stream *stream, const struct weight *next,
                                       uint32_t rows, uint32_t threads)
{
    if (!stream->device->early || !next || rows > PREFETCH_ROWS)
        return {NULL, 0};
    size_t bytes = (size_t)next->shape.n * weight_stride(&next->shape);
    bytes *= dtype_bytes(next->shape.dtype);
    const size_t most_bytes = PREFETCH_BYTES; // g++ warns of enums of two types in one ?:
    size_t lines = (bytes < most_bytes ? bytes : most_bytes) / PREFETCH_LINE;
    size_t most = (size_t)threads * PREFETCH_EACH;
    return {(const char *)next->data, (uint32_t)(lines < most ? lines : most)};
}
// The share of one of `threads` threads.
static __device__ __forceinline__ void prefetch_share(const prefetch_run &p, uint32_t thread,
                                                      uint32_t threads)
{
    for (uint32_t line = thread; line < p.lines; line += threads)
        prefetch_l2(p.at + (size_t)line * PREFETCH_LINE);
}
