// SPDX-License-Identifier: Apache-2.0
// A server on loopback, request by request: the order of the checks, headers of each response, both
// error formats, models, health, metrics, limits of bytes and connections, refusals at startup.
#include "tests/http/fixture.h"

#include "base/clock.h"

#include <jansson.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { FAR_MS = 120000 };

static struct fixture fixture;

static struct http_answer ask(const char *method, const char *path, const char *headers,
                              const char *body)
{
    struct http_answer answer;
    if (!http_once(fixture.port, method, path, headers, body, &answer))
        fail_msg("%s %s: no answer", method, path);
    return answer;
}

static void check_code(struct http_answer *answer, int status, const char *code)
{
    char found[64] = "";
    json_t *body = json_loadb(answer->body, answer->body_bytes, 0, NULL);
    const json_t *error = json_object_get(body, "error");
    const char *value = json_string_value(json_object_get(error, "code"));
    if (!value) // Messages
        value = json_string_value(json_object_get(error, "type"));
    snprintf(found, sizeof found, "%s", value ? value : "(no error)");
    json_decref(body);
    if (answer->status != status || strcmp(found, code) != 0)
        fail_msg("%d %s instead of %d %s: %s", answer->status, found, status, code, answer->body);
}

struct order_case {
    const char *method, *path, *headers, *body;
    int status;
    const char *code;
};

// Each row passes the checks before the one that must fail, and would fail all later ones.
static const struct order_case order[] = {
    {"POST", "/v1/nowhere", "", "x", 404, "unknown_url"},
    {"DELETE", "/v1/messages/nowhere", "", NULL, 404, "not_found_error"},
    {"GET", "/v1/models/../../metrics", "", NULL, 404, "unknown_url"},
    {"GET", "/v1/models/%2e%2e/%2e%2e/metrics", "", NULL, 404, "unknown_url"},
    {"GET", "/v1/models/..%2f..%2fmetrics", "", NULL, 404, "unknown_url"},
    {"POST", "http://x/v1/./test/echo", BEARER JSON, "{}", 404, "unknown_url"},
    {"GET", "/v1/test/echo", "", NULL, 405, "method_not_allowed"},
    {"GET", "/v1/messages", "", NULL, 405, "invalid_request_error"},
    {"POST", "/v1/test/echo", "Content-Type: text/plain\r\n", "x", 401, "missing_api_key"},
    {"POST", "/v1/test/echo", "Authorization: Bearer no\r\nContent-Type: text/plain\r\n", "x", 401,
     "invalid_api_key"},
    {"POST", "/v1/test/echo", "x-api-key: no\r\n", "x", 401, "invalid_api_key"},
    {"POST", "/v1/messages", "", "x", 401, "authentication_error"},
    {"POST", "/v1/test/echo", BEARER "Content-Type: text/plain\r\n", "x", 415,
     "unsupported_media_type"},
    {"POST", "/v1/test/echo", BEARER "Content-Type: application/x-www-form-urlencoded\r\n", "x",
     415, "unsupported_media_type"},
    {"POST", "/v1/test/echo", BEARER "Content-Type: application/json; charset=latin1\r\n", "x", 415,
     "unsupported_media_type"},
    {"POST", "/v1/test/echo", BEARER JSON "Content-Encoding: gzip\r\n", "x", 415,
     "unsupported_content_encoding"},
};

static void test_check_order(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        const struct order_case *c = &order[i];
        struct http_answer answer = ask(c->method, c->path, c->headers, c->body);
        check_code(&answer, c->status, c->code);
        char value[64];
        if (c->status == 401) {
            assert_true(http_header(answer.head, "www-authenticate", value, sizeof value));
            assert_string_equal(value, "Bearer");
        }
        if (c->status == 405) {
            assert_true(http_header(answer.head, "allow", value, sizeof value));
            assert_string_equal(value, "POST");
        }
        assert_true(http_header(answer.head, "content-type", value, sizeof value));
        assert_string_equal(value, "application/json");
        http_answer_free(&answer);
    }
}

static void test_accepted_types(void **state)
{
    (void)state;
    static const char *const headers[] = {
        BEARER,
        BEARER "Content-Type: application/json\r\n",
        BEARER "Content-Type: Application/JSON; charset=UTF-8\r\n",
        BEARER "Content-Type: application/json;charset=\"utf-8\"; x=y\r\n",
        BEARER "Content-Type: application/vnd.api+json\r\n",
        BEARER JSON "Content-Encoding: identity\r\n",
        "authorization: bEaReR   " KEY "\r\n",
    };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        struct http_answer answer = ask("POST", "/v1/test/echo", headers[i], "{\"a\":1}");
        assert_int_equal(answer.status, 200);
        assert_string_equal(answer.body, "{\"a\":1}");
        http_answer_free(&answer);
    }
}

