// SPDX-License-Identifier: Apache-2.0
// Small device functions that all kernels use: element types, eight elements at a time, sums over a
// warp or a block in a fixed order, and Philox. No kernels here.
#pragma once

#include "kernels/cuda/early.h"

struct bf16 {
    uint16_t bits;
};
struct f16 {
    uint16_t bits;
};

static __device__ __forceinline__ float widen(float x)
{
    return x;
}
static __device__ __forceinline__ float widen(bf16 x)
{
    return bf16_to_float(x.bits);
}
static __device__ __forceinline__ float widen(f16 x)
{
    return f16_to_float(x.bits);
}
static __device__ __forceinline__ void narrow(float *to, float x)
{
    *to = x;
}
static __device__ __forceinline__ void narrow(bf16 *to, float x)
{
    to->bits = float_to_bf16(x);
}
static __device__ __forceinline__ void narrow(f16 *to, float x)
{
    to->bits = float_to_f16(x);
}
template <class T> static __device__ __forceinline__ float rounded(float x)
{
    T y;
    narrow(&y, x);
    return widen(y);
}

static __device__ __forceinline__ void unpack2(uint32_t w, float *v, bf16)
{
    v[0] = bits_float(w << 16);
    v[1] = bits_float(w & 0xFFFF0000u);
}
static __device__ __forceinline__ void unpack2(uint32_t w, float *v, f16)
{
    v[0] = f16_to_float((uint16_t)w);
    v[1] = f16_to_float((uint16_t)(w >> 16));
}
static __device__ __forceinline__ uint32_t pack2(const float *v, bf16)
{
    return pack_bf16(v[0], v[1]);
}
static __device__ __forceinline__ uint32_t pack2(const float *v, f16)
{
    return pack_f16(v[0], v[1]);
}

// Load and store eight consecutive elements as floats; p is 16-byte aligned.
template <class T> static __device__ __forceinline__ void load8(const T *p, float v[8])
{
    uint4 w = ldg128(p);
    unpack2(w.x, v, T());
    unpack2(w.y, v + 2, T());
    unpack2(w.z, v + 4, T());
    unpack2(w.w, v + 6, T());
}
template <> __device__ __forceinline__ void load8<float>(const float *p, float v[8])
{
    for (int h = 0; h < 2; h++) {
        uint4 w = ldg128(p + 4 * h);
        v[4 * h] = bits_float(w.x);
        v[4 * h + 1] = bits_float(w.y);
        v[4 * h + 2] = bits_float(w.z);
        v[4 * h + 3] = bits_float(w.w);
    }
}
template <class T> static __device__ __forceinline__ void store8(T *p, const float v[8])
{
    uint4 w = {pack2(v, T()), pack2(v + 2, T()), pack2(v + 4, T()), pack2(v + 6, T())};
    stg128(p, w);
}
template <> __device__ __forceinline__ void store8<float>(float *p, const float v[8])
{
    for (int h = 0; h < 2; h++) {
        uint4 w = {float_bits(v[4 * h]), float_bits(v[4 * h + 1]), float_bits(v[4 * h + 2]),
                   float_bits(v[4 * h + 3])};
        stg128(p + 4 * h, w);
    }
}

// load8 and store8 at element `at` of a row of `width`: elements past the end are read as zero and
// not written. vectors: the row's length allows vectors; otherwise elements are accessed one by
// one.
template <class T>
static __device__ __forceinline__ void load8_row(const T *row, uint32_t at, uint32_t width,
                                                 bool vectors, float v[8])
{
    if (vectors) {
        load8(row + at, v);
        return;
    }
    for (uint32_t i = 0; i < 8; i++)
        v[i] = at + i < width ? widen(row[at + i]) : 0.0f;
}
template <class T>
static __device__ __forceinline__ void store8_row(T *row, uint32_t at, uint32_t width, bool vectors,
                                                  const float v[8])
{
    if (vectors) {
        store8(row + at, v);
        return;
    }
    for (uint32_t i = 0; i < 8 && at + i < width; i++)
        narrow(row + at + i, v[i]);
}

static __device__ __forceinline__ float warp_sum(float x)
{
    for (int step = 16; step > 0; step >>= 1)
        x = add_rn(x, shfl_xor(x, step));
    return x;
}
static __device__ __forceinline__ float warp_max(float x)
{
    for (int step = 16; step > 0; step >>= 1)
        x = fmaxf(x, shfl_xor(x, step));
    return x;
}

// Returns the sum over WARPS warps that share a row: each warp's sum, then these in order. shared:
// WARPS floats of shared memory of this row; every thread of the block must call it.
template <int WARPS> static __device__ __forceinline__ float row_sum(float x, float *shared)
{
    x = warp_sum(x);
    if (WARPS == 1)
        return x;
    uint32_t warp = threadIdx.x / 32;
    cta_sync();
    if (threadIdx.x % 32 == 0)
        shared[warp] = x;
    cta_sync();
    float sum = 0;
    for (int i = 0; i < WARPS; i++)
        sum = add_rn(sum, shared[i]);
    return sum;
}

// Philox4x32-10.
struct philox {
    uint32_t word[4];
};
static __device__ __forceinline__ philox philox_at(uint64_t seed, uint32_t c0, uint32_t c1,
                                                   uint32_t c2, uint32_t c3)
{
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint32_t lo0 = c0 * 0xD2511F53u, hi0 = mulhi(c0, 0xD2511F53u);
        uint32_t lo1 = c2 * 0xCD9E8D57u, hi1 = mulhi(c2, 0xCD9E8D57u);
        uint32_t n0 = hi1 ^ c1 ^ k0, n2 = hi0 ^ c3 ^ k1;
        c0 = n0;
        c1 = lo1;
        c2 = n2;
        c3 = lo0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    philox out = {{c0, c1, c2, c3}};
    return out;
}

// Calls f with a value of the activation type: f(bf16()), f(f16()) or f(float()).
template <class F> static inline enum status with_type(enum dtype dtype, F f)
{
    switch (dtype) {
    case DTYPE_BF16:
        return f(bf16());
    case DTYPE_F16:
        return f(f16());
    case DTYPE_F32:
        return f(float());
    default:
        return STATUS_UNSUPPORTED;
    }
}

static inline bool rows_whole(uint32_t width)
{
    return width % 8 == 0;
}
static inline uint32_t divide_up(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}
