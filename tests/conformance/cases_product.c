// SPDX-License-Identifier: Apache-2.0
// Conformance of gemm: every dtype of weights at odd shapes, with and without bias and strides, and
// with more rows than fit a panel. Elements between rows and after the last row are neither read
// nor written.
#include "tests/conformance/codes.h"
#include "tests/conformance/cases_fused.h"
#include "tests/conformance/codes_fp8.h"

#include <math.h>
#include <string.h>

static double product_bound(const struct trial *t, enum dtype weight, enum dtype act)
{
    if (weight == DTYPE_I8 && act == DTYPE_F32)
        return 1e-5;
    if (act != DTYPE_F32)
        return trial_bound(act);
    // bf16 pairs and tiles round activations to bf16
    bool rounds = t->level == CPU_AVX512BF16 || t->level == CPU_AMX;
    return weight == DTYPE_BF16 && rounds ? 4e-3 : 4e-6;
}

// Returns a bias of n elements up to 0.5.
static struct trial_weight bias_make(struct trial *t, uint32_t n)
{
    struct weight_shape shape = {.use = WEIGHT_VECTOR, .dtype = DTYPE_F32, .n = n, .k = 1};
    return trial_weight_make(t, &shape, 0.5f, 0);
}

static void product_case(struct trial *t, enum dtype dtype, enum dtype act, uint64_t seed, bool odd)
{
    static const uint32_t odd_ks[] = {9, 100, 777, 1030};
    static const uint32_t ks[] = {8, 40, 64, 128, 512, 520, 896, 1536, 2056};
    static const uint32_t ns[] = {1, 8, 31, 32, 33, 64, 200, 520};
    static const uint32_t ms[] = {1, 2, 3, 5, 8, 15, 16, 17, 31, 32, 33, 47, 64, 130};
    trial_begin(t, seed);
    uint32_t k = ks[trial_below(t, 9)];
    uint32_t n = ns[trial_below(t, 8)];
    k = odd ? odd_ks[seed % 4] : k; // neither k nor its stride is a multiple of a vector
    uint32_t rows = seed % 16 == 15 ? 520 : ms[trial_below(t, 14)];
    uint32_t x_stride = k + (odd ? 3 : 8) * trial_below(t, 2);
    uint32_t y_stride = n + 8 * trial_below(t, 2);
    enum weight_use use = seed % 4 == 0 ? WEIGHT_TIED : WEIGHT_PRODUCT;
    struct weight_shape shape = {.use = use, .dtype = dtype, .n = n, .k = k};
    struct trial_weight w = trial_weight_make(t, &shape, 0.05f, 0);
    struct trial_weight bias = bias_make(t, n);
    size_t x_size = (size_t)(rows + 1) * x_stride; // the last row is not part of the product
    float *x = trial_floats(t, x_size, act, 1);
    for (size_t i = 0; i < x_size; i++)
        if (i >= (size_t)rows * x_stride || i % x_stride >= k)
            x[i] = NAN;
    enum dtype y_dtype = seed % 3 == 0 ? DTYPE_F32 : act;
    size_t size = (size_t)(rows + 1) * y_stride;
    float *want = trial_heap(t, size * sizeof *want);
    bool biased = seed % 2;
    struct gemm_args args = {
        DTYPE_F32, DTYPE_F32, x,        &w.reference, biased ? &bias.reference : NULL,
        want,      rows,      x_stride, y_stride};
    if (w.rotated.data) {
        args.weight = &w.rotated;
        reference_gemm_i8(&args);
    } else {
        reference_gemm(&args);
    }
    args.x_dtype = act;
    args.y_dtype = y_dtype;
    args.x = trial_put_floats(t, x, x_size, act);
    args.weight = &w.device;
    args.bias = biased ? &bias.device : NULL;
    args.y = trial_device(t, size * dtype_bytes(y_dtype));
    trial_true(t, "gemm runs", t->api->ops->gemm(t->stream, &args) == STATUS_OK);
    // columns after a row's end and the row after the last stay zero
    trial_close_to(t, "gemm", trial_fetch_floats(t, args.y, size, y_dtype), want, size,
                   product_bound(t, dtype, act));
    args.x_stride = k - 1;
    trial_true(t, "gemm refuses a short stride",
               gemm_check(&args)[0] != '\0' &&
                   t->api->ops->gemm(t->stream, &args) == STATUS_INVALID);
}

