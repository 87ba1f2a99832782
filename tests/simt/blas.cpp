// SPDX-License-Identifier: Apache-2.0
// A stand-in for cuBLASLt: column-major products by a plain loop with float64 sums, with the bias
// epilogue. It proves that weft's descriptors, layouts and strides describe the right product; it
// proves nothing about the library's rounding and speed. Products of FP8 codes are accepted as
// NVIDIA's documentation of cuBLASLt 13 allows them: on compute capability 9.0, with scales for
// rows of both matrices (OUTER_VEC) or for blocks of A and 128 elements of B, and with its limits
// for sizes and alignments. Every product is counted, so that
// a test can show that exact mode makes none. In products launched outside a graph the first
// algorithm seems the fastest, as if the host took the time; recorded in a graph, the best
// algorithm is. weft's kernels are timed by the same clock.
#include "emu.h"

#include <cublasLt.h>

#include <cmath>

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
    const float *scale[2]; // of A and B
    int mode[2];
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

float e4m3(uint8_t code)
{
    int exponent = code >> 3 & 15, mantissa = code & 7;
    float value = std::ldexp((float)(exponent > 0 ? 8 + mantissa : mantissa),
                             (exponent > 0 ? exponent : 1) - 10);
    return (code & 0x7F) == 0x7F ? NAN : code & 0x80 ? -value : value;
}

