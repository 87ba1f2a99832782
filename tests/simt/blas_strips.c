// SPDX-License-Identifier: Apache-2.0
// Products of codes and int8 by strips of converted features: for which calls the library runs, its
// calls and conversions, timing at startup, graphs and planned memory. The results are compared in
// conformance (strip_case).
#include "tests/simt/blas_tests.h"

#include "kernels/format.h"

enum { DEEP = 256, MANY = 130 };

struct strip_fixture {
    const struct device_api *api;
    struct device *device;
    struct stream *stream;
    struct weight weight;
    void *x, *y;
};

// Opens a device with one weight of n x DEEP, zeros. Q8_0: int8. coded: elements of the largest
// weight by the stream's limits.
static void strips_open(struct strip_fixture *w, enum weight_format format, uint32_t n,
                        uint64_t coded, bool exact)
{
    static uint8_t zeros[1024 * DEEP];
    static float scales[1024];
    struct device_options options = {.exact = exact};
    struct stream_limits limits = {.step = {.rows_max = 1, .tokens_max = MANY},
                                   .width_max = 1024,
                                   .e4m3_width = DEEP,
                                   .coded_most = coded};
    *w = (struct strip_fixture){.api = weft_device_plugin()};
    assert_int_equal(w->api->open(&w->device, &options, NULL), STATUS_OK);
    assert_int_equal(w->api->stream_open(w->device, &w->stream, &limits, NULL), STATUS_OK);
    w->weight.shape =
        (struct weight_shape){.use = WEIGHT_PRODUCT, .dtype = DTYPE_I8, .n = n, .k = DEEP};
    struct weight_source source = {.fd = -1, .rows = n, .cols = DEEP, .deviation = 1.0f};
    if (format != WEIGHT_Q8_0) {
        w->weight.shape.part_count = 1;
        w->weight.shape.parts[0] = (struct weight_codes){format, n};
        source.map = zeros;
        source.format = format;
        source.scales = scales;
    }
    w->weight.bytes = w->api->weight_bytes(w->device, &w->weight.shape);
    assert_int_equal(w->api->memory_alloc(w->device, &w->weight.data, w->weight.bytes, NULL),
                     STATUS_OK);
    assert_int_equal(w->api->weight_put(w->device, &w->weight, 0, &source, NULL), STATUS_OK);
    assert_int_equal(w->api->weight_finish(w->device, &w->weight, NULL), STATUS_OK);
    assert_int_equal(w->api->memory_alloc(w->device, &w->x, MANY * DEEP * 2, NULL), STATUS_OK);
    assert_int_equal(w->api->memory_alloc(w->device, &w->y, MANY * 1024 * 2, NULL), STATUS_OK);
}

static void strips_close(struct strip_fixture *w)
{
    w->api->stream_close(w->stream);
    w->api->memory_free(w->device, w->weight.data, w->weight.bytes);
    w->api->memory_free(w->device, w->x, MANY * DEEP * 2);
    w->api->memory_free(w->device, w->y, MANY * 1024 * 2);
    w->api->close(w->device);
}

static struct simt_counts strips_run(struct strip_fixture *w, uint32_t rows)
{
    struct gemm_args args = {.x_dtype = DTYPE_BF16,
                             .y_dtype = DTYPE_BF16,
                             .x = w->x,
                             .y = w->y,
                             .weight = &w->weight,
                             .rows = rows,
                             .x_stride = DEEP,
                             .y_stride = (w->weight.shape.n + 7) / 8 * 8};
    return gemm_counted(w->api, w->stream, &args);
}

