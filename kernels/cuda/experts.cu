// SPDX-License-Identifier: Apache-2.0
// gemm_experts: the products of experts, with the tiles of the other products, so that each row has
// the bits of a product of that row alone. Only the device knows the rows of each expert: a grid
// has blocks for as many tiles as there can be, each block finds its tile in the routing's offsets,
// and the blocks after the last tile exit. Tiles of an expert begin at its first sorted row, so an
// expert without rows has none, and a tile never has rows of two experts.
#include "kernels/cuda/gemm_parts.h"
#include "kernels/cuda/gemm_plain.h"
#include "kernels/cuda/gemm_small.h"
#include "kernels/cuda/gemm_wide.h"

// The kernel is chosen by numbers that the host knows: pairs, and the average of an expert's rows.
// The limits are where predicted times meet (bench/gpu_predictions.md).
enum {
    EXPERTS_SMALL_PAIRS = 16, // most pairs for tiles of 8 rows and 16 features: wider tiles would
                              // be too few to read memory at its rate
    EXPERTS_HALF_MAX = 32,    // most rows per expert for tiles of 32 rows; above, 64
    EXPERTS_WARPS = 4,        // warps of a tile of 8 rows: experts have few parts of K
};

struct experts_run {
    gemm_run g;             // the stack's first matrix
    enum dtype dtype;       // dtype of the weight
    const uint32_t *offset; // [held + 1] first sorted row of each expert that is held
    const uint32_t *order;  // [P] pair of each sorted row; NULL: x has sorted rows
    uint32_t held, chosen;
    uint32_t matrix_rows; // rows of a matrix of the stack, those of all parts
    size_t matrix_bytes;
};

// Returns the row of x of a sorted row.
struct row_of_sorted {
    const uint32_t *order; // NULL: x has sorted rows
    uint32_t chosen;
    __device__ __forceinline__ uint32_t operator()(uint32_t row) const
    {
        return order ? order[row] / chosen : row;
    }
};

// Returns the number of tiles of SIZE rows of an expert.
template <uint32_t SIZE>
static __device__ __forceinline__ uint32_t expert_tiles(const experts_run &e, uint32_t expert)
{
    return (e.offset[expert + 1] - e.offset[expert] + SIZE - 1) / SIZE;
}

// Finds tile `tile` of all tiles of SIZE rows: a lane counts those of some consecutive experts, and
// the lane that has the tile finds its expert. Returns false if there are not that many. Every warp
// of a block calls it, all with the same result.
template <uint32_t SIZE>
static __device__ __forceinline__ bool tile_find(const experts_run &e, uint32_t tile,
                                                 uint32_t *expert, uint32_t *first)
{
    uint32_t lane = threadIdx.x % 32, each = (e.held + 31) / 32;
    uint32_t at = lane * each, end = at + each < e.held ? at + each : e.held, own = 0;
    for (uint32_t i = at; i < end; i++)
        own += expert_tiles<SIZE>(e, i);
    uint32_t sum = own; // sum of the lanes up to this one
    for (uint32_t step = 1; step < 32; step *= 2) {
        uint32_t before = shfl_idx(sum, (int)(lane < step ? lane : lane - step));
        sum += lane < step ? 0 : before;
    }
    uint32_t left =
        tile - (sum - own); // tiles before it in this lane's experts, if it has the tile
    uint32_t owner = warp_ballot(left < own);
    if (owner == 0)
        return false;
    for (; at + 1 < end; at++) {
        uint32_t tiles = expert_tiles<SIZE>(e, at);
        if (left < tiles)
            break;
        left -= tiles;
    }
    *expert = shfl_idx(at, find_msb(owner));
    *first = e.offset[*expert] + SIZE * shfl_idx(left, find_msb(owner));
    return true;
}

