// SPDX-License-Identifier: Apache-2.0
// route and combine, the ops before and after the products of experts. route chooses the experts of
// each token, one warp per token, and sorts the pairs by expert, one block per expert. Each block
// counts the pairs itself, so no counters are kept from one launch to the next.
#include "kernels/cuda/lane.h"

#include <math.h>

enum { ROUTE_THREADS = 128, SORT_WARPS = 4, COMBINE_THREADS = 128 };

// --- the experts of a token ---------------------------------------------------------------------

// SLOTS values of a lane; value i belongs to expert i * 32 + lane.
template <int SLOTS> struct lane_floats {
    float at[SLOTS];
};
template <int SLOTS> struct lane_keys {
    uint32_t at[SLOTS];
};

static __device__ __forceinline__ float exp_of(float x)
{
    return ex2(mul_rn(x, 1.44269504088896341f));
}

// Returns a word that is larger for larger numbers, and 1 for NaN. The key 0 marks experts that
// cannot be chosen.
static __device__ __forceinline__ uint32_t key_of(float x)
{
    uint32_t bits = float_bits(add_rn(x, 0.0f)); // -0 is 0
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u)
        return 1;
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

// Returns a bit for each slot of the lane: whether its key is among the `wanted` largest of the
// warp, equal keys in rising order of experts.
template <int SLOTS>
static __device__ __forceinline__ uint32_t largest_mark(const lane_keys<SLOTS> &key,
                                                        uint32_t wanted)
{
    uint32_t lane = threadIdx.x % 32, mark = 0;
    for (uint32_t j = 0; j < wanted; j++) {
        uint32_t best = 0, at = lane;
#pragma unroll
        for (int i = 0; i < SLOTS; i++)
            if (!(mark >> i & 1) && key.at[i] > best) {
                best = key.at[i];
                at = i * 32 + lane;
            }
        for (int step = 16; step > 0; step >>= 1) {
            uint32_t other = shfl_xor(best, step), other_at = shfl_xor(at, step);
            if (other > best || (other == best && other_at < at)) {
                best = other;
                at = other_at;
            }
        }
        if (at % 32 == lane)
            mark |= 1u << (at / 32);
    }
    return mark;
}

// Sets the keys of experts to 0 except in the groups that are kept. The value of a group is in the
// lane and slot that an expert of its number would have.
template <int SLOTS>
static __device__ __forceinline__ void groups_exclude(const route_args &a, lane_keys<SLOTS> *key,
                                                      const lane_floats<SLOTS> &value)
{
    uint32_t lane = threadIdx.x % 32, each = a.out.experts / a.groups;
    lane_keys<SLOTS> group;
#pragma unroll
    for (int i = 0; i < SLOTS; i++)
        group.at[i] = 0;
    for (uint32_t g = 0; g < a.groups; g++) {
        float first = -INFINITY, second = -INFINITY;
#pragma unroll
        for (int i = 0; i < SLOTS; i++) {
            uint32_t e = i * 32 + lane;
            if (e < g * each || e >= (g + 1) * each)
                continue;
            second = fmaxf(second, fminf(first, value.at[i]));
            first = fmaxf(first, value.at[i]);
        }
        for (int step = 16; step > 0; step >>= 1) {
            float other = shfl_xor(first, step), other_second = shfl_xor(second, step);
            second = fmaxf(fminf(first, other), fmaxf(second, other_second));
            first = fmaxf(first, other);
        }
#pragma unroll
        for (int i = 0; i < SLOTS; i++)
            if (g == i * 32 + lane)
                group.at[i] = key_of(a.group_top == 2 ? add_rn(first, second) : first);
    }
    uint32_t kept = largest_mark<SLOTS>(group, a.groups_kept);
#pragma unroll
    for (int i = 0; i < SLOTS; i++) {
        uint32_t g = (i * 32 + lane) / each; // past the last group for experts that do not exist
        uint32_t word = shfl_idx(kept, (int)(g % 32));
        if (g >= a.groups || !(word >> g / 32 & 1))
            key->at[i] = 0;
    }
}

// Computes the softmax of the values of the warp whose bit is set in `mark`; the others have no
// meaning afterwards.
template <int SLOTS>
static __device__ __forceinline__ void softmax(lane_floats<SLOTS> *x, uint32_t mark)
{
    float top = -INFINITY, sum = 0;
#pragma unroll
    for (int i = 0; i < SLOTS; i++)
        top = mark >> i & 1 ? fmaxf(top, x->at[i]) : top;
    top = warp_max(top);
#pragma unroll
    for (int i = 0; i < SLOTS; i++) {
        x->at[i] = exp_of(x->at[i] - top);
        sum = mark >> i & 1 ? add_rn(sum, x->at[i]) : sum;
    }
    sum = warp_sum(sum);
#pragma unroll
    for (int i = 0; i < SLOTS; i++)
        x->at[i] = x->at[i] / sum;
}

