// SPDX-License-Identifier: Apache-2.0
// Writes rows of checkpoint tensors to rows of a weight, on the device: converted, quantised,
// padded with zeros to whole vectors; or random numbers if there is no checkpoint.
#include "kernels/cuda/codes_put.h"
#include "kernels/cuda/e4m3.h"

#define Q4_FUNCTION static __device__
#define Q4_HALF(x) f16_to_float(float_to_f16(x))
#include "kernels/q4_round.h"

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
    bool e4m3; // true if the weight is FP8 codes
    void *to;
    float *scale;                       // scales of int8 or FP8 weights
    uint32_t scale_rows, scale_columns; // elements of FP8 codes with one scale
    uint16_t *half, *brain;             // 16-bit copies of a vector, for cuBLASLt
    uint32_t first_row, rows, cols, stride;
    uint32_t from_stride; // elements from one row of the tensor to the next
    code_rows codes;      // if the rows are rounded to codes
};

static __device__ __forceinline__ float put_at(const put_run &p, uint32_t row, uint32_t col)
{
    uint64_t i = (uint64_t)row * p.from_stride + col;
    return p.from ? source_at(p.from, p.from_type, i)
                  : random_at(p.seed, p.first_element + i, p.factor);
}

// Returns the code of an element divided by its scale: int8 or e4m3.
static __device__ __forceinline__ uint32_t code_of(const put_run &p, float x)
{
    if (p.e4m3)
        return float_to_e4m3(x);
    return (uint32_t)(int32_t)rintf(fminf(fmaxf(x, -127.0f), 127.0f)) & 255u;
}

// One block of 256 per row. Int8 and FP8: scale = greatest magnitude / 127 or 448, values rounded
// to nearest, ties to even; a row that contains a NaN gets a NaN as its scale. Shared: 32 bytes.
// Bound: memory.
static __global__ void __launch_bounds__(256) put_rows(put_run p)
{
    SHARED(float, shared, [8]);
    uint32_t row = blockIdx.x;
    size_t at = (size_t)(p.first_row + row) * p.stride;
    if (!p.e4m3 && p.dtype != DTYPE_I8) {
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
    float scale = top / (p.e4m3 ? 448.0f : 127.0f) + poison,
          inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
    for (uint32_t c = threadIdx.x * 2; c < p.stride; c += 512) {
        uint32_t pair = 0;
        for (uint32_t h = 0; h < 2; h++) {
            float x = c + h < p.cols ? mul_rn(put_at(p, row, c + h), inverse) : 0.0f;
            pair |= code_of(p, x) << (8 * h);
        }
        ((uint16_t *)p.to)[(at + c) / 2] = (uint16_t)pair;
    }
    if (threadIdx.x == 0)
        p.scale[p.first_row + row] = scale;
}

// Copies FP8 codes; those of NaN make their scale a NaN. Four bytes per thread, a block of 256 per
// row. Bound: memory.
static __global__ void __launch_bounds__(256) put_codes(put_run p)
{
    const unsigned char *from = (const unsigned char *)p.from + (size_t)blockIdx.x * p.cols;
    uint32_t row = p.first_row + blockIdx.x;
    uint32_t *to = (uint32_t *)p.to + (size_t)row * p.stride / 4;
    for (uint32_t c = threadIdx.x * 4; c < p.stride; c += 1024) {
        uint32_t word = 0;
        for (uint32_t i = 0; i < 4 && c + i < p.cols; i++) {
            uint32_t code = from[c + i];
            word |= code << (8 * i);
            size_t at = (size_t)(row / p.scale_rows) * (p.cols / p.scale_columns);
            if ((code & 0x7Fu) == 0x7Fu)
                atom_or((uint32_t *)p.scale + at + (c + i) / p.scale_columns, 0x7FC00000u);
        }
        to[c / 4] = word;
    }
}

// Rounds floats to Q4_1, a block of 32 per thread. Bound: math.
static __global__ void __launch_bounds__(128) put_rounded(put_run p)
{
    uint32_t row = blockIdx.x, first = threadIdx.x * Q4_ELEMENTS;
    for (; first < p.cols; first += 128 * Q4_ELEMENTS) {
        float x[Q4_ELEMENTS];
        q4_fit fit;
        for (uint32_t i = 0; i < Q4_ELEMENTS; i++)
            x[i] = put_at(p, row, first + i);
        q4_round(&fit, x);
        for (uint32_t c = 0; c < Q4_ELEMENTS; c += 8) {
            uint32_t word = 0;
            for (uint32_t i = 0; i < 8; i++)
                word |= (uint32_t)fit.code[c + i] << 4 * i;
            code_word_put(p.codes, row, first + c, word);
        }
        code_scale_put(p.codes, row, first / Q4_ELEMENTS, float_to_f16(fit.scale),
                       float_to_f16(fit.least));
    }
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

static put_run put_of(const struct weight_shape *shape, void *to, uint32_t first_row)
{
    put_run p;
    memset(&p, 0, sizeof p);
    bool blocks = shape->part_count > 0 && shape->parts[0].format == WEIGHT_FP8_128;
    p.first_row = first_row;
    if (weight_nibbles(shape))
        p.codes = code_rows_of(shape, to, first_row);
    p.dtype = shape->dtype;
    p.e4m3 = weight_e4m3(shape);
    p.scale_rows = blocks ? (uint32_t)FP8_SCALE_ROWS : 1;
    p.scale_columns = blocks ? (uint32_t)FP8_SCALE_COLUMNS : shape->k;
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
    else if (weight_nibbles(shape))
        LAUNCH(put_rounded, dim3(p.rows), dim3(128), 0, stream, p);
    else
        LAUNCH(put_rows, dim3(p.rows), dim3(256), 0, stream, p);
    return launch_status();
}

enum status weight_convert(cudaStream_t stream, const struct convert_args *args)
{
    put_run p = put_of(&args->shape, args->to, args->first_row);
    p.from = args->from;
    p.from_type = args->dtype;
    p.rows = args->rows;
    p.cols = p.from_stride = args->cols;
    if (args->e4m3) {
        LAUNCH(put_codes, dim3(p.rows), dim3(256), 0, stream, p);
        return launch_status();
    }
    return put_launch(stream, &args->shape, p);
}

enum status weight_fill(cudaStream_t stream, const struct fill_args *args)
{
    put_run p = put_of(&args->shape, args->to, args->first_row);
    p.seed = args->seed;
    p.first_element = args->first_element;
    p.factor = args->deviation * 0x1.3988e2p-16f;
    p.rows = args->rows;
    p.cols = args->cols;
    p.from_stride = args->stride;
    return put_launch(stream, &args->shape, p);
}