static void test_paths(void **state)
{
    (void)state;
    static const char *const paths[] = {"/v1/test/echo",           "/v1/test/echo/",
                                        "/v1/test/echo?a=b",       "/v1/test/%65cho",
                                        "/v1/test/echo/?x=/../y",  "http://host:1/v1/test/echo",
                                        "HTTPS://h/v1/test/echo?x"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct http_answer answer = ask("POST", paths[i], BEARER, "1");
        assert_int_equal(answer.status, 200);
        http_answer_free(&answer);
    }
    char rest[64];
    struct http_answer answer = ask("POST", "/v1/test/rest/a%2Fb%20c/d?q=1", BEARER, "1");
    assert_true(http_header(answer.head, "x-rest", rest, sizeof rest));
    assert_string_equal(rest, "a/b c/d");
    http_answer_free(&answer);
}

static void test_common_headers(void **state)
{
    (void)state;
    char id[256], second[256], value[64];
    struct http_answer answer =
        ask("POST", "/v1/test/echo", BEARER "X-Request-Id: my.id-1\r\n", "{}");
    assert_true(http_header(answer.head, "x-request-id", id, sizeof id));
    assert_true(http_header(answer.head, "request-id", second, sizeof second));
    assert_string_equal(id, "my.id-1");
    assert_string_equal(second, id);
    assert_true(http_header(answer.head, "openai-processing-ms", value, sizeof value));
    assert_true(strspn(value, "0123456789") == strlen(value) && value[0] != '\0');
    assert_true(http_header(answer.head, "cache-control", value, sizeof value));
    assert_string_equal(value, "no-store");
    assert_true(http_header(answer.head, "content-length", value, sizeof value));
    assert_true(http_header(answer.head, "server", value, sizeof value));
    assert_string_equal(value, "weft");
    http_answer_free(&answer);
    // an invalid id is replaced, also in an error body
    answer = ask("POST", "/v1/messages", "X-Request-Id: bad id\r\n", "{}");
    assert_true(http_header(answer.head, "request-id", id, sizeof id));
    assert_int_equal(strlen(id), 28);
    assert_memory_equal(id, "req_", 4);
    assert_non_null(strstr(answer.body, id));
    http_answer_free(&answer);
}

static void test_options_and_head(void **state)
{
    (void)state;
    char value[64];
    struct http_answer answer = ask("OPTIONS", "/v1/test/echo", NULL, NULL);
    assert_int_equal(answer.status, 204);
    assert_true(http_header(answer.head, "allow", value, sizeof value));
    assert_string_equal(value, "POST");
    assert_int_equal(answer.body_bytes, 0);
    http_answer_free(&answer);
    answer = ask("OPTIONS", "*", NULL, NULL); // the complete server
    assert_int_equal(answer.status, 204);
    assert_true(http_header(answer.head, "allow", value, sizeof value));
    assert_string_equal(value, "GET, HEAD, POST, OPTIONS");
    http_answer_free(&answer);
    // HEAD, then another request on the same connection: no body was sent in between
    struct http_client client;
    assert_true(http_client_open(&client, fixture.port));
    assert_true(http_client_request(&client, "HEAD", "/v1/models", BEARER, NULL));
    assert_true(http_client_answer_head(&client, &answer));
    assert_int_equal(answer.status, 200);
    assert_true(http_header(answer.head, "content-length", value, sizeof value));
    assert_true(atoi(value) > 100);
    http_answer_free(&answer);
    assert_true(http_client_request(&client, "GET", "/version", NULL, NULL));
    assert_true(http_client_answer(&client, &answer));
    assert_non_null(strstr(answer.body, "{\"version\":\""));
    http_answer_free(&answer);
    http_client_close(&client);
}

