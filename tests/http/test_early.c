// SPDX-License-Identifier: Apache-2.0
// Clients without a valid key cannot hold connections: their requests are answered at the head,
// whatever follows; late bodies whose key was revoked are closed under pressure; HTTP/2 connections
// do not live on PINGs.
#include "base/clock.h"
#include "http/internal.h"
#include "tests/http/fixture.h"
#include "tests/http/h2_client.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { FAR_MS = 120000, HOUR_MS = 3600000, KIB = 1024 };

#define ECHO "POST /v1/test/echo HTTP/1.1\r\nHost: a\r\n"
#define LENGTH_9 "Content-Length: 9\r\n\r\n"
#define CHUNKED "Transfer-Encoding: chunked\r\n\r\n"

static void bytes_send(struct http_client *client, const char *bytes)
{
    assert_true(http_client_send(client, bytes, strlen(bytes)));
}

static bool no_connection_is_open(void *server)
{
    return atomic_load(&((struct server *)server)->connections) == 0;
}

static void status_check(struct http_client *client, int status, const char *connection)
{
    struct http_answer answer;
    char value[64] = "";
    if (!http_client_answer(client, &answer) || answer.status != status)
        fail_msg("%d instead of %d: %s", answer.status, status, answer.body);
    assert_true(answer.complete);
    assert_true(http_header(answer.head, "connection", value, sizeof value));
    assert_string_equal(value, connection);
    http_answer_free(&answer);
}

static const struct {
    const char *bytes;
    int status;
} unfinished[] = {
    {ECHO LENGTH_9, 401},
    {ECHO LENGTH_9 "{", 401},
    {ECHO "Authorization: Bearer no\r\n" LENGTH_9, 401},
    {ECHO "x-api-key: no\r\n" LENGTH_9, 401},
    {ECHO "API-Key: no\r\n" LENGTH_9, 401},
    {ECHO BEARER BEARER LENGTH_9, 401},
    {ECHO "Connection: keep-alive\r\n" LENGTH_9, 401},
    {ECHO "Expect: 100-continue\r\n" LENGTH_9, 401},
    {ECHO CHUNKED, 401},
    {ECHO CHUNKED "5\r\nabc", 401},
    {"POST /v1/test/echo HTTP/1.0\r\nConnection: keep-alive\r\n" LENGTH_9, 401},
    {"POST /v1/nowhere HTTP/1.1\r\nHost: a\r\n" LENGTH_9, 404},
    {"PUT /v1/test/echo HTTP/1.1\r\nHost: a\r\n" LENGTH_9, 405},
    {"OPTIONS /v1/test/echo HTTP/1.1\r\nHost: a\r\n" LENGTH_9, 204},
    {"GET /version HTTP/1.1\r\nHost: a\r\n" LENGTH_9, 200},
    {"GET /version HTTP/1.1\r\nHost: a\r\n" CHUNKED, 200},
    {"POST /v1/test/echo HTTP/1.1\r\n" LENGTH_9, 400},
    {ECHO "Content-Length: 8\r\n" LENGTH_9, 400},
};

// The answer comes with the head. Then the server closes its side, and the connection's place is
// free as soon as the client closes too.
static void test_answers_at_the_head(void **state)
{
    (void)state;
    struct fixture f;
    struct server_options options = {.linger_timeout_ms = HOUR_MS};
    fixture_open(&f, &options, true);
    for (size_t i = 0; i < sizeof unfinished / sizeof *unfinished; i++) {
        struct http_client client;
        assert_true(http_client_open(&client, f.port));
        bytes_send(&client, unfinished[i].bytes);
        status_check(&client, unfinished[i].status, "close");
        assert_true(http_client_closed(&client, FAR_MS));
        bytes_send(&client, "more");
        assert_int_equal(atomic_load(&f.server->connections), 1);
        http_client_close(&client);
        assert_true(wait_until(no_connection_is_open, f.server));
    }
    metric_wait(&f, "weft_body_bytes", 0, 0); // the gauge is recomputed at times
    fixture_close(&f);
}

