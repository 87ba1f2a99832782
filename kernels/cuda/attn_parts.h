// SPDX-License-Identifier: Apache-2.0
// Parts of a row that are separate items: each stores its state in global memory, and the warp that
// finishes last merges all of them in order. So no second launch is needed, and rows that are not
// cut into parts cost nothing.
#pragma once

#include "kernels/cuda/attn_walk.h"

// Returns the index of the state of a KV head's first part; the others follow.
static __device__ __forceinline__ uint32_t partial_first(const attn_merge &merge, uint32_t kv_head)
{
    return merge.partial + kv_head * merge.parts;
}

// Stores a part's state: lane (r, t) has elements (row r + 8 h, columns 8 i + 2 t and the next) of
// a [16][dim] f32 tile. Rows past the item's end are not stored, because no warp reads them.
template <class F>
static __device__ __forceinline__ void part_store(const attn_run &run, const attn_span &w,
                                                  uint32_t partial, const attn_state<F> *st)
{
    uint32_t lane = threadIdx.x % 32, dim = dim_of<F>(run.args);
    float *out = run.partial_out + (size_t)partial * ATTN_TILE_ROWS * dim + 2 * (lane % 4);
    float *state = run.partial_state + (size_t)partial * ATTN_TILE_ROWS * 2;
#pragma unroll
    for (uint32_t h = 0; h < 2; h++) {
        uint32_t row = lane / 4 + 8 * h;
        if (w.first_row + row >= w.row.q_len * run.group)
            continue;
#pragma unroll
        for (uint32_t i = 0; i < F::COLUMNS / 8; i++) {
            if (F::DIM == 0 && i * 8 >= dim)
                continue;
            out[row * dim + 8 * i] = st->out[i][2 * h];
            out[row * dim + 8 * i + 1] = st->out[i][2 * h + 1];
        }
        if (lane % 4 == 0) {
            state[row * 2] = st->max[h];
            state[row * 2 + 1] = st->sum[h];
        }
    }
}

// Returns true if all other parts have arrived. Release: the last warp must see this part; acquire:
// it sees the others. The last warp resets the counter for the next launch.
static __device__ __forceinline__ bool part_is_last(const attn_run &run, uint32_t merge,
                                                    uint32_t parts)
{
    uint32_t before = 0;
    cta_sync(); // all lanes have stored
    if (threadIdx.x % 32 == 0) {
        before = atom_add_acqrel_gpu(&run.arrived[merge], 1);
        if (before + 1 == parts)
            run.arrived[merge] = 0;
    }
    return shfl_idx(before, 0) + 1 == parts;
}

// Computes the factors of parts [first, first + 32), one part per lane, as fold_weights would in
// the order of parts. The keep factor of part 0 is -0: adding -0 leaves it unchanged.
static __device__ __forceinline__ void parts_weigh(attn_weights *weights, const float *states,
                                                   uint32_t rows, uint32_t first, uint32_t parts)
{
    uint32_t lane = threadIdx.x % 32, part = first + lane, current = first / MERGE_PARTS % 2;
#pragma unroll 2
    for (uint32_t row = 0; row < rows; row++) {
        float max = -INFINITY, sum = 0, keep, add, now;
        if (part < parts) {
            const float *state = states + (part * ATTN_TILE_ROWS + row) * 2;
            max = state[0];
            sum = state[1];
        }
        float before = first != 0 ? weights->max[current][row] : -INFINITY,
              top = fmaxf(before, max);
#pragma unroll
        for (uint32_t step = 1; step < 32; step *= 2) {
            float other = shfl_idx(top, (int)((lane - step) % 32));
            top = lane >= step ? fmaxf(top, other) : top;
        }
        float last = shfl_idx(top, (int)((lane - 1) % 32));
        fold_weights(lane > 0 ? last : before, max, &keep, &add, &now);
        uint4 w = {float_bits(part > 0 ? keep : -0.0f), float_bits(add), float_bits(sum), 0};
        sts128(&weights->of[row * MERGE_PITCH + lane], w);
        if (lane == 31)
            weights->max[current ^ 1][row] = top;
    }
}

// The elements that a lane merges together: four floats at each of four places of the tile; a place
// past its end is replaced by the first element, whose result is not stored.
struct merge_places {
    const float *from[MERGE_PLACES]; // address in the next part
    const attn_weight *weight[MERGE_PLACES];
    float out[MERGE_PLACES][4], sum[MERGE_PLACES];
};

