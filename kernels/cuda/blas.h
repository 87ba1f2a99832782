// SPDX-License-Identifier: Apache-2.0
// Shared by blas.c (plans and calls), blas_tune.c (choice of algorithm), blas_fp8.c (products of
// FP8 codes), blas_strip.c (strips of converted codes) and blas_cache.c (file of choices).
// Everything belongs to one stream and is used by its engine thread; only the list of weights
// belongs to the device.
#pragma once

#include "kernels/cuda/internal.h"

#include <cublasLt.h>

enum { PLANS_MAX = 4096, TUNED_MAX = 4096, CANDIDATES_MAX = 16, FP8_CHOICES = 256 };

struct plan_key {
    uint32_t rows, n, k, stride, x_stride, y_stride;
    uint32_t x_dtype, y_dtype, bias;
    uint32_t weight_align, x_align, y_align; // bytes, at most 256
    // Codes: enum weight_format of their first part. FP8 codes without strips: rows are those of
    // the codes. Floats and int8: 0.
    uint32_t format;
    // Features that are converted at a time; 0: the weight is multiplied as it is.
    uint32_t strip;
};

// Returns true if the library multiplies FP8 codes by FP8 codes.
static inline bool key_fp8(const struct plan_key *key)
{
    return key->format != 0 && key->strip == 0;
}

// How a product is computed: by an algorithm of cuBLASLt, or by a kernel of weft.
enum product_by { BY_LIBRARY, BY_SMALL, BY_WIDE, PRODUCT_BY_COUNT };
struct product_choice {
    uint64_t by;               // enum product_by
    cublasLtMatmulAlgo_t algo; // BY_LIBRARY: the algorithm
    uint64_t workspace;        // bytes, at most BLAS_WORKSPACE
};

struct blas_plan {
    struct plan_key key;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t weight, x, y;
    struct product_choice choice;
    bool of_bucket; // true if `choice` was chosen for the bucket: it may not support these rows
};

// One record of the cache file: the choice for a bucket of rows (key.rows is its upper end).
struct tuned_choice {
    struct plan_key key;
    struct product_choice choice;
    uint64_t sum; // checksum of the members before it
};

// Whether the library computes products of FP8 codes of a shape, for the op before the product.
struct fp8_choice {
    uint32_t n, k, rows, format; // rows: upper end of their bucket
    bool library;                // true if the last such product was the library's
};

struct blas {
    cublasLtHandle_t handle;
    cublasLtMatmulPreference_t preference;
    cudaEvent_t begin, end;
    struct blas_plan *plan; // [PLANS_MAX], open addressing by key
    uint32_t plan_count;
    struct tuned_choice *tuned; // [TUNED_MAX]
    uint32_t tuned_count;
    // Timing of products at startup: when it began, when it ends at the latest (0: it is over), and
    // the number of products that were not timed because that time had passed.
    uint64_t tune_began_ns, tune_until_ns;
    uint32_t tune_missed;
    uint32_t fp8; // bit f is set if the library multiplies FP8 codes of format f
    struct fp8_choice fp8_choice[FP8_CHOICES]; // by hash; a shape that is missing is the library's
    char identity[160]; // card, SM count, driver and library that the choices are for
    char cache[512];    // path of the file of choices; "": no file
};

// Sets plan->choice to an earlier choice, to the fastest by timing at startup, or to the library's
// first choice. Returns false if nothing runs the product.
bool blas_choose(struct stream *stream, struct blas_plan *plan, const struct gemm_args *args);
// Returns the upper end of the bucket of row counts that have one choice.
uint32_t blas_bucket(uint32_t rows);
// Sets plan->choice to the library's first choice for exactly these rows; false if there is none.
bool blas_first_choice(struct blas *blas, struct blas_plan *plan);
// blas_cache.c: earlier choices of this or another process. tuned_read reads the file, if the
// device has a cache folder; tuned_find returns NULL if there is no choice; tuned_add also writes
// the file, whose errors are ignored.
void tuned_read(struct blas *blas, const struct device *device);
const struct tuned_choice *tuned_find(const struct blas *blas, const struct plan_key *key);
void tuned_add(struct blas *blas, const struct plan_key *key, const struct blas_plan *plan);
// Runs the product. Returns UNSUPPORTED if the algorithm does not support these rows.
enum status plan_run(struct stream *stream, struct blas_plan *plan, const struct gemm_args *args);

// blas_fp8.c. fp8_takes returns true if the library may multiply codes by codes for this call;
// fp8_key changes the key of a call to that of the product of codes. fp8_describe sets the modes of
// the scales of a plan, fp8_scales_set their places for a call; both return false if the library
// refuses. fp8_quantize queues the rounding of x to stream->codes and stream->code_scales, unless
// the kernel before wrote them. fp8_coded returns the record of these codes if the product can use
// them, held for timing; else x is NULL. fp8_chosen notes who computes a product, for fp8_fused.
bool fp8_takes(const struct stream *stream, const struct gemm_args *args);
void fp8_key(struct plan_key *key, const struct stream *stream, const struct gemm_args *args);
bool fp8_describe(struct blas_plan *plan);
bool fp8_scales_set(const struct stream *stream, struct blas_plan *plan,
                    const struct gemm_args *args);
enum status fp8_quantize(struct stream *stream, const struct blas_plan *plan,
                         const struct gemm_args *args);
struct stream_coded fp8_coded(const struct stream *stream, const struct blas_plan *plan,
                              const struct gemm_args *args);
void fp8_chosen(struct stream *stream, const struct blas_plan *plan, const struct gemm_args *args);
// blas_strip.c. strip_takes returns true if the library may multiply strips of the converted
// weight; strip_key changes the key of a call to that of such a product; strip_run queues all its
// strips.
bool strip_takes(const struct stream *stream, const struct gemm_args *args);
void strip_key(struct plan_key *key, const struct stream *stream, const struct gemm_args *args);
enum status strip_run(struct stream *stream, struct blas_plan *plan, const struct gemm_args *args);
// Queues the library's product by `weight` into y from feature `first` on. Returns UNSUPPORTED if
// the algorithm does not support these rows.
enum status plan_multiply(struct stream *stream, struct blas_plan *plan,
                          const struct gemm_args *args, const void *weight, uint32_t first);
// Sets plan->desc and the layouts from plan->key.
bool plan_describe(struct blas_plan *plan);
void plan_close(struct blas_plan *plan);
// Returns the largest power of two, at most 256, that divides the address.
uint32_t alignment_of(const void *at);