// exchange_fail with each error in both formats, with its headers.
static void test_failures_on_the_wire(void **state)
{
    (void)state;
    for (int error = 0; error < HTTP_ERROR_COUNT; error++) {
        for (int shape = 0; shape < 2; shape++) {
            char body[16], value[64];
            snprintf(body, sizeof body, "%d", error);
            struct http_answer answer =
                shape == SHAPE_OPENAI
                    ? ask("POST", "/v1/test/fail", BEARER JSON, body)
                    : ask("POST", "/v1/messages/fail", "x-api-key: " KEY "\r\n", body);
            int status = http_error_status((enum http_error)error, (enum shape)shape), seconds = 0;
            assert_int_equal(answer.status, status);
            if (http_header(answer.head, "retry-after", value, sizeof value)) {
                seconds = atoi(value);
                assert_true(http_header(answer.head, "retry-after-ms", value, sizeof value));
                assert_int_equal(atoi(value), seconds * 1000);
            }
            bool retry = status == 503 || status == 529;
            assert_in_range(seconds, retry, retry ? 60 : 0);
            bool told = error == HTTP_INTERNAL_SAME || error == HTTP_GRAMMAR;
            assert_int_equal(http_header(answer.head, "x-should-retry", value, sizeof value),
                             told || error == HTTP_CROWDED);
            json_t *parsed = json_loadb(answer.body, answer.body_bytes, 0, NULL);
            assert_non_null(json_object_get(parsed, "error"));
            assert_int_equal(json_object_get(parsed, "request_id") != NULL,
                             shape == SHAPE_MESSAGES);
            json_decref(parsed);
            http_answer_free(&answer);
        }
    }
}

static void test_deadline_header(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        uint64_t ms;
    } cases[] = {
        {"X-Stainless-Timeout: 2.5\r\n", 2500},
        {"X-Stainless-Timeout: 0.25\r\n", 250},
        {"X-Stainless-Timeout: 0\r\n", 0},
        {"X-Stainless-Timeout: soon\r\n", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char headers[128];
        snprintf(headers, sizeof headers, BEARER "%s", cases[i].header);
        struct http_answer answer = ask("POST", "/v1/test/fail", headers, "2");
        http_answer_free(&answer);
        assert_int_equal(seen.deadline_ms, cases[i].ms);
    }
}

static void test_models(void **state)
{
    (void)state;
    struct http_answer answer = ask("GET", "/v1/models?limit=20", "x-api-key: " KEY "\r\n", NULL);
    json_t *body = json_loadb(answer.body, answer.body_bytes, 0, NULL);
    assert_int_equal(json_array_size(json_object_get(body, "data")), 2);
    const json_t *first = json_array_get(json_object_get(body, "data"), 0);
    assert_string_equal(json_string_value(json_object_get(first, "id")), "org/qwen-x");
    assert_string_equal(json_string_value(json_object_get(first, "created_at")),
                        "2026-09-21T14:13:20Z");
    assert_int_equal(json_integer_value(json_object_get(first, "max_model_len")), 4096);
    assert_int_equal(json_object_size(first), 17);
    assert_true(json_is_false(json_object_get(body, "has_more")));
    assert_string_equal(json_string_value(json_object_get(body, "last_id")), "embed");
    json_decref(body);
    http_answer_free(&answer);
    static const char *const paths[] = {"/v1/models/org/qwen-x", "/v1/models/org%2Fqwen-x"};
    for (int i = 0; i < 2; i++) {
        answer = ask("GET", paths[i], BEARER, NULL);
        assert_int_equal(answer.status, 200);
        assert_memory_equal(answer.body, "{\"id\":\"org/qwen-x\"", 18);
        http_answer_free(&answer);
    }
    static const char *const unknown[] = {"/v1/models/none", "/v1/models/org%252Fqwen-x"};
    for (int i = 0; i < 2; i++) {
        answer = ask("GET", unknown[i], BEARER, NULL);
        check_code(&answer, 404, "model_not_found");
        http_answer_free(&answer);
    }
    answer = ask("GET", "/v1/models/none", BEARER "anthropic-version: 2023-06-01\r\n", NULL);
    check_code(&answer, 404, "not_found_error");
    assert_non_null(strstr(answer.body, "model: none"));
    http_answer_free(&answer);
    answer = ask("GET", "/v1/models", NULL, NULL);
    check_code(&answer, 401, "missing_api_key");
    http_answer_free(&answer);
    // two headers with different keys: the one of the route's format counts
    answer = ask("GET", "/v1/models", BEARER "x-api-key: wrong\r\n", NULL);
    assert_int_equal(answer.status, 200);
    http_answer_free(&answer);
    answer = ask("GET", "/v1/models", BEARER "x-api-key: wrong\r\nanthropic-version: 1\r\n", NULL);
    check_code(&answer, 401, "authentication_error");
    http_answer_free(&answer);
}