// A weight of one to three parts, each held as codes in a format of its own. If codes are storage
// only, the product also has the bits of one with the elements that they mean.
static void codes_case(struct trial *t, enum dtype act, uint64_t seed)
{
    static const uint32_t ms[] = {1, 2, 5, 16, 17, 33, 130};
    trial_begin(t, seed);
    struct weight_shape shape = {.use = WEIGHT_PRODUCT};
    shape.use = seed % 4 || !t->facts.code_tables ? WEIGHT_PRODUCT : WEIGHT_TIED;
    shape.part_count = 1 + trial_below(t, WEIGHT_PARTS_MAX);
    uint32_t unit = 32; // elements of the longest block
    for (uint32_t i = 0; i < shape.part_count; i++) {
        struct weight_codes *part = &shape.parts[i];
        part->format = codes_format(t);
        part->rows = trial_range(t, 1, seed % 8 == 1 ? 300 : 100);
        shape.n += part->rows;
        uint32_t elements = weight_format_facts(part->format)->elements;
        unit = elements > unit ? elements : unit;
    }
    shape.k = unit * trial_range(t, 1, 768 / unit);
    struct trial_codes w = trial_codes_make(t, &shape, false);
    struct weight_shape vector = {.use = WEIGHT_VECTOR, .dtype = DTYPE_F32, .n = shape.n, .k = 1};
    struct trial_weight bias = trial_weight_make(t, &vector, 0.5f, 0);
    uint32_t rows = seed % 16 == 15 ? 520 : ms[trial_below(t, 7)];
    uint32_t x_stride = shape.k + 3 * trial_below(t, 2), y_stride = shape.n + trial_below(t, 2);
    size_t size = (size_t)rows * y_stride;
    float *x = trial_floats(t, (size_t)rows * x_stride, act, 1);
    float *want = trial_heap(t, size * sizeof *want);
    bool biased = seed % 2, storage = codes_are_storage(t);
    struct weight floats = {.data = NULL};
    if (storage)
        floats = codes_floats(t, &w, act);
    struct gemm_args args = {
        DTYPE_F32, DTYPE_F32, x,        &w.reference, biased ? &bias.reference : NULL,
        want,      rows,      x_stride, y_stride};
    if (storage)
        reference_gemm(&args);
    else
        reference_gemm_codes(&args);
    args.x_dtype = act;
    args.x = trial_put_floats(t, x, (size_t)rows * x_stride, act);
    args.weight = &w.device;
    args.bias = biased ? &bias.device : NULL;
    args.y = trial_device(t, size * sizeof(float));
    trial_true(t, "gemm of codes runs", t->api->ops->gemm(t->stream, &args) == STATUS_OK);
    float *got = trial_fetch_floats(t, args.y, size, DTYPE_F32);
    trial_close_to(t, "gemm of codes", got, want, size, storage ? 4e-6 : 1e-5);
    if (storage) {
        args.weight = &floats;
        trial_true(t, "gemm of floats runs", t->api->ops->gemm(t->stream, &args) == STATUS_OK);
        float *other = trial_fetch_floats(t, args.y, size, DTYPE_F32);
        trial_true(t, "gemm of codes has the bits of one of floats",
                   !t->facts.exact || memcmp(got, other, size * sizeof *got) == 0);
    }
    w.device.shape.parts[0].rows++;
    args.weight = &w.device;
    trial_true(t, "gemm refuses parts that do not fit",
               t->api->ops->gemm(t->stream, &args) == STATUS_INVALID);
}

