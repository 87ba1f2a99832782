// SPDX-License-Identifier: Apache-2.0
// HTTP/2 frame by frame over a raw socket: responses, the body limit as JSON, resets and lost
// connections, the limit of resets (Rapid Reset), slow bodies, GOAWAY at shutdown, and the option.
#include "tests/http/fixture.h"
#include "tests/http/h2_client.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static const char *authority = "test"; // of the requests

static bool request_send(int fd, uint32_t stream, const char *path, const char *body, bool end)
{
    unsigned char block[512] = {0x83, 0x86}; // :method POST, :scheme http
    size_t bytes = 2;
    bytes += literal_put(block + bytes, ":path", path);
    bytes += literal_put(block + bytes, ":authority", authority);
    bytes += literal_put(block + bytes, "authorization", "Bearer " KEY);
    uint8_t flags = END_HEADERS | (!body && end ? END_STREAM : 0);
    if (!frame_send(fd, FRAME_HEADERS, flags, stream, text_span((char *)block, bytes)))
        return false;
    return !body || frame_send(fd, FRAME_DATA, end ? END_STREAM : 0, stream, text_of(body));
}

static bool reset_send(int fd, uint32_t stream)
{
    return frame_send(fd, FRAME_RST_STREAM, 0, stream, text_span("\0\0\0\x8", 4)); // CANCEL
}

static void body_check(int fd, uint32_t stream, const char *body)
{
    static struct frame frame;
    assert_true(frame_wait(fd, FRAME_DATA, stream, &frame));
    frame.payload[frame.bytes] = '\0';
    if (!strstr((char *)frame.payload, body))
        fail_msg("'%s' lacks '%s'", (char *)frame.payload, body);
}

static void exchange_check(int fd, uint32_t stream, int status, const char *body)
{
    static struct frame frame;
    assert_true(frame_wait(fd, FRAME_HEADERS, stream, &frame));
    assert_int_equal(status_of(&frame), status);
    body_check(fd, stream, body);
}

static void test_answers(void **state)
{
    (void)state;
    struct fixture f;
    struct server_options options = {.http2 = 1, .body_bytes_max = 1000};
    char big[2001];
    memset(big, '1', 2000);
    big[2000] = '\0';
    fixture_open(&f, &options, true);
    int fd = h2_open(f.port);
    assert_true(request_send(fd, 1, "/v1/test/echo", "[1]", true));
    exchange_check(fd, 1, 200, "[1]");
    assert_true(request_send(fd, 3, "/v1/nowhere", "[1]", true));
    exchange_check(fd, 3, 404, "unknown_url");
    assert_true(request_send(fd, 5, "/v1/test/echo", big, true)); // JSON, not a reset
    exchange_check(fd, 5, 413, "request_too_large");
    authority = "a/b";
    assert_true(request_send(fd, 7, "/v1/test/echo", "[1]", true));
    exchange_check(fd, 7, 400, "invalid_value");
    authority = "test";
    assert_true(request_send(fd, 9, "/v1/models/%2e%2e/../v1/test/echo", "[1]", true));
    exchange_check(fd, 9, 404, "unknown_url");
    assert_true(request_send(fd, 11, "/v1/test/echo", "[2]", true)); // still usable
    exchange_check(fd, 11, 200, "[2]");
    close(fd);
    fixture_close(&f);
}

static void test_reset_cancels_one(void **state)
{
    (void)state;
    struct fixture f;
    struct server_options options = {.http2 = 1};
    fixture_open(&f, &options, true);
    int fd = h2_open(f.port);
    for (uint32_t i = 0; i < 10; i++)
        assert_true(request_send(fd, 2 * i + 1, i % 2 == 0 ? "/v1/test/stream" : "/v1/test/wait",
                                 "{}", true));
    assert_true(fixture_wait_live(&f, 10));
    assert_true(port_double_push(f.ports[0], 0, 1, FINISH_NONE)); // one is in decode
    assert_true(reset_send(fd, 1));
    assert_true(reset_send(fd, 3)); // never answered
    assert_true(fixture_wait_cancelled(&f, 2));
    port_double_settle(f.ports[0]);
    assert_true(fixture_wait_live(&f, 8));
    assert_true(port_double_push(f.ports[0], 0, 1, FINISH_STOP)); // stream 5 is not affected
    exchange_check(fd, 5, 200, "data: {\"t\":0,");
    close(fd); // ends all others
    assert_true(fixture_wait_cancelled(&f, 7));
    port_double_settle(f.ports[0]);
    assert_true(fixture_wait_live(&f, 0));
    fixture_close(&f);
}

