// SPDX-License-Identifier: Apache-2.0
// Shutdown of a server: accepted requests are answered, idle connections close, late requests are
// refused, the deadline ends the rest, and a close without a drain leaks nothing.
#include "base/clock.h"
#include "tests/http/fixture.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { FAR_MS = 120000, GRACE_MS = 60000 };

struct drain {
    struct fixture *fixture;
    pthread_t thread;
    _Atomic int result; // -1: still draining
};

static void *drain_main(void *argument)
{
    struct drain *drain = argument;
    drain->result = server_drain(drain->fixture->server);
    return NULL;
}

static void drain_start(struct drain *drain, struct fixture *f)
{
    *drain = (struct drain){.fixture = f, .result = -1};
    assert_int_equal(pthread_create(&drain->thread, NULL, drain_main, drain), 0);
}

static int drain_end(struct drain *drain)
{
    pthread_join(drain->thread, NULL);
    return drain->result;
}

static bool refuses_connections(void *context)
{
    struct http_client client;
    if (!http_client_open(&client, *(uint32_t *)context))
        return true;
    http_client_close(&client);
    return false;
}

static void test_idle_connections_close(void **state)
{
    (void)state;
    struct fixture f;
    struct drain drain;
    struct http_client clients[20];
    struct http_answer answer;
    struct server_options options = {.http_threads = 2, .shutdown_timeout_ms = DRAIN_MS};
    fixture_open(&f, &options, true);
    for (int i = 0; i < 20; i++) {
        assert_true(http_client_open(&clients[i], f.port));
        if (i % 2 == 0) { // half sent a request before, half never sent a byte
            assert_true(http_client_request(&clients[i], "GET", "/health", NULL, NULL));
            assert_true(http_client_answer(&clients[i], &answer));
            http_answer_free(&answer);
        }
    }
    drain_start(&drain, &f);
    for (int i = 0; i < 20; i++)
        assert_true(http_client_closed(&clients[i], FAR_MS));
    assert_int_equal(drain_end(&drain), 0);
    for (int i = 0; i < 20; i++)
        http_client_close(&clients[i]);
    fixture_close(&f);
}

// Open streams and waiting requests complete; their response announces that the connection closes.
static void test_accepted_requests_finish(void **state)
{
    (void)state;
    struct fixture f;
    struct drain drain;
    struct http_client stream, wait;
    struct http_answer answer;
    char value[32];
    fixture_open(&f, NULL, true);
    assert_true(http_client_open(&stream, f.port));
    assert_true(http_client_request(&stream, "POST", "/v1/test/stream", BEARER JSON, "{}"));
    assert_true(fixture_wait_live(&f, 1));
    assert_true(port_double_push(f.ports[0], 0, 1, FINISH_NONE));
    assert_true(http_client_head(&stream));
    assert_true(http_client_open(&wait, f.port));
    assert_true(http_client_request(&wait, "POST", "/v1/test/wait", BEARER JSON, "{}"));
    assert_true(fixture_wait_live(&f, 2));
    drain_start(&drain, &f);
    assert_true(wait_until(refuses_connections, &f.port)); // the listener is closed
    assert_int_equal(drain.result, -1);
    assert_true(port_double_push(f.ports[0], 0, 100, FINISH_STOP));
    assert_true(http_client_until(&stream, "data: [DONE]\n\n"));
    assert_true(http_client_closed(&stream, FAR_MS) || stream.bytes == 0);
    assert_true(port_double_push(f.ports[0], 0, 1, FINISH_STOP) ||
                port_double_push(f.ports[0], 1, 1, FINISH_STOP));
    assert_true(http_client_answer(&wait, &answer));
    assert_int_equal(answer.status, 200);
    assert_true(http_header(answer.head, "connection", value, sizeof value));
    assert_string_equal(value, "close");
    http_answer_free(&answer);
    http_client_close(&stream);
    http_client_close(&wait);
    assert_int_equal(drain_end(&drain), 0);
    fixture_close(&f);
}

enum { HAMMERS = 8 };

struct hammer {
    uint32_t port;
    pthread_t thread;
    _Atomic uint32_t answered;
    uint32_t refused, broken;
};

// Sends one request per connection: if the kernel accepted the connection, a response must arrive.
static void *hammer_main(void *argument)
{
    struct hammer *hammer = argument;
    for (;;) {
        struct http_client client;
        struct http_answer answer;
        if (!http_client_open(&client, hammer->port))
            return NULL; // the listener is closed
        bool sent = http_client_request(&client, "POST", "/v1/test/echo", BEARER JSON, "[1]");
        if (!sent || !http_client_answer(&client, &answer)) {
            hammer->broken++;
            http_client_close(&client);
            continue;
        }
        hammer->answered += answer.status == 200;
        hammer->refused += answer.status != 200;
        http_answer_free(&answer);
        http_client_close(&client);
    }
}