// Finds a tile and sets *g to the product with its expert's matrix, whose tokens are the sorted
// rows up to the tile's end; *first: the tile's first row; *before: rows of the stack before the
// matrix. Returns false if there is no such tile.
template <uint32_t SIZE>
static __device__ __forceinline__ bool tile_product(const experts_run &e, uint32_t tile,
                                                    gemm_run *g, uint32_t *first, uint32_t *before)
{
    uint32_t expert;
    if (!tile_find<SIZE>(e, tile, &expert, first))
        return false;
    uint32_t end = e.offset[expert + 1];
    *g = e.g;
    g->rows = end - *first < SIZE ? end : *first + SIZE;
    *before = expert * e.matrix_rows;
    size_t bytes = expert * e.matrix_bytes;
    g->weight = (const char *)g->weight + bytes;
    g->codes.slabs += bytes;
    g->codes.scales += bytes;
    g->codes.supers += bytes;
    return true;
}

// Blocks per SM for which the compiler leaves registers; 0: it chooses.
template <class W> struct experts_blocks {
    enum { LEAST = sizeof(W) == 1 ? 9 : 0 }; // int8 and FP8
};
template <> struct experts_blocks<fp8_128> {
    enum { LEAST = 7 };
};
template <int KIND, int RUN> struct experts_blocks<codes<KIND, RUN>> {
    enum { LEAST = 7 };
};

// A block is (16 features, tile of 8 rows). Shared: 2 KB. Bound: memory, the weights of the experts
// that have rows.
template <class T, class W>
static __global__ void __launch_bounds__(32 * EXPERTS_WARPS, experts_blocks<W>::LEAST)
    experts_small_kernel(experts_run e)
{
    gemm_run g;
    uint32_t feature = blockIdx.x * 16, first, before;
    grid_begin();
    if (!tile_product<8>(e, blockIdx.y, &g, &first, &before))
        return;
    row_of_sorted row_of = {e.order, e.chosen};
    small_rows<T, W, 1> rows = small_rows_of<T, W, 1>(g, feature, first, row_of);
    small_tile<T, W, 1, EXPERTS_WARPS>(g, feature, first, rows, before);
}

// A block is (128 features, tile of ROWS rows). Shared: dynamic; for 32 and 64 rows 60 and 72 KB,
// int8 and FP8 36 and 48 KB, 4 bits 24 and 36 KB. Bound: memory with 32 rows, else math.
template <class T, class W, uint32_t ROWS>
static __global__ void __launch_bounds__(wide_threads<ROWS>()) experts_wide_kernel(experts_run e)
{
    gemm_run g;
    uint32_t feature = blockIdx.x * WIDE_FEATURES, first, before;
    grid_begin();
    if (!tile_product<ROWS>(e, blockIdx.y, &g, &first, &before))
        return;
    row_of_sorted row_of = {e.order, e.chosen};
    wide_tile(g, feature, first, wide_shares_of<T, W, ROWS>(g, feature, first, row_of), before);
}

// A block is (tile of 4 rows, 8 features). Bound: math.
template <class T> static __global__ void __launch_bounds__(256) experts_plain_kernel(experts_run e)
{
    plain_run p;
    uint32_t feature = blockIdx.y * PLAIN_FEATURES + threadIdx.x / 32, first, before;
    grid_begin();
    p.dtype = e.dtype;
    row_of_sorted row_of = {e.order, e.chosen};
    if (tile_product<PLAIN_TOKENS>(e, blockIdx.x, &p.g, &first, &before) && feature < p.g.n)
        plain_tile<T>(p, feature, first, row_of, before);
}

// --- launches -----------------------------------------------------------------------------------

static experts_run experts_run_of(const struct gemm_experts_args *args)
{
    const struct weight_shape *shape = &args->weight->shape;
    gemm_args product = {args->act, args->act, args->x,        args->weight,  args->bias,
                         args->y,   0,         args->x_stride, args->y_stride};
    experts_run e;
    e.g = gemm_run_of(&product);
    e.g.n = e.matrix_rows = weight_matrix_rows(shape);
    e.dtype = shape->dtype;
    e.offset = args->routing.offset + args->first;
    e.order = args->sorted ? NULL : args->routing.order;
    e.held = weight_stack(shape);
    e.chosen = args->routing.chosen;
    e.matrix_bytes = (size_t)e.g.n * e.g.stride * weight_element_bytes(shape);
    return e;
}

