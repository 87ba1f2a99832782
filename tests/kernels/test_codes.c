// SPDX-License-Identifier: Apache-2.0
// Products with weights held as codes, at every ISA level: the bits are those of the definition
// (kernels/cpu/codes.h) written down element by element, whatever the number of rows, threads and
// parts; and rows read back are the elements of the blocks. Seeds are fixed.
#include "tests/conformance/codes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
// cmocka.h needs the four headers above
#include <cmocka.h>

// Computes one element of a product.
static float element(const struct trial_codes *w, const float *x, uint32_t n, uint32_t k)
{
    float total = 0;
    for (uint32_t g = 0; g < k / 32; g++) {
        const struct block_group *group = &w->groups[(size_t)n * (k / 32) + g];
        int q[32], sum[2] = {0, 0}, all = 0;
        float scale = codes_round(q, x, g * 32, k);
        for (uint32_t i = 0; i < 32; i++) {
            sum[i / 16] += group->code[i] * q[i];
            all += q[i];
        }
        int joined = sum[0] * group->half[0] + sum[1] * group->half[1];
        total = fmaf((float)joined, group->scale * scale, total);
        if (group->least != 0)
            total = fmaf(group->least, scale * (float)all, total);
    }
    return total;
}

static void product_check(struct trial *t, const struct weight_shape *shape, uint32_t rows)
{
    struct trial_codes w = trial_codes_make(t, shape, rows % 2);
    uint32_t k = shape->k, n = shape->n;
    float *x = trial_floats(t, (size_t)rows * k, DTYPE_F32, 1);
    float *y = trial_heap(t, (size_t)rows * n * sizeof *y);
    for (uint32_t i = 0; i < k && rows > 1; i++)
        x[i] = i % 64 < 32 ? 0 : x[i] * 1e5f; // groups of zeros next to large ones
    struct gemm_args args = {DTYPE_F32, DTYPE_F32, x, &w.device, NULL, y, rows, k, n};
    assert_int_equal(t->api->ops->gemm(t->stream, &args), STATUS_OK);
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < n; c++) {
            float want = element(&w, x + (size_t)r * k, c, k);
            if (memcmp(&want, &y[(size_t)r * n + c], sizeof want) != 0)
                fail_msg("%s, %s, %u rows: element %u %u is %.9g, not %.9g", t->name,
                         weight_format_facts(shape->parts[0].format)->name, rows, r, c,
                         (double)y[(size_t)r * n + c], (double)want);
        }
}

static void with_levels(void (*run)(struct trial *))
{
    for (int level = 0; level < CPU_ISA_COUNT; level++) {
        struct trial t;
        if (!trial_open_cpu(&t, (enum cpu_isa)level, 3))
            continue;
        run(&t);
        trial_close(&t);
        assert_int_equal(t.failures, 0);
    }
}

static void formats(struct trial *t)
{
    static const uint32_t counts[] = {1, 2, 3, 15, 16, 17, 40};
    for (int f = WEIGHT_FLOATS + 1; f < WEIGHT_FORMAT_CODES; f++)
        for (uint32_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            trial_begin(t, 100 * (uint64_t)f + i);
            uint32_t elements = weight_format_facts((enum weight_format)f)->elements;
            uint32_t n = 48 - (i % 3) * 15, k = elements == 256 ? 512 : elements * (i + 1);
            if (i == 6 && elements == 32)
                k = 608; // three parts of K on AMX
            struct weight_shape shape = {.use = WEIGHT_PRODUCT,
                                         .n = n,
                                         .k = k,
                                         .part_count = 1,
                                         .parts = {{(enum weight_format)f, n}}};
            product_check(t, &shape, counts[i]);
        }
}

static void test_formats(void **state)
{
    (void)state;
    with_levels(formats);
}

static void parts(struct trial *t)
{
    static const uint32_t rows[][3] = {{64, 16, 16}, {40, 1, 33}, {7, 96, 32}};
    for (uint32_t i = 0; i < 9; i++) {
        trial_begin(t, 3000 + i);
        struct weight_shape shape = {.use = WEIGHT_PRODUCT, .k = 256, .part_count = 3};
        for (uint32_t p = 0; p < 3; p++) {
            shape.parts[p].format =
                (enum weight_format)(1 + (i + 3 * p) % (WEIGHT_FORMAT_CODES - 1));
            shape.parts[p].rows = rows[i % 3][p];
            shape.n += shape.parts[p].rows;
        }
        product_check(t, &shape, i < 3 ? 1 : 4 * i);
    }
}

static void test_parts(void **state)
{
    (void)state;
    with_levels(parts);
}

