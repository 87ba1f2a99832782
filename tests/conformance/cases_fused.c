// SPDX-License-Identifier: Apache-2.0
// Rounding of activations to FP8 in the default mode, by a launch of its own or by the op before
// the product. A device keeps the codes to itself, so each product here has a weight that selects
// columns: its results are the rounded elements. One thread.
#include "tests/conformance/cases_fused.h"

#include <float.h>
#include <math.h>
#include <string.h>

// A weight of n rows in FP8: row i is 1 in column pick[i] and 0 elsewhere.
struct selector {
    struct weight weight;
    uint32_t *pick; // [n]
};

static struct selector selector_make(struct trial *t, enum weight_format format, uint32_t n,
                                     uint32_t k)
{
    enum { ONE = 0x38 };
    struct selector s = {.weight.shape = {.use = WEIGHT_PRODUCT,
                                          .n = n,
                                          .k = k,
                                          .part_count = 1,
                                          .parts = {{format, n}}},
                         .pick = trial_heap(t, n * sizeof *s.pick)};
    uint8_t *codes = trial_heap(t, (size_t)n * k);
    float *scales = trial_heap(t, (size_t)n * (k / FP8_SCALE_COLUMNS + 1) * sizeof *scales);
    for (size_t i = 0; i < (size_t)n * (k / FP8_SCALE_COLUMNS + 1); i++)
        scales[i] = 1;
    for (uint32_t i = 0; i < n; i++) {
        s.pick[i] = i < 2 ? i * (k - 1) : trial_below(t, k);
        codes[(size_t)i * k + s.pick[i]] = ONE;
    }
    struct error err = {0};
    struct weight_source source = {
        .fd = -1, .map = codes, .rows = n, .cols = k, .format = format, .scales = scales};
    s.weight.bytes = t->api->weight_bytes(t->device, &s.weight.shape);
    s.weight.data = trial_device(t, s.weight.bytes);
    check(t->api->weight_put(t->device, &s.weight, 0, &source, &err) == STATUS_OK, "%s", err.text);
    check(t->api->weight_finish(t->device, &s.weight, &err) == STATUS_OK, "%s", err.text);
    return s;
}

// Rounds n elements with one scale: the largest magnitude becomes the code of 448.
static void scale_rounded(const float *x, float *to, uint32_t n)
{
    double top = 0;
    for (uint32_t i = 0; i < n; i++)
        top = fabs((double)x[i]) > top ? fabs((double)x[i]) : top;
    float scale = (float)(top / 448), inverse = scale < FLT_MIN ? 0 : (float)(1 / (double)scale);
    for (uint32_t i = 0; i < n; i++) {
        float code = (float)((double)x[i] * (double)inverse);
        to[i] = (float)(reference_e4m3_value(reference_e4m3((double)code)) * (double)scale);
    }
}

// Returns the results that a selector's product has of x[rows][k]. A NaN spoils its row.
static float *selected(struct trial *t, const struct selector *s, const float *x, uint32_t rows)
{
    uint32_t n = s->weight.shape.n, k = s->weight.shape.k;
    uint32_t each = s->weight.shape.parts[0].format == WEIGHT_FP8_128 ? FP8_SCALE_COLUMNS : k;
    float *to = trial_heap(t, k * sizeof *to), *want = trial_heap(t, (size_t)rows * n * sizeof *to);
    for (uint32_t r = 0; r < rows; r++) {
        bool spoilt = false;
        for (uint32_t first = 0; first < k; first += each)
            scale_rounded(x + (size_t)r * k + first, to + first, each);
        for (uint32_t i = 0; i < k; i++)
            spoilt = spoilt || to[i] != to[i];
        for (uint32_t i = 0; i < n; i++)
            want[(size_t)r * n + i] = spoilt ? NAN : to[s->pick[i]];
    }
    return want;
}

static bool equal(const float *a, const float *b, size_t n)
{
    bool same = true;
    for (size_t i = 0; i < n; i++)
        same = same && (a[i] == b[i] || (a[i] != a[i] && b[i] != b[i]));
    return same;
}

