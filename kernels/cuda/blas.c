// SPDX-License-Identifier: Apache-2.0
// Products of --no-exact: by cuBLASLt, or by weft's kernels if they are faster. A plan holds
// everything about a product's shape and is made once: descriptor, layouts and the algorithm
// (chosen in blas_tune.c).
//
// One `struct blas` per stream, used by its engine thread only. Convention: row-major y = x W^T is
// column-major D[n][rows] = op_T(W)[n][k] x[k][rows], so the bias epilogue adds one value per
// output feature.
#include "kernels/cuda/blas.h"

#include <stdlib.h>
#include <string.h>

static uint32_t key_hash(const struct plan_key *key)
{
    uint32_t words[sizeof *key / 4];
    uint32_t hash = 2166136261u;
    memcpy(words, key, sizeof words);
    for (size_t i = 0; i < sizeof words / 4; i++)
        hash = (hash ^ words[i]) * 16777619u;
    return hash;
}

static struct blas_plan *plan_slot_find(struct blas *blas, const struct plan_key *key)
{
    uint32_t i = key_hash(key) % PLANS_MAX;
    while (blas->plan[i].desc && memcmp(&blas->plan[i].key, key, sizeof *key) != 0)
        i = (i + 1) % PLANS_MAX;
    return &blas->plan[i];
}

enum status blas_open(struct blas **out, const struct device *device, struct error *err)
{
    struct blas *blas = calloc(1, sizeof *blas);
    if (!blas)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the products' plans");
    blas->plan = calloc(PLANS_MAX, sizeof *blas->plan);
    blas->tuned = calloc(TUNED_MAX, sizeof *blas->tuned);
    size_t workspace = BLAS_WORKSPACE;
    if (!blas->plan || !blas->tuned || cudaEventCreateWithFlags(&blas->begin, 0) != cudaSuccess ||
        cudaEventCreateWithFlags(&blas->end, 0) != cudaSuccess ||
        cublasLtCreate(&blas->handle) != CUBLAS_STATUS_SUCCESS ||
        cublasLtMatmulPreferenceCreate(&blas->preference) != CUBLAS_STATUS_SUCCESS ||
        cublasLtMatmulPreferenceSetAttribute(blas->preference,
                                             CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                             sizeof workspace) != CUBLAS_STATUS_SUCCESS) {
        blas_close(blas);
        (void)call_status(cudaGetLastError());
        return error_set(err, STATUS_NO_DEVICE, "cuBLASLt could not be started on %s",
                         device->name);
    }
    tuned_read(blas, device);
    *out = blas;
    return STATUS_OK;
}

void plan_close(struct blas_plan *plan)
{
    if (plan->desc)
        (void)cublasLtMatmulDescDestroy(plan->desc);
    if (plan->weight)
        (void)cublasLtMatrixLayoutDestroy(plan->weight);
    if (plan->x)
        (void)cublasLtMatrixLayoutDestroy(plan->x);
    if (plan->y)
        (void)cublasLtMatrixLayoutDestroy(plan->y);
    memset(plan, 0, sizeof *plan);
}

void blas_close(struct blas *blas)
{
    if (!blas)
        return;
    for (uint32_t i = 0; blas->plan && i < PLANS_MAX; i++)
        plan_close(&blas->plan[i]);
    if (blas->preference)
        (void)cublasLtMatmulPreferenceDestroy(blas->preference);
    if (blas->handle)
        (void)cublasLtDestroy(blas->handle);
    if (blas->begin)
        (void)cudaEventDestroy(blas->begin);
    if (blas->end)
        (void)cudaEventDestroy(blas->end);
    free(blas->plan);
    free(blas->tuned);
    free(blas);
}

static cudaDataType_t blas_type(uint32_t dtype)
{
    return dtype == DTYPE_F32 ? CUDA_R_32F : dtype == DTYPE_F16 ? CUDA_R_16F : CUDA_R_16BF;
}

bool plan_describe(struct blas_plan *plan)
{
    const struct plan_key *key = &plan->key;
    uint32_t transpose = CUBLAS_OP_T;
    uint32_t epilogue = key->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    uint32_t bias_type = blas_type(key->y_dtype);
    uint32_t features = key->strip != 0 ? key->strip : key->n;
    cudaDataType_t in = key_fp8(key) ? CUDA_R_8F_E4M3 : blas_type(key->x_dtype);
    cudaDataType_t out = blas_type(key->y_dtype);
    cublasStatus_t bad = cublasLtMatmulDescCreate(&plan->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (bad != CUBLAS_STATUS_SUCCESS)
        return false;
    bad |= cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, 4);
    bad |= cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, 4);
    if (key->bias)
        bad |= cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
                                              &bias_type, 4);
    bad |= cublasLtMatrixLayoutCreate(&plan->weight, in, key->k, features, key->stride);
    bad |= cublasLtMatrixLayoutCreate(&plan->x, in, key->k, key->rows, key->x_stride);
    bad |= cublasLtMatrixLayoutCreate(&plan->y, out, features, key->rows, key->y_stride);
    return bad == CUBLAS_STATUS_SUCCESS && (!key_fp8(key) || fp8_describe(plan));
}

