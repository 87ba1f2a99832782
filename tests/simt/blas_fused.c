// SPDX-License-Identifier: Apache-2.0
// Activations that the op before a product writes as FP8 codes: when it does, when the product uses
// them, and that the results have the bits of a launch of its own. That the codes are right is
// shown in conformance (cases_fused.c).
#include "tests/simt/blas_tests.h"

#include "kernels/ways.h"

enum { COLUMNS = 1152, OUTPUTS = 128, MOST = 66, ROOM = MOST + PRODUCT_ROWS_UNIT };

struct fused_fixture {
    const struct device_api *api;
    struct device *device;
    struct stream *stream;
    struct weight weight, ones;
    void *in, *x, *other, *y; // in: two arrays of MOST x COLUMNS
};

static void fused_alloc(struct fused_fixture *w, void **at, size_t bytes)
{
    assert_int_equal(w->api->memory_alloc(w->device, at, bytes, NULL), STATUS_OK);
}

static void weight_make(struct fused_fixture *w, struct weight *weight,
                        const struct weight_source *source)
{
    weight->bytes = w->api->weight_bytes(w->device, &weight->shape);
    fused_alloc(w, &weight->data, weight->bytes);
    assert_int_equal(w->api->weight_put(w->device, weight, 0, source, NULL), STATUS_OK);
    assert_int_equal(w->api->weight_finish(w->device, weight, NULL), STATUS_OK);
}

static void fused_open(struct fused_fixture *w, enum weight_format format, uint32_t ways)
{
    static uint8_t codes[OUTPUTS * COLUMNS];
    static float scales[OUTPUTS];
    static uint16_t random[2 * MOST * COLUMNS];
    struct device_options options = {.exact = false, .ways = ways};
    struct stream_limits limits = {.step = {.rows_max = 1, .tokens_max = MOST},
                                   .width_max = COLUMNS,
                                   .e4m3_width = COLUMNS,
                                   .products_padded = true};
    *w = (struct fused_fixture){.api = weft_device_plugin()};
    assert_int_equal(w->api->open(&w->device, &options, NULL), STATUS_OK);
    assert_int_equal(w->api->stream_open(w->device, &w->stream, &limits, NULL), STATUS_OK);
    for (size_t i = 0; i < sizeof codes; i++)
        codes[i] = (uint8_t)(i * 7919 % 120 + (i / 5 % 2) * 128);
    for (size_t i = 0; i < OUTPUTS; i++)
        scales[i] = 0.5f;
    for (size_t i = 0; i < sizeof random / 2; i++) // bfloat16 from 2^-7 to 2, with either sign
        random[i] = (uint16_t)((0x3C00 + i * 104729 % 0x400) | (i / 3 % 2) << 15);
    w->weight.shape = (struct weight_shape){.use = WEIGHT_PRODUCT,
                                            .n = OUTPUTS,
                                            .k = COLUMNS,
                                            .part_count = 1,
                                            .parts = {{format, OUTPUTS}}};
    w->ones.shape =
        (struct weight_shape){.use = WEIGHT_VECTOR, .dtype = DTYPE_F32, .n = COLUMNS, .k = 1};
    weight_make(w, &w->weight,
                &(struct weight_source){.fd = -1,
                                        .map = codes,
                                        .rows = OUTPUTS,
                                        .cols = COLUMNS,
                                        .format = format,
                                        .scales = scales});
    weight_make(
        w, &w->ones,
        &(struct weight_source){.fd = -1, .rows = COLUMNS, .cols = 1, .seed = 3, .deviation = 1});
    fused_alloc(w, &w->in, sizeof random);
    fused_alloc(w, &w->x, sizeof random);
    fused_alloc(w, &w->other, sizeof random);
    fused_alloc(w, &w->y, ROOM * OUTPUTS * sizeof(float));
    assert_int_equal(w->api->upload(w->device, w->in, random, sizeof random, NULL), STATUS_OK);
}