// A NaN or an infinity in a row spoils the row's results and no others, also where the last piece
// of K is cut and another tile of rows follows.
static void poison(struct trial *t)
{
    enum { N = 32, ROWS = 19 };
    for (int f = WEIGHT_FLOATS + 1; f < WEIGHT_FORMAT_CODES; f++) {
        trial_begin(t, 4000 + (uint64_t)f);
        uint32_t elements = weight_format_facts((enum weight_format)f)->elements;
        uint32_t k = elements == 256 ? 256 : 3 * elements;
        struct weight_shape shape = {.use = WEIGHT_PRODUCT,
                                     .n = N,
                                     .k = k,
                                     .part_count = 1,
                                     .parts = {{(enum weight_format)f, N}}};
        struct trial_codes w = trial_codes_make(t, &shape, false);
        float *x = trial_floats(t, (size_t)ROWS * k, DTYPE_F32, 1);
        float y[ROWS * N];
        x[0] = NAN;
        x[2 * k + 5] = INFINITY;
        x[17 * k] = NAN; // row 17 has the place of row 1 in the second tile
        struct gemm_args args = {DTYPE_F32, DTYPE_F32, x, &w.device, NULL, y, ROWS, k, N};
        assert_int_equal(t->api->ops->gemm(t->stream, &args), STATUS_OK);
        for (uint32_t r = 0; r < ROWS; r++)
            for (uint32_t i = 0; i < N; i++)
                if (r == 0 || r == 2 || r == 17)
                    assert_true(isnan(y[r * N + i]));
                else
                    assert_true(y[r * N + i] == element(&w, x + (size_t)r * k, i, k));
    }
}

static void test_poison(void **state)
{
    (void)state;
    with_levels(poison);
}

// Returns the squared error of a block compared with the floats it was made of.
static double block_error(const uint8_t *block, enum weight_format format, const float x[32])
{
    struct block_group g;
    double error = 0;
    block_group_read(&g, format, block, 0);
    for (int i = 0; i < 32; i++) {
        double d = (double)x[i] - g.code[i] * (double)g.scale - (double)g.least;
        error += d * d;
    }
    return error;
}

// Floats become blocks: the range from minimum to maximum is no better, 8 bits keep 1 / 254 of the
// largest element, zeros stay zeros, and a NaN spoils its block.
static void test_floats(void **state)
{
    (void)state;
    struct trial t;
    assert_true(trial_open_cpu(&t, CPU_PLAIN, 2));
    for (uint32_t i = 0; i < 300; i++) {
        trial_begin(&t, 5000 + i);
        float *x = trial_floats(&t, 32, DTYPE_F32, i % 3 ? 0.02f : 30);
        x[i % 32] *= i % 5 == 0 ? 10 : 1;
        float low = x[0], high = x[0];
        for (int k = 1; k < 32; k++) {
            low = fminf(low, x[k]);
            high = fmaxf(high, x[k]);
        }
        uint8_t block[34], plain[20];
        uint16_t scales[2] = {f32_to_f16((high - low) / 15), f32_to_f16(low)};
        memcpy(plain, scales, sizeof scales);
        for (int k = 0; k < 32; k++) {
            float q = rintf((x[k] - f16_to_f32(scales[1])) / f16_to_f32(scales[0]));
            q = fminf(fmaxf(q, 0), 15);
            plain[4 + k % 16] = (uint8_t)(k < 16 ? (int)q : plain[4 + k % 16] | (int)q << 4);
        }
        code_block_make(block, WEIGHT_Q4_1, x);
        double error = block_error(block, WEIGHT_Q4_1, x);
        assert_true(error <= 1.0001 * block_error(plain, WEIGHT_Q4_1, x));
        float top = fmaxf(fabsf(low), fabsf(high));
        code_block_make(block, WEIGHT_Q8_0, x);
        double bound = 0.51 * (double)top / 127;
        assert_true(block_error(block, WEIGHT_Q8_0, x) <= 32 * bound * bound);
    }
    float zeros[32] = {0};
    uint8_t block[34];
    code_block_make(block, WEIGHT_Q4_1, zeros);
    assert_true(block_error(block, WEIGHT_Q4_1, zeros) == 0);
    zeros[3] = NAN;
    code_block_make(block, WEIGHT_Q4_1, zeros);
    assert_true(isnan(block_error(block, WEIGHT_Q4_1, zeros)));
    trial_close(&t);
}

