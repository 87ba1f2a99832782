// What strangers can make the server hold: connections without a request give way once newcomers
// wait.
#include "tests/http/fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void bytes_send(struct http_client *client, const char *bytes)
{
    assert_true(http_client_send(client, bytes, strlen(bytes)));
}

static void status_check(struct http_client *client, int status)
{
    struct http_answer answer;
    if (!http_client_answer(client, &answer) || answer.status != status)
        fail_msg("%d instead of %d: %s", answer.status, status, answer.body);
    http_answer_free(&answer);
}

#define UPLOAD "POST /v1/test/echo HTTP/1.1\r\nHost: a\r\n" BEARER

// All connections are taken and as many newcomers wait as have no whole head (a half head, silence,
// keep-alive, HTTP/2 without a stream): these go, those with a body or an answer under way stay.
static void test_quiet_connections(void **state)
{
    (void)state;
    enum { HALF, SILENT, ALIVE, HTTP2, QUIET, BODY = QUIET, STREAM, OLD, ALL = OLD + QUIET };
    struct fixture f;
    struct server_options options = {.http2 = 1, .connections_max = OLD, .quiet_timeout_ms = 1500};
    struct http_client clients[ALL];
    fixture_open(&f, &options, true);
    for (int i = 0; i < OLD; i++)
        assert_true(http_client_open(&clients[i], f.port));
    bytes_send(&clients[HALF], "POST /v1/test/echo HTTP/1.1\r\nHost: a\r\n");
    bytes_send(&clients[ALIVE], "GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
    status_check(&clients[ALIVE], 200);
    bytes_send(&clients[HTTP2], "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    assert_true(http_client_send(&clients[HTTP2], "\0\0\0\4\0\0\0\0\0", 9));
    bytes_send(&clients[BODY], UPLOAD "Content-Length: 2\r\n\r\n{");
    assert_true(http_client_request(&clients[STREAM], "POST", "/v1/test/stream", BEARER, "{}"));
    assert_true(fixture_wait_live(&f, 1));
    for (int i = OLD; i < ALL; i++) { // the kernel has them
        assert_true(http_client_open(&clients[i], f.port));
        assert_true(http_client_request(&clients[i], "POST", "/v1/test/wait", BEARER, "{}"));
    }
    assert_true(fixture_wait_live(&f, 1 + QUIET));
    for (int i = 0; i < QUIET; i++)
        if (!http_client_closed(&clients[i], 0) && i != HTTP2) // which has frames to read
            fail_msg("%d is still open", i);
    bytes_send(&clients[BODY], "}");
    status_check(&clients[BODY], 200);
    port_double_push_all(f.ports[0], 1, FINISH_STOP);
    for (int i = OLD; i < ALL; i++)
        status_check(&clients[i], 200);
    assert_true(http_client_head(&clients[STREAM]));
    assert_true(http_client_until(&clients[STREAM], "data: [DONE]\n\n"));
    for (int i = 0; i < ALL; i++)
        http_client_close(&clients[i]);
    assert_in_range(metric_value(&f, "weft_quiet_connections_closed_total"), QUIET, ALL);
    fixture_close(&f);
}

static bool one_is_open(void *context)
{
    return metric_value(context, "weft_connections") == 2; // and the one that asks
}

// With connections to spare nobody is sent away.
static void test_quiet_without_pressure(void **state)
{
    (void)state;
    struct fixture f;
    struct server_options options = {.connections_max = 8, .quiet_timeout_ms = 1};
    struct http_client client;
    fixture_open(&f, &options, true);
    assert_true(http_client_open(&client, f.port));
    bytes_send(&client, UPLOAD);
    assert_true(wait_until(one_is_open, &f));
    usleep(2500 * 1000); // two looks at all connections
    bytes_send(&client, "Content-Length: 2\r\n\r\n{}");
    status_check(&client, 200);
    http_client_close(&client);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quiet_connections),
        cmocka_unit_test(test_quiet_without_pressure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
