// SPDX-License-Identifier: Apache-2.0
// Chooses the kernel of a product. Exact mode: by the numbers of rows and features, one of the two
// tensor-core kernels, which share one summation order. Else the fastest found at startup
// (blas_tune.c), or weft's kernels for products that cuBLASLt does not support. Types that tensor
// cores do not multiply use the plain kernel.
#include "kernels/cuda/internal.h"

enum {
    SMALL_ROWS_MAX = 32,
    SMALL_FEW_MAX = 16, // most rows for which the small kernel is always chosen
};

// Returns the next row count to warm up (see `tune` in kernels/device.h). The small kernel has a
// variant for row counts up to each of these, and the wide kernel one for up to the last; that for
// more rows is loaded when a step first uses it.
// With cuBLASLt more counts are tried.
uint32_t gemm_tune(struct stream *stream, uint32_t rows)
{
    static const uint32_t own[] = {1, 16, SMALL_ROWS_MAX};
    if (stream->blas)
        return blas_tune(stream, rows);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (own[i] > rows)
            return own[i] <= stream->limits.step.tokens_max ? own[i] : 0;
    return 0;
}

// The wide kernel reads x once for 128 features, the small one for 16, which takes longer than the
// weights from 17 rows on; but the wide kernel needs a tile for each SM.
static bool small_chosen(const struct stream *stream, const struct gemm_args *args)
{
    return args->rows <= SMALL_FEW_MAX ||
           (args->rows <= SMALL_ROWS_MAX &&
            args->weight->shape.n / WIDE_FEATURES < stream->device->processors);
}

static enum status gemm_own(struct stream *stream, const struct gemm_args *args)
{
    return small_chosen(stream, args) ? gemm_small(stream, args) : gemm_wide(stream, args);
}

enum status cuda_gemm(struct stream *stream, const struct gemm_args *args)
{
    const struct weight_shape *shape = &args->weight->shape;
    bool half = args->x_dtype == DTYPE_BF16 || args->x_dtype == DTYPE_F16;
    if (args->rows == 0)
        return STATUS_OK;
    if (blas_takes(stream, args)) {
        enum status status = blas_gemm(stream, args);
        if (status != STATUS_UNSUPPORTED)
            return status;
    }
    if (shape->part_count > 0)
        return half ? gemm_own(stream, args) : STATUS_UNSUPPORTED;
    if (half && (shape->dtype == args->x_dtype || shape->dtype == DTYPE_I8))
        return gemm_own(stream, args);
    return gemm_plain(stream, args);
}
