// SPDX-License-Identifier: Apache-2.0
// A stand-in for cuBLASLt: column-major products by a plain loop with float64 sums, with the bias
// epilogue. It proves that weft's descriptors, layouts and strides describe the right product; it
// proves nothing about the library's rounding, limits and speed. Every product is counted, so that
// a test can show that exact mode makes none. In products launched outside a graph the first
// algorithm seems the fastest, as if the host took the time; recorded in a graph, the best
// algorithm is. weft's kernels are timed by the same clock.
#include "emu.h"

#include <cublasLt.h>

namespace simt
{
extern simt_counts counts;
double product_ms;

void product_record(const char *kernel)
{
    bool small = strstr(kernel, "gemm_small_kernel<") != nullptr;
    if (!small && strstr(kernel, "gemm_wide_kernel<") == nullptr)
        return;
    (small ? counts.small_products : counts.wide_products)++;
    uint32_t ms = small ? options.small_ms : options.wide_ms;
    product_ms += ms != 0 ? ms : 5;
}
} // namespace simt

namespace
{
struct product {
    int transpose_a, transpose_b;
    uint32_t epilogue;
    const void *bias;
    int bias_type;
};
// The alignments that an algorithm was chosen for; it does not run with other alignments.
struct preference {
    uint64_t workspace;
    uint32_t align[4]; // alignment of A, B, C, D; default 256
    uint32_t reduction;
};
struct layout {
    cudaDataType_t type;
    uint64_t rows, cols;
    int64_t ld;
};

float element(const void *at, const layout &l, uint64_t row, uint64_t col)
{
    size_t i = (size_t)(col * (uint64_t)l.ld + row);
    if (l.type == CUDA_R_32F)
        return ((const float *)at)[i];
    uint16_t bits = ((const uint16_t *)at)[i];
    return l.type == CUDA_R_16F ? simt::f16_widen(bits) : bf16_to_float(bits);
}

void store(void *at, const layout &l, uint64_t row, uint64_t col, float value)
{
    size_t i = (size_t)(col * (uint64_t)l.ld + row);
    if (l.type == CUDA_R_32F)
        ((float *)at)[i] = value;
    else
        ((uint16_t *)at)[i] = l.type == CUDA_R_16F ? float_to_f16(value) : float_to_bf16(value);
}

void run_product(const product &p, const layout la, const void *a, const layout lb, const void *b,
                 const layout ld, void *d)
{
    uint64_t depth = p.transpose_a ? la.rows : la.cols;
    for (uint64_t j = 0; j < ld.cols; j++)
        for (uint64_t i = 0; i < ld.rows; i++) {
            double sum = 0;
            for (uint64_t k = 0; k < depth; k++)
                sum += (double)(p.transpose_a ? element(a, la, k, i) : element(a, la, i, k)) *
                       (p.transpose_b ? element(b, lb, j, k) : element(b, lb, k, j));
            if (p.epilogue == CUBLASLT_EPILOGUE_BIAS)
                sum += element(p.bias, {(cudaDataType_t)p.bias_type, 0, 0, 0}, i, 0);
            store(d, ld, i, j, (float)sum);
        }
}

// Returns true if this is the call that the test makes fail.
bool refused()
{
    return ++simt::counts.calls == simt::options.fail_at;
}
} // namespace

