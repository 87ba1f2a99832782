// SPDX-License-Identifier: Apache-2.0
// Products of FP8 codes by cuBLASLt, for many rows outside of exact mode (decision 0074): x is
// rounded to e4m3 with scales of each row, by the op that computes it or by quantize.cu (decision
// 0076), and the library multiplies codes by codes and applies both scales. Weights with a scale
// for each row have OUTER_VEC scales, those with a scale for blocks BLK128x128 scales, with VEC128
// scales of x. The library has these modes from CUDA 12.9 on, for compute capability 9.0; it is
// asked once, when a stream is opened.
//
// Used by the stream's engine thread; blas_fp8_finish by the loading thread.
#include "kernels/cuda/blas.h"
#include "kernels/cuda/quantize.h"

#include "base/number.h"
#include "kernels/ways.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Numbers of cublasLt.h, whose names toolkits before 12.9 do not have.
enum {
    DESC_A_SCALE_MODE = 31,
    DESC_B_SCALE_MODE = 32,
    SCALE_OUTER_VEC = 3,
    SCALE_VEC128 = 4,
    SCALE_BLK128 = 5,
};
#if defined(CUBLAS_VER_MAJOR) && CUBLAS_VER_MAJOR >= 13
_Static_assert((int)DESC_A_SCALE_MODE == (int)CUBLASLT_MATMUL_DESC_A_SCALE_MODE &&
                   (int)DESC_B_SCALE_MODE == (int)CUBLASLT_MATMUL_DESC_B_SCALE_MODE &&
                   (int)SCALE_OUTER_VEC == (int)CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F &&
                   (int)SCALE_VEC128 == (int)CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F &&
                   (int)SCALE_BLK128 == (int)CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F,
               "the numbers are those of cublasLt.h");
#endif

enum {
    FP8_LIBRARY = 120900, // oldest version of cuBLASLt with these modes: 12.9
    FP8_ROWS_MIN = 33,    // for fewer rows, reading weights is the bound: weft's kernels
    FP8_UNIT = 16,        // the library needs k and n in multiples of this
    BLOCKS_WHOLE = 1,     // weight.own: the scales follow blocks of 128 rows
};

static enum weight_format format_of(const struct gemm_args *args)
{
    return args->weight->shape.parts[0].format;
}

// Returns true if the library may multiply codes of x (rows of the weight's k elements) by those of
// the weight.
static bool codes_fit(const struct stream *stream, const struct weight *weight, enum dtype act,
                      const void *x, uint32_t rows, uint32_t x_stride)
{
    const struct weight_shape *shape = &weight->shape;
    const struct stream_limits *limits = &stream->limits;
    enum weight_format format = shape->parts[0].format;
    bool half = act == DTYPE_BF16 || act == DTYPE_F16;
    if (!half || rows < FP8_ROWS_MIN || !(stream->blas->fp8 >> format & 1))
        return false;
    if (shape->k % FP8_UNIT != 0 || shape->n % FP8_UNIT != 0 || x_stride % 8 != 0 ||
        alignment_of(x) < 16)
        return false;
    if (shape->k > limits->e4m3_width || rows > limits->step.tokens_max)
        return false;
    return format == WEIGHT_FP8 || (weight->own == BLOCKS_WHOLE &&
                                    (limits->products_padded || rows % PRODUCT_ROWS_UNIT == 0));
}

bool fp8_takes(const struct stream *stream, const struct gemm_args *args)
{
    if (args->bias && args->y_dtype == DTYPE_F32) // the library would need it in bfloat16
        return false;
    return alignment_of(args->y) >= 16 &&
           codes_fit(stream, args->weight, args->x_dtype, args->x, args->rows, args->x_stride);
}

// Returns where the choice of products of a shape and a bucket of rows is kept.
static struct fp8_choice *choice_at(struct blas *blas, const struct fp8_choice *key)
{
    uint32_t hash = ((key->n * 31 + key->k) * 31 + key->rows) * 31 + key->format;
    return &blas->fp8_choice[(hash ^ hash >> 8) % FP8_CHOICES];
}

static struct fp8_choice choice_key(const struct weight_shape *shape, uint32_t rows)
{
    return (struct fp8_choice){shape->n, shape->k, blas_bucket(rows),
                               (uint32_t)shape->parts[0].format, true};
}

void fp8_chosen(struct stream *stream, const struct blas_plan *plan, const struct gemm_args *args)
{
    struct fp8_choice key = choice_key(&args->weight->shape, args->rows);
    key.library = plan->choice.by == BY_LIBRARY;
    *choice_at(stream->blas, &key) = key;
}

