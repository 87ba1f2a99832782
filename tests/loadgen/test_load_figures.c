// SPDX-License-Identifier: Apache-2.0
// Figures of records, the verdict on the client, joined runs, and comparisons of results.
#include "loadgen/figures.h"
#include "loadgen/report.h"
#include "loadgen/series.h"
#include "loadgen/verdict.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// A reply that arrives at `due`, is sent 10 ms later, has its first token 0.2 s after the arrival
// and 10 more tokens, 50 ms each.
static struct bench_record record_of(double due)
{
    return (struct bench_record){.due = due,
                                 .sent = due + 0.01,
                                 .first = due + 0.2,
                                 .last = due + 0.7,
                                 .end = due + 0.75,
                                 .input_tokens = 100,
                                 .cached_tokens = 25,
                                 .output_tokens = 11,
                                 .events = 6,
                                 .inputs = 1,
                                 .status = 200,
                                 .outcome = BENCH_OUTCOME_OK,
                                 .streamed = true,
                                 .has_usage = true};
}

static const struct bench_options closed = {.url = "http://a",
                                            .targets = {{.model = "m", .weight = 1}},
                                            .target_count = 1,
                                            .concurrency = 2,
                                            .requests_max = 4,
                                            .seconds_max = INFINITY,
                                            .stream = true};

static void test_figures(void **state)
{
    (void)state;
    struct bench_options o = closed;
    o.goodput = (struct bench_goodput){.ttft = 250, .tpot = 60};
    struct bench_record records[] = {record_of(0.5), record_of(2), record_of(3), record_of(4),
                                     record_of(5)};
    records[2].first += 0.1; // 300 ms: misses the limit
    records[3].outcome = BENCH_OUTCOME_REFUSED;
    records[3].status = 503;
    records[4].has_usage = false;
    uint32_t bins[30] = {[9] = 100, [10] = 2, [19] = 3, [20] = 4}; // the first belongs to the ramp
    struct bench_run run = {.records = records,
                            .count = 5,
                            .bins = bins,
                            .bin_count = 30,
                            .seconds = 9,
                            .measured_from = 1};
    struct bench_figures *f = malloc(sizeof *f);
    bench_figures_compute(f, &run, &o, -1);
    assert_true(fabs(f->seconds - 8) < 1e-9);
    assert_int_equal(f->sent, 4); // the first belongs to the ramp
    assert_int_equal(f->outcomes[BENCH_OUTCOME_OK], 3);
    assert_int_equal(f->statuses[503], 1);
    assert_int_equal(f->good, 2);
    assert_int_equal(f->without_usage, 1);
    assert_true(fabs(bench_figure(f, "output_throughput") - 33 / 8.0) < 1e-9);
    assert_true(fabs(bench_figure(f, "total_token_throughput") - 333 / 8.0) < 1e-9);
    assert_true(fabs(bench_figure(f, "median_ttft_ms") - 200) < 1e-6);
    assert_true(fabs(bench_figure(f, "max_ttft_ms") - 300) < 1e-6);
    assert_true(fabs(bench_figure(f, "median_tpot_ms") - 50) < 1e-6);
    assert_true(fabs(bench_figure(f, "mean_e2el_ms") - 750) < 1e-6);
    assert_true(fabs(f->max_output_per_s - 7) < 1e-9);
    assert_true(isnan(bench_figure(f, "mean_late_ms")) && isnan(bench_figure(f, "no_such")));
    o.rate = 1; // an open loop reports how late requests were sent
    bench_figures_compute(f, &run, &o, -1);
    assert_true(fabs(bench_figure(f, "mean_late_ms") - 10) < 1e-6);
    bench_figures_compute(f, &run, &o, 1); // no request of this target
    assert_int_equal(f->sent, 0);
    assert_true(bench_figure(f, "request_throughput") == 0);
    free(f);
}

