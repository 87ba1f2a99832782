// SPDX-License-Identifier: Apache-2.0
// Contracts of the device table that otherwise only a real driver would test, checked under an
// emulated runtime that is as strict: state that one call leaves for the next (a query that
// returned "not ready", a refused allocation), memory that is zeroed before others may write it,
// the calling thread's device, a card for which there is no code, graphs whose recording fails.
// bench/gpu.sh runs it on a card.
#include "kernels/device.h"
#include "kernels/ways.h"
#include "tests/simt/control.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const struct device_api *weft_device_plugin(void);

// Defined only under the emulator.
__attribute__((weak)) void simt_configure(const struct simt_options *options);
__attribute__((weak)) void simt_read(struct simt_counts *out);
__attribute__((weak)) int simt_device_of(const void *at);

enum { WIDTH = 64, ROWS = 8 };
static const uint64_t FOREVER = UINT64_MAX;

struct fixture {
    const struct device_api *api;
    struct device *device;
    struct stream *stream;
    uint32_t *word;
    uint16_t *in, *out; // device memory
};

static void configure(const struct simt_options *options)
{
    if (simt_configure)
        simt_configure(options);
}

static bool serial;   // device_options.serial of the devices to open
static uint32_t ways; // device_options.ways

static void fixture_open(struct fixture *w, uint32_t index)
{
    struct error err;
    struct device_options options = {.exact = true, .index = index, .serial = serial, .ways = ways};
    struct stream_limits limits = {.step = {.rows_max = ROWS, .tokens_max = ROWS},
                                   .width_max = WIDTH};
    w->api = weft_device_plugin();
    if (w->api->open(&w->device, &options, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    assert_int_equal(w->api->stream_open(w->device, &w->stream, &limits, NULL), STATUS_OK);
    void *at = NULL;
    assert_int_equal(w->api->host_alloc(w->device, &at, 64, NULL), STATUS_OK);
    w->word = at;
    assert_int_equal(w->api->memory_alloc(w->device, &at, ROWS * WIDTH * 4, NULL), STATUS_OK);
    w->in = at;
    assert_int_equal(w->api->memory_alloc(w->device, &at, ROWS * WIDTH * 2, NULL), STATUS_OK);
    w->out = at;
}

static void fixture_close(struct fixture *w)
{
    w->api->stream_close(w->stream);
    w->api->memory_free(w->device, w->in, ROWS * WIDTH * 4);
    w->api->memory_free(w->device, w->out, ROWS * WIDTH * 2);
    w->api->host_free(w->device, w->word, 64);
    w->api->close(w->device);
}

static enum status launch(struct fixture *w)
{
    struct swiglu_args args = {
        .act = DTYPE_BF16, .in = w->in, .out = w->out, .rows = ROWS, .width = WIDTH};
    return w->api->ops->swiglu(w->stream, &args);
}

static void wait_for(struct fixture *w, uint32_t value)
{
    struct error err;
    assert_int_equal(w->api->signal(w->stream, w->word, value), STATUS_OK);
    if (w->api->wait(w->stream, w->word, value, FOREVER, &err) != STATUS_OK)
        fail_msg("%s", err.text);
}

// The driver is queried while the stream is busy; its result must not make the following launch
// fail.
static void test_after_waiting(void **state)
{
    (void)state;
    struct simt_options lazy = {.lazy = true};
    struct fixture w;
    configure(&lazy);
    fixture_open(&w, 0);
    for (uint32_t round = 1; round <= 8; round++) {
        for (int i = 0; i < 40; i++)
            assert_int_equal(launch(&w), STATUS_OK);
        wait_for(&w, round);
    }
    fixture_close(&w);
    configure(&(struct simt_options){0});
}

static void test_after_refusals(void **state)
{
    (void)state;
    struct fixture w;
    struct error err;
    void *at = NULL;
    struct graph *graph = NULL;
    fixture_open(&w, 0);
    assert_int_equal(w.api->memory_alloc(w.device, &at, (size_t)1 << 50, &err), STATUS_NO_MEMORY);
    assert_null(at);
    assert_int_equal(launch(&w), STATUS_OK);
    assert_int_equal(w.api->host_alloc(w.device, &at, (size_t)1 << 50, &err), STATUS_NO_MEMORY);
    assert_null(at);
    assert_int_equal(launch(&w), STATUS_OK);
    assert_int_equal(w.api->graph_end(w.stream, &graph, &err), STATUS_DEVICE_FAULT);
    assert_int_equal(launch(&w), STATUS_OK);
    wait_for(&w, 1);
    fixture_close(&w);
}

// A product of many rows needs more shared memory per block than the default limit.
static void test_after_refused_shared_memory(void **state)
{
    (void)state;
    enum { TOKENS = 65, N = 64, K = 64 };
    if (!simt_configure)
        skip();
    struct fixture w;
    void *x = NULL, *y = NULL;
    fixture_open(&w, 0);
    struct weight weight = {.shape = {.n = N, .k = K, .dtype = DTYPE_BF16, .use = WEIGHT_PRODUCT}};
    weight.bytes = w.api->weight_bytes(w.device, &weight.shape);
    assert_int_equal(w.api->memory_alloc(w.device, &weight.data, weight.bytes, NULL), STATUS_OK);
    assert_int_equal(w.api->memory_alloc(w.device, &x, TOKENS * K * 2, NULL), STATUS_OK);
    assert_int_equal(w.api->memory_alloc(w.device, &y, TOKENS * N * 2, NULL), STATUS_OK);
    struct gemm_args gemm = {.x_dtype = DTYPE_BF16,
                             .y_dtype = DTYPE_BF16,
                             .x = x,
                             .weight = &weight,
                             .y = y,
                             .rows = TOKENS,
                             .x_stride = K,
                             .y_stride = N};
    configure(&(struct simt_options){.shared_most = 1 << 10});
    assert_int_equal(w.api->ops->gemm(w.stream, &gemm), STATUS_DEVICE_FAULT);
    configure(&(struct simt_options){0});
    assert_int_equal(launch(&w), STATUS_OK);
    assert_int_equal(w.api->ops->gemm(w.stream, &gemm), STATUS_OK);
    wait_for(&w, 1);
    w.api->memory_free(w.device, weight.data, weight.bytes);
    w.api->memory_free(w.device, x, TOKENS * K * 2);
    w.api->memory_free(w.device, y, TOKENS * N * 2);
    fixture_close(&w);
}

static void launch_two(struct fixture *w)
{
    assert_int_equal(launch(w), STATUS_OK);
    assert_int_equal(launch(w), STATUS_OK);
}

// A kernel may begin early after another kernel of a step, and after no other work.
static uint64_t launches_early(void)
{
    struct fixture w;
    struct error err;
    struct graph *graph = NULL;
    struct simt_counts before, after;
    fixture_open(&w, 0);
    simt_read(&before);
    launch_two(&w);
    assert_int_equal(w.api->copy_in(w.stream, w.in, w.word, 64), STATUS_OK);
    launch_two(&w);
    assert_int_equal(w.api->copy_out(w.stream, w.word, w.in, 64), STATUS_OK);
    launch_two(&w);
    wait_for(&w, 1);
    launch_two(&w);
    assert_int_equal(w.api->graph_begin(w.stream), STATUS_OK);
    launch_two(&w);
    assert_int_equal(w.api->graph_end(w.stream, &graph, &err), STATUS_OK);
    launch_two(&w);
    assert_int_equal(w.api->graph_launch(w.stream, graph), STATUS_OK);
    launch_two(&w);
    wait_for(&w, 2);
    simt_read(&after);
    w.api->graph_close(graph);
    fixture_close(&w);
    return after.early - before.early;
}

static void test_kernels_begin_early(void **state)
{
    (void)state;
    if (!simt_read)
        skip();
    static const struct {
        bool serial;
        uint32_t major;
        uint64_t early;
    } cases[] = {{false, 9, 7}, {true, 9, 0}, {false, 8, 0}, {false, 10, 7}, {true, 10, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        configure(&(struct simt_options){.major = cases[i].major});
        serial = cases[i].serial;
        assert_int_equal(launches_early(), cases[i].early);
    }
    serial = false;
    configure(&(struct simt_options){0});
}

// Each kernel of a step asks once per device for the division of an SM's memory that all have.
static void test_kernels_divide_memory_alike(void **state)
{
    (void)state;
    if (!simt_read)
        skip();
    for (int round = 0; round < 3; round++) {
        struct fixture w;
        struct simt_counts before, after;
        ways = round == 1 ? WAY_CARVEOUTS : 0;
        fixture_open(&w, 0);
        simt_read(&before);
        for (int i = 0; i < 3; i++)
            assert_int_equal(launch(&w), STATUS_OK);
        wait_for(&w, 1);
        simt_read(&after);
        assert_int_equal(after.carveouts - before.carveouts, round != 1);
        fixture_close(&w);
    }
    ways = 0;
}

// A norm prefetches the next weight, here 511 lines of 128 bytes, in bulk (15 of 4096 bytes and one
// of the rest) or in sectors of 32 bytes.
static void test_ways_to_prefetch(void **state)
{
    (void)state;
    enum { WIDE = 2048 }; // narrower rows have no blocks that prefetch
    if (!simt_read)
        skip();
    for (uint32_t round = 0; round < 2; round++) {
        struct fixture w;
        struct simt_counts before, after;
        void *at = NULL;
        ways = round == 1 ? WAY_SECTORS : 0;
        fixture_open(&w, 0);
        struct weight next = {
            .shape = {.use = WEIGHT_PRODUCT, .dtype = DTYPE_BF16, .n = 33, .k = 992}};
        struct weight ones = {
            .shape = {.use = WEIGHT_VECTOR, .dtype = DTYPE_F32, .n = WIDE, .k = 1}};
        next.bytes = w.api->weight_bytes(w.device, &next.shape);
        ones.bytes = w.api->weight_bytes(w.device, &ones.shape);
        assert_int_equal(w.api->memory_alloc(w.device, &next.data, next.bytes, NULL), STATUS_OK);
        assert_int_equal(w.api->memory_alloc(w.device, &ones.data, ones.bytes, NULL), STATUS_OK);
        assert_int_equal(w.api->memory_alloc(w.device, &at, WIDE * 2, NULL), STATUS_OK);
        struct rms_norm_args args = {.act = DTYPE_BF16,
                                     .residual = at,
                                     .weight = &ones,
                                     .out = at,
                                     .rows = 1,
                                     .width = WIDE,
                                     .epsilon = 1e-6f,
                                     .next = &next};
        simt_read(&before);
        assert_int_equal(w.api->ops->rms_norm(w.stream, &args), STATUS_OK);
        wait_for(&w, 1);
        simt_read(&after);
        assert_int_equal(after.prefetches - before.prefetches, round == 0 ? 16 : 511 * 4);
        assert_int_equal(after.prefetched - before.prefetched, round == 0 ? 511 * 128 : 511 * 4);
        w.api->memory_free(w.device, at, WIDE * 2);
        w.api->memory_free(w.device, next.data, next.bytes);
        w.api->memory_free(w.device, ones.data, ones.bytes);
        fixture_close(&w);
    }
    ways = 0;
}

// Waiting for a stream that records is refused and invalidates the recording; the stream stays
// usable.
static void test_spoiled_graph(void **state)
{
    (void)state;
    struct fixture w;
    struct error err;
    struct graph *graph = NULL;
    fixture_open(&w, 0);
    *w.word = 0;
    assert_int_equal(w.api->graph_begin(w.stream), STATUS_OK);
    assert_int_equal(launch(&w), STATUS_OK);
    assert_int_equal(w.api->graph_begin(w.stream), STATUS_DEVICE_FAULT); // it is already recording
    assert_int_equal(w.api->wait(w.stream, w.word, 1, FOREVER, &err), STATUS_DEVICE_FAULT);
    assert_int_equal(w.api->graph_end(w.stream, &graph, &err), STATUS_DEVICE_FAULT);
    assert_null(graph);
    assert_int_equal(launch(&w), STATUS_OK);
    wait_for(&w, 1);
    assert_int_equal(w.api->graph_begin(w.stream), STATUS_OK);
    assert_int_equal(launch(&w), STATUS_OK);
    assert_int_equal(w.api->graph_end(w.stream, &graph, &err), STATUS_OK);
    for (uint32_t round = 2; round < 5; round++) {
        assert_int_equal(w.api->graph_launch(w.stream, graph), STATUS_OK);
        wait_for(&w, round);
    }
    w.api->graph_close(graph);
    fixture_close(&w);
}

// If the zeros of an allocation arrived late, they would overwrite data that is loaded right after
// it.
static void test_zeroed_before(void **state)
{
    (void)state;
    struct simt_options lazy = {.lazy = true};
    struct fixture w;
    configure(&lazy);
    fixture_open(&w, 0);
    for (uint32_t round = 1; round <= 20; round++) {
        float from[WIDTH];
        for (int i = 0; i < WIDTH; i++)
            from[i] = (float)(i + 1);
        struct weight weight = {
            .shape = {.use = WEIGHT_PRODUCT, .dtype = DTYPE_F32, .n = 1, .k = WIDTH}};
        weight.bytes = w.api->weight_bytes(w.device, &weight.shape);
        struct weight_source source = {
            .map = from, .fd = -1, .dtype = DTYPE_F32, .rows = 1, .cols = WIDTH};
        void *table = NULL;
        assert_int_equal(w.api->memory_alloc(w.device, &weight.data, weight.bytes, NULL),
                         STATUS_OK);
        assert_int_equal(w.api->memory_alloc(w.device, &table, sizeof from, NULL), STATUS_OK);
        assert_int_equal(w.api->weight_put(w.device, &weight, 0, &source, NULL), STATUS_OK);
        assert_int_equal(w.api->weight_finish(w.device, &weight, NULL), STATUS_OK);
        assert_int_equal(w.api->upload(w.device, table, from, sizeof from, NULL), STATUS_OK);
        void *host = NULL;
        assert_int_equal(w.api->host_alloc(w.device, &host, 2 * sizeof from, NULL), STATUS_OK);
        assert_int_equal(w.api->copy_out(w.stream, host, weight.data, sizeof from), STATUS_OK);
        assert_int_equal(w.api->copy_out(w.stream, (char *)host + sizeof from, table, sizeof from),
                         STATUS_OK);
        wait_for(&w, round);
        assert_memory_equal(host, from, sizeof from);
        assert_memory_equal((char *)host + sizeof from, from, sizeof from);
        w.api->host_free(w.device, host, 2 * sizeof from);
        w.api->memory_free(w.device, table, sizeof from);
        w.api->memory_free(w.device, weight.data, weight.bytes);
    }
    fixture_close(&w);
    configure(&(struct simt_options){0});
}

// Signal words count steps and wrap: "reached" compares by difference.
static void test_words_wrap(void **state)
{
    (void)state;
    struct simt_options lazy = {.lazy = true};
    struct fixture w;
    struct error err;
    configure(&lazy);
    fixture_open(&w, 0);
    *w.word = UINT32_MAX - 1;
    for (uint32_t value = UINT32_MAX; value != 3; value++) {
        assert_int_equal(launch(&w), STATUS_OK);
        wait_for(&w, value);
        assert_int_equal(*w.word, value); // not before the word was written
    }
    assert_int_equal(w.api->wait(w.stream, w.word, UINT32_MAX, FOREVER, &err), STATUS_OK);
    fixture_close(&w);
    configure(&(struct simt_options){0});
}

// Only part of a record is copied, so the rest must be zero.
static void test_pinned_memory_is_zero(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 64, 4096, 100001};
    struct fixture w;
    fixture_open(&w, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *at = NULL;
        assert_int_equal(w.api->host_alloc(w.device, &at, sizes[i], NULL), STATUS_OK);
        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(((const unsigned char *)at)[k], 0);
        memset(at, 0x5A, sizes[i]); // content that the next allocation may receive
        w.api->host_free(w.device, at, sizes[i]);
    }
    fixture_close(&w);
}

static void *other_thread(void *context)
{
    struct fixture *w = context;
    void *at = NULL;
    if (w->api->memory_alloc(w->device, &at, ROWS * WIDTH * 2, NULL) == STATUS_OK)
        w->api->memory_free(w->device, w->out, ROWS * WIDTH * 2);
    w->out = at;
    struct stream *stream = NULL;
    struct stream_limits limits = {.step = {.rows_max = 1, .tokens_max = 1}, .width_max = WIDTH};
    if (w->api->stream_open(w->device, &stream, &limits, NULL) != STATUS_OK)
        return NULL;
    w->api->device_slot_acquire(stream);
    bool good = w->api->signal(stream, w->word, 5) == STATUS_OK;
    w->api->stream_close(stream);
    w->api->device_slot_acquire(w->stream); // the first call of an engine's thread
    return good && launch(w) == STATUS_OK ? w : NULL;
}

// A thread that has not set a device uses the device that was opened, not the first.
static void test_second_device(void **state)
{
    (void)state;
    if (!simt_configure)
        skip();
    struct simt_options two = {.devices = 1};
    struct fixture w;
    pthread_t thread;
    void *good = NULL;
    configure(&two);
    fixture_open(&w, 1);
    assert_int_equal(simt_device_of(w.in), 1);
    assert_int_equal(pthread_create(&thread, NULL, other_thread, &w), 0);
    assert_int_equal(pthread_join(thread, &good), 0);
    assert_ptr_equal(good, &w);
    assert_int_equal(simt_device_of(w.out), 1);
    fixture_close(&w);
    configure(&(struct simt_options){0});
}

static uint64_t need_of(struct fixture *w, const struct stream_limits *limits, const char *label)
{
    struct device_need need;
    assert_int_equal(w->api->need(w->device, limits, &need, NULL), STATUS_OK);
    for (uint32_t i = 0; i < need.count; i++)
        if (strcmp(need.entry[i].label, label) == 0)
            return need.entry[i].bytes;
    return 0;
}

static void test_facts_and_needs(void **state)
{
    (void)state;
    struct fixture w;
    struct device_facts facts;
    fixture_open(&w, 0);
    w.api->facts(w.device, &facts);
    assert_int_equal(facts.steps_in_flight, 1);
    assert_true(facts.graphs && facts.exact);
    assert_true(facts.kv_share == 1 && facts.kv_default == 0 && facts.step_stretch == 0);
    assert_int_equal(facts.step_tokens, 0);
    assert_true(facts.memory_available > 0);
    static const enum dtype activations[DTYPE_COUNT] = {[DTYPE_F32] = DTYPE_F32,
                                                        [DTYPE_BF16] = DTYPE_BF16,
                                                        [DTYPE_F16] = DTYPE_F16,
                                                        [DTYPE_I8] = DTYPE_BF16};
    for (int i = 0; i < DTYPE_COUNT; i++)
        assert_int_equal(facts.activation[i], activations[i]);
    // The state of a walk, per lane: as wide as the kernel for the head dim (64, 96, 128, or 256
    // columns for any other), 8 rows, and 4 more words.
    static const uint32_t dims[][2] = {{64, 36},   {96, 52},  {128, 68},
                                       {256, 132}, {16, 132}, {72, 132}};
    uint64_t least = 0;
    for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++) {
        struct stream_limits limits = {.step = {.rows_max = 4, .tokens_max = 64},
                                       .attn = {.heads = 2, .kv_heads = 2, .dim = dims[i][0]},
                                       .width_max = 64,
                                       .layers = 3};
        uint64_t bytes = need_of(&w, &limits, "attention parts");
        least = i == 0 ? bytes : least;
        assert_true(least > 0);
        assert_int_equal(bytes * dims[0][1], least * dims[i][1]);
        assert_int_equal(need_of(&w, &limits, "sampling"), 0);          // without a vocabulary
        assert_int_equal(need_of(&w, &limits, "product workspace"), 0); // in exact mode
        assert_int_equal(need_of(&w, &limits, "graphs"), 0);            // no graph will be recorded
        limits.graphs = 5;
        uint64_t graphs = need_of(&w, &limits, "graphs");
        assert_true(graphs > 0);
        limits.layers = 6;
        limits.graphs = 10;
        assert_int_equal(need_of(&w, &limits, "graphs"), 4 * graphs);
        limits.step.vocab = 1000;
        uint64_t four = need_of(&w, &limits, "sampling");
        assert_true(four >= (uint64_t)4 * 1000 * sizeof(float));
        limits.step.rows_max = 8;
        assert_int_equal(need_of(&w, &limits, "sampling"), 2 * four);
    }
    fixture_close(&w);
    w.api->close(NULL);
    w.api->stream_close(NULL);
    w.api->graph_close(NULL);
}

// A wait ends at its deadline, or immediately if no work is left that could write the signal.
static void test_waits_that_fail(void **state)
{
    (void)state;
    struct fixture w;
    struct error err;
    fixture_open(&w, 0);
    wait_for(&w, 1);
    assert_int_equal(w.api->wait(w.stream, w.word, 2, 0, &err), STATUS_TIMEOUT);
    assert_string_equal(err.text, "the device did not finish a step in time");
    assert_int_equal(w.api->wait(w.stream, w.word, 2, FOREVER, &err), STATUS_DEVICE_FAULT);
    assert_string_equal(err.text, "the device is idle but did not write its signal");
    // the signal has been written
    assert_int_equal(w.api->wait(w.stream, w.word, 1, 0, &err), STATUS_OK);
    assert_int_equal(launch(&w), STATUS_OK);
    wait_for(&w, 2);
    struct swiglu_args wrong = {
        .act = DTYPE_BF16, .in = w.in, .out = w.out, .rows = ROWS, .width = 0};
    assert_int_equal(w.api->ops->swiglu(w.stream, &wrong), STATUS_INVALID);
    fixture_close(&w);
    if (!simt_configure)
        return;
    configure(&(struct simt_options){0});
    struct device_options options = {.index = 7, .exact = true};
    struct device *device = NULL;
    assert_int_equal(weft_device_plugin()->open(&device, &options, &err), STATUS_NO_DEVICE);
    assert_string_equal(err.text, "there is no CUDA device 7: 1 here, counted from 0");
    options.index = 1;
    assert_int_equal(weft_device_plugin()->open(&device, &options, &err), STATUS_NO_DEVICE);
    assert_string_equal(err.text, "there is no CUDA device 1: 1 here, counted from 0");
}

static void test_no_code(void **state)
{
    (void)state;
    if (!simt_configure)
        skip();
    struct simt_options none = {.no_image = true};
    struct device_options options = {.exact = true};
    struct device *device = NULL;
    struct error err;
    configure(&none);
    assert_int_equal(weft_device_plugin()->open(&device, &options, &err), STATUS_NO_DEVICE);
    assert_non_null(strstr(err.text, "runs none of the plugin's kernels"));
    assert_null(device);
    configure(&(struct simt_options){0});
    options.index = 7;
    assert_int_equal(weft_device_plugin()->open(&device, &options, &err), STATUS_NO_DEVICE);
    struct fixture w; // these calls must not leave a last error of the thread
    fixture_open(&w, 0);
    assert_int_equal(launch(&w), STATUS_OK);
    wait_for(&w, 1);
    fixture_close(&w);
}

// Launches the largest row and token counts that options allow: a grid's y is at most 65,535
// blocks. The launches are recorded and not run, because memory for these rows does not exist.
static void test_grids_at_their_limits(void **state)
{
    (void)state;
    enum { SAMPLED = 65536, TOKENS = 1 << 20 };
    struct fixture w;
    fixture_open(&w, 0);
    void *at = w.in;
    struct stream *stream = NULL;
    struct graph *graph = NULL;
    struct stream_limits limits = {.step = {.rows_max = SAMPLED, .tokens_max = TOKENS, .vocab = 16},
                                   .width_max = WIDTH};
    assert_int_equal(w.api->stream_open(w.device, &stream, &limits, NULL), STATUS_OK);
    struct sample_args sample = {.logits = at,
                                 .sampled = at,
                                 .state = {.params = at, .done = at, .last_token = at},
                                 .result = at,
                                 .limits = limits.step,
                                 .count = SAMPLED,
                                 .stride = 16};
    struct swiglu_args swiglu = {DTYPE_BF16, at, at, TOKENS, WIDTH, NULL, 0, 0, 0};
    struct activate_args activate = {DTYPE_BF16, ACTIVATE_GELU, at, TOKENS, WIDTH};
    struct weight weight = {.shape = {.n = 16, .k = 32, .dtype = DTYPE_F32, .use = WEIGHT_PRODUCT},
                            .data = at};
    struct gemm_args gemm = {.x_dtype = DTYPE_F32,
                             .y_dtype = DTYPE_F32,
                             .x = at,
                             .weight = &weight,
                             .y = at,
                             .rows = TOKENS,
                             .x_stride = 32,
                             .y_stride = 16};
    assert_int_equal(w.api->graph_begin(stream), STATUS_OK);
    assert_int_equal(w.api->ops->sample(stream, &sample), STATUS_OK);
    assert_int_equal(w.api->ops->swiglu(stream, &swiglu), STATUS_OK);
    assert_int_equal(w.api->ops->activate(stream, &activate), STATUS_OK);
    assert_int_equal(w.api->ops->gemm(stream, &gemm), STATUS_OK);
    assert_int_equal(w.api->graph_end(stream, &graph, NULL), STATUS_OK);
    w.api->graph_close(graph);
    w.api->stream_close(stream);
    fixture_close(&w);
}

int main(void)
{
    struct device_options options = {.exact = true};
    struct device *device = NULL;
    struct error err;
    if (weft_device_plugin()->open(&device, &options, &err) != STATUS_OK) {
        printf("skipped: %s\n", err.text);
        return 77;
    }
    weft_device_plugin()->close(device);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_after_waiting),
        cmocka_unit_test(test_after_refusals),
        cmocka_unit_test(test_after_refused_shared_memory),
        cmocka_unit_test(test_kernels_begin_early),
        cmocka_unit_test(test_kernels_divide_memory_alike),
        cmocka_unit_test(test_ways_to_prefetch),
        cmocka_unit_test(test_spoiled_graph),
        cmocka_unit_test(test_zeroed_before),
        cmocka_unit_test(test_second_device),
        cmocka_unit_test(test_facts_and_needs),
        cmocka_unit_test(test_waits_that_fail),
        cmocka_unit_test(test_no_code),
        cmocka_unit_test(test_words_wrap),
        cmocka_unit_test(test_pinned_memory_is_zero),
        cmocka_unit_test(test_grids_at_their_limits),
    };
    return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}
