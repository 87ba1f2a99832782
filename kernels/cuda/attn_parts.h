// Parts of a row that are items of their own: each leaves its state in global memory, and the warp
// that comes last merges all of them in order. So there is no second launch, and nothing to do
// where a row is walked whole.
#pragma once

#include "kernels/cuda/attn_walk.h"

// The state of the first part of a KV head; the others follow.
static __device__ __forceinline__ uint32_t partial_first(const attn_merge &merge, uint32_t kv_head)
{
    return merge.partial + kv_head * merge.parts;
}

// Where lane (r, t) keeps element (row r + 8 h, column 8 i + 2 t) of a [16][dim] f32 tile. Rows
// past the item's end are not kept: nobody reads them.
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

// Whether all other parts are there. Release: this one is, for whoever comes last; acquire: the
// last one sees the others. The counter is zero again for the next launch.
static __device__ __forceinline__ bool part_last(const attn_run &run, uint32_t merge,
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

// Four floats of a row at a time, of four places at once so that loads overlap; parts are folded in
// order by the arithmetic of walk_fold.
template <class F>
static __device__ __forceinline__ void merge_run(const attn_run &run, const attn_span &w,
                                                 const attn_merge &merge)
{
    uint32_t dim = dim_of<F>(run.args), all = w.row.q_len * run.group * dim;
    size_t partial = partial_first(merge, w.kv_head);
    const float *outs = run.partial_out + partial * ATTN_TILE_ROWS * dim;
    const float *states = run.partial_state + partial * ATTN_TILE_ROWS * 2;
    typename F::T type;
    cta_sync(); // what lane 0 has acquired is read by all
    for (uint32_t from = threadIdx.x % 32 * 4; from < all; from += 512) {
        float max[4], sum[4], out[4][4];
#pragma unroll
        for (uint32_t k = 0; k < 4; k++) {
            max[k] = -INFINITY;
            sum[k] = out[k][0] = out[k][1] = out[k][2] = out[k][3] = 0;
        }
#pragma unroll 2
        for (uint32_t p = 0; p < merge.parts; p++)
#pragma unroll
            for (uint32_t k = 0; k < 4; k++) {
                uint32_t at = from + 128 * k < all ? from + 128 * k : from;
                const float *state = states + (p * ATTN_TILE_ROWS + at / dim) * 2;
                uint4 v = ldg128(outs + (size_t)p * ATTN_TILE_ROWS * dim + at);
                float part[4] = {bits_float(v.x), bits_float(v.y), bits_float(v.z),
                                 bits_float(v.w)};
                float keep, add;
                fold_weights(max[k], state[0], &keep, &add, &max[k]);
                sum[k] = p == 0 ? state[1] : fmaf(add, state[1], mul_rn(keep, sum[k]));
#pragma unroll
                for (uint32_t e = 0; e < 4; e++)
                    out[k][e] = p == 0 ? part[e] : fmaf(add, part[e], mul_rn(keep, out[k][e]));
            }
#pragma unroll
        for (uint32_t k = 0; k < 4; k++) {
            uint32_t at = from + 128 * k, row = at / dim;
            if (at >= all)
                break;
            float inverse = sum[k] > 0.0f ? 1.0f / sum[k] : 0.0f;
#pragma unroll
            for (uint32_t e = 0; e < 4; e++)
                out[k][e] = mul_rn(out[k][e], inverse);
            size_t token = w.row.q_start + row / run.group;
            uint32_t head = w.kv_head * run.group + row % run.group;
            typename F::T *to = (typename F::T *)run.args.out +
                                (token * run.args.shape.heads + head) * dim + at % dim;
            ((uint32_t *)to)[0] = pack2(out[k], type);
            ((uint32_t *)to)[1] = pack2(out[k] + 2, type);
        }
    }
}
