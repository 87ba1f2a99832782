// SPDX-License-Identifier: Apache-2.0
// Products of FP8 weights in the default mode: those for the library, the log line at startup,
// planned memory, timing at startup, and graphs. The results are compared in conformance
// (fp8_many_case).
#include "tests/simt/blas_tests.h"

#include "kernels/format.h"

enum { SIDE = 256, TOKENS = 300 };

struct codes_fixture {
    const struct device_api *api;
    struct device *device;
    struct stream *stream;
    struct stream_limits limits;
    struct weight weight;
    void *x, *y;
    char said[300]; // what the device logged about FP8 weights
};

static struct codes_fixture *opened;

static void hear(uint32_t index, const char *line)
{
    (void)index;
    if (strncmp(line, "FP8 weights: ", 13) == 0)
        snprintf(opened->said, sizeof opened->said, "%s", line);
}

// Opens a device with one weight of n x SIDE. uneven: scales of blocks differ within 128 rows.
static void codes_open(struct codes_fixture *w, enum weight_format format, uint32_t n, bool uneven,
                       bool padded)
{
    static uint8_t codes[SIDE * SIDE];
    static float scales[SIDE];
    struct device_options options = {.exact = false, .note = hear};
    *w = (struct codes_fixture){.api = weft_device_plugin()};
    w->limits = (struct stream_limits){.step = {.rows_max = 1, .tokens_max = TOKENS},
                                       .width_max = SIDE,
                                       .e4m3_width = SIDE,
                                       .products_padded = padded};
    opened = w;
    assert_int_equal(w->api->open(&w->device, &options, NULL), STATUS_OK);
    assert_int_equal(w->api->stream_open(w->device, &w->stream, &w->limits, NULL), STATUS_OK);
    w->weight.shape = (struct weight_shape){
        .use = WEIGHT_PRODUCT, .n = n, .k = SIDE, .part_count = 1, .parts = {{format, n}}};
    w->weight.bytes = w->api->weight_bytes(w->device, &w->weight.shape);
    assert_int_equal(w->api->memory_alloc(w->device, &w->weight.data, w->weight.bytes, NULL),
                     STATUS_OK);
    memset(codes, 0x38, sizeof codes);
    for (uint32_t i = 0; i < SIDE; i++)
        scales[i] = uneven ? 1.0f + (float)(i / 2 % 2) : 1;
    struct weight_source source = {
        .fd = -1, .map = codes, .rows = n, .cols = SIDE, .format = format, .scales = scales};
    assert_int_equal(w->api->weight_put(w->device, &w->weight, 0, &source, NULL), STATUS_OK);
    assert_int_equal(w->api->weight_finish(w->device, &w->weight, NULL), STATUS_OK);
    assert_int_equal(w->api->memory_alloc(w->device, &w->x, TOKENS * SIDE * 2, NULL), STATUS_OK);
    assert_int_equal(w->api->memory_alloc(w->device, &w->y, TOKENS * SIDE * 2, NULL), STATUS_OK);
}

static void codes_close(struct codes_fixture *w)
{
    w->api->stream_close(w->stream);
    w->api->memory_free(w->device, w->weight.data, w->weight.bytes);
    w->api->memory_free(w->device, w->x, TOKENS * SIDE * 2);
    w->api->memory_free(w->device, w->y, TOKENS * SIDE * 2);
    w->api->close(w->device);
}

static struct simt_counts codes_run(struct codes_fixture *w, uint32_t rows)
{
    struct gemm_args args = {.x_dtype = DTYPE_BF16,
                             .y_dtype = DTYPE_BF16,
                             .x = w->x,
                             .y = w->y,
                             .weight = &w->weight,
                             .rows = rows,
                             .x_stride = SIDE,
                             .y_stride = w->weight.shape.n};
    return gemm_counted(w->api, w->stream, &args);
}