// Writes ids and weights of a token's pairs. mark: bits of the lane's chosen experts.
template <int SLOTS>
static __device__ __forceinline__ void pairs_write(const route_args &a, uint32_t token,
                                                   uint32_t mark, const lane_floats<SLOTS> &score)
{
    uint32_t lane = threadIdx.x % 32;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < SLOTS; i++)
        sum = mark >> i & 1 ? add_rn(sum, score.at[i]) : sum;
    sum = warp_sum(sum);
    sum = sum < 1e-20f ? 1e-20f : sum;
    size_t pair = (size_t)token * a.out.chosen;
#pragma unroll
    for (int i = 0; i < SLOTS; i++) {
        bool mine = mark >> i & 1;
        uint32_t all = warp_ballot(mine);
        if (mine) {
            size_t p = pair + pop_count(all & ((1u << lane) - 1));
            a.out.id[p] = i * 32 + lane;
            a.out.weight[p] = mul_rn(a.renormalise ? score.at[i] / sum : score.at[i], a.factor);
        }
        pair += pop_count(all);
    }
}

struct route_run {
    route_args args;
    const float *correction; // [E] or NULL
};

// One warp per token, SLOTS experts per lane. Bound: latency of the choices, which follow each
// other.
template <int SLOTS>
static __global__ void __launch_bounds__(ROUTE_THREADS) route_kernel(route_run r)
{
    const route_args &a = r.args;
    uint32_t lane = threadIdx.x % 32, experts = a.out.experts;
    uint32_t token = blockIdx.x * (ROUTE_THREADS / 32) + threadIdx.x / 32;
    grid_begin();
    if (token >= a.out.token_count)
        return;
    lane_floats<SLOTS> score, value;
    lane_keys<SLOTS> key;
    uint32_t there = 0; // bits of the lane's experts
#pragma unroll
    for (int i = 0; i < SLOTS; i++) {
        uint32_t e = i * 32 + lane;
        there |= (uint32_t)(e < experts) << i;
        value.at[i] = e < experts ? a.logits[(size_t)token * experts + e] : 0.0f;
        score.at[i] = value.at[i];
        if (a.score == ROUTE_SIGMOID)
            score.at[i] = 1.0f / (1.0f + exp_of(-value.at[i]));
    }
    if (a.score == ROUTE_SOFTMAX_ALL)
        softmax<SLOTS>(&score, there);
#pragma unroll
    for (int i = 0; i < SLOTS; i++) {
        bool mine = there >> i & 1;
        if (r.correction || a.groups > 0)
            value.at[i] = score.at[i];
        if (r.correction && mine)
            value.at[i] = add_rn(value.at[i], r.correction[i * 32 + lane]);
        key.at[i] = mine ? key_of(value.at[i]) : 0;
    }
    if (a.groups > 0)
        groups_exclude<SLOTS>(a, &key, value);
    uint32_t mark = largest_mark<SLOTS>(key, a.out.chosen);
    if (a.score == ROUTE_SOFTMAX_CHOSEN)
        softmax<SLOTS>(&score, mark);
    pairs_write<SLOTS>(a, token, mark, score);
}

// --- pairs in order of experts ------------------------------------------------------------------

static __device__ __forceinline__ uint32_t warp_count(uint32_t x)
{
    for (int step = 16; step > 0; step >>= 1)
        x += shfl_xor(x, step);
    return x;
}

