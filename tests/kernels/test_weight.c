// SPDX-License-Identifier: Apache-2.0
// Weights of the cpu device: rows from several sources, sources at unaligned addresses, every
// source dtype, random numbers that do not depend on how they are divided, int8 with its scales,
// and refusals.
#include "tests/conformance/trial.h"

#include "kernels/philox.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
// cmocka.h needs some of the headers above
#include <cmocka.h>

static void make(struct trial *t, struct weight *w, enum weight_use use, enum dtype dtype,
                 uint32_t n, uint32_t k)
{
    *w = (struct weight){.shape = {.use = use, .dtype = dtype, .n = n, .k = k}};
    w->bytes = t->api->weight_bytes(t->device, &w->shape);
    w->data = trial_device(t, w->bytes);
}

// Known vectors of Philox4x32-10: counter and key all zeros, all ones.
static void test_philox(void **state)
{
    (void)state;
    struct philox_block zero = philox4x32(0, 0, 0, 0, 0);
    assert_int_equal(zero.word[0], 0x6627e8d5);
    assert_int_equal(zero.word[1], 0xe169c58d);
    assert_int_equal(zero.word[2], 0xbc57ac4c);
    assert_int_equal(zero.word[3], 0x9b00dbd8);
    struct philox_block ones = philox4x32(UINT64_MAX, ~0u, ~0u, ~0u, ~0u);
    assert_int_equal(ones.word[0], 0x408f276d);
    assert_int_equal(ones.word[1], 0x41c83b0e);
    assert_int_equal(ones.word[2], 0xa20bc7c6);
    assert_int_equal(ones.word[3], 0x6d5451fd);
}

static void test_dummy(void **state)
{
    (void)state;
    enum { N = 300, K = 700 };
    for (int level = 0; level < CPU_ISA_COUNT; level++) {
        struct trial t;
        if (!trial_open_cpu(&t, (enum cpu_isa)level, 3))
            continue;
        trial_begin(&t, 1);
        struct weight w;
        make(&t, &w, WEIGHT_ROWS, DTYPE_F32, N, K);
        struct weight_source source = {
            .fd = -1, .dtype = DTYPE_BF16, .rows = N, .cols = K, .seed = 42, .deviation = 0.5f};
        assert_int_equal(t.api->weight_put(t.device, &w, 0, &source, NULL), STATUS_OK);
        const float *x = w.data;
        double sum = 0, squares = 0;
        for (uint32_t i = 0; i < N * K; i++) {
            assert_true(x[i] == philox_normal(42, i, 0.5f));
            sum += (double)x[i];
            squares += (double)x[i] * (double)x[i];
        }
        assert_true(fabs(sum / (N * K)) < 0.005);
        assert_true(fabs(sqrt(squares / (N * K)) - 0.5) < 0.005);
        trial_close(&t);
    }
}

// Sixteen numbers that are generated together may cross an overflow of the counter's lower word.
static void test_dummy_carry(void **state)
{
    (void)state;
    enum { COUNT = 40 };
    const uint64_t first = UINT32_MAX - 20ull;
    for (int level = 0; level < CPU_ISA_COUNT; level++) {
        struct trial t;
        if (!trial_open_cpu(&t, (enum cpu_isa)level, 1))
            continue;
        float x[COUNT];
        t.device->kernels.normal(x, 42, first, COUNT, 0.5f);
        for (uint32_t i = 0; i < COUNT; i++)
            assert_true(x[i] == philox_normal(42, first + i, 0.5f));
        trial_close(&t);
    }
}

static void test_sources(void **state)
{
    (void)state;
    enum { N = 45, K = 37 };
    struct trial t;
    assert_true(trial_open_cpu(&t, CPU_PLAIN, 2));
    for (int from = 0; from < DTYPE_I8; from++)
        for (int held = 0; held < DTYPE_I8; held++) {
            trial_begin(&t, 10 + (uint64_t)from);
            float *x = trial_floats(&t, N * K, (enum dtype)from, 1);
            size_t each = dtype_bytes((enum dtype)from);
            char *bytes = trial_heap(&t, N * K * each + 1);
            for (uint32_t i = 0; i < N * K; i++) { // at an unaligned address, as in files
                uint16_t bits = from == DTYPE_BF16 ? f32_to_bf16(x[i]) : f32_to_f16(x[i]);
                memcpy(bytes + 1 + i * each, from == DTYPE_F32 ? (void *)&x[i] : (void *)&bits,
                       each);
            }
            struct weight w;
            make(&t, &w, WEIGHT_TIED, (enum dtype)held, N, K);
            struct weight_source source = {
                .map = bytes + 1, .fd = -1, .dtype = (enum dtype)from, .rows = N, .cols = K};
            assert_int_equal(t.api->weight_put(t.device, &w, 0, &source, NULL), STATUS_OK);
            int32_t token[N];
            float out[N * K];
            for (int32_t i = 0; i < N; i++)
                token[i] = i;
            struct embed_args args = {DTYPE_F32, &w, token, out, N, K, 0, N, 0};
            assert_int_equal(t.api->ops->embed(t.stream, &args), STATUS_OK);
            for (uint32_t i = 0; i < N * K; i++)
                assert_true(out[i] == trial_rounded(x[i], (enum dtype)held));
        }
    trial_close(&t);
}