// feature: that of the first column of the product.
static bool bias_set(struct blas_plan *plan, const struct gemm_args *args, uint32_t feature)
{
    if (!args->bias)
        return true;
    const void *bias = (const char *)args->bias->data +
                       vector_copy_at(&args->bias->shape, args->y_dtype) +
                       feature * dtype_bytes(args->y_dtype);
    return cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                          sizeof bias) == CUBLAS_STATUS_SUCCESS;
}

// Sets what calls of one plan differ in.
static bool pointers_set(const struct stream *stream, struct blas_plan *plan,
                         const struct gemm_args *args, uint32_t feature)
{
    return bias_set(plan, args, feature) &&
           (!key_fp8(&plan->key) || fp8_scales_set(stream, plan, args));
}

enum status plan_multiply(struct stream *stream, struct blas_plan *plan,
                          const struct gemm_args *args, const void *weight, uint32_t first)
{
    float one = 1.0f;
    float zero = 0.0f;
    const struct product_choice *choice = &plan->choice;
    const void *x = key_fp8(&plan->key) ? stream->codes : args->x;
    char *y = (char *)args->y + first * dtype_bytes(args->y_dtype);
    if (!pointers_set(stream, plan, args, first))
        return STATUS_DEVICE_FAULT;
    stream->after_kernel = false; // cuBLASLt's kernels are not kernels of a step (early.h)
    cublasStatus_t result = cublasLtMatmul(
        stream->blas->handle, plan->desc, &one, weight, plan->weight, x, plan->x, &zero, y, plan->y,
        y, plan->y, &choice->algo, stream->blas_workspace, choice->workspace, stream->cuda);
    return result == CUBLAS_STATUS_SUCCESS ? STATUS_OK : STATUS_UNSUPPORTED;
}

enum status plan_run(struct stream *stream, struct blas_plan *plan, const struct gemm_args *args)
{
    if (plan->choice.by != BY_LIBRARY)
        return plan->choice.by == BY_SMALL ? gemm_small(stream, args) : gemm_wide(stream, args);
    if (plan->key.strip != 0)
        return strip_run(stream, plan, args);
    enum status status = key_fp8(&plan->key) ? fp8_quantize(stream, plan, args) : STATUS_OK;
    return status == STATUS_OK ? plan_multiply(stream, plan, args, args->weight->data, 0) : status;
}

// Returns the plan for the key, which is made if needed. NULL: nothing was chosen for this shape,
// and the caller uses weft's kernels.
static struct blas_plan *plan_find_or_make(struct stream *stream, const struct plan_key *key,
                                           const struct gemm_args *args)
{
    struct blas *blas = stream->blas;
    struct blas_plan *plan = plan_slot_find(blas, key);
    if (plan->desc)
        return plan;
    if (blas->plan_count > PLANS_MAX / 2) { // the table must stay half empty: start over
        for (uint32_t i = 0; i < PLANS_MAX; i++)
            plan_close(&blas->plan[i]);
        blas->plan_count = 0;
        plan = plan_slot_find(blas, key);
    }
    plan->key = *key;
    if (!plan_describe(plan) || !pointers_set(stream, plan, args, 0) ||
        !blas_choose(stream, plan, args)) {
        plan_close(plan);
        return NULL;
    }
    blas->plan_count++;
    return plan;
}

uint32_t alignment_of(const void *at)
{
    uintptr_t low = (uintptr_t)at & -(uintptr_t)at;
    return low == 0 || low > 256 ? 256 : (uint32_t)low;
}

bool blas_takes(const struct stream *stream, const struct gemm_args *args)
{
    const struct weight_shape *shape = &args->weight->shape;
    if (!stream->blas || args->y_stride % 8 != 0)
        return false;
    if ((weight_e4m3(shape) && fp8_takes(stream, args)) || strip_takes(stream, args))
        return true;
    return shape->part_count == 0 && shape->dtype == args->x_dtype && shape->k % 8 == 0 &&
           args->x_stride % 8 == 0;
}

enum status blas_gemm(struct stream *stream, const struct gemm_args *args)
{
    const struct weight_shape *shape = &args->weight->shape;
    struct plan_key key;
    memset(&key, 0, sizeof key);
    key.rows = args->rows;
    key.n = shape->n;
    key.k = shape->k;
    key.stride = weight_stride(shape);
    key.x_stride = args->x_stride;
    key.y_stride = args->y_stride;
    key.x_dtype = args->x_dtype;
    key.y_dtype = args->y_dtype;
    key.bias = args->bias != NULL;
    key.weight_align = alignment_of(args->weight->data);
    key.x_align = alignment_of(args->x);
    key.y_align = alignment_of(args->y);
    if (weight_e4m3(shape) && fp8_takes(stream, args))
        fp8_key(&key, stream, args);
    else if (strip_takes(stream, args))
        strip_key(&key, stream, args);
    struct blas_plan *plan = plan_find_or_make(stream, &key, args);
    if (!plan)
        return STATUS_UNSUPPORTED;
    if (key_fp8(&key))
        fp8_chosen(stream, plan, args);
    enum status status = plan_run(stream, plan, args);
    if (status == STATUS_UNSUPPORTED && plan->of_bucket &&
        blas_first_choice(stream->blas, plan)) // the bucket's algorithm does not support these rows
        status = plan_run(stream, plan, args);
    stream->coded.x = NULL;
    return status;
}
