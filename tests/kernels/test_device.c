// SPDX-License-Identifier: Apache-2.0
// The device contract on the cpu: facts, need compared with a stream's memory, memory, waiting,
// missing plugins, the step layout, and that a sampled token does not depend on the batch.
#include "tests/conformance/trial.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
// cmocka.h needs some of the headers above
#include <cmocka.h>

static void test_facts(void **state)
{
    (void)state;
    struct trial t;
    assert_true(trial_open_cpu(&t, CPU_PLAIN, 2));
    assert_int_equal(t.facts.steps_in_flight, 0);
    assert_false(t.facts.graphs);
    assert_true(t.facts.exact);
    assert_true(t.facts.memory_available > 1 << 20);
    assert_non_null(strstr(t.facts.name, "2 threads"));
    assert_int_equal(t.facts.float32_runs_as, DTYPE_F32);
    assert_int_equal(t.facts.quantised_runs_as, DTYPE_BF16);
    assert_true(t.facts.kv_share == 0.25 && t.facts.kv_default == 1ull << 30 &&
                t.facts.step_stretch == 2.5);
    for (int i = 0; i < DTYPE_COUNT; i++)
        assert_int_equal(t.facts.activation[i], DTYPE_F32);
    struct device_need need;
    assert_int_equal(t.api->need(t.device, &t.limits, &need, NULL), STATUS_OK);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < need.count; i++)
        sum += need.entry[i].bytes;
    assert_int_equal(sum, t.stream->scratch_bytes);
    trial_close(&t);
}

static void test_memory(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 255, 4096, (2 << 20) - 1, 2 << 20, (2 << 20) + 1, 9 << 20};
    struct trial t;
    assert_true(trial_open_cpu(&t, CPU_PLAIN, 1));
    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *at = trial_device(&t, sizes[i]);
        assert_int_equal((uintptr_t)at % 256, 0);
        for (size_t j = 0; j < sizes[i]; j += 255)
            assert_int_equal(at[j], 0);
        memset(at, 7, sizes[i]);
    }
    struct error err = {0};
    void *none;
    assert_int_equal(t.api->memory_alloc(t.device, &none, (size_t)1 << 60, &err), STATUS_NO_MEMORY);
    assert_null(none);
    trial_close(&t);
}

// Large pieces use huge pages: freeing a piece unmaps all of its last page.
static void test_memory_goes(void **state)
{
    (void)state;
    size_t bytes = (2 << 20) + 1, page = (size_t)sysconf(_SC_PAGESIZE);
    struct trial t;
    void *piece;
    unsigned char held;
    assert_true(trial_open_cpu(&t, CPU_PLAIN, 1));
    assert_int_equal(t.api->memory_alloc(t.device, &piece, bytes, NULL), STATUS_OK);
    char *last = (char *)piece + (4 << 20) - page;
    assert_int_equal(mincore(last, page, &held), 0);
    t.api->memory_free(t.device, piece, bytes);
    assert_int_equal(mincore(last, page, &held), -1);
    assert_int_equal(errno, ENOMEM); // the page is not mapped
    trial_close(&t);
}

// Reads the process's number of mapped pages and of threads.
static void process_now(uint64_t *pages, uint32_t *threads)
{
    char line[256];
    unsigned long long mapped = 0;
    *threads = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%llu", &mapped), 1);
    fclose(file);
    file = fopen("/proc/self/status", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, "Threads:", 8) == 0)
            *threads = (uint32_t)strtoul(line + 8, NULL, 10);
    fclose(file);
    *pages = mapped;
}

