// SPDX-License-Identifier: Apache-2.0
// Values on /metrics: each number of a server is set to a known value and read under each of its
// names. Format of the page: tests/e2e/test_metrics.py.
#include "http/internal.h"
#include "tests/http/fixture.h"

#include "base/clock.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { TRIES = 20000 };

static struct fixture fixture;
static struct http_answer page;

static void page_get_of(const char *path)
{
    http_answer_free(&page);
    assert_true(http_once(fixture.port, "GET", path, NULL, NULL, &page));
    assert_int_equal(page.status, 200);
}

static void page_get(void)
{
    page_get_of("/metrics");
}

// Returns the text after a series' name, or NULL if absent. Fails if the series appears twice.
static const char *value_at(const char *series)
{
    size_t bytes = strlen(series);
    const char *found = NULL;
    for (const char *line = page.body; line; line = strchr(line, '\n')) {
        line += line != page.body;
        if (strncmp(line, series, bytes) != 0 || line[bytes] != ' ')
            continue;
        if (found)
            fail_msg("%s stands twice", series);
        found = line + bytes + 1;
    }
    return found;
}

static double value(const char *series)
{
    const char *at = value_at(series);
    if (!at)
        fail_msg("no %s", series);
    return strtod(at, NULL);
}

static void is(const char *series, double wanted)
{
    double got = value(series);
    if (got != wanted)
        fail_msg("%s is %.10g, not %.10g", series, got, wanted);
}

#define CHAT "{model_name=\"org/qwen-x\",engine=\"0\""
#define EMBED "{model_name=\"embed\",engine=\"1\""

struct stat_case {
    const char *name;
    size_t offset;
};
#define STAT(name, field) {name, offsetof(struct engine_stats, field)}

// Each statistic of an engine appears under its own name and its model's label.
static void test_statistics_of_engines(void **state)
{
    static const struct stat_case ours[] = {
        STAT("steps_total", steps),
        STAT("steps_decode_only_total", steps_decode_only),
        STAT("rows_total", rows),
        STAT("tokens_computed_total", tokens_computed),
        STAT("prompt_tokens_total", prompt_tokens),
        STAT("generation_tokens_total", generation_tokens),
        STAT("prefix_cache_queries_total", prefix_queries),
        STAT("prefix_cache_hits_total", prefix_hits),
        STAT("preemptions_total", preemptions),
        STAT("pauses_total", pauses),
        STAT("parked_total", parked),
        STAT("rows_after_cancel_total", rows_after_cancel),
        STAT("requests_submitted_total", requests_submitted),
        STAT("sequences_running", sequences_running),
        STAT("sequences_waiting", sequences_waiting),
        STAT("sequences_parked", sequences_parked),
        STAT("kv_blocks", blocks_total),
        STAT("kv_blocks_used", blocks_used),
        STAT("kv_blocks_cached", blocks_cached),
        STAT("kv_events_lost_total", kv_events_lost),
        STAT("engine_failed", failed),
        STAT("steps_masked_total", steps_masked),
        STAT("masks_alone_total", masks_alone),
        STAT("mask_waits_total", mask_waits),
        STAT("mask_rows_total", mask_rows),
        STAT("masks_postponed_total", masks_postponed),
        STAT("masks_computed_total", masks_computed),
        STAT("masks_reused_total", masks_reused),
        STAT("masks_forgotten_total", masks_forgotten),
        STAT("mask_caches", mask_caches),
        STAT("mask_cache_bytes", mask_cache_bytes),
        STAT("grammars_stuck_total", grammars_stuck),
        STAT("grammars_over_total", grammars_over),
        STAT("grammars_crowded_total", grammars_crowded),
        STAT("grammars_given_up_total", grammars_given_up),
    };
    static const struct stat_case vllm[] = {
        STAT("num_requests_running", sequences_running),
        STAT("num_requests_waiting", sequences_waiting),
        STAT("prompt_tokens_total", prompt_tokens),
        STAT("generation_tokens_total", generation_tokens),
        STAT("num_preemptions_total", preemptions),
        STAT("prefix_cache_queries_total", prefix_queries),
        STAT("prefix_cache_hits_total", prefix_hits),
        STAT("gpu_prefix_cache_queries_total", prefix_queries),
        STAT("gpu_prefix_cache_hits_total", prefix_hits),
    };
    enum { OURS = sizeof ours / sizeof *ours, VLLM = sizeof vllm / sizeof *vllm };
    char series[128];
    (void)state;
    struct engine *other = engine_double_open(fixture.models[1].facts);
    char *stats[2] = {(char *)engine_double_stats(fixture.engine),
                      (char *)engine_double_stats(other)};
    fixture.copies[1].engine = other;
    for (int i = 0; i < OURS; i++)
        for (int m = 0; m < 2; m++)
            *(_Atomic uint64_t *)(stats[m] + ours[i].offset) = (uint64_t)(100 * m + i + 1);
    page_get();
    for (int i = 0; i < OURS; i++) {
        snprintf(series, sizeof series, "weft_%s" CHAT "}", ours[i].name);
        is(series, i + 1);
        snprintf(series, sizeof series, "weft_%s" EMBED "}", ours[i].name);
        is(series, 100 + i + 1);
    }
    for (int i = 0; i < VLLM; i++) {
        snprintf(series, sizeof series, "vllm:%s" CHAT "}", vllm[i].name);
        is(series, (double)*(_Atomic uint64_t *)(stats[0] + vllm[i].offset));
        snprintf(series, sizeof series, "vllm:%s" EMBED "}", vllm[i].name);
        assert_null(value_at(series)); // only for generators
    }
    engine_double_stats(fixture.engine)->mask_wait_ns = 2500000000;
    page_get();
    is("weft_mask_wait_seconds_total" CHAT "}", 2.5);
    is("te_queue_size" EMBED "}", 100 + 15);
    assert_null(value_at("te_queue_size" CHAT "}"));
    is("vllm:kv_cache_usage_perc" CHAT "}", 18.0 / 17.0);
    is("vllm:gpu_cache_usage_perc" CHAT "}", 18.0 / 17.0);
    engine_double_stats(fixture.engine)->blocks_total = 0;
    page_get();
    is("vllm:kv_cache_usage_perc" CHAT "}", 0);
    is("vllm:cache_config_info" CHAT ",block_size=\"64\",num_gpu_blocks=\"10\"}", 1);
    for (int i = 0; i < OURS; i++)
        *(_Atomic uint64_t *)(stats[0] + ours[i].offset) = 0;
    fixture.copies[1].engine = fixture.engine;
    engine_double_close(other);
}

