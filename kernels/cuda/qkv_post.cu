// SPDX-License-Identifier: Apache-2.0
// After the fused q, k, v product: RMS norm of q and k heads if the model has it, rotary embedding,
// factors of queries, and the write of k and v to the KV blocks.
#include "kernels/cuda/e4m3.h"

struct post_run {
    qkv_post_args args;
    const float *q_norm, *k_norm; // [dim] or NULL
};

// Loads or stores two neighbours as floats. vector: the row's alignment allows one access;
// otherwise elements are accessed one by one, and only the first `count` exist.
template <class T>
static __device__ __forceinline__ void load2(const T *p, float v[2], bool vector, uint32_t count)
{
    v[0] = v[1] = 0.0f;
    if (vector) {
        unpack2(*(const uint32_t *)p, v, T());
        return;
    }
    for (uint32_t i = 0; i < 2 && i < count; i++)
        v[i] = widen(p[i]);
}
template <>
__device__ __forceinline__ void load2<float>(const float *p, float v[2], bool vector,
                                             uint32_t count)
{
    v[0] = v[1] = 0.0f;
    if (vector) {
        float2 w = *(const float2 *)p;
        v[0] = w.x;
        v[1] = w.y;
        return;
    }
    for (uint32_t i = 0; i < 2 && i < count; i++)
        v[i] = p[i];
}
template <class T>
static __device__ __forceinline__ void store2(T *p, const float v[2], bool vector, uint32_t count)
{
    if (vector) {
        *(uint32_t *)p = pack2(v, T());
        return;
    }
    for (uint32_t i = 0; i < 2 && i < count; i++)
        narrow(p + i, v[i]);
}
template <>
__device__ __forceinline__ void store2<float>(float *p, const float v[2], bool vector,
                                              uint32_t count)
{
    if (vector) {
        *(float2 *)p = {v[0], v[1]};
        return;
    }
    for (uint32_t i = 0; i < 2 && i < count; i++)
        p[i] = v[i];
}

// Stores two neighbours of a key or a value in fp8, at e4m3_place of their columns.
static __device__ __forceinline__ void store2_e4m3(uint8_t *row, uint32_t i, const float v[2],
                                                   bool vector, uint32_t count)
{
    uint32_t code[2] = {float_to_e4m3(v[0]), float_to_e4m3(v[1])};
    if (vector) {
        *(uint16_t *)(row + e4m3_place(i)) = (uint16_t)(code[0] | code[1] << 8);
        return;
    }
    for (uint32_t e = 0; e < 2 && e < count; e++)
        row[e4m3_place(i + e)] = (uint8_t)code[e];
}

// Where a head's results go: in place, or as keys or values to a KV block.
template <class T> struct post_out {
    T *x;
    void *kv; // NULL: in place
    enum dtype dtype;

    __device__ __forceinline__ void store(uint32_t i, const float v[2], bool vector,
                                          uint32_t count) const
    {
        if (!kv)
            store2(x + i, v, vector, count);
        else if (dtype == DTYPE_BF16)
            store2((bf16 *)kv + i, v, vector, count);
        else if (dtype == DTYPE_F16)
            store2((f16 *)kv + i, v, vector, count);
        else if (dtype == DTYPE_E4M3)
            store2_e4m3((uint8_t *)kv, i, v, vector, count);
        else
            store2((float *)kv + i, v, vector, count);
    }
};