// MXFP4 with scales at the ends of their range and where float16 and bfloat16 end. In each row one
// element is not zero, unless the scale is NaN, so that y has single elements.
static void e2m1_case(struct trial *t, enum dtype act)
{
    static const uint8_t exponents[] = {0,   1,   101, 102, 103, 127, 141,
                                        142, 241, 252, 253, 254, 255};
    static const float factors[] = {1, -1024, 0x1p-10f};
    enum { N_MAX = 16 * sizeof exponents, K = 32, ROWS = 40 };
    uint8_t codes[N_MAX][K / 2], scales[N_MAX];
    float want[N_MAX];
    // Which of several NaN a sum becomes differs without exact mode.
    const uint32_t n = t->facts.exact ? N_MAX : N_MAX - 16;
    trial_begin(t, 9890);
    float *x = trial_heap(t, ROWS * K * sizeof *x);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t code = i % 16, column = i * 7 % K;
        memset(codes[i], 0x80, sizeof codes[i]); // zeros of both signs
        codes[i][column / 2] = (uint8_t)(code << column % 2 * 4);
        scales[i] = exponents[i / 16];
        want[i] = trial_rounded(ldexpf((float)weight_e2m1_twice(code), scales[i] - 128), act);
        want[i] = scales[i] == 255 ? NAN : want[i];
    }
    for (uint32_t i = 0; i < ROWS * K; i++)
        x[i] = factors[i / K % 3];
    struct weight_int4 arrays = {
        .codes = codes, .scales = scales, .n = n, .k = K, .group = 32, .e2m1 = true};
    struct weight_source source = {
        .fd = -1, .rows = n, .cols = K, .format = WEIGHT_MXFP4, .int4 = &arrays};
    struct weight w = {.shape = {.use = WEIGHT_PRODUCT, .n = n, .k = K, .part_count = 1}};
    w.shape.parts[0] = (struct weight_codes){WEIGHT_MXFP4, n};
    w.bytes = t->api->weight_bytes(t->device, &w.shape);
    w.data = trial_device(t, w.bytes);
    trial_true(t, "extreme scales are loaded",
               t->api->weight_put(t->device, &w, 0, &source, NULL) == STATUS_OK &&
                   t->api->weight_finish(t->device, &w, NULL) == STATUS_OK);
    struct gemm_args args = {act, DTYPE_F32, NULL, &w, NULL, NULL, 0, K, n};
    args.x = trial_put_floats(t, x, ROWS * K, act);
    args.y = trial_device(t, ROWS * n * sizeof(float));
    for (args.rows = 1; args.rows <= ROWS; args.rows += ROWS - 1) {
        uint32_t wrong = 0;
        trial_true(t, "gemm of extreme scales runs",
                   t->api->ops->gemm(t->stream, &args) == STATUS_OK);
        const float *y = trial_fetch_floats(t, args.y, args.rows * n, DTYPE_F32);
        for (uint32_t i = 0; i < args.rows * n; i++) {
            float product = want[i % n] * factors[i / n % 3]; // a subnormal sum may be rounded
            wrong += fpclassify(product) != FP_SUBNORMAL && y[i] != product &&
                     !(isnan(y[i]) && isnan(product));
        }
        trial_true(t, "gemm of extreme scales has the elements of a conversion", wrong == 0);
    }
}

// Returns FP8 weights of n rows, with scales of blocks or of rows.
static struct trial_weight fp8_make(struct trial *t, uint32_t n, uint32_t k, bool blocks,
                                    enum fp8_source from)
{
    struct weight_shape shape = {.use = WEIGHT_PRODUCT,
                                 .n = n,
                                 .k = k,
                                 .part_count = 1,
                                 .parts = {{blocks ? WEIGHT_FP8_128 : WEIGHT_FP8, n}}};
    return trial_fp8_make(t, &shape, from);
}

