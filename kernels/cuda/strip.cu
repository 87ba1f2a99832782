// SPDX-License-Identifier: Apache-2.0
// Converts features of a weight held as codes or int8 to a strip of 16-bit floats, for cuBLASLt's
// products of many rows (decision 0079). An element depends on its code and scale alone.
#include "kernels/cuda/gemm_parts.h"
#include "kernels/cuda/strip.h"

#include "base/number.h"

enum {
    STRIP_SLABS = 4, // slabs of 32 columns that a warp converts: its codes are loaded at once
    STRIP_THREADS = 256,
    STRIP_COLUMNS = 2 * 8 * STRIP_THREADS, // codes of 8 bits that a block converts
};

// Rows of one part, or of a weight of 8-bit codes.
struct strip_run {
    code_arrays codes;    // the codes of the part
    const uint8_t *bytes; // codes of 8 bits, [n][stride]
    const float *scale;   // scales of 8-bit codes, as in gemm_run
    void *to;             // element 0 of row `first`
    uint32_t first, rows; // rows to convert, counted from the first of the part
    uint32_t k, stride;
};

// One warp converts four slabs of a panel; a lane has eight columns of two rows in each.
// Bytes: 2.5 * rows * k, written to L2. Bound: memory.
template <class T, int KIND, int RUN>
static __global__ void __launch_bounds__(STRIP_THREADS) strip_codes(strip_run s)
{
    uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, slabs = s.k / CODE_SLAB;
    uint32_t slab = (blockIdx.x * (STRIP_THREADS / 32) + warp) * STRIP_SLABS;
    uint32_t panel = s.first / CODE_ROWS + blockIdx.y;
    // rows of the strip; those of its first panel may begin before the strip
    uint32_t low = panel * CODE_ROWS + lane / 4 - s.first, high = low + CODE_ROWS / 2;
    int64_t row_at = (int64_t)(int32_t)low * (s.k / 8);
    uint4 *row = (uint4 *)s.to + row_at + slab * (CODE_SLAB / 8) + lane % 4;
    code_lane<KIND, RUN> at;
    uint2 code[STRIP_SLABS];
    code_words words[STRIP_SLABS / RUN];
    grid_begin();
    if (slab >= slabs)
        return;
    at.begin(s.codes, panel);
    at = at.after(slab);
    uint32_t left = slabs - slab; // slabs of the panel from `slab` on
#pragma unroll
    for (uint32_t i = 0; i < STRIP_SLABS; i++)
        code[i] = at.codes_of(i < left ? i : left - 1);
#pragma unroll
    for (uint32_t i = 0; i < STRIP_SLABS / RUN; i++)
        words[i] = at.words_of(i * RUN < left ? i * RUN : left - 1);
#pragma unroll
    for (uint32_t i = 0; i < STRIP_SLABS; i++) {
        const code_words &w = words[i / RUN];
        uint4 first = code_elements<KIND>(code[i].x, code_factors_of<KIND>(w, 0), T());
        uint4 second = code_elements<KIND>(code[i].y, code_factors_of<KIND>(w, 1), T());
        if (i < left && low < s.rows)
            stg128(row + i * (CODE_SLAB / 8), first);
        if (i < left && high < s.rows)
            stg128(row + s.k + i * (CODE_SLAB / 8), second); // eight rows below
    }
}

// strip_scale returns the scale of a row at a column; strip_value an element, from what weight8
// makes of its code; strip_code8 eight codes as weight8 takes them.
template <class W>
static __device__ __forceinline__ float strip_scale(W, const strip_run &s, uint32_t row, uint32_t)
{
    return s.scale[row];
}
static __device__ __forceinline__ float strip_scale(fp8_128, const strip_run &s, uint32_t row,
                                                    uint32_t column)
{
    return s.scale[row / FP8_SCALE_ROWS * (s.k / FP8_SCALE_COLUMNS) + column / FP8_SCALE_COLUMNS];
}
template <class T, class W>
static __device__ __forceinline__ float strip_value(T, W, float element, float scale)
{
    return mul_rn(mul_rn(element, e4m3_factor(T())), scale);
}
template <class T>
static __device__ __forceinline__ float strip_value(T, int8, float element, float scale)
{
    return mul_rn(element, scale);
}
static __device__ __forceinline__ e4m3x8 strip_code8(fp8, uint2 codes)
{
    return {codes};
}
static __device__ __forceinline__ e4m3x8 strip_code8(fp8_128, uint2 codes)
{
    return {codes};
}
static __device__ __forceinline__ uint2 strip_code8(int8, uint2 codes)
{
    return codes;
}