static void fused_close(struct fused_fixture *w)
{
    struct weight weights[] = {w->weight, w->ones};
    void *at[] = {w->in, w->x, w->other, w->y};
    w->api->stream_close(w->stream);
    for (size_t i = 0; i < 2; i++)
        w->api->memory_free(w->device, weights[i].data, weights[i].bytes);
    for (size_t i = 0; i < 4; i++)
        w->api->memory_free(w->device, at[i], 1);
    w->api->close(w->device);
    assert_string_equal(simt_first_report(), "");
}

// Runs a norm or a gate whose output is w->x.
static void op_run(struct fused_fixture *w, bool gate, uint32_t rows)
{
    struct rms_norm_args norm = {.act = DTYPE_BF16,
                                 .residual = w->in,
                                 .weight = &w->ones,
                                 .out = w->x,
                                 .rows = rows,
                                 .width = COLUMNS,
                                 .epsilon = 1e-6f,
                                 .next = &w->weight};
    struct swiglu_args swiglu = {.act = DTYPE_BF16,
                                 .in = w->in,
                                 .out = w->x,
                                 .rows = rows,
                                 .width = COLUMNS,
                                 .next = &w->weight};
    assert_int_equal(gate ? w->api->ops->swiglu(w->stream, &swiglu)
                          : w->api->ops->rms_norm(w->stream, &norm),
                     STATUS_OK);
}

static struct simt_counts product_run(struct fused_fixture *w, const void *x, uint32_t rows)
{
    struct gemm_args args = {.x_dtype = DTYPE_BF16,
                             .y_dtype = DTYPE_F32,
                             .x = x,
                             .y = w->y,
                             .weight = &w->weight,
                             .rows = rows,
                             .x_stride = COLUMNS,
                             .y_stride = OUTPUTS};
    return gemm_counted(w->api, w->stream, &args);
}

// Both ways give the same bits, also in the rows after the last, whose codes are zeros.
void test_fused_bits(void **state)
{
    (void)state;
    static const uint32_t counts[] = {33, 36, MOST};
    static float y[2][ROOM * OUTPUTS];
    for (uint32_t i = 0; i < 12; i++) {
        enum weight_format format = i % 2 ? WEIGHT_FP8_128 : WEIGHT_FP8;
        uint32_t rows = counts[i / 4];
        for (int apart = 0; apart < 2; apart++) {
            struct fused_fixture w;
            simt_configure(&(struct simt_options){.blas_candidates = 1});
            fused_open(&w, format, apart ? WAY_ROUND_APART : 0);
            simt_reset();
            op_run(&w, i / 2 % 2, rows);
            struct simt_counts counts_op, counts_product;
            simt_read(&counts_op);
            counts_product = product_run(&w, w.x, rows);
            assert_int_equal(counts_op.launches, 1);
            assert_int_equal(counts_product.launches, apart);
            assert_int_equal(counts_product.blas_codes, 1);
            assert_int_equal(w.api->copy_out(w.stream, y[apart], w.y, sizeof y[apart]), STATUS_OK);
            while (simt_run_pending())
                ;
            fused_close(&w);
        }
        assert_memory_equal(y[0], y[1], sizeof y[0]);
        uint32_t padded = format == WEIGHT_FP8 ? rows : (rows + 3) / 4 * 4;
        for (uint32_t j = 0; j < ROOM * OUTPUTS; j++)
            assert_true(j < rows * OUTPUTS ? y[0][j] != 0 : y[0][j] == 0 || j >= padded * OUTPUTS);
    }
}