struct e4m3_rows fp8_fused(const struct stream *stream, const struct weight *next, enum dtype act,
                           const void *x, uint32_t rows, uint32_t k)
{
    struct e4m3_rows none = {.codes = NULL};
    if (!stream->blas || !next || !weight_e4m3(&next->shape) || next->shape.stack > 0 ||
        next->shape.k != k || (stream->device->options.ways & WAY_ROUND_APART) ||
        !codes_fit(stream, next, act, x, rows, k))
        return none;
    struct fp8_choice key = choice_key(&next->shape, rows);
    const struct fp8_choice *seen = choice_at(stream->blas, &key);
    if (!seen->library && seen->n == key.n && seen->k == key.k && seen->rows == key.rows &&
        seen->format == key.format)
        return none;
    bool blocks = key.format == WEIGHT_FP8_128;
    return (struct e4m3_rows){
        .codes = stream->codes,
        .scale = stream->code_scales,
        .rows = rows,
        .padded = blocks ? (uint32_t)round_up(rows, PRODUCT_ROWS_UNIT) : rows,
        .k = k,
        .blocks = blocks,
    };
}

void fp8_fused_done(struct stream *stream, const void *x, const struct e4m3_rows *to)
{
    stream->coded = (struct stream_coded){x, to->rows, to->padded, to->k, to->blocks, false};
}

void fp8_key(struct plan_key *key, const struct stream *stream, const struct gemm_args *args)
{
    key->format = (uint32_t)format_of(args);
    if (key->format == WEIGHT_FP8_128)
        key->rows = (uint32_t)round_up(key->rows, PRODUCT_ROWS_UNIT);
    key->x_stride = key->k; // the rows of codes have no gaps
    key->x_align = alignment_of(stream->codes);
}

bool fp8_describe(struct blas_plan *plan)
{
    bool blocks = plan->key.format == WEIGHT_FP8_128;
    int32_t weight = blocks ? SCALE_BLK128 : SCALE_OUTER_VEC;
    int32_t x = blocks ? SCALE_VEC128 : SCALE_OUTER_VEC;
    return cublasLtMatmulDescSetAttribute(plan->desc,
                                          (cublasLtMatmulDescAttributes_t)DESC_A_SCALE_MODE,
                                          &weight, sizeof weight) == CUBLAS_STATUS_SUCCESS &&
           cublasLtMatmulDescSetAttribute(plan->desc,
                                          (cublasLtMatmulDescAttributes_t)DESC_B_SCALE_MODE, &x,
                                          sizeof x) == CUBLAS_STATUS_SUCCESS;
}

static bool scales_set(struct blas_plan *plan, const void *weight, const void *x)
{
    return cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &weight,
                                          sizeof weight) == CUBLAS_STATUS_SUCCESS &&
           cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &x,
                                          sizeof x) == CUBLAS_STATUS_SUCCESS;
}

bool fp8_scales_set(const struct stream *stream, struct blas_plan *plan,
                    const struct gemm_args *args)
{
    const struct weight_shape *shape = &args->weight->shape;
    size_t at =
        plan->key.format == WEIGHT_FP8_128 ? weight_blocks_at(shape) : weight_scales_at(shape);
    return scales_set(plan, (const char *)args->weight->data + at, stream->code_scales);
}

struct stream_coded fp8_coded(const struct stream *stream, const struct blas_plan *plan,
                              const struct gemm_args *args)
{
    struct stream_coded coded = stream->coded;
    bool usable = coded.x && key_fp8(&plan->key) && (coded.held || stream->after_kernel) &&
                  coded.x == args->x && coded.rows == args->rows &&
                  coded.padded == plan->key.rows && coded.k == plan->key.k &&
                  coded.k == args->x_stride && coded.blocks == (plan->key.format == WEIGHT_FP8_128);
    coded.held = true;
    return usable ? coded : (struct stream_coded){.x = NULL};
}

enum status fp8_quantize(struct stream *stream, const struct blas_plan *plan,
                         const struct gemm_args *args)
{
    if (fp8_coded(stream, plan, args).x)
        return STATUS_OK;
    struct quantize_run run = {.x = args->x,
                               .act = args->x_dtype,
                               .x_stride = args->x_stride,
                               .to = {.codes = stream->codes,
                                      .scale = stream->code_scales,
                                      .rows = args->rows,
                                      .padded = plan->key.rows,
                                      .k = plan->key.k,
                                      .blocks = plan->key.format == WEIGHT_FP8_128}};
    return quantize(stream, &run);
}