// Each copy of a model has its own values, under the model's name.
static void test_copies_have_their_own_numbers(void **state)
{
    (void)state;
    struct engine *other = engine_double_open(fixture.models[0].facts);
    const struct served_copy kept = fixture.copies[1];
    const char *series[] = {"weft_preemptions_total{model_name=\"org/qwen-x\",engine=\"0\"}",
                            "weft_preemptions_total{model_name=\"org/qwen-x\",engine=\"1\"}",
                            "vllm:num_preemptions_total{model_name=\"org/qwen-x\",engine=\"1\"}"};
    struct model_facts larger = *fixture.models[0].facts;
    struct served_model second = fixture.models[0];
    larger.block_count = 20;
    second.facts = &larger;
    fixture.copies[1].model = &second;
    fixture.copies[1].engine = other;
    fixture.models[0].copy_count = 2;
    fixture.served.count = 1;
    engine_double_stats(fixture.engine)->preemptions = 3;
    engine_double_stats(other)->preemptions = 7;
    page_get();
    is(series[0], 3);
    is(series[1], 7);
    is(series[2], 7);
    is("vllm:cache_config_info" CHAT ",block_size=\"64\",num_gpu_blocks=\"10\"}", 1);
    is("vllm:cache_config_info{model_name=\"org/qwen-x\",engine=\"1\",block_size=\"64\","
       "num_gpu_blocks=\"20\"}",
       1);
    is("weft_requests_refused_total{model_name=\"org/qwen-x\",engine=\"1\"}", 0);
    engine_double_stats(fixture.engine)->preemptions = 0;
    fixture.copies[1] = kept;
    fixture.models[0].copy_count = 1;
    fixture.served.count = 2;
    engine_double_close(other);
}