// New cancellations may arrive while earlier ones are settled.
static bool settled(void *context)
{
    struct fixture *f = context;
    port_double_settle(f->ports[0]);
    return port_double_live(f->ports[0]) == 0;
}

static void test_reset_budget(void **state)
{
    (void)state;
    struct fixture f;
    struct server_options options = {.http2 = 1, .resets_max = 50};
    fixture_open(&f, &options, true);
    int fd = h2_open(f.port);
    for (uint32_t i = 0; i < 40; i++) { // within the limit: nothing happens
        assert_true(request_send(fd, 2 * i + 1, "/v1/test/wait", "{}", true));
        assert_true(reset_send(fd, 2 * i + 1));
    }
    assert_true(request_send(fd, 1001, "/v1/test/echo", "[1]", true));
    exchange_check(fd, 1001, 200, "[1]");
    for (uint32_t i = 0; i < 1000; i++) { // over it
        request_send(fd, 1003 + 2 * i, "/v1/test/wait", "{}", true);
        if (!reset_send(fd, 1003 + 2 * i))
            break;
    }
    assert_true(peer_closes(fd));
    close(fd);
    assert_int_equal(metric_value(&f, "weft_reset_floods_total"), 1);
    assert_true(wait_until(settled, &f));
    fixture_close(&f);
}

// Resets of an earlier window do not count: a connection may stay open for days.
static void test_resets_are_forgotten(void **state)
{
    (void)state;
    enum { WINDOW_MS = 300, WINDOWS = 3, EACH = 30 };
    struct fixture f;
    struct server_options options = {.http2 = 1, .resets_max = 50, .resets_window_ms = WINDOW_MS};
    fixture_open(&f, &options, true);
    int fd = h2_open(f.port);
    uint32_t stream = 1;
    for (int window = 0; window < WINDOWS; window++) {
        for (uint32_t i = 0; i < EACH; i++, stream += 2) {
            assert_true(request_send(fd, stream, "/v1/test/wait", "{}", true));
            assert_true(reset_send(fd, stream));
        }
        assert_true(request_send(fd, stream, "/v1/test/echo", "[1]", true));
        exchange_check(fd, stream, 200, "[1]"); // all were counted
        stream += 2;
        usleep((WINDOW_MS + 100) * 1000);
    }
    assert_int_equal(metric_value(&f, "weft_reset_floods_total"), 0);
    close(fd);
    assert_true(fixture_wait_cancelled(&f, WINDOWS * EACH));
    port_double_settle(f.ports[0]);
    assert_true(fixture_wait_live(&f, 0));
    fixture_close(&f);
}

static bool any_is_read(void *port)
{
    return port_double_read(port) > 0;
}

// If the peer opens no window, the stream ends and its engine request is cancelled; small responses
// on the same connection are still sent.
static void test_stalled_stream(void **state)
{
    (void)state;
    struct fixture f;
    struct server_options options = {.http2 = 1, .stall_timeout_ms = 1500};
    fixture_open(&f, &options, true);
    int fd = h2_open(f.port);
    // SETTINGS_INITIAL_WINDOW_SIZE 1000
    assert_true(frame_send(fd, FRAME_SETTINGS, 0, 0, text_span("\0\x4\0\0\x3\xe8", 6)));
    assert_true(request_send(fd, 1, "/v1/test/stream", "{}", true));
    assert_true(fixture_wait_live(&f, 1));
    assert_true(port_double_push(f.ports[0], 0, 100000, FINISH_NONE));
    assert_true(request_send(fd, 3, "/v1/test/echo", "[1]", true));
    exchange_check(fd, 3, 200, "[1]");
    assert_true(wait_until(any_is_read, f.ports[0]));
    assert_in_range(port_double_read(f.ports[0]), 1, 2000); // a window and two buffers; not 9 MB
    assert_true(fixture_wait_cancelled(&f, 1));
    port_double_settle(f.ports[0]);
    assert_true(fixture_wait_live(&f, 0));
    assert_true(request_send(fd, 5, "/v1/test/echo", "[2]", true));
    exchange_check(fd, 5, 200, "[2]");
    close(fd);
    fixture_close(&f);
}

