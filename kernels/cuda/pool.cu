// SPDX-License-Identifier: Apache-2.0
// Pooling: one vector per sequence from its hidden states, normalised if requested. One
// thread computes each output element as a sum over tokens in ascending order, whatever the batch.
#include "kernels/cuda/lane.h"

struct pool_run {
    pool_args args;
    bool vectors;
};

// One block of 256 per sequence; a thread owns 8 columns at a time. Shared: 32 bytes. Bound:
// memory, tokens * width elements. The launch bounds leave registers for four blocks per SM;
// without them the compiler would spill to fit eight.
template <class T> static __global__ void __launch_bounds__(256, 4) pool_kernel(pool_run a)
{
    SHARED(float, shared, [8]);
    uint32_t width = a.args.width;
    grid_begin();
    step_sampled s = a.args.sampled[blockIdx.x];
    step_row row = a.args.rows[s.row];
    enum pooling kind = a.args.kind;
    bool single = kind == POOL_CLS || kind == POOL_LAST || kind == POOL_GIVEN;
    uint32_t from = single ? 0 : row.pool & STEP_POOL_FROM;
    uint32_t first = kind == POOL_GIVEN  ? blockIdx.x
                     : kind == POOL_LAST ? s.last_token
                                         : row.q_start + from;
    uint32_t count = single ? 1 : row.q_len - from;
    float divisor = kind == POOL_MEAN_SQRT  ? sqrtf((float)count)
                    : kind == POOL_WEIGHTED ? POOL_WEIGHTS(from, count)
                    : kind == POOL_MAX      ? 1.0f
                                            : (float)count;
    float *out = (float *)a.args.out + (size_t)blockIdx.x * width;
    float squares = 0;
    for (uint32_t at = threadIdx.x * 8; at < width; at += 2048) {
        float sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        for (uint32_t t = 0; t < count; t++) {
            float v[8];
            load8_row((const T *)a.args.in + (size_t)(first + t) * width, at, width, a.vectors, v);
            float weight = kind == POOL_WEIGHTED ? (float)(from + t + 1) : 1.0f;
            bool most = kind == POOL_MAX && t > 0;
            for (int i = 0; i < 8; i++)
                sum[i] = most ? fmaxf(sum[i], v[i]) : fmaf(v[i], weight, sum[i]);
        }
        for (int i = 0; i < 8; i++) {
            sum[i] = sum[i] / divisor;
            squares = fmaf(sum[i], sum[i], squares);
        }
        if (a.args.out_act)
            store8_row((T *)a.args.out + (size_t)blockIdx.x * width, at, width, a.vectors, sum);
        else
            store8_row(out, at, width, a.vectors, sum);
    }
    if (!a.args.normalize || (row.pool & STEP_POOL_RAW))
        return;
    float length = sqrtf(row_sum<8>(squares, shared));
    float scale = 1.0f / fmaxf(length, 1e-12f);
    for (uint32_t at = threadIdx.x * 8; at < width; at += 2048) {
        float v[8];
        load8_row(out, at, width, a.vectors, v);
        for (int i = 0; i < 8; i++)
            v[i] = mul_rn(v[i], scale);
        store8_row(out, at, width, a.vectors, v);
    }
}

// --- launch -------------------------------------------------------------------------------------

enum status cuda_pool(struct stream *stream, const struct pool_args *args)
{
    if (args->count == 0)
        return STATUS_OK;
    pool_run run = {*args, rows_whole(args->width)};
    return with_type(args->act, [&](auto type) {
        LAUNCH_STEP(pool_kernel<decltype(type)>, dim3(args->count), dim3(256), 0, stream, run);
        return launch_status();
    });
}