// A weight of FP8 codes, with a scale for each row or for blocks, or rounded while loading. The
// elements are exact in the type of the activations, so that float32 results have only the errors
// of sums.
static void fp8_case(struct trial *t, enum dtype act, uint64_t seed)
{
    static const uint32_t ns[] = {1, 8, 16, 40, 130, 528}, ms[] = {1, 7, 12, 31, 33, 130};
    static const uint32_t ks[] = {128, 384, 512, 640, 1152, 2176}, odd_ks[] = {9, 40, 777, 1040};
    trial_begin(t, seed);
    bool blocks = seed % 3 == 0, floats = seed % 3 == 1;
    uint32_t n = ns[trial_below(t, 6)];
    uint32_t rows = ms[trial_below(t, trial_fast ? 4 : 6)]; // for more: fp8_many_case
    uint32_t k = blocks || trial_below(t, 2) ? ks[trial_below(t, 6)] : odd_ks[trial_below(t, 4)];
    struct trial_weight w = fp8_make(t, n, k, blocks, floats ? FP8_FLOATS : FP8_CODES);
    struct trial_weight bias = bias_make(t, n);
    bool biased = seed % 2;
    enum dtype y_dtype = seed % 4 == 3 ? act : DTYPE_F32;
    float *x = trial_floats(t, (size_t)rows * k, act, 1);
    float *want = trial_heap(t, (size_t)rows * n * sizeof *want);
    struct gemm_args args = {
        DTYPE_F32, DTYPE_F32, x, &w.reference, biased ? &bias.reference : NULL, want, rows, k, n};
    reference_gemm(&args);
    args.x_dtype = act;
    args.y_dtype = y_dtype;
    args.x = trial_put_floats(t, x, (size_t)rows * k, act);
    args.weight = &w.device;
    args.bias = biased ? &bias.device : NULL;
    args.y = trial_device(t, (size_t)rows * n * dtype_bytes(y_dtype));
    trial_true(t, "gemm of FP8 codes runs", t->api->ops->gemm(t->stream, &args) == STATUS_OK);
    float *y = trial_fetch_floats(t, args.y, (size_t)rows * n, y_dtype);
    trial_close_to(t, "gemm of FP8 codes", y, want, (size_t)rows * n,
                   y_dtype == DTYPE_F32 ? 3e-6 : trial_bound(act));
    if (!t->facts.exact)
        return;
    args.x = (const char *)args.x + (size_t)(rows - 1) * k * dtype_bytes(act);
    args.rows = 1;
    trial_true(t, "gemm of the last row runs", t->api->ops->gemm(t->stream, &args) == STATUS_OK);
    float *alone = trial_fetch_floats(t, args.y, n, y_dtype);
    trial_true(t, "a row alone has the same bits",
               memcmp(alone, y + (size_t)(rows - 1) * n, n * sizeof *y) == 0);
}

static double apart(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    return sum;
}

// Runs a product of many rows again with a NaN in its row 1: that row becomes NaN, and row 0 keeps
// its bits.
static void fp8_neighbour(struct trial *t, const struct gemm_args *args, float *x, const float *y,
                          size_t y_size)
{
    uint32_t k = args->weight->shape.k, n = args->weight->shape.n;
    struct gemm_args other = *args;
    x[k + k / 2] = NAN;
    other.x = trial_put_floats(t, x, (size_t)args->rows * k, args->x_dtype);
    trial_true(t, "gemm with a NaN runs", t->api->ops->gemm(t->stream, &other) == STATUS_OK);
    uint64_t bits = t->bits; // those of NaN may differ
    const float *got = trial_fetch_floats(t, args->y, y_size, args->y_dtype);
    t->bits = bits;
    trial_true(t, "a row has the same bits next to a NaN", memcmp(got, y, n * sizeof *y) == 0);
    for (uint32_t i = 0; i < n; i++)
        trial_true(t, "a NaN spoils its row", got[n + i] != got[n + i]);
}