// A complete request without a key keeps the connection; an unfinished body with a key is awaited.
static void test_complete_bodies_and_keys(void **state)
{
    (void)state;
    struct fixture f;
    struct http_client client;
    fixture_open(&f, NULL, true);
    assert_true(http_client_open(&client, f.port));
    bytes_send(&client, ECHO "Content-Length: 2\r\n\r\n{}");
    status_check(&client, 401, "keep-alive");
    bytes_send(&client, ECHO "Content-Length: 0\r\n\r\n");
    status_check(&client, 401, "keep-alive");
    static const char *const keyed[] = {BEARER, "x-api-key:  " KEY " \r\n", "API-KEY: " KEY "\r\n",
                                        BEARER "api-key: no\r\n"};
    for (size_t i = 0; i < sizeof keyed / sizeof *keyed; i++) {
        bytes_send(&client, ECHO);
        bytes_send(&client, keyed[i]);
        bytes_send(&client, "Content-Length: 2\r\n\r\n{");
        assert_false(http_client_closed(&client, 20));
        bytes_send(&client, "}");
        status_check(&client, 200, "keep-alive");
    }
    http_client_close(&client);
    fixture_close(&f);
}

// A client that sends most of its body before it reads gets the answer, not a reset.
static void test_answer_survives_the_body(void **state)
{
    (void)state;
    static char body[48 * KIB];
    struct fixture f;
    struct http_client client;
    fixture_open(&f, NULL, true);
    for (int i = 0; i < 20; i++) {
        assert_true(http_client_open(&client, f.port));
        bytes_send(&client, ECHO "Content-Length: 50000\r\n\r\n");
        for (size_t at = 0; at < sizeof body; at += KIB)
            assert_true(http_client_send(&client, body + at, KIB));
        status_check(&client, 401, "close");
        assert_true(http_client_closed(&client, FAR_MS));
        assert_int_equal(recv(client.fd, body, 1, 0), 0); // not a reset
        http_client_close(&client);
    }
    fixture_close(&f);
}

// A client that sends on, or that neither sends nor closes, is closed.
static void test_lingering_ends(void **state)
{
    (void)state;
    static char body[KIB];
    struct fixture f;
    struct http_client client;
    struct server_options options = {.linger_timeout_ms = HOUR_MS};
    fixture_open(&f, &options, true);
    assert_true(http_client_open(&client, f.port));
    bytes_send(&client, ECHO CHUNKED);
    status_check(&client, 401, "close");
    int sent = 0;
    while (http_client_send(&client, body, sizeof body))
        sent++;
    assert_true(sent >= 64);
    assert_true(wait_until(no_connection_is_open, f.server));
    http_client_close(&client);
    fixture_close(&f);
    options.linger_timeout_ms = 50;
    fixture_open(&f, &options, true);
    assert_true(http_client_open(&client, f.port));
    bytes_send(&client, ECHO CHUNKED);
    status_check(&client, 401, "close");
    assert_true(wait_until(no_connection_is_open, f.server));
    http_client_close(&client);
    options.linger_timeout_ms = HOUR_MS;
    fixture_close(&f);
    fixture_open(&f, &options, true); // closes with one that lingers
    assert_true(http_client_open(&client, f.port));
    bytes_send(&client, ECHO CHUNKED);
    status_check(&client, 401, "close");
    fixture_close(&f);
    http_client_close(&client);
}

// Unfinished bodies without a key take all connections; a client with a key gets in.
static void test_flood_of_unfinished_bodies(void **state)
{
    (void)state;
    enum { MOST = 8, FLOOD = 5 * MOST };
    struct fixture f;
    struct server_options options = {
        .connections_max = MOST, .quiet_timeout_ms = HOUR_MS, .linger_timeout_ms = 100};
    struct http_client flood[FLOOD];
    struct http_answer answer;
    fixture_open(&f, &options, true);
    for (int i = 0; i < FLOOD; i++) {
        assert_true(http_client_open(&flood[i], f.port));
        bytes_send(&flood[i], i % 2 == 0 ? ECHO LENGTH_9 : ECHO CHUNKED "1");
    }
    assert_true(http_once(f.port, "POST", "/v1/test/echo", BEARER JSON, "[1]", &answer));
    assert_int_equal(answer.status, 200);
    http_answer_free(&answer);
    for (int i = 0; i < FLOOD; i++)
        http_client_close(&flood[i]);
    fixture_close(&f);
}

