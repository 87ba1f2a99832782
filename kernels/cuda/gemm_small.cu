// SPDX-License-Identifier: Apache-2.0
// The product for few tokens: y = x W^T + bias, reading every weight byte once.
#include "kernels/cuda/gemm_parts.h"
#include "kernels/cuda/gemm_small.h"

// Blocks per SM for which the compiler leaves registers; 0: it chooses. For codes of 4 bits and FP8
// it would save registers by loading a slab only after the one before.
template <class W, int TILES> struct small_blocks {
    enum { LEAST = 0 };
};
template <> struct small_blocks<fp8, 4> {
    enum { LEAST = 2 };
};
template <int KIND, int RUN, int TILES> struct small_blocks<codes<KIND, RUN>, TILES> {
    enum { LEAST = TILES == 4 ? 2 : 3 };
};

// 8 warps compute a tile. Shared: 4 to 16 KB. Bound: memory, n * k weights.
template <class T, class W, int TILES>
static __global__ void __launch_bounds__(256, small_blocks<W, TILES>::LEAST)
    gemm_small_kernel(gemm_run g)
{
    uint32_t feature = blockIdx.x * 16, token = blockIdx.y * 8 * TILES;
    small_rows<T, W, TILES> rows = small_rows_of<T, W, TILES>(g, feature, token, row_itself());
    grid_begin();
    small_tile<T, W, TILES, 8>(g, feature, token, rows, 0);
}

// --- launch -------------------------------------------------------------------------------------

template <class T, class W> static enum status small_launch(struct stream *stream, gemm_run g)
{
    uint32_t tiles = g.rows <= 8 ? 1 : g.rows <= 16 ? 2 : 4;
    dim3 grid(divide_up(g.n, 16), divide_up(g.rows, 8 * tiles));
    if (tiles == 1)
        LAUNCH_STEP((gemm_small_kernel<T, W, 1>), grid, dim3(256), 0, stream, g);
    else if (tiles == 2)
        LAUNCH_STEP((gemm_small_kernel<T, W, 2>), grid, dim3(256), 0, stream, g);
    else
        LAUNCH_STEP((gemm_small_kernel<T, W, 4>), grid, dim3(256), 0, stream, g);
    return launch_status();
}

enum status gemm_small(struct stream *stream, const struct gemm_args *args)
{
    return gemm_launches(args, [&](const gemm_run &g, auto act, auto weight) {
        return small_launch<decltype(act), decltype(weight)>(stream, g);
    });
}
