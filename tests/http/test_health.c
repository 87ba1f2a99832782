// SPDX-License-Identifier: Apache-2.0
// Health and readiness at their limits: the age of heartbeats of engines and h2o threads, /ready
// with failed models, and the list of models.
#include "http/internal.h"
#include "tests/http/fixture.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { SLACK_NS = 900000000 };

static struct fixture fixture; // two threads

static struct http_answer ask(const char *path, const char *headers)
{
    struct http_answer answer;
    assert_true(http_once(fixture.port, "GET", path, headers, NULL, &answer));
    return answer;
}

static int status_of(const char *path)
{
    struct http_answer answer = ask(path, NULL);
    int status = answer.status;
    http_answer_free(&answer);
    return status;
}

static void says(const char *path, int status, const char *text)
{
    struct http_answer answer = ask(path, NULL);
    if (answer.status != status || !strstr(answer.body, text))
        fail_msg("%s: %d %s", path, answer.status, answer.body);
    http_answer_free(&answer);
}

static uint64_t ago(uint64_t ms)
{
    return clock_ns() - ms * 1000000;
}

// Ten seconds between heartbeats, thirty for a step; checked one second below and above.
static void test_beats_of_engines(void **state)
{
    static const struct {
        uint64_t step_ms, beat_ms;
        int status;
    } beats[] = {{0, 9000, 200},      {0, 11000, 503},     {29000, 1, 200}, {31000, 1, 503},
                 {29000, 29000, 200}, {11000, 11000, 200}, {0, 0, 200}};
    (void)state;
    struct engine_stats *stats = engine_double_stats(fixture.engine);
    for (size_t i = 0; i < sizeof beats / sizeof *beats; i++) {
        uint64_t set_ns;
        bool fine;
        do { // repeat if this thread was delayed by more than the margin
            set_ns = clock_ns();
            stats->step_started_ns = beats[i].step_ms > 0 ? ago(beats[i].step_ms) : 0;
            stats->beat_ns = beats[i].beat_ms > 0 ? ago(beats[i].beat_ms) : 0;
            fine =
                status_of("/health") == beats[i].status && status_of("/ready") == beats[i].status;
        } while (!fine && clock_ns() - set_ns > SLACK_NS);
        if (!fine)
            fail_msg("step %llu ms, beat %llu ms", (unsigned long long)beats[i].step_ms,
                     (unsigned long long)beats[i].beat_ms);
    }
    stats->step_started_ns = stats->beat_ns = clock_ns() + 5000000000; // a clock of another core
    assert_int_equal(status_of("/health"), 200);
    stats->step_started_ns = stats->beat_ns = 0;
}

// Sets each thread's heartbeat back; the thread that answers has renewed its own. Returns whether
// /health is 503.
static bool a_thread_is_late(uint64_t ms)
{
    for (int i = 0; i < 100; i++) {
        uint64_t set_ns = clock_ns();
        for (uint32_t t = 0; t < fixture.threads; t++)
            fixture.server->threads[t].beat_ns = ago(ms);
        struct http_answer answer = ask("/health", NULL);
        bool held_up = clock_ns() - set_ns > SLACK_NS; // later than intended
        bool late = answer.status == 503 && !held_up;
        if (late)
            assert_non_null(strstr(answer.body, "Degraded: an HTTP thread makes no progress."));
        http_answer_free(&answer);
        if (late)
            return true;
    }
    return false;
}

static bool is_healthy(void *context)
{
    (void)context;
    return status_of("/health") == 200;
}

static void test_beats_of_threads(void **state)
{
    (void)state;
    assert_true(a_thread_is_late(11000));
    assert_false(a_thread_is_late(9000));
    assert_true(wait_until(is_healthy, NULL)); // each thread renews its own beat
}