// Step sizes are cumulative, and their sum is the engine's.
static void test_sizes_of_steps(void **state)
{
    (void)state;
    struct engine_stats *stats = engine_double_stats(fixture.engine);
    stats->steps_by_rows[step_bucket(1)] = 3;
    stats->steps_by_rows[step_bucket(4)] = 2;
    stats->steps_by_tokens[step_bucket(2)] = 5;
    stats->rows = 11;
    stats->tokens_computed = 13;
    page_get();
    static const char *const names[][3] = {
        {"weft_step_rows_bucket" CHAT, "weft_step_rows_sum" CHAT "}",
         "weft_step_rows_count" CHAT "}"},
        {"te_batch_next_size_bucket" EMBED, "te_batch_next_size_sum" EMBED "}",
         "te_batch_next_size_count" EMBED "}"}};
    char series[160];
    for (int i = 0; i < 2; i++) {
        snprintf(series, sizeof series, "%s,le=\"1.0\"}", names[i][0]);
        is(series, 3);
        snprintf(series, sizeof series, "%s,le=\"8.0\"}", names[i][0]);
        is(series, 5);
        snprintf(series, sizeof series, "%s,le=\"+Inf\"}", names[i][0]);
        is(series, 5);
        is(names[i][1], 11);
        is(names[i][2], 5);
    }
    is("weft_step_tokens_sum" CHAT "}", 13);
    is("vllm:iteration_tokens_total_sum" CHAT "}", 13);
    is("te_batch_next_tokens_sum" EMBED "}", 13);
    is("te_batch_next_tokens_count" EMBED "}", 5);
    stats->steps_by_rows[step_bucket(1)] = stats->steps_by_rows[step_bucket(4)] = 0;
    stats->steps_by_tokens[step_bucket(2)] = 0;
    stats->rows = stats->tokens_computed = 0;
}

static struct thread_counters *fixture_counters(const struct fixture *f, uint32_t index)
{
    return &f->server->threads[index].counters;
}

static struct model_counters *counters_of(uint32_t thread, uint32_t model)
{
    return &fixture_counters(&fixture, thread)->copies[model];
}

// Sums over all threads, each finish reason separately.
static void test_ends_of_requests(void **state)
{
    static const char *const words[] = {"stop", "length", "abort", "error", "pooled"};
    char series[160];
    (void)state;
    for (int f = 0; f < COUNTED_FINISH_COUNT; f++)
        for (uint32_t m = 0; m < 2; m++) {
            counters_of(0, m)->finished[f] = (uint64_t)(10 * (m + 1) + (uint32_t)f);
            counters_of(1, m)->finished[f] = 100;
        }
    counters_of(0, 0)->refused_busy = 3;
    counters_of(1, 0)->refused_busy = 4;
    page_get();
    for (int f = 0; f < COUNTED_FINISH_COUNT; f++) {
        snprintf(series, sizeof series, "weft_finished_total" CHAT ",finished_reason=\"%s\"}",
                 words[f]);
        is(series, 110 + f);
        snprintf(series, sizeof series, "weft_finished_total" EMBED ",finished_reason=\"%s\"}",
                 words[f]);
        is(series, 120 + f);
        snprintf(series, sizeof series,
                 "vllm:request_success_total" CHAT ",finished_reason=\"%s\"}", words[f]);
        if (f <= COUNTED_ABORT)
            is(series, 110 + f);
        else
            assert_null(value_at(series));
    }
    is("weft_requests_refused_total" CHAT "}", 7);
    is("weft_requests_refused_total" EMBED "}", 0);
    is("te_request_success" EMBED "}", 124);
    assert_null(value_at("te_request_success" CHAT "}"));
    is("te_request_failure" EMBED ",err=\"inference\"}", 122 + 123);
    is("te_request_count" EMBED "}", 124 + 122 + 123);
}

