// SPDX-License-Identifier: Apache-2.0
// Shared by the tensor-core products: how a slab of 32 k becomes two mma steps, and how an output
// element is finished. All use one summation order (decision 0023): K is cut at multiples
// of PRODUCT_PART; within a part, slabs ascend; parts are added in index order.
//
// Weights are the A operand (16 output features), tokens the n = 8 operand. In a slab lane (r, t)
// holds elements 8t..8t+7 of feature r and r + 8 and of token r: elements 8t..8t+3 are the first
// mma step, 8t+4..8t+7 the second. Both operands use the same k order, so the sum is that of the
// slab.
#pragma once

#include "kernels/cuda/codes_math.h"
#include "kernels/cuda/e4m3.h"

enum { PRODUCT_SLAB = 32 }; // k of two mma steps

struct int8 {
    signed char value;
};
// FP8 codes with a scale for each row, or for each 128 columns of 16 rows.
struct fp8 {
    unsigned char code;
};
struct fp8_128 {
    unsigned char code;
};

struct gemm_run {
    const void *x;          // [rows][k] act; rows are x_stride elements apart
    const void *weight;     // [n][stride]
    const float *scale;     // [n] scales of int8 and FP8 weights; else NULL
    const float *scale_128; // [n / 16, rounded up][k / 128] scales of FP8_128 weights; else NULL
    const float *bias;      // [n] or NULL
    void *y;                // [rows][n] y_dtype; rows are y_stride elements apart
    enum dtype y_dtype;
    uint32_t rows, n, k, stride, x_stride, y_stride;
    bool vectors;      // true if x can be read in vectors of 8
    code_arrays codes; // if the weight is held as codes of 4 bits; then `weight` is not used
};

// Returns the row of x of a token. A product of experts has a functor in its place that returns the
// row of x of a sorted row (experts.cu).
struct row_itself {
    __device__ __forceinline__ uint32_t operator()(uint32_t token) const
    {
        return token;
    }
};

static __device__ __forceinline__ void mma_of(bf16, float c[4], const uint32_t a[4],
                                              const uint32_t b[2])
{
    mma_bf16(c, a, b);
}
static __device__ __forceinline__ void mma_of(f16, float c[4], const uint32_t a[4],
                                              const uint32_t b[2])
{
    mma_f16(c, a, b);
}

// Converts eight weights of a row to four words of T.
template <class T> static __device__ __forceinline__ uint4 weight8(T, uint4 loaded)
{
    return loaded;
}
// int8: puts the byte into the mantissa of 2^23, then subtracts 2^23 + 128 (the byte's sign bit was
// flipped).
template <class T> static __device__ __forceinline__ uint4 weight8(T, uint2 loaded)
{
    uint32_t half[2] = {loaded.x ^ 0x80808080u, loaded.y ^ 0x80808080u};
    float v[8];
#pragma unroll
    for (int i = 0; i < 8; i++)
        v[i] =
            add_rn(bits_float(byte_perm(half[i / 4], 0x4B000000u, 0x7440u | i % 4u)), -8388736.0f);
    uint4 w = {pack2(v, T()), pack2(v + 2, T()), pack2(v + 4, T()), pack2(v + 6, T())};
    return w;
}

// FP8: elements are the codes' values divided by a factor, which weight_sum or the scales of blocks
// restore.
struct e4m3x8 {
    uint2 codes;
};
template <class T> static __device__ __forceinline__ uint4 weight8(T, e4m3x8 loaded)
{
    uint4 w;
    e4m3_unpack4(loaded.codes.x, &w.x, &w.y, T());
    e4m3_unpack4(loaded.codes.y, &w.z, &w.w, T());
    return w;
}
// Returns the sum of products of a row from the sum over its elements as weight8 makes them.
template <class T, class W> static __device__ __forceinline__ float weight_sum(T, W, float sum)
{
    return sum;
}
template <class T> static __device__ __forceinline__ float weight_sum(T, fp8, float sum)
{
    return mul_rn(sum, e4m3_factor(T()));
}
// FP8_128: adds the sums of a block, times the scale of the block, to c, and clears them.
template <class T>
static __device__ __forceinline__ void block_add(T, float c[4], float sum[4], float scale)
{
#pragma unroll
    for (int e = 0; e < 4; e++) {
        c[e] = fmaf(mul_rn(sum[e], e4m3_factor(T())), scale, c[e]);
        sum[e] = 0;
    }
}

