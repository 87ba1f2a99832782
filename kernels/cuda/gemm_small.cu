// The product for few tokens: y = x W^T + bias with every weight byte read once. The parts of K are
// spread over warps and added in index order.
#include "kernels/cuda/gemm.h"

// Eight weights of a row; the tag says how they are held.
template <class T>
static __device__ __forceinline__ uint4 weight_row8(const gemm_run &g, T, T, uint32_t row,
                                                    uint32_t k)
{
    uint4 zero = {0, 0, 0, 0};
    return row < g.n ? ldg128_stream((const T *)g.weight + (size_t)row * g.stride + k) : zero;
}
template <class T>
static __device__ __forceinline__ uint4 weight_row8(const gemm_run &g, int8, T, uint32_t row,
                                                    uint32_t k)
{
    uint2 zero = {0, 0};
    return weight8(T(),
                   row < g.n ? load64((const int8 *)g.weight + (size_t)row * g.stride + k) : zero);
}

template <class T>
static __device__ __forceinline__ uint4 token_row8(const gemm_run &g, uint32_t token, uint32_t k)
{
    uint4 w = {0, 0, 0, 0};
    if (token >= g.rows)
        return w;
    const T *row = (const T *)g.x + (size_t)token * g.x_stride;
    if (g.whole)
        return k < g.k ? ldg128(row + k) : w;
    float v[8];
    load8_row(row, k, g.k, false, v);
    w.x = pack2(v, T());
    w.y = pack2(v + 2, T());
    w.z = pack2(v + 4, T());
    w.w = pack2(v + 6, T());
    return w;
}

// Where element o = token * 16 + feature of a tile lies in shared memory: tokens that a warp writes
// together fall on different banks, and a warp reads 32 elements of one pair of tokens.
static __device__ __forceinline__ uint32_t shared_at(uint32_t o)
{
    return o ^ (o >> 5 & 3u) << 3;
}

// 8 warps make 16 features x 8 * TILES tokens: in round i warp w sums part 8 i + w, then the parts
// of the round are added in order. Shared: 4 to 16 KB. Bound: memory, n * k weights. A warp has 1
// KB of weights a slab in flight, unrolled by 4.
template <class T, class W, int TILES>
static __global__ void __launch_bounds__(256) gemm_small_kernel(gemm_run g)
{
    SHARED(float, shared, [8][16 * 8 * TILES]);
    uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, r = lane / 4, t = lane % 4;
    uint32_t feature = blockIdx.x * 16, token = blockIdx.y * 8 * TILES;
    uint32_t parts = (g.stride + PRODUCT_PART - 1) / PRODUCT_PART;
    float total[(TILES + 1) / 2];
    for (int i = 0; i < (TILES + 1) / 2; i++)
        total[i] = 0;
    for (uint32_t first = 0; first < parts; first += 8) {
        float c[TILES][4];
        for (int i = 0; i < TILES; i++)
            c[i][0] = c[i][1] = c[i][2] = c[i][3] = 0;
        uint32_t part = first + warp;
        uint32_t end = (part + 1) * PRODUCT_PART < g.stride ? (part + 1) * PRODUCT_PART : g.stride;
#pragma unroll 4
        for (uint32_t k = part * PRODUCT_PART; k < end; k += 32) {
            uint4 lo = weight_row8(g, W(), T(), feature + r, k + 8 * t);
            uint4 hi = weight_row8(g, W(), T(), feature + r + 8, k + 8 * t);
            for (int i = 0; i < TILES; i++)
                slab_mma<T>(c[i], lo, hi, token_row8<T>(g, token + 8 * i + r, k + 8 * t));
        }
        for (int i = 0; i < TILES; i++) {
            uint32_t o = (8 * i + 2 * t) * 16 + r;
            shared[warp][shared_at(o)] = c[i][0];
            shared[warp][shared_at(o + 16)] = c[i][1];
            shared[warp][shared_at(o + 8)] = c[i][2];
            shared[warp][shared_at(o + 24)] = c[i][3];
        }
        cta_sync();
        for (int i = 0; i < (TILES + 1) / 2; i++) {
            uint32_t o = i * 256 + threadIdx.x;
            for (uint32_t w = 0; w < 8 && first + w < parts && o < 128 * TILES; w++)
                total[i] = add_rn(total[i], shared[w][shared_at(o)]);
        }
        cta_sync();
    }
    for (int i = 0; i < (TILES + 1) / 2; i++) {
        uint32_t o = i * 256 + threadIdx.x;
        if (o < 128 * TILES)
            gemm_store(g, token + o / 16, feature + o % 16, total[i]);
    }
}

// --- launch -------------------------------------------------------------------------------------

template <class T, class W> static enum status small_launch(struct stream *stream, gemm_run g)
{
    uint32_t tiles = g.rows <= 8 ? 1 : g.rows <= 16 ? 2 : 4;
    dim3 grid(divide_up(g.n, 16), divide_up(g.rows, 8 * tiles));
    if (tiles == 1)
        LAUNCH((gemm_small_kernel<T, W, 1>), grid, dim3(256), 0, stream->cuda, g);
    else if (tiles == 2)
        LAUNCH((gemm_small_kernel<T, W, 2>), grid, dim3(256), 0, stream->cuda, g);
    else
        LAUNCH((gemm_small_kernel<T, W, 4>), grid, dim3(256), 0, stream->cuda, g);
    return launch_status();
}

enum status gemm_small(struct stream *stream, const struct gemm_args *args)
{
    gemm_run g = gemm_run_of(args);
    bool rows8 = args->weight->shape.dtype == DTYPE_I8;
    if (args->x_dtype == DTYPE_BF16)
        return rows8 ? small_launch<bf16, int8>(stream, g) : small_launch<bf16, bf16>(stream, g);
    return rows8 ? small_launch<f16, int8>(stream, g) : small_launch<f16, f16>(stream, g);
}