// A lane has PAIRS pairs of neighbours at 2 * (lane + 32 k) of the first half of the rotary
// columns, and those half a rotary width on. So both elements of a rotary pair stay with one lane,
// and q is rotated in place without a barrier. All loads are issued before the first value is used.
// factors: [positions] or NULL. A rotation multiplies the sum of the squares of a pair by that of
// its cosine and sine, so the sum that a norm after it needs is known before. MORE: 1 if there are
// factors or a norm after the rotation.
template <class T, int MORE, int PAIRS>
static __device__ __forceinline__ void post_rotate(const qkv_post_args &a, const post_out<T> &out,
                                                   const float *norm, const float *factors,
                                                   uint32_t t)
{
    uint32_t lane = threadIdx.x % 32, dim = a.shape.dim, half = a.rotary_dim / 2;
    uint32_t position = a.position ? a.position[t] : 0;
    bool even = half % 2 == 0;
    const T *x = out.x;
    float scale = 1.0f, u[PAIRS][2], v[PAIRS][2], angle[PAIRS][4];
#pragma unroll
    for (uint32_t k = 0; k < PAIRS; k++) {
        uint32_t i = 2 * (lane + 32 * k);
        u[k][0] = u[k][1] = v[k][0] = v[k][1] = 0.0f;
        if (i < half) {
            load2(x + i, u[k], even, half - i);
            load2(x + i + half, v[k], even, half - i);
        }
    }
    const float *angles = a.cos_sin + (size_t)position * half * 2;
#pragma unroll
    for (uint32_t k = 0; k < PAIRS; k++) {
        uint32_t i = 2 * (lane + 32 * k);
        angle[k][0] = angle[k][1] = angle[k][2] = angle[k][3] = 0.0f;
        if (i >= half)
            continue;
        if (even) {
            uint4 w = ldg128(angles + 2 * i);
            angle[k][0] = bits_float(w.x);
            angle[k][1] = bits_float(w.y);
            angle[k][2] = bits_float(w.z);
            angle[k][3] = bits_float(w.w);
        } else {
            load2(angles + 2 * i, angle[k], true, 2);
            load2(angles + 2 * i + 2, angle[k] + 2, false, half - i < 2 ? 0 : 2);
        }
    }
    bool last = MORE && a.norm_last;
    if (norm) {
        float squares = 0;
#pragma unroll
        for (uint32_t k = 0; k < PAIRS; k++)
#pragma unroll
            for (uint32_t e = 0; e < 2; e++) {
                float c = angle[k][2 * e], s = angle[k][2 * e + 1];
                if (last)
                    squares = fmaf(fmaf(v[k][e], v[k][e], mul_rn(u[k][e], u[k][e])),
                                   fmaf(s, s, mul_rn(c, c)), squares);
                else
                    squares = fmaf(v[k][e], v[k][e], fmaf(u[k][e], u[k][e], squares));
            }
        for (uint32_t i = 2 * (half + lane); i < dim; i += 64) {
            float rest[2];
            load2(x + i, rest, even, dim - i);
            squares = fmaf(rest[1], rest[1], fmaf(rest[0], rest[0], squares));
        }
        scale = 1.0f / sqrtf(warp_sum(squares) / (float)dim + a.epsilon);
    }
    float factor = MORE && factors ? factors[position] : 1.0f;
#pragma unroll
    for (uint32_t k = 0; k < PAIRS; k++) {
        uint32_t i = 2 * (lane + 32 * k);
        if (i >= half)
            continue;
        float lo[2], hi[2], weight[2][2] = {{1.0f, 1.0f}, {1.0f, 1.0f}};
        if (norm) {
            load2(norm + i, weight[0], even, half - i);
            load2(norm + i + half, weight[1], even, half - i);
        }
#pragma unroll
        for (uint32_t e = 0; e < 2; e++) {
            float c = angle[k][2 * e], s = angle[k][2 * e + 1], x0 = u[k][e], x1 = v[k][e];
            if (norm && !last) {
                x0 = mul_rn(mul_rn(x0, scale), weight[0][e]);
                x1 = mul_rn(mul_rn(x1, scale), weight[1][e]);
            }
            lo[e] = fmaf(x0, c, -mul_rn(x1, s));
            hi[e] = fmaf(x1, c, mul_rn(x0, s));
            if (norm && last) {
                lo[e] = mul_rn(mul_rn(lo[e], scale), weight[0][e]);
                hi[e] = mul_rn(mul_rn(hi[e], scale), weight[1][e]);
            }
            if (MORE && factors) {
                lo[e] = mul_rn(lo[e], factor);
                hi[e] = mul_rn(hi[e], factor);
            }
        }
        out.store(i, lo, even, half - i);
        out.store(i + half, hi, even, half - i);
    }
    for (uint32_t i = 2 * (half + lane); i < dim; i += 64) {
        float one[2], weight[2];
        load2(x + i, one, even, dim - i);
        if (norm) {
            load2(norm + i, weight, even, dim - i);
            one[0] = mul_rn(mul_rn(one[0], scale), weight[0]);
            one[1] = mul_rn(mul_rn(one[1], scale), weight[1]);
        }
        if (MORE && factors) {
            one[0] = mul_rn(one[0], factor);
            one[1] = mul_rn(one[1], factor);
        }
        out.store(i, one, even, dim - i);
    }
}

