// SPDX-License-Identifier: Apache-2.0
// Products of codes and int8 by cuBLASLt, for many rows outside of exact mode (decision 0079): a
// kernel converts a strip of features to the activations' type (strip.cu), the library multiplies
// it into its columns of y, and the next strip follows in the same buffer. So a weight has no
// converted copy, and the library reads the strip from the L2 cache. Timing at startup chooses
// between this and weft's kernels (blas_tune.c).
//
// Used by the stream's engine thread.
#include "kernels/cuda/blas.h"
#include "kernels/cuda/strip.h"

#include "base/number.h"

enum {
    // Up to 64 rows, a tile of the wide product, weft's kernel converts each code once, too.
    STRIP_ROWS_MIN = GRAPH_FEW_ROWS + 1,
    STRIP_UNIT = 128,       // features; keeps addresses in y aligned and the library's tiles full
    STRIP_LEAST = 16,       // features, a panel
    STRIP_FEATURES = 32768, // most features, which are a dimension of a grid
    STRIP_PRODUCTS = 4,     // products of a layer: of q, k and v, of the output, up and down
};

size_t strip_bytes_of(const struct stream_limits *limits)
{
    size_t bytes = (size_t)limits->coded_most * sizeof(uint16_t);
    return bytes < STRIP_BYTES ? bytes : STRIP_BYTES;
}

// Returns the features of a strip: strips of a weight are about equal, and as few as fit. 0: none
// fits.
static uint32_t features_of(const struct stream *stream, uint32_t n, uint32_t k)
{
    size_t fit = strip_bytes_of(&stream->limits) / sizeof(uint16_t) / k;
    size_t unit = fit < STRIP_UNIT ? STRIP_LEAST : STRIP_UNIT;
    size_t most = fit < STRIP_FEATURES ? fit / unit * unit : STRIP_FEATURES;
    if (n <= fit && n <= STRIP_FEATURES)
        return n;
    if (most == 0)
        return 0;
    size_t strips = (n + most - 1) / most;
    return (uint32_t)round_up((n + strips - 1) / strips, unit);
}

uint64_t strip_nodes(const struct stream_limits *limits)
{
    // for k up to 32,768 the features that fit take at least three quarters of the buffer, and a
    // product has at most one strip more
    const uint64_t each = STRIP_BYTES / sizeof(uint16_t) * 3 / 4;
    return limits->coded_layer > 0 ? 2 * (limits->coded_layer / each + STRIP_PRODUCTS) : 0;
}

bool strip_takes(const struct stream *stream, const struct gemm_args *args)
{
    const struct weight_shape *shape = &args->weight->shape;
    bool half = args->x_dtype == DTYPE_BF16 || args->x_dtype == DTYPE_F16;
    bool coded = shape->part_count > 0 || shape->dtype == DTYPE_I8;
    if (!half || !coded || !stream->strip || args->rows < STRIP_ROWS_MIN || shape->stack > 1)
        return false;
    return shape->n % STRIP_LEAST == 0 && shape->k % WEIGHT_ROUND == 0 && args->x_stride % 8 == 0 &&
           features_of(stream, shape->n, shape->k) > 0;
}

void strip_key(struct plan_key *key, const struct stream *stream, const struct gemm_args *args)
{
    const struct weight_shape *shape = &args->weight->shape;
    uint32_t bytes = (uint32_t)dtype_bytes(args->y_dtype);
    key->strip = features_of(stream, key->n, key->k);
    key->format = shape->part_count > 0 ? (uint32_t)shape->parts[0].format : 0;
    key->stride = key->k;
    key->weight_align = alignment_of(stream->strip);
    // strips begin at multiples of `strip`, and the last one ends with the features
    uintptr_t starts = key->strip < key->n ? (key->strip | (key->n - key->strip)) * bytes : 0;
    key->y_align = alignment_of((const void *)((uintptr_t)args->y | starts));
}

enum status strip_run(struct stream *stream, struct blas_plan *plan, const struct gemm_args *args)
{
    uint32_t n = plan->key.n, each = plan->key.strip;
    enum status status = STATUS_OK;
    for (uint32_t done = 0; done < n && status == STATUS_OK; done += each) {
        // the last strip may compute features again, so that one plan serves all
        uint32_t first = done + each < n ? done : n - each;
        struct strip_fill fill = {args->weight, stream->strip, args->x_dtype, first, each};
        status = strip_fill(stream, &fill);
        if (status == STATUS_OK)
            status = plan_multiply(stream, plan, args, stream->strip, first);
    }
    return status;
}
