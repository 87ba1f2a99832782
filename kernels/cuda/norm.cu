// SPDX-License-Identifier: Apache-2.0
// RMSNorm and LayerNorm, each preceded by the residual add. The split of a row over threads depends
// only on its width, so a row's bits do not depend on the batch. RMSNorm can also write its output
// as FP8 codes for the next product.
#include "kernels/cuda/e4m3_rows.h"

struct norm_run {
    void *residual;      // [rows][width] act
    const void *add;     // [rows][width] act, or NULL
    const float *weight; // [width]
    const float *bias;   // [width] (LayerNorm), or NULL
    void *out;           // [rows][width] act
    uint32_t rows, width;
    float epsilon;
    bool vectors;
    prefetch_run next; // prefetched by the blocks that have no row
    uint32_t stride;   // RMSNorm: elements from row to row
    float factor;      // RMSNorm: of add
};

enum { NORM_KEPT = 2 }; // vectors of 8 elements that a thread keeps in registers

// Writes row r, of which each thread has KEPT * 8 elements of the output before their rounding to
// T, as codes. A block has eight warps. shared: eight floats that were not used before.
template <class T, int KEPT>
static __device__ __forceinline__ void kept_codes(const e4m3_rows &to, uint32_t r, float v[KEPT][8],
                                                  float *shared)
{
    uint32_t first = threadIdx.x * 8, step = 256 * 8;
    float top = 0;
#pragma unroll
    for (uint32_t k = 0; k < KEPT; k++) {
        for (int i = 0; i < 8; i++)
            v[k][i] = first + k * step < to.k ? rounded<T>(v[k][i]) : 0.0f;
        if (to.blocks)
            block_codes8(to, r, first + k * step, v[k]);
        top = magnitude8(v[k], top);
    }
    if (to.blocks)
        return;
    float scale = row_scale<8>(top, shared), inverse = e4m3_inverse(scale);
#pragma unroll
    for (uint32_t k = 0; k < KEPT; k++)
        if (first + k * step < to.k)
            codes8_put(to.codes + (size_t)r * to.k + first + k * step, v[k], inverse);
    if (threadIdx.x == 0)
        to.scale[r] = scale;
}

// RMSNorm of a row of which each thread has at most KEPT * 8 elements. All loads are issued before
// the first is used. CODES: also writes row r as codes to `to`, and `shared` has 16 floats.
template <class T, int WARPS, int KEPT, bool CODES = false>
static __device__ __forceinline__ void rms_kept(const norm_run &a, size_t row, float *shared,
                                                const e4m3_rows *to = NULL, uint32_t r = 0)
{
    uint32_t first = threadIdx.x % (32 * WARPS) * 8, step = 256 * WARPS;
    T *x = (T *)a.residual + row, *out = (T *)a.out + row;
    // without an add it reads the row itself, unused: no branch between the loads
    const T *add = a.add ? (const T *)a.add + row : x;
    float squares = 0, v[KEPT][8], more[KEPT][8], w[KEPT][8];
#pragma unroll
    for (uint32_t k = 0; k < KEPT && first < a.width; k++) {
        // past the row's end it reads the first columns again, unused
        uint32_t at = first + k * step < a.width ? first + k * step : first;
        load8(x + at, v[k]);
        load8(add + at, more[k]);
        load8(a.weight + at, w[k]);
    }
#pragma unroll
    for (uint32_t k = 0; k < KEPT; k++) {
        if (first + k * step >= a.width)
            continue;
        if (a.add) {
            for (int i = 0; i < 8; i++)
                v[k][i] = rounded<T>(fmaf(more[k][i], a.factor, v[k][i]));
            store8(x + first + k * step, v[k]);
        }
        for (int i = 0; i < 8; i++)
            squares = fmaf(v[k][i], v[k][i], squares);
    }
    float scale = 1.0f / sqrtf(row_sum<WARPS>(squares, shared) / (float)a.width + a.epsilon);
#pragma unroll
    for (uint32_t k = 0; k < KEPT; k++) {
        if (first + k * step >= a.width)
            continue;
        for (int i = 0; i < 8; i++)
            v[k][i] = mul_rn(mul_rn(v[k][i], scale), w[k][i]);
        store8(out + first + k * step, v[k]);
    }
    if constexpr (CODES)
        kept_codes<T, KEPT>(*to, r, v, shared + 8);
}