float element(const void *at, const layout &l, uint64_t row, uint64_t col)
{
    size_t i = (size_t)(col * (uint64_t)l.ld + row);
    if (l.type == CUDA_R_32F)
        return ((const float *)at)[i];
    if (l.type == CUDA_R_8F_E4M3)
        return e4m3(((const uint8_t *)at)[i]);
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

uint64_t rounded_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

uint32_t type_bytes(cudaDataType_t type)
{
    return type == CUDA_R_32F ? 4 : type == CUDA_R_8F_E4M3 ? 1 : 2;
}

// Returns the scale of row k of column `col` of A or B, whose columns are contiguous.
float scale_at(const product &p, int matrix, const layout &l, uint64_t k, uint64_t col)
{
    switch (p.mode[matrix]) {
    case CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F:
        return p.scale[matrix][col];
    case CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F:
        return p.scale[matrix][k / 128 * l.cols + col];
    default:
        return p.scale[matrix][col / 128 * rounded_up((l.rows + 127) / 128, 4) + k / 128];
    }
}

// Returns the number of scales of A or B.
uint64_t scale_count(const product &p, int matrix, const layout &l)
{
    uint64_t across = (l.rows + 127) / 128;
    switch (p.mode[matrix]) {
    case CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F:
        return l.cols;
    case CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F:
        return across * l.cols;
    default:
        return rounded_up(across, 4) * ((l.cols + 127) / 128);
    }
}

// Returns column `col` of A or B times its scales.
std::vector<double> scaled_column(const product &p, int matrix, const layout &l, const void *at,
                                  uint64_t col)
{
    std::vector<double> out(l.rows);
    for (uint64_t k = 0; k < l.rows; k++)
        out[k] = (double)element(at, l, k, col) * (double)scale_at(p, matrix, l, k, col);
    return out;
}

void run_codes(const product &p, const layout la, const void *a, const layout lb, const void *b,
               const layout ld, void *d)
{
    std::vector<std::vector<double>> rows;
    for (uint64_t j = 0; j < ld.cols; j++)
        rows.push_back(scaled_column(p, 1, lb, b, j));
    for (uint64_t i = 0; i < ld.rows; i++) {
        std::vector<double> weight = scaled_column(p, 0, la, a, i);
        double bias = 0;
        if (p.epilogue == CUBLASLT_EPILOGUE_BIAS)
            bias = element(p.bias, {(cudaDataType_t)p.bias_type, 0, 0, 0}, i, 0);
        for (uint64_t j = 0; j < ld.cols; j++) {
            double sum = bias;
            for (uint64_t k = 0; k < la.rows; k++)
                sum += weight[k] * rows[j][k];
            store(d, ld, i, j, (float)sum);
        }
    }
}

// Returns true if the library has products with these scales, types and sizes.
bool codes_run(const product &p, const layout &a, const layout &b, const layout &d)
{
    bool rows = p.mode[0] == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F &&
                p.mode[1] == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    bool blocks = p.mode[0] == CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F &&
                  p.mode[1] == CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
    if (simt::options.major != 0 && simt::options.major != 9)
        return false;
    if (!(rows && !simt::options.blas_no_rows) && !(blocks && !simt::options.blas_no_blocks))
        return false;
    if (blocks && (d.rows % 4 != 0 || d.cols % 4 != 0))
        return false;
    int bias_type = d.type == CUDA_R_32F ? CUDA_R_16BF : d.type;
    if (p.epilogue == CUBLASLT_EPILOGUE_BIAS && p.bias_type != bias_type)
        return false;
    return p.transpose_a && !p.transpose_b && b.type == CUDA_R_8F_E4M3 &&
           d.type != CUDA_R_8F_E4M3 && a.rows % 16 == 0 && a.ld % 16 == 0 && b.ld % 16 == 0 &&
           d.rows * type_bytes(d.type) % 16 == 0 && (uint64_t)d.ld * type_bytes(d.type) % 16 == 0;
}

// Returns true if the library has the product: of codes with scales, or of floats without.
bool product_runs(const product &p, const layout &a, const layout &b, const layout &d)
{
    bool scaled = p.mode[0] != 0 || p.mode[1] != 0 || p.scale[0] || p.scale[1];
    return a.type == CUDA_R_8F_E4M3 ? codes_run(p, a, b, d) : !scaled;
}

// Reports scales of codes that are missing, misaligned or outside of an allocation.
void scales_check(const product &p, const layout &a, const layout &b)
{
    const layout *const l[] = {&a, &b};
    for (int m = 0; m < 2; m++)
        if (!p.scale[m] || (uintptr_t)p.scale[m] % 16 != 0 ||
            !simt::memory_of(p.scale[m], scale_count(p, m, *l[m]) * sizeof(float)))
            simt::report("scales of %c at %p", "AB"[m], (const void *)p.scale[m]);
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
    return 130100; // 13.1
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
    *out = (cublasLtMatmulDesc_t) new product{
        0, 0, CUBLASLT_EPILOGUE_DEFAULT, nullptr, -1, {nullptr, nullptr}, {0, 0}};
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
    else if ((attr == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER ||
              attr == CUBLASLT_MATMUL_DESC_B_SCALE_POINTER) &&
             bytes == sizeof p->scale[0])
        memcpy(&p->scale[attr - CUBLASLT_MATMUL_DESC_A_SCALE_POINTER], value, bytes);
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
    else if (attr == CUBLASLT_MATMUL_DESC_A_SCALE_MODE || attr == CUBLASLT_MATMUL_DESC_B_SCALE_MODE)
        memcpy(&p->mode[attr - CUBLASLT_MATMUL_DESC_A_SCALE_MODE], value, 4);
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
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t pref, int wanted,
                                              cublasLtMatmulHeuristicResult_t *out, int *count)
{
    if (wanted < 1)
        return CUBLAS_STATUS_INVALID_VALUE;
    const preference *p = (const preference *)pref;
    int named = simt::options.blas_candidates != 0 ? (int)simt::options.blas_candidates : 1;
    simt::counts.blas_heuristics++;
    *count = 0;
    if (simt::options.blas_none ||
        !product_runs(*(product *)desc, *(layout *)a, *(layout *)b, *(layout *)d))
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
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algo,
                                       cublasLtMatmulHeuristicResult_t *result)
{
    memset(result, 0, sizeof *result);
    uint32_t named = simt::options.blas_candidates != 0 ? simt::options.blas_candidates : 1;
    if (!product_runs(*(product *)desc, *(layout *)a, *(layout *)b, *(layout *)d))
        return CUBLAS_STATUS_NOT_SUPPORTED;
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
    bool codes = la.type == CUDA_R_8F_E4M3;
    if (!product_runs(p, la, lb, ld))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    std::lock_guard<simt::emu_mutex> hold(simt::emu_lock);
    static const void *weight_before;
    uint32_t chosen = (uint32_t)algo->data[0];
    const void *const at[] = {a, b, d, d};
    for (int m = 0; m < 4; m++)
        if ((uintptr_t)at[m] % algo->data[1 + m] != 0)
            simt::report("an algorithm for matrices aligned to %llu bytes is given %p",
                         (unsigned long long)algo->data[1 + m], at[m]);
    if (codes)
        scales_check(p, la, lb);
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
    simt::counts.blas_codes += codes;
    static char code[16][4];
    simt::code_use(
        &code[chosen % 16][codes                    ? 3
                           : la.type == CUDA_R_32F  ? 0
                           : la.type == CUDA_R_16F ? 1
                                                    : 2]);
    double ms = chosen == (recorded ? simt::options.blas_best : 0) ? 1 : 3;
    ms *= simt::options.blas_slow != 0 ? simt::options.blas_slow : 1;
    simt::stream_push(stream, [=] {
        (codes ? run_codes : run_product)(p, la, a, lb, b, ld, d);
        simt::product_ms += ms;
    });
    return CUBLAS_STATUS_SUCCESS;
}
}
