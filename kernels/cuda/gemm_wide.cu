// The product for many tokens: tiles of 128 features x 64 tokens through shared memory, with the
// summation order of gemm_small. Also the plain product, for float32 and for mixed types.
#include "kernels/cuda/gemm.h"

enum { WIDE_FEATURES = 128, WIDE_TOKENS = 64, WIDE_K = 64, WIDE_STAGES = 3 };

// A stage holds WIDE_K columns of both operands, 16-byte chunks swizzled by row so that fragment
// reads of 16 (int8: 8) bytes and asynchronous writes have no bank conflicts.
template <class W> struct wide_stage {
    W weight[WIDE_FEATURES * WIDE_K];
    uint16_t token[WIDE_TOKENS * WIDE_K];
};

static __device__ __forceinline__ uint32_t chunk_at(uint32_t row, uint32_t chunk)
{
    return row * 128 + ((chunk ^ (row & 1u) * 4u) * 16); // 8 chunks of 16 bytes a row
}
static __device__ __forceinline__ uint32_t chunk8_at(uint32_t row, uint32_t chunk)
{
    return row * 64 + ((chunk ^ (row >> 1 & 1u) * 2u) * 16); // int8: 4 chunks a row
}

template <class T, class W>
static __device__ __forceinline__ void wide_issue(const gemm_run &g, wide_stage<W> *stage,
                                                  uint32_t feature, uint32_t token, uint32_t k)
{
    const uint32_t chunks = sizeof(W) == 1 ? 4 : 8, per = 16 / sizeof(W);
    for (uint32_t i = threadIdx.x; i < WIDE_FEATURES * chunks; i += 256) {
        uint32_t row = i / chunks, chunk = i % chunks, at = k + chunk * per;
        bool valid = feature + row < g.n && at < g.stride;
        const W *from = (const W *)g.weight + (valid ? (size_t)(feature + row) * g.stride + at : 0);
        uint32_t to = sizeof(W) == 1 ? chunk8_at(row, chunk) : chunk_at(row, chunk);
        cp_async16((char *)stage->weight + to, from, valid);
    }
    for (uint32_t i = threadIdx.x; i < WIDE_TOKENS * 8; i += 256) {
        uint32_t row = i / 8, chunk = i % 8, at = k + chunk * 8;
        bool valid = token + row < g.rows && at < g.k;
        const T *from = (const T *)g.x + (valid ? (size_t)(token + row) * g.x_stride + at : 0);
        cp_async16((char *)stage->token + chunk_at(row, chunk), from, valid);
    }
}

template <class T>
static __device__ __forceinline__ uint4 wide_weight8(const wide_stage<T> *stage, T, uint32_t row,
                                                     uint32_t slab, uint32_t t)
{
    return lds128((const char *)stage->weight + chunk_at(row, slab * 4 + t));
}
template <class T>
static __device__ __forceinline__ uint4 wide_weight8(const wide_stage<int8> *stage, T, uint32_t row,
                                                     uint32_t slab, uint32_t t)
{
    const char *chunk = (const char *)stage->weight + chunk8_at(row, slab * 2 + t / 2);
    return weight8(T(), load64(chunk + t % 2 * 8));
}

// 8 warps, 4 over features x 2 over tokens, each 32 x 32. Shared: 72 KB (int8: 48 KB), dynamic.
// Bound: math; three stages of 64 k in flight.
template <class T, class W>
static __global__ void __launch_bounds__(256) gemm_wide_kernel(gemm_run g)
{
    SHARED_DYNAMIC(wide_stage<W>, stage);
    uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, r = lane / 4, t = lane % 4;
    uint32_t feature = blockIdx.x * WIDE_FEATURES, token = blockIdx.y * WIDE_TOKENS;
    uint32_t row0 = warp % 4 * 32, col0 = warp / 4 * 32;
    float c[2][4][4], total[2][4][4];
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                c[i][j][e] = total[i][j][e] = 0;
    uint32_t steps = (g.stride + WIDE_K - 1) / WIDE_K;
    for (uint32_t s = 0; s < WIDE_STAGES - 1; s++) {
        if (s < steps)
            wide_issue<T, W>(g, stage + s, feature, token, s * WIDE_K);
        cp_async_commit();
    }
    for (uint32_t s = 0; s < steps; s++) {
        cp_async_wait<WIDE_STAGES - 2>();
        cta_sync();
        uint32_t next = s + WIDE_STAGES - 1;
        if (next < steps)
            wide_issue<T, W>(g, stage + next % WIDE_STAGES, feature, token, next * WIDE_K);
        cp_async_commit();
        const wide_stage<W> *now = stage + s % WIDE_STAGES;
#pragma unroll
        for (uint32_t slab = 0; slab < 2; slab++) {
            if (s * WIDE_K + slab * 32 >= g.stride)
                continue; // adds no zeros, as the small kernel adds none
            uint4 x[4];
#pragma unroll
            for (int j = 0; j < 4; j++)
                x[j] = lds128((const char *)now->token + chunk_at(col0 + 8 * j + r, slab * 4 + t));
#pragma unroll
            for (int i = 0; i < 2; i++) {
                uint4 lo = wide_weight8(now, T(), row0 + 16 * i + r, slab, t);
                uint4 hi = wide_weight8(now, T(), row0 + 16 * i + r + 8, slab, t);
#pragma unroll
                for (int j = 0; j < 4; j++)
                    slab_mma<T>(c[i][j], lo, hi, x[j]);
            }
        }
        if ((s + 1) * WIDE_K % PRODUCT_PART != 0 && s + 1 != steps)
            continue;
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    total[i][j][e] = add_rn(total[i][j][e], c[i][j][e]);
                    c[i][j][e] = 0;
                }
    }
    cp_async_wait<0>();
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                gemm_store(g, token + col0 + 8 * j + 2 * t + (e & 1),
                           feature + row0 + 16 * i + r + 8 * (e >> 1), total[i][j][e]);
}