// A source may be a range of rows and columns of its tensor; the result equals that of a copy of
// the range.
static void test_ranges_of_a_tensor(void **state)
{
    (void)state;
    enum { ROWS = 50, COLS = 300, N = 33, K = 140, ROW = 9, COL = 131 };
    struct trial t;
    assert_true(trial_open_cpu(&t, CPU_PLAIN, 2));
    for (int held = 0; held < DTYPE_COUNT; held++)
        for (int random = 0; random < 2; random++) {
            trial_begin(&t, 60);
            float *whole = trial_floats(&t, ROWS * COLS, DTYPE_F32, 1);
            float *part = trial_heap(&t, N * K * sizeof *part);
            for (uint32_t i = 0; random && i < ROWS * COLS; i++)
                whole[i] = philox_normal(42, i, 0.5f);
            for (uint32_t i = 0; i < N * K; i++)
                part[i] = whole[(ROW + i / K) * COLS + COL + i % K];
            struct weight range, plain;
            make(&t, &range, WEIGHT_TIED, (enum dtype)held, N, K);
            make(&t, &plain, WEIGHT_TIED, (enum dtype)held, N, K);
            struct weight_source source = {
                .map = part, .fd = -1, .dtype = DTYPE_F32, .rows = N, .cols = K};
            assert_int_equal(t.api->weight_put(t.device, &plain, 0, &source, NULL), STATUS_OK);
            source = (struct weight_source){.map = random ? NULL : whole,
                                            .fd = -1,
                                            .dtype = DTYPE_F32,
                                            .rows = N,
                                            .cols = K,
                                            .seed = 42,
                                            .deviation = 0.5f,
                                            .stride = COLS,
                                            .first = ROW * COLS + COL};
            assert_int_equal(t.api->weight_put(t.device, &range, 0, &source, NULL), STATUS_OK);
            assert_memory_equal(range.data, plain.data, range.bytes);
        }
    trial_begin(&t, 61);
    float *whole = trial_floats(&t, 90, DTYPE_F32, 1);
    struct weight vector;
    make(&t, &vector, WEIGHT_VECTOR, DTYPE_F32, 60, 1);
    struct weight_source source = {.map = whole,
                                   .fd = -1,
                                   .dtype = DTYPE_F32,
                                   .rows = 60,
                                   .cols = 1,
                                   .stride = 1,
                                   .first = 25};
    assert_int_equal(t.api->weight_put(t.device, &vector, 0, &source, NULL), STATUS_OK);
    assert_memory_equal(vector.data, whole + 25, 60 * sizeof *whole);
    trial_close(&t);
}

static void test_refused(void **state)
{
    (void)state;
    struct trial t;
    struct error err = {0};
    struct weight w;
    float x[64] = {0};
    assert_true(trial_open_cpu(&t, CPU_PLAIN, 1));
    trial_begin(&t, 1);
    make(&t, &w, WEIGHT_PRODUCT, DTYPE_F32, 4, 8);
    struct weight_source source = {.map = x, .fd = -1, .dtype = DTYPE_F32, .rows = 4, .cols = 8};
    assert_int_equal(t.api->weight_put(t.device, &w, 1, &source, &err), STATUS_INVALID);
    source.cols = 7;
    assert_int_equal(t.api->weight_put(t.device, &w, 0, &source, &err), STATUS_INVALID);
    source.cols = 8;
    source.dtype = DTYPE_I8;
    assert_int_equal(t.api->weight_put(t.device, &w, 0, &source, &err), STATUS_UNSUPPORTED);
    source.dtype = DTYPE_COUNT;
    assert_int_equal(t.api->weight_put(t.device, &w, 0, &source, &err), STATUS_UNSUPPORTED);
    source.dtype = DTYPE_F32;
    assert_int_equal(t.api->weight_put(t.device, &w, 0, &source, &err), STATUS_OK);
    struct weight vector; // a vector, stored as a row or a column, in pieces
    make(&t, &vector, WEIGHT_VECTOR, DTYPE_F32, 60, 1);
    for (uint32_t i = 0; i < 64; i++)
        x[i] = (float)i;
    struct weight_source piece = {.map = x, .fd = -1, .dtype = DTYPE_F32, .rows = 1, .cols = 61};
    assert_int_equal(t.api->weight_put(t.device, &vector, 0, &piece, &err), STATUS_INVALID);
    piece.cols = 20;
    assert_int_equal(t.api->weight_put(t.device, &vector, 41, &piece, &err), STATUS_INVALID);
    assert_int_equal(t.api->weight_put(t.device, &vector, 0, &piece, &err), STATUS_OK);
    piece =
        (struct weight_source){.map = x + 20, .fd = -1, .dtype = DTYPE_F32, .rows = 40, .cols = 1};
    assert_int_equal(t.api->weight_put(t.device, &vector, 20, &piece, &err), STATUS_OK);
    assert_memory_equal(vector.data, x, 60 * sizeof *x);
    trial_close(&t);
}

