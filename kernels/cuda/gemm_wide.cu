// SPDX-License-Identifier: Apache-2.0
// The product for many tokens: tiles of 128 features x 64 tokens, or 32, through shared memory.
// Also the plain product, for float32 and for mixed types.
#include "kernels/cuda/gemm_parts.h"
#include "kernels/cuda/gemm_plain.h"
#include "kernels/cuda/gemm_wide.h"

// Most tiles of tokens that blocks with consecutive numbers compute with the same features.
enum { WIDE_GROUP = 16 };

// A block computes one tile. Blocks run in the order x, y, z: the tiles of tokens of a group, then
// the features, then the next group. So the blocks that run at the same time share a few strips of
// weights, each of which is read from memory once per group, and the tokens of a group stay in L2.
// Shared: 72 KB (int8 and FP8: 48 KB, 4 bits: 36 KB), dynamic; 12 KB less with 32 tokens. Bound:
// math; with 32 tokens memory.
template <class T, class W, uint32_t TOKENS>
static __global__ void __launch_bounds__(wide_threads<TOKENS>()) gemm_wide_kernel(gemm_run g)
{
    uint32_t feature = blockIdx.y * WIDE_FEATURES;
    uint32_t token = (blockIdx.z * gridDim.x + blockIdx.x) * TOKENS;
    wide_shares<T, W, TOKENS> shares =
        wide_shares_of<T, W, TOKENS>(g, feature, token, row_itself());
    grid_begin();
    if (token < g.rows) // the last group may have fewer tiles
        wide_tile(g, feature, token, shares, 0);
}

// One warp per feature and four tokens. Bound: math.
template <class T> static __global__ void __launch_bounds__(256) gemm_plain_kernel(plain_run p)
{
    uint32_t feature = blockIdx.y * PLAIN_FEATURES + threadIdx.x / 32;
    grid_begin();
    if (feature < p.g.n)
        plain_tile<T>(p, feature, blockIdx.x * PLAIN_TOKENS, row_itself(), 0);
}

// --- launches -----------------------------------------------------------------------------------

template <class T, class W, uint32_t TOKENS>
static enum status wide_launch(struct stream *stream, const gemm_run &g)
{
    size_t shared = wide_bytes<W, TOKENS>();
    enum status status = call_status(SHARED_ALLOW((gemm_wide_kernel<T, W, TOKENS>), shared));
    if (status != STATUS_OK)
        return status;
    uint32_t tiles = divide_up(g.rows, TOKENS), groups = divide_up(tiles, WIDE_GROUP);
    dim3 grid(divide_up(tiles, groups), divide_up(g.n, WIDE_FEATURES), groups);
    LAUNCH_STEP((gemm_wide_kernel<T, W, TOKENS>), grid, dim3(wide_threads<TOKENS>()), shared,
                stream, g);
    return launch_status();
}

enum status gemm_wide(struct stream *stream, const struct gemm_args *args)
{
    if (!gemm_run_of(args).vectors) // rows of x that cannot be read in vectors
        return gemm_small(stream, args);
    return gemm_launches(args, [&](const gemm_run &g, auto act, auto weight) {
        typedef decltype(act) T;
        typedef decltype(weight) W;
        return g.rows <= WIDE_TOKENS / 2 ? wide_launch<T, W, WIDE_TOKENS / 2>(stream, g)
                                         : wide_launch<T, W, WIDE_TOKENS>(stream, g);
    });
}

enum status gemm_plain(struct stream *stream, const struct gemm_args *args)
{
    plain_run p = {gemm_run_of(args), args->weight->shape.dtype};
    // rows in x: y is at most 65,535
    dim3 grid(divide_up(p.g.rows, PLAIN_TOKENS), divide_up(p.g.n, PLAIN_FEATURES));
    return with_type(args->x_dtype, [&](auto type) {
        LAUNCH_STEP(gemm_plain_kernel<decltype(type)>, grid, dim3(256), 0, stream, p);
        return launch_status();
    });
}