// FP8 weights and many rows in the default mode: where the library has such products, x is rounded
// to FP8 too; not if scales of blocks differ within 128 rows. A card without them multiplies by x
// itself; which of both it was is seen from the distances, as they differ by a few percent. A
// card's tensor cores add products of FP8 codes with about 13 bits below the largest, and the sums
// of 128 products in float32.
static void fp8_many_case(struct trial *t, enum dtype act, uint64_t seed)
{
    static const uint32_t ns[] = {16, 144, 272}, ms[] = {33, 36, 130},
                          ks[] = {128, 512, 1152, 1040};
    trial_begin(t, seed);
    bool blocks = seed % 2, card = strcmp(t->api->name, "cuda") == 0, uneven = seed % 8 == 5;
    uint32_t n = ns[trial_below(t, 3)], rows = ms[trial_below(t, 3)];
    uint32_t k = ks[trial_below(t, blocks ? 3 : 4)];
    struct trial_weight w = fp8_make(t, n, k, blocks, uneven ? FP8_CODES : FP8_WHOLE);
    struct trial_weight bias = bias_make(t, n);
    enum dtype y_dtype = seed / 2 % 2 ? act : DTYPE_F32;
    bool biased = y_dtype == act && seed / 4 % 2;
    size_t size = (size_t)rows * n;
    size_t padded = (size_t)(rows + PRODUCT_ROWS_UNIT) * n; // rows that the device may write
    float *x = trial_floats(t, (size_t)rows * k, act, 1);
    for (uint32_t i = 0; i < k; i++) {
        x[2 * k + i] = 0;        // a row of zeros
        x[3 * k + i] *= 0x1p-5f; // scales differ by row
    }
    float *want = trial_heap(t, size * sizeof *want), *plain = trial_heap(t, size * sizeof *want);
    struct gemm_args args = {
        DTYPE_F32, DTYPE_F32, x, &w.reference, biased ? &bias.reference : NULL, want, rows, k, n};
    reference_gemm_e4m3(&args, blocks);
    args.y = plain;
    reference_gemm(&args);
    args.x_dtype = act;
    args.y_dtype = y_dtype;
    args.x = trial_put_floats(t, x, (size_t)rows * k, act);
    args.weight = &w.device;
    args.bias = biased ? &bias.device : NULL;
    args.y = trial_device(t, padded * dtype_bytes(y_dtype));
    trial_true(t, "gemm of many rows runs", t->api->ops->gemm(t->stream, &args) == STATUS_OK);
    float *y = trial_fetch_floats(t, args.y, size, y_dtype);
    bool codes = card ? apart(y, want, size) < apart(y, plain, size) : !(uneven && n > 16);
    trial_close_to(t, "gemm of FP8 codes and many rows", y, codes ? want : plain, size,
                   y_dtype != DTYPE_F32 ? trial_bound(act)
                   : card               ? 2e-3
                                        : 3e-6);
    fp8_neighbour(t, &args, x, y, size);
}

// A code of NaN spoils the results of its scale's rows and no others.
static void fp8_nan_case(struct trial *t, enum dtype act, enum weight_format format)
{
    enum { N = 48, K = 256, BAD = 21 };
    trial_begin(t, 9950 + (uint64_t)format);
    struct weight w = {.shape = {.use = WEIGHT_PRODUCT, .n = N, .k = K, .part_count = 1}};
    w.shape.parts[0] = (struct weight_codes){format, N};
    w.bytes = t->api->weight_bytes(t->device, &w.shape);
    w.data = trial_device(t, w.bytes);
    uint8_t *codes = trial_heap(t, (size_t)N * K);
    float *scales = trial_heap(t, N * sizeof *scales), *x = trial_floats(t, K, act, 1);
    for (uint32_t i = 0; i < N; i++)
        scales[i] = 1;
    codes[BAD * K + 200] = 0xFF;
    struct weight_source source = {
        .fd = -1, .map = codes, .rows = N, .cols = K, .format = format, .scales = scales};
    trial_true(t, "FP8 codes are put",
               t->api->weight_put(t->device, &w, 0, &source, NULL) == STATUS_OK);
    trial_true(t, "FP8 codes are loaded", t->api->weight_finish(t->device, &w, NULL) == STATUS_OK);
    struct gemm_args args = {act, DTYPE_F32, NULL, &w, NULL, NULL, 1, K, N};
    args.x = trial_put_floats(t, x, K, act);
    args.y = trial_device(t, N * sizeof(float));
    trial_true(t, "gemm of a NaN code runs", t->api->ops->gemm(t->stream, &args) == STATUS_OK);
    uint64_t bits = t->bits; // those of NaN may differ
    const float *y = trial_fetch_floats(t, args.y, N, DTYPE_F32);
    t->bits = bits;
    uint32_t rows = format == WEIGHT_FP8 ? 1 : FP8_SCALE_ROWS;
    for (uint32_t i = 0; i < N; i++)
        trial_true(t, "a NaN code spoils the rows of its scale",
                   i / rows == BAD / rows ? y[i] != y[i] : y[i] == 0);
    source.format = format == WEIGHT_FP8 ? WEIGHT_FP8_128 : WEIGHT_FP8;
    trial_true(t, "codes of another format are refused",
               t->api->weight_put(t->device, &w, 0, &source, NULL) == STATUS_INVALID);
}

// A weight that is held as codes or int8, and its elements.
struct coded_weight {
    struct weight weight;
    const float *elements; // [n][k], of codes of 4 bits rounded to the type of the activations
};

