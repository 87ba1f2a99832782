// The device contract on the cpu: facts, need against what a stream takes, memory, waiting, plugins
// that are not there, the step layout, and that a sampled token does not depend on the batch.
#include "tests/conformance/trial.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
// cmocka wants some of the above first
#include <cmocka.h>

static void test_facts(void **state)
{
    (void)state;
    struct trial t;
    assert_true(trial_open_cpu(&t, CPU_PLAIN, 2));
    assert_int_equal(t.facts.steps_in_flight, 0);
    assert_false(t.facts.graphs);
    assert_true(t.facts.exact);
    assert_true(t.facts.memory_free > 1 << 20);
    assert_non_null(strstr(t.facts.name, "2 threads"));
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
    assert_int_equal(t.api->memory_take(t.device, &none, (size_t)1 << 60, &err), STATUS_NO_MEMORY);
    assert_null(none);
    trial_close(&t);
}

// Large pieces use huge pages: nothing of the last page stays mapped when a piece is given back.
static void test_memory_goes(void **state)
{
    (void)state;
    size_t bytes = (2 << 20) + 1, page = (size_t)sysconf(_SC_PAGESIZE);
    struct trial t;
    void *piece;
    unsigned char held;
    assert_true(trial_open_cpu(&t, CPU_PLAIN, 1));
    assert_int_equal(t.api->memory_take(t.device, &piece, bytes, NULL), STATUS_OK);
    char *last = (char *)piece + (4 << 20) - page;
    assert_int_equal(mincore(last, page, &held), 0);
    t.api->memory_give(t.device, piece, bytes);
    assert_int_equal(mincore(last, page, &held), -1);
    assert_int_equal(errno, ENOMEM); // it is not mapped
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
    assert_int_equal(t.api->wait(t.stream, &word, 1, 0, &err), STATUS_OK); // it wrapped
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
    // a library that is no plugin
    assert_int_equal(device_plugin_open(&api, "cuda", "/proc/self/exe", &err), STATUS_NO_DEVICE);
}

static void test_layout(void **state)
{
    (void)state;
    struct step_limits l = {.rows_max = 3,
                            .tokens_max = 17,
                            .slots_max = 4,
                            .changes_max = 5,
                            .admits_max = 2,
                            .history_max = 9,
                            .bias_max = 7};
    struct step_layout at;
    step_layout_init(&at, &l, 1000);
    size_t place[] = {256,     at.rows,         at.sampled, at.changes, at.admits,
                      at.bias, at.private_part, at.history, at.tokens,  at.bytes};
    size_t need[] = {3 * sizeof(struct step_row),
                     3 * sizeof(struct step_sampled),
                     5 * sizeof(struct step_change),
                     2 * sizeof(struct step_admit),
                     14 * sizeof(struct step_bias),
                     1000,
                     36,
                     68};
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
    for (int level = 0; level < CPU_LEVELS; level++) {
        struct trial t;
        if (!trial_open_cpu(&t, (enum cpu_level)level, 3))
            continue;
        trial_begin(&t, 9);
        float *logits = trial_floats(&t, (size_t)ROWS * VOCAB, DTYPE_F32, 2);
        for (uint32_t row = 0; row < ROWS; row++)
            assert_int_equal(sampled_token(&t, logits, row, ROWS),
                             sampled_token(&t, logits, row, 1));
        trial_close(&t);
    }
}

// Drawn tokens follow the softmax: chi-squared over 8 tokens, 4,000 draws with fixed seeds.
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
    assert_true(chi < 24.3); // 7 degrees of freedom, one in a thousand
    trial_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_facts),        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_memory_goes),  cmocka_unit_test(test_wait),
        cmocka_unit_test(test_plugin),       cmocka_unit_test(test_layout),
        cmocka_unit_test(test_sample_alone), cmocka_unit_test(test_sample_distribution),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
