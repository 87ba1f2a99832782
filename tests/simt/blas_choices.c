// SPDX-License-Identifier: Apache-2.0
// Products by weft's kernels among the candidates timed at startup: the fastest of the library's
// algorithms and weft's kernels is chosen by the emulator's clock, which the tests set; every
// choice gives the right product; exact mode times nothing.
#include "tests/simt/blas_tests.h"

#include <math.h>

// x and the weight's values as the product reads them, on the host.
struct numbers {
    float x[ROWS][K], weight[N][K];
};
static void numbers_put(struct fixture *w, struct numbers *out)
{
    uint16_t *host;
    assert_int_equal(w->api->host_alloc(w->device, (void **)&host, ROWS * K * 2, NULL), STATUS_OK);
    assert_int_equal(w->api->copy_out(w->stream, host, w->weight[0].data, N * K * 2), STATUS_OK);
    for (uint32_t i = 0; i < N * K; i++)
        out->weight[i / K][i % K] = bf16_to_f32(host[i]);
    for (uint32_t i = 0; i < ROWS * K; i++) {
        // magnitudes from 1 to 1.75
        host[i] = (uint16_t)(0x3F80 + i * 37 % 96 + (i % 3 == 0 ? 0x8000 : 0));
        out->x[i / K][i % K] = bf16_to_f32(host[i]);
    }
    assert_int_equal(w->api->upload(w->device, w->x, host, ROWS * K * 2, NULL), STATUS_OK);
    w->api->host_free(w->device, host, ROWS * K * 2);
}

static void result_check(struct fixture *w, const struct numbers *numbers, uint32_t rows)
{
    uint16_t *host;
    assert_int_equal(w->api->host_alloc(w->device, (void **)&host, ROWS * N * 2, NULL), STATUS_OK);
    assert_int_equal(w->api->copy_out(w->stream, host, w->y, rows * N * 2), STATUS_OK);
    for (uint32_t i = 0; i < rows * N; i++) {
        double sum = 0;
        for (uint32_t k = 0; k < K; k++)
            sum += (double)numbers->x[i / N][k] * (double)numbers->weight[i % N][k];
        float got = bf16_to_f32(host[i]);
        assert_true(fabs((double)got - sum) <= 0.004 * fabs(sum) + 1e-3);
    }
    memset(host, 0xFF, rows * N * 2); // NaN, for elements that the next product does not write
    assert_int_equal(w->api->copy_in(w->stream, w->y, host, rows * N * 2), STATUS_OK);
    w->api->host_free(w->device, host, ROWS * N * 2);
}

// Sets the emulated times: 4 ms for the library's best of four algorithms, 12 ms for the others,
// and these for weft's kernels.
static void configure_ours(uint32_t small_ms, uint32_t wide_ms)
{
    struct simt_options options = {.blas_candidates = 4,
                                   .blas_best = 2,
                                   .blas_slow = 4,
                                   .small_ms = small_ms,
                                   .wide_ms = wide_ms};
    simt_configure(&options);
}

enum way { LIBRARY, SMALL, WIDE };
static void served_by(struct fixture *w, uint32_t rows, enum way by)
{
    struct simt_counts counts = serve(w, rows);
    assert_int_equal(counts.blas_calls, by == LIBRARY);
    assert_int_equal(counts.small_products, by == SMALL);
    assert_int_equal(counts.wide_products, by == WIDE);
    assert_int_equal(counts.blas_heuristics, 0);
}

// The fastest candidate is chosen for each bucket of rows, and read back from the file.
void test_own_kernels_and_the_library(void **state)
{
    (void)state;
    static struct numbers numbers;
    static const struct {
        uint32_t rows, small_ms, wide_ms;
        enum way by;
    } starts[] = {
        {2, 3, 2, SMALL}, {3, 5, 2, LIBRARY},   {7, 3, 0, SMALL},    {9, 3, 6, SMALL},
        {20, 6, 3, WIDE}, {30, 3, 2, WIDE},     {40, 5, 6, LIBRARY}, {60, 2, 3, SMALL},
        {70, 1, 3, WIDE}, {100, 1, 5, LIBRARY}, {200, 1, 2, WIDE},
    };
    enum { STARTS = sizeof starts / sizeof starts[0] };
    struct fixture w;
    fixture_open(&w, false);
    numbers_put(&w, &numbers);
    for (uint32_t i = 0; i < STARTS; i++) {
        configure_ours(starts[i].small_ms, starts[i].wide_ms);
        struct simt_counts counts = run(&w, starts[i].rows);
        assert_int_equal(counts.blas_recorded, 4 * 8);
        assert_int_equal(counts.small_products > 0, starts[i].rows <= 64);
        assert_int_equal(counts.wide_products > 0, starts[i].rows > 8);
        result_check(&w, &numbers, starts[i].rows);
    }
    for (uint32_t opened = 0; opened < 2; opened++) {
        if (opened == 1) { // the file's choice has priority over this clock
            fixture_close(&w);
            configure_ours(100, 100);
            fixture_open(&w, false);
            numbers_put(&w, &numbers);
        }
        for (uint32_t i = 0; i < STARTS; i++) {
            served_by(&w, starts[i].rows, starts[i].by);
            result_check(&w, &numbers, starts[i].rows);
            served_by(&w, starts[i].rows + 1, starts[i].rows == 2 ? LIBRARY : starts[i].by);
            result_check(&w, &numbers, starts[i].rows + 1);
        }
    }
    fixture_close(&w);
    cache_remove();
}

