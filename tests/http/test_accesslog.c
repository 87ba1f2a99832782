// SPDX-License-Identifier: Apache-2.0
// The access log line, value by value, as its functions write it: values for each kind of request,
// truncation, omitted members. No server runs; the lines are read from stderr.
#include "http/internal.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static const struct model_facts generator = {.kind = MODEL_GENERATOR},
                                embedder = {.kind = MODEL_EMBEDDER};
static struct served_model model;
static const struct route route = {.path = "/v1/test"};
static struct http_thread thread;
static struct exchange x;
static h2o_req_t req;

static h2o_iovec_t bytes_of(const char *text)
{
    return h2o_iovec_init(text, strlen(text));
}

static int fresh(void **state)
{
    (void)state;
    log_level_set(LOG_INFO);
    log_format_set(LOG_JSON);
    memset(&x, 0, sizeof x);
    memset(&req, 0, sizeof req);
    h2o_mem_init_pool(&req.pool);
    req.input.method = bytes_of("POST");
    req.input.path = bytes_of("/v1/test?key=secret");
    req.input.query_at = 8;
    req.version = 0x101;
    req.entity.len = 21;
    req.bytes_sent = 43;
    model = (struct served_model){.id = "m", .facts = &generator};
    x.thread = &thread;
    x.route = &route;
    x.reply = REPLY_ENDED;
    x.response.status = 200;
    x.info.key_id = KEY_NONE;
    x.info.request_id = text_of("req_1");
    x.arrived_ns = clock_ns() - 5000000;
    return 0;
}

static int clear(void **state)
{
    (void)state;
    h2o_mem_clear_pool(&req.pool);
    return 0;
}

// Returns the line that the call logs; "" if none.
static const char *line_of(bool refused)
{
    static char text[8192];
    int kept = dup(STDERR_FILENO), file = memfd_create("log", MFD_CLOEXEC);
    assert_true(kept >= 0 && file >= 0);
    fflush(stderr);
    dup2(file, STDERR_FILENO);
    if (refused)
        access_log_refused(NULL, &req);
    else
        access_log(&x, &req);
    dup2(kept, STDERR_FILENO);
    close(kept);
    ssize_t got = pread(file, text, sizeof text - 1, 0);
    close(file);
    text[got > 0 ? got : 0] = '\0';
    return text;
}

static json_t *values_of(bool refused)
{
    const char *line = line_of(refused);
    json_t *values = json_loads(line, 0, NULL);
    if (!values)
        fail_msg("no object: '%s'", line);
    assert_string_equal(json_string_value(json_object_get(values, "message")), "request");
    assert_string_equal(json_string_value(json_object_get(values, "level")), "info");
    json_object_del(values, "message");
    json_object_del(values, "level");
    json_object_del(values, "ts");
    return values;
}

// Compares the line with the expected members, except times that pass while it is written.
static void line_is(bool refused, const char *wanted)
{
    json_t *values = values_of(refused), *expected = json_loads(wanted, 0, NULL);
    json_object_del(values, "total_ms");
    char *said = json_dumps(values, JSON_COMPACT);
    assert_non_null(expected);
    if (!json_equal(values, expected))
        fail_msg("%s instead of %s", said, wanted);
    free(said);
    json_decref(values);
    json_decref(expected);
}

static void text_is_shown(const char *name, const char *wanted)
{
    json_t *values = values_of(false);
    const char *said = json_string_value(json_object_get(values, name));
    if (!said != !wanted || (said && strcmp(said, wanted) != 0))
        fail_msg("%s: '%s' instead of '%s'", name, said ? said : "none", wanted ? wanted : "none");
    json_decref(values);
}

#define WIRE "\"bytes_in\":21,\"bytes_out\":43,\"protocol\":\"HTTP/1.1\""
#define HEAD "\"method\":\"POST\",\"route\":\"/v1/test\",\"status\":200"