// Devices and streams that come and go leave neither memory nor threads, nor a user of
// the device slot: the remaining streams do not wait for one that was closed.
static void test_nothing_stays(void **state)
{
    (void)state;
    enum { LIVES = 40 };
    struct trial t;
    uint64_t before = 0, after;
    uint32_t threads_before = 0, threads;
    assert_true(trial_open_cpu(&t, CPU_PLAIN, 3));
    struct stream_limits limits = t.limits;
    trial_close(&t);
    for (uint32_t i = 0; i < LIVES; i++) {
        struct device *device;
        struct stream *stream, *other;
        void *piece;
        struct device_options options = {.threads = 3};
        if (i == 2) // the first lives fill the caches of the heap
            process_now(&before, &threads_before);
        assert_int_equal(device_cpu()->open(&device, &options, NULL), STATUS_OK);
        assert_int_equal(device_cpu()->stream_open(device, &stream, &limits, NULL), STATUS_OK);
        assert_int_equal(device_cpu()->stream_open(device, &other, &limits, NULL), STATUS_OK);
        device_cpu()->device_slot_announce(other, true);
        device_cpu()->stream_close(other); // it had announced a step
        for (int step = 0; step < 4; step++) {
            device_cpu()->device_slot_acquire(stream);
            device_cpu()->device_slot_release(stream);
        }
        assert_int_equal(device_cpu()->memory_alloc(device, &piece, 5 << 20, NULL), STATUS_OK);
        device_cpu()->memory_free(device, piece, 5 << 20);
        device_cpu()->stream_close(stream);
        device_cpu()->close(device);
    }
    process_now(&after, &threads);
    // a joined thread may still be exiting in the kernel
    for (int i = 0; i < 3000 && threads > threads_before; i++) {
        usleep(10000);
        process_now(&after, &threads);
    }
    assert_true(threads <= threads_before);
    assert_true(after < before + (uint64_t)LIVES * (1 << 20) / 4096);
}

// Memory that is allocated again is zeroed again.
static void test_memory_is_zero_again(void **state)
{
    (void)state;
    static const size_t sizes[] = {64, 1000, 100000, 3 << 20};
    struct trial t;
    assert_true(trial_open_cpu(&t, CPU_PLAIN, 1));
    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int again = 0; again < 3; again++) {
            void *at;
            assert_int_equal(t.api->memory_alloc(t.device, &at, sizes[i], NULL), STATUS_OK);
            for (size_t j = 0; j < sizes[i]; j++)
                assert_int_equal(((char *)at)[j], 0);
            memset(at, 7, sizes[i]);
            t.api->memory_free(t.device, at, sizes[i]);
        }
    trial_close(&t);
}

static void test_wait(void **state)
{
    (void)state;
    struct trial t;
    struct error err = {0};
    uint32_t word = 0xFFFFFFFE;
    assert_true(trial_open_cpu(&t, CPU_PLAIN, 1));
    assert_int_equal(t.api->wait(t.stream, &word, 0xFFFFFFFE, 0, &err), STATUS_OK);
    assert_int_equal(t.api->wait(t.stream, &word, 1, 0, &err), STATUS_TIMEOUT);
    assert_int_equal(t.api->signal(t.stream, &word, 2), STATUS_OK);
    assert_int_equal(t.api->wait(t.stream, &word, 1, 0, &err), STATUS_OK); // the counter wrapped
    struct graph *graph;
    assert_int_equal(t.api->graph_begin(t.stream), STATUS_UNSUPPORTED);
    assert_int_equal(t.api->graph_end(t.stream, &graph, &err), STATUS_UNSUPPORTED);
    trial_close(&t);
    struct device *device;
    struct device_options options = {.index = 1};
    assert_int_equal(t.api->open(&device, &options, &err), STATUS_NO_DEVICE);
}

static void test_plugin(void **state)
{
    (void)state;
    const struct device_api *api;
    struct error err = {0};
    assert_int_equal(device_plugin_open(&api, "no_such_device", NULL, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.text, "no_such_device"));
    assert_null(api);
    assert_int_equal(device_plugin_open(&api, "../evil", NULL, &err), STATUS_INVALID);
    assert_int_equal(device_plugin_open(&api, "", NULL, &err), STATUS_INVALID);
    assert_int_equal(device_plugin_open(&api, "cuda", "/nowhere/lib.so", &err), STATUS_NO_DEVICE);
    // an object that is no plugin
    assert_int_equal(device_plugin_open(&api, "cuda", "/proc/self/exe", &err), STATUS_NO_DEVICE);
}