// Bodies of a key that was revoked meanwhile are closed if all connections are taken; those of a
// valid key stay.
static void test_revoked_bodies_under_pressure(void **state)
{
    (void)state;
    enum { MOST = 6 };
    struct fixture f;
    struct server_options options = {.connections_max = MOST, .quiet_timeout_ms = 300};
    static const char went_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct http_client clients[MOST], late;
    struct error err;
    fixture_open(&f, &options, true);
    for (int i = 0; i < MOST; i++) {
        assert_true(http_client_open(&clients[i], f.port));
        bytes_send(&clients[i], ECHO);
        bytes_send(&clients[i], i == 0 ? BEARER : "x-api-key: sk-other\r\n");
        bytes_send(&clients[i], "Expect: 100-continue\r\n" LENGTH_9);
        char got[sizeof went_on] = ""; // the server has read the head
        recv(clients[i].fd, got, sizeof got - 1, MSG_WAITALL);
        assert_string_equal(got, went_on);
    }
    static const char *const left[] = {KEY};
    assert_int_equal(server_keys_renew(f.server, left, 1, &err), STATUS_OK);
    assert_true(http_client_open(&late, f.port));
    bytes_send(&late, ECHO BEARER "Content-Length: 2\r\n\r\n[]");
    status_check(&late, 200, "keep-alive");
    for (int i = 1; i < MOST; i++)
        assert_true(http_client_closed(&clients[i], FAR_MS));
    bytes_send(&clients[0], "[1234567]");
    status_check(&clients[0], 200, "keep-alive");
    for (int i = 0; i < MOST; i++)
        http_client_close(&clients[i]);
    http_client_close(&late);
    fixture_close(&f);
}

static bool ping(int fd)
{
    static struct frame frame;
    return frame_send(fd, FRAME_PING, 0, 0, text_of("weftweft")) &&
           frame_wait(fd, FRAME_PING, 0, &frame);
}

static size_t head_write(unsigned char *block, const char *path, const char *name,
                         const char *value)
{
    block[0] = 0x83; // :method POST
    block[1] = 0x86; // :scheme http
    size_t bytes = 2;
    bytes += literal_put(block + bytes, ":path", path);
    bytes += literal_put(block + bytes, ":authority", "test");
    return name ? bytes + literal_put(block + bytes, name, value) : bytes;
}

static void head_send(int fd, uint32_t stream, const char *path, const char *name,
                      const char *value)
{
    unsigned char block[512];
    size_t bytes = head_write(block, path, name, value);
    assert_true(
        frame_send(fd, FRAME_HEADERS, END_HEADERS, stream, text_span((char *)block, bytes)));
}

static void keyed_echo(int fd, uint32_t stream)
{
    static struct frame frame;
    head_send(fd, stream, "/v1/test/echo", "authorization", "Bearer " KEY);
    assert_true(frame_send(fd, FRAME_DATA, END_STREAM, stream, text_of("[1]")));
    assert_true(frame_wait(fd, FRAME_HEADERS, stream, &frame));
    assert_int_equal(status_of(&frame), 200);
    assert_true(frame_wait(fd, FRAME_DATA, stream, &frame));
}

// Reads a complete answer and the RST_STREAM with NO_ERROR after it.
static void ended_check(int fd, uint32_t stream, int status, const char *body)
{
    static struct frame frame;
    assert_true(frame_wait(fd, FRAME_HEADERS, stream, &frame));
    assert_int_equal(status_of(&frame), status);
    assert_true(frame_wait(fd, FRAME_DATA, stream, &frame));
    frame.payload[frame.bytes] = '\0';
    assert_non_null(strstr((char *)frame.payload, body));
    assert_int_equal(frame.flags & END_STREAM, END_STREAM);
    assert_true(frame_wait(fd, FRAME_RST_STREAM, stream, &frame));
    assert_memory_equal(frame.payload, "\0\0\0\0", 4);
}