// Returns the largest number of tiles of `size` rows that `pairs` rows can have.
static uint32_t tiles_most(const experts_run &e, uint32_t pairs, uint32_t size)
{
    uint32_t used = pairs < e.held ? pairs : e.held; // experts that can have rows
    return (pairs + used * (size - 1)) / size;
}

template <class T, class W>
static enum status small_launch(struct stream *stream, const experts_run &e, uint32_t pairs)
{
    dim3 grid(divide_up(e.g.n, 16), tiles_most(e, pairs, 8));
    LAUNCH_STEP((experts_small_kernel<T, W>), grid, dim3(32 * EXPERTS_WARPS), 0, stream, e);
    return launch_status();
}

template <class T, class W, uint32_t ROWS>
static enum status wide_launch(struct stream *stream, const experts_run &e, uint32_t pairs)
{
    size_t shared = wide_bytes<W, ROWS>();
    enum status status = call_status(SHARED_ALLOW((experts_wide_kernel<T, W, ROWS>), shared));
    if (status != STATUS_OK)
        return status;
    dim3 grid(divide_up(e.g.n, WIDE_FEATURES), tiles_most(e, pairs, ROWS));
    LAUNCH_STEP((experts_wide_kernel<T, W, ROWS>), grid, dim3(wide_threads<ROWS>()), shared, stream,
                e);
    return launch_status();
}

template <class T, class W>
static enum status tiles_launch(struct stream *stream, const experts_run &e, uint32_t pairs,
                                uint32_t experts)
{
    if (pairs <= EXPERTS_SMALL_PAIRS || !e.g.vectors)
        return small_launch<T, W>(stream, e, pairs);
    if (pairs <= EXPERTS_HALF_MAX * experts)
        return wide_launch<T, W, WIDE_TOKENS / 2>(stream, e, pairs);
    return wide_launch<T, W, WIDE_TOKENS>(stream, e, pairs);
}

// Starts the products with each part of a stack that is held as codes.
template <class T>
static enum status parts_launch(struct stream *stream, const struct gemm_experts_args *args,
                                const experts_run &all)
{
    const struct weight *w = args->weight;
    gemm_args product = {args->act, args->act,      args->x,       w, args->bias, args->y,
                         0,         args->x_stride, args->y_stride};
    uint32_t pairs = args->routing.token_count * args->routing.chosen;
    enum status status = STATUS_OK;
    for (uint32_t row = 0; row < all.matrix_rows && status == STATUS_OK;) {
        struct code_span part = code_span_of(&w->shape, row);
        experts_run e = all;
        gemm_run_part(&e.g, &product, (const char *)w->data, part);
        e.matrix_bytes = code_matrix_bytes(&w->shape);
        status = with_codes(part.format, [&](auto held) {
            return tiles_launch<T, decltype(held)>(stream, e, pairs, args->routing.experts);
        });
        row += part.rows;
    }
    return status;
}

enum status cuda_gemm_experts(struct stream *stream, const struct gemm_experts_args *args)
{
    const struct weight_shape *shape = &args->weight->shape;
    uint32_t pairs = args->routing.token_count * args->routing.chosen;
    uint32_t experts = args->routing.experts;
    experts_run e = experts_run_of(args);
    if (pairs == 0)
        return STATUS_OK;
    if (weight_nibbles(shape))
        return args->act == DTYPE_BF16  ? parts_launch<bf16>(stream, args, e)
               : args->act == DTYPE_F16 ? parts_launch<f16>(stream, args, e)
                                        : STATUS_UNSUPPORTED;
    enum status status = with_weight(args->act, shape, [&](auto act, auto weight) {
        return tiles_launch<decltype(act), decltype(weight)>(stream, e, pairs, experts);
    });
    if (status != STATUS_UNSUPPORTED || shape->part_count > 0)
        return status;
    dim3 grid(tiles_most(e, pairs, PLAIN_TOKENS), divide_up(e.g.n, PLAIN_FEATURES));
    return with_type(args->act, [&](auto type) {
        LAUNCH_STEP(experts_plain_kernel<decltype(type)>, grid, dim3(256), 0, stream, e);
        return launch_status();
    });
}