// The library returns something else at each call.
static void test_plugin_answers(void **state)
{
    (void)state;
    const struct device_api *api = device_cpu();
    struct error err = {0};
    char path[4200], said[80];
    snprintf(said, sizeof said, "the odd device library has ABI %d, this weft %d", DEVICE_ABI + 1,
             DEVICE_ABI);
    assert_int_equal(device_plugin_open(&api, "odd", ODD_PLUGIN, &err), STATUS_NO_DEVICE);
    assert_string_equal(err.text, "the odd device library offers no device");
    assert_null(api);
    assert_int_equal(device_plugin_open(&api, "odd", ODD_PLUGIN, &err), STATUS_NO_DEVICE);
    assert_non_null(strstr(err.text, said));
    assert_null(api);
    assert_int_equal(device_plugin_open(&api, "odd", ODD_PLUGIN, &err), STATUS_OK);
    assert_string_equal(api->name, "odd");
    assert_int_equal(device_plugin_open(&api, "Odd", ODD_PLUGIN, &err), STATUS_INVALID);
    assert_string_equal(err.text, "'Odd' is not the name of a device");
    // A name without a slash is a file of the working directory, not one of the system's folders.
    assert_int_equal(device_plugin_open(&api, "odd", "libm.so.6", &err), STATUS_NO_DEVICE);
    assert_non_null(strstr(err.text, "./libm.so.6"));
    memset(path, 'x', sizeof path);
    path[sizeof path - 1] = '\0';
    assert_int_equal(device_plugin_open(&api, "odd", path, &err), STATUS_TOO_LARGE);
    assert_string_equal(err.text, "the device library's path is too long");
}

static void test_streams_are_refused(void **state)
{
    (void)state;
    struct device *device;
    struct stream *stream;
    struct error err = {0};
    struct device_options options = {.threads = 1};
    assert_int_equal(device_cpu()->open(&device, &options, &err), STATUS_OK);
    struct stream_limits limits = {
        .step = {.rows_max = 1, .tokens_max = 1, .blocks_max = 1},
        .attn = {.heads = 1, .kv_heads = 1, .dim = 256, .scale = 1, .causal = 1, .paged = 1},
        .width_max = 64,
        .layers = 1};
    assert_int_equal(device_cpu()->stream_open(device, &stream, &limits, &err), STATUS_OK);
    assert_int_equal(cpu_stream_steps(stream), 0);
    device_cpu()->device_slot_acquire(stream);
    device_cpu()->device_slot_release(stream);
    assert_int_equal(cpu_stream_steps(stream), 1);
    uint32_t word = 4;
    assert_int_equal(device_cpu()->wait(stream, &word, 5, 0, &err), STATUS_TIMEOUT);
    assert_string_equal(err.text,
                        "the cpu waits for signal 5 and has no work left (last signal: 4)");
    device_cpu()->stream_close(stream);
    limits.width_max = 0;
    assert_int_equal(device_cpu()->stream_open(device, &stream, &limits, &err), STATUS_UNSUPPORTED);
    assert_null(stream);
    limits.width_max = 64;
    limits.attn.dim = 257;
    assert_int_equal(device_cpu()->stream_open(device, &stream, &limits, &err), STATUS_UNSUPPORTED);
    assert_string_equal(err.text, "heads of 257 and products of width 64 are not supported; heads "
                                  "go up to 256");
    device_cpu()->stream_close(NULL);
    device_cpu()->close(device);
    device_cpu()->close(NULL);
    options.index = 1;
    assert_int_equal(device_cpu()->open(&device, &options, &err), STATUS_NO_DEVICE);
    assert_string_equal(err.text, "the cpu device has index 0, not 1");
    assert_null(device);
}

