// SPDX-License-Identifier: Apache-2.0
// After the fused q, k, v product: RMS norm of q and k heads if the model has it, rotary embedding,
// factors of queries, and the write of k and v to the KV blocks.
#include "kernels/cuda/lane.h"

struct post_run {
    qkv_post_args args;
    const float *q_norm, *k_norm; // [dim] or NULL
};

static __device__ __forceinline__ void kv_store(void *at, enum dtype dtype, uint32_t i, float x)
{
    if (dtype == DTYPE_BF16)
        narrow((bf16 *)at + i, x);
    else if (dtype == DTYPE_F16)
        narrow((f16 *)at + i, x);
    else
        ((float *)at)[i] = x;
}

enum { POST_PAIRS = 4 }; // most rotary pairs per lane, for 256 dims

// Both elements of a rotary pair stay with one lane, so q is rotated in place without a barrier.
// Pairs stay in registers; all their loads are issued before the first is used. factors:
// [positions] or NULL. A rotation multiplies the sum of the squares of a pair by that of its cosine
// and sine, so the sum that a norm after it needs is known before. MORE: 1 if there are factors or
// a norm after the rotation.
template <class T, int MORE>
static __device__ void post_rotate(const qkv_post_args &a, T *x, const float *norm,
                                   const float *factors, uint32_t t, void *kv)
{
    uint32_t lane = threadIdx.x % 32, dim = a.shape.dim, half = a.rotary_dim / 2;
    uint32_t position = a.position ? a.position[t] : 0;
    float scale = 1.0f, u[POST_PAIRS], v[POST_PAIRS], cosine[POST_PAIRS], sine[POST_PAIRS];
#pragma unroll
    for (uint32_t k = 0; k < POST_PAIRS; k++) {
        uint32_t i = lane + 32 * k;
        u[k] = i < half ? widen(x[i]) : 0.0f;
        v[k] = i < half ? widen(x[i + half]) : 0.0f;
    }
    const float *angle = a.cos_sin + (size_t)position * half * 2;
#pragma unroll
    for (uint32_t k = 0; k < POST_PAIRS; k++) {
        uint32_t i = lane + 32 * k;
        cosine[k] = i < half ? angle[2 * i] : 0.0f;
        sine[k] = i < half ? angle[2 * i + 1] : 0.0f;
    }
    bool last = MORE && a.norm_last;
    if (norm) {
        float squares = 0;
#pragma unroll
        for (uint32_t k = 0; k < POST_PAIRS; k++)
            if (last)
                squares = fmaf(fmaf(v[k], v[k], mul_rn(u[k], u[k])),
                               fmaf(sine[k], sine[k], mul_rn(cosine[k], cosine[k])), squares);
            else
                squares = fmaf(v[k], v[k], fmaf(u[k], u[k], squares));
        for (uint32_t i = 2 * half + lane; i < dim; i += 32)
            squares = fmaf(widen(x[i]), widen(x[i]), squares);
        scale = 1.0f / sqrtf(warp_sum(squares) / (float)dim + a.epsilon);
    }
#pragma unroll
    for (uint32_t k = 0; k < POST_PAIRS; k++) {
        uint32_t i = lane + 32 * k;
        if (i >= half)
            continue;
        if (norm && !last) {
            u[k] = mul_rn(mul_rn(u[k], scale), norm[i]);
            v[k] = mul_rn(mul_rn(v[k], scale), norm[i + half]);
        }
        float lo = fmaf(u[k], cosine[k], -mul_rn(v[k], sine[k]));
        float hi = fmaf(v[k], cosine[k], mul_rn(u[k], sine[k]));
        if (norm && last) {
            lo = mul_rn(mul_rn(lo, scale), norm[i]);
            hi = mul_rn(mul_rn(hi, scale), norm[i + half]);
        }
        if (MORE && factors) {
            lo = mul_rn(lo, factors[position]);
            hi = mul_rn(hi, factors[position]);
        }
        if (kv) {
            kv_store(kv, a.kv, i, lo);
            kv_store(kv, a.kv, i + half, hi);
        } else {
            narrow(x + i, lo);
            narrow(x + i + half, hi);
        }
    }
    for (uint32_t i = 2 * half + lane; i < dim; i += 32) {
        float one = widen(x[i]);
        one = norm ? mul_rn(mul_rn(one, scale), norm[i]) : one;
        one = MORE && factors ? mul_rn(one, factors[position]) : one;
        if (kv)
            kv_store(kv, a.kv, i, one);
        else
            narrow(x + i, one);
    }
}