// Makes a weight of n rows, a multiple of 16: int8, of FP8 codes, or of codes of 4 bits in one to
// three parts.
static struct coded_weight coded_make(struct trial *t, enum dtype act, uint32_t kind, uint32_t n,
                                      uint32_t *k)
{
    struct weight_shape shape = {.use = WEIGHT_PRODUCT, .dtype = DTYPE_I8, .n = n, .k = *k};
    if (kind == 0) {
        struct trial_weight w = trial_weight_make(t, &shape, 0.05f, 0);
        return (struct coded_weight){w.device, w.reference.data};
    }
    if (kind < 3) {
        *k = kind == 2 ? *k / 128 * 128 : *k;
        struct trial_weight w = fp8_make(t, n, *k, kind == 2, FP8_CODES);
        return (struct coded_weight){w.device, w.reference.data};
    }
    *k = (*k + 255) / 256 * 256;
    shape.k = *k;
    shape.part_count = 1 + trial_below(t, WEIGHT_PARTS_MAX);
    for (uint32_t i = 0, left = n; i < shape.part_count; i++) {
        bool last = i + 1 == shape.part_count;
        shape.parts[i].format = codes_format(t);
        shape.parts[i].rows = last ? left : trial_range(t, 1, left / 3);
        left -= shape.parts[i].rows;
    }
    struct trial_codes codes = trial_codes_make(t, &shape, false);
    (void)codes_floats(t, &codes, act);
    return (struct coded_weight){codes.device, codes.reference.data};
}

// Products of FP8 codes by FP8 codes have no bias with float32 results: such ones use strips.
//
// Rows of x with a single 1 give the elements of columns: those of codes of 4 bits bit for bit,
// those of int8 and FP8 codes rounded to the type of the activations or not, as the library's or
// the device's own kernel multiplies.
static void strip_columns(struct trial *t, const struct coded_weight *w, enum dtype act,
                          uint32_t rows, uint32_t first)
{
    uint32_t n = w->weight.shape.n, k = w->weight.shape.k;
    struct weight_shape vector = {.use = WEIGHT_VECTOR, .dtype = DTYPE_F32, .n = n, .k = 1};
    struct trial_weight zeros = trial_weight_make(t, &vector, 0, 0);
    float *x = trial_heap(t, (size_t)rows * k * sizeof *x);
    for (uint32_t r = 0; r < rows; r++)
        x[(size_t)r * k + (first + r) % k] = 1;
    struct gemm_args args = {act, DTYPE_F32, NULL, &w->weight, &zeros.device, NULL, rows, k, n};
    args.x = trial_put_floats(t, x, (size_t)rows * k, act);
    args.y = trial_device(t, (size_t)rows * n * sizeof(float));
    trial_true(t, "gemm with rows of one element runs",
               t->api->ops->gemm(t->stream, &args) == STATUS_OK);
    const float *y = trial_fetch_floats(t, args.y, (size_t)rows * n, DTYPE_F32);
    uint32_t wrong = 0;
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t i = 0; i < n; i++) {
            float element = w->elements[(size_t)i * k + (first + r) % k];
            float got = y[(size_t)r * n + i];
            wrong += got != element && got != trial_rounded(element, act);
        }
    trial_true(t, "the library multiplies the elements of codes", wrong == 0);
}