// One thread converts two times eight codes of a row; a block converts 256 times as many, all of
// one row. Bytes: 3 * rows * k, two thirds of them written to L2. Bound: memory.
template <class T, class W>
static __global__ void __launch_bounds__(STRIP_THREADS) strip_bytes(strip_run s)
{
    uint32_t row = s.first + blockIdx.y, first = blockIdx.x * STRIP_COLUMNS + threadIdx.x * 8;
    const uint8_t *codes = s.bytes + (size_t)row * s.stride;
    uint4 *to = (uint4 *)s.to + (size_t)blockIdx.y * s.k / 8;
    uint2 code[2];
    grid_begin();
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t column = first + i * (STRIP_COLUMNS / 2);
        code[i] = load64(codes + (column < s.k ? column : 0));
    }
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t column = first + i * (STRIP_COLUMNS / 2);
        if (column >= s.k)
            return;
        float scale = strip_scale(W(), s, row, column), v[8];
        uint4 w = weight8(T(), strip_code8(W(), code[i]));
        unpack2(w.x, v, T());
        unpack2(w.y, v + 2, T());
        unpack2(w.z, v + 4, T());
        unpack2(w.w, v + 6, T());
#pragma unroll
        for (int e = 0; e < 8; e++)
            v[e] = strip_value(T(), W(), v[e], scale);
        uint4 out = {pack2(v, T()), pack2(v + 2, T()), pack2(v + 4, T()), pack2(v + 6, T())};
        stg128(to + column / 8, out);
    }
}

template <class T, int KIND, int RUN>
static enum status codes_launch(struct stream *stream, dim3 grid, const strip_run &s,
                                codes<KIND, RUN>)
{
    LAUNCH_STEP((strip_codes<T, KIND, RUN>), grid, dim3(STRIP_THREADS), 0, stream, s);
    return launch_status();
}

// One launch for each part that has features of the strip.
template <class T>
static enum status fill_codes(struct stream *stream, const struct strip_fill *fill)
{
    const struct weight_shape *shape = &fill->weight->shape;
    uint32_t end = fill->first + fill->rows;
    enum status status = STATUS_OK;
    for (uint32_t row = fill->first; row < end && status == STATUS_OK;) {
        struct code_span part = code_span_of(shape, row);
        struct code_places p = code_places_of(part.format, part.rows, shape->k);
        const char *at = (const char *)fill->weight->data + part.at;
        uint32_t left = part.first + part.rows - row;
        strip_run s = {};
        s.codes = {at,       at + p.scales, at + p.supers, p.slabs,
                   p.groups, p.group_shift, shape->k / 256};
        s.first = row - part.first;
        s.rows = left < end - row ? left : end - row;
        s.k = shape->k;
        s.to = (T *)fill->to + (size_t)(row - fill->first) * shape->k;
        uint32_t panels = divide_up(s.first + s.rows, CODE_ROWS) - s.first / CODE_ROWS;
        dim3 grid(divide_up(s.k / CODE_SLAB, STRIP_SLABS * STRIP_THREADS / 32), panels);
        status = with_codes(part.format,
                            [&](auto held) { return codes_launch<T>(stream, grid, s, held); });
        row += s.rows;
    }
    return status;
}

template <class T, class W>
static enum status fill_bytes(struct stream *stream, const struct strip_fill *fill)
{
    const struct weight *w = fill->weight;
    strip_run s = {};
    s.bytes = (const uint8_t *)w->data;
    s.scale = (const float *)((const char *)w->data + weight_scales_at(&w->shape));
    s.to = fill->to;
    s.first = fill->first;
    s.rows = fill->rows;
    s.k = w->shape.k;
    s.stride = weight_stride(&w->shape);
    dim3 grid(divide_up(s.k, STRIP_COLUMNS), s.rows); // at most 65,535 rows
    LAUNCH_STEP((strip_bytes<T, W>), grid, dim3(STRIP_THREADS), 0, stream, s);
    return launch_status();
}

template <class T> static enum status fill_as(struct stream *stream, const struct strip_fill *fill)
{
    const struct weight_shape *shape = &fill->weight->shape;
    if (weight_nibbles(shape))
        return fill_codes<T>(stream, fill);
    if (shape->part_count == 0)
        return fill_bytes<T, int8>(stream, fill);
    return shape->parts[0].format == WEIGHT_FP8 ? fill_bytes<T, fp8>(stream, fill)
                                                : fill_bytes<T, fp8_128>(stream, fill);
}

enum status strip_fill(struct stream *stream, const struct strip_fill *fill)
{
    return fill->act == DTYPE_BF16 ? fill_as<bf16>(stream, fill) : fill_as<f16>(stream, fill);
}
