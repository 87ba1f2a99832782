// SPDX-License-Identifier: Apache-2.0
// Random FP8 weights; see codes_fp8.h. One thread.
#include "tests/conformance/codes_fp8.h"

#include <math.h>

double fp8_value(uint32_t code)
{
    int exponent = (int)(code >> 3 & 15), mantissa = (int)(code & 7);
    double value = exponent > 0 ? ldexp(8 + mantissa, exponent - 10) : ldexp(mantissa, -9);
    return code & 128 ? -value : value;
}

// Returns the value nearest to x of those of all codes, of two equally near ones that of the even
// code.
static double fp8_nearest(double x)
{
    uint32_t best = 0;
    for (uint32_t code = 1; code < 127; code++) {
        double near = fabs(fabs(x) - fp8_value(best)), now = fabs(fabs(x) - fp8_value(code));
        if (now < near || (now == near && code % 2 == 0))
            best = code;
    }
    return x < 0 ? -fp8_value(best) : fp8_value(best);
}

// Puts rows in two sources, which meet at the scale of a block.
static void sources_put(struct trial *t, struct weight *weight, struct weight_source source,
                        size_t element_bytes)
{
    const struct weight_shape *shape = &weight->shape;
    uint32_t first = shape->n / 3 / FP8_SCALE_ROWS * FP8_SCALE_ROWS;
    bool blocks = source.format == WEIGHT_FP8_128;
    struct error err = {0};
    for (int i = 0; i < 2; i++) {
        source.rows = i == 0 ? first : shape->n - first;
        if (source.rows == 0)
            continue;
        enum status status =
            t->api->weight_put(t->device, weight, i == 0 ? 0 : first, &source, &err);
        check(status == STATUS_OK, "%s", err.text);
        source.map = (const char *)source.map + (size_t)first * shape->k * element_bytes;
        if (source.scales)
            source.scales +=
                blocks ? first / FP8_SCALE_ROWS * (shape->k / FP8_SCALE_COLUMNS) : first;
    }
    check(t->api->weight_finish(t->device, weight, &err) == STATUS_OK, "%s", err.text);
}

struct trial_weight trial_fp8_make(struct trial *t, const struct weight_shape *shape,
                                   enum fp8_source from)
{
    struct trial_weight out = {.device.shape = *shape, .reference.shape = *shape};
    out.reference.shape.part_count = 0;
    out.reference.shape.dtype = DTYPE_F32;
    uint32_t n = shape->n, k = shape->k;
    size_t size = (size_t)n * k;
    bool blocks = shape->parts[0].format == WEIGHT_FP8_128;
    uint32_t down = blocks ? FP8_SCALE_ROWS : 1, across = blocks ? k / FP8_SCALE_COLUMNS : 1;
    float *want = trial_heap(t, size * sizeof *want);
    out.reference.data = want;
    out.device.bytes = t->api->weight_bytes(t->device, shape);
    out.device.data = trial_device(t, out.device.bytes);
    struct weight_source source = {.fd = -1, .cols = k, .dtype = DTYPE_F32};
    if (from == FP8_FLOATS) {
        float *x = trial_floats(t, size, DTYPE_F32, 0.05f);
        for (uint32_t r = 0; r < n; r++) {
            float top = 0;
            for (uint32_t i = 0; i < k; i++)
                top = fmaxf(top, fabsf(x[(size_t)r * k + i]));
            float scale = top / 448.0f, inverse = 1.0f / scale;
            for (size_t i = (size_t)r * k; i < (size_t)(r + 1) * k; i++)
                want[i] = (float)(fp8_nearest(x[i] * inverse) * (double)scale);
        }
        source.map = x;
        sources_put(t, &out.device, source, sizeof *x);
        return out;
    }
    uint8_t *codes = (uint8_t *)trial_heap(t, size + 1) + 1; // a file is not aligned
    float *scales = trial_heap(t, (size_t)(n + down - 1) / down * across * sizeof *scales);
    for (size_t i = 0; i < (size_t)(n + down - 1) / down * across; i++) {
        scales[i] = 0.001f + fabsf(trial_normal(t)) * 0.01f;
        if (from == FP8_WHOLE && i / across % (128 / down) != 0) // as the group before it
            scales[i] = scales[i - across];
    }
    for (size_t i = 0; i < size; i++) {
        uint32_t code = trial_below(t, 254); // no NaN
        codes[i] = (uint8_t)(code < 127 ? code : code + 1);
        size_t scale = i / k / down * across + i % k / (k / across);
        want[i] = (float)(fp8_value(codes[i]) * (double)scales[scale]);
    }
    source.map = codes;
    source.scales = scales;
    source.format = shape->parts[0].format;
    sources_put(t, &out.device, source, 1);
    return out;
}