// Finished requests by route and reason, summed over threads; those that are 0 are left out.
static void test_finished_requests_of_routes(void **state)
{
    (void)state;
    const struct route *const *routes = fixture.server->routes.rows;
    uint32_t row = fixture.server->routes.count - 1;
    char series[256];
    for (uint32_t m = 0; m < 2; m++)
        for (uint32_t t = 0; t < 2; t++)
            counters_of(t, m)->requests_finished[row][m ? COUNTED_POOLED : COUNTED_LENGTH] = 3 + t;
    page_get();
    for (int f = 0; f < COUNTED_FINISH_COUNT; f++)
        for (uint32_t m = 0; m < 2; m++) {
            static const char *const words[] = {"stop", "length", "abort", "error", "pooled"};
            snprintf(series, sizeof series,
                     "weft_requests_finished_total%s,handler=\"%s\",finished_reason=\"%s\"}",
                     m ? EMBED : CHAT, routes[row]->path, words[f]);
            if (f == (m ? COUNTED_POOLED : COUNTED_LENGTH))
                is(series, 7);
            else
                assert_null(value_at(series));
        }
    fixture.copies[0].slot = 1; // a copy's counters are those of its slot
    fixture.copies[1].slot = 0;
    page_get();
    snprintf(series, sizeof series,
             "weft_requests_finished_total{model_name=\"org/qwen-x\",engine=\"1\",handler=\"%s\","
             "finished_reason=\"pooled\"}",
             routes[row]->path);
    is(series, 7);
    fixture.copies[0].slot = 0;
    fixture.copies[1].slot = 1;
}

static uint64_t counted(const char *series)
{
    uint64_t value = metric_value(&fixture, series); // absent while it is 0
    return value == UINT64_MAX ? 0 : value;
}

// A client that leaves is no error of its request: it has a class of its own, and its request is
// counted as aborted. One that stays is counted by its status and reason.
static void test_clients_that_leave(void **state)
{
    (void)state;
#define STATUS_ROW "http_requests_total{handler=\"/v1/test/stream\",method=\"POST\",status="
#define FINISHED_ROW                                                                               \
    "weft_requests_finished_total" CHAT ",handler=\"/v1/test/stream\",finished_reason="
    static const char *const series[] = {STATUS_ROW "\"2xx\"}", STATUS_ROW "\"499\"}",
                                         FINISHED_ROW "\"stop\"}", FINISHED_ROW "\"abort\"}"};
    for (int leaves = 0; leaves < 2; leaves++) {
        uint64_t before[4];
        struct http_client client;
        for (int i = 0; i < 4; i++)
            before[i] = counted(series[i]);
        assert_true(http_client_open(&client, fixture.port));
        assert_true(http_client_request(&client, "POST", "/v1/test/stream", BEARER JSON, "{}"));
        assert_true(fixture_wait_live(&fixture, 1));
        if (leaves) {
            http_client_close(&client);
            assert_true(fixture_wait_cancelled(&fixture, 1));
        } else {
            for (uint32_t t = 0; t < fixture.threads; t++)
                port_double_push_all(fixture.ports[t], 0, FINISH_STOP);
            assert_true(http_client_head(&client));
            assert_true(http_client_until(&client, "data: [DONE]\n\n"));
            http_client_close(&client);
        }
        metric_wait(&fixture, series[leaves], before[leaves] + 1, before[leaves] + 1);
        for (uint32_t t = 0; t < fixture.threads; t++)
            port_double_settle(fixture.ports[t]);
        assert_true(fixture_wait_live(&fixture, 0));
        metric_wait(&fixture, series[2 + leaves], before[2 + leaves] + 1, before[2 + leaves] + 1);
        assert_int_equal(counted(series[1 - leaves]), before[1 - leaves]);
        assert_int_equal(counted(series[3 - leaves]), before[3 - leaves]);
    }
    assert_int_equal(counted(STATUS_ROW "\"4xx\"}"), 0);
}