static void test_a_generation(void **state)
{
    (void)state;
    x.engine.model = &model;
    x.info.key_id = 3;
    x.arrived_ns = 1000000000;
    x.counts.tokens_answered = 9;
    x.counts.tokens_out = 12; // sampled
    x.engine.facts = (struct request_facts){.prompt_tokens = 17,
                                            .submitted_ns = 1002000000,
                                            .started_ns = 1005500000,
                                            .first_token_ns = 1010000000};
    line_is(false, "{" HEAD ",\"model\":\"m\",\"tokens_in\":17,\"tokens_out\":9,\"queue_ms\":3.5,"
                   "\"first_token_ms\":10.0," WIRE ",\"key\":3,\"client_gone\":false,"
                   "\"id\":\"req_1\"}");
    json_t *values = values_of(false);
    assert_true(json_number_value(json_object_get(values, "total_ms")) > 10);
    json_decref(values);
}

static void test_who_pools_has_no_output(void **state)
{
    (void)state;
    model.facts = &embedder;
    x.engine.model = &model;
    x.engine.facts = (struct request_facts){.prompt_tokens = 17, .submitted_ns = 5};
    line_is(false, "{" HEAD ",\"model\":\"m\",\"tokens_in\":17," WIRE
                   ",\"client_gone\":false,\"id\":\"req_1\"}");
}

// A request that was not submitted has no token counts. Key id 0 is a valid key.
static void test_who_was_not_submitted(void **state)
{
    (void)state;
    x.engine.model = &model;
    x.info.key_id = 0;
    x.response.code = "overloaded";
    x.response.status = 503;
    line_is(false, "{\"method\":\"POST\",\"route\":\"/v1/test\",\"status\":503,"
                   "\"code\":\"overloaded\",\"model\":\"m\"," WIRE
                   ",\"key\":0,\"client_gone\":false,\"id\":\"req_1\"}");
}

static void test_a_model_that_is_not_served(void **state)
{
    (void)state;
    x.model_named = text_of("other");
    text_is_shown("model", "other");
    x.job.state = JOB_RUNS; // a text worker may be writing it
    text_is_shown("model", NULL);
    x.engine.model = &model;
    text_is_shown("model", "m");
}

static void test_who_left(void **state)
{
    (void)state;
    x.client = CLIENT_GONE;
    line_is(false, "{\"method\":\"POST\",\"route\":\"/v1/test\",\"status\":499," WIRE
                   ",\"client_gone\":true,\"id\":\"req_1\"}");
    x.client = CLIENT_WAITS;
    x.reply = REPLY_NONE; // no response
    line_is(false, "{\"method\":\"POST\",\"route\":\"/v1/test\",\"status\":499," WIRE
                   ",\"client_gone\":false,\"id\":\"req_1\"}");
}

// The status 200 was sent before the failure; the code shows how the stream ended.
static void test_a_stream_that_failed(void **state)
{
    (void)state;
    text_is_shown("code", NULL);
    x.reply = REPLY_BEGUN;
    x.response.content_length = UINT64_MAX;
    exchange_stream_failed(&x, HTTP_TIMEOUT);
    x.reply = REPLY_ENDED;
    line_is(false,
            "{" HEAD ",\"code\":\"timeout\"," WIRE ",\"client_gone\":false,\"id\":\"req_1\"}");
}

// Without a route the line holds the path instead, without its query and cut to 200 bytes.
static void test_what_is_cut(void **state)
{
    char path[300], wanted[201];
    (void)state;
    x.route = NULL;
    text_is_shown("route", "/v1/test");
    req.input.query_at = SIZE_MAX;
    text_is_shown("route", "/v1/test?key=secret");
    memset(path, 'p', sizeof path);
    path[0] = '/';
    memcpy(wanted, path, sizeof wanted - 1);
    wanted[200] = '\0';
    req.input.path = h2o_iovec_init(path, sizeof path);
    text_is_shown("route", wanted);
    req.input.path.len = 200;
    text_is_shown("route", wanted);
    req.input.path.len = 199;
    wanted[199] = '\0';
    text_is_shown("route", wanted);
    req.input.method = bytes_of("0123456789012345678901234567890123456789");
    text_is_shown("method", "01234567890123456789012345678901");
    memset(path, 'n', sizeof path);
    path[299] = '\0';
    memset(wanted, 'n', 200);
    wanted[200] = '\0';
    model.id = path;
    x.engine.model = &model;
    text_is_shown("model", wanted);
}