// Runs ten seconds of a client that is idle half of the time in the first `idle` tenths and later
// not, and that reads a hundred times `lag` seconds late.
static struct bench_client_report client_run(const struct bench_client_scale *scale, int idle,
                                             double lag, double late)
{
    struct bench_client c;
    bench_client_begin(&c, 0, 0);
    for (int i = 1; i <= 100; i++) {
        bench_client_step(&c, i * 0.1, (i < idle ? i : idle) * 0.05);
        bench_histogram_add(c.lag, lag);
        bench_histogram_add(c.late, i < 98 ? 1e-5 : late);
    }
    struct bench_client_report r = bench_client_end(&c, 10, scale);
    bench_client_free(&c);
    return r;
}

static void test_client(void **state)
{
    (void)state;
    const struct bench_client_scale read = {.gap_ms = 20, .whole_ms = 1000},
                                    kernel = {.gap_ms = 20, .whole_ms = 1000, .stamped = true},
                                    brief = {.gap_ms = 20, .whole_ms = 60, .stamped = true};
    struct bench_client_report r = client_run(&read, 100, 1e-4, 0);
    assert_true(r.full_share == 0 && r.lag_p99_ms < 0.11 && !r.stamped);
    assert_true(!r.limited || strstr(r.why, "core")); // unless this test waited for a core
    r = client_run(&read, 90, 1e-4, 0);
    assert_true(r.limited && strstr(r.why, "no idle time"));
    r = client_run(&read, 100, 3e-3, 0);
    assert_true(r.limited && strstr(r.why, "read over 3.0 ms late"));
    r = client_run(&kernel, 100, 3e-3, 0); // not in the times of the events
    assert_true(r.stamped && (!r.limited || strstr(r.why, "core")));
    r = client_run(&kernel, 100, 11e-3, 0); // events of a stream may merge
    assert_true(r.limited && strstr(r.why, "read over 11.0 ms late"));
    r = client_run(&brief, 100, 4e-3, 0); // delays the next request
    assert_true(r.limited && strstr(r.why, "read over 4.0 ms late"));
    r = client_run(&read, 100, 1e-4, 0.5);
    assert_true(r.limited && strstr(r.why, "after their arrival"));
}

// Adds a run whose requests take `seconds` each to a series.
static void point_add(struct bench_series *s, uint32_t side, double seconds, bool limited)
{
    struct bench_point *point = &s->points[s->count++];
    *point = (struct bench_point){.options = closed, .side = side};
    struct bench_run *run = &point->run;
    run->records = calloc(4, sizeof *run->records);
    run->count = run->allocated = 4;
    for (int i = 0; i < 4; i++) {
        run->records[i] = record_of(i * seconds);
        run->records[i].end = run->records[i].due + seconds;
    }
    run->seconds = 4 * seconds;
    run->client.limited = limited;
    snprintf(run->client.why, sizeof run->client.why, "%s", limited ? "it was slow" : "");
}

// Returns the parsed result of pairs of runs, B slower by `slowdown`.
static json_t *pairs_result(double slowdown, bool limited)
{
    static const double noise[] = {1, 1.02, 0.99, 1.01, 0.98};
    struct bench_series s = {.kind = BENCH_PAIRS, .points = calloc(10, sizeof *s.points)};
    struct json_buffer text = {0};
    json_t *result = NULL;
    for (uint32_t i = 0; i < 5; i++) {
        point_add(&s, 0, noise[i], false);
        point_add(&s, 1, noise[(i + 2) % 5] * slowdown, limited && i == 3);
    }
    bench_series_json(&text, &s);
    assert_int_equal(json_parse(&result, json_buffer_text(&text), NULL), STATUS_OK);
    bench_series_free(&s);
    json_buffer_free(&text);
    return result;
}

static struct bench_comparison compare_result(const json_t *result, const char *primary)
{
    struct bench_comparison c;
    struct error err;
    assert_int_equal(bench_results_compare(&c, json_object_get(result, "a"),
                                           json_object_get(result, "b"), primary, false, &err),
                     STATUS_OK);
    return c;
}