static bool all_were_answered(void *hammers)
{
    const struct hammer *at = hammers;
    for (int i = 0; i < HAMMERS; i++)
        if (at[i].answered < 10)
            return false;
    return true;
}

static void test_flood_loses_nothing(void **state)
{
    (void)state;
    enum { THREADS = 2 };
    struct fixture f;
    struct hammer hammers[HAMMERS];
    struct server_options options = {
        .http_threads = THREADS, .shutdown_timeout_ms = DRAIN_MS, .drain_grace_ms = GRACE_MS};
    fixture_open(&f, &options, true);
    for (int i = 0; i < HAMMERS; i++)
        hammers[i] = (struct hammer){.port = f.port};
    for (int i = 0; i < HAMMERS; i++)
        assert_int_equal(pthread_create(&hammers[i].thread, NULL, hammer_main, &hammers[i]), 0);
    assert_true(wait_until(all_were_answered, hammers));
    assert_int_equal(server_drain(f.server), 0);
    uint32_t answered = 0, refused = 0, broken = 0;
    for (int i = 0; i < HAMMERS; i++) {
        pthread_join(hammers[i].thread, NULL);
        answered += hammers[i].answered;
        refused += hammers[i].refused;
        broken += hammers[i].broken;
    }
    print_message("%u answered, %u refused, %u broken\n", answered, refused, broken);
    assert_true(answered > 0);
    assert_int_equal(refused, 0);
    // the kernel resets a handshake that completes between our last accept and the close
    assert_in_range(broken, 0, THREADS * HAMMERS);
    fixture_close(&f);
}

// If more clients wait in the kernel than descriptors are reserved, the drain accepts half of that
// reserve.
static void test_crowd_leaves_descriptors(void **state)
{
    (void)state;
    enum { HELD = 2, CROWD = 200, TAKEN = 128 };
    struct fixture f;
    struct drain drain;
    struct http_client held[HELD], *crowd = calloc(CROWD, sizeof *crowd);
    struct http_answer answer;
    struct server_options options = {
        .connections_max = HELD, .shutdown_timeout_ms = DRAIN_MS, .drain_grace_ms = GRACE_MS};
    fixture_open(&f, &options, true);
    for (uint32_t i = 0; i < HELD; i++) {
        assert_true(http_client_open(&held[i], f.port));
        assert_true(http_client_request(&held[i], "POST", "/v1/test/wait", BEARER JSON, "{}"));
        assert_true(fixture_wait_live(&f, i + 1));
    }
    for (int i = 0; i < CROWD; i++) {
        assert_true(http_client_open(&crowd[i], f.port));
        assert_true(http_client_request(&crowd[i], "POST", "/v1/test/echo", BEARER JSON, "[1]"));
    }
    drain_start(&drain, &f);
    for (int i = 0; i < CROWD; i++) {
        bool answered = http_client_answer(&crowd[i], &answer);
        assert_int_equal(answered, i < TAKEN);
        if (answered) {
            assert_int_equal(answer.status, 200);
            http_answer_free(&answer);
        }
        http_client_close(&crowd[i]);
    }
    port_double_push_all(f.ports[0], 0, FINISH_STOP);
    for (int i = 0; i < HELD; i++) {
        assert_true(http_client_answer(&held[i], &answer));
        http_answer_free(&answer);
        http_client_close(&held[i]);
    }
    assert_int_equal(drain_end(&drain), 0);
    free(crowd);
    fixture_close(&f);
}

// A body whose head arrived before the signal is read completely and answered.
static void test_upload_under_way(void **state)
{
    (void)state;
    struct fixture f;
    struct drain drain;
    struct http_client client;
    struct http_answer answer;
    enum { BYTES = 1 << 20 };
    static char body[BYTES + 1];
    memset(body, '1', BYTES);
    fixture_open(&f, NULL, true);
    const char *head =
        "POST /v1/test/echo HTTP/1.1\r\nHost: a\r\n" BEARER "Content-Length: 1048576\r\n\r\n";
    assert_true(http_client_open(&client, f.port));
    assert_true(http_client_send(&client, head, strlen(head)));
    assert_true(http_client_send(&client, body, BYTES - 2));
    metric_wait(&f, "weft_body_bytes", BYTES / 2, UINT64_MAX - 1); // the server has read its head
    drain_start(&drain, &f);
    assert_true(wait_until(refuses_connections, &f.port));
    usleep(1500000); // longer than the grace period of new connections
    assert_int_equal(drain.result, -1);
    assert_true(http_client_send(&client, body, 2));
    assert_true(http_client_answer(&client, &answer));
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.body, body);
    http_answer_free(&answer);
    http_client_close(&client);
    assert_int_equal(drain_end(&drain), 0);
    fixture_close(&f);
}

