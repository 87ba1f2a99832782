// SPDX-License-Identifier: Apache-2.0
// Memory accesses of the kernels' warps, counted by the emulator's lint (race build): extra passes
// over shared memory, and 32-byte sectors of global memory compared with the least that hold the
// data. The bounds are the current counts; a comment explains those above the minimum. Counts come
// from instrumented host code: registers that the host compiler spills are not seen, and caches are
// not modelled.
#include "kernels/device.h"
#include "tests/simt/control.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const struct device_api *weft_device_plugin(void);

static const struct device_api *api;
static struct device *device;
static uint32_t *done;
static uint32_t signals;

static void lint(bool on)
{
    struct simt_options options = {.lint = on};
    simt_configure(&options);
}

static void *device_alloc(size_t bytes)
{
    void *at = NULL;
    assert_int_equal(api->memory_alloc(device, &at, bytes, NULL), STATUS_OK);
    return at;
}

static struct weight random_weight(enum weight_use use, enum dtype dtype, uint32_t n, uint32_t k)
{
    struct weight weight = {.shape = {.use = use, .dtype = dtype, .n = n, .k = k}};
    weight.bytes = api->weight_bytes(device, &weight.shape);
    weight.data = device_alloc(weight.bytes);
    struct weight_source source = {.fd = -1, .rows = n, .cols = k, .seed = n, .deviation = 1};
    assert_int_equal(api->weight_put(device, &weight, 0, &source, NULL), STATUS_OK);
    assert_int_equal(api->weight_finish(device, &weight, NULL), STATUS_OK);
    return weight;
}

static struct weight random_rows(uint32_t rows, uint32_t width)
{
    return random_weight(WEIGHT_PRODUCT, DTYPE_BF16, rows, width);
}

static void weight_free(struct weight weight)
{
    api->memory_free(device, weight.data, weight.bytes);
}

static struct stream *stream_of(const struct stream_limits *limits)
{
    struct stream *stream = NULL;
    assert_int_equal(api->stream_open(device, &stream, limits, NULL), STATUS_OK);
    simt_reset();
    lint(true);
    return stream;
}

static void finish(struct stream *stream)
{
    assert_int_equal(api->signal(stream, done, ++signals), STATUS_OK);
    assert_int_equal(api->wait(stream, done, signals, UINT64_MAX, NULL), STATUS_OK);
    lint(false);
    api->stream_close(stream);
}

// Expects at most these conflicts and sectors. `least`: number of sectors that the data fills.
static void expect(const char *kernel, uint64_t conflicts, uint64_t sectors, uint64_t least)
{
    struct simt_lint got;
    simt_lint_read(kernel, &got);
    printf("  %-22s %3llu launches; shared %6llu requests, %4llu conflicts; sectors %6llu, least "
           "%6llu\n",
           kernel, (unsigned long long)got.launches, (unsigned long long)got.shared_requests,
           (unsigned long long)got.shared_conflicts, (unsigned long long)got.global_sectors,
           (unsigned long long)least);
    assert_true(got.launches > 0);
    assert_true(got.global_sectors > 0);
    assert_true(got.shared_conflicts <= conflicts);
    assert_true(got.global_sectors <= sectors);
}

static void product(uint32_t rows, uint32_t n, uint32_t k, enum dtype held)
{
    struct stream_limits limits = {.step = {.rows_max = 1, .tokens_max = 1}, .width_max = 4096};
    struct weight weight = random_weight(WEIGHT_PRODUCT, held, n, k), x = random_rows(rows, k);
    struct gemm_args args = {.x_dtype = DTYPE_BF16,
                             .y_dtype = DTYPE_BF16,
                             .x = x.data,
                             .weight = &weight,
                             .y = device_alloc((size_t)rows * n * 2),
                             .rows = rows,
                             .x_stride = k,
                             .y_stride = n};
    struct stream *stream = stream_of(&limits);
    assert_int_equal(api->ops->gemm(stream, &args), STATUS_OK);
    finish(stream);
    api->memory_free(device, args.y, (size_t)rows * n * 2);
    weight_free(weight);
    weight_free(x);
}

static void test_products(void **state)
{
    (void)state;
    product(8, 32, 1024, DTYPE_BF16); // weights once; x once for each of two blocks
    expect("gemm_small_kernel", 0, 3088, 2048 + 2 * 512 + 16);
    product(8, 32, 1024, DTYPE_I8); // weights, scales, and x
    expect("gemm_small_kernel", 0, 2080, 1024 + 2 * 512 + 16);
    product(64, 128, 256, DTYPE_BF16); // results are written in halves of sectors
    expect("gemm_wide_kernel", 0, 4096, 2048 + 1024 + 512);
    product(64, 128, 256, DTYPE_I8);
    expect("gemm_wide_kernel", 0, 3328, 1024 + 1024 + 512);
}