static void test_health(void **state)
{
    (void)state;
    struct http_answer answer = ask("GET", "/health", NULL, NULL);
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.body, "{\"status\":\"ok\"}");
    http_answer_free(&answer);
    static const char *const paths[] = {"/ping", "/ready"};
    for (int i = 0; i < 2; i++) {
        answer = ask("GET", paths[i], NULL, NULL);
        assert_int_equal(answer.status, 200);
        http_answer_free(&answer);
    }
    answer = ask("GET", "/v1/health", NULL, NULL);
    assert_int_equal(answer.status, 401);
    http_answer_free(&answer);
    answer = ask("GET", "/v1/health", BEARER, NULL);
    assert_int_equal(answer.status, 200);
    http_answer_free(&answer);
    struct engine_stats *stats = engine_double_stats(fixture.engine);
    stats->failed = 1;
    answer = ask("GET", "/ready", NULL, NULL);
    check_code(&answer, 503, "unavailable");
    http_answer_free(&answer);
    stats->failed = 0;
}

static uint64_t seconds_ago(uint64_t seconds)
{
    uint64_t now = clock_ns();
    return now > seconds * 1000000000 ? now - seconds * 1000000000 : 1;
}

struct beat {
    uint64_t step_s, beat_s; // ago; 0: none
    const char *says;        // in a 503; NULL: 200
};

// A step may last 30 s; between steps an engine has a heartbeat, with or without work.
static void test_health_of_engines(void **state)
{
    (void)state;
    static const struct beat beats[] = {
        {0, 0, NULL},
        {0, 2, NULL},
        {20, 20, NULL},
        {0, 3600, "the engine of 'org/qwen-x' makes no progress."},
        {0, 12, "makes no progress"},
        {3600, 3600, "the engine of 'org/qwen-x' has not finished a step for 30 s."},
        {40, 1, "for 30 s"},
        {1, 1, NULL},
    };
    struct engine_stats *stats = engine_double_stats(fixture.engine);
    for (size_t i = 0; i < sizeof beats / sizeof *beats; i++) {
        const struct beat *b = &beats[i];
        stats->step_started_ns = b->step_s > 0 ? seconds_ago(b->step_s) : 0;
        stats->beat_ns = b->beat_s > 0 ? seconds_ago(b->beat_s) : 0;
        struct http_answer answer = ask("GET", "/health", NULL, NULL);
        assert_int_equal(answer.status, b->says ? 503 : 200);
        if (b->says && !strstr(answer.body, b->says))
            fail_msg("'%s' lacks '%s'", answer.body, b->says);
        http_answer_free(&answer);
    }
    stats->step_started_ns = stats->beat_ns = 0;
}

// Open paths answer with any key; each path has its methods.
static void test_open_paths(void **state)
{
    (void)state;
    static const char *const paths[] = {"/health",  "/ping",    "/ready",
                                        "/version", "/metrics", "/v1/health"};
    static const char *const keys[] = {NULL, "Authorization: Bearer wrong\r\n",
                                       "x-api-key: wrong\r\n", "Authorization: Basic x\r\n"};
    char value[32];
    for (int i = 0; i < 6; i++) {
        for (int k = 0; k < 4; k++) {
            struct http_answer answer = ask("GET", paths[i], keys[k], NULL);
            assert_int_equal(answer.status, i < 5 ? 200 : 401);
            assert_true(http_header(answer.head, "cache-control", value, sizeof value));
            assert_string_equal(value, "no-store");
            http_answer_free(&answer);
        }
        struct http_answer answer = ask("POST", paths[i], BEARER JSON, "{}");
        check_code(&answer, 405, "method_not_allowed");
        assert_true(http_header(answer.head, "allow", value, sizeof value));
        assert_string_equal(value, "GET, HEAD");
        http_answer_free(&answer);
    }
}