// RMSNorm of a row of any width. The sum is stored rounded and read back by the thread that wrote
// it.
template <class T, int WARPS>
static __device__ __forceinline__ void rms_walked(const norm_run &a, size_t row, float *shared)
{
    uint32_t first = threadIdx.x % (32 * WARPS) * 8, step = 256 * WARPS;
    T *x = (T *)a.residual + row, *out = (T *)a.out + row;
    const T *add = (const T *)a.add + row;
    float squares = 0, v[8], w[8];
    for (uint32_t at = first; at < a.width; at += step) {
        load8_row(x, at, a.width, a.vectors, v);
        if (a.add) {
            load8_row(add, at, a.width, a.vectors, w);
            for (int i = 0; i < 8; i++)
                v[i] = rounded<T>(fmaf(w[i], a.factor, v[i]));
            store8_row(x, at, a.width, a.vectors, v);
        }
        for (int i = 0; i < 8; i++)
            squares = fmaf(v[i], v[i], squares);
    }
    float scale = 1.0f / sqrtf(row_sum<WARPS>(squares, shared) / (float)a.width + a.epsilon);
    for (uint32_t at = first; at < a.width; at += step) {
        load8_row(x, at, a.width, a.vectors, v);
        load8_row(a.weight, at, a.width, a.vectors, w);
        for (int i = 0; i < 8; i++)
            v[i] = mul_rn(mul_rn(v[i], scale), w[i]);
        store8_row(out, at, a.width, a.vectors, v);
    }
}

// The add of a row without its norm.
template <class T, int WARPS>
static __device__ __forceinline__ void rms_added(const norm_run &a, size_t row)
{
    T *x = (T *)a.residual + row;
    const T *add = (const T *)a.add + row;
    float v[8], w[8];
    for (uint32_t at = threadIdx.x % (32 * WARPS) * 8; at < a.width; at += 256 * WARPS) {
        load8_row(x, at, a.width, a.vectors, v);
        load8_row(add, at, a.width, a.vectors, w);
        for (int i = 0; i < 8; i++)
            v[i] = fmaf(w[i], a.factor, v[i]);
        store8_row(x, at, a.width, a.vectors, v);
    }
}

// WARPS warps per row (1: eight rows per block; 8: one row per block, and blocks that only
// prefetch). Shared: 32 bytes. Bound: memory, 4 * rows * width elements; with few rows latency.
template <class T, int WARPS> static __global__ void __launch_bounds__(256) rms_kernel(norm_run a)
{
    SHARED(float, shared, [8]);
    uint32_t r = WARPS == 1 ? blockIdx.x * 8 + threadIdx.x / 32 : blockIdx.x;
    if (WARPS == 8 && r >= a.rows)
        prefetch_share(a.next, (r - a.rows) * 256 + threadIdx.x, (gridDim.x - a.rows) * 256);
    grid_begin();
    if (r >= a.rows)
        return;
    size_t row = (size_t)r * a.stride;
    if (!a.out)
        rms_added<T, WARPS>(a, row);
    else if (a.vectors && a.width <= 256 * WARPS)
        rms_kept<T, WARPS, 1>(a, row, shared);
    else if (a.vectors && a.width <= NORM_KEPT * 256 * WARPS)
        rms_kept<T, WARPS, NORM_KEPT>(a, row, shared);
    else
        rms_walked<T, WARPS>(a, row, shared);
}

struct norm_codes_run {
    norm_run norm;
    e4m3_rows to;
};

// As rms_kernel with eight warps per row, for rows of vectors; also writes the output as codes for
// the next product. Shared: 64 bytes. Bytes: 9 * rows * width. Rows too long for the registers are
// read again from L1 or L2.
template <class T> static __global__ void __launch_bounds__(256) rms_codes_kernel(norm_codes_run a)
{
    SHARED(float, shared, [16]);
    uint32_t r = blockIdx.x;
    size_t row = (size_t)r * a.norm.stride;
    grid_begin();
    if (r < a.norm.rows && a.norm.width <= 256 * 8) {
        rms_kept<T, 8, 1, true>(a.norm, row, shared, &a.to, r);
    } else if (r < a.norm.rows && a.norm.width <= NORM_KEPT * 256 * 8) {
        rms_kept<T, 8, NORM_KEPT, true>(a.norm, row, shared, &a.to, r);
    } else {
        if (r < a.norm.rows)
            rms_walked<T, 8>(a.norm, row, shared);
        row_codes<256>((const T *)a.norm.out + row, a.to, r, shared + 8);
    }
}

template <class T>
static __device__ __forceinline__ void sum8(const norm_run &a, size_t row, uint32_t at, float v[8])
{
    load8_row((const T *)a.residual + row, at, a.width, a.vectors, v);
    if (!a.add)
        return;
    float w[8];
    load8_row((const T *)a.add + row, at, a.width, a.vectors, w);
    for (int i = 0; i < 8; i++)
        v[i] = add_rn(v[i], w[i]);
}