// The library multiplies codes of more than 32 rows if sizes, scales and the output's room allow
// it; otherwise one of weft's kernels runs.
void test_codes_for_the_library(void **state)
{
    (void)state;
    static const struct {
        enum weight_format format;
        uint32_t n, rows;
        bool uneven, padded, library;
    } cases[] = {
        {WEIGHT_FP8, 256, 32, false, true, false},
        {WEIGHT_FP8, 256, 33, false, true, true},
        {WEIGHT_FP8, 256, 299, true, false, true},
        {WEIGHT_FP8, 248, 64, false, true, false},
        {WEIGHT_FP8_128, 256, 33, false, true, true},
        {WEIGHT_FP8_128, 256, 33, false, false, false},
        {WEIGHT_FP8_128, 256, 36, false, false, true},
        {WEIGHT_FP8_128, 256, 36, true, true, false},
        {WEIGHT_FP8_128, 144, 300, false, true, true},
        {WEIGHT_FP8_128, 256, 16, false, true, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct codes_fixture w;
        simt_configure(&(struct simt_options){.blas_candidates = 1});
        codes_open(&w, cases[i].format, cases[i].n, cases[i].uneven, cases[i].padded);
        for (int again = 0; again < 2; again++) {
            struct simt_counts counts = codes_run(&w, cases[i].rows);
            assert_int_equal(counts.blas_codes, cases[i].library);
            assert_int_equal(counts.blas_calls, cases[i].library);
            assert_int_equal(counts.launches, 1); // rounding, or weft's product
            assert_int_equal(counts.small_products + counts.wide_products, !cases[i].library);
            assert_int_equal(counts.blas_descriptors, cases[i].library && again == 0);
        }
        codes_close(&w);
    }
}

// A log line names the products of the library; weft's kernels compute the others.
void test_codes_the_library_lacks(void **state)
{
    (void)state;
    static const struct {
        struct simt_options options;
        const char *said;
        bool rows, blocks;
    } cases[] = {
        {{.blas_candidates = 1}, "(scales for rows and for blocks)", true, true},
        {{.blas_no_blocks = true}, "(scales for rows only)", true, false},
        {{.blas_no_rows = true}, "(scales for blocks only)", false, true},
        {{.blas_no_rows = true, .blas_no_blocks = true}, "or weft's kernels do", false, false},
        {{.major = 8}, "or weft's kernels do", false, false},
        {{.major = 10}, "or weft's kernels do", false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int blocks = 0; blocks < 2; blocks++) {
            struct codes_fixture w;
            simt_configure(&cases[i].options);
            codes_open(&w, blocks ? WEIGHT_FP8_128 : WEIGHT_FP8, SIDE, false, true);
            assert_non_null(strstr(w.said, cases[i].said));
            struct simt_counts counts = codes_run(&w, 64);
            assert_int_equal(counts.blas_codes, blocks ? cases[i].blocks : cases[i].rows);
            assert_int_equal(counts.launches, 1);
            codes_close(&w);
        }
    simt_configure(&(struct simt_options){.blas_candidates = 1});
}

// Startup times the library's algorithms, each with the rounding of x, and weft's kernels; the
// fastest is recorded in graphs.
void test_codes_are_timed(void **state)
{
    (void)state;
    for (uint32_t wide_ms = 1; wide_ms <= 9; wide_ms += 8) {
        struct codes_fixture w;
        struct simt_counts counts;
        bool library = wide_ms == 9;
        simt_configure(&(struct simt_options){.blas_candidates = 3,
                                              .blas_best = 1,
                                              .blas_slow = 4,
                                              .small_ms = 9,
                                              .wide_ms = wide_ms});
        codes_open(&w, WEIGHT_FP8, SIDE, false, true);
        assert_int_equal(w.api->tune(w.stream, 0), 1);
        counts = codes_run(&w, 64);
        assert_int_equal(counts.blas_recorded, 3 * 8);
        assert_int_equal(counts.blas_codes, 3 * (1 + 8) + library);
        assert_true(counts.wide_products > 0 && counts.small_products > 0);
        assert_int_equal(w.api->graph_begin(w.stream), STATUS_OK);
        counts = codes_run(&w, 64);
        assert_int_equal(counts.blas_recorded, library);
        assert_int_equal(counts.loads_captured, 0);
        recorded_check(w.api, w.stream, library ? 2 : 1, library);
        codes_close(&w);
    }
}

// Codes and scales of a step's activations are planned and allocated with the stream.
void test_codes_memory(void **state)
{
    (void)state;
    for (int exact = 0; exact < 2; exact++) {
        const struct device_api *api = weft_device_plugin();
        struct device_options options = {.exact = exact};
        struct device_need with, without;
        struct device *device;
        struct stream_limits limits = {
            .step = {.rows_max = 1, .tokens_max = 301}, .width_max = SIDE, .e4m3_width = SIDE};
        uint64_t bytes = 0;
        assert_int_equal(api->open(&device, &options, NULL), STATUS_OK);
        assert_int_equal(api->need(device, &limits, &with, NULL), STATUS_OK);
        limits.e4m3_width = 0;
        assert_int_equal(api->need(device, &limits, &without, NULL), STATUS_OK);
        assert_int_equal(with.count, without.count + !exact);
        for (uint32_t i = 0; i < with.count; i++)
            if (strcmp(with.entry[i].label, "activations in FP8") == 0)
                bytes = with.entry[i].bytes;
        assert_int_equal(bytes, exact ? 0 : 304 * SIDE + 304 * (SIDE / 128) * 4);
        api->close(device);
    }
}