static void test_retry_follows_the_queue(void **state)
{
    (void)state;
    char value[16];
    engine_double_admission_set(fixture.engine, ADMISSION_BUSY);
    engine_double_stats(fixture.engine)->sequences_waiting = 320;
    struct http_answer answer = ask("POST", "/v1/test/wait", BEARER JSON, "{}");
    check_code(&answer, 503, "overloaded");
    assert_true(http_header(answer.head, "retry-after", value, sizeof value));
    assert_int_equal(atoi(value), 21);
    http_answer_free(&answer);
    engine_double_stats(fixture.engine)->sequences_waiting = 1000000;
    answer = ask("POST", "/v1/test/wait", BEARER JSON, "{}");
    assert_true(http_header(answer.head, "retry-after", value, sizeof value));
    assert_int_equal(atoi(value), 60);
    http_answer_free(&answer);
    engine_double_stats(fixture.engine)->sequences_waiting = 0;
    engine_double_admission_set(fixture.engine, ADMITTED);
}

static void test_no_compression(void **state)
{
    (void)state;
    char value[64];
    struct http_answer answer =
        ask("GET", "/v1/models", BEARER "Accept-Encoding: gzip, deflate, br\r\n", NULL);
    assert_false(http_header(answer.head, "content-encoding", value, sizeof value));
    assert_memory_equal(answer.body, "{\"object\"", 9);
    http_answer_free(&answer);
}

static void test_expect_continue(void **state)
{
    (void)state;
    struct http_client client;
    struct http_answer answer;
    assert_true(http_client_open(&client, fixture.port));
    const char *head = "POST /v1/test/echo HTTP/1.1\r\nHost: a\r\n" BEARER
                       "Expect: 100-continue\r\nContent-Length: 4\r\n\r\n";
    assert_true(http_client_send(&client, head, strlen(head)));
    struct pollfd wanted = {.fd = client.fd, .events = POLLIN};
    assert_int_equal(poll(&wanted, 1, FAR_MS), 1); // the interim response, before the body
    assert_true(http_client_send(&client, "1234", 4));
    assert_true(http_client_answer(&client, &answer));
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.body, "1234");
    http_answer_free(&answer);
    http_client_close(&client);
}

// The request timeout ends a slow head; other requests are not affected.
static void test_slow_head(void **state)
{
    (void)state;
    struct fixture slow;
    enum { LIMIT_MS = 1500, BYTES = 1000 };
    struct server_options options = {.request_timeout_ms = LIMIT_MS};
    struct http_client client;
    struct http_answer answer;
    fixture_open(&slow, &options, true);
    assert_true(http_client_open(&client, slow.port));
    int sent = 0;
    while (sent < BYTES && http_client_send(&client, sent == 0 ? "G" : "E", 1)) {
        uint64_t before = clock_ns();
        bool answered = http_once(slow.port, "GET", "/health", NULL, NULL, &answer);
        if (answered || clock_ns() - before < LIMIT_MS / 2 * UINT64_C(1000000))
            assert_int_equal(answer.status, 200); // only a delayed thread may be late
        http_answer_free(&answer);
        usleep(100000);
        sent++;
    }
    assert_true(sent < BYTES);
    http_client_close(&client);
    fixture_close(&slow);
}

// Mutated requests, truncated anywhere, on connections that close in any way: the server keeps
// running; sanitizers detect the rest.
static void test_mutated_requests(void **state)
{
    (void)state;
    enum { ROUNDS = 3000, SEED = 20260921 };
    static const char *const seeds[] = {
        "POST /v1/test/echo HTTP/1.1\r\nHost: a\r\n" BEARER JSON "Content-Length: 3\r\n\r\n[1]",
        "GET /v1/models/org%2Fqwen-x?a=b HTTP/1.1\r\nHost: a\r\nx-api-key: " KEY "\r\n\r\n",
        "POST /v1/messages HTTP/1.1\r\nHost: a\r\nx-api-key: " KEY
        "\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\nGET /health HTTP/1.1\r\nHost: "
        "a\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x4\0\0\0\0\0",
        "POST /v1/test/work HTTP/1.1\r\nHost: a\r\n" BEARER "Content-Length: 2\r\n\r\n{}",
    };
    unsigned random = SEED; // a linear congruential generator: equal bytes in each run
    for (int round = 0; round < ROUNDS; round++) {
        char bytes[512];
        struct http_client client;
        const char *seed = seeds[round % 5];
        size_t count = round % 5 == 3 ? 33 : strlen(seed);
        memcpy(bytes, seed, count);
        for (int i = 0; i < round % 7; i++) {
            random = random * 1664525u + 1013904223u;
            bytes[(random >> 8) % count] = (char)(random >> 24);
        }
        count = round % 3 == 0 ? (random >> 8) % count + 1 : count;
        assert_true(http_client_open(&client, fixture.port));
        http_client_send(&client, bytes, count);
        if (round % 2 == 0) {
            struct pollfd wanted = {.fd = client.fd, .events = POLLIN};
            poll(&wanted, 1, 1);
        }
        http_client_close(&client);
    }
    struct http_answer answer = ask("GET", "/health", NULL, NULL);
    assert_int_equal(answer.status, 200);
    http_answer_free(&answer);
}

