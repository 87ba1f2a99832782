// Products through cuBLASLt, for --no-exact. Everything about a product's shape is made once and
// kept: descriptor, layouts and the first algorithm that the library's heuristic names. Where the
// device has a cache folder, algorithms are kept in a file between runs, keyed by card and library
// version.
//
// One per stream, used by its engine's thread only. Convention: row-major y = x W^T is column-major
// D[n][rows] = op_T(W)[n][k] x[k][rows], so the bias epilogue adds one value per output feature.
#include "kernels/cuda/room.h"

#include <cublasLt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLANS_MAX = 4096 };

struct plan_key {
    uint32_t rows, n, k, stride, x_stride, y_stride;
    uint32_t x_dtype, y_dtype, bias;
    uint32_t reserved;
};

struct blas_plan {
    struct plan_key key;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t weight, x, y;
    cublasLtMatmulAlgo_t algo;
    size_t workspace;
};

struct blas {
    cublasLtHandle_t handle;
    cublasLtMatmulPreference_t preference;
    struct blas_plan *plan; // [PLANS_MAX], open addressing by key
    uint32_t plan_count;
    char cache[512]; // file of algorithms, "" where there is none
};

struct cached_algo {
    struct plan_key key;
    cublasLtMatmulAlgo_t algo;
    uint64_t workspace;
};

static uint32_t key_hash(const struct plan_key *key)
{
    uint32_t words[sizeof *key / 4];
    uint32_t hash = 2166136261u;
    memcpy(words, key, sizeof words);
    for (size_t i = 0; i < sizeof words / 4; i++)
        hash = (hash ^ words[i]) * 16777619u;
    return hash;
}

static struct blas_plan *plan_slot(struct blas *blas, const struct plan_key *key)
{
    uint32_t i = key_hash(key) % PLANS_MAX;
    while (blas->plan[i].desc != NULL && memcmp(&blas->plan[i].key, key, sizeof *key) != 0)
        i = (i + 1) % PLANS_MAX;
    return &blas->plan[i];
}

enum status blas_open(struct blas **out, const struct device *device, struct error *err)
{
    struct blas *blas = calloc(1, sizeof *blas);
    if (blas == NULL)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the products' plans");
    blas->plan = calloc(PLANS_MAX, sizeof *blas->plan);
    size_t workspace = BLAS_WORKSPACE;
    if (blas->plan == NULL || cublasLtCreate(&blas->handle) != CUBLAS_STATUS_SUCCESS ||
        cublasLtMatmulPreferenceCreate(&blas->preference) != CUBLAS_STATUS_SUCCESS ||
        cublasLtMatmulPreferenceSetAttribute(blas->preference,
                                             CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                             sizeof workspace) != CUBLAS_STATUS_SUCCESS) {
        blas_close(blas);
        return error_set(err, STATUS_NO_DEVICE, "cuBLASLt could not be started on %s",
                         device->name);
    }
    if (device->options.cache_folder != NULL) {
        char name[sizeof device->name];
        snprintf(name, sizeof name, "%s", device->name);
        for (char *c = name; *c != 0; c++)
            *c = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9')
                     ? *c
                     : '-';
        snprintf(blas->cache, sizeof blas->cache, "%.300s/products-%s-%zu.bin",
                 device->options.cache_folder, name, cublasLtGetVersion());
    }
    *out = blas;
    return STATUS_OK;
}

static void plan_close(struct blas_plan *plan)
{
    if (plan->desc != NULL)
        (void)cublasLtMatmulDescDestroy(plan->desc);
    if (plan->weight != NULL)
        (void)cublasLtMatrixLayoutDestroy(plan->weight);
    if (plan->x != NULL)
        (void)cublasLtMatrixLayoutDestroy(plan->x);
    if (plan->y != NULL)
        (void)cublasLtMatrixLayoutDestroy(plan->y);
    memset(plan, 0, sizeof *plan);
}

void blas_close(struct blas *blas)
{
    if (blas == NULL)
        return;
    for (uint32_t i = 0; blas->plan != NULL && i < PLANS_MAX; i++)
        plan_close(&blas->plan[i]);
    if (blas->preference != NULL)
        (void)cublasLtMatmulPreferenceDestroy(blas->preference);
    if (blas->handle != NULL)
        (void)cublasLtDestroy(blas->handle);
    free(blas->plan);
    free(blas);
}

static cudaDataType_t blas_type(uint32_t dtype)
{
    return dtype == DTYPE_F32 ? CUDA_R_32F : dtype == DTYPE_F16 ? CUDA_R_16F : CUDA_R_16BF;
}