static void norm(uint32_t rows, uint32_t width, bool layer)
{
    struct stream_limits limits = {.step = {.rows_max = 1, .tokens_max = 1}, .width_max = width};
    struct weight x = random_rows(rows, width), add = random_rows(rows, width);
    struct weight out = random_rows(rows, width);
    struct weight scale = random_weight(WEIGHT_VECTOR, DTYPE_F32, width, 1);
    struct rms_norm_args rms = {DTYPE_BF16, x.data, add.data, &scale, out.data, rows,
                                width,      1e-6f,  NULL,     0,      0};
    struct layer_norm_args with_mean = {.act = DTYPE_BF16,
                                        .residual = x.data,
                                        .add = add.data,
                                        .weight = &scale,
                                        .bias = &scale,
                                        .out = out.data,
                                        .rows = rows,
                                        .width = width,
                                        .epsilon = 1e-6f};
    struct stream *stream = stream_of(&limits);
    if (layer)
        assert_int_equal(api->ops->layer_norm(stream, &with_mean), STATUS_OK);
    else
        assert_int_equal(api->ops->rms_norm(stream, &rms), STATUS_OK);
    finish(stream);
    weight_free(x);
    weight_free(add);
    weight_free(out);
    weight_free(scale);
}

static void test_norms(void **state)
{
    (void)state;
    // float32 weights: each lane reads eight in two loads, each of which uses half of every sector;
    // the second load finds them in the cache.
    norm(4, 2048, false); // reads x, add, and x again; writes sum and result
    expect("rms_kernel", 0, 4608, 5 * 512 + 1024);
    norm(8, 512, false);
    expect("rms_kernel", 0, 2304, 5 * 256 + 512);
    norm(4, 2048, true); // reads both inputs three times
    expect("layer_kernel", 0, 7680, 7 * 512 + 2 * 1024);
    norm(8, 512, true);
    expect("layer_kernel", 0, 3840, 7 * 256 + 2 * 512);
}

static void test_swiglu(void **state)
{
    (void)state;
    struct stream_limits limits = {.step = {.rows_max = 1, .tokens_max = 1}, .width_max = 1024};
    struct weight in = random_rows(4, 2048), out = random_rows(4, 1024);
    struct swiglu_args args = {
        .act = DTYPE_BF16, .in = in.data, .out = out.data, .rows = 4, .width = 1024};
    struct stream *stream = stream_of(&limits);
    assert_int_equal(api->ops->swiglu(stream, &args), STATUS_OK);
    finish(stream);
    expect("swiglu_kernel", 0, 768, 512 + 256);
    weight_free(in);
    weight_free(out);
}

// Runs attention of one row whose KV blocks of 64 tokens are consecutive.
static void attention(const struct attn_shape *shape, uint32_t q_len, uint32_t kv_len)
{
    uint32_t blocks = (kv_len + 63) / 64, width = (shape->heads + 2 * shape->kv_heads) * shape->dim;
    struct stream_limits limits = {
        .step = {.rows_max = 1, .tokens_max = q_len, .slots_max = 1, .blocks_max = blocks},
        .attn = *shape,
        .width_max = 1,
        .layers = 1};
    uint64_t head_bytes = 64ull * shape->dim * 2, block_bytes = 2 * head_bytes * shape->kv_heads;
    struct weight qkv = random_rows(q_len, width);
    struct weight kv = random_rows(blocks, (uint32_t)(block_bytes / 2));
    struct weight out = random_rows(q_len, shape->heads * shape->dim);
    uint32_t table[64];
    for (uint32_t i = 0; i < blocks; i++)
        table[i] = (uint32_t)(i * block_bytes / 256);
    void *table_device = device_alloc(sizeof table), *host = NULL;
    assert_int_equal(api->upload(device, table_device, table, sizeof table, NULL), STATUS_OK);
    struct step_layout layout;
    step_layout_init(&layout, &limits.step, api->step_private_bytes(device, &limits));
    assert_int_equal(api->host_alloc(device, &host, layout.bytes, NULL), STATUS_OK);
    struct step *step = host;
    step->layout = layout;
    step->row_count = 1;
    step->token_count = step->q_len_max = q_len;
    step->kv_len_max = kv_len;
    struct step_row row = {.q_len = q_len, .kv_len = kv_len, .sample = STEP_NO_ROW};
    memcpy(step_section(step, layout.rows), &row, sizeof row);
    struct attn_args args = {.act = DTYPE_BF16,
                             .kv = DTYPE_BF16,
                             .qkv = qkv.data,
                             .out = out.data,
                             .step = device_alloc(layout.bytes),
                             .step_host = step,
                             .block_table = table_device,
                             .kv_base = kv.data,
                             .value_offset = head_bytes * shape->kv_heads,
                             .head_bytes = head_bytes,
                             .token_bytes = shape->dim * 2,
                             .shape = *shape,
                             .blocks_max = blocks,
                             .block_shift = 6,
                             .row_count = 1,
                             .token_count = q_len};
    struct stream *stream = stream_of(&limits);
    api->step_plan(stream, step);
    assert_int_equal(api->copy_in(stream, (void *)(uintptr_t)args.step, step, layout.bytes),
                     STATUS_OK);
    assert_int_equal(api->ops->attn(stream, &args), STATUS_OK);
    finish(stream);
    api->memory_free(device, (void *)(uintptr_t)args.step, layout.bytes);
    api->memory_free(device, table_device, sizeof table);
    api->host_free(device, host, layout.bytes);
    weight_free(qkv);
    weight_free(kv);
    weight_free(out);
}