// A failed model is named and the other one still serves; if all have failed, the process is
// unhealthy.
static void test_failed_models(void **state)
{
    (void)state;
    struct engine *other = engine_double_open(fixture.models[1].facts);
    struct engine_stats *first = engine_double_stats(fixture.engine);
    fixture.copies[1].engine = other;
    says("/ready", 200, "{\"status\":\"ready\"}");
    first->failed = 1;
    says("/ready", 200,
         "{\"status\":\"ready\",\"models\":{\"org/qwen-x\":\"failed\",\"embed\":\"ready\"}}");
    says("/health", 200, "{\"status\":\"ok\"}");
    engine_double_stats(other)->failed = 1;
    says("/ready", 503, "Degraded: every model has failed.");
    says("/health", 503, "Degraded: every model has failed.");
    first->failed = 0;
    says("/ready", 200,
         "{\"status\":\"ready\",\"models\":{\"org/qwen-x\":\"ready\",\"embed\":\"failed\"}}");
    fixture.models[1].copy_count = 0; // no copy that could fail
    says("/ready", 200, "{\"status\":\"ready\"}");
    fixture.copies[1].engine = fixture.engine;
    engine_double_close(other);
}

// If one of two copies fails, the model is ready, and the response distinguishes the copies.
static void test_failed_copies(void **state)
{
    (void)state;
    struct engine *other = engine_double_open(fixture.models[0].facts);
    struct engine_stats *stats = engine_double_stats(other);
    struct served_copy copies[] = {fixture.copies[1], fixture.copies[1], fixture.copies[0],
                                   fixture.copies[0]};
    for (uint32_t i = 0; i < 4; i++)
        copies[i].slot = i;
    struct served_model *model = &fixture.models[0];
    copies[3].engine = other;
    fixture.served.copies = fixture.models[1].copies = copies;
    fixture.served.copy_count = 4;
    model->copies = copies + 2;
    model->copy_count = fixture.models[1].copy_count = 2;
    says("/ready", 200,
         "{\"status\":\"ready\",\"copies\":{\"org/qwen-x\":[\"ready\",\"ready\"],"
         "\"embed\":[\"ready\",\"ready\"]}}");
    stats->beat_ns = 1;
    says("/ready", 503, "Degraded: the engine of copy 1 of 'org/qwen-x' makes no progress.");
    stats->failed = 1;
    says("/ready", 200,
         "{\"status\":\"ready\",\"copies\":{\"org/qwen-x\":[\"ready\",\"failed\"],"
         "\"embed\":[\"ready\",\"ready\"]}}");
    says("/health", 200, "{\"status\":\"ok\"}");
    engine_double_stats(fixture.engine)->failed = 1;
    fixture.models[1].copy_count = 0; // no copy that could fail
    says("/ready", 200,
         "{\"status\":\"ready\",\"models\":{\"org/qwen-x\":\"failed\",\"embed\":\"ready\"},"
         "\"copies\":{\"org/qwen-x\":[\"failed\",\"failed\"]}}");
    engine_double_stats(fixture.engine)->failed = 0;
    fixture.served.copies = fixture.copies;
    fixture.served.copy_count = 2;
    fixture.models[0].copies = &fixture.copies[0];
    fixture.models[1].copies = &fixture.copies[1];
    fixture.models[0].copy_count = fixture.models[1].copy_count = 1;
    engine_double_close(other);
}

static void member_is(const json_t *of, const char *name, const char *wanted)
{
    const char *said = json_string_value(json_object_get(of, name));
    if (!said || strcmp(said, wanted) != 0)
        fail_msg("%s is %s", name, said ? said : "no text");
}

