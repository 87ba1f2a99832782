// SPDX-License-Identifier: Apache-2.0
// Activations as FP8 e4m3 in a launch of their own, for cuBLASLt's products with FP8 weights
// (blas_fp8.c): a scale for each row, or for each 128 columns of a row. For inputs that the op
// before did not write as codes.
#include "kernels/cuda/e4m3_rows.h"

enum { QUANTIZE_THREADS = 256 };

// One block per row. Shared: 32 bytes. Bytes: 3 * rows * k; with scales of rows the second read
// comes from L1 or L2. Bound: memory.
template <class T>
static __global__ void __launch_bounds__(QUANTIZE_THREADS) quantize_kernel(quantize_run q)
{
    SHARED(float, shared, [QUANTIZE_THREADS / 32]);
    grid_begin();
    row_codes<QUANTIZE_THREADS>((const T *)q.x + (size_t)blockIdx.x * q.x_stride, q.to, blockIdx.x,
                                shared);
}

enum status quantize(struct stream *stream, const struct quantize_run *run)
{
    quantize_run q = *run;
    dim3 grid(q.to.padded), block(QUANTIZE_THREADS);
    if (q.act == DTYPE_BF16)
        LAUNCH_STEP(quantize_kernel<bf16>, grid, block, 0, stream, q);
    else
        LAUNCH_STEP(quantize_kernel<f16>, grid, block, 0, stream, q);
    return launch_status();
}