// Histograms in seconds are recorded in nanoseconds, token histograms unchanged; buckets are
// cumulative.
static void test_histograms(void **state)
{
    (void)state;
    for (uint32_t t = 0; t < 2; t++)
        for (uint32_t m = 0; m < 2; m++) {
            struct model_counters *c = counters_of(t, m);
            histogram_add(&c->histograms[HISTOGRAM_QUEUE], HISTOGRAM_QUEUE, 4096, 400000000);
            histogram_add(&c->histograms[HISTOGRAM_PROMPT_TOKENS], HISTOGRAM_PROMPT_TOKENS, 4096,
                          7 + t + 100 * m);
            histogram_add(&c->histograms[HISTOGRAM_TOKENIZE], HISTOGRAM_TOKENIZE, 4096, 2000000);
            histogram_add(&c->histograms[HISTOGRAM_INTER_TOKEN], HISTOGRAM_INTER_TOKEN, 4096,
                          30000000);
            histogram_add(&c->histograms[HISTOGRAM_INFERENCE], HISTOGRAM_INFERENCE, 4096,
                          1000000000);
            histogram_add(&c->histograms[HISTOGRAM_E2E], HISTOGRAM_E2E, 4096, 2000000000);
        }
    page_get();
    is("weft_request_queue_time_seconds_bucket" CHAT ",le=\"0.3\"}", 0);
    is("weft_request_queue_time_seconds_bucket" CHAT ",le=\"0.5\"}", 2);
    is("weft_request_queue_time_seconds_bucket" CHAT ",le=\"+Inf\"}", 2);
    is("weft_request_queue_time_seconds_sum" CHAT "}", 0.8);
    is("weft_request_queue_time_seconds_count" CHAT "}", 2);
    is("weft_request_prompt_tokens_bucket" CHAT ",le=\"5.0\"}", 0);
    is("weft_request_prompt_tokens_bucket" CHAT ",le=\"10.0\"}", 2);
    is("weft_request_prompt_tokens_sum" CHAT "}", 15);
    is("vllm:request_prompt_tokens_sum" CHAT "}", 15);
    is("weft_request_prompt_tokens_sum" EMBED "}", 215);
    is("weft_request_prompt_tokens_bucket" CHAT ",le=\"1000.0\"}", 2);
    is("weft_request_prompt_tokens_bucket" EMBED ",le=\"512.0\"}", 2); // its window
    assert_null(value_at("weft_request_prompt_tokens_bucket" EMBED ",le=\"1000.0\"}"));
    is("vllm:inter_token_latency_seconds_sum" CHAT "}", 0.06);
    is("vllm:time_per_output_token_seconds_sum" CHAT "}", 0.06); // its older name
    assert_null(value_at("vllm:request_prompt_tokens_sum" EMBED "}"));
    assert_null(value_at("vllm:request_tokenization_time_seconds_sum" CHAT "}"));
    is("weft_request_tokenization_time_seconds_sum" CHAT "}", 0.004);
    is("te_request_duration_sum" EMBED "}", 4);
    is("te_request_tokenization_duration_sum" EMBED "}", 0.004);
    is("te_request_queue_duration_sum" EMBED "}", 0.8);
    is("te_request_inference_duration_sum" EMBED "}", 2);
    assert_null(value_at("te_request_duration_sum" CHAT "}"));
}

// Sums over the threads; each value is different.
static void test_counts_of_threads(void **state)
{
    (void)state;
    for (uint32_t t = 0; t < 2; t++) {
        struct thread_counters *c = fixture_counters(&fixture, t);
        c->clients_gone = 1 + t;
        c->orphans = 10 + t;
        c->quiet_closed = 20 + t;
        c->stalled = 30 + t;
        c->resets_over = 40 + t;
        c->body_floods = 50 + t;
        c->retries = 60 + t;
        c->fields_ignored = 70 + t;
    }
    page_get();
    is("weft_clients_gone_total", 3);
    is("weft_requests_orphaned", 21);
    is("weft_quiet_connections_closed_total", 41);
    is("weft_readers_stalled_total", 61);
    is("weft_reset_floods_total", 81);
    is("weft_body_floods_total", 101);
    is("weft_client_retries_total", 121);
    is("weft_fields_ignored_total", 141);
    is("weft_log_lines_dropped_total", 0);
    metric_wait(&fixture, "weft_connections", 1, 1); // this request's own
    page_get();
    double before = value("weft_connections_accepted_total");
    page_get();
    is("weft_connections_accepted_total", before + 1);
    for (uint32_t t = 0; t < 2; t++)
        fixture_counters(&fixture, t)->orphans = 0;
}

static double descriptors(void)
{
    double count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count - 3; // without ".", ".." and the folder's own descriptor
}

