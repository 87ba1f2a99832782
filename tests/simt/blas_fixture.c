// SPDX-License-Identifier: Apache-2.0
// The fixture of test_simt_blas; see blas_tests.h.
#include "tests/simt/blas_tests.h"

#include <glob.h>

char folder[] = "/tmp/weft-blas-XXXXXX";
char noted[512];
uint32_t notes;

static void note(uint32_t index, const char *line)
{
    (void)index;
    snprintf(noted, sizeof noted, "%s", line);
    notes++;
}

void fixture_open(struct fixture *w, bool exact)
{
    struct error err;
    struct device_options options = {.exact = exact, .cache_folder = folder, .note = note};
    notes = 0;
    struct stream_limits limits = {.step = {.rows_max = 1, .tokens_max = ROWS}, .width_max = 64};
    w->api = weft_device_plugin();
    assert_int_equal(w->api->open(&w->device, &options, &err), STATUS_OK);
    assert_int_equal(w->api->stream_open(w->device, &w->stream, &limits, NULL), STATUS_OK);
    for (uint32_t i = 0; i < LAYERS; i++) {
        struct weight *weight = &w->weight[i];
        *weight =
            (struct weight){.shape = {.use = WEIGHT_PRODUCT, .dtype = DTYPE_BF16, .n = N, .k = K}};
        weight->bytes = w->api->weight_bytes(w->device, &weight->shape);
        assert_int_equal(w->api->memory_alloc(w->device, &weight->data, weight->bytes, NULL),
                         STATUS_OK);
        struct weight_source source = {
            .fd = -1, .rows = N, .cols = K, .seed = i, .deviation = 1.0f};
        assert_int_equal(w->api->weight_put(w->device, weight, 0, &source, NULL), STATUS_OK);
        assert_int_equal(w->api->weight_finish(w->device, weight, NULL), STATUS_OK);
    }
    assert_int_equal(w->api->memory_alloc(w->device, &w->x, ROWS * K * 2, NULL), STATUS_OK);
    assert_int_equal(w->api->memory_alloc(w->device, &w->y, ROWS * N * 2, NULL), STATUS_OK);
}

void fixture_close(struct fixture *w)
{
    w->api->stream_close(w->stream);
    for (uint32_t i = 0; i < LAYERS; i++)
        w->api->memory_free(w->device, w->weight[i].data, w->weight[i].bytes);
    w->api->memory_free(w->device, w->x, ROWS * K * 2);
    w->api->memory_free(w->device, w->y, ROWS * N * 2);
    w->api->close(w->device);
}

void recorded_check(const struct device_api *api, struct stream *stream, uint32_t nodes,
                    bool library)
{
    struct graph *graph = NULL;
    struct simt_counts counts;
    assert_int_equal(api->graph_end(stream, &graph, NULL), STATUS_OK);
    simt_reset();
    assert_int_equal(api->graph_launch(stream, graph), STATUS_OK);
    simt_read(&counts);
    assert_int_equal(counts.graph_nodes, nodes);
    assert_int_equal(counts.wide_products, !library);
    assert_string_equal(simt_first_report(), "");
    api->graph_close(graph);
}

struct simt_counts gemm_counted(const struct device_api *api, struct stream *stream,
                                const struct gemm_args *args)
{
    struct simt_counts counts;
    simt_reset();
    assert_int_equal(api->ops->gemm(stream, args), STATUS_OK);
    simt_read(&counts);
    assert_string_equal(simt_first_report(), "");
    return counts;
}

struct simt_counts serve_at(struct fixture *w, uint32_t rows, size_t shift)
{
    struct gemm_args args = {.x_dtype = DTYPE_BF16,
                             .y_dtype = DTYPE_BF16,
                             .x = (const char *)w->x + shift,
                             .y = w->y,
                             .weight = &w->weight[0],
                             .rows = rows,
                             .x_stride = K,
                             .y_stride = N};
    return gemm_counted(w->api, w->stream, &args);
}

struct simt_counts serve(struct fixture *w, uint32_t rows)
{
    return serve_at(w, rows, 0);
}

struct simt_counts run_at(struct fixture *w, uint32_t rows, size_t shift)
{
    assert_int_equal(w->api->tune(w->stream, 0), 1);
    return serve_at(w, rows, shift);
}

struct simt_counts run(struct fixture *w, uint32_t rows)
{
    return run_at(w, rows, 0);
}

void cache_path(char path[300])
{
    char pattern[300];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/products-*", folder);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    snprintf(path, 300, "%s", found.gl_pathv[0]);
    globfree(&found);
}

void cache_remove(void)
{
    char path[300];
    cache_path(path);
    assert_int_equal(unlink(path), 0);
}