static void test_http10(void **state)
{
    (void)state;
    struct http_client client;
    struct http_answer answer;
    assert_true(http_client_open(&client, fixture.port));
    const char *head = "GET /health HTTP/1.0\r\n\r\n";
    assert_true(http_client_send(&client, head, strlen(head)));
    assert_true(http_client_answer(&client, &answer));
    assert_int_equal(answer.status, 200);
    assert_true(http_client_closed(&client, FAR_MS));
    http_answer_free(&answer);
    http_client_close(&client);
}

static void test_metrics(void **state)
{
    (void)state;
    char value[64];
    struct engine_stats *stats = engine_double_stats(fixture.engine);
    stats->steps_by_tokens[step_bucket(1)] = 2;
    stats->steps_by_tokens[step_bucket(16)] = 3;
    stats->steps_by_tokens[step_bucket(20000)] = 1;
    stats->tokens_computed = 20050;
    struct http_answer answer = ask("GET", "/metrics", NULL, NULL);
    assert_true(http_header(answer.head, "content-type", value, sizeof value));
    assert_string_equal(value, "text/plain; version=0.0.4; charset=utf-8");
    static const char *const wanted[] = {
        "# TYPE vllm:time_to_first_token_seconds histogram\n",
        "vllm:time_to_first_token_seconds_bucket{model_name=\"org/"
        "qwen-x\",engine=\"0\",le=\"2560.0\"}",
        "vllm:inter_token_latency_seconds_bucket{model_name=\"org/"
        "qwen-x\",engine=\"0\",le=\"0.01\"}",
        "vllm:e2e_request_latency_seconds_bucket{model_name=\"org/"
        "qwen-x\",engine=\"0\",le=\"7680.0\"}",
        "vllm:request_success_total{model_name=\"org/"
        "qwen-x\",engine=\"0\",finished_reason=\"stop\"",
        "vllm:kv_cache_usage_perc{model_name=\"org/qwen-x\",engine=\"0\"} ",
        "vllm:num_requests_running{",
        "vllm:num_preemptions_total{",
        "vllm:cache_config_info{",
        "weft_steps_total{model_name=\"embed\",engine=\"1\"} ",
        "weft_parked_total{model_name=\"embed\",engine=\"1\"} ",
        "weft_sequences_parked{model_name=\"embed\",engine=\"1\"} ",
        "te_request_count{model_name=\"embed\",engine=\"1\"} ",
        "te_queue_size{",
        "vllm:iteration_tokens_total_bucket{model_name=\"org/"
        "qwen-x\",engine=\"0\",le=\"8.0\"} 2\n",
        "vllm:iteration_tokens_total_bucket{model_name=\"org/"
        "qwen-x\",engine=\"0\",le=\"16.0\"} 5\n",
        "vllm:iteration_tokens_total_sum{model_name=\"org/qwen-x\",engine=\"0\"} 20050",
        "vllm:iteration_tokens_total_count{model_name=\"org/qwen-x\",engine=\"0\"} 6\n",
        "te_batch_next_size_bucket{model_name=\"embed\",engine=\"1\",le=\"1.0\"} ",
        "te_batch_next_tokens_count{model_name=\"embed\",engine=\"1\"} ",
        "process_resident_memory_bytes ",
        "process_cpu_seconds_total ",
        "process_open_fds ",
        "process_start_time_seconds ",
        "http_requests_total{handler=\"/v1/test/echo\",method=\"POST\",status=\"4xx\"} ",
        "http_request_duration_seconds_bucket{handler=\"/health\",le=\"+Inf\"} ",
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!strstr(answer.body, wanted[i]))
            fail_msg("no %s", wanted[i]);
    // vLLM's metric has three finish reasons; weft's has every one, for both models
    static const char *const prefixes[] = {"vllm:request_success_total{", "weft_finished_total{"};
    static const int counts[] = {3, 2 * COUNTED_FINISH_COUNT};
    for (int i = 0; i < 2; i++) {
        int count = 0;
        for (const char *at = answer.body; (at = strstr(at, prefixes[i])) != NULL; at++)
            count++;
        assert_int_equal(count, counts[i]);
    }
    char *whole = strdup(answer.body); // strtok modifies its text
    for (const char *line = strtok(answer.body, "\n"); line; line = strtok(NULL, "\n")) {
        const char *blank = strrchr(line, ' '); // each line is a comment, or a name and a number
        char *end = NULL;
        assert_non_null(blank);
        if (line[0] != '#')
            strtod(blank + 1, &end);
        if (end && *end != '\0')
            fail_msg("not a number: %s", line);
        char family[128], type[16], gauge[160];
        // an OpenMetrics reader expects the counter's name without _total
        if (sscanf(line, "# TYPE %127s %15s", family, type) == 2 && strcmp(type, "gauge") == 0) {
            snprintf(gauge, sizeof gauge, "# TYPE %s_total counter\n", family);
            if (strstr(whole, gauge))
                fail_msg("%s is a gauge and a counter", family);
        }
    }
    free(whole);
    http_answer_free(&answer);
    const char *series = "http_requests_total{handler=\"/version\",method=\"GET\",status=\"2xx\"}";
    uint64_t before = metric_value(&fixture, series);
    before = before == UINT64_MAX ? 0 : before;
    for (int i = 0; i < 3; i++) {
        answer = ask("GET", "/version", NULL, NULL);
        http_answer_free(&answer);
    }
    // a response is counted when h2o releases it, shortly after the client has received it
    metric_wait(&fixture, series, before + 3, before + 3);
}

