// SPDX-License-Identifier: Apache-2.0
// Activations as FP8 e4m3, for cuBLASLt's products with FP8 weights (blas_fp8.c): a scale for each
// row, or for each 128 columns of a row. scale = greatest magnitude / 448; codes are x / scale to
// nearest, ties to even. A row depends on no other row. If a scale were below the smallest normal
// number, its elements count as zeros. A NaN or an infinity becomes a code of NaN.
#include "kernels/cuda/e4m3.h"
#include "kernels/cuda/quantize.h"

enum { QUANTIZE_THREADS = 256, QUANTIZE_STEP = 8 * QUANTIZE_THREADS };

// Returns the factor that takes elements to codes.
static __device__ __forceinline__ float inverse_of(float scale)
{
    return scale >= 0x1p-126f ? 1.0f / scale : 0.0f;
}

static __device__ __forceinline__ float magnitude8(const float v[8], float top)
{
#pragma unroll
    for (int i = 0; i < 8; i++)
        top = fmaxf(top, fabsf(v[i]));
    return top;
}

static __device__ __forceinline__ void codes8_put(unsigned char *to, const float v[8],
                                                  float inverse)
{
    uint32_t word[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < 8; i++)
        word[i / 4] |= float_to_e4m3(mul_rn(v[i], inverse)) << (8 * (i % 4));
    uint2 both = {word[0], word[1]};
    *(uint2 *)to = both;
}

// One block per row. Shared: 32 bytes. Bytes: 3 * rows * k; the second read comes from L1 or L2.
// Bound: memory.
template <class T>
static __global__ void __launch_bounds__(QUANTIZE_THREADS) quantize_rows(quantize_run q)
{
    SHARED(float, shared, [8]);
    uint32_t row = blockIdx.x, first = threadIdx.x * 8;
    const T *x = (const T *)q.x + (size_t)row * q.x_stride;
    unsigned char *codes = q.codes + (size_t)row * q.k;
    float top = 0, v[8];
    grid_begin();
    for (uint32_t c = first; c < q.k; c += QUANTIZE_STEP) {
        load8(x + c, v);
        top = magnitude8(v, top);
    }
    top = warp_max(top);
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = top;
    cta_sync();
#pragma unroll
    for (int i = 0; i < QUANTIZE_THREADS / 32; i++)
        top = fmaxf(top, shared[i]);
    float scale = top / 448.0f, inverse = inverse_of(scale);
    for (uint32_t c = first; c < q.k; c += QUANTIZE_STEP) {
        load8(x + c, v);
        codes8_put(codes + c, v, inverse);
    }
    if (threadIdx.x == 0)
        q.scale[row] = scale;
}

// One block per row; 16 lanes share 128 columns. Rows after the last become zeros with scale 0.
// Bytes: 3 * rows * k. Bound: memory.
template <class T>
static __global__ void __launch_bounds__(QUANTIZE_THREADS) quantize_blocks(quantize_run q)
{
    uint32_t row = blockIdx.x, first = threadIdx.x * 8, lane = threadIdx.x % 32;
    const T *x = (const T *)q.x + (size_t)row * q.x_stride;
    unsigned char *codes = q.codes + (size_t)row * q.k;
    grid_begin();
    // all lanes of a warp make the same number of rounds
    for (uint32_t c = first; c - lane * 8 < q.k; c += QUANTIZE_STEP) {
        float v[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        if (c < q.k && row < q.rows)
            load8(x + c, v);
        float top = magnitude8(v, 0);
#pragma unroll
        for (int step = 8; step > 0; step >>= 1)
            top = fmaxf(top, shfl_xor(top, step));
        float scale = top / 448.0f;
        if (c >= q.k)
            continue;
        codes8_put(codes + c, v, inverse_of(scale));
        if (lane % 16 == 0)
            q.scale[(size_t)(c / 128) * q.padded + row] = scale;
    }
}

enum status quantize(struct stream *stream, const struct quantize_run *run)
{
    quantize_run q = *run;
    dim3 grid(q.padded), block(QUANTIZE_THREADS);
    if (q.act == DTYPE_BF16 && q.blocks)
        LAUNCH_STEP(quantize_blocks<bf16>, grid, block, 0, stream, q);
    else if (q.act == DTYPE_BF16)
        LAUNCH_STEP(quantize_rows<bf16>, grid, block, 0, stream, q);
    else if (q.blocks)
        LAUNCH_STEP(quantize_blocks<f16>, grid, block, 0, stream, q);
    else
        LAUNCH_STEP(quantize_rows<f16>, grid, block, 0, stream, q);
    return launch_status();
}