// Multiplies one slab: two mma steps for one tile of 16 features and one of 8 tokens.
template <class T>
static __device__ __forceinline__ void slab_mma(float c[4], uint4 lo, uint4 hi, uint4 x)
{
    uint32_t a[4] = {lo.x, hi.x, lo.y, hi.y}, b[2] = {x.x, x.y};
    mma_of(T(), c, a, b);
    uint32_t a2[4] = {lo.z, hi.z, lo.w, hi.w}, b2[2] = {x.z, x.w};
    mma_of(T(), c, a2, b2);
}

// Stores an output element: sum * scale + bias, narrowed to y's type. Elements past the last token
// or feature are not stored. before: elements of scale and bias before those of feature 0; not 0
// only in a stack of matrices.
static __device__ __forceinline__ void gemm_store(const gemm_run &g, uint32_t token,
                                                  uint32_t feature, float sum, uint32_t before)
{
    if (token >= g.rows || feature >= g.n)
        return;
    if (g.scale)
        sum = mul_rn(sum, g.scale[before + feature]);
    if (g.bias)
        sum = add_rn(sum, g.bias[before + feature]);
    size_t at = (size_t)token * g.y_stride + feature;
    if (g.y_dtype == DTYPE_F32)
        ((float *)g.y)[at] = sum;
    else if (g.y_dtype == DTYPE_BF16)
        narrow((bf16 *)g.y + at, sum);
    else
        narrow((f16 *)g.y + at, sum);
}

static inline gemm_run gemm_run_of(const struct gemm_args *args)
{
    const struct weight *w = args->weight;
    bool codes = weight_e4m3(&w->shape);
    bool rows8 = codes ? w->shape.parts[0].format == WEIGHT_FP8
                       : w->shape.part_count == 0 && w->shape.dtype == DTYPE_I8;
    const float *scales = (const float *)((const char *)w->data + weight_scales_at(&w->shape));
    gemm_run g;
    memset(&g, 0, sizeof g);
    g.x = args->x;
    g.weight = w->data;
    g.scale = rows8 ? scales : NULL;
    g.scale_128 = codes && !rows8 ? scales : NULL;
    g.bias = args->bias ? (const float *)args->bias->data : NULL;
    g.y = args->y;
    g.y_dtype = args->y_dtype;
    g.rows = args->rows;
    g.n = w->shape.n;
    g.k = w->shape.k;
    g.stride = weight_stride(&w->shape);
    g.x_stride = args->x_stride;
    g.y_stride = args->y_stride;
    g.vectors = g.k % 8 == 0 && g.x_stride % 8 == 0 && (uintptr_t)g.x % 16 == 0;
    return g;
}

// Calls f(T, W) with values of the types of activations and weights, if tensor cores multiply them;
// else returns UNSUPPORTED. Not for codes of 4 bits (gemm_parts.h).
template <class T, class F>
static inline enum status with_weight_of(T act, enum dtype dtype, const struct weight_shape *shape,
                                         F f)
{
    if (shape->part_count > 0)
        return shape->parts[0].format == WEIGHT_FP8 ? f(act, fp8()) : f(act, fp8_128());
    return shape->dtype == DTYPE_I8 ? f(act, int8())
           : shape->dtype == dtype  ? f(act, act)
                                    : STATUS_UNSUPPORTED;
}
template <class F>
static inline enum status with_weight(enum dtype act, const struct weight_shape *shape, F f)
{
    return act == DTYPE_BF16  ? with_weight_of(bf16(), act, shape, f)
           : act == DTYPE_F16 ? with_weight_of(f16(), act, shape, f)
                              : STATUS_UNSUPPORTED;
}