// All members of a model, for both client families.
static void test_a_model(void **state)
{
    (void)state;
    struct http_answer answer = ask("/v1/models/embed", BEARER);
    json_t *model = json_loadb(answer.body, answer.body_bytes, 0, NULL);
    member_is(model, "id", "embed");
    member_is(model, "object", "model");
    member_is(model, "type", "model");
    member_is(model, "owned_by", "local");
    member_is(model, "display_name", "embed");
    member_is(model, "created_at", "2026-09-21T14:13:20Z");
    member_is(model, "lifecycle", "active");
    assert_int_equal(json_integer_value(json_object_get(model, "created")), 1790000000);
    assert_int_equal(json_integer_value(json_object_get(model, "max_model_len")), 512);
    assert_int_equal(json_integer_value(json_object_get(model, "max_input_tokens")), 512);
    assert_int_equal(json_integer_value(json_object_get(model, "max_tokens")), 512);
    json_decref(model);
    http_answer_free(&answer);
    answer = ask("/v1/models", BEARER);
    json_t *list = json_loadb(answer.body, answer.body_bytes, 0, NULL);
    member_is(list, "object", "list");
    member_is(list, "first_id", "org/qwen-x");
    member_is(list, "last_id", "embed");
    assert_true(json_is_false(json_object_get(list, "has_more")));
    json_decref(list);
    http_answer_free(&answer);
}

// A quoted name is cut at 256 bytes; the message follows the client family.
static void test_a_model_that_is_not_there(void **state)
{
    char path[400], wanted[400];
    (void)state;
    strcpy(path, "/v1/models/");
    memset(path + 11, 'n', 300);
    path[311] = '\0';
    snprintf(wanted, sizeof wanted,
             "{\"error\":{\"message\":\"The model '%.256s' does not exist.\","
             "\"type\":\"invalid_request_error\",\"param\":\"model\","
             "\"code\":\"model_not_found\"}}",
             path + 11);
    struct http_answer answer = ask(path, BEARER);
    assert_int_equal(answer.status, 404);
    assert_string_equal(answer.body, wanted);
    http_answer_free(&answer);
    answer = ask("/v1/models/a%22b", BEARER "anthropic-version: 2023-06-01\r\nx-request-id: r\r\n");
    assert_int_equal(answer.status, 404);
    assert_string_equal(answer.body, "{\"type\":\"error\",\"error\":{\"type\":\"not_found_error\","
                                     "\"message\":\"model: a\\\"b\"},\"request_id\":\"r\"}");
    http_answer_free(&answer);
}

// While the models are loading, each path returns 503 with Retry-After.
static void test_while_loading(void **state)
{
    static const char *const paths[] = {"/health", "/ready", "/v1/health", "/v1/models"};
    (void)state;
    struct fixture loading;
    struct http_answer answer;
    char value[16];
    fixture_open(&loading, NULL, false);
    for (int i = 0; i < 4; i++) {
        assert_true(http_once(loading.port, "GET", paths[i], BEARER, NULL, &answer));
        assert_int_equal(answer.status, 503);
        assert_non_null(strstr(answer.body, "The models are still being loaded."));
        assert_true(http_header(answer.head, "retry-after", value, sizeof value));
        assert_string_equal(value, "5");
        assert_true(http_header(answer.head, "retry-after-ms", value, sizeof value));
        assert_string_equal(value, "5000");
        http_answer_free(&answer);
    }
    assert_true(http_once(loading.port, "POST", "/v1/test/echo", BEARER JSON, "{}", &answer));
    assert_int_equal(answer.status, 503);
    http_answer_free(&answer);
    assert_true(http_once(loading.port, "GET", "/version", NULL, NULL, &answer));
    assert_int_equal(answer.status, 200);
    http_answer_free(&answer);
    fixture_close(&loading);
}

// After server_leave only /ready changes; new connections and requests are served as before.
static void test_leaving(void **state)
{
    (void)state;
    struct fixture leaving;
    struct http_answer answer;
    fixture_open(&leaving, NULL, true);
    static const char *const paths[] = {"/ready", "/ready", "/health", "/v1/models"};
    static const int wanted[] = {200, 503, 200, 200};
    for (int i = 0; i < 4; i++) {
        assert_true(http_once(leaving.port, "GET", paths[i], BEARER, NULL, &answer));
        assert_int_equal(answer.status, wanted[i]);
        http_answer_free(&answer);
        server_leave(leaving.server);
    }
    assert_true(http_once(leaving.port, "POST", "/v1/test/echo", BEARER JSON, "{}", &answer));
    assert_int_equal(answer.status, 200);
    http_answer_free(&answer);
    fixture_close(&leaving);
}