// Runs the product of x on the device and compares it with the codes of x, or, on a card without
// such products, with x itself. Returns the results.
static float *product_compared(struct trial *t, const char *what, const struct selector *s,
                               enum dtype act, const void *x, const float *values, uint32_t rows)
{
    uint32_t n = s->weight.shape.n, k = s->weight.shape.k;
    size_t size = (size_t)rows * n;
    void *y = trial_device(t, (size_t)(rows + PRODUCT_ROWS_UNIT) * n * sizeof(float));
    struct gemm_args args = {act, DTYPE_F32, x, &s->weight, NULL, y, rows, k, n};
    trial_true(t, "gemm of rounded rows runs", t->api->ops->gemm(t->stream, &args) == STATUS_OK);
    float *got = trial_fetch_floats(t, y, size, DTYPE_F32);
    bool holds = equal(got, selected(t, s, values, rows), size);
    if (!holds && strcmp(t->api->name, "cuda") == 0) {
        float *plain = trial_heap(t, size * sizeof *plain);
        for (size_t i = 0; i < size; i++)
            plain[i] = values[i / n * k + s->pick[i % n]];
        holds = equal(got, plain, size);
    }
    trial_true(t, what, holds);
    return got;
}

static enum weight_format format_of(uint64_t seed)
{
    return seed % 2 ? WEIGHT_FP8_128 : WEIGHT_FP8;
}

// Rows of x with each distance between neighbours among codes, zeros, elements below the smallest
// scale, a NaN and an infinity.
static void edges_case(struct trial *t, enum dtype act, uint64_t seed)
{
    enum { ROWS = 34, N = 128, K = 256 };
    trial_begin(t, seed);
    struct selector s = selector_make(t, format_of(seed), N, K);
    float *x = trial_floats(t, (size_t)ROWS * K, act, 1);
    for (uint32_t i = 0; i < K; i++) {
        uint32_t code = i % 126;
        double low = reference_e4m3_value(code), high = reference_e4m3_value(code + 1);
        x[i] = i % 128 == 127 ? 448 : (float)((low + high) / 2); // a tie; the scale is 1
        x[K + i] = (i / 2 % 2 ? -1 : 1) * x[i];
        x[2 * K + i] = 0;
        x[3 * K + i] = trial_rounded(x[3 * K + i] * 0x1p-123f, act);
        x[4 * K + i] *= 0x1p-6f;
    }
    x[5 * K + 17] = NAN;
    x[6 * K + 200] = INFINITY;
    product_compared(t, "rounding to FP8", &s, act, trial_put_floats(t, x, (size_t)ROWS * K, act),
                     x, ROWS);
}

// Runs the product of an op's output, then that of a copy of the output, which is rounded in a
// launch of its own: both must be right and equal.
static void output_compared(struct trial *t, const struct selector *s, enum dtype act,
                            const void *out, uint32_t rows)
{
    size_t size = (size_t)rows * s->weight.shape.k;
    uint64_t bits = t->bits; // x comes back only after the product
    float *y = trial_heap(t, (size_t)rows * s->weight.shape.n * sizeof *y);
    void *there = trial_device(t, (size_t)(rows + PRODUCT_ROWS_UNIT) * s->weight.shape.n * 4);
    struct gemm_args args = {
        act, DTYPE_F32, out, &s->weight, NULL, there, rows, s->weight.shape.k, s->weight.shape.n};
    trial_true(t, "gemm of an op's output runs", t->api->ops->gemm(t->stream, &args) == STATUS_OK);
    t->bits = bits;
    trial_fetch_to(t, y, there, (size_t)rows * s->weight.shape.n, DTYPE_F32);
    float *x = trial_fetch_floats(t, out, size, act);
    const float *apart = product_compared(t, "rounding of an op's output", s, act,
                                          trial_put_floats(t, x, size, act), x, rows);
    trial_true(t, "an op's codes are those of its output",
               equal(y, apart, (size_t)rows * s->weight.shape.n));
}