template <class T>
static __device__ __forceinline__ float plain_weight(const gemm_run &g, size_t i, enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_F32:
        return ((const float *)g.weight)[i];
    case DTYPE_BF16:
        return widen(((const bf16 *)g.weight)[i]);
    case DTYPE_F16:
        return widen(((const f16 *)g.weight)[i]);
    default:
        return (float)((const int8 *)g.weight)[i].value;
    }
}

struct plain_run {
    gemm_run g;
    enum dtype dtype; // of the weight
};

// One warp for one feature and four tokens, lanes over k, parts as above with a fixed tree over the
// lanes. No tensor cores: for float32, where exactness matters more than speed. Bound: math.
template <class T> static __global__ void __launch_bounds__(256) gemm_plain_kernel(plain_run p)
{
    const gemm_run &g = p.g;
    uint32_t feature = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    uint32_t token = blockIdx.y * 4;
    if (feature >= g.n)
        return;
    float total[4] = {0, 0, 0, 0};
    for (uint32_t part = 0; part < g.k; part += PRODUCT_PART) {
        float sum[4] = {0, 0, 0, 0};
        uint32_t end = part + PRODUCT_PART < g.k ? part + PRODUCT_PART : g.k;
        for (uint32_t k = part + lane; k < end; k += 32) {
            float w = plain_weight<T>(g, (size_t)feature * g.stride + k, p.dtype);
            for (uint32_t i = 0; i < 4 && token + i < g.rows; i++)
                sum[i] =
                    fmaf(widen(((const T *)g.x)[(size_t)(token + i) * g.x_stride + k]), w, sum[i]);
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
            total[i] = add_rn(total[i], warp_sum(sum[i]));
    }
    for (uint32_t i = 0; i < 4; i++)
        if (lane == i)
            gemm_store(g, token + i, feature, total[i]);
}

// --- launches -----------------------------------------------------------------------------------

template <class T, class W> static enum status wide_launch(struct stream *stream, const gemm_run &g)
{
    size_t shared = WIDE_STAGES * sizeof(wide_stage<W>);
    if (SHARED_ALLOW((gemm_wide_kernel<T, W>), shared) != cudaSuccess)
        return STATUS_DEVICE_FAULT;
    dim3 grid(divide_up(g.n, WIDE_FEATURES), divide_up(g.rows, WIDE_TOKENS));
    LAUNCH((gemm_wide_kernel<T, W>), grid, dim3(256), shared, stream->cuda, g);
    return launch_status();
}

enum status gemm_wide(struct stream *stream, const struct gemm_args *args)
{
    gemm_run g = gemm_run_of(args);
    if (!g.whole) // rows of x that cannot be read in vectors
        return gemm_small(stream, args);
    bool rows8 = args->weight->shape.dtype == DTYPE_I8;
    if (args->x_dtype == DTYPE_BF16)
        return rows8 ? wide_launch<bf16, int8>(stream, g) : wide_launch<bf16, bf16>(stream, g);
    return rows8 ? wide_launch<f16, int8>(stream, g) : wide_launch<f16, f16>(stream, g);
}

enum status gemm_plain(struct stream *stream, const struct gemm_args *args)
{
    plain_run p = {gemm_run_of(args), args->weight->shape.dtype};
    dim3 grid(divide_up(p.g.n, 8), divide_up(p.g.rows, 4));
    return with_type(args->x_dtype, [&](auto type) {
        LAUNCH(gemm_plain_kernel<decltype(type)>, grid, dim3(256), 0, stream->cuda, p);
        return launch_status();
    });
}