// A stream without a key is answered and ended without its body, also if a part of it came with
// the head. What the client has sent meanwhile does no harm. The connection and other streams go
// on.
static void test_http2_streams(void **state)
{
    (void)state;
    struct fixture f;
    struct server_options options = {.http2 = 1};
    unsigned char both[600];
    static struct frame frame;
    fixture_open(&f, &options, true);
    int fd = h2_open(f.port);
    head_send(fd, 1, "/v1/test/echo", "authorization", "Bearer " KEY); // awaits its body
    head_send(fd, 3, "/v1/test/echo", NULL, NULL);
    ended_check(fd, 3, 401, "missing_api_key");
    head_send(fd, 5, "/v1/test/echo", "x-api-key", "no");
    ended_check(fd, 5, 401, "invalid_api_key");
    head_send(fd, 7, "/v1/nowhere", NULL, NULL);
    ended_check(fd, 7, 404, "unknown_url");
    for (int i = 0; i < 10; i++)
        assert_true(frame_send(fd, FRAME_DATA, 0, 7, text_of("late")));
    size_t bytes = head_write(both + 9, "/v1/test/echo", NULL, NULL);
    memcpy(both, (char[9]){0, 0, (char)bytes, FRAME_HEADERS, END_HEADERS, 0, 0, 0, 9}, 9);
    memcpy(both + 9 + bytes, (char[10]){0, 0, 1, FRAME_DATA, 0, 0, 0, 0, 9, '['}, 10);
    assert_int_equal(send(fd, both, bytes + 19, MSG_NOSIGNAL), bytes + 19);
    ended_check(fd, 9, 401, "missing_api_key");
    keyed_echo(fd, 11);
    head_send(fd, 13, "/v1/test/echo", NULL, NULL); // ends while it waits
    assert_true(frame_send(fd, FRAME_RST_STREAM, 0, 13, text_span("\0\0\0\x8", 4)));
    assert_true(frame_send(fd, FRAME_DATA, END_STREAM, 1, text_of("[2]")));
    assert_true(frame_wait(fd, FRAME_HEADERS, 1, &frame));
    assert_int_equal(status_of(&frame), 200);
    assert_int_equal(metric_value(&f, "weft_reset_floods_total"), 0);
    close(fd);
    fixture_close(&f);
}

// A stream whose body is complete in time is answered and not reset.
static void test_http2_small_bodies(void **state)
{
    (void)state;
    struct fixture f;
    struct server_options options = {.http2 = 1, .early_wait_ms = HOUR_MS};
    static struct frame frame;
    fixture_open(&f, &options, true);
    int fd = h2_open(f.port);
    head_send(fd, 1, "/v1/test/echo", NULL, NULL);
    assert_true(ping(fd)); // the head was read
    assert_true(frame_send(fd, FRAME_DATA, END_STREAM, 1, text_of("[1]")));
    assert_true(frame_wait(fd, FRAME_HEADERS, 1, &frame));
    assert_int_equal(status_of(&frame), 401);
    assert_true(frame_wait(fd, FRAME_DATA, 1, &frame));
    assert_true(frame_send(fd, FRAME_PING, 0, 0, text_of("weftweft")));
    while (frame_read(fd, &frame) && frame.type != FRAME_PING)
        assert_int_not_equal(frame.type, FRAME_RST_STREAM);
    head_send(fd, 3, "/v1/test/echo", NULL, NULL); // waits when the connection ends
    assert_true(ping(fd));
    close(fd);
    fixture_close(&f);
}

// Many streams without a key in one write, more than h2o serves at a time: each is answered or
// refused, none is forgotten.
static void test_http2_flood(void **state)
{
    (void)state;
    enum { STREAMS = 200, REFUSED_STREAM = 7 };
    struct fixture f;
    struct server_options options = {.http2 = 1};
    static unsigned char all[STREAMS * 128];
    static struct frame frame;
    size_t bytes = 0;
    uint32_t ended = 0;
    fixture_open(&f, &options, true);
    int fd = h2_open(f.port);
    for (uint32_t i = 0; i < STREAMS; i++) {
        size_t size = head_write(all + bytes + 9, "/v1/test/echo", NULL, NULL);
        unsigned char head[9] = {0,
                                 0,
                                 (unsigned char)size,
                                 FRAME_HEADERS,
                                 END_HEADERS,
                                 0,
                                 0,
                                 (unsigned char)(i >> 7),
                                 (unsigned char)(2 * i + 1)};
        memcpy(all + bytes, head, 9);
        bytes += 9 + size;
    }
    assert_int_equal(send(fd, all, bytes, MSG_NOSIGNAL), bytes);
    while (ended < STREAMS && frame_read(fd, &frame))
        ended += (frame.type == FRAME_HEADERS && status_of(&frame) == 401) ||
                 (frame.type == FRAME_RST_STREAM && frame.payload[3] == REFUSED_STREAM);
    assert_int_equal(ended, STREAMS);
    keyed_echo(fd, 2 * STREAMS + 1);
    close(fd);
    fixture_close(&f);
}