// A thread keeps one vector of a row of the first width, two of the second, none of the last.
static void norm_case(struct trial *t, enum dtype act, uint64_t seed)
{
    static const uint32_t widths[] = {1152, 2560, 4224}, counts[] = {33, 36, 66};
    trial_begin(t, seed);
    uint32_t k = widths[seed / 2 % 3], rows = counts[trial_below(t, 3)];
    struct selector s = selector_make(t, format_of(seed), 144, k);
    struct weight_shape vector = {.use = WEIGHT_VECTOR, .dtype = DTYPE_F32, .n = k, .k = 1};
    struct trial_weight w = trial_weight_make(t, &vector, 0.2f, 1);
    size_t n = (size_t)rows * k;
    float *residual = trial_floats(t, n, act, 3), *add = trial_floats(t, n, act, 1);
    for (uint32_t i = 0; i < k; i++)
        residual[2 * k + i] = add[2 * k + i] = 0;
    void *out = trial_device(t, n * dtype_bytes(act));
    struct rms_norm_args args = {.act = act,
                                 .residual = trial_put_floats(t, residual, n, act),
                                 .add = trial_put_floats(t, add, n, act),
                                 .weight = &w.device,
                                 .out = out,
                                 .rows = rows,
                                 .width = k,
                                 .epsilon = 1e-6f,
                                 .next = &s.weight};
    trial_true(t, "rms_norm with codes runs", t->api->ops->rms_norm(t->stream, &args) == STATUS_OK);
    output_compared(t, &s, act, out, rows);
    float *want = trial_heap(t, n * sizeof *want);
    args = (struct rms_norm_args){.act = DTYPE_F32,
                                  .residual = residual,
                                  .add = add,
                                  .weight = &w.reference,
                                  .out = want,
                                  .rows = rows,
                                  .width = k,
                                  .epsilon = 1e-6f};
    reference_rms_norm(&args);
    trial_close_to(t, "rms_norm with codes", trial_fetch_floats(t, out, n, act), want, n,
                   trial_bound(act));
}

static void gate_case(struct trial *t, enum dtype act, uint64_t seed)
{
    static const uint32_t widths[] = {128, 1152, 4224}, counts[] = {33, 36, 66};
    trial_begin(t, seed);
    uint32_t k = widths[seed / 2 % 3], rows = counts[trial_below(t, 3)];
    struct selector s = selector_make(t, format_of(seed), 144, k);
    size_t n = (size_t)rows * k;
    float *in = trial_floats(t, 2 * n, act, 4), *want = trial_heap(t, n * sizeof *want);
    for (uint32_t i = 0; i < 2 * k; i++) {
        in[4 * k + i] = 0;
        in[6 * k + i] = trial_rounded(in[6 * k + i] * 0x1p-64f, act); // an output of tiny numbers
    }
    void *out = trial_device(t, n * dtype_bytes(act));
    struct swiglu_args args = {DTYPE_F32, in,    want, rows, k, NULL, (enum gate)(seed % 4),
                               5,         1.702f};
    reference_swiglu(&args);
    args.act = act;
    args.in = trial_put_floats(t, in, 2 * n, act);
    args.out = out;
    args.next = &s.weight;
    trial_true(t, "swiglu with codes runs", t->api->ops->swiglu(t->stream, &args) == STATUS_OK);
    output_compared(t, &s, act, out, rows);
    trial_close_to(t, "swiglu with codes", trial_fetch_floats(t, out, n, act), want, n,
                   trial_bound(act));
}

void fused_cases(struct trial *t, enum dtype act)
{
    for (uint64_t i = 0; i < 2; i++)
        edges_case(t, act, 9700 + i);
    for (uint64_t i = 0; i < 6; i++)
        norm_case(t, act, 9710 + i);
    for (uint64_t i = 0; i < (trial_few > 0 ? 4 : 12); i++)
        gate_case(t, act, 9720 + i);
}