// Folds the next AHEAD parts; their loads overlap.
template <uint32_t AHEAD>
static __device__ __forceinline__ void parts_fold(merge_places *m, size_t stride)
{
    uint4 v[AHEAD][MERGE_PLACES];
#pragma unroll
    for (uint32_t k = 0; k < MERGE_PLACES; k++)
#pragma unroll
        for (uint32_t u = 0; u < AHEAD; u++) {
            v[u][k] = ldg128(m->from[k]);
            m->from[k] += stride;
        }
#pragma unroll
    for (uint32_t u = 0; u < AHEAD; u++)
#pragma unroll
        for (uint32_t k = 0; k < MERGE_PLACES; k++) {
            uint4 w = lds128(m->weight[k] + u);
            float keep = bits_float(w.x), add = bits_float(w.y);
            float part[4] = {bits_float(v[u][k].x), bits_float(v[u][k].y), bits_float(v[u][k].z),
                             bits_float(v[u][k].w)};
            m->sum[k] = fmaf(add, bits_float(w.z), mul_rn(keep, m->sum[k]));
#pragma unroll
            for (uint32_t e = 0; e < 4; e++)
                m->out[k][e] = fmaf(add, part[e], mul_rn(keep, m->out[k][e]));
        }
#pragma unroll
    for (uint32_t k = 0; k < MERGE_PLACES; k++)
        m->weight[k] += AHEAD;
}

// Stores four elements of a merged tile, which begin at element `at`. max: of their row's scores,
// in shared memory.
template <class F>
static __device__ __forceinline__ void merge_store(const attn_run &run, const attn_span &w,
                                                   uint32_t at, const float *max, float sum,
                                                   float out[4])
{
    uint32_t dim = dim_of<F>(run.args), row = w.first_row + at / dim;
    uint32_t head = w.kv_head * run.group + row % run.group;
    if (F::BIASED && run.sinks)
        sum = sum_with_sink(run, head, sum, *max);
    float inverse = sum > 0.0f ? 1.0f / sum : 0.0f;
#pragma unroll
    for (uint32_t e = 0; e < 4; e++)
        out[e] = mul_rn(out[e], inverse);
    size_t token = w.row.q_start + row / run.group;
    typename F::T *to =
        (typename F::T *)run.args.out + (token * run.args.shape.heads + head) * dim + at % dim;
    ((uint32_t *)to)[0] = pack2(out, typename F::T());
    ((uint32_t *)to)[1] = pack2(out + 2, typename F::T());
}

// Folds the parts of a tile in order, with the arithmetic of walk_fold, 512 floats of the tile at a
// time.
template <class F>
static __device__ __forceinline__ void merge_run(const attn_run &run, const attn_span &w,
                                                 const attn_merge &merge, attn_weights *weights)
{
    uint32_t dim = dim_of<F>(run.args), left = w.row.q_len * run.group - w.first_row;
    // not the enums themselves: g++ warns of two types in one ?:
    const uint32_t rows = ATTN_TILE_ROWS, weighed = MERGE_PARTS, each = 128;
    const uint32_t most = MERGE_PLACES * each;
    uint32_t all = (left < rows ? left : rows) * dim;
    const uint32_t ahead = F::COLUMNS > 128 ? 2 : 4; // more would spill
    size_t stride = ATTN_TILE_ROWS * dim;
    size_t partial = partial_first(merge, w.kv_head);
    const float *outs = run.partial_out + partial * stride;
    const float *states = run.partial_state + partial * ATTN_TILE_ROWS * 2;
    // the maxima of the rows over all parts
    const float *max = weights->max[((merge.parts - 1) / MERGE_PARTS + 1) % 2];
    for (uint32_t from = 0; from < all; from += most) {
        uint32_t end = from + most < all ? from + most : all, mine = from + threadIdx.x % 32 * 4;
        uint32_t row = from / dim;
        merge_places m;
#pragma unroll
        for (uint32_t k = 0; k < MERGE_PLACES; k++) {
            uint32_t at = mine + each * k < all ? mine + each * k : from; // else not stored
            m.from[k] = outs + at;
            m.weight[k] = weights->of + (at / dim - row) * MERGE_PITCH;
            m.sum[k] = m.out[k][0] = m.out[k][1] = m.out[k][2] = m.out[k][3] = 0;
        }
        for (uint32_t first = 0; first < merge.parts; first += weighed) {
            uint32_t count = merge.parts - first < weighed ? merge.parts - first : weighed;
            cta_sync(); // lane 0 has acquired the states; all lanes have read the previous weights
            parts_weigh(weights, states + 2 * row, (end - 1) / dim + 1 - row, first, merge.parts);
            warp_sync();
#pragma unroll 1
            for (uint32_t p = ahead; p <= count; p += ahead)
                parts_fold<ahead>(&m, stride);
#pragma unroll 1
            for (uint32_t p = count / ahead * ahead; p < count; p++)
                parts_fold<1>(&m, stride);
#pragma unroll
            for (uint32_t k = 0; k < MERGE_PLACES; k++)
                m.weight[k] -= count;
        }
#pragma unroll
        for (uint32_t k = 0; k < MERGE_PLACES; k++)
            if (mine + each * k < all)
                merge_store<F>(run, w, mine + each * k, max + (mine + each * k) / dim - row,
                               m.sum[k], m.out[k]);
    }
}