// A weight made of floats has the bytes of one made of the blocks of these floats.
static void test_floats_packed(void **state)
{
    (void)state;
    enum { N = 41, K = 96 };
    struct trial t;
    assert_true(trial_open_cpu(&t, CPU_PLAIN, 2));
    for (int i = 0; i < 2; i++) {
        enum weight_format format = i == 0 ? WEIGHT_Q4_1 : WEIGHT_Q8_0;
        uint32_t bytes = weight_format_facts(format)->bytes;
        trial_begin(&t, 6000);
        struct weight_shape shape = {
            .use = WEIGHT_PRODUCT, .n = N, .k = K, .part_count = 1, .parts = {{format, N}}};
        struct weight w[2];
        float *x = trial_floats(&t, N * K, DTYPE_F32, 1);
        uint8_t *blocks = trial_heap(&t, N * K / 32 * bytes);
        for (uint32_t b = 0; b < N * K / 32; b++)
            code_block_make(blocks + b * bytes, format, x + b * 32);
        for (int way = 0; way < 2; way++) {
            w[way] =
                (struct weight){.shape = shape, .bytes = t.api->weight_bytes(t.device, &shape)};
            w[way].data = trial_device(&t, w[way].bytes);
            struct weight_source source = {.map = way ? (void *)blocks : (void *)x,
                                           .fd = -1,
                                           .rows = N,
                                           .cols = K,
                                           .format = way ? format : WEIGHT_FLOATS};
            assert_int_equal(t.api->weight_put(t.device, &w[way], 0, &source, NULL), STATUS_OK);
        }
        assert_memory_equal(w[0].data, w[1].data, w[0].bytes);
    }
    trial_close(&t);
}

// Sources that do not fit are refused.
static void test_refused(void **state)
{
    (void)state;
    struct trial t;
    assert_true(trial_open_cpu(&t, CPU_PLAIN, 1));
    trial_begin(&t, 1);
    struct weight_shape shape = {.use = WEIGHT_PRODUCT,
                                 .n = 64,
                                 .k = 256,
                                 .part_count = 2,
                                 .parts = {{WEIGHT_Q4_K, 40}, {WEIGHT_Q4_0, 24}}};
    struct weight w = {.shape = shape, .bytes = t.api->weight_bytes(t.device, &shape)};
    w.data = trial_heap(&t, w.bytes);
    uint8_t *map = trial_heap(&t, 64 * 256);
    struct weight_source ok = {
        .map = map, .fd = -1, .rows = 40, .cols = 256, .format = WEIGHT_Q4_K};
    struct weight_source source = ok;
    struct error err;
    assert_int_equal(t.api->weight_put(t.device, &w, 0, &source, &err), STATUS_OK);
    source.rows = 41;
    assert_int_equal(t.api->weight_put(t.device, &w, 0, &source, &err), STATUS_INVALID);
    source = ok;
    source.first = 32;
    assert_int_equal(t.api->weight_put(t.device, &w, 0, &source, &err), STATUS_INVALID);
    source = ok;
    source.rows = 24;
    assert_int_equal(t.api->weight_put(t.device, &w, 40, &source, &err), STATUS_INVALID);
    source = ok;
    source.format = WEIGHT_FLOATS;
    assert_int_equal(t.api->weight_put(t.device, &w, 0, &source, &err), STATUS_INVALID);
    w.shape.part_count = 0;
    w.shape.dtype = DTYPE_F32;
    assert_int_equal(t.api->weight_put(t.device, &w, 0, &ok, &err), STATUS_UNSUPPORTED);
    trial_close(&t);
}

// Puts a matrix in a weight of 8 x 32 elements of a format. Returns the status.
static enum status int4_put(struct trial *t, struct weight *w, enum weight_format format,
                            const struct weight_int4 *int4, struct error *err)
{
    *w = (struct weight){
        .shape = {.use = WEIGHT_ROWS, .n = 8, .k = 32, .part_count = 1, .parts = {{format, 8}}}};
    w->bytes = t->api->weight_bytes(t->device, &w->shape);
    w->data = trial_device(t, w->bytes);
    struct weight_source source = {.fd = -1, .rows = 8, .cols = 32, .format = format, .int4 = int4};
    return t->api->weight_put(t->device, w, 0, &source, err);
}