static void test_verdicts(void **state)
{
    (void)state;
    json_t *slower = pairs_result(1.2, false), *equal = pairs_result(1, false);
    json_t *limited = pairs_result(1.2, true);
    struct bench_comparison c = compare_result(slower, NULL);
    char text[64];
    assert_string_equal(c.rows[0].name, "output_throughput");
    assert_int_equal(c.rows[0].difference.pairs, 5);
    bench_verdict_text(text, sizeof text, &c.rows[0]);
    assert_string_equal(text, "B is worse by 16.7 %");
    c = compare_result(slower, "mean_e2el_ms");
    bench_verdict_text(text, sizeof text, &c.rows[0]);
    assert_string_equal(text, "B is worse by 20.0 %");
    assert_int_equal(c.note_count, 0);
    c = compare_result(equal, NULL);
    for (uint32_t i = 0; i < c.count; i++)
        assert_int_equal(c.rows[i].difference.verdict, BENCH_NO_DIFFERENCE);
    c = compare_result(limited, NULL);
    assert_string_equal(c.refusal, "the client was the limit in 1 of 10 runs");
    for (uint32_t i = 0; i < c.count; i++)
        assert_int_equal(c.rows[i].difference.verdict, BENCH_NO_VERDICT);
    json_object_set_new(json_object_get(equal, "b"), "max_concurrency", json_integer(7));
    json_object_del(json_object_get(equal, "b"), "runs");
    c = compare_result(equal, NULL);
    assert_string_equal(c.notes[0], "the loads differ: max_concurrency");
    assert_non_null(strstr(c.refusal, "one run"));
    struct error err;
    assert_int_equal(
        bench_results_compare(&c, json_object_get(equal, "a"), equal, NULL, false, &err),
        STATUS_INVALID);
    assert_int_equal(bench_results_compare(&c, json_object_get(slower, "a"),
                                           json_object_get(slower, "b"), NULL, true, &err),
                     STATUS_INVALID); // five pairs
    assert_non_null(strstr(err.text, "at least 10 pairs of runs, got 5"));
    json_decref(slower);
    json_decref(equal);
    json_decref(limited);
}

static bool has_figure(const struct bench_comparison *c, const char *name)
{
    for (uint32_t i = 0; i < c->count; i++)
        if (strcmp(c->rows[i].name, name) == 0)
            return true;
    return false;
}

// Without limits of --goodput, with one input per request and answers of one length, four figures
// are multiples of each other.
static void test_equal_figures_count_once(void **state)
{
    (void)state;
    json_t *result = pairs_result(1.2, false);
    struct bench_comparison c = compare_result(result, NULL);
    assert_string_equal(c.rows[0].name, "output_throughput");
    assert_false(has_figure(&c, "inputs_per_s") || has_figure(&c, "request_goodput") ||
                 has_figure(&c, "request_throughput"));
    c = compare_result(result, "inputs_per_s");
    assert_string_equal(c.rows[0].name, "inputs_per_s");
    assert_false(has_figure(&c, "output_throughput") || has_figure(&c, "request_goodput") ||
                 has_figure(&c, "request_throughput"));
    const json_t *runs = json_object_get(json_object_get(result, "b"), "runs");
    json_object_set_new(json_array_get(runs, 4), "request_goodput", json_real(0.125));
    c = compare_result(result, NULL);
    assert_true(has_figure(&c, "request_goodput") && !has_figure(&c, "request_throughput"));
    json_object_set_new(json_array_get(runs, 4), "output_throughput", json_real(0.5));
    c = compare_result(result, NULL);
    assert_true(has_figure(&c, "output_throughput") && has_figure(&c, "request_throughput"));
    assert_true(has_figure(&c, "request_goodput") && !has_figure(&c, "inputs_per_s"));
    json_decref(result);
}

