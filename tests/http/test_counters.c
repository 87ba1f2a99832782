// SPDX-License-Identifier: Apache-2.0
// Values counted for /metrics, on the functions themselves: the bucket of each value, the
// histograms of a request's times and tokens, and its end. No server runs.
#include "http/internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/http/port_double.h"

enum { WINDOW = 1000, MODELS = 2, ALL_COPIES = 3, SERVED = 2 };

static const struct model_facts facts = {.kind = MODEL_GENERATOR, .max_model_len = WINDOW};
static const struct served_copy copies[ALL_COPIES];
static const struct served_model served_models[MODELS] = {
    {.id = "a", .facts = &facts, .copies = copies, .copy_count = 1},
    {.id = "b", .facts = &facts, .copies = copies + 1, .copy_count = 2}};
static const struct served_copy copies[ALL_COPIES] = {{0, .model = &served_models[0]},
                                                      {1, .model = &served_models[1]},
                                                      {2, .model = &served_models[1]}};
static const struct served served = {
    .models = served_models, .count = MODELS, .copies = copies, .copy_count = ALL_COPIES};
static struct http_thread thread;
static struct model_counters models[ALL_COPIES];
static struct exchange x; // served by the copy SERVED

static int fresh(void **state)
{
    (void)state;
    memset(&thread, 0, sizeof thread);
    memset(models, 0, sizeof models);
    memset(&x, 0, sizeof x);
    thread.counters.copies = models;
    x.thread = &thread;
    x.info.served = &served;
    x.engine.model = &served_models[1];
    x.engine.copy = &copies[SERVED];
    return 0;
}

static uint64_t sum(enum histogram_id id)
{
    return models[SERVED].histograms[id].sum;
}

static uint64_t count(enum histogram_id id)
{
    uint64_t all = 0;
    for (int i = 0; i <= HISTOGRAM_BUCKETS_MAX; i++)
        all += models[SERVED].histograms[id].bucket[i];
    return all;
}

static void recorded(enum histogram_id id, uint64_t times, uint64_t whole)
{
    if (count(id) != times || sum(id) != whole)
        fail_msg("%s: %llu times %llu", histogram_name(id), (unsigned long long)count(id),
                 (unsigned long long)sum(id));
}

// A value equal to a bound is in that bucket; one above the last bound is in the bucket without a
// bound.
static void test_edges_belong_to_the_bucket_below(void **state)
{
    (void)state;
    for (int id = 0; id < HISTOGRAM_COUNT; id++) {
        double bounds[HISTOGRAM_BUCKETS_MAX];
        uint32_t n = histogram_bounds((enum histogram_id)id, WINDOW, bounds);
        double unit = histogram_in_seconds((enum histogram_id)id) ? 1e9 : 1;
        for (uint32_t b = 0; b < n; b++) {
            struct histogram h = {0};
            uint64_t edge = (uint64_t)(bounds[b] * unit + 0.5);
            histogram_add(&h, (enum histogram_id)id, WINDOW, edge);
            histogram_add(&h, (enum histogram_id)id, WINDOW, edge + 1);
            assert_int_equal(h.bucket[b], 1);
            assert_int_equal(h.bucket[b + 1], 1);
            assert_int_equal(h.sum, 2 * edge + 1);
            if (b > 0)
                assert_true(bounds[b - 1] < bounds[b]);
        }
    }
}

