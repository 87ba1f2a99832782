// SPDX-License-Identifier: Apache-2.0
// The ops between two products: SwiGLU, the activations of encoders, and the gather of the rows
// that go to the head. All are bound by memory; 8 elements per thread.
#include "kernels/cuda/e4m3_rows.h"

struct flat_run {
    const void *in;
    void *out;
    uint32_t width;
    bool vectors;
    enum activation kind;
    prefetch_run next;
    float limit, alpha; // GATE_CLAMPED
};

enum { FLAT_THREADS = 128 };

// Returns x / (1 + exp(-x)) by approximate functions: an IEEE division takes longer than all the
// rest.
static __device__ __forceinline__ float silu(float x)
{
    return mul_rn(x, rcp(1.0f + ex2(mul_rn(x, -1.44269504088896341f))));
}

// The negative tail is computed with erfc: 1 + erf would cancel there.
static __device__ __forceinline__ float gelu(float x)
{
    return 0.5f * x * erfcf(-x * 0.70710678118654752f);
}

static __device__ __forceinline__ float activated(float x, enum activation kind)
{
    switch (kind) {
    case ACTIVATE_GELU:
        return gelu(x);
    case ACTIVATE_GELU_TANH:
        return mul_rn(x, rcp(1.0f + ex2(-2.30220819813964f * fmaf(0.044715f * x * x, x, x))));
    case ACTIVATE_TANH:
        return tanhf(x);
    case ACTIVATE_RELU:
        return x > 0.0f ? x : 0.0f * x; // keeps NaN
    default:
        return silu(x);
    }
}

// One thread per 8 outputs of a row; a block is (row, slice of the row), so that no index needs a
// division. Bytes: 3 * rows * width elements.
template <class T, class GATED>
static __device__ __forceinline__ void gate_row(const flat_run &a, GATED gated)
{
    uint32_t r = blockIdx.x, at = (blockIdx.y * FLAT_THREADS + threadIdx.x) * 8;
    if (a.next.lines != 0)
        prefetch_share(a.next, (blockIdx.y * gridDim.x + r) * FLAT_THREADS + threadIdx.x,
                       gridDim.x * gridDim.y * FLAT_THREADS);
    grid_begin();
    if (at >= a.width)
        return;
    const T *gate = (const T *)a.in + (size_t)r * 2 * a.width;
    float g[8], u[8];
    load8_row(gate, at, a.width, a.vectors, g);
    load8_row(gate + a.width, at, a.width, a.vectors, u);
    for (int j = 0; j < 8; j++)
        g[j] = gated(g[j], u[j]);
    store8_row((T *)a.out + (size_t)r * a.width, at, a.width, a.vectors, g);
}

template <enum activation GATE> struct plain_gate {
    __device__ __forceinline__ float operator()(float gate, float up) const
    {
        return mul_rn(activated(gate, GATE), up);
    }
};

// The clamped gate (struct swiglu_args).
struct clamped_gate {
    float limit, alpha;
    __device__ __forceinline__ float operator()(float gate, float up) const
    {
        float top = gate > limit ? limit : gate; // keeps NaN
        float held = up > limit ? limit : up < -limit ? -limit : up;
        float share = rcp(1.0f + ex2(mul_rn(top, -1.44269504088896341f * alpha)));
        return mul_rn(mul_rn(top, share), held + 1.0f);
    }
};

template <class T> static __global__ void __launch_bounds__(FLAT_THREADS) swiglu_kernel(flat_run a)
{
    gate_row<T>(a, plain_gate<ACTIVATE_SILU>{});
}

template <class T> static __global__ void __launch_bounds__(FLAT_THREADS) geglu_kernel(flat_run a)
{
    gate_row<T>(a, plain_gate<ACTIVATE_GELU_TANH>{});
}

template <class T>
static __global__ void __launch_bounds__(FLAT_THREADS) geglu_erf_kernel(flat_run a)
{
    gate_row<T>(a, plain_gate<ACTIVATE_GELU>{});
}