// A NaN or an infinity in the activations of an int8 product makes its row NaN.
static void test_bytes_poison(void **state)
{
    (void)state;
    for (int level = 0; level < CPU_ISA_COUNT; level++) {
        struct trial t;
        if (!trial_open_cpu(&t, (enum cpu_isa)level, 1))
            continue;
        trial_begin(&t, 3);
        struct weight_shape shape = {.use = WEIGHT_PRODUCT, .dtype = DTYPE_I8, .n = 40, .k = 72};
        struct trial_weight w = trial_weight_make(&t, &shape, 1, 0);
        float *x = trial_floats(&t, 3 * 72, DTYPE_F32, 1);
        float y[3 * 40];
        x[5] = NAN;
        memset(x + 72, 0, 72 * sizeof *x);
        x[2 * 72 + 71] = INFINITY;
        struct gemm_args args = {DTYPE_F32, DTYPE_F32, x, &w.device, NULL, y, 3, 72, 40};
        assert_int_equal(t.api->ops->gemm(t.stream, &args), STATUS_OK);
        for (int i = 0; i < 40; i++) {
            assert_true(isnan(y[i]));
            assert_true(y[40 + i] == 0);
            assert_false(isfinite(y[80 + i]));
        }
        trial_close(&t);
    }
}

// A group of activations or weights whose scale has no finite inverse becomes zeros, as in the
// reference.
static void test_bytes_tiny(void **state)
{
    (void)state;
    for (int level = 0; level < CPU_ISA_COUNT; level++) {
        struct trial t;
        if (!trial_open_cpu(&t, (enum cpu_isa)level, 1))
            continue;
        for (int tiny = 0; tiny < 2; tiny++) { // 0: tiny activations, 1: tiny weights
            trial_begin(&t, 6);
            float *w = trial_floats(&t, 40 * 72, DTYPE_F32, 1);
            float *x = trial_floats(&t, 2 * 72, DTYPE_F32, 1);
            for (uint32_t i = 0; i < 72; i++) {
                x[i] = tiny == 0 ? 0x1p-130f : x[i] * 0x1p90f;
                w[7 * 72 + i] = tiny == 1 ? 0x1p-130f : w[7 * 72 + i] * 0x1p90f;
            }
            struct weight bytes;
            make(&t, &bytes, WEIGHT_PRODUCT, DTYPE_I8, 40, 72);
            struct weight_source source = {
                .map = w, .fd = -1, .dtype = DTYPE_F32, .rows = 40, .cols = 72};
            assert_int_equal(t.api->weight_put(t.device, &bytes, 0, &source, NULL), STATUS_OK);
            float y[2 * 40];
            struct gemm_args args = {DTYPE_F32, DTYPE_F32, x, &bytes, NULL, y, 2, 72, 40};
            assert_int_equal(t.api->ops->gemm(t.stream, &args), STATUS_OK);
            assert_true(y[7] == 0); // one factor is zeros, the other is large
            assert_true(y[40] != 0);
        }
        trial_close(&t);
    }
}

// The rotation of a block is that of bytes.h, keeps lengths (times 8), spreads a single element and
// a constant evenly, and is undone by the inverse rotation.
static void test_bytes_turn(void **state)
{
    (void)state;
    float x[BYTE_BLOCK], rotated[BYTE_BLOCK];
    for (uint32_t column = 0; column <= BYTE_BLOCK; column++) {
        for (uint32_t i = 0; i < BYTE_BLOCK; i++)
            x[i] = rotated[i] = i == column || column == BYTE_BLOCK ? 3 : 0;
        byte_rotate(rotated);
        for (uint32_t i = 0; i < BYTE_BLOCK; i++) {
            double want = 0;
            for (uint32_t j = 0; j < BYTE_BLOCK; j++) {
                bool minus = __builtin_popcount(i & j) % 2 != 0;
                want += (double)(x[j] * byte_sign(j)) * (minus ? -1 : 1);
            }
            assert_true((double)rotated[i] == want);
            assert_true(fabs(want) == (column == BYTE_BLOCK ? 24 : 3));
        }
        byte_walsh(rotated);
        for (uint32_t i = 0; i < BYTE_BLOCK; i++)
            assert_true(rotated[i] * byte_sign(i) == BYTE_BLOCK * x[i]);
    }
}