// Bounds as dashboards for vLLM expect them; token counts end at the window.
static void test_bounds(void **state)
{
    static const struct {
        enum histogram_id id;
        uint32_t count;
        double first, second, last;
        bool seconds;
    } wanted[] = {
        {HISTOGRAM_TTFT, 22, .001, .005, 2560, true},
        {HISTOGRAM_TOKENIZE, 22, .001, .005, 2560, true},
        {HISTOGRAM_INTER_TOKEN, 19, .01, .025, 80, true},
        {HISTOGRAM_PER_OUTPUT_TOKEN, 19, .01, .025, 80, true},
        {HISTOGRAM_E2E, 21, .3, .5, 7680, true},
        {HISTOGRAM_QUEUE, 21, .3, .5, 7680, true},
        {HISTOGRAM_INFERENCE, 21, .3, .5, 7680, true},
        {HISTOGRAM_PREFILL, 21, .3, .5, 7680, true},
        {HISTOGRAM_DECODE, 21, .3, .5, 7680, true},
        {HISTOGRAM_PROMPT_TOKENS, 10, 1, 2, WINDOW, false},
        {HISTOGRAM_GENERATION_TOKENS, 10, 1, 2, WINDOW, false},
        {HISTOGRAM_GENERATION_TOKENS_MAX, 10, 1, 2, WINDOW, false},
        {HISTOGRAM_PARAMS_MAX_TOKENS, 10, 1, 2, WINDOW, false},
        {HISTOGRAM_PREFILL_COMPUTED, 10, 1, 2, WINDOW, false},
        {HISTOGRAM_PARAMS_N, 6, 0, 1, 20, false},
        {HISTOGRAM_PREEMPTIONS, 6, 0, 1, 20, false},
    };
    (void)state;
    assert_int_equal(sizeof wanted / sizeof *wanted, HISTOGRAM_COUNT);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        double bounds[HISTOGRAM_BUCKETS_MAX];
        uint32_t n = histogram_bounds(wanted[i].id, WINDOW, bounds);
        if (n != wanted[i].count || bounds[0] != wanted[i].first || bounds[1] != wanted[i].second ||
            bounds[n - 1] != wanted[i].last ||
            histogram_in_seconds(wanted[i].id) != wanted[i].seconds)
            fail_msg("%s: %u bounds, %g %g to %g", histogram_name(wanted[i].id), n, bounds[0],
                     bounds[1], bounds[n - 1]);
    }
}

static void test_times_of_a_request(void **state)
{
    (void)state;
    x.info.started_ns = 60;
    x.engine.facts = (struct request_facts){.prompt_tokens = 50,
                                            .cached_tokens = 20,
                                            .preemptions = 3,
                                            .submitted_ns = 100,
                                            .started_ns = 400,
                                            .first_token_ns = 1000,
                                            .finished_ns = 5000};
    x.counts.tokens_out = 5;
    x.counts.tokens_max = 7;
    counters_request_done(&x);
    recorded(HISTOGRAM_TTFT, 1, 940);
    recorded(HISTOGRAM_QUEUE, 1, 300);
    recorded(HISTOGRAM_PREFILL, 1, 600);
    recorded(HISTOGRAM_DECODE, 1, 4000);
    recorded(HISTOGRAM_INFERENCE, 1, 4600);
    recorded(HISTOGRAM_PER_OUTPUT_TOKEN, 1, 1000); // four intervals
    recorded(HISTOGRAM_INTER_TOKEN, 4, 4000);
    recorded(HISTOGRAM_PROMPT_TOKENS, 1, 50);
    recorded(HISTOGRAM_PREFILL_COMPUTED, 1, 30);
    recorded(HISTOGRAM_PREEMPTIONS, 1, 3);
    recorded(HISTOGRAM_GENERATION_TOKENS_MAX, 1, 7);
    assert_int_equal(count(HISTOGRAM_E2E), 1);
    assert_in_range(sum(HISTOGRAM_E2E), 1, clock_ns() - 60);
    for (int id = 0; id < HISTOGRAM_COUNT; id++)
        assert_int_equal(models[0].histograms[id].sum, 0); // the other model
}

// An event that did not happen records no time; a single token has no interval.
static void test_times_that_are_none(void **state)
{
    (void)state;
    x.info.started_ns = 60;
    x.engine.facts =
        (struct request_facts){.prompt_tokens = 50, .submitted_ns = 100, .finished_ns = 90};
    counters_request_done(&x);
    recorded(HISTOGRAM_TTFT, 0, 0);
    recorded(HISTOGRAM_QUEUE, 0, 0);
    recorded(HISTOGRAM_PREFILL, 0, 0);
    recorded(HISTOGRAM_DECODE, 0, 0);
    recorded(HISTOGRAM_INFERENCE, 0, 0);
    recorded(HISTOGRAM_PER_OUTPUT_TOKEN, 0, 0);
    recorded(HISTOGRAM_GENERATION_TOKENS_MAX, 0, 0);
    recorded(HISTOGRAM_PREFILL_COMPUTED, 1, 50);
    fresh(NULL);
    x.engine.facts =
        (struct request_facts){.started_ns = 1, .first_token_ns = 10, .finished_ns = 30};
    x.counts.tokens_out = 1;
    counters_request_done(&x);
    recorded(HISTOGRAM_PER_OUTPUT_TOKEN, 0, 0);
    recorded(HISTOGRAM_INTER_TOKEN, 0, 0);
    recorded(HISTOGRAM_DECODE, 1, 20);
    fresh(NULL); // two of four intervals were recorded while the tokens arrived
    x.engine.facts = (struct request_facts){.first_token_ns = 10, .finished_ns = 410};
    x.counts.tokens_out = 5;
    x.counts.intervals = 2;
    counters_request_done(&x);
    recorded(HISTOGRAM_INTER_TOKEN, 2, 200);
}