extern "C" {
cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
    if (refused())
        return CUBLAS_STATUS_NOT_SUPPORTED;
    simt::counts.live++;
    *out = (cublasLtHandle_t) new int(0);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    simt::counts.live--;
    delete (int *)handle;
    return CUBLAS_STATUS_SUCCESS;
}
size_t cublasLtGetVersion(void)
{
    return 0;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (refused())
        return CUBLAS_STATUS_NOT_SUPPORTED;
    simt::counts.live++;
    simt::counts.blas_descriptors++;
    *out = (cublasLtMatmulDesc_t) new product{0, 0, CUBLASLT_EPILOGUE_DEFAULT, nullptr, -1};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    simt::counts.live--;
    delete (product *)desc;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attr,
                                              const void *value, size_t bytes)
{
    product *p = (product *)desc;
    if (attr == CUBLASLT_MATMUL_DESC_BIAS_POINTER && bytes == sizeof p->bias)
        memcpy(&p->bias, value, bytes);
    else if (bytes != 4)
        return CUBLAS_STATUS_INVALID_VALUE;
    else if (attr == CUBLASLT_MATMUL_DESC_TRANSA)
        memcpy(&p->transpose_a, value, 4);
    else if (attr == CUBLASLT_MATMUL_DESC_TRANSB)
        memcpy(&p->transpose_b, value, 4);
    else if (attr == CUBLASLT_MATMUL_DESC_EPILOGUE)
        memcpy(&p->epilogue, value, 4);
    else if (attr == CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE)
        memcpy(&p->bias_type, value, 4);
    else
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType_t type,
                                          uint64_t rows, uint64_t cols, int64_t ld)
{
    if (ld < (int64_t)rows || refused())
        return CUBLAS_STATUS_INVALID_VALUE;
    simt::counts.live++;
    *out = (cublasLtMatrixLayout_t) new layout{type, rows, cols, ld};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    simt::counts.live--;
    delete (layout *)l;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    if (refused())
        return CUBLAS_STATUS_NOT_SUPPORTED;
    simt::counts.live++;
    *out = (cublasLtMatmulPreference_t) new preference{0, {256, 256, 256, 256}, 7};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t pref)
{
    simt::counts.live--;
    delete (preference *)pref;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t pref,
                                                    cublasLtMatmulPreferenceAttributes_t attr,
                                                    const void *value, size_t bytes)
{
    preference *p = (preference *)pref;
    if (bytes != (attr == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? 8 : 4))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (attr == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
        memcpy(&p->workspace, value, 8);
    else if (attr == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
        memcpy(&p->reduction, value, 4);
    else
        memcpy(&p->align[attr - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, 4);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t pref, int wanted,
                                              cublasLtMatmulHeuristicResult_t *out, int *count)
{
    if (wanted < 1)
        return CUBLAS_STATUS_INVALID_VALUE;
    const preference *p = (const preference *)pref;
    int named = simt::options.blas_candidates != 0 ? (int)simt::options.blas_candidates : 1;
    simt::counts.blas_heuristics++;
    *count = 0;
    if (simt::options.blas_none)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *count = named < wanted ? named : wanted;
    memset(out, 0, sizeof *out * (size_t)*count);
    for (int i = 0; i < *count; i++) {
        out[i].algo.data[0] = (uint64_t)i;
        for (int m = 0; m < 4; m++)
            out[i].algo.data[1 + m] = p->align[m];
        out[i].algo.data[5] = p->reduction;
        if (i == 0 && simt::options.blas_bad_first)
            out[i].state = CUBLAS_STATUS_NOT_SUPPORTED;
    }
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       const cublasLtMatmulAlgo_t *algo,
                                       cublasLtMatmulHeuristicResult_t *result)
{
    memset(result, 0, sizeof *result);
    uint32_t named = simt::options.blas_candidates != 0 ? simt::options.blas_candidates : 1;
    return algo->data[0] < named ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *,
                              cublasLtMatrixLayout_t, void *d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algo, void *, size_t, cudaStream_t stream)
{
    product p = *(product *)desc;
    layout la = *(layout *)a_layout, lb = *(layout *)b_layout, ld = *(layout *)d_layout;
    uint64_t depth = p.transpose_a ? la.rows : la.cols;
    if (refused())
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (*(const float *)alpha != 1.0f || *(const float *)beta != 0.0f)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (depth != (p.transpose_b ? lb.cols : lb.rows) ||
        ld.rows != (p.transpose_a ? la.cols : la.rows) ||
        ld.cols != (p.transpose_b ? lb.rows : lb.cols))
        return CUBLAS_STATUS_INVALID_VALUE;
    std::lock_guard<simt::emu_mutex> hold(simt::emu_lock);
    static const void *weight_before;
    uint32_t chosen = (uint32_t)algo->data[0];
    const void *const at[] = {a, b, d, d};
    for (int m = 0; m < 4; m++)
        if ((uintptr_t)at[m] % algo->data[1 + m] != 0)
            simt::report("an algorithm for matrices aligned to %llu bytes is given %p",
                         (unsigned long long)algo->data[1 + m], at[m]);
    if (algo->data[5] != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)
        simt::report("an algorithm that may add its parts in the output's type");
    if (chosen == 0 && simt::options.blas_bad_first)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (chosen != 0 && ld.cols == simt::options.blas_refuses)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    simt::counts.blas_calls++;
    simt::counts.blas_algorithm = chosen;
    simt::counts.blas_weights += a != weight_before;
    weight_before = a;
    bool recorded = simt::stream_captures(stream);
    simt::counts.blas_recorded += recorded;
    static char code[16][4];
    simt::code_use(&code[chosen % 16][la.type == CUDA_R_32F ? 0 : la.type == CUDA_R_16F ? 1 : 2]);
    double ms = chosen == (recorded ? simt::options.blas_best : 0) ? 1 : 3;
    ms *= simt::options.blas_slow != 0 ? simt::options.blas_slow : 1;
    simt::stream_push(stream, [=] {
        run_product(p, la, a, lb, b, ld, d);
        simt::product_ms += ms;
    });
    return CUBLAS_STATUS_SUCCESS;
}
}