// PINGs keep a connection open only if one of its requests had a valid key. Requests without one
// do so until the same time after the last.
static void test_http2_pings(void **state)
{
    (void)state;
    struct fixture f;
    struct server_options options = {.http2 = 1, .request_timeout_ms = 1500};
    static struct frame frame;
    fixture_open(&f, &options, true);
    int keyed = h2_open(f.port), silent = h2_open(f.port), refused = h2_open(f.port);
    keyed_echo(keyed, 1);
    head_send(refused, 1, "/v1/test/echo", NULL, NULL);
    ended_check(refused, 1, 401, "missing_api_key");
    struct pollfd waits[2] = {{.fd = silent, .events = POLLRDHUP},
                              {.fd = refused, .events = POLLRDHUP}};
    for (int i = 0; i < 1200 && !(waits[0].revents && waits[1].revents); i++) {
        for (int j = 0; j < 2; j++)
            if (!waits[j].revents)
                frame_send(waits[j].fd, FRAME_PING, 0, 0, text_of("weftweft"));
        assert_true(ping(keyed));
        poll(waits, 2, 0);
        usleep(100000);
    }
    assert_true(waits[0].revents && waits[1].revents);
    assert_true(frame_wait(silent, FRAME_GOAWAY, 0, &frame));
    keyed_echo(keyed, 3);
    close(keyed);
    close(silent);
    close(refused);
    fixture_close(&f);
}

// A client that sends PINGs and reads nothing is closed too.
static void test_http2_pings_unread(void **state)
{
    (void)state;
    struct fixture f;
    struct server_options options = {.http2 = 1, .request_timeout_ms = 1000};
    struct http_client client;
    unsigned char pings[17 * 64];
    fixture_open(&f, &options, true);
    assert_true(http_client_open_small(&client, f.port, 4096));
    bytes_send(&client, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    assert_true(frame_send(client.fd, FRAME_SETTINGS, 0, 0, text_of("")));
    for (size_t i = 0; i < sizeof pings; i += 17)
        memcpy(pings + i, "\0\0\x8\x6\0\0\0\0\0weftweft", 17);
    ssize_t sent = 0;
    for (double end = clock_s() + 120; clock_s() < end && (sent >= 0 || errno == EAGAIN);) {
        sent = send(client.fd, pings, sizeof pings, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < (ssize_t)sizeof pings)
            usleep(10000);
    }
    assert_true(sent < 0 && errno != EAGAIN); // the server has closed the connection
    assert_true(wait_until(no_connection_is_open, f.server));
    http_client_close(&client);
    fixture_close(&f);
}

// Trailers are no headers: a key in them counts for nothing, and they share the headers' limit.
static void test_http2_trailers(void **state)
{
    (void)state;
    enum { OVER = 101 };
    struct fixture f;
    struct server_options options = {.http2 = 1};
    static struct frame frame;
    static const int statuses[] = {200, 400};
    fixture_open(&f, &options, true);
    int fd = h2_open(f.port);
    for (int i = 0; i < 2; i++) {
        uint32_t stream = (uint32_t)(2 * i + 1);
        unsigned char block[16 * OVER];
        size_t bytes = 0, lines = i == 0 ? 3 : OVER;
        for (size_t line = 0; line < lines; line++)
            bytes += literal_put(block + bytes, "x-a", "b");
        bytes += literal_put(block + bytes, "authorization", "Bearer no");
        head_send(fd, stream, "/v1/test/echo", "authorization", "Bearer " KEY);
        assert_true(frame_send(fd, FRAME_DATA, 0, stream, text_of("[1]")));
        assert_true(frame_send(fd, FRAME_HEADERS, END_HEADERS | END_STREAM, stream,
                               text_span((char *)block, bytes)));
        assert_true(frame_wait(fd, FRAME_HEADERS, stream, &frame));
        assert_int_equal(status_of(&frame), statuses[i]);
    }
    close(fd);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_at_the_head),
        cmocka_unit_test(test_complete_bodies_and_keys),
        cmocka_unit_test(test_answer_survives_the_body),
        cmocka_unit_test(test_lingering_ends),
        cmocka_unit_test(test_flood_of_unfinished_bodies),
        cmocka_unit_test(test_revoked_bodies_under_pressure),
        cmocka_unit_test(test_http2_streams),
        cmocka_unit_test(test_http2_small_bodies),
        cmocka_unit_test(test_http2_flood),
        cmocka_unit_test(test_http2_pings),
        cmocka_unit_test(test_http2_pings_unread),
        cmocka_unit_test(test_http2_trailers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