template <class T> static __global__ void __launch_bounds__(FLAT_THREADS) clamped_kernel(flat_run a)
{
    gate_row<T>(a, clamped_gate{a.limit, a.alpha});
}

struct gate_codes_run {
    flat_run flat;
    e4m3_rows to;
    enum gate gate;
};

enum { GATE_CODES_THREADS = 512 }; // many, so that few rows, of one block each, do not take long

static __device__ __forceinline__ void gate8(const gate_codes_run &a, float g[8], const float u[8])
{
    switch (a.gate) {
    case GATE_GELU:
        for (int j = 0; j < 8; j++)
            g[j] = plain_gate<ACTIVATE_GELU>{}(g[j], u[j]);
        break;
    case GATE_GELU_TANH:
        for (int j = 0; j < 8; j++)
            g[j] = plain_gate<ACTIVATE_GELU_TANH>{}(g[j], u[j]);
        break;
    case GATE_CLAMPED:
        for (int j = 0; j < 8; j++)
            g[j] = clamped_gate{a.flat.limit, a.flat.alpha}(g[j], u[j]);
        break;
    default:
        for (int j = 0; j < 8; j++)
            g[j] = plain_gate<ACTIVATE_SILU>{}(g[j], u[j]);
    }
}

// As gate_row, for all gates and rows of vectors; also writes the output as codes for the next
// product. A block computes a row, which it reads again from L1 or L2 when it knows the scale; with
// scales of blocks it computes slice blockIdx.y of a row. Shared: 64 bytes.
// Bytes: 7 * rows * width.
template <class T>
static __global__ void __launch_bounds__(GATE_CODES_THREADS) gate_codes_kernel(gate_codes_run a)
{
    SHARED(float, shared, [GATE_CODES_THREADS / 32]);
    uint32_t r = blockIdx.x, lane = threadIdx.x % 32, width = a.flat.width;
    const T *gate = (const T *)a.flat.in + (size_t)r * 2 * width;
    T *out = (T *)a.flat.out + (size_t)r * width;
    float top = 0;
    grid_begin();
    // all lanes of a warp make the same number of rounds
    for (uint32_t at = (blockIdx.y * GATE_CODES_THREADS + threadIdx.x) * 8; at - lane * 8 < width;
         at += gridDim.y * GATE_CODES_THREADS * 8) {
        float g[8] = {0, 0, 0, 0, 0, 0, 0, 0}, u[8];
        if (at < width && r < a.to.rows) {
            load8(gate + at, g);
            load8(gate + width + at, u);
            gate8(a, g, u);
            store8(out + at, g);
            for (int j = 0; j < 8; j++)
                g[j] = rounded<T>(g[j]);
        }
        if (a.to.blocks)
            block_codes8(a.to, r, at, g);
        else
            top = magnitude8(g, top);
    }
    if (!a.to.blocks)
        row_put<GATE_CODES_THREADS>(out, a.to, r, row_scale<GATE_CODES_THREADS / 32>(top, shared));
}

// In place, one thread per 8 elements. Bytes: 2 * rows * width elements.
template <class T>
static __global__ void __launch_bounds__(FLAT_THREADS) activate_kernel(flat_run a)
{
    uint32_t r = blockIdx.x, at = (blockIdx.y * FLAT_THREADS + threadIdx.x) * 8;
    grid_begin();
    if (at >= a.width)
        return;
    T *x = (T *)a.out + (size_t)r * a.width;
    float v[8];
    load8_row(x, at, a.width, a.vectors, v);
    for (int j = 0; j < 8; j++)
        v[j] = activated(v[j], a.kind);
    store8_row(x, at, a.width, a.vectors, v);
}

struct gather_run {
    gather_args args;
    bool vectors;
};