// The words of each kind of checkpoint, written down.
static void test_int4_words(void **state)
{
    (void)state;
    static const int awq[] = {0, 4, 1, 5, 2, 6, 3, 7}; // rows of the word 0x76543210
    struct trial t;
    assert_true(trial_open_cpu(&t, CPU_PLAIN, 1));
    trial_begin(&t, 1);
    uint32_t codes[32], zeros[8];
    float scales[8], out[32];
    for (int i = 0; i < 32; i++)
        codes[i] = 0x76543210;
    for (int i = 0; i < 8; i++) {
        zeros[i] = 0x77777777;
        scales[i] = 0x1.02p-17f; // exact as float16, below its smallest normal number
    }
    struct weight_int4 int4 = {.codes = codes,
                               .scales = scales,
                               .zeros = zeros,
                               .zeros_add = 1,
                               .scale_dtype = DTYPE_F32,
                               .n = 8,
                               .k = 32,
                               .group = 32};
    for (int order = 0; order < 3; order++) {
        struct weight w;
        struct error err;
        int4.order = (enum weight_int4_order)order;
        assert_int_equal(int4_put(&t, &w, WEIGHT_INT4Z_32, &int4, &err), STATUS_OK);
        for (uint32_t r = 0; r < 8; r++) {
            code_row_read(out, &w, r);
            for (int c = 0; c < 32; c++) {
                int code = order == INT4_AWQ ? awq[r] : c % 8;
                assert_true(out[c] == (float)(code - 8) * scales[0]);
            }
        }
    }
    trial_close(&t);
}

// int4 arrays that a part cannot hold are refused.
static void test_int4_refused(void **state)
{
    (void)state;
    struct trial t;
    assert_true(trial_open_cpu(&t, CPU_PLAIN, 1));
    trial_begin(&t, 1);
    uint32_t codes[32] = {0}, zeros[8] = {0};
    float scales[8] = {65504, 1, 1, 1, 1, 1, 1, 1};
    const struct weight_int4 ok = {
        .codes = codes, .scales = scales, .scale_dtype = DTYPE_F32, .n = 8, .k = 32, .group = 32};
    struct weight_int4 int4 = ok;
    struct weight w;
    struct error err;
    assert_int_equal(int4_put(&t, &w, WEIGHT_Q4_0, &ok, &err), STATUS_OK);
    assert_int_equal(int4_put(&t, &w, WEIGHT_INT4Z_32, &ok, &err), STATUS_OK);
    assert_int_equal(int4_put(&t, &w, WEIGHT_Q4_1, &ok, &err), STATUS_INVALID);
    assert_int_equal(int4_put(&t, &w, WEIGHT_INT4Z_32, NULL, &err), STATUS_INVALID);
    int4.zeros = zeros;
    assert_int_equal(int4_put(&t, &w, WEIGHT_INT4Z_32, &int4, &err), STATUS_OK);
    assert_int_equal(int4_put(&t, &w, WEIGHT_Q4_0, &int4, &err), STATUS_INVALID);
    int4 = ok;
    int4.group = 48;
    assert_int_equal(int4_put(&t, &w, WEIGHT_Q4_0, &int4, &err), STATUS_INVALID);
    int4 = ok;
    int4.n = 7;
    assert_int_equal(int4_put(&t, &w, WEIGHT_Q4_0, &int4, &err), STATUS_INVALID);
    int4 = ok;
    int4.k = 64;
    assert_int_equal(int4_put(&t, &w, WEIGHT_Q4_0, &int4, &err), STATUS_INVALID);
    int4 = ok;
    int4.scale_dtype = DTYPE_I8;
    assert_int_equal(int4_put(&t, &w, WEIGHT_Q4_0, &int4, &err), STATUS_INVALID);
    scales[7] = 65520; // rounds to infinity
    assert_int_equal(int4_put(&t, &w, WEIGHT_Q4_0, &ok, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "above the largest float16"));
    trial_close(&t);
}

// Bits per weight, with panels that K fills and with a last piece that is cut.
static void test_int4_bytes(void **state)
{
    (void)state;
    static const struct {
        enum weight_format format;
        uint32_t k;
        double bits;
    } sizes[] = {
        {WEIGHT_Q4_0, 1024, 4.5},         {WEIGHT_INT4_64, 1024, 4.25},
        {WEIGHT_INT4_128, 1024, 4.125},   {WEIGHT_INT4_128, 896, 4.15},
        {WEIGHT_INT4Z_32, 1024, 4.75},    {WEIGHT_INT4Z_64, 1024, 4.375},
        {WEIGHT_INT4Z_128, 1024, 4.1875}, {WEIGHT_INT4Z_128, 896, 4.22},
    };
    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        double bits = 8.0 * (double)code_panel_bytes(sizes[i].format, sizes[i].k);
        assert_true(bits / (16.0 * sizes[i].k) <= sizes[i].bits);
        assert_int_equal(code_panel_bytes(sizes[i].format, sizes[i].k) % 64, 0);
    }
}

int main(int argc, char **argv)
{
    trial_only_level = argc > 1 ? argv[1] : NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats),       cmocka_unit_test(test_parts),
        cmocka_unit_test(test_poison),        cmocka_unit_test(test_floats),
        cmocka_unit_test(test_floats_packed), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_int4_words),    cmocka_unit_test(test_int4_refused),
        cmocka_unit_test(test_int4_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