// As rms_kernel, but the sum of residual and add stays in float32 and is computed three times. out
// may be the residual: each thread writes only elements that it alone reads, after its last read.
template <class T, int WARPS> static __global__ void __launch_bounds__(256) layer_kernel(norm_run a)
{
    SHARED(float, shared, [8]);
    uint32_t r = WARPS == 1 ? blockIdx.x * 8 + threadIdx.x / 32 : blockIdx.x;
    grid_begin();
    if (r >= a.rows)
        return;
    uint32_t first = threadIdx.x % (32 * WARPS) * 8, step = 256 * WARPS;
    size_t row = (size_t)r * a.width;
    float sum = 0, squares = 0, v[8];
    for (uint32_t at = first; at < a.width; at += step) {
        sum8<T>(a, row, at, v);
        for (int i = 0; i < 8; i++)
            sum = add_rn(sum, v[i]);
    }
    float mean = row_sum<WARPS>(sum, shared) / (float)a.width;
    for (uint32_t at = first; at < a.width; at += step) {
        sum8<T>(a, row, at, v);
        for (uint32_t i = 0; i < 8 && at + i < a.width; i++)
            squares = fmaf(v[i] - mean, v[i] - mean, squares);
    }
    float scale = 1.0f / sqrtf(row_sum<WARPS>(squares, shared) / (float)a.width + a.epsilon);
    for (uint32_t at = first; at < a.width; at += step) {
        float w[8], b[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        sum8<T>(a, row, at, v);
        load8_row(a.weight, at, a.width, a.vectors, w);
        if (a.bias)
            load8_row(a.bias, at, a.width, a.vectors, b);
        for (int i = 0; i < 8; i++)
            v[i] = fmaf(mul_rn(v[i] - mean, scale), w[i], b[i]);
        store8_row((T *)a.out + row, at, a.width, a.vectors, v);
    }
}

// --- launches -----------------------------------------------------------------------------------

static enum status rms_codes(struct stream *stream, const norm_run *norm, enum dtype act,
                             const e4m3_rows *to)
{
    norm_codes_run run = {*norm, *to};
    dim3 grid(to->padded), block(256);
    if (act == DTYPE_BF16)
        LAUNCH_STEP(rms_codes_kernel<bf16>, grid, block, 0, stream, run);
    else
        LAUNCH_STEP(rms_codes_kernel<f16>, grid, block, 0, stream, run);
    enum status status = launch_status();
    if (status == STATUS_OK)
        fp8_fused_done(stream, norm->out, to);
    return status;
}

enum status cuda_rms_norm(struct stream *stream, const struct rms_norm_args *args)
{
    if (args->rows == 0)
        return STATUS_OK;
    uint32_t stride = args->stride != 0 ? args->stride : args->width;
    norm_run run = {
        args->residual, args->add,     args->weight ? (const float *)args->weight->data : NULL,
        NULL,           args->out,     args->rows,
        args->width,    args->epsilon, rows_whole(args->width) && rows_whole(stride),
        {NULL, 0},      stride,        args->factor != 0.0f ? args->factor : 1.0f};
    // narrower rows have one warp each: their products are too small to gain from codes
    if (args->out && args->width > 1024 && stride == args->width) {
        e4m3_rows to = fp8_fused(stream, args->next, args->act, args->out, args->rows, args->width);
        if (to.codes)
            return rms_codes(stream, &run, args->act, &to);
    }
    uint32_t more = 0, processors = stream->device->processors; // blocks that only prefetch
    if (args->width > 1024 && args->rows < processors) {
        run.next = prefetch_of(stream, args->next, args->rows, (processors - args->rows) * 256);
        more = run.next.lines != 0 ? processors - args->rows : 0;
    }
    return with_type(args->act, [&](auto type) {
        if (args->width > 1024)
            LAUNCH_STEP((rms_kernel<decltype(type), 8>), dim3(args->rows + more), dim3(256), 0,
                        stream, run);
        else
            LAUNCH_STEP((rms_kernel<decltype(type), 1>), dim3(divide_up(args->rows, 8)), dim3(256),
                        0, stream, run);
        return launch_status();
    });
}

enum status cuda_layer_norm(struct stream *stream, const struct layer_norm_args *args)
{
    if (args->rows == 0)
        return STATUS_OK;
    norm_run run = {(void *)args->residual,
                    args->add,
                    (const float *)args->weight->data,
                    args->bias ? (const float *)args->bias->data : NULL,
                    args->out,
                    args->rows,
                    args->width,
                    args->epsilon,
                    rows_whole(args->width),
                    {NULL, 0},
                    args->width,
                    1.0f};
    return with_type(args->act, [&](auto type) {
        if (args->width > 1024)
            LAUNCH_STEP((layer_kernel<decltype(type), 8>), dim3(args->rows), dim3(256), 0, stream,
                        run);
        else
            LAUNCH_STEP((layer_kernel<decltype(type), 1>), dim3(divide_up(args->rows, 8)),
                        dim3(256), 0, stream, run);
        return launch_status();
    });
}