static void test_protocols(void **state)
{
    (void)state;
    req.version = 0x100;
    text_is_shown("protocol", "HTTP/1.0");
    req.version = 0x101;
    text_is_shown("protocol", "HTTP/1.1");
    req.version = 0x200;
    text_is_shown("protocol", "HTTP/2");
}

// Times that were not recorded or that went backwards are left out.
static void test_times_that_are_none(void **state)
{
    static const char *const names[] = {"queue_ms", "first_token_ms"};
    (void)state;
    x.engine.model = &model;
    x.arrived_ns = 1000;
    x.engine.facts = (struct request_facts){.submitted_ns = 2000, .started_ns = 1999};
    json_t *values = values_of(false);
    for (int i = 0; i < 2; i++)
        assert_null(json_object_get(values, names[i]));
    assert_non_null(json_object_get(values, "tokens_in"));
    json_decref(values);
    x.engine.facts.started_ns = 2000; // immediately
    values = values_of(false);
    assert_true(json_number_value(json_object_get(values, "queue_ms")) == 0);
    assert_non_null(json_object_get(values, "queue_ms"));
    json_decref(values);
    x.arrived_ns = 0;
    values = values_of(false);
    assert_null(json_object_get(values, "total_ms"));
    json_decref(values);
}

// A request that libh2o refuses while it parses the head has no route, no key and no times.
static void test_refused_by_the_library(void **state)
{
    char id[REQUEST_ID_MAX + 10];
    (void)state;
    req.res.status = 413;
    line_is(true, "{\"method\":\"POST\",\"route\":\"/v1/test\",\"status\":413,"
                  "\"code\":\"request_too_large\"," WIRE "}");
    req.res.status = 399;
    memset(id, 'i', sizeof id);
    h2o_add_header_by_str(&req.pool, &req.res.headers, H2O_STRLIT("x-request-id"), 0, NULL, id,
                          sizeof id);
    json_t *values = values_of(true);
    assert_null(json_object_get(values, "code"));
    assert_int_equal(json_string_length(json_object_get(values, "id")), REQUEST_ID_MAX);
    json_decref(values);
    req.res.status = 400;
    values = values_of(true);
    assert_string_equal(json_string_value(json_object_get(values, "code")), "invalid_value");
    json_decref(values);
}

static void test_levels(void **state)
{
    (void)state;
    log_level_set(LOG_WARNING);
    assert_string_equal(line_of(false), "");
    assert_string_equal(line_of(true), "");
    log_level_set(LOG_DEBUG);
    assert_true(strlen(line_of(false)) > 0);
    assert_true(strlen(line_of(true)) > 0);
}

static void test_errors_of_the_library(void **state)
{
    (void)state;
    assert_int_equal(fallback_error(400), HTTP_INVALID_VALUE);
    assert_int_equal(fallback_error(404), HTTP_UNKNOWN_URL);
    assert_int_equal(fallback_error(413), HTTP_TOO_LARGE);
    assert_int_equal(fallback_error(417), HTTP_INVALID_VALUE);
    assert_int_equal(fallback_error(499), HTTP_INVALID_VALUE);
    assert_int_equal(fallback_error(500), HTTP_INTERNAL);
    assert_int_equal(fallback_error(503), HTTP_INTERNAL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, clear)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_generation),
        TEST(test_who_pools_has_no_output),
        TEST(test_who_was_not_submitted),
        TEST(test_a_model_that_is_not_served),
        TEST(test_who_left),
        TEST(test_a_stream_that_failed),
        TEST(test_what_is_cut),
        TEST(test_protocols),
        TEST(test_times_that_are_none),
        TEST(test_refused_by_the_library),
        TEST(test_levels),
        TEST(test_errors_of_the_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