// Many rows in the default mode, where the library multiplies strips of converted features.
static void strip_case(struct trial *t, enum dtype act, uint64_t seed)
{
    static const uint32_t ns[] = {16, 48, 144, 304, 528}, ms[] = {65, 96, 130};
    static const uint32_t ks[] = {32, 96, 256, 416, 1152};
    trial_begin(t, seed);
    uint32_t kind = (uint32_t)(seed % 6), n = ns[trial_below(t, 5)], k = ks[trial_below(t, 5)];
    k = kind == 2 && k < 128 ? 128 : k;
    struct coded_weight w = coded_make(t, act, kind, n, &k);
    struct trial_weight bias = bias_make(t, n);
    uint32_t rows = ms[trial_below(t, 3)], x_stride = k + 8, y_stride = n + 16;
    for (uint32_t first = 0; first < k; first += rows)
        strip_columns(t, &w, act, rows, first);
    bool codes8 = kind == 1 || kind == 2, biased = seed / 4 % 2 || codes8;
    enum dtype y_dtype = seed / 2 % 2 && !codes8 ? act : DTYPE_F32;
    size_t size = (size_t)rows * y_stride;
    float *x = trial_floats(t, (size_t)rows * x_stride, act, 1);
    float *want = trial_heap(t, size * sizeof *want);
    struct weight reference = {.shape = {.use = WEIGHT_PRODUCT, .n = n, .k = k}};
    reference.data = (void *)(uintptr_t)w.elements;
    struct gemm_args args = {
        DTYPE_F32, DTYPE_F32, x,        &reference, biased ? &bias.reference : NULL,
        want,      rows,      x_stride, y_stride};
    reference_gemm(&args);
    args.x_dtype = act;
    args.y_dtype = y_dtype;
    args.x = trial_put_floats(t, x, (size_t)rows * x_stride, act);
    args.weight = &w.weight;
    args.bias = biased ? &bias.device : NULL;
    args.y = trial_device(t, size * dtype_bytes(y_dtype));
    trial_true(t, "gemm of strips runs", t->api->ops->gemm(t->stream, &args) == STATUS_OK);
    // elements of int8 and FP8 codes are rounded to the type of the activations
    trial_close_to(t, "gemm of strips", trial_fetch_floats(t, args.y, size, y_dtype), want, size,
                   y_dtype == DTYPE_F32 && kind > 2 ? 4e-6 : trial_bound(act));
}

// One of the two forms of products in tuned_case.
struct tuned_form {
    struct gemm_args args;
    float *want; // [rows][y_stride], zero after each row's end
};

// Makes 16-bit or float32 products with bias and without gaps between rows, or float32 products
// without bias and with gaps. plain: [most][n], the product without bias.
static struct tuned_form tuned_form_make(struct trial *t, enum dtype act, const float *x,
                                         const float *plain, const struct trial_weight *w,
                                         const struct trial_weight *bias, uint32_t most)
{
    const struct weight_shape *shape = &w->device.shape;
    uint32_t gap = bias ? 0 : 8, x_stride = shape->k + gap, y_stride = shape->n + gap;
    enum dtype y_dtype = bias ? act : DTYPE_F32;
    const float *add = bias ? bias->reference.data : NULL;
    float *spread = trial_heap(t, (size_t)most * x_stride * sizeof *spread);
    struct tuned_form out = {.want = trial_heap(t, (size_t)most * y_stride * sizeof(float))};
    for (size_t r = 0; r < most; r++) {
        for (uint32_t i = 0; i < x_stride; i++)
            spread[r * x_stride + i] = i < shape->k ? x[r * shape->k + i] : NAN;
        for (uint32_t j = 0; j < shape->n; j++)
            out.want[r * y_stride + j] = plain[r * shape->n + j] + (add ? add[j] : 0);
    }
    out.args =
        (struct gemm_args){.x_dtype = act,
                           .y_dtype = y_dtype,
                           .x = trial_put_floats(t, spread, (size_t)most * x_stride, act),
                           .weight = &w->device,
                           .bias = bias ? &bias->device : NULL,
                           .y = trial_device(t, (size_t)most * y_stride * dtype_bytes(y_dtype)),
                           .x_stride = x_stride,
                           .y_stride = y_stride};
    return out;
}

// Float32 results of 16-bit factors: sums of tensor cores over k = 1,024 have a relative error of
// about 1e-6 (decision 0068); an algorithm that rounds parts to 16 bits would have 1e-3.
static double tuned_bound(const struct trial *t, enum dtype act, enum dtype y_dtype)
{
    return y_dtype == DTYPE_F32 && act != DTYPE_F32 ? 1e-5 : product_bound(t, act, act);
}

// Runs a product while the device chooses an algorithm for this number of rows and with the choice;
// if `less`, also with one row less, for which the same choice holds.
static void tuned_runs(struct trial *t, struct tuned_form *form, uint32_t rows, bool less,
                       float *got)
{
    for (uint32_t run = 0; run < (less ? 3 : 2); run++) {
        form->args.rows = rows - run / 2;
        trial_true(t, "gemm of a tuned count of rows runs",
                   t->api->ops->gemm(t->stream, &form->args) == STATUS_OK);
        size_t size = (size_t)form->args.rows * form->args.y_stride;
        trial_fetch_to(t, got, form->args.y, size, form->args.y_dtype);
        trial_close_to(t, "gemm of a tuned count of rows", got, form->want, size,
                       tuned_bound(t, form->args.x_dtype, form->args.y_dtype));
    }
}