static void test_attention(void **state)
{
    (void)state;
    static const struct attn_shape wide = {8, 2, 128, 0, 0.09f, 1, 1, 0};
    static const struct attn_shape slim = {4, 2, 64, 0, 0.125f, 1, 1, 0};
    struct simt_counts counts;
    // Keys and values are read once per item, queries and results once; the other sectors are table
    // entries and items, which a GPU reads from its cache.
    attention(&wide, 1, 256);
    expect("attn_kernel", 0, 8424, 8192 + 64 + 64);
    attention(&slim, 1, 256);
    expect("attn_kernel", 0, 4232, 4096 + 16 + 16);
    attention(&wide, 64, 128); // in four items
    expect("attn_kernel", 0, 16928, 4 * 2048 + 4096 + 4096);
    attention(&slim, 64, 128); // in two items
    expect("attn_kernel", 0, 4368, 2 * 1024 + 1024 + 1024);
    simt_read(&counts);
    assert_true(counts.ldsm > 0);
    assert_int_equal(counts.ldsm_conflicts, 0);
    // three parts as separate items: their states are written, read, and merged
    attention(&slim, 1, 2100);
    expect("attn_kernel", 0, 35000, 2 * 16800 + 2 * 2 * 3 * 16 + 16);
}

// Samples one row of two chunks with top-k and top-p.
static void test_sampling(void **state)
{
    (void)state;
    enum { VOCAB = 12288 };
    struct stream_limits limits = {
        .step = {.rows_max = 1, .tokens_max = 1, .slots_max = 1, .vocab = VOCAB}, .width_max = 1};
    struct sample_params params = {
        .temperature = 1, .top_p = 0.9f, .top_k = 50, .repetition = 1, .penalty_row = STEP_NO_ROW};
    struct step_sampled sampled = {0, 0, 0, STEP_NO_ROW};
    struct weight logits = random_weight(WEIGHT_PRODUCT, DTYPE_F32, 1, VOCAB);
    struct sample_args args = {.logits = logits.data,
                               .sampled = device_alloc(sizeof sampled),
                               .limits = limits.step,
                               .count = 1,
                               .stride = VOCAB};
    args.state.params = device_alloc(sizeof params);
    args.state.done = device_alloc(4);
    args.state.last_token = device_alloc(4);
    args.state.bias = device_alloc(16);
    void *result = NULL;
    assert_int_equal(api->host_alloc(device, &result, sizeof *args.result, NULL), STATUS_OK);
    args.result = result;
    assert_int_equal(api->upload(device, args.state.params, &params, sizeof params, NULL),
                     STATUS_OK);
    assert_int_equal(
        api->upload(device, (void *)(uintptr_t)args.sampled, &sampled, sizeof sampled, NULL),
        STATUS_OK);
    struct stream *stream = stream_of(&limits);
    assert_int_equal(api->ops->sample(stream, &args), STATUS_OK);
    finish(stream);
    expect("sample_process", 0, 3220, 2 * 1536);
    expect("sample_decide", 0, 30, 4);
    expect("sample_select_kernel", 0, 9345, 6 * 1536); // three passes for top-k and three for top-p
    expect("sample_draw", 0, 1671, 1536);
    expect("sample_finish", 0, 65, 4); // all eight warps check whether every token is banned
    params.temperature =
        0; // the best token is taken: processed logits are neither written nor read
    assert_int_equal(api->upload(device, args.state.params, &params, sizeof params, NULL),
                     STATUS_OK);
    stream = stream_of(&limits);
    assert_int_equal(api->ops->sample(stream, &args), STATUS_OK);
    finish(stream);
    expect("sample_process", 0, 1652, 1536);
    void *buffers[] = {(void *)(uintptr_t)args.sampled, args.state.params, args.state.done,
                       args.state.last_token, args.state.bias};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        api->memory_free(device, buffers[i], 0);
    api->host_free(device, result, sizeof *args.result);
    weight_free(logits);
}

int main(void)
{
    struct device_options options = {.exact = true};
    struct error err;
    if (!simt_checks_races()) {
        printf("skipped: accesses are seen in the race build only\n");
        return 77;
    }
    api = weft_device_plugin();
    void *at = NULL;
    if (api->open(&device, &options, &err) != STATUS_OK ||
        api->host_alloc(device, &at, 64, &err) != STATUS_OK)
        return 1;
    done = at;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products), cmocka_unit_test(test_norms),
        cmocka_unit_test(test_swiglu),   cmocka_unit_test(test_attention),
        cmocka_unit_test(test_sampling),
    };
    int failed = cmocka_run_group_tests_name("access", tests, NULL, NULL);
    api->host_free(device, done, 64);
    api->close(device);
    return failed;
}