static void test_tokens_as_they_come(void **state)
{
    (void)state;
    counters_tokens(&x, 2); // the first token: no interval
    recorded(HISTOGRAM_INTER_TOKEN, 0, 0);
    assert_int_equal(x.counts.tokens_out, 2);
    uint64_t first = x.counts.token_ns;
    assert_true(first != 0);
    counters_tokens(&x, 0);
    assert_int_equal(x.counts.token_ns, first);
    x.counts.token_ns = 1; // long ago
    counters_tokens(&x, 3);
    assert_int_equal(count(HISTOGRAM_INTER_TOKEN), 3);
    assert_int_equal(x.counts.intervals, 3);
    assert_int_equal(x.counts.tokens_out, 5);
    uint64_t shared = sum(HISTOGRAM_INTER_TOKEN); // the time since the last tokens, once
    assert_in_range(shared, first - 1 - 3, x.counts.token_ns);
}

// Four choices decode together: tokens of one step have no interval between them; each choice has
// its own intervals.
static void test_tokens_of_several_choices(void **state)
{
    (void)state;
    counters_params(&x, 4, 4, 16);
    x.counts.tokens_out = 4; // the first token of each
    x.counts.token_ns = 1;   // long ago
    uint64_t before = clock_ns();
    counters_tokens(&x, 8); // two steps
    assert_int_equal(count(HISTOGRAM_INTER_TOKEN), 8);
    assert_in_range(sum(HISTOGRAM_INTER_TOKEN), 4 * (before - 1) - 8, 4 * x.counts.token_ns);
    fresh(NULL); // first tokens that arrive one after the other end no interval
    counters_params(&x, 4, 4, 16);
    counters_tokens(&x, 1);
    counters_tokens(&x, 2);
    assert_int_equal(count(HISTOGRAM_INTER_TOKEN), 0);
    counters_tokens(&x, 3);
    assert_int_equal(count(HISTOGRAM_INTER_TOKEN), 2);
    counters_tokens(&x, 4);
    assert_int_equal(count(HISTOGRAM_INTER_TOKEN), 6);
    assert_int_equal(x.counts.intervals, 6);
    fresh(NULL);
    counters_params(&x, 4, 4, 16);
    x.engine.facts = (struct request_facts){.first_token_ns = 1000, .finished_ns = 7000};
    x.counts.tokens_out = 12; // three of each choice: two intervals
    counters_request_done(&x);
    recorded(HISTOGRAM_PER_OUTPUT_TOKEN, 1, 3000);
    recorded(HISTOGRAM_INTER_TOKEN, 8, 24000);
}

static void test_parameters(void **state)
{
    (void)state;
    counters_params(&x, 2, 2, 16);
    recorded(HISTOGRAM_PARAMS_N, 1, 2);
    recorded(HISTOGRAM_PARAMS_MAX_TOKENS, 1, 16);
    counters_tokenized(&x, 5000);
    recorded(HISTOGRAM_TOKENIZE, 1, 5000);
    counters_refused(&x);
    assert_int_equal(models[SERVED].refused_busy, 1);
    counters_fields_ignored(&x, 3);
    counters_fields_ignored(&x, 2);
    assert_int_equal(thread.counters.fields_ignored, 5);
}

static void test_ends(void **state)
{
    (void)state;
    counters_finish(&x, COUNTED_STOP, 4);
    counters_finish(&x, COUNTED_LENGTH, 9);
    counters_finish(&x, COUNTED_ERROR, 0);
    recorded(HISTOGRAM_GENERATION_TOKENS, 3, 13);
    assert_int_equal(x.counts.tokens_max, 9);
    assert_int_equal(x.counts.tokens_answered, 13);
    counters_finish(&x, COUNTED_POOLED, 7); // has no output tokens
    recorded(HISTOGRAM_GENERATION_TOKENS, 3, 13);
    assert_int_equal(x.counts.tokens_answered, 13);
    for (int i = 0; i < COUNTED_FINISH_COUNT; i++)
        assert_int_equal(models[SERVED].finished[i], i != COUNTED_ABORT);
}