// In the default mode a device chooses among algorithms by the number of rows: products of each
// number for which it chooses, up to 1,024.
static void tuned_case(struct trial *t, enum dtype act)
{
    const struct device_api *api = t->api;
    uint32_t tokens_max = t->limits.step.tokens_max;
    struct attn_shape attn = t->limits.attn;
    t->limits.step.tokens_max = trial_few > 0 ? tokens_max : 1024;
    trial_begin(t, 9800 + (uint64_t)act);
    trial_shape(t, &attn);
    // not a multiple of the wide kernel's tile
    uint32_t n = trial_few > 0 ? 24 : 264, k = trial_few > 0 ? 40 : 1024;
    uint32_t most = t->limits.step.tokens_max;
    struct weight_shape shape = {.use = WEIGHT_PRODUCT, .dtype = act, .n = n, .k = k};
    struct trial_weight w = trial_weight_make(t, &shape, 0.05f, 0);
    struct trial_weight bias = bias_make(t, n);
    float *x = trial_floats(t, (size_t)most * k, act, 1);
    float *plain = trial_heap(t, (size_t)most * n * sizeof *plain);
    struct gemm_args args = {DTYPE_F32, DTYPE_F32, x, &w.reference, NULL, plain, most, k, n};
    reference_gemm(&args);
    struct tuned_form forms[2] = {tuned_form_make(t, act, x, plain, &w, &bias, most),
                                  tuned_form_make(t, act, x, plain, &w, NULL, most)};
    float *got = trial_heap(t, (size_t)most * (n + 8) * sizeof *got);
    uint32_t before = 0, count = 0;
    for (uint32_t rows = api->tune(t->stream, 0); rows; rows = api->tune(t->stream, rows)) {
        for (uint32_t form = 0; form < 2; form++)
            tuned_runs(t, &forms[form], rows, rows - before > 1, got);
        before = rows;
        count++;
    }
    trial_true(t, "the device tunes several counts of rows", count > 2);
    t->limits.step.tokens_max = tokens_max;
    trial_shape(t, &attn);
}

void try_gemm(struct trial *t, enum dtype act)
{
    for (uint64_t i = 0; codes_tried(t, act) && i < trial_cases(act == DTYPE_F16 ? 8 : 32); i++)
        codes_case(t, act, 9900 + i);
    if (codes_tried(t, act) && codes_are_storage(t) && t->facts.codes >> WEIGHT_MXFP4 & 1)
        e2m1_case(t, act);
    bool half = act == DTYPE_BF16 || act == DTYPE_F16;
    for (uint64_t i = 0; t->facts.e4m3 && half && i < (trial_few > 0 ? 6 : 24); i++)
        fp8_case(t, act, 9960 + i);
    for (int f = WEIGHT_FP8; t->facts.e4m3 && half && f <= WEIGHT_FP8_128; f++)
        fp8_nan_case(t, act, (enum weight_format)f);
    for (uint64_t i = 0; t->facts.e4m3 && half && trial_fast && i < (trial_few > 0 ? 8 : 24); i++)
        fp8_many_case(t, act, 9920 + i);
    if (t->facts.e4m3 && half && trial_fast)
        fused_cases(t, act);
    for (uint64_t i = 0; t->facts.e4m3 && half && trial_fast && i < trial_cases(24); i++)
        strip_case(t, act, 9700 + i);
    if (trial_fast && t->api->tune)
        tuned_case(t, act);
    for (int d = 0; d < DTYPE_COUNT; d++) {
        if (t->facts.activation[d] != act)
            continue;
        for (uint64_t i = 0; i < trial_cases(32); i++)
            product_case(t, (enum dtype)d, act, 9000 + 100 * (uint64_t)d + i, false);
        for (uint64_t i = 0; i < trial_cases(8); i++)
            product_case(t, (enum dtype)d, act, 9600 + 100 * (uint64_t)d + i, true);
    }
}