static void test_the_process(void **state)
{
    (void)state;
    page_get();
    double resident = value("process_resident_memory_bytes");
    assert_true(resident > 1 << 20 && resident < 0x1p40);
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    double seconds = (double)used.tv_sec + (double)used.tv_nsec / 1e9;
    double said = value("process_cpu_seconds_total");
    assert_true(said > 0 && said <= seconds + 0.1);
    assert_true(value("process_start_time_seconds") <= (double)time(NULL));
    assert_true(value("process_start_time_seconds") > (double)time(NULL) - 3600);
    struct http_client client; // the page's own connection is open at both ends
    double open = -1;
    assert_true(http_client_open(&client, fixture.port));
    for (int i = 0; i < TRIES && open != value("process_open_fds"); i++) {
        usleep(5000); // earlier connections are closed
        assert_true(http_client_request(&client, "GET", "/metrics", NULL, NULL));
        http_answer_free(&page);
        assert_true(http_client_answer(&client, &page));
        open = descriptors();
    }
    http_client_close(&client);
    is("process_open_fds", open);
}

// Requests by route, method and status class; unknown paths share a row.
static void test_routes(void **state)
{
    static const char body[] = "[1,2,3]";
    static const struct {
        const char *series;
        uint32_t times;
    } counted[] = {
        {"http_requests_total{handler=\"/v1/test/rest/\",method=\"POST\",status=\"2xx\"}", 2},
        {"http_requests_total{handler=\"/v1/test/rest/\",method=\"POST\",status=\"4xx\"}", 1},
        {"http_requests_total{handler=\"unknown\",method=\"ANY\",status=\"4xx\"}", 1}};
    struct http_answer answer;
    (void)state;
    page_get();
    assert_null(value_at("http_requests_total{handler=\"/v1/test/rest/\",method=\"POST\","
                         "status=\"2xx\"}"));
    assert_null(value_at("http_request_size_bytes_count{handler=\"/v1/test/rest/\"}"));
    assert_null(value_at("http_requests_total{handler=\"unknown\",method=\"ANY\",status=\"4xx\"}"));
    for (int i = 0; i < 3; i++) { // without a key the body is not read, so none is sent
        assert_true(http_once(fixture.port, "POST", "/v1/test/rest/a", i < 2 ? BEARER : "",
                              i < 2 ? body : NULL, &answer));
        assert_int_equal(answer.status, i < 2 ? 200 : 401);
        http_answer_free(&answer);
    }
    assert_true(http_once(fixture.port, "GET", "/nowhere", NULL, NULL, &answer));
    http_answer_free(&answer);
    for (size_t i = 0; i < 3; i++) // a response is counted when h2o releases it
        metric_wait(&fixture, counted[i].series, counted[i].times, counted[i].times);
    page_get();
    for (size_t i = 0; i < 3; i++)
        is(counted[i].series, counted[i].times);
    is("http_request_duration_seconds_count{handler=\"unknown\"}", 1);
    is("http_request_size_bytes_count{handler=\"unknown\"}", 1);
    is("http_request_size_bytes_count{handler=\"/v1/test/rest/\"}", 3);
    is("http_request_size_bytes_sum{handler=\"/v1/test/rest/\"}", 2 * (sizeof body - 1));
    is("http_response_size_bytes_count{handler=\"/v1/test/rest/\"}", 3);
    double out = value("http_response_size_bytes_sum{handler=\"/v1/test/rest/\"}");
    assert_true(out > 2 * (sizeof body - 1) && out < 2000);
    is("http_request_duration_seconds_count{handler=\"/v1/test/rest/\"}", 3);
    is("http_request_duration_seconds_bucket{handler=\"/v1/test/rest/\",le=\"+Inf\"}", 3);
    assert_true(value("http_request_duration_seconds_sum{handler=\"/v1/test/rest/\"}") < 60);
    assert_true(value("http_request_duration_seconds_sum{handler=\"/v1/test/rest/\"}") > 0);
}

// Facts about each copy and its device memory, from its plan.
static void test_plans_of_copies(void **state)
{
    (void)state;
    page_get();
    is("weft_model_info" CHAT ",architecture=\"LlamaForCausalLM\",parameters=\"5000000000\","
       "dtype=\"int8\",kv_dtype=\"float16\",block_size=\"64\",device=\"cpu\"}",
       1);
    is("weft_model_info" EMBED ",architecture=\"BertModel\",parameters=\"7\",dtype=\"float32\","
       "kv_dtype=\"\",block_size=\"\",device=\"cuda:1\"}",
       1);
    is("weft_model_memory_bytes" CHAT ",part=\"weights\"}", 5e9);
    is("weft_model_memory_bytes" CHAT ",part=\"keys and values\"}", 640);
    is("weft_model_memory_bytes" EMBED ",part=\"weights\"}", 28);
    assert_null(value_at("weft_model_memory_bytes" EMBED ",part=\"keys and values\"}"));
}