// A request is counted once, for its route, by the last of its choices' reasons in the order of the
// enum; without a finished choice it is not counted.
static void test_requests_by_reason(void **state)
{
    static const struct {
        enum counted_finish of[3];
        uint32_t count;
        enum counted_finish wanted;
    } requests[] = {
        {{COUNTED_STOP}, 1, COUNTED_STOP},
        {{COUNTED_LENGTH, COUNTED_STOP}, 2, COUNTED_LENGTH},
        {{COUNTED_STOP, COUNTED_ABORT, COUNTED_LENGTH}, 3, COUNTED_ABORT},
        {{COUNTED_ERROR, COUNTED_ABORT}, 2, COUNTED_ERROR},
        {{COUNTED_POOLED}, 1, COUNTED_POOLED},
        {{COUNTED_STOP}, 0, COUNTED_FINISH_COUNT},
    };
    (void)state;
    for (uint32_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        fresh(NULL);
        x.route_index = i;
        for (uint32_t k = 0; k < requests[i].count; k++)
            counters_finish(&x, requests[i].of[k], 1);
        counters_request_finished(&x);
        for (uint32_t row = 0; row <= ROUTES_MAX; row++)
            for (int f = 0; f < COUNTED_FINISH_COUNT; f++)
                assert_int_equal(models[SERVED].requests_finished[row][f],
                                 row == i && f == (int)requests[i].wanted);
    }
}

static void test_who_leaves_is_an_abort(void **state)
{
    static const struct http_failure broken = {.error = HTTP_INTERNAL},
                                     ending = {.error = HTTP_UNAVAILABLE};
    (void)state;
    counters_gone(&x, 2);
    x.cut_with = &ending;
    counters_gone(&x, 2);
    assert_int_equal(models[SERVED].finished[COUNTED_ABORT], 2);
    assert_int_equal(models[SERVED].finished[COUNTED_ERROR], 0);
    x.cut_with = &broken;
    counters_gone(&x, 2);
    assert_int_equal(models[SERVED].finished[COUNTED_ABORT], 2);
    assert_int_equal(models[SERVED].finished[COUNTED_ERROR], 1);
}

// Without a model, or before the models are served, nothing is counted.
static void test_nothing_without_a_model(void **state)
{
    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        fresh(NULL);
        if (turn == 0)
            x.engine.copy = NULL;
        else
            thread.counters.copies = NULL;
        counters_params(&x, 1, 1, 1);
        counters_tokens(&x, 3);
        counters_finish(&x, COUNTED_STOP, 3);
        counters_gone(&x, 3);
        counters_tokenized(&x, 3);
        counters_refused(&x);
        counters_request_done(&x);
        counters_request_finished(&x);
        assert_int_equal(x.counts.tokens_out, 0);
        assert_int_equal(x.counts.tokens_answered, 0);
        assert_int_equal(models[SERVED].finished[COUNTED_STOP], 0);
    }
}

static void test_answers_of_a_route(void **state)
{
    static const struct {
        int status;
        bool left;
        int class;
    } answers[] = {{200, false, 2}, {204, false, 2},          {404, false, 4},
                   {503, false, 5}, {200, true, STATUS_GONE}, {599, false, 5}};
    h2o_req_t req = {.entity = {.len = 11}, .bytes_sent = 13};
    struct answer answer = {.req = &req, .x = &x};
    uint64_t classes[STATUS_CLASSES] = {0};
    (void)state;
    x.answer = &answer;
    x.route_index = 3;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        x.reply = REPLY_ENDED;
        x.response.status = answers[i].status;
        x.client = answers[i].left ? CLIENT_GONE : CLIENT_WAITS;
        x.info.started_ns = clock_ns();
        counters_answered(&x);
        classes[answers[i].class]++;
    }
    const struct route_counters *route = &thread.counters.routes[3];
    for (int i = 0; i < STATUS_CLASSES; i++)
        assert_int_equal(route->requests[i], classes[i]);
    assert_int_equal(route->bytes_in, 6 * 11);
    assert_int_equal(route->bytes_out, 6 * 13);
    assert_int_equal(route->seconds.bucket[0], 6);
    assert_in_range(route->seconds.sum, 6, 6000000000);
}