// One block of 128 per row. Bytes: 2 * n * width elements.
template <class T> static __global__ void __launch_bounds__(128) gather_kernel(gather_run a)
{
    grid_begin();
    step_sampled s = a.args.sampled[blockIdx.x];
    uint32_t from = a.args.first_token ? a.args.rows[s.row].q_start : s.last_token;
    const T *in = (const T *)a.args.in + (size_t)from * a.args.width;
    T *out = (T *)a.args.out + (size_t)blockIdx.x * a.args.width;
    for (uint32_t at = threadIdx.x * 8; at < a.args.width; at += 1024) {
        float v[8];
        load8_row(in, at, a.args.width, a.vectors, v);
        store8_row(out, at, a.args.width, a.vectors, v);
    }
}

// --- launches -----------------------------------------------------------------------------------

static dim3 flat_grid(uint32_t rows, uint32_t width)
{
    return dim3(rows, divide_up(width, 8 * FLAT_THREADS));
}

static enum status swiglu_codes(struct stream *stream, const struct swiglu_args *args,
                                const e4m3_rows *to)
{
    gate_codes_run run = {{args->in,
                           args->out,
                           args->width,
                           true,
                           ACTIVATE_SILU,
                           {NULL, 0},
                           args->limit,
                           args->alpha},
                          *to,
                          args->gate};
    dim3 grid(to->padded, to->blocks ? divide_up(args->width, 8 * GATE_CODES_THREADS) : 1);
    if (args->act == DTYPE_BF16)
        LAUNCH_STEP(gate_codes_kernel<bf16>, grid, dim3(GATE_CODES_THREADS), 0, stream, run);
    else
        LAUNCH_STEP(gate_codes_kernel<f16>, grid, dim3(GATE_CODES_THREADS), 0, stream, run);
    enum status status = launch_status();
    if (status == STATUS_OK)
        fp8_fused_done(stream, args->out, to);
    return status;
}

enum status cuda_swiglu(struct stream *stream, const struct swiglu_args *args)
{
    if (args->rows == 0)
        return STATUS_OK;
    e4m3_rows to = fp8_fused(stream, args->next, args->act, args->out, args->rows, args->width);
    if (to.codes)
        return swiglu_codes(stream, args, &to);
    dim3 grid = flat_grid(args->rows, args->width);
    flat_run run = {
        args->in,      args->out,
        args->width,   rows_whole(args->width),
        ACTIVATE_SILU, prefetch_of(stream, args->next, args->rows, grid.x * grid.y * FLAT_THREADS),
        args->limit,   args->alpha};
    return with_type(args->act, [&](auto type) {
        if (args->gate == GATE_GELU)
            LAUNCH_STEP(geglu_erf_kernel<decltype(type)>, grid, dim3(FLAT_THREADS), 0, stream, run);
        else if (args->gate == GATE_CLAMPED)
            LAUNCH_STEP(clamped_kernel<decltype(type)>, grid, dim3(FLAT_THREADS), 0, stream, run);
        else if (args->gate == GATE_GELU_TANH)
            LAUNCH_STEP(geglu_kernel<decltype(type)>, grid, dim3(FLAT_THREADS), 0, stream, run);
        else
            LAUNCH_STEP(swiglu_kernel<decltype(type)>, grid, dim3(FLAT_THREADS), 0, stream, run);
        return launch_status();
    });
}

enum status cuda_activate(struct stream *stream, const struct activate_args *args)
{
    if (args->rows == 0)
        return STATUS_OK;
    flat_run run = {NULL,       args->x,   args->width, rows_whole(args->width),
                    args->kind, {NULL, 0}, 0,           0};
    dim3 grid = flat_grid(args->rows, args->width);
    return with_type(args->act, [&](auto type) {
        LAUNCH_STEP(activate_kernel<decltype(type)>, grid, dim3(FLAT_THREADS), 0, stream, run);
        return launch_status();
    });
}

enum status cuda_gather(struct stream *stream, const struct gather_args *args)
{
    if (args->count == 0)
        return STATUS_OK;
    gather_run run = {*args, rows_whole(args->width)};
    return with_type(args->act, [&](auto type) {
        LAUNCH_STEP(gather_kernel<decltype(type)>, dim3(args->count), dim3(128), 0, stream, run);
        return launch_status();
    });
}
