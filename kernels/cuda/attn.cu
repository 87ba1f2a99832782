// Attention's other kernels: the merge of parts that were computed apart, and the plain form for
// float32 (and for a KV type other than the activation's).
#include "kernels/cuda/attn.h"

// One block of 128 a tile of 16 packed rows, a thread a column at a time; parts are folded in order
// by the arithmetic of walk_fold. Bound: latency; parts * 16 * dim * 4 bytes.
template <class T> static __global__ void __launch_bounds__(128) attn_merge_kernel(attn_run run)
{
    const attn_args &a = run.args;
    const attn_merge *merges = (const attn_merge *)((const char *)run.work + run.work->merge_at);
    const step_row *rows = (const step_row *)((const char *)a.step + a.step->layout.rows);
    uint32_t dim = a.shape.dim;
    for (uint32_t m = blockIdx.x; m < run.work->merge_count; m += gridDim.x) {
        attn_merge merge = merges[m];
        step_row row = rows[merge.row];
        uint32_t packed = row.q_len * run.group;
        for (uint32_t i = threadIdx.x; i < ATTN_TILE_ROWS * dim; i += 128) {
            uint32_t local = i / dim, at = merge.tile * ATTN_TILE_ROWS + local;
            if (at >= packed)
                break;
            float max = -INFINITY, sum = 0, out = 0;
            for (uint32_t p = 0; p < merge.parts; p++) {
                size_t tile = merge.partial + p;
                const float *state = run.partial_state + (tile * ATTN_TILE_ROWS + local) * 2;
                float part = run.partial_out[tile * ATTN_TILE_ROWS * dim + i], keep, add;
                fold_weights(max, state[0], &keep, &add, &max);
                out = p == 0 ? part : fmaf(add, part, mul_rn(keep, out));
                sum = p == 0 ? state[1] : fmaf(add, state[1], mul_rn(keep, sum));
            }
            size_t token = row.q_start + at / run.group;
            uint32_t head = merge.kv_head * run.group + at % run.group;
            float inverse = sum > 0.0f ? 1.0f / sum : 0.0f;
            narrow((T *)a.out + (token * a.shape.heads + head) * dim + i % dim,
                   mul_rn(out, inverse));
        }
    }
}

static __device__ __forceinline__ float kv_load(const void *row, enum dtype dtype, uint32_t i)
{
    if (dtype == DTYPE_BF16)
        return widen(((const bf16 *)row)[i]);
    if (dtype == DTYPE_F16)
        return widen(((const f16 *)row)[i]);
    return ((const float *)row)[i];
}

static __device__ __forceinline__ const void *kv_row_any(const attn_args &a, const attn_span &w,
                                                         uint32_t key, uint32_t value)
{
    enum dtype dtype = a.shape.paged ? a.kv : a.act;
    if (dtype == DTYPE_F32)
        return kv_row<float>(a, w, key, value);
    return kv_row<bf16>(a, w, key, value); // any 2-byte type
}

// One warp a (query token, head); lanes over 32 keys for the scores, over columns for the values.
// Grid (row, head); warps over the row's tokens. Bound: latency; the plain form of attn.h's sums.
template <class T> static __global__ void __launch_bounds__(256) attn_plain_kernel(attn_run run)
{
    const attn_args &a = run.args;
    const step_row *rows = (const step_row *)((const char *)a.step + a.step->layout.rows);
    uint32_t lane = threadIdx.x % 32, head = blockIdx.y, dim = a.shape.dim;
    attn_span w = {rows[blockIdx.x], head / run.group, 0, 0};
    enum dtype kv_type = a.shape.paged ? a.kv : a.act;
    uint32_t kv_len = w.row.kv_len;
    w.position = kv_len > w.row.q_len ? kv_len - w.row.q_len : 0;
    for (uint32_t j = threadIdx.x / 32; j < w.row.q_len; j += 8) {
        size_t token = w.row.q_start + j, all = a.shape.heads + 2 * a.shape.kv_heads;
        const T *query = (const T *)a.qkv + (token * all + head) * dim;
        uint32_t lo = attn_lo(a.shape, w.position + j);
        uint32_t hi = attn_hi(a.shape, w.position + j, kv_len);
        float max = -INFINITY, sum = 0, out[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        for (uint32_t first = lo / 32 * 32; first < hi; first += 32) {
            uint32_t key = first + lane;
            float score = -INFINITY;
            if (key >= lo && key < hi) {
                const void *k = kv_row_any(a, w, key, 0);
                float dot = 0;
                for (uint32_t d = 0; d < dim; d++)
                    dot = fmaf(widen(query[d]), kv_load(k, kv_type, d), dot);
                score = mul_rn(dot, run.scale);
            }
            float now = fmaxf(max, warp_max(score));
            float against = now == -INFINITY ? 0.0f : now;
            float keep = now == max ? 1.0f : ex2(add_rn(max, -against));
            float p = ex2(add_rn(score, -against));
            sum = fmaf(sum, keep, warp_sum(p));
            max = now;
#pragma unroll
            for (int c = 0; c < 8; c++)
                out[c] = mul_rn(out[c], keep);
            for (uint32_t i = 0; i < 32 && first + i < hi; i++) {
                float weight = shfl_idx(p, (int)i);
                if (first + i < lo)
                    continue;
                const void *v = kv_row_any(a, w, first + i, 1);
#pragma unroll
                for (uint32_t c = 0; c < 8; c++)
                    if (lane + 32 * c < dim)
                        out[c] = fmaf(weight, kv_load(v, kv_type, lane + 32 * c), out[c]);
            }
        }
        float inverse = sum > 0.0f ? 1.0f / sum : 0.0f;
        T *to = (T *)a.out + (token * a.shape.heads + head) * dim;
#pragma unroll
        for (uint32_t c = 0; c < 8; c++)
            if (lane + 32 * c < dim)
                narrow(to + lane + 32 * c, mul_rn(out[c], inverse));
    }
}

// --- launches -----------------------------------------------------------------------------------

enum status attn_merge_run(struct stream *stream, const struct attn_args *args)
{
    attn_run run = attn_run_of(stream, args);
    uint32_t count = attn_plan_of(args->step_host)->merge_count;
    if (stream->capturing)
        count = stream->attn_capacity.merges;
    if (count == 0)
        return STATUS_OK;
    dim3 grid(count < stream->walk_blocks ? count : stream->walk_blocks);
    return with_type(args->act, [&](auto type) {
        LAUNCH(attn_merge_kernel<decltype(type)>, grid, dim3(128), 0, stream->cuda, run);
        return launch_status();
    });
}

enum status attn_plain(struct stream *stream, const struct attn_args *args)
{
    attn_run run = attn_run_of(stream, args);
    dim3 grid(args->row_count, args->shape.heads);
    return with_type(args->act, [&](auto type) {
        LAUNCH(attn_plain_kernel<decltype(type)>, grid, dim3(256), 0, stream->cuda, run);
        return launch_status();
    });
}

enum status cuda_attn(struct stream *stream, const struct attn_args *args)
{
    if (args->row_count == 0)
        return STATUS_OK;
    enum dtype kv = args->shape.paged ? args->kv : args->act;
    if (args->act == DTYPE_F32 || kv != args->act || args->shape.dim > 256)
        return attn_plain(stream, args);
    uint32_t dim = args->shape.dim;
    enum status status = dim <= 64    ? attn_d64(stream, args)
                         : dim <= 128 ? attn_d128(stream, args)
                                      : attn_d256(stream, args);
    return status != STATUS_OK ? status : attn_merge_run(stream, args);
}