static double relative_error(const float *got, const float *want, uint32_t n)
{
    double error = 0, size = 0;
    for (uint32_t i = 0; i < n; i++) {
        error += ((double)got[i] - (double)want[i]) * ((double)got[i] - (double)want[i]);
        size += (double)want[i] * (double)want[i];
    }
    return sqrt(error / size);
}

// A few columns of activations are much larger than the others, as in trained models, and their
// weights are as much smaller, so that all columns matter equally. One scale per row of activations
// loses the others (error 0.31); scales per group with rotated blocks do not.
static void test_bytes_outliers(void **state)
{
    (void)state;
    enum { M = 19, N = 48, K = 1088, EVERY = 119, LARGE = 60 };
    for (int level = 0; level < CPU_ISA_COUNT; level++) {
        struct trial t;
        if (!trial_open_cpu(&t, (enum cpu_isa)level, 1))
            continue;
        trial_begin(&t, 4);
        float *x = trial_floats(&t, M * K, DTYPE_F32, 1);
        float *w = trial_floats(&t, N * K, DTYPE_F32, 1);
        for (uint32_t i = 0; i < M * K; i++)
            x[i] *= i % K % EVERY == 0 ? LARGE : 1;
        for (uint32_t i = 0; i < N * K; i++)
            w[i] *= i % K % EVERY == 0 ? 1.0f / LARGE : 1;
        struct weight bytes;
        make(&t, &bytes, WEIGHT_PRODUCT, DTYPE_I8, N, K);
        struct weight_source source = {
            .map = w, .fd = -1, .dtype = DTYPE_F32, .rows = N, .cols = K};
        assert_int_equal(t.api->weight_put(t.device, &bytes, 0, &source, NULL), STATUS_OK);
        struct weight floats = {
            .shape = {.use = WEIGHT_PRODUCT, .dtype = DTYPE_F32, .n = N, .k = K}, .data = w};
        float y[M * N], want[M * N];
        struct gemm_args args = {DTYPE_F32, DTYPE_F32, x, &floats, NULL, want, M, K, N};
        reference_gemm(&args);
        args.weight = &bytes;
        args.y = y;
        assert_int_equal(t.api->ops->gemm(t.stream, &args), STATUS_OK);
        double error = relative_error(y, want, M * N);
        printf("%s: error %.4f\n", t.name, error);
        assert_true(error < 0.05);
        trial_close(&t);
    }
}

// A NaN in a row of weights makes that output column NaN: a damaged file must not go unnoticed.
static void test_bytes_poisoned_weight(void **state)
{
    (void)state;
    for (int level = 0; level < CPU_ISA_COUNT; level++) {
        struct trial t;
        if (!trial_open_cpu(&t, (enum cpu_isa)level, 1))
            continue;
        trial_begin(&t, 5);
        float *w = trial_floats(&t, 40 * 72, DTYPE_F32, 1);
        float *x = trial_floats(&t, 2 * 72, DTYPE_F32, 1);
        w[7 * 72 + 70] = NAN;
        struct weight bytes;
        make(&t, &bytes, WEIGHT_PRODUCT, DTYPE_I8, 40, 72);
        struct weight_source source = {
            .map = w, .fd = -1, .dtype = DTYPE_F32, .rows = 40, .cols = 72};
        assert_int_equal(t.api->weight_put(t.device, &bytes, 0, &source, NULL), STATUS_OK);
        float y[2 * 40];
        struct gemm_args args = {DTYPE_F32, DTYPE_F32, x, &bytes, NULL, y, 2, 72, 40};
        assert_int_equal(t.api->ops->gemm(t.stream, &args), STATUS_OK);
        for (uint32_t i = 0; i < 80; i++)
            assert_int_equal(isfinite(y[i]) != 0, i % 40 != 7);
        trial_close(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_philox),
        cmocka_unit_test(test_dummy),
        cmocka_unit_test(test_dummy_carry),
        cmocka_unit_test(test_sources),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_bytes_poison),
        cmocka_unit_test(test_bytes_turn),
        cmocka_unit_test(test_bytes_tiny),
        cmocka_unit_test(test_bytes_outliers),
        cmocka_unit_test(test_bytes_poisoned_weight),
        cmocka_unit_test(test_ranges_of_a_tensor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