// A product rounds x itself if the op before wrote no codes, or if anything ran in between.
void test_fused_or_not(void **state)
{
    (void)state;
    struct fused_fixture w;
    struct weight next = {.data = NULL};
    simt_configure(&(struct simt_options){.blas_candidates = 1});
    fused_open(&w, WEIGHT_FP8_128, 0);
    struct simt_counts counts;
    op_run(&w, false, 33);
    counts = product_run(&w, w.x, 33);
    assert_int_equal(counts.launches, 0);
    counts = product_run(&w, w.x, 33); // a second product of these rows
    assert_int_equal(counts.launches, 1);
    op_run(&w, false, 33);
    op_run(&w, true, 32); // an op without codes, which changes x
    counts = product_run(&w, w.x, 33);
    assert_int_equal(counts.launches, 1);
    op_run(&w, true, 33);
    counts = product_run(&w, w.other, 33);
    assert_int_equal(counts.launches, 1);
    op_run(&w, true, 33);
    counts = product_run(&w, w.x, 34);
    assert_int_equal(counts.launches, 1);
    op_run(&w, true, 33);
    assert_int_equal(w.api->copy_in(w.stream, w.x, &next, 8), STATUS_OK);
    counts = product_run(&w, w.x, 33);
    assert_int_equal(counts.launches, 1);
    next = w.weight; // scales of blocks that the library cannot use
    w.weight.own = 0;
    op_run(&w, true, 33);
    w.weight = next;
    counts = product_run(&w, w.x, 33);
    assert_int_equal(counts.launches, 1);
    fused_close(&w);
}

// Recorded graphs have no node that rounds.
void test_fused_graph(void **state)
{
    (void)state;
    for (uint32_t apart = 0; apart < 2; apart++) {
        struct fused_fixture w;
        struct graph *graph = NULL;
        struct simt_counts counts;
        simt_configure(&(struct simt_options){.blas_candidates = 1});
        fused_open(&w, WEIGHT_FP8, apart ? WAY_ROUND_APART : 0);
        op_run(&w, false, 40);
        product_run(&w, w.x, 40);
        op_run(&w, false, 40); // its codes are not those of the graph's product
        assert_int_equal(w.api->graph_begin(w.stream), STATUS_OK);
        product_run(&w, w.x, 40);
        op_run(&w, false, 40);
        product_run(&w, w.x, 40);
        assert_int_equal(w.api->graph_end(w.stream, &graph, NULL), STATUS_OK);
        simt_reset();
        assert_int_equal(w.api->graph_launch(w.stream, graph), STATUS_OK);
        simt_read(&counts);
        assert_int_equal(counts.graph_nodes, 4 + apart);
        w.api->graph_close(graph);
        fused_close(&w);
    }
}

// Products are timed as steps run them: without the rounding if the op before wrote codes. After
// weft's kernel has won, no op writes codes for this shape.
void test_fused_timing(void **state)
{
    (void)state;
    for (uint32_t wide_ms = 1; wide_ms <= 9; wide_ms += 8) {
        bool library = wide_ms == 9;
        struct fused_fixture w;
        struct simt_counts counts;
        simt_configure(&(struct simt_options){.blas_candidates = 2,
                                              .blas_best = 1,
                                              .blas_slow = 4,
                                              .small_ms = 9,
                                              .wide_ms = wide_ms});
        fused_open(&w, WEIGHT_FP8_128, 0);
        assert_int_equal(w.api->tune(w.stream, 0), 1);
        op_run(&w, false, 33);
        counts = product_run(&w, w.x, 33);
        assert_int_equal(counts.blas_codes, 2 * (1 + 8) + library);
        assert_int_equal(counts.launches, counts.small_products + counts.wide_products);
        assert_true(counts.launches > 0);
        assert_int_equal(w.api->tune(w.stream, 1 << 20), 0);
        simt_reset();
        op_run(&w, false, 33);
        simt_read(&counts);
        assert_int_equal(counts.blocks, library ? 36 : 33); // only codes have rows of padding
        counts = product_run(&w, w.x, 33);
        assert_int_equal(counts.blas_codes, library);
        assert_int_equal(counts.launches, !library);
        fused_close(&w);
    }
    simt_configure(&(struct simt_options){.blas_candidates = 1});
}