// The slowest loop determines the view.
static void test_view_of_the_server(void **state)
{
    struct http_thread threads[3] = {0};
    struct server server = {.threads = threads, .thread_count = 3, .started_unix = 77};
    struct server_view view;
    (void)state;
    for (int i = 0; i < 3; i++) {
        threads[i].server = &server;
        threads[i].beat_ns = (uint64_t[]){50, 20, 90}[i];
    }
    server.routes.count = 5;
    server.served = &served;
    x.thread = &threads[2];
    server_view_get(&x, &view);
    assert_int_equal(view.beat_oldest_ns, 20);
    assert_int_equal(view.thread_count, 3);
    assert_int_equal(view.started_unix, 77);
    assert_int_equal(view.route_count, 5);
    assert_ptr_equal(view.served, &served);
    assert_false(view.draining);
    assert_false(view.vllm_metrics);
    threads[2].drain_ns = 1;
    server.options.vllm_metrics = true;
    server_view_get(&x, &view);
    assert_true(view.draining);
    assert_true(view.vllm_metrics);
    assert_ptr_equal(server_counters(&x, 1), &threads[1].counters);
}

#define TEST(name) cmocka_unit_test_setup(name, fresh)

// Equal copies are used round-robin across all h2o threads, separately for each model.
static void test_copies_take_turns_over_all_threads(void **state)
{
    (void)state;
    enum { THREADS = 2, COPIES = 2, ALL = 3 }; // the second model has one copy
    struct served_model own[] = {{.facts = &facts, .copy_count = COPIES},
                                 {.facts = &facts, .copy_count = 1}};
    struct served_copy all[ALL] = {
        {0, .model = &own[0]}, {1, .model = &own[0]}, {2, .model = &own[1]}};
    struct served both = {.models = own, .count = 2, .copies = all, .copy_count = ALL};
    _Atomic(struct port *) ports[ALL * THREADS];
    struct engine *engines[ALL];
    struct server server = {.thread_count = THREADS, .ports = ports, .slot_count = ALL};
    struct http_thread threads[THREADS] = {{.server = &server}, {.server = &server, .index = 1}};
    own[0].copies = &all[0];
    own[1].copies = &all[COPIES];
    for (uint32_t i = 0; i < ALL; i++) {
        engines[i] = engine_double_open(&facts);
        for (uint32_t t = 0; t < THREADS; t++)
            ports[i * THREADS + t] = port_double_open(NULL, engines[i]);
    }
    for (uint32_t i = 0; i < 8; i++) {
        struct exchange one = {.thread = &threads[i / 2 % THREADS], .info.served = &both};
        struct exchange other = one;
        struct submit_args args = {.token_count = 1};
        assert_non_null(exchange_port(&one, &own[0], &args));
        assert_ptr_equal(one.engine.copy, &all[i % COPIES]);
        uint32_t next = (i + 1) % COPIES; // the first copy refuses
        assert_ptr_equal(exchange_port(&one, &own[0], &args),
                         ports[next * THREADS + i / 2 % THREADS]);
        assert_ptr_equal(one.engine.copy, &all[next]);
        assert_null(exchange_port(&one, &own[0], &args)); // all were tried
        assert_non_null(exchange_port(&other, &own[1], &args));
    }
    for (uint32_t i = 0; i < ALL * THREADS; i++)
        port_double_close(ports[i]);
    for (uint32_t i = 0; i < ALL; i++)
        engine_double_close(engines[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_edges_belong_to_the_bucket_below),
        TEST(test_bounds),
        TEST(test_times_of_a_request),
        TEST(test_times_that_are_none),
        TEST(test_tokens_as_they_come),
        TEST(test_tokens_of_several_choices),
        TEST(test_parameters),
        TEST(test_ends),
        TEST(test_requests_by_reason),
        TEST(test_who_leaves_is_an_abort),
        TEST(test_nothing_without_a_model),
        TEST(test_answers_of_a_route),
        TEST(test_view_of_the_server),
        TEST(test_copies_take_turns_over_all_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