// The info of a model whose weights are codes names their formats.
static void test_info_names_formats(void **state)
{
    (void)state;
    const struct served_copy kept = fixture.copies[0];
    struct model_facts coded = *fixture.models[0].facts;
    struct served_model model = fixture.models[0];
    snprintf(coded.formats, sizeof coded.formats, "Q4_K, Q6_K");
    model.facts = &coded;
    fixture.copies[0].model = &model;
    page_get();
    is("weft_model_info" CHAT ",architecture=\"LlamaForCausalLM\",parameters=\"5000000000\","
       "dtype=\"Q4_K, Q6_K\",kv_dtype=\"float16\",block_size=\"64\",device=\"cpu\"}",
       1);
    fixture.copies[0] = kept;
}

// name[] omits all other families and their heads; other parameters have no effect.
static void test_families_by_name(void **state)
{
    (void)state;
    page_get_of("/metrics?name[]=weft_sequences_running&x=1&name%5B%5D=te%5Fqueue_size"
                "&name[]=weft_request_queue_time_seconds&name[]=weft_&name[]=sequences_waiting");
    assert_non_null(value_at("weft_sequences_running" CHAT "}"));
    assert_non_null(value_at("weft_sequences_running" EMBED "}"));
    assert_non_null(value_at("te_queue_size" EMBED "}"));
    assert_non_null(value_at("weft_request_queue_time_seconds_count" CHAT "}"));
    int heads = 0;
    for (const char *at = page.body; (at = strstr(at, "# HELP ")); at++)
        heads++;
    assert_int_equal(heads, 3);
    assert_null(strstr(page.body, "vllm:"));
    assert_null(strstr(page.body, "http_requests_total"));
    assert_null(strstr(page.body, "sequences_waiting"));
    page_get_of("/metrics?name[]=te_request_inference_duration"); // the last
    assert_int_equal(strncmp(page.body, "# HELP te_request_inference_duration ", 37), 0);
    page_get_of("/metrics?name[]=nothing");
    assert_int_equal(page.body_bytes, 0);
    page_get_of("/metrics?names=weft_sequences_running&name[=x");
    assert_non_null(value_at("weft_sequences_waiting" CHAT "}"));
}

// Names of other servers appear only with the option.
static void test_ours_alone(void **state)
{
    (void)state;
    struct fixture plain;
    struct server_options options = {.vllm_metrics = false};
    struct http_answer answer;
    fixture_open_as(&plain, &options, true);
    assert_true(http_once(plain.port, "GET", "/metrics", NULL, NULL, &answer));
    assert_non_null(strstr(answer.body, "\nweft_steps_total{"));
    assert_null(strstr(answer.body, "vllm:"));
    assert_null(strstr(answer.body, "te_request"));
    http_answer_free(&answer);
    fixture_close(&plain);
}

static int open_main(void **state)
{
    (void)state;
    struct server_options options = {.http_threads = 2};
    fixture_open(&fixture, &options, true);
    return 0;
}

static int close_main(void **state)
{
    (void)state;
    http_answer_free(&page);
    fixture_close(&fixture);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_statistics_of_engines),
        cmocka_unit_test(test_copies_have_their_own_numbers),
        cmocka_unit_test(test_sizes_of_steps),
        cmocka_unit_test(test_ends_of_requests),
        cmocka_unit_test(test_finished_requests_of_routes),
        cmocka_unit_test(test_histograms),
        cmocka_unit_test(test_counts_of_threads),
        cmocka_unit_test(test_the_process),
        cmocka_unit_test(test_routes),
        cmocka_unit_test(test_plans_of_copies),
        cmocka_unit_test(test_info_names_formats),
        cmocka_unit_test(test_families_by_name),
        cmocka_unit_test(test_ours_alone),
        cmocka_unit_test(test_clients_that_leave),
    };
    return cmocka_run_group_tests(tests, open_main, close_main);
}