bool blas_fp8_known(const struct device *device)
{
    int major = 0, minor = 0, index = (int)device->options.index;
    return !device->exact && cublasLtGetVersion() >= FP8_LIBRARY &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index) ==
               cudaSuccess &&
           cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index) ==
               cudaSuccess &&
           major == 9 && minor == 0;
}

// Returns true if the library has an algorithm for a product of this format.
static bool format_runs(struct stream *stream, enum weight_format format)
{
    enum { SIZE = 1024 };
    struct blas_plan plan = {.key = {.rows = SIZE,
                                     .n = SIZE,
                                     .k = SIZE,
                                     .stride = SIZE,
                                     .x_stride = SIZE,
                                     .y_stride = SIZE,
                                     .x_dtype = DTYPE_BF16,
                                     .y_dtype = DTYPE_BF16,
                                     .weight_align = 256,
                                     .x_align = 256,
                                     .y_align = 256,
                                     .format = (uint32_t)format}};
    bool runs = plan_describe(&plan) &&
                scales_set(&plan, stream->code_scales, stream->code_scales) &&
                blas_first_choice(stream->blas, &plan);
    plan_close(&plan);
    return runs;
}

void blas_fp8_ask(struct stream *stream)
{
    char line[200];
    const char *where;
    if (stream->limits.e4m3_width == 0)
        return;
    for (int f = WEIGHT_FP8; f <= WEIGHT_FP8_128; f++)
        if (format_runs(stream, (enum weight_format)f))
            stream->blas->fp8 |= 1u << f;
    bool rows = stream->blas->fp8 >> WEIGHT_FP8 & 1,
         blocks = stream->blas->fp8 >> WEIGHT_FP8_128 & 1;
    where = rows && blocks ? "scales for rows and for blocks"
            : rows         ? "scales for rows only"
            : blocks       ? "scales for blocks only"
                           : NULL;
    if (where)
        snprintf(line, sizeof line,
                 "FP8 weights: products of %d and more rows round activations to FP8 and may use "
                 "cuBLASLt (%s)",
                 FP8_ROWS_MIN, where);
    else
        snprintf(
            line, sizeof line,
            "FP8 weights: cuBLASLt %zu has no FP8 products with scales for rows or blocks on "
            "this card; it multiplies strips that are converted to 16 bits, or weft's kernels do",
            cublasLtGetVersion());
    if (stream->device->options.note)
        stream->device->options.note(stream->device->options.index, line);
}

// Copies the scales of 16 rows to those of blocks. Returns false if the groups of a block differ.
static bool blocks_fill(float *blocks, const float *scales, const struct weight_shape *shape)
{
    enum { GROUPS = 128 / FP8_SCALE_ROWS };
    size_t across = shape->k / FP8_SCALE_COLUMNS, stride = weight_blocks_stride(shape);
    size_t groups = (shape->n + FP8_SCALE_ROWS - 1) / FP8_SCALE_ROWS;
    for (size_t g = 0; g < groups; g++) {
        float *block = blocks + g / GROUPS * stride;
        if (g % GROUPS == 0)
            memcpy(block, scales + g * across, across * sizeof *block);
        else if (memcmp(block, scales + g * across, across * sizeof *block) != 0)
            return false;
    }
    return true;
}

enum status blas_fp8_finish(struct weight *weight)
{
    const struct weight_shape *shape = &weight->shape;
    if (!weight_blocks(shape))
        return STATUS_OK;
    size_t count = weight_scale_count(shape), bytes = weight_blocks_bytes(shape);
    char *data = weight->data;
    float *scales = malloc(count * sizeof *scales), *blocks = calloc(1, bytes);
    enum status status = scales && blocks ? STATUS_OK : STATUS_NO_MEMORY;
    if (status == STATUS_OK)
        status = call_status(cudaMemcpy(scales, data + weight_scales_at(shape),
                                        count * sizeof *scales, cudaMemcpyDeviceToHost));
    if (status == STATUS_OK && blocks_fill(blocks, scales, shape)) {
        weight->own = BLOCKS_WHOLE;
        status = call_status(
            cudaMemcpy(data + weight_blocks_at(shape), blocks, bytes, cudaMemcpyHostToDevice));
    }
    free(scales);
    free(blocks);
    return status;
}
