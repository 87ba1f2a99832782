// Which product serves a call. Exact mode: of the two tensor-core kernels that share one summation
// order that of the count of rows. Else what was the fastest at the start (blas_tune.c), and our
// own kernels for what cuBLASLt does not take. Types that tensor cores do not multiply go to the
// plain kernel.
#include "kernels/cuda/internal.h"

enum { SMALL_ROWS_MAX = 32 };

// Of our own kernels there is one for each count up to these; a prompt's has its first use in a
// step. The library is asked about more counts.
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

static enum status gemm_own(struct stream *stream, const struct gemm_args *args)
{
    return args->rows <= SMALL_ROWS_MAX ? gemm_small(stream, args) : gemm_wide(stream, args);
}

static bool blas_takes(const struct stream *stream, const struct gemm_args *args)
{
    return stream->blas && args->weight->shape.dtype == args->x_dtype &&
           args->weight->shape.k % 8 == 0 && args->x_stride % 8 == 0 && args->y_stride % 8 == 0;
}

enum status cuda_gemm(struct stream *stream, const struct gemm_args *args)
{
    enum dtype held = args->weight->shape.dtype;
    bool half = args->x_dtype == DTYPE_BF16 || args->x_dtype == DTYPE_F16;
    if (args->rows == 0)
        return STATUS_OK;
    if (blas_takes(stream, args)) {
        enum status status = blas_gemm(stream, args);
        if (status != STATUS_UNSUPPORTED)
            return status;
    }
    if (half && (held == args->x_dtype || held == DTYPE_I8))
        return gemm_own(stream, args);
    return gemm_plain(stream, args);
}