static int open_main(void **state)
{
    (void)state;
    struct server_options options = {.http2 = -1, .http_threads = 2, .body_bytes_max = 1 << 20};
    fixture_open(&fixture, &options, true);
    return 0;
}

static int close_main(void **state)
{
    (void)state;
    fixture_close(&fixture);
    return 0;
}

static void test_body_limit(void **state)
{
    (void)state;
    char *body = malloc((1 << 20) + 2), value[32];
    memset(body, '1', (1 << 20) + 1);
    body[(1 << 20) + 1] = '\0';
    struct http_answer answer = ask("POST", "/v1/test/echo", BEARER JSON, body);
    check_code(&answer, 413, "request_too_large");
    assert_true(http_header(answer.head, "connection", value, sizeof value));
    assert_string_equal(value, "close");
    http_answer_free(&answer);
    body[1 << 20] = '\0';
    answer = ask("POST", "/v1/test/echo", BEARER JSON, body);
    assert_int_equal(answer.status, 200);
    assert_int_equal(answer.body_bytes, 1 << 20);
    assert_true(answer.complete);
    http_answer_free(&answer);
    free(body);
}

static void test_before_ready(void **state)
{
    (void)state;
    struct fixture loading;
    struct http_answer answer;
    fixture_open(&loading, NULL, false);
    static const char *const paths[] = {"/health", "/ready", "/v1/models"};
    for (int i = 0; i < 3; i++) {
        char value[16];
        assert_true(http_once(loading.port, "GET", paths[i], BEARER, NULL, &answer));
        check_code(&answer, 503, "unavailable");
        assert_true(http_header(answer.head, "retry-after", value, sizeof value));
        http_answer_free(&answer);
    }
    assert_true(http_once(loading.port, "GET", "/v1/models", NULL, NULL, &answer));
    assert_int_equal(answer.status, 401); // the key is checked first
    http_answer_free(&answer);
    assert_true(http_once(loading.port, "GET", "/metrics", NULL, NULL, &answer));
    assert_int_equal(answer.status, 200);
    http_answer_free(&answer);
    fixture_serve(&loading);
    assert_true(http_once(loading.port, "GET", "/ready", NULL, NULL, &answer));
    assert_int_equal(answer.status, 200);
    http_answer_free(&answer);
    fixture_close(&loading);
}

static void test_connection_limit(void **state)
{
    (void)state;
    struct fixture small;
    struct server_options options = {.connections_max = 3};
    fixture_open(&small, &options, true);
    struct http_client clients[4];
    struct http_answer answer;
    for (int i = 0; i < 4; i++) { // the kernel accepts the fourth; the server does not yet
        assert_true(http_client_open(&clients[i], small.port));
        assert_true(http_client_request(&clients[i], "GET", "/health", NULL, NULL));
    }
    for (int i = 0; i < 3; i++) {
        assert_true(http_client_answer(&clients[i], &answer));
        http_answer_free(&answer);
    }
    struct pollfd wanted = {.fd = clients[3].fd, .events = POLLIN};
    assert_int_equal(poll(&wanted, 1, 200), 0);
    http_client_close(&clients[0]);
    assert_true(http_client_answer(&clients[3], &answer)); // accepted now
    assert_int_equal(answer.status, 200);
    http_answer_free(&answer);
    for (int i = 1; i < 4; i++)
        http_client_close(&clients[i]);
    fixture_close(&small);
}

