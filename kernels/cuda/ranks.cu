// SPDX-License-Identifier: Apache-2.0
// The work of collectives that remains on each rank after NCCL has transferred the data (comm.c):
// sums in the order of the ranks, and columns copied to their places.
#include "kernels/cuda/comm.h"
#include "kernels/cuda/lane.h"

// One thread per element. Bound: memory, 4 * parts * count bytes.
template <class T> static __global__ void __launch_bounds__(256) ranks_add_kernel(ranks_add a)
{
    uint32_t i = blockIdx.x * 256 + threadIdx.x;
    if (i >= a.count)
        return;
    float sum = a.from[i];
    for (uint32_t r = 1; r < a.parts; r++)
        sum = add_rn(sum, a.from[(size_t)r * a.count + i]);
    narrow((T *)a.to + i, sum);
}

struct columns_run {
    all_gather_args args;
    const float *from;
    uint32_t first[RANKS_MAX], count[RANKS_MAX]; // columns of each rank
};

// One block per 256 columns of a row. Bound: memory, 8 * rows * columns bytes.
static __global__ void __launch_bounds__(256) columns_put_kernel(columns_run a)
{
    uint32_t row = blockIdx.x, column = blockIdx.y * 256 + threadIdx.x, rank = 0;
    if (column >= a.args.ends[a.args.ranks - 1])
        return;
    while (column >= a.args.ends[rank])
        rank++;
    uint32_t first = a.first[rank];
    a.args.out[(size_t)row * a.args.stride + column] =
        a.from[(size_t)a.args.rows * first + (size_t)row * a.count[rank] + (column - first)];
}

// --- launches -----------------------------------------------------------------------------------

enum status ranks_sum(struct stream *stream, enum dtype act, const struct ranks_add *add)
{
    dim3 grid(divide_up(add->count, 256));
    return with_type(act, [&](auto type) {
        LAUNCH(ranks_add_kernel<decltype(type)>, grid, dim3(256), 0, stream->cuda, *add);
        return launch_status();
    });
}

enum status columns_put(struct stream *stream, const struct all_gather_args *args,
                        const float *from)
{
    dim3 grid(args->rows, divide_up(args->ends[args->ranks - 1], 256));
    columns_run run = {*args, from, {0}, {0}};
    for (uint32_t r = 0; r < args->ranks; r++) {
        run.first[r] = gather_first(args, r);
        run.count[r] = gather_count(args, r);
    }
    LAUNCH(columns_put_kernel, grid, dim3(256), 0, stream->cuda, run);
    return launch_status();
}