// One block per expert: a warp counts the pairs of a part of the tokens that have a lower expert or
// this one, then writes its pairs after those of the warps before it. Shared: 32 bytes. Bound: the
// L2 cache, P ids for each expert.
static __global__ void __launch_bounds__(32 * SORT_WARPS) sort_kernel(struct routing r)
{
    SHARED(uint32_t, count, [SORT_WARPS][2]);
    uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, expert = blockIdx.x;
    uint32_t pairs = r.token_count * r.chosen, lower = 0, equal = 0;
    uint32_t each = (pairs + 32 * SORT_WARPS - 1) / (32 * SORT_WARPS) * 32, from = warp * each;
    uint32_t end = from + each < pairs ? from + each : pairs;
    grid_begin();
#pragma unroll 4
    for (uint32_t p = from + lane; p < end; p += 32) {
        uint32_t id = r.id[p];
        lower += id < expert;
        equal += id == expert;
    }
    lower = warp_count(lower);
    equal = warp_count(equal);
    if (lane == 0) {
        count[warp][0] = lower;
        count[warp][1] = equal;
    }
    cta_sync();
    uint32_t first = 0, row = 0;
    for (uint32_t w = 0; w < SORT_WARPS; w++) {
        first += count[w][0];
        row += w < warp ? count[w][1] : 0;
    }
    row += first;
    if (threadIdx.x == 0)
        r.offset[expert] = first;
    if (threadIdx.x == 0 && expert + 1 == r.experts)
        r.offset[r.experts] = pairs;
    for (uint32_t p = from + lane; equal != 0 && p < end + lane; p += 32) {
        bool mine = p < end && r.id[p] == expert;
        uint32_t all = warp_ballot(mine);
        if (mine) {
            uint32_t at = row + pop_count(all & ((1u << lane) - 1));
            r.order[at] = p;
            r.place[p] = at;
        }
        row += pop_count(all);
    }
}

// --- combine ------------------------------------------------------------------------------------

struct combine_run {
    combine_args args;
    bool vectors;
};

// A thread adds 8 columns of a token; a block is (token, slice of its row). Bound: memory, J + 1 or
// J + 2 rows of each token. O: type of the output.
template <class T, class O>
static __global__ void __launch_bounds__(COMBINE_THREADS) combine_kernel(combine_run c)
{
    const combine_args &a = c.args;
    const struct routing &r = a.routing;
    uint32_t token = blockIdx.x, at = (blockIdx.y * COMBINE_THREADS + threadIdx.x) * 8;
    float sum[8] = {0, 0, 0, 0, 0, 0, 0, 0}, v[8];
    grid_begin();
    if (at >= a.width)
        return;
    size_t pair = (size_t)token * r.chosen, out = (size_t)token * a.width;
    for (size_t p = pair; p < pair + r.chosen; p++) {
        if (r.id[p] - a.first >= a.held)
            continue; // an expert of another rank
        float weight = r.weight[p];
        load8_row((const T *)a.y + (size_t)r.place[p] * a.width, at, a.width, c.vectors, v);
        for (int i = 0; i < 8; i++)
            sum[i] = fmaf(weight, v[i], sum[i]);
    }
    if (a.shared) {
        float gate = a.gate ? 1.0f / (1.0f + exp_of(-a.gate[token])) : 1.0f;
        load8_row((const O *)a.shared + out, at, a.width, c.vectors, v);
        for (int i = 0; i < 8; i++)
            sum[i] = fmaf(gate, v[i], sum[i]);
    }
    store8_row((O *)a.out + out, at, a.width, c.vectors, sum);
}

// --- launches -----------------------------------------------------------------------------------

enum status cuda_route(struct stream *stream, const struct route_args *args)
{
    const struct weight *correction = args->correction;
    route_run run = {*args, correction ? (const float *)correction->data : NULL};
    if (args->out.token_count == 0)
        return STATUS_OK;
    dim3 grid(divide_up(args->out.token_count, ROUTE_THREADS / 32)), block(ROUTE_THREADS);
    if (args->out.experts <= 128)
        LAUNCH_STEP(route_kernel<4>, grid, block, 0, stream, run);
    else
        LAUNCH_STEP(route_kernel<EXPERTS_MAX / 32>, grid, block, 0, stream, run);
    LAUNCH_STEP(sort_kernel, dim3(args->out.experts), dim3(32 * SORT_WARPS), 0, stream, args->out);
    return launch_status();
}

enum status cuda_combine(struct stream *stream, const struct combine_args *args)
{
    if (args->routing.token_count == 0)
        return STATUS_OK;
    combine_run run = {*args, rows_whole(args->width)};
    dim3 grid(args->routing.token_count, divide_up(args->width, 8 * COMBINE_THREADS));
    return with_type(args->act, [&](auto type) {
        typedef decltype(type) T;
        if (args->out_dtype == DTYPE_F32)
            LAUNCH_STEP((combine_kernel<T, float>), grid, dim3(COMBINE_THREADS), 0, stream, run);
        else
            LAUNCH_STEP((combine_kernel<T, T>), grid, dim3(COMBINE_THREADS), 0, stream, run);
        return launch_status();
    });
}