// Each algorithm of the library and each kernel of weft gives the right product, whichever is the
// fastest.
void test_every_choice_is_right(void **state)
{
    (void)state;
    static struct numbers numbers;
    static const uint32_t counts[] = {1, 8, 9, 16, 33, 64, 65, 130};
    struct fixture w;
    for (uint32_t way = 0; way < 6; way++) {
        struct simt_options options = {.blas_candidates = 4,
                                       .blas_best = way % 4,
                                       .blas_slow = 4,
                                       .small_ms = way == 4 ? 1 : 9,
                                       .wide_ms = way == 5 ? 1 : 9};
        simt_configure(&options);
        fixture_open(&w, false);
        numbers_put(&w, &numbers);
        for (uint32_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            bool small = way == 4 && counts[i] <= 64;
            bool wide = way == 5 && counts[i] > 8;
            (void)run(&w, counts[i]);
            served_by(&w, counts[i], small ? SMALL : wide ? WIDE : LIBRARY);
            if (way < 4)
                assert_int_equal(serve(&w, counts[i]).blas_algorithm, way);
            result_check(&w, &numbers, counts[i]);
        }
        fixture_close(&w);
        cache_remove();
    }
}

// weft's tensor core kernels do not multiply float32: only the library does.
void test_float32_is_the_library_s(void **state)
{
    (void)state;
    struct fixture w;
    configure_ours(1, 1);
    fixture_open(&w, false);
    struct weight weight = {.shape = {.use = WEIGHT_PRODUCT, .dtype = DTYPE_F32, .n = N, .k = K}};
    weight.bytes = w.api->weight_bytes(w.device, &weight.shape);
    assert_int_equal(w.api->memory_alloc(w.device, &weight.data, weight.bytes, NULL), STATUS_OK);
    struct gemm_args args = {.x_dtype = DTYPE_F32,
                             .y_dtype = DTYPE_F32,
                             .x = w.x,
                             .y = w.y,
                             .weight = &weight,
                             .rows = 16,
                             .x_stride = K,
                             .y_stride = N};
    struct simt_counts counts;
    simt_reset();
    assert_int_equal(w.api->tune(w.stream, 0), 1);
    assert_int_equal(w.api->ops->gemm(w.stream, &args), STATUS_OK);
    simt_read(&counts);
    assert_string_equal(simt_first_report(), "");
    assert_int_equal(counts.blas_recorded, 4 * 8);
    assert_int_equal(counts.small_products + counts.wide_products, 0);
    w.api->memory_free(w.device, weight.data, weight.bytes);
    fixture_close(&w);
    cache_remove();
}

// Exact mode selects its kernel by the number of rows, whichever would be the fastest.
void test_exact_mode_times_nothing(void **state)
{
    (void)state;
    struct fixture w;
    for (uint32_t i = 0; i < 2; i++) {
        configure_ours(i == 0 ? 1 : 9, i == 0 ? 9 : 1);
        fixture_open(&w, false);
        for (uint32_t rows = 0; (rows = w.api->tune(w.stream, rows)) != 0;)
            (void)serve(&w, rows);
        assert_non_null(strstr(noted, i == 0 ? "products, by shape and rows: 9 by cuBLASLt, 9 by "
                                               "the small kernel, 0 by the wide; "
                                             : "products, by shape and rows: 5 by cuBLASLt, 0 by "
                                               "the small kernel, 13 by the wide; "));
        fixture_close(&w);
        fixture_open(&w, true);
        uint32_t asked = 0;
        for (uint32_t rows = 0; (rows = w.api->tune(w.stream, rows)) != 0; asked++)
            served_by(&w, rows, SMALL);
        assert_int_equal(asked, 3); // for 1, 16 and 32 rows
        (void)w.api->tune(w.stream, 0);
        for (uint32_t rows = 1; rows <= 70; rows += 3)
            served_by(&w, rows, rows <= 32 ? SMALL : WIDE);
        assert_int_equal(notes, 0);
        fixture_close(&w);
        cache_remove();
    }
}
