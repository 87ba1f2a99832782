// What blas.c (plans and calls), blas_tune.c (which way) and blas_cache.c (its file) share.
// Everything belongs to one stream and is used by its engine's thread; only the list of weights
// belongs to the device.
#pragma once

#include "kernels/cuda/internal.h"

#include <cublasLt.h>

enum { PLANS_MAX = 4096, TUNED_MAX = 4096, CANDIDATES_MAX = 16 };

struct plan_key {
    uint32_t rows, n, k, stride, x_stride, y_stride;
    uint32_t x_dtype, y_dtype, bias;
    uint32_t weight_align, x_align, y_align; // bytes, at most 256
    uint32_t reserved;
};

// How a product is made: by an algorithm of the library, or by a kernel of ours.
enum product_by { BY_LIBRARY, BY_SMALL, BY_WIDE, PRODUCT_BY_COUNT };
struct product_way {
    uint64_t by;               // enum product_by
    cublasLtMatmulAlgo_t algo; // of the library
    uint64_t workspace;
};

struct blas_plan {
    struct plan_key key;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t weight, x, y;
    struct product_way way;
    bool of_bucket; // chosen for its whole bucket: it may refuse these rows
};

// One record of the cache file: the choice for a bucket of rows (key.rows is its upper end).
struct tuned_way {
    struct plan_key key;
    struct product_way way;
    uint64_t sum;
};

struct blas {
    cublasLtHandle_t handle;
    cublasLtMatmulPreference_t preference;
    cudaEvent_t begin, end;
    struct blas_plan *plan; // [PLANS_MAX], open addressing by key
    uint32_t plan_count;
    struct tuned_way *tuned; // [TUNED_MAX]
    uint32_t tuned_count;
    char identity[160]; // card, processors, driver and library that the choices are for
    char cache[512];    // file of choices, "" where there is none
};

// Chooses plan->way: from what was tuned before, by timing at the start, or the library's own
// first choice.
bool blas_choose(struct stream *stream, struct blas_plan *plan, const struct gemm_args *args);
// The library's first choice for exactly these rows.
bool blas_first_choice(struct blas *blas, struct blas_plan *plan);
// blas_cache.c: what was chosen before, by this or another process.
void tuned_read(struct blas *blas, const struct device *device);
const struct tuned_way *tuned_find(const struct blas *blas, const struct plan_key *key);
void tuned_add(struct blas *blas, const struct plan_key *key, const struct blas_plan *plan);
// UNSUPPORTED where the algorithm does not run for these rows.
enum status plan_run(struct stream *stream, const struct blas_plan *plan,
                     const struct gemm_args *args);