// A record of the cache file with this key; the library checks what it is given when it runs.
static bool algo_read(const struct blas *blas, struct blas_plan *plan)
{
    FILE *file = blas->cache[0] != 0 ? fopen(blas->cache, "rb") : NULL;
    bool found = false;
    struct cached_algo record;
    while (file != NULL && !found && fread(&record, sizeof record, 1, file) == 1) {
        found = memcmp(&record.key, &plan->key, sizeof record.key) == 0 &&
                record.workspace <= BLAS_WORKSPACE;
        if (found) {
            plan->algo = record.algo;
            plan->workspace = record.workspace;
        }
    }
    if (file != NULL)
        (void)fclose(file);
    return found;
}

static void algo_write(const struct blas *blas, const struct blas_plan *plan)
{
    FILE *file = blas->cache[0] != 0 ? fopen(blas->cache, "ab") : NULL;
    if (file == NULL)
        return; // a cache that cannot be written is only slower
    struct cached_algo record = {plan->key, plan->algo, plan->workspace};
    (void)fwrite(&record, sizeof record, 1, file);
    (void)fclose(file);
}

static bool plan_describe(struct blas_plan *plan)
{
    const struct plan_key *key = &plan->key;
    uint32_t transpose = CUBLAS_OP_T;
    uint32_t epilogue = key->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    uint32_t bias_type = blas_type(key->y_dtype);
    cudaDataType_t in = blas_type(key->x_dtype);
    cudaDataType_t out = blas_type(key->y_dtype);
    cublasStatus_t bad = cublasLtMatmulDescCreate(&plan->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (bad != CUBLAS_STATUS_SUCCESS)
        return false;
    bad |= cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, 4);
    bad |= cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, 4);
    if (key->bias)
        bad |= cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
                                              &bias_type, 4);
    bad |= cublasLtMatrixLayoutCreate(&plan->weight, in, key->k, key->n, key->stride);
    bad |= cublasLtMatrixLayoutCreate(&plan->x, in, key->k, key->rows, key->x_stride);
    bad |= cublasLtMatrixLayoutCreate(&plan->y, out, key->n, key->rows, key->y_stride);
    return bad == CUBLAS_STATUS_SUCCESS;
}

static bool plan_choose(struct blas *blas, struct blas_plan *plan)
{
    if (algo_read(blas, plan))
        return true;
    cublasLtMatmulHeuristicResult_t result;
    int count = 0;
    if (cublasLtMatmulAlgoGetHeuristic(blas->handle, plan->desc, plan->weight, plan->x, plan->y,
                                       plan->y, blas->preference, 1, &result,
                                       &count) != CUBLAS_STATUS_SUCCESS ||
        count == 0)
        return false;
    plan->algo = result.algo;
    plan->workspace = result.workspaceSize;
    algo_write(blas, plan);
    return true;
}

// NULL where the library cannot serve this shape: the caller has kernels of its own.
static struct blas_plan *plan_take(struct blas *blas, const struct plan_key *key)
{
    struct blas_plan *plan = plan_slot(blas, key);
    if (plan->desc != NULL)
        return plan;
    if (blas->plan_count > PLANS_MAX / 2) { // shapes are bounded by rows a step; start over
        for (uint32_t i = 0; i < PLANS_MAX; i++)
            plan_close(&blas->plan[i]);
        blas->plan_count = 0;
        plan = plan_slot(blas, key);
    }
    plan->key = *key;
    if (!plan_describe(plan) || !plan_choose(blas, plan)) {
        plan_close(plan);
        return NULL;
    }
    blas->plan_count++;
    return plan;
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
    struct blas_plan *plan = plan_take(stream->blas, &key);
    if (plan == NULL)
        return STATUS_UNSUPPORTED;
    if (args->bias != NULL) {
        const char *copy =
            (const char *)args->bias->data + vector_copy_at(&args->bias->shape, args->y_dtype);
        const void *bias = copy;
        if (cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                           sizeof bias) != CUBLAS_STATUS_SUCCESS)
            return STATUS_DEVICE_FAULT;
    }
    float one = 1.0f;
    float zero = 0.0f;
    cublasStatus_t result =
        cublasLtMatmul(stream->blas->handle, plan->desc, &one, args->weight->data, plan->weight,
                       args->x, plan->x, &zero, args->y, plan->y, args->y, plan->y, &plan->algo,
                       stream->blas_workspace, plan->workspace, stream->cuda);
    return result == CUBLAS_STATUS_SUCCESS ? STATUS_OK : STATUS_UNSUPPORTED;
}