static void test_joined(void **state)
{
    (void)state;
    struct bench_series s = {.points = calloc(2, sizeof *s.points)};
    struct bench_run joined;
    struct bench_figures *f = malloc(sizeof *f);
    point_add(&s, 0, 1, false);
    point_add(&s, 0, 1, true);
    s.points[1].run.measured_from = 2; // two of its records belong to the ramp
    for (int i = 0; i < 2; i++) {
        s.points[i].run.bins = calloc(25, sizeof(uint32_t));
        s.points[i].run.bin_count = 25;
        s.points[i].run.bins[1] = 7; // in the ramp of the second run
        s.points[i].run.bins[24] = 5;
    }
    bench_series_join(&joined, &s, 0);
    assert_int_equal(joined.bins[1], 7);
    assert_int_equal(joined.bins[24], 5);
    assert_int_equal(joined.bins[41], 0);
    assert_int_equal(joined.bins[44], 5);
    assert_int_equal(joined.count, 6);
    assert_true(fabs(joined.seconds - 6) < 1e-9 && joined.client.limited);
    bench_figures_compute(f, &joined, &closed, -1);
    assert_true(fabs(bench_figure(f, "request_throughput") - 1) < 1e-9);
    assert_true(fabs(bench_figure(f, "median_ttft_ms") - 200) < 1e-6);
    bench_run_free(&joined);
    bench_series_free(&s);
    free(f);
}

// A report of an open loop with a data set, and one of a sweep of embeddings, state the load.
static void load_check(struct json_buffer *page)
{
    json_t *result =
        json_pack("{s:s,s:f,s:s,s:i,s:s,s:{s:s,s:i,s:i}}", "loop", "open", "request_rate", 2.5,
                  "arrival", "poisson", "num_prompts", 40, "dataset", "set<1>.json",
                  "output_length", "kind", "lognormal", "a", 64, "b", 1);
    bench_report_write(page, result);
    json_put_raw(page, text_span("", 1));
    assert_non_null(strstr(page->at,
                           "Load: open loop, 2.5 requests per second (poisson); 40 requests; "
                           "prompts of set&lt;1&gt;.json; answers of at most lognormal with "
                           "median 64 and deviation 1 tokens, or their line's.</p>"));
    json_decref(result);
    result = json_pack("{s:s,s:i,s:i,s:i,s:{s:s,s:i,s:i},s:[]}", "loop", "closed",
                       "max_concurrency", 3, "num_prompts", 9, "inputs_per_request", 8,
                       "input_length", "kind", "uniform", "a", 10, "b", 20, "points");
    page->bytes = 0;
    bench_report_write(page, result);
    json_put_raw(page, text_span("", 1));
    assert_non_null(strstr(page->at,
                           "Load: closed loop of 3 clients; 9 requests; generated prompts of "
                           "length 10 to 20; 8 inputs per request.</p>"));
    json_decref(result);
}

static void test_report(void **state)
{
    (void)state;
    struct json_buffer page = {0};
    json_t *result = pairs_result(1.2, true), *empty = json_object();
    json_object_set_new(json_object_get(result, "a"), "model_id", json_string("<script>&\""));
    bench_report_write(&page, result);
    json_put_raw(&page, text_span("", 1));
    assert_null(strstr(page.at, "<script"));
    assert_non_null(strstr(page.at, "&lt;script&gt;&amp;&quot;"));
    assert_non_null(strstr(page.at, "The client was the limit"));
    assert_non_null(strstr(page.at, "Load: closed loop of 2 clients; 4 requests in each of 5 runs; "
                                    "generated prompts of length "));
    page.bytes = 0;
    load_check(&page);
    page.bytes = 0;
    json_t *sweep =
        json_pack("{s:s,s:i,s:s,s:[{s:i,s:f},{s:i},{s:i}]}", "loop", "closed", "max_concurrency", 4,
                  "sweep", "concurrency", "points", "max_concurrency", 4, "median_ttft_ms", 1e-6,
                  "max_concurrency", 1, "max_concurrency", 16);
    bench_report_write(&page, sweep);
    json_put_raw(&page, text_span("", 1));
    assert_non_null(strstr(page.at, "Load: closed loop of 1 to 16 clients; "));
    assert_null(strstr(page.at, "1e-06"));
    json_decref(sweep);
    page.bytes = 0;
    bench_report_write(&page, empty); // no member at all
    assert_true(page.bytes > 0);
    json_buffer_free(&page);
    json_decref(result);
    json_decref(empty);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figures),  cmocka_unit_test(test_client),
        cmocka_unit_test(test_verdicts), cmocka_unit_test(test_equal_figures_count_once),
        cmocka_unit_test(test_joined),   cmocka_unit_test(test_report),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
