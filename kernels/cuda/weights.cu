// SPDX-License-Identifier: Apache-2.0
// Writes rows of checkpoint tensors to rows of a weight, on the device: converted, quantised,
// padded with zeros to whole vectors; or random numbers if there is no checkpoint.
#include "kernels/cuda/lane.h"

static __device__ __forceinline__ float source_at(const void *from, enum dtype dtype, size_t i)
{
    if (dtype == DTYPE_F32)
        return ((const float *)from)[i];
    uint16_t bits = ((const uint16_t *)from)[i];
    return dtype == DTYPE_F16 ? f16_to_float(bits) : bf16_to_float(bits);
}

static __device__ __forceinline__ void weight_at(void *to, enum dtype dtype, size_t i, float x)
{
    if (dtype == DTYPE_F32)
        ((float *)to)[i] = x;
    else
        ((uint16_t *)to)[i] = dtype == DTYPE_F16 ? float_to_f16(x) : float_to_bf16(x);
}

// Returns element i of a random source, which is equal on every device: see kernels/philox.h.
static __device__ __forceinline__ float random_at(uint64_t seed, uint64_t i, float factor)
{
    philox block = philox_at(seed, (uint32_t)i, (uint32_t)(i >> 32), 0, 0);
    uint32_t sum = 0;
    for (int w = 0; w < 4; w++)
        sum += (block.word[w] & 0xFFFFu) + (block.word[w] >> 16);
    return (float)((int32_t)sum - 262140) * factor;
}

struct put_run {
    const void *from; // NULL: random
    enum dtype from_type;
    uint64_t seed, first_element;
    float factor;
    enum dtype dtype;
    void *to;
    float *scale;           // [n] scales of int8 rows
    uint16_t *half, *brain; // 16-bit copies of a vector, for cuBLASLt
    uint32_t first_row, rows, cols, stride;
    uint32_t from_stride; // elements from one row of the tensor to the next
};

static __device__ __forceinline__ float put_at(const put_run &p, uint32_t row, uint32_t col)
{
    uint64_t i = (uint64_t)row * p.from_stride + col;
    return p.from ? source_at(p.from, p.from_type, i)
                  : random_at(p.seed, p.first_element + i, p.factor);
}

// One block of 256 per row. Int8: scale = greatest magnitude / 127, values rounded to nearest, ties
// to even; a row that contains a NaN gets a NaN as its scale. Shared: 32 bytes. Bound: memory.
static __global__ void __launch_bounds__(256) put_rows(put_run p)
{
    SHARED(float, shared, [8]);
    uint32_t row = blockIdx.x;
    size_t at = (size_t)(p.first_row + row) * p.stride;
    if (p.dtype != DTYPE_I8) {
        for (uint32_t c = threadIdx.x; c < p.stride; c += 256)
            weight_at(p.to, p.dtype, at + c, c < p.cols ? put_at(p, row, c) : 0.0f);
        return;
    }
    float top = 0, poison = 0;
    for (uint32_t c = threadIdx.x; c < p.cols; c += 256) {
        float x = put_at(p, row, c);
        top = fmaxf(top, fabsf(x));
        poison = fmaf(x, 0.0f, poison);
    }
    poison = row_sum<8>(poison, shared);
    cta_sync();
    top = warp_max(top);
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = top;
    cta_sync();
    for (int i = 0; i < 8; i++)
        top = fmaxf(top, shared[i]);
    float scale = top / 127.0f + poison, inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
    for (uint32_t c = threadIdx.x * 2; c < p.stride; c += 512) {
        uint32_t pair = 0;
        for (uint32_t h = 0; h < 2; h++) {
            float x = c + h < p.cols ? mul_rn(put_at(p, row, c + h), inverse) : 0.0f;
            x = rintf(fminf(fmaxf(x, -127.0f), 127.0f));
            pair |= ((uint32_t)(int32_t)x & 255u) << (8 * h);
        }
        ((uint16_t *)p.to)[(at + c) / 2] = (uint16_t)pair;
    }
    if (threadIdx.x == 0)
        p.scale[p.first_row + row] = scale;
}

// Vectors are stored in float32, followed by copies rounded to both 16-bit types.
static __global__ void __launch_bounds__(256) put_vector(put_run p)
{
    uint32_t i = blockIdx.x * 256 + threadIdx.x;
    if (i >= p.rows * p.cols)
        return;
    float x = put_at(p, 0, i);
    ((float *)p.to)[p.first_row + i] = x;
    p.brain[p.first_row + i] = float_to_bf16(x);
    p.half[p.first_row + i] = float_to_f16(x);
}

// --- launches -----------------------------------------------------------------------------------

static put_run put_of(const struct weight_shape *shape, void *to)
{
    put_run p;
    memset(&p, 0, sizeof p);
    p.dtype = shape->dtype;
    p.to = to;
    p.stride = weight_stride(shape);
    p.scale = (float *)((char *)to + weight_scales_at(shape));
    p.brain = (uint16_t *)((char *)to + vector_copy_at(shape, DTYPE_BF16));
    p.half = (uint16_t *)((char *)to + vector_copy_at(shape, DTYPE_F16));
    return p;
}

static enum status put_launch(cudaStream_t stream, const struct weight_shape *shape,
                              const put_run &p)
{
    if (shape->use == WEIGHT_VECTOR)
        LAUNCH(put_vector, dim3(divide_up(p.rows * p.cols, 256)), dim3(256), 0, stream, p);
    else
        LAUNCH(put_rows, dim3(p.rows), dim3(256), 0, stream, p);
    return launch_status();
}

enum status weight_convert(cudaStream_t stream, const struct convert_args *args)
{
    put_run p = put_of(&args->shape, args->to);
    p.from = args->from;
    p.from_type = args->dtype;
    p.first_row = args->first_row;
    p.rows = args->rows;
    p.cols = p.from_stride = args->cols;
    return put_launch(stream, &args->shape, p);
}

enum status weight_fill(cudaStream_t stream, const struct fill_args *args)
{
    put_run p = put_of(&args->shape, args->to);
    p.seed = args->seed;
    p.first_element = args->first_element;
    p.factor = args->deviation * 0x1.3988e2p-16f;
    p.first_row = args->first_row;
    p.rows = args->rows;
    p.cols = args->cols;
    p.from_stride = args->stride;
    return put_launch(stream, &args->shape, p);
}