// Each strip is one conversion and one call of the library; one plan serves all. FP8 codes use
// strips where the library does not multiply them.
void test_strips_for_the_library(void **state)
{
    (void)state;
    static const struct {
        enum weight_format format;
        uint32_t n, rows, major, strips;
        uint64_t coded;
        bool exact;
    } cases[] = {
        {WEIGHT_Q4_0, 256, 64, 9, 0, 256 * DEEP, false},
        {WEIGHT_Q4_0, 256, 65, 9, 1, 256 * DEEP, false},
        {WEIGHT_Q4_0, 256, 65, 9, 0, 256 * DEEP, true},
        {WEIGHT_Q4_0, 256, 65, 9, 0, 0, false},
        {WEIGHT_Q4_0, 250, 65, 9, 0, 256 * DEEP, false},
        {WEIGHT_Q4_0, 1024, 130, 9, 4, 300 * DEEP, false},
        {WEIGHT_Q4_K, 528, 130, 9, 3, 256 * DEEP, false},
        {WEIGHT_Q4_1, 144, 130, 9, 2, 100 * DEEP, false},
        {WEIGHT_Q4_1, 48, 130, 9, 0, 15 * DEEP, false},
        {WEIGHT_MXFP4, 48, 66, 8, 1, 48 * DEEP, false},
        {WEIGHT_Q8_0, 256, 64, 9, 0, 256 * DEEP, false},
        {WEIGHT_Q8_0, 256, 100, 9, 2, 128 * DEEP, false},
        {WEIGHT_FP8, 256, 100, 8, 2, 128 * DEEP, false},
        {WEIGHT_FP8_128, 256, 100, 10, 1, 256 * DEEP, false},
        {WEIGHT_FP8_128, 256, 40, 10, 0, 256 * DEEP, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct strip_fixture w;
        simt_configure(&(struct simt_options){.blas_candidates = 1, .major = cases[i].major});
        strips_open(&w, cases[i].format, cases[i].n, cases[i].coded, cases[i].exact);
        for (int again = 0; again < 2; again++) {
            struct simt_counts counts = strips_run(&w, cases[i].rows);
            assert_int_equal(counts.blas_calls, cases[i].strips);
            assert_int_equal(counts.blas_codes, 0);
            assert_int_equal(counts.launches, cases[i].strips > 0 ? cases[i].strips : 1);
            assert_int_equal(counts.small_products + counts.wide_products, cases[i].strips == 0);
            assert_int_equal(counts.blas_descriptors, cases[i].strips > 0 && again == 0);
        }
        strips_close(&w);
    }
    simt_configure(&(struct simt_options){.blas_candidates = 1});
}

// Startup times the library's algorithms with their conversions, and weft's kernels; the fastest is
// recorded in graphs.
void test_strips_are_timed(void **state)
{
    (void)state;
    for (uint32_t wide_ms = 1; wide_ms <= 19; wide_ms += 18) {
        struct strip_fixture w;
        struct simt_counts counts;
        bool library = wide_ms == 19;
        simt_configure(&(struct simt_options){
            .blas_candidates = 3, .blas_best = 1, .blas_slow = 4, .wide_ms = wide_ms});
        strips_open(&w, WEIGHT_Q4_0, 512, 128 * DEEP, false); // four strips of 4 ms
        assert_int_equal(w.api->tune(w.stream, 0), 1);
        counts = strips_run(&w, 100);
        assert_int_equal(counts.blas_recorded, 3 * 8 * 4);
        assert_true(counts.wide_products > 0);
        assert_int_equal(w.api->graph_begin(w.stream), STATUS_OK);
        counts = strips_run(&w, 100);
        assert_int_equal(counts.blas_recorded, library ? 4 : 0);
        assert_int_equal(counts.loads_captured, 0);
        recorded_check(w.api, w.stream, library ? 8 : 1, library);
        strips_close(&w);
    }
    simt_configure(&(struct simt_options){.blas_candidates = 1});
}

static uint64_t need_of(const struct device_need *need, const char *label)
{
    for (uint32_t i = 0; i < need->count; i++)
        if (strcmp(need->entry[i].label, label) == 0)
            return need->entry[i].bytes;
    return 0;
}

// The buffer is planned: as large as the largest weight in 16 bits, at most 32 MiB. Graphs are
// planned with the kernels of strips.
void test_strips_memory(void **state)
{
    (void)state;
    for (int exact = 0; exact < 2; exact++) {
        const struct device_api *api = weft_device_plugin();
        struct device_options options = {.exact = exact};
        struct device_need need;
        struct device *device;
        struct stream_limits limits = {
            .step = {.rows_max = 1, .tokens_max = 1}, .coded_most = 5000, .layers = 3, .graphs = 2};
        assert_int_equal(api->open(&device, &options, NULL), STATUS_OK);
        assert_int_equal(api->need(device, &limits, &need, NULL), STATUS_OK);
        assert_int_equal(need_of(&need, "strips of weights"), exact ? 0 : 10000);
        uint64_t graphs = need_of(&need, "graphs");
        limits.coded_most = 1ull << 30;
        limits.coded_layer = 1ull << 31;
        assert_int_equal(api->need(device, &limits, &need, NULL), STATUS_OK);
        assert_int_equal(need_of(&need, "graphs"), graphs); // none has more than 64 rows
        limits.graphs_many = 1;
        assert_int_equal(api->need(device, &limits, &need, NULL), STATUS_OK);
        assert_int_equal(need_of(&need, "strips of weights"), exact ? 0 : 32 << 20);
        assert_int_equal(need_of(&need, "graphs") > graphs, !exact);
        api->close(device);
    }
}
