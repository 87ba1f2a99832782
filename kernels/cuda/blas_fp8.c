// SPDX-License-Identifier: Apache-2.0
// Products of FP8 codes by cuBLASLt, for many rows outside of exact mode (decision 0074): x is
// rounded to e4m3 with scales of each row (quantize.cu), and the library multiplies codes by codes
// and applies both scales. Weights with a scale for each row have OUTER_VEC scales, those with a
// scale for blocks BLK128x128 scales, with VEC128 scales of x. The library has these modes from
// CUDA 12.9 on, for compute capability 9.0; it is asked once, when a stream is opened.
//
// Used by the stream's engine thread; blas_fp8_finish by the loading thread.
#include "kernels/cuda/blas.h"
#include "kernels/cuda/quantize.h"

#include "base/number.h"

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
    FP8_ROWS_MIN = 33, // for fewer rows, reading weights is the bound: weft's kernels
    FP8_UNIT = 16,     // the library needs k and n in multiples of this
    BLOCKS_WHOLE = 1,  // weight.own: the scales follow blocks of 128 rows
};

static enum weight_format format_of(const struct gemm_args *args)
{
    return args->weight->shape.parts[0].format;
}

bool fp8_takes(const struct stream *stream, const struct gemm_args *args)
{
    const struct weight_shape *shape = &args->weight->shape;
    const struct stream_limits *limits = &stream->limits;
    bool half = args->x_dtype == DTYPE_BF16 || args->x_dtype == DTYPE_F16;
    if (!half || args->rows < FP8_ROWS_MIN || !(stream->blas->fp8 >> format_of(args) & 1))
        return false;
    if (shape->k % FP8_UNIT != 0 || shape->n % FP8_UNIT != 0 || args->x_stride % 8 != 0 ||
        alignment_of(args->x) < 16 || alignment_of(args->y) < 16)
        return false;
    if (args->bias && args->y_dtype == DTYPE_F32) // the library would need it in bfloat16
        return false;
    if (shape->k > limits->e4m3_width || args->rows > limits->step.tokens_max)
        return false;
    return format_of(args) == WEIGHT_FP8 ||
           (args->weight->own == BLOCKS_WHOLE &&
            (limits->products_padded || args->rows % PRODUCT_ROWS_UNIT == 0));
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

enum status fp8_quantize(struct stream *stream, const struct blas_plan *plan,
                         const struct gemm_args *args)
{
    struct quantize_run run = {.x = args->x,
                               .codes = stream->codes,
                               .scale = stream->code_scales,
                               .act = args->x_dtype,
                               .blocks = plan->key.format == WEIGHT_FP8_128,
                               .rows = args->rows,
                               .padded = plan->key.rows,
                               .k = plan->key.k,
                               .x_stride = args->x_stride};
    return quantize(stream, &run);
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
        snprintf(line, sizeof line,
                 "FP8 weights: cuBLASLt %zu has no FP8 products with scales for rows or blocks on "
                 "this card; weft's kernels compute all",
                 cublasLtGetVersion());
    if (stream->device->options.note)
        stream->device->options.note(line);
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