// One warp per (token, head) of q, k and v; 8 per block. A token with kv_write_offset UINT64_MAX
// still rotates q. Without KV blocks (encoders) k is rotated in place. PAIRS: 1 up to dim 128, else
// 2. Bound: memory, 2 * T * (heads + 2 kv_heads) * dim elements.
template <class T, int MORE, int PAIRS>
static __global__ void __launch_bounds__(256) qkv_post_kernel(post_run run)
{
    const qkv_post_args &a = run.args;
    uint32_t heads = a.shape.heads, kv_heads = a.shape.kv_heads, dim = a.shape.dim;
    uint32_t all = heads + 2 * kv_heads, lane = threadIdx.x % 32;
    uint64_t i = (uint64_t)blockIdx.x * 8 + threadIdx.x / 32;
    uint32_t t = (uint32_t)(i / all), head = (uint32_t)(i % all);
    grid_begin();
    if (t >= a.token_count)
        return;
    post_out<T> out = {(T *)a.qkv + ((size_t)t * all + head) * dim, NULL, a.kv};
    bool query = head < heads, value = head >= heads + kv_heads;
    if (!query && a.shape.paged) {
        uint64_t place = a.kv_write_offset[t];
        if (place == UINT64_MAX)
            return;
        uint32_t kv_head = head - heads - (value ? kv_heads : 0);
        out.kv = (char *)a.kv_base + place + a.layer_offset + kv_head * a.head_bytes +
                 (value ? a.value_offset : 0);
    }
    if (!value) {
        post_rotate<T, MORE, PAIRS>(a, out, query ? run.q_norm : run.k_norm,
                                    query ? a.q_factor : NULL, t);
        return;
    }
    if (!out.kv) // attention reads the values here
        return;
    float one[2 * PAIRS][2];
#pragma unroll
    for (uint32_t k = 0; k < 2 * PAIRS; k++)
        if (2 * (lane + 32 * k) < dim)
            load2(out.x + 2 * (lane + 32 * k), one[k], true, 2);
#pragma unroll
    for (uint32_t k = 0; k < 2 * PAIRS; k++)
        if (2 * (lane + 32 * k) < dim)
            out.store(2 * (lane + 32 * k), one[k], true, 2);
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
        using T = decltype(type);
        bool more = args->norm_last || args->q_factor, wide = args->shape.dim > 128;
        if (more && wide)
            LAUNCH_STEP((qkv_post_kernel<T, 1, 2>), grid, dim3(256), 0, stream, run);
        else if (more)
            LAUNCH_STEP((qkv_post_kernel<T, 1, 1>), grid, dim3(256), 0, stream, run);
        else if (wide)
            LAUNCH_STEP((qkv_post_kernel<T, 0, 2>), grid, dim3(256), 0, stream, run);
        else
            LAUNCH_STEP((qkv_post_kernel<T, 0, 1>), grid, dim3(256), 0, stream, run);
        return launch_status();
    });
}
