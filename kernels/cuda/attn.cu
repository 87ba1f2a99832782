// SPDX-License-Identifier: Apache-2.0
// Chooses the attention kernel of a call; also the plain kernel for float32, for a KV type other
// than the activation type and fp8, and for a bias by distance or sinks with heads of other than 64
// columns.
#include "kernels/cuda/attn_launch.h"
#include "kernels/cuda/e4m3.h"

static __device__ __forceinline__ float kv_load(const void *row, enum dtype dtype, uint32_t i)
{
    if (dtype == DTYPE_BF16)
        return widen(((const bf16 *)row)[i]);
    if (dtype == DTYPE_F16)
        return widen(((const f16 *)row)[i]);
    if (dtype == DTYPE_E4M3)
        return e4m3_to_float(((const uint8_t *)row)[e4m3_place(i)]);
    return ((const float *)row)[i];
}

static __device__ __forceinline__ const void *kv_row(const attn_args &a, const attn_span &w,
                                                     uint32_t key, uint32_t value)
{
    enum dtype dtype = a.shape.paged ? a.kv : a.act;
    uint32_t element = dtype == DTYPE_F32 ? 4 : dtype == DTYPE_E4M3 ? 1 : 2;
    return kv_head_at(a, w, value, element) +
           kv_offset(a, w, a.shape.paged, key, kv_stride(a, element));
}

// One warp per (query token, head); lanes over 32 keys for the scores, over columns for the values.
// Grid (row, head); warps over the row's tokens. Bound: latency. The formula of attn.h without
// tensor cores.
template <class T> static __global__ void __launch_bounds__(256) attn_plain_kernel(attn_run run)
{
    grid_begin();
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
                const void *k = kv_row(a, w, key, 0);
                float dot = 0;
                for (uint32_t d = 0; d < dim; d++)
                    dot = fmaf(widen(query[d]), kv_load(k, kv_type, d), dot);
                score = run.bias ? fmaf(dot, run.scale, bias_of(run, head, w.position + j, key))
                                 : mul_rn(dot, run.scale);
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
                const void *v = kv_row(a, w, first + i, 1);
#pragma unroll
                for (uint32_t c = 0; c < 8; c++)
                    if (lane + 32 * c < dim)
                        out[c] = fmaf(weight, kv_load(v, kv_type, lane + 32 * c), out[c]);
            }
        }
        if (run.sinks)
            sum = sum_with_sink(run, head, sum, max);
        float inverse = sum > 0.0f ? 1.0f / sum : 0.0f;
        T *to = (T *)a.out + (token * a.shape.heads + head) * dim;
#pragma unroll
        for (uint32_t c = 0; c < 8; c++)
            if (lane + 32 * c < dim)
                narrow(to + lane + 32 * c, mul_rn(out[c], inverse));
    }
}

// --- launches -----------------------------------------------------------------------------------

enum status attn_plain(struct stream *stream, const struct attn_args *args)
{
    attn_run run = attn_run_of(stream, args);
    dim3 grid(args->row_count, args->shape.heads);
    return with_type(args->act, [&](auto type) {
        LAUNCH_STEP(attn_plain_kernel<decltype(type)>, grid, dim3(256), 0, stream, run);
        return launch_status();
    });
}

const struct attn_kernels *attn_kernels_of(const struct device *device, uint32_t dim, enum dtype kv)
{
    if (kv == DTYPE_E4M3)
        return dim == 64 ? &attn_fp8_d64 : dim == 128 ? &attn_fp8_d128 : &attn_fp8_any;
    bool two = device->shared_most >= 2 * ATTN_SHARED_WIDE; // space for two wide blocks
    switch (dim) {
    case 64:
        return &attn_d64;
    case 96:
        return two ? &attn_d96 : &attn_d96_small;
    case 128:
        return two ? &attn_d128 : &attn_d128_small;
    case 256:
        return &attn_d256;
    default:
        return &attn_any;
    }
}

// One head dim of each class of ATTN_DIMS.
static const uint32_t form_dims[ATTN_DIMS] = {64, 96, 128, 256, 32, 80, 160, 224};

static uint32_t form_of(uint32_t dim)
{
    for (uint32_t i = 0; i < 4; i++)
        if (form_dims[i] == dim)
            return i;
    return 4 + (dim - 1) / 64;
}

enum status attn_workers_query(struct device *device)
{
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < 2 * ATTN_DIMS && status == STATUS_OK; i++) {
        uint32_t dim = form_dims[i / 2], *workers = &device->attn_workers[i % 2][i / 2];
        enum dtype kv = i % 2 ? DTYPE_E4M3 : DTYPE_BF16;
        status = attn_kernels_of(device, dim, kv)->narrow_blocks(dim, workers);
        *workers *= device->processors;
    }
    return status;
}

uint32_t attn_workers_of(const struct device *device, uint32_t dim, enum dtype kv)
{
    return dim == 0 || dim > 256 ? 0 : device->attn_workers[kv == DTYPE_E4M3][form_of(dim)];
}

enum status cuda_attn(struct stream *stream, const struct attn_args *args)
{
    if (args->row_count == 0)
        return STATUS_OK;
    enum dtype kv = args->shape.paged ? args->kv : args->act;
    bool biased = (args->bias || args->sinks) && args->shape.dim != 64, fp8 = kv == DTYPE_E4M3;
    if (args->act == DTYPE_F32 || (kv != args->act && !fp8) || args->shape.dim > 256 || biased)
        return attn_plain(stream, args);
    // the plan is made for the stream's head dim, and for fp8 if its keys are
    if (args->shape.dim != stream->limits.attn.dim ||
        fp8 != (args->shape.paged && stream->limits.kv == DTYPE_E4M3))
        return STATUS_INVALID;
    return attn_kernels_of(stream->device, args->shape.dim, kv)->run(stream, args);
}
