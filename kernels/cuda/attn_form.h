// SPDX-License-Identifier: Apache-2.0
// What all attention kernels share: the arguments of a launch, the work of an item, the parameters
// of a kernel known at compile time, and the state of a warp's queries.
#pragma once

#include "kernels/cuda/lane.h"

enum { ATTN_AHEAD_ALL = 1 << 30 }; // attn_run.args.shape.ahead: all later keys

struct attn_run {
    attn_args args;        // shape.ahead: later keys that a query sees, also 0 if causal
    const attn_work *work; // device
    float *partial_out, *partial_state, *walk_out;
    uint32_t *arrived;
    uint32_t group;     // query heads per KV head
    float scale;        // attn_shape.scale * log2(e)
    bool mask_all;      // the plan asks for masks in all tiles
    const float *bias;  // [heads][2 * reach + 1] by distance, or NULL
    const float *sinks; // [heads], or NULL
    prefetch_run next;  // prefetched by blocks of narrow items
};

// One item's work; equal in all threads of the block.
struct attn_span {
    step_row row;
    uint32_t kv_head, first_row; // first packed row of the block
    uint32_t position;           // position of the row's first query token
};

struct e4m3 {
    uint8_t bits;
};

// The type that tensor cores multiply: with keys and values in fp8 float16, which has all of their
// values, else the activation type.
template <class TYPE, class KEYS> struct attn_factor {
    using M = TYPE;
};
template <class TYPE> struct attn_factor<TYPE, e4m3> {
    using M = f16;
};
template <class A, class B> struct attn_differ {
    static constexpr bool YES = true;
};
template <class A> struct attn_differ<A, A> {
    static constexpr bool YES = false;
};

// Compile-time parameters of a kernel. KEYS: type of keys and values, e4m3 or TYPE. R: query rows
// of a block: a narrow item has 16 rows on one warp, a wide item 64 or 128 on four warps, which is
// one or two tiles per warp. D: head dim; 0 is the general kernel for any dim up to 256, known at
// run time.
template <class TYPE, class KEYS, int D, int R> struct attn_form {
    using T = TYPE;
    using KV = KEYS;
    using M = typename attn_factor<TYPE, KEYS>::M;
    static constexpr bool FP8 = sizeof(KEYS) == 1;
    static constexpr bool CONVERTS = attn_differ<T, M>::YES;   // true if queries are converted to M
    static constexpr uint32_t KV_COLUMNS = 128 / sizeof(KEYS); // columns of a panel
    static constexpr uint32_t KV_CHUNK = 16 / sizeof(KEYS);    // columns of a chunk
    static constexpr uint32_t DIM = D, COLUMNS = D != 0 ? D : 256;
    static constexpr int UNROLL = // how often loops of copies are unrolled: 1 saves registers
        D == 0 ? 1 : 16;
    static constexpr bool BIASED =
        D == 64; // can add a bias by distance, and sinks; other widths lack registers
    static constexpr uint32_t ROWS = R, WARPS = R == ATTN_TILE_ROWS ? 1 : 4;
    static constexpr uint32_t THREADS = 32 * WARPS, STEP = THREADS / 8;
    static constexpr uint32_t TILES = R / (ATTN_TILE_ROWS * WARPS); // tiles per warp
    static constexpr uint32_t WALK_FLOATS = (COLUMNS / 2 + 4) * 32; // state of a query tile
};
template <class F> static __device__ __forceinline__ uint32_t dim_of(const attn_args &a)
{
    return F::DIM != 0 ? F::DIM : a.shape.dim;
}
template <class F> static __device__ __forceinline__ void block_sync()
{
    if (F::WARPS == 1)
        warp_sync();
    else
        cta_sync();
}

// State of the two query rows (r and r + 8) of a lane: rows are shared by the four lanes of a quad.
template <class F> struct attn_state {
    float max[2], sum[2]; // sum: this lane's share
    float out[F::COLUMNS / 8][4];
};

template <class F> static __device__ __forceinline__ void state_clear(attn_state<F> st[F::TILES])
{
#pragma unroll
    for (uint32_t t = 0; t < F::TILES; t++) {
        st[t].max[0] = st[t].max[1] = -INFINITY;
        st[t].sum[0] = st[t].sum[1] = 0;
#pragma unroll
        for (uint32_t i = 0; i < F::COLUMNS / 8; i++)
            st[t].out[i][0] = st[t].out[i][1] = st[t].out[i][2] = st[t].out[i][3] = 0;
    }
}

// First row of a warp's query tile within the block's.
template <class F> static __device__ __forceinline__ uint32_t warp_row(uint32_t t)
{
    return (threadIdx.x / 32 * F::TILES + t) * ATTN_TILE_ROWS;
}

// Factors that fold a part into the state of the parts before it, and its sum. In shared memory,
// for the rows of a merge and 32 parts at a time; the tiles' space is free then.
struct attn_weight {
    float keep, add, sum, none;
};
enum { MERGE_PARTS = 32, MERGE_PITCH = MERGE_PARTS + 1, MERGE_PLACES = 4 };
struct attn_weights {
    attn_weight of[ATTN_TILE_ROWS * MERGE_PITCH]; // [row][part]; rows are on different banks
    float max[2][ATTN_TILE_ROWS]; // maximum of the parts before: one is read, the other written
};