// One warp per (token, head) of q, k and v; 8 per block. A token with kv_write_offset UINT64_MAX
// still rotates q. Without KV blocks (encoders) k is rotated in place. Bound: memory, 2 * T *
// (heads + 2 kv_heads) * dim elements.
template <class T, int MORE>
static __global__ void __launch_bounds__(256) qkv_post_kernel(post_run run)
{
    const qkv_post_args &a = run.args;
    uint32_t heads = a.shape.heads, kv_heads = a.shape.kv_heads, dim = a.shape.dim;
    uint32_t all = heads + 2 * kv_heads;
    uint64_t i = (uint64_t)blockIdx.x * 8 + threadIdx.x / 32;
    uint32_t t = (uint32_t)(i / all), head = (uint32_t)(i % all);
    grid_begin();
    if (t >= a.token_count)
        return;
    T *x = (T *)a.qkv + ((size_t)t * all + head) * dim;
    if (head < heads) {
        post_rotate<T, MORE>(a, x, run.q_norm, a.q_factor, t, NULL);
        return;
    }
    bool value = head >= heads + kv_heads;
    if (!a.shape.paged) { // attention reads the keys here
        if (!value)
            post_rotate<T, MORE>(a, x, run.k_norm, NULL, t, NULL);
        return;
    }
    uint64_t place = a.kv_write_offset[t];
    if (place == UINT64_MAX)
        return;
    uint32_t kv_head = head - heads - (value ? kv_heads : 0);
    char *to = (char *)a.kv_base + place + a.layer_offset + kv_head * a.head_bytes;
    if (!value) {
        post_rotate<T, MORE>(a, x, run.k_norm, NULL, t, to);
        return;
    }
    to += a.value_offset;
    float one[2 * POST_PAIRS];
#pragma unroll
    for (uint32_t k = 0; k < 2 * POST_PAIRS; k++) {
        uint32_t j = threadIdx.x % 32 + 32 * k;
        one[k] = j < dim ? widen(x[j]) : 0.0f;
    }
#pragma unroll
    for (uint32_t k = 0; k < 2 * POST_PAIRS; k++) {
        uint32_t j = threadIdx.x % 32 + 32 * k;
        if (j < dim)
            kv_store(to, a.kv, j, one[k]);
    }
}

// --- launch -------------------------------------------------------------------------------------

enum status cuda_qkv_post(struct stream *stream, const struct qkv_post_args *args)
{
    if (args->token_count == 0)
        return STATUS_OK;
    post_run run = {*args, args->q_norm ? (const float *)args->q_norm->data : NULL,
                    args->k_norm ? (const float *)args->k_norm->data : NULL};
    uint64_t warps = (uint64_t)args->token_count * (args->shape.heads + 2 * args->shape.kv_heads);
    dim3 grid((unsigned)((warps + 7) / 8));
    return with_type(args->act, [&](auto type) {
        if (args->norm_last || args->q_factor)
            LAUNCH_STEP((qkv_post_kernel<decltype(type), 1>), grid, dim3(256), 0, stream, run);
        else
            LAUNCH_STEP((qkv_post_kernel<decltype(type), 0>), grid, dim3(256), 0, stream, run);
        return launch_status();
    });
}