// 16 waiting sequences add a second, up to a minute.
static void test_when_to_come_again(void **state)
{
    static const struct {
        uint64_t waiting;
        const char *seconds;
    } cases[] = {{0, "1"},    {15, "1"},   {16, "2"},    {31, "2"},         {943, "59"},
                 {944, "60"}, {960, "60"}, {5000, "60"}, {UINT64_MAX, "60"}};
    (void)state;
    char value[16];
    struct engine_stats *stats = engine_double_stats(fixture.engine);
    engine_double_admission_set(fixture.engine, ADMISSION_BUSY);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct http_answer answer;
        stats->sequences_waiting = cases[i].waiting;
        assert_true(http_once(fixture.port, "POST", "/v1/test/wait", BEARER JSON, "{}", &answer));
        assert_int_equal(answer.status, 503);
        assert_true(http_header(answer.head, "retry-after", value, sizeof value));
        assert_string_equal(value, cases[i].seconds);
        http_answer_free(&answer);
    }
    assert_int_equal(metric_value(&fixture, "weft_requests_refused_total{model_name=\"org/qwen-x\","
                                            "engine=\"0\"}"),
                     sizeof cases / sizeof *cases);
    stats->sequences_waiting = 0;
    engine_double_admission_set(fixture.engine, ADMITTED);
}

// If all copies refuse, Retry-After follows the shortest queue of the working copies.
static void test_a_retry_waits_for_the_shortest_queue(void **state)
{
    static const struct {
        bool failed[2];
        const char *seconds;
    } cases[] = {
        {{false, false}, "3"}, {{false, true}, "7"}, {{true, false}, "3"}, {{true, true}, "1"}};
    (void)state;
    struct engine *other = engine_double_open(fixture.models[0].facts);
    struct engine_stats *stats[] = {engine_double_stats(fixture.engine),
                                    engine_double_stats(other)};
    fixture.copies[1].engine = other;
    fixture.models[0].copy_count = 2;
    engine_double_admission_set(fixture.engine, ADMISSION_BUSY); // it owns the ports of both copies
    stats[0]->sequences_waiting = 100;
    stats[1]->sequences_waiting = 40;
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) { // each copy is tried last once
        char value[32];
        for (int copy = 0; copy < 2; copy++)
            stats[copy]->failed = cases[i / 2].failed[copy];
        struct http_answer answer;
        assert_true(http_once(fixture.port, "POST", "/v1/test/wait", BEARER JSON, "{}", &answer));
        assert_int_equal(answer.status, 503);
        assert_true(http_header(answer.head, "retry-after", value, sizeof value));
        assert_string_equal(value, cases[i / 2].seconds);
        http_answer_free(&answer);
    }
    for (int copy = 0; copy < 2; copy++)
        stats[copy]->failed = stats[copy]->sequences_waiting = 0;
    engine_double_admission_set(fixture.engine, ADMITTED);
    fixture.copies[1].engine = fixture.engine;
    fixture.models[0].copy_count = 1;
    engine_double_close(other);
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
    fixture_close(&fixture);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_beats_of_engines),
        cmocka_unit_test(test_beats_of_threads),
        cmocka_unit_test(test_failed_models),
        cmocka_unit_test(test_failed_copies),
        cmocka_unit_test(test_a_model),
        cmocka_unit_test(test_a_model_that_is_not_there),
        cmocka_unit_test(test_while_loading),
        cmocka_unit_test(test_leaving),
        cmocka_unit_test(test_when_to_come_again),
        cmocka_unit_test(test_a_retry_waits_for_the_shortest_queue),
    };
    return cmocka_run_group_tests(tests, open_main, close_main);
}