static void test_refused_starts(void **state)
{
    (void)state;
    static const char *const keys[] = {"k"};
    struct server *server = NULL;
    struct error err;
    struct server_options options = {.host = "127.0.0.1"};
    assert_int_equal(server_open(&server, &options, &err), STATUS_INVALID); // no key
    options.api_keys = keys;
    options.api_key_count = 1;
    options.host = "not a host";
    assert_int_equal(server_open(&server, &options, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "--host"));
    options.host = "192.0.2.1"; // not an address of this machine
    assert_int_equal(server_open(&server, &options, &err), STATUS_IO);
    options.host = "127.0.0.1";
    options.ssl_certfile = "/nonexistent.pem";
    assert_int_equal(server_open(&server, &options, &err), STATUS_INVALID);
    options.ssl_keyfile = "/nonexistent.key";
    assert_int_equal(server_open(&server, &options, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.text, "nonexistent.pem"));
}

static void test_bytes_max(void **state)
{
    (void)state;
    enum { BODY = 8 << 20, SCRATCH = 96 * BODY };
    struct server_options options = {.connections_max = 10, .body_bytes_max = BODY};
    uint64_t ten = server_bytes_max(&options);
    options.connections_max = 20;
    uint64_t twenty = server_bytes_max(&options);
    assert_in_range(twenty - ten, 10 * 8192, 10 * 65536); // buffers; bodies share a budget
    options.body_memory_max = UINT64_C(300) << 20;
    assert_int_equal(server_bytes_max(&options) - twenty, (300 - 256) << 20);
    options.body_memory_max = 0;
    options.text_workers = 3; // two more: a copy and preparation memory for each
    assert_in_range(server_bytes_max(&options) - twenty, 2 * ((uint64_t)BODY + SCRATCH),
                    2 * (3 * (uint64_t)SCRATCH + (UINT64_C(1) << 30)));
    options.text_workers = 1;
    pid_t child = fork(); // with few open files: a lower requested limit is kept
    if (child == 0) {
        enum { FILES = 200 };
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){FILES, FILES});
        bool same = server_bytes_max(&options) == twenty;
        options.connections_max = 1 << 20;
        _exit(same && server_bytes_max(&options) < twenty + (uint64_t)FILES * 65536 ? 0 : 1);
    }
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

// SO_REUSEPORT alone would let two servers share a port unnoticed.
static void test_port_in_use(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, NULL, true);
    static const char *const keys[] = {KEY};
    struct server_options o = {.host = "127.0.0.1",
                               .port = f.port,
                               .http_threads = 2,
                               .api_keys = keys,
                               .api_key_count = 1,
                               .http2 = -1};
    struct server *second = NULL;
    struct error err = {0};
    assert_int_equal(server_open(&second, &o, &err), STATUS_IO);
    assert_non_null(strstr(err.text, "another process listens on it"));
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_port_in_use),
        cmocka_unit_test(test_check_order),
        cmocka_unit_test(test_accepted_types),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_common_headers),
        cmocka_unit_test(test_options_and_head),
        cmocka_unit_test(test_failures_on_the_wire),
        cmocka_unit_test(test_deadline_header),
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_health),
        cmocka_unit_test(test_health_of_engines),
        cmocka_unit_test(test_open_paths),
        cmocka_unit_test(test_retry_follows_the_queue),
        cmocka_unit_test(test_no_compression),
        cmocka_unit_test(test_expect_continue),
        cmocka_unit_test(test_slow_head),
        cmocka_unit_test(test_http10),
        cmocka_unit_test(test_mutated_requests),
        cmocka_unit_test(test_metrics),
        cmocka_unit_test(test_body_limit),
        cmocka_unit_test(test_before_ready),
        cmocka_unit_test(test_connection_limit),
        cmocka_unit_test(test_refused_starts),
        cmocka_unit_test(test_bytes_max),
    };
    return cmocka_run_group_tests(tests, open_main, close_main);
}