static void test_dripping_body(void **state)
{
    (void)state;
    enum { DRIPS = 1200 };
    struct fixture f;
    struct server_options options = {.http2 = 1, .request_timeout_ms = 1500};
    fixture_open(&f, &options, true);
    int fd = h2_open(f.port);
    assert_true(request_send(fd, 1, "/v1/test/echo", NULL, false));
    int dripped = 0;
    while (dripped < DRIPS && frame_send(fd, FRAME_DATA, 0, 1, text_of("1"))) {
        usleep(100000);
        dripped++;
    }
    assert_true(dripped < DRIPS); // otherwise there is no limit
    close(fd);
    fixture_close(&f);
}

static void test_drain_sends_goaway(void **state)
{
    (void)state;
    struct fixture f;
    struct server_options options = {.http2 = 1, .shutdown_timeout_ms = DRAIN_MS};
    static struct frame frame;
    fixture_open(&f, &options, true);
    int fd = h2_open(f.port);
    assert_true(request_send(fd, 1, "/v1/test/echo", "[1]", true));
    exchange_check(fd, 1, 200, "[1]");
    assert_int_equal(server_drain(f.server), 0);
    assert_true(frame_wait(fd, FRAME_GOAWAY, 0, &frame));
    assert_true(peer_closes(fd));
    close(fd);
    fixture_close(&f);
}

// Sends this many body bytes; returns false if the peer has closed.
static bool body_send(int fd, uint32_t stream, size_t bytes)
{
    static const char ones[16384] = {'1'};
    for (size_t sent = 0; sent < bytes; sent += sizeof ones)
        if (!frame_send(fd, FRAME_DATA, 0, stream, text_span(ones, sizeof ones)))
            return false;
    return true;
}

static void *body_flood(void *out_fd)
{
    int fd = *(int *)out_fd;
    for (uint32_t stream = 1; stream < 200; stream += 2) {
        bool sent = request_send(fd, stream, "/v1/test/echo", NULL, false) &&
                    body_send(fd, stream, 900 << 10);
        if (!sent)
            return out_fd;
    }
    return NULL;
}

// Streams share the budget: many bodies on one connection are accepted while there is space, a
// hundred are not, and a client that holds less is not affected.
static void test_body_budget(void **state)
{
    (void)state;
    struct fixture f;
    struct server_options options = {
        .http2 = 1, .body_bytes_max = 1 << 20, .body_memory_max = 12 << 20};
    static struct frame frame;
    pthread_t flood;
    void *closed = NULL;
    fixture_open(&f, &options, true);
    int modest = h2_open(f.port), greedy = h2_open(f.port);
    for (uint32_t stream = 1; stream < 10; stream += 2) { // 5 of 12 MiB
        assert_true(request_send(modest, stream, "/v1/test/echo", NULL, false));
        assert_true(body_send(modest, stream, 900 << 10));
    }
    metric_wait(&f, "weft_body_bytes", 5 << 20, 6 << 20);
    assert_int_equal(pthread_create(&flood, NULL, body_flood, &greedy), 0);
    assert_int_equal(pthread_join(flood, &closed), 0);
    assert_non_null(closed);
    for (uint32_t stream = 1; stream < 10; stream += 2)
        assert_true(frame_send(modest, FRAME_DATA, END_STREAM, stream, text_of("1")));
    assert_true(frame_wait(modest, FRAME_HEADERS, 0, &frame));
    assert_int_equal(status_of(&frame), 200);
    assert_int_equal(metric_value(&f, "weft_body_floods_total"), 1);
    close(modest);
    close(greedy);
    fixture_close(&f);
}

static void *drain_main(void *fixture)
{
    int lost = server_drain(((struct fixture *)fixture)->server);
    return lost == 0 ? fixture : NULL;
}

// Returns the status of a response, or 0 if a GOAWAY that excludes the stream arrived first.
static int status_or_goaway(int fd, uint32_t stream)
{
    static struct frame frame;
    while (frame_read(fd, &frame)) {
        const unsigned char *last = frame.payload;
        if (frame.type == FRAME_HEADERS && frame.stream == stream)
            return status_of(&frame);
        if (frame.type == FRAME_GOAWAY &&
            ((uint32_t)(last[0] & 0x7f) << 24 | (uint32_t)last[1] << 16 | (uint32_t)last[2] << 8 |
             last[3]) < stream)
            return 0;
    }
    return -1;
}