// The device uses the best ISA level of the processor. A device that falls back would be right but
// slow, and the tests of the other levels would be skipped.
static void test_the_best_level_is_taken(void **state)
{
    (void)state;
    struct device *device;
    struct device_options options = {.threads = 1};
    enum cpu_isa best = CPU_PLAIN;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        best = CPU_AVX2;
    if (best == CPU_AVX2 && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni"))
        best = CPU_AVX512;
    assert_int_equal(device_cpu()->open(&device, &options, NULL), STATUS_OK);
    assert_true(device->level >= best); // bf16 pairs and AMX depend on more than the processor
    device_cpu()->close(device);
    for (enum cpu_isa level = CPU_PLAIN; level <= best; level++) {
        assert_int_equal(cpu_device_open(&device, &options, level, NULL), STATUS_OK);
        assert_int_equal(device->level, level);
        device_cpu()->close(device);
    }
}

// A stream's scratch memory is divided into parts that are large enough for the ops; the last part
// ends within it.
static void test_scratch_is_large_enough(void **state)
{
    (void)state;
    static const struct {
        uint32_t threads, rows, tokens, blocks, dim, width, vocab;
    } cases[] = {{1, 4, 64, 4, 64, 200, 1000},
                 {3, 64, 640, 160, 256, 5120, 5000},
                 {5, 8, 1, 1, 16, 33, 7},
                 {2, 256, 2048, 2048, 128, 20000, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct device *device;
        struct stream *s;
        struct device_need need;
        struct device_options options = {.threads = cases[i].threads};
        struct stream_limits limits = {.step = {.rows_max = cases[i].rows,
                                                .tokens_max = cases[i].tokens,
                                                .blocks_max = cases[i].blocks,
                                                .vocab = cases[i].vocab},
                                       .attn = {.heads = 4,
                                                .kv_heads = 2,
                                                .dim = cases[i].dim,
                                                .scale = 1,
                                                .causal = 1,
                                                .paged = 1},
                                       .width_max = cases[i].width,
                                       .layers = 1};
        assert_int_equal(device_cpu()->open(&device, &options, NULL), STATUS_OK);
        assert_int_equal(device_cpu()->stream_open(device, &s, &limits, NULL), STATUS_OK);
        const char *panel = s->panel, *sums = (const char *)s->sums, *attn = (const char *)s->attn;
        const char *partial = (const char *)s->partial, *sample = (const char *)s->sample;
        size_t threads = cases[i].threads;
        size_t rows = cases[i].tokens < PANEL_ROWS ? cases[i].tokens : PANEL_ROWS;
        size_t usual = cases[i].width < 16384 ? cases[i].width : 16384;
        assert_true(s->panel_bytes >= (size_t)32 * cases[i].width * sizeof(uint16_t));
        assert_true(s->panel_bytes >= rows * usual * sizeof(uint16_t));
        assert_true((size_t)(sums - panel) >= s->panel_bytes);
        assert_true((size_t)(attn - sums) >=
                    threads * SLAB_GROUP * PANEL_ROWS * SLAB_COLUMNS * sizeof(float));
        assert_true(s->attn_floats >= attn_scratch_floats(cases[i].dim));
        assert_true((size_t)(partial - attn) >= threads * s->attn_floats * sizeof(float));
        size_t states = s->attn_capacity.partials * attn_state_floats(cases[i].dim);
        assert_true((size_t)(sample - partial) >= states * sizeof(float));
        assert_true(s->attn_capacity.partials <= threads * ATTN_PARTIALS);
        if (cases[i].blocks > 100) // more parts than the memory for them
            assert_int_equal(s->attn_capacity.partials, threads * ATTN_PARTIALS);
        assert_true((size_t)((const char *)s->scratch + s->scratch_bytes - sample) >=
                    threads * 3 * cases[i].vocab * sizeof(float));
        assert_int_equal(device_cpu()->need(device, &limits, &need, NULL), STATUS_OK);
        assert_int_equal(need.count, 3);
        assert_string_equal(need.entry[0].label, "scratch of products");
        assert_string_equal(need.entry[1].label, "scratch of attention");
        assert_string_equal(need.entry[2].label, "scratch of sampling");
        assert_int_equal(need.entry[0].bytes, attn - panel);
        assert_int_equal(need.entry[1].bytes, sample - attn);
        device_cpu()->stream_close(s);
        device_cpu()->close(device);
    }
}

// With few threads the token budget of a step is half a panel, with more threads a panel.
static void test_steps_follow_the_threads(void **state)
{
    (void)state;
    static const uint32_t cases[][2] = {{1, 256}, {7, 256}, {8, 512}, {9, 512}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct device *device;
        struct device_facts facts;
        struct device_options options = {.threads = cases[i][0]};
        assert_int_equal(device_cpu()->open(&device, &options, NULL), STATUS_OK);
        device_cpu()->facts(device, &facts);
        assert_int_equal(facts.step_tokens, cases[i][1]);
        device_cpu()->close(device);
    }
}

// The bytes of a weight: its elements, for products padded to slabs of 32 rows and to the depth of
// the type's packing; for int8 also a scale per group of K; rounded up to 256 bytes.
static void test_weights_have_bytes(void **state)
{
    (void)state;
    static const struct {
        struct weight_shape shape;
        size_t bytes;
    } cases[] = {
        {{.use = WEIGHT_VECTOR, .dtype = DTYPE_F32, .n = 64, .k = 1}, 256},
        {{.use = WEIGHT_VECTOR, .dtype = DTYPE_F32, .n = 65, .k = 1}, 512},
        {{.use = WEIGHT_ROWS, .dtype = DTYPE_F32, .n = 3, .k = 72}, 1024},
        {{.use = WEIGHT_ROWS, .dtype = DTYPE_F16, .n = 3, .k = 72}, 512},
        {{.use = WEIGHT_PRODUCT, .dtype = DTYPE_F32, .n = 32, .k = 72}, 32 * 72 * 4},
        {{.use = WEIGHT_PRODUCT, .dtype = DTYPE_F32, .n = 33, .k = 72}, 64 * 72 * 4},
        {{.use = WEIGHT_TIED, .dtype = DTYPE_F16, .n = 33, .k = 72}, 64 * 72 * 2},
        {{.use = WEIGHT_PRODUCT, .dtype = DTYPE_BF16, .n = 32, .k = 64}, 32 * 64 * 2},
        {{.use = WEIGHT_PRODUCT, .dtype = DTYPE_BF16, .n = 32, .k = 65}, 32 * 96 * 2},
        {{.use = WEIGHT_PRODUCT, .dtype = DTYPE_I8, .n = 32, .k = 64}, 32 * 64 + 256},
        {{.use = WEIGHT_PRODUCT, .dtype = DTYPE_I8, .n = 33, .k = 65}, 64 * 128 + 256},
        {{.use = WEIGHT_ROWS, .dtype = DTYPE_I8, .n = 32, .k = 72}, 32 * 128 + 256},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct weight_shape *shape = &cases[i].shape;
        size_t rows = (shape->n + 31) / 32 * 32, groups = (shape->k + BYTE_GROUP - 1) / BYTE_GROUP;
        size_t bytes = cases[i].bytes;
        if (shape->dtype == DTYPE_I8)
            bytes = (bytes - 256 + rows * groups * sizeof(float) + 255) / 256 * 256;
        assert_int_equal(cpu_weight_bytes(NULL, shape), bytes);
    }
}

static void test_layout(void **state)
{
    (void)state;
    struct step_limits l = {.rows_max = 3,
                            .tokens_max = 17,
                            .slots_max = 4,
                            .changes_max = 5,
                            .new_sequences_max = 2,
                            .history_max = 9,
                            .bias_max = 7};
    struct step_layout at;
    step_layout_init(&at, &l, 1000);
    size_t place[] = {256,        at.rows,          at.sampled, at.private_part, at.tokens,
                      at.changes, at.new_sequences, at.bias,    at.history,      at.bytes};
    size_t need[] = {3 * sizeof(struct step_row),
                     3 * sizeof(struct step_sampled),
                     1000,
                     68,
                     5 * sizeof(struct step_change),
                     2 * sizeof(struct step_new_sequence),
                     14 * sizeof(struct step_bias),
                     36};
    assert_int_equal(at.rows, 256);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(place[i + 2] % 256, 0);
        assert_true(place[i + 2] >= place[i + 1] + need[i]);
        assert_true(place[i + 2] < place[i + 1] + need[i] + 256);
    }
}

enum { VOCAB = 4099, ROWS = 7 };

static int32_t sampled_token(struct trial *t, const float *logits, uint32_t row, uint32_t rows)
{
    struct sample_params params[ROWS];
    struct step_sampled sampled[ROWS];
    uint32_t done[ROWS] = {0};
    int32_t last[ROWS];
    struct sample_result result[ROWS];
    float *copy = trial_heap(t, (size_t)rows * VOCAB * sizeof *copy);
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t from = rows == 1 ? row : i;
        memcpy(copy + (size_t)i * VOCAB, logits + (size_t)from * VOCAB, VOCAB * sizeof *copy);
        params[i] = (struct sample_params){
            .seed = 99 + from,
            .output_count = 5,
            .temperature = 1.3f,
            .repetition = 1,
            .top_p = from % 2 ? 0.9f : 1,
            .top_k = from % 3 ? 50 : 0,
            .penalty_row = STEP_NO_ROW,
        };
        sampled[i] = (struct step_sampled){i, i, i, STEP_NO_ROW};
    }
    struct sample_args args = {
        .logits = copy,
        .sampled = sampled,
        .state = {.last_token = last, .params = params, .done = done},
        .result = result,
        .limits = {.rows_max = ROWS, .vocab = VOCAB},
        .count = rows,
        .stride = VOCAB,
    };
    assert_int_equal(t->api->ops->sample(t->stream, &args), STATUS_OK);
    return result[rows == 1 ? 0 : row].token;
}