static void header_check(const struct http_answer *answer, const char *name, const char *wanted)
{
    char value[64] = "";
    http_header(answer->head, name, value, sizeof value);
    assert_string_equal(value, wanted);
}

struct late {
    const char *method, *path, *headers;
    int status;
    const char *says; // in the body
};

// Reads the response to the first request of a connection that was accepted before the signal. It
// must be the connection's last. Returns false if there is no response.
static bool late_check(struct http_client *client, const struct late *late)
{
    struct http_answer answer;
    if (!http_client_answer(client, &answer)) {
        http_client_close(client);
        return false;
    }
    assert_int_equal(answer.status, late->status);
    if (!strstr(answer.body, late->says))
        fail_msg("%s: '%s' lacks '%s'", late->path, answer.body, late->says);
    header_check(&answer, "connection", "close");
    header_check(&answer, "retry-after", late->status == 503 ? "1" : "");
    header_check(&answer, "retry-after-ms", late->status == 503 ? "1000" : "");
    http_answer_free(&answer);
    assert_true(http_client_closed(client, FAR_MS));
    http_client_close(client);
    return true;
}

// Returns false if some requests arrived after the server had closed connections that sent no byte.
static bool late_are_answered(uint64_t grace_ms, const struct late *late, size_t count)
{
    enum { KEPT_MS = 1900 }; // the server's 2 s, less a margin: its clock differs
    struct fixture f;
    struct drain drain;
    struct http_client clients[16];
    struct server_options options = {.shutdown_timeout_ms = DRAIN_MS, .drain_grace_ms = grace_ms};
    fixture_open(&f, &options, true);
    assert_in_range(count, 1, 16);
    uint64_t begun_ns = clock_ns();
    for (size_t i = 0; i < count; i++)
        assert_true(http_client_open(&clients[i], f.port));
    drain_start(&drain, &f);
    assert_true(wait_until(refuses_connections, &f.port));
    usleep(10000);                       // longer than a grace period of 1 ms
    for (size_t i = 0; i < count; i++) { // together: silent connections last 2 s
        const char *body = strcmp(late[i].method, "POST") == 0 ? "[1]" : NULL;
        http_client_request(&clients[i], late[i].method, late[i].path, late[i].headers, body);
    }
    bool answered = true;
    for (size_t i = 0; i < count; i++)
        if (!late_check(&clients[i], &late[i]))
            answered = false;
    assert_true(answered || clock_ns() - begun_ns >= KEPT_MS * UINT64_C(1000000));
    assert_int_equal(drain_end(&drain), 0);
    fixture_close(&f);
    return answered;
}

static void drain_with_late(uint64_t grace_ms, const struct late *late, size_t count)
{
    for (int tries = 0; !late_are_answered(grace_ms, late, count); tries++)
        assert_true(tries < 20);
}

#define OPENAI_SAYS                                                                                \
    "{\"error\":{\"message\":\"The server is shutting down.\",\"type\":\"server_error\","          \
    "\"param\":null,\"code\":\"unavailable\"}}"
#define MESSAGES_SAYS                                                                              \
    "{\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"The server is shutting "  \
    "down.\"},\"request_id\":\"req_"
#define X_KEY "x-api-key: " KEY "\r\n"

// After the grace period: 503 in both formats, with Retry-After. The key is checked first; open
// routes still answer, and /ready answers 503.
static void test_late_requests_are_refused(void **state)
{
    (void)state;
    static const struct late late[] = {
        {"POST", "/v1/test/echo", BEARER JSON, 503, OPENAI_SAYS},
        {"POST", "/v1/messages", X_KEY JSON, 503, MESSAGES_SAYS},
        {"GET", "/v1/models", BEARER, 503, OPENAI_SAYS},
        {"GET", "/v1/models", BEARER "anthropic-version: 1\r\n", 503, MESSAGES_SAYS},
        {"GET", "/ready", NULL, 503, OPENAI_SAYS},
        {"GET", "/health", NULL, 200, "{\"status\":\"ok\"}"},
        {"GET", "/version", NULL, 200, "\"version\""},
        {"GET", "/metrics", NULL, 200, "weft_connections"},
        {"POST", "/v1/test/echo", JSON, 401, "missing_api_key"},
        {"POST", "/v1/nowhere", JSON, 404, "unknown_url"},
    };
    drain_with_late(1, late, sizeof late / sizeof *late);
}