// A stream that starts after the grace period gets 503; an earlier one is answered completely.
// Returns false if h2o refused the stream, a second after the first GOAWAY.
static bool late_stream_is_refused(void)
{
    struct fixture f;
    struct server_options options = {
        .http2 = 1, .shutdown_timeout_ms = DRAIN_MS, .drain_grace_ms = 1};
    static struct frame frame;
    pthread_t drain;
    void *clean = NULL;
    fixture_open(&f, &options, true);
    int fd = h2_open(f.port);
    assert_true(request_send(fd, 1, "/v1/test/echo", "[1", false)); // its body is not complete
    assert_true(request_send(fd, 3, "/v1/test/echo", "[3]", true));
    exchange_check(fd, 3, 200, "[3]");
    assert_int_equal(pthread_create(&drain, NULL, drain_main, &f), 0);
    assert_true(frame_wait(fd, FRAME_GOAWAY, 0, &frame));
    usleep(10000); // after the grace period
    assert_true(request_send(fd, 5, "/v1/test/echo", "[5]", true));
    int status = status_or_goaway(fd, 5);
    if (status != 0) {
        assert_int_equal(status, 503);
        body_check(fd, 5, "\"code\":\"unavailable\"");
    }
    assert_true(frame_send(fd, FRAME_DATA, END_STREAM, 1, text_of("]")));
    exchange_check(fd, 1, 200, "[1]");
    assert_int_equal(pthread_join(drain, &clean), 0);
    assert_non_null(clean);
    close(fd);
    fixture_close(&f);
    return status != 0;
}

static void test_drain_refuses_late_streams(void **state)
{
    (void)state;
    for (int tries = 0; !late_stream_is_refused(); tries++)
        assert_true(tries < 20);
}

// The GOAWAY timer is still armed when the server closes shortly after the drain starts.
static void test_close_with_goaway_armed(void **state)
{
    (void)state;
    struct fixture f;
    struct server_options options = {.http2 = 1, .shutdown_timeout_ms = 50};
    fixture_open(&f, &options, true);
    int fd = h2_open(f.port);
    assert_true(request_send(fd, 1, "/v1/test/wait", "{}", true));
    assert_true(fixture_wait_live(&f, 1));
    assert_int_equal(server_drain(f.server), 1);
    close(fd);
    fixture_close(&f);
}

static void test_switch(void **state)
{
    (void)state;
    struct fixture f;
    static struct frame frame;
    struct server_options options = {.http2 = 0};
    fixture_open(&f, &options, true);
    int fd = h2_open(f.port);
    assert_false(frame_wait(fd, FRAME_SETTINGS, 0, &frame));
    close(fd);
    fixture_close(&f);
    options.http2 = -1; // loopback: on
    fixture_open(&f, &options, true);
    fd = h2_open(f.port);
    assert_true(frame_wait(fd, FRAME_SETTINGS, 0, &frame));
    close(fd);
    fixture_close(&f);
}

// A cleartext request to upgrade to HTTP/2 is answered with HTTP/1.1.
static void test_no_upgrade(void **state)
{
    (void)state;
    static const char asks[] = BEARER JSON "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
                                           "HTTP2-Settings: AAMAAABkAAQAAP__\r\n";
    struct server_options options = {.http2 = 1};
    struct fixture f;
    struct http_client client;
    struct http_answer answer;
    fixture_open(&f, &options, true);
    assert_true(http_client_open(&client, f.port));
    assert_true(http_client_request(&client, "POST", "/v1/test/echo", asks, "{\"a\":1}"));
    assert_true(http_client_answer(&client, &answer));
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.body, "{\"a\":1}");
    http_answer_free(&answer);
    http_client_close(&client);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_reset_cancels_one),
        cmocka_unit_test(test_reset_budget),
        cmocka_unit_test(test_resets_are_forgotten),
        cmocka_unit_test(test_stalled_stream),
        cmocka_unit_test(test_dripping_body),
        cmocka_unit_test(test_body_budget),
        cmocka_unit_test(test_drain_sends_goaway),
        cmocka_unit_test(test_drain_refuses_late_streams),
        cmocka_unit_test(test_close_with_goaway_armed),
        cmocka_unit_test(test_switch),
        cmocka_unit_test(test_no_upgrade),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