static void test_sample_alone(void **state)
{
    (void)state;
    for (int level = 0; level < CPU_ISA_COUNT; level++) {
        struct trial t;
        if (!trial_open_cpu(&t, (enum cpu_isa)level, 3))
            continue;
        trial_begin(&t, 9);
        float *logits = trial_floats(&t, (size_t)ROWS * VOCAB, DTYPE_F32, 2);
        for (uint32_t row = 0; row < ROWS; row++)
            assert_int_equal(sampled_token(&t, logits, row, ROWS),
                             sampled_token(&t, logits, row, 1));
        trial_close(&t);
    }
}

// Sampled tokens follow the softmax: chi-squared over 8 tokens, 4,000 draws with fixed seeds.
static void test_sample_distribution(void **state)
{
    (void)state;
    static const float logits[8] = {0, 1, -1, 0.5f, 2, -2, 0, 1.5f};
    struct trial t;
    enum { DRAWS = 4000 };
    assert_true(trial_open_cpu(&t, CPU_PLAIN, 1));
    double expected[8], whole = 0;
    uint32_t count[8] = {0};
    for (int i = 0; i < 8; i++)
        whole += expected[i] = __builtin_exp((double)logits[i]);
    for (uint32_t draw = 0; draw < DRAWS; draw++) {
        float copy[8];
        memcpy(copy, logits, sizeof copy);
        struct sample_params params = {.seed = 12345,
                                       .output_count = draw,
                                       .temperature = 1,
                                       .top_p = 1,
                                       .repetition = 1,
                                       .penalty_row = STEP_NO_ROW};
        struct step_sampled sampled = {0, 0, 0, STEP_NO_ROW};
        struct sample_result result;
        uint32_t done = 0;
        int32_t last;
        struct sample_args args = {
            .logits = copy,
            .sampled = &sampled,
            .state = {.last_token = &last, .params = &params, .done = &done},
            .result = &result,
            .limits = {.rows_max = 1, .vocab = 8},
            .count = 1,
            .stride = 8,
        };
        assert_int_equal(t.api->ops->sample(t.stream, &args), STATUS_OK);
        count[result.token]++;
    }
    double chi = 0;
    for (int i = 0; i < 8; i++) {
        double want = expected[i] / whole * DRAWS;
        chi += (count[i] - want) * (count[i] - want) / want;
    }
    assert_true(chi < 24.3); // 7 degrees of freedom, probability 0.001
    trial_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_facts),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_memory_goes),
        cmocka_unit_test(test_nothing_stays),
        cmocka_unit_test(test_memory_is_zero_again),
        cmocka_unit_test(test_wait),
        cmocka_unit_test(test_plugin),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_plugin_answers),
        cmocka_unit_test(test_streams_are_refused),
        cmocka_unit_test(test_the_best_level_is_taken),
        cmocka_unit_test(test_scratch_is_large_enough),
        cmocka_unit_test(test_steps_follow_the_threads),
        cmocka_unit_test(test_weights_have_bytes),
        cmocka_unit_test(test_sample_alone),
        cmocka_unit_test(test_sample_distribution),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