static void test_soon_requests_are_served(void **state)
{
    (void)state;
    static const struct late soon[] = {
        {"POST", "/v1/test/echo", BEARER JSON, 200, "[1]"},
        {"POST", "/v1/messages", X_KEY JSON, 200, "[1]"},
        {"GET", "/ready", NULL, 503, OPENAI_SAYS},
    };
    drain_with_late(60000, soon, sizeof soon / sizeof *soon);
}

// The response in progress announces the close, so requests pipelined after it are not processed.
static void test_pipelined_behind_the_signal(void **state)
{
    (void)state;
    struct fixture f;
    struct drain drain;
    struct http_client client;
    struct http_answer answer;
    fixture_open(&f, NULL, true);
    assert_true(http_client_open(&client, f.port));
    assert_true(http_client_request(&client, "POST", "/v1/test/wait", BEARER JSON, "{}"));
    assert_true(fixture_wait_live(&f, 1));
    drain_start(&drain, &f);
    assert_true(wait_until(refuses_connections, &f.port));
    assert_true(http_client_request(&client, "POST", "/v1/test/echo", BEARER JSON, "[1]"));
    assert_true(port_double_push(f.ports[0], 0, 0, FINISH_STOP));
    assert_true(http_client_answer(&client, &answer));
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.body, "{\"done\":true}");
    header_check(&answer, "connection", "close");
    http_answer_free(&answer);
    assert_false(http_client_answer(&client, &answer));
    http_client_close(&client);
    assert_int_equal(drain_end(&drain), 0);
    fixture_close(&f);
}

#define CUT_SAYS "The server shut down before the answer was complete."

static void cut_check(struct http_client *client)
{
    struct http_answer answer;
    assert_true(http_client_answer(client, &answer));
    assert_int_equal(answer.status, 503);
    assert_non_null(strstr(answer.body, "{\"error\":{\"message\":\"" CUT_SAYS "\","));
    assert_non_null(strstr(answer.body, "\"code\":\"unavailable\""));
    header_check(&answer, "connection", "close");
    header_check(&answer, "retry-after", "1");
    http_answer_free(&answer);
}

static bool one_is_worked_on(void *context)
{
    (void)context;
    return seen.working == 1;
}

// At the deadline a started stream gets its last event; other requests get 503, even if a text
// worker holds their body. Then the connections close.
static void test_deadline_cuts(void **state)
{
    (void)state;
    enum { BEGUN, QUEUED, WHOLE, WORKED, CLIENTS };
    static const char *const paths[] = {"/v1/test/stream", "/v1/test/stream", "/v1/test/wait",
                                        "/v1/test/work"};
    struct fixture f;
    struct server_options options = {.shutdown_timeout_ms = 300};
    struct http_client clients[CLIENTS];
    fixture_open(&f, &options, true);
    uint32_t gone = seen.gone;
    seen.work_hold = 1;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        assert_true(http_client_open(&clients[i], f.port));
        assert_true(http_client_request(&clients[i], "POST", paths[i], BEARER JSON, "{}"));
        assert_true(fixture_wait_live(&f, i < WORKED ? i + 1 : WORKED));
        if (i == BEGUN)
            assert_true(port_double_push(f.ports[0], 0, 1, FINISH_NONE));
    }
    assert_true(http_client_head(&clients[BEGUN]));
    assert_true(http_client_until(&clients[BEGUN], "\"t\":"));
    assert_true(wait_until(one_is_worked_on, NULL));
    struct drain drain;
    drain_start(&drain, &f);
    assert_true(fixture_wait_cancelled(&f, WORKED));
    port_double_settle(f.ports[0]);
    char rest[16];
    assert_true(http_client_until(&clients[BEGUN], "data: cut: " CUT_SAYS "\n\n"));
    assert_int_equal(http_client_piece(&clients[BEGUN], rest, sizeof rest), 0); // the body ended
    for (int i = QUEUED; i < CLIENTS; i++)
        cut_check(&clients[i]);
    assert_int_equal(drain_end(&drain), CLIENTS);
    for (int i = 0; i < CLIENTS; i++) {
        assert_true(http_client_closed(&clients[i], FAR_MS));
        http_client_close(&clients[i]);
    }
    seen.work_hold = 0;
    assert_int_equal(seen.gone - gone, CLIENTS); // each handler was called once
    assert_true(fixture_wait_live(&f, 0));
    fixture_close(&f);
}

// A reader that has stalled cannot receive a response: its connection is reset.
static void test_deadline_breaks_stalled_readers(void **state)
{
    (void)state;
    struct fixture f;
    struct server_options options = {.shutdown_timeout_ms = 100};
    struct http_client client;
    struct drain drain;
    fixture_open(&f, &options, true);
    assert_true(http_client_open(&client, f.port));
    assert_true(http_client_request(&client, "POST", "/v1/test/big", BEARER JSON, "90000000"));
    assert_true(http_client_head(&client));
    drain_start(&drain, &f);
    assert_int_equal(drain_end(&drain), 1);
    http_client_close(&client);
    fixture_close(&f);
}

// 0 is not the default: an open stream ends immediately, an idle server closes.
static void test_no_grace(void **state)
{
    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        struct fixture f;
        struct server_options options = {.shutdown_timeout_ms = 0};
        struct http_client client;
        struct drain drain;
        fixture_open(&f, &options, true);
        assert_true(http_client_open(&client, f.port));
        if (turn == 0) {
            assert_true(http_client_request(&client, "POST", "/v1/test/stream", BEARER JSON, "{}"));
            assert_true(fixture_wait_live(&f, 1));
        }
        drain_start(&drain, &f);
        if (turn == 0) {
            assert_true(fixture_wait_cancelled(&f, 1));
            port_double_settle(f.ports[0]);
        }
        assert_int_equal(drain_end(&drain), turn == 0 ? 1 : 0);
        if (turn == 0)
            cut_check(&client);
        http_client_close(&client);
        fixture_close(&f);
    }
}

static bool has_ended(void *drain)
{
    return ((struct drain *)drain)->result >= 0;
}

// A device that fails during the drain ends its requests; the drain does not wait for its engine,
// which never finishes one of them.
static void test_a_device_fails_meanwhile(void **state)
{
    (void)state;
    struct fixture f;
    struct drain drain;
    struct http_client client;
    struct http_answer answer;
    struct server_options options = {.shutdown_timeout_ms = 10 * DRAIN_MS};
    fixture_open(&f, &options, true);
    assert_true(http_client_open(&client, f.port));
    assert_true(http_client_request(&client, "POST", "/v1/test/wait", BEARER JSON, "{}"));
    assert_true(fixture_wait_live(&f, 1));
    drain_start(&drain, &f);
    assert_true(wait_until(refuses_connections, &f.port));
    engine_double_stats(f.engine)->failed = 1;
    assert_true(http_client_answer(&client, &answer));
    assert_int_equal(answer.status, 500);
    http_answer_free(&answer);
    assert_true(wait_until(has_ended, &drain));
    assert_int_equal(drain_end(&drain), 0);
    assert_int_equal(port_double_live(f.ports[0]), 1);
    engine_double_stats(f.engine)->failed = 0;
    http_client_close(&client);
    fixture_close(&f);
}

// Closes twice with live requests of each kind and without a drain: the sanitizers detect leaks.
static void test_close_without_drain(void **state)
{
    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        struct fixture f;
        struct http_client clients[4];
        static const char *const paths[] = {"/v1/test/stream", "/v1/test/wait", "/v1/test/work",
                                            "/v1/test/big"};
        static const char *const bodies[] = {"{}", "{}", "{}", "90000000"};
        fixture_open(&f, NULL, true);
        seen.work_hold = 1;
        for (int i = 0; i < 4; i++) {
            assert_true(http_client_open(&clients[i], f.port));
            assert_true(http_client_request(&clients[i], "POST", paths[i], BEARER JSON, bodies[i]));
        }
        assert_true(fixture_wait_live(&f, 2));
        if (turn == 1)
            assert_true(port_double_push(f.ports[0], 0, 1, FINISH_NONE));
        fixture_close(&f);
        seen.work_hold = 0;
        for (int i = 0; i < 4; i++)
            http_client_close(&clients[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle_connections_close),
        cmocka_unit_test(test_accepted_requests_finish),
        cmocka_unit_test(test_flood_loses_nothing),
        cmocka_unit_test(test_crowd_leaves_descriptors),
        cmocka_unit_test(test_upload_under_way),
        cmocka_unit_test(test_late_requests_are_refused),
        cmocka_unit_test(test_soon_requests_are_served),
        cmocka_unit_test(test_pipelined_behind_the_signal),
        cmocka_unit_test(test_deadline_cuts),
        cmocka_unit_test(test_deadline_breaks_stalled_readers),
        cmocka_unit_test(test_no_grace),
        cmocka_unit_test(test_a_device_fails_meanwhile),
        cmocka_unit_test(test_close_without_drain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
