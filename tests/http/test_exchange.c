// SPDX-License-Identifier: Apache-2.0
// The life of an exchange over real sockets: streams, clients that leave in each state, early ends,
// stopped readers, long bodies, text workers, pipelining, a thousand streams. Tests wait for states
// and count events; none asserts a time.
#include "tests/http/fixture.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { STREAMS = 1000, FAR_MS = 120000 };

// Sanitizers keep freed memory, so the resident size is meaningless there.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool resident_means_something = false;
#else
static const bool resident_means_something = true;
#endif

static struct fixture fixture;

static void begin(struct http_client *client, const char *path, const char *body)
{
    assert_true(http_client_open(client, fixture.port));
    assert_true(http_client_request(client, "POST", path, BEARER JSON, body));
}

static struct port *port0(void)
{
    return fixture.ports[0];
}

static void settle_all(void)
{
    port_double_settle(port0());
    assert_true(fixture_wait_live(&fixture, 0));
}

static void test_stream(void **state)
{
    (void)state;
    struct http_client client;
    char value[64], piece[4096];
    begin(&client, "/v1/test/stream", "{}");
    assert_true(fixture_wait_live(&fixture, 1));
    assert_true(port_double_push(port0(), 0, 1, FINISH_NONE));
    assert_true(http_client_head(&client));
    assert_int_equal(client.status, 200);
    assert_true(http_header(client.head, "content-type", value, sizeof value));
    assert_string_equal(value, "text/event-stream; charset=utf-8");
    assert_true(http_header(client.head, "cache-control", value, sizeof value));
    assert_string_equal(value, "no-cache");
    assert_true(http_header(client.head, "x-accel-buffering", value, sizeof value));
    assert_true(http_header(client.head, "request-id", value, sizeof value));
    assert_false(http_header(client.head, "content-length", value, sizeof value));
    assert_true(client.chunked);
    int got = http_client_piece(&client, piece, sizeof piece - 1); // before the second is pushed
    assert_true(got > 0);
    piece[got] = '\0';
    assert_memory_equal(piece, "data: {\"t\":0,", 13);
    assert_string_equal(piece + got - 2, "\n\n");
    assert_true(port_double_push(port0(), 0, 2, FINISH_STOP));
    assert_true(http_client_until(&client, "data: [DONE]\n\n"));
    assert_int_equal(http_client_piece(&client, piece, sizeof piece), 0); // the body ends correctly
    assert_true(fixture_wait_live(&fixture, 0));
    struct http_answer answer; // the connection can be used again
    assert_true(http_client_request(&client, "GET", "/health", NULL, NULL));
    assert_true(http_client_answer(&client, &answer));
    assert_int_equal(answer.status, 200);
    http_answer_free(&answer);
    http_client_close(&client);
}

static void test_reply_after_wait(void **state)
{
    (void)state;
    struct http_client client;
    struct http_answer answer;
    begin(&client, "/v1/test/wait", "{}");
    assert_true(fixture_wait_live(&fixture, 1));
    assert_true(port_double_push(port0(), 0, 5, FINISH_LENGTH));
    assert_true(http_client_answer(&client, &answer));
    assert_string_equal(answer.body, "{\"done\":true}");
    http_answer_free(&answer);
    http_client_close(&client);
    assert_true(fixture_wait_live(&fixture, 0));
}

// A stop string: the response is complete while the engine request still runs. The request is
// cancelled, its later events are dropped, and it is freed after its finish event.
static void test_end_before_the_engine(void **state)
{
    (void)state;
    struct http_client client;
    struct http_answer answer;
    begin(&client, "/v1/test/stop", "{}");
    assert_true(fixture_wait_live(&fixture, 1));
    assert_true(port_double_push(port0(), 0, 1, FINISH_NONE));
    assert_true(http_client_answer(&client, &answer));
    assert_string_equal(answer.body, "{\"stopped\":true}");
    http_answer_free(&answer);
    http_client_close(&client);
    assert_true(fixture_wait_cancelled(&fixture, 1));
    port_double_push_all(port0(), 9, FINISH_NONE); // dropped
    assert_true(fixture_wait_live(&fixture, 1));
    settle_all();
    // the finish event is already in the ring when the exchange detaches
    begin(&client, "/v1/test/stop", "{}");
    assert_true(fixture_wait_live(&fixture, 1));
    assert_true(port_double_push(port0(), 0, 1, FINISH_STOP));
    assert_true(http_client_answer(&client, &answer));
    http_answer_free(&answer);
    assert_true(fixture_wait_live(&fixture, 0));
    http_client_close(&client);
}

enum leave { LEAVE_CLOSE, LEAVE_RESET, LEAVE_HALF };

static void leave(struct http_client *client, enum leave how)
{
    struct linger linger = {.l_onoff = 1};
    if (how == LEAVE_RESET)
        setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    if (how == LEAVE_HALF)
        shutdown(client->fd, SHUT_WR);
    else
        http_client_close(client);
}

static bool gone_is(void *count)
{
    return seen.gone == *(const uint32_t *)count;
}

// No token is sent after the client has left, so only the watcher can detect it (G1).
static void leave_idle(const char *path, bool after_first, enum leave how)
{
    struct http_client client;
    uint32_t gone = seen.gone;
    begin(&client, path, "{}");
    assert_true(fixture_wait_live(&fixture, 1));
    if (after_first) {
        assert_true(port_double_push(port0(), 0, 1, FINISH_NONE));
        assert_true(http_client_head(&client));
        assert_true(http_client_until(&client, "\"t\":0"));
    }
    leave(&client, how);
    assert_true(fixture_wait_cancelled(&fixture, 1));
    gone++;
    assert_true(wait_until(gone_is, &gone)); // called once, in the same iteration of the loop
    if (how == LEAVE_HALF)
        assert_true(http_client_closed(&client, FAR_MS));
    http_client_close(&client);
    port_double_push_all(port0(), 3, FINISH_NONE); // tokens of a step in flight
    settle_all();
    assert_int_equal(seen.gone, gone);
    assert_int_equal(seen.ready_when_gone, 0);
}

static void test_leave(void **state)
{
    (void)state;
    for (int how = LEAVE_CLOSE; how <= LEAVE_HALF; how++) {
        leave_idle("/v1/test/stream", false, (enum leave)how); // in the queue
        leave_idle("/v1/test/stream", true, (enum leave)how);  // in decode
        leave_idle("/v1/test/wait", false, (enum leave)how);   // not streamed
    }
    metric_wait(&fixture, "weft_connections", 1, 1); // this request's own
}

// The reader has stalled, and the finish event is in the ring after unread events. If the reader
// leaves, no wakeup follows for that event; the request is freed immediately.
static void test_leave_before_the_last_event(void **state)
{
    (void)state;
    enum { TOKENS = 100000, SMALL = 4096 };
    struct http_client slow;
    assert_true(http_client_open_small(&slow, fixture.port, SMALL));
    assert_true(http_client_request(&slow, "POST", "/v1/test/stream", BEARER JSON, "{}"));
    assert_true(fixture_wait_live(&fixture, 1));
    assert_true(port_double_push(port0(), 0, TOKENS, FINISH_STOP)); // 9 MB
    assert_true(http_client_head(&slow));
    leave(&slow, LEAVE_RESET);
    assert_true(fixture_wait_live(&fixture, 0));
    assert_int_equal(metric_value(&fixture, "weft_requests_orphaned"), 0);
    // a request that the engine has not ended stays counted until then
    begin(&slow, "/v1/test/wait", "{}");
    assert_true(fixture_wait_live(&fixture, 1));
    leave(&slow, LEAVE_RESET);
    assert_true(fixture_wait_cancelled(&fixture, 1));
    assert_int_equal(metric_value(&fixture, "weft_requests_orphaned"), 1);
    settle_all();
    assert_int_equal(metric_value(&fixture, "weft_requests_orphaned"), 0);
}

static bool seconds_came(void *context)
{
    return seen.seconds > *(uint32_t *)context;
}

static void test_on_second(void **state)
{
    (void)state;
    struct http_client client;
    uint32_t before = seen.seconds;
    begin(&client, "/v1/test/wait", "{}");
    assert_true(wait_until(seconds_came, &before));
    http_client_close(&client);
    assert_true(fixture_wait_cancelled(&fixture, 1));
    settle_all();
}

static void test_long_body(void **state)
{
    (void)state;
    static const char *const sizes[] = {"0", "1", "65536", "65537", "10000000"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct http_client client;
        struct http_answer answer;
        begin(&client, "/v1/test/big", sizes[i]);
        assert_true(http_client_answer(&client, &answer));
        assert_true(answer.complete);
        assert_int_equal(answer.body_bytes, strtoull(sizes[i], NULL, 10));
        http_answer_free(&answer);
        http_client_close(&client);
    }
}

static void test_leave_in_long_body(void **state)
{
    (void)state;
    struct http_client client;
    uint32_t gone = seen.gone;
    begin(&client, "/v1/test/big", "100000000");
    assert_true(http_client_head(&client));
    http_client_close(&client);
    while (seen.gone == gone)
        usleep(1000);
}

// A stopped reader delays only itself: its events stay in its ring, the other streams continue.
static void test_stopped_reader(void **state)
{
    (void)state;
    enum { TOKENS = 100000, SMALL = 4096 };
    struct http_client slow, quick;
    assert_true(http_client_open_small(&slow, fixture.port, SMALL));
    assert_true(http_client_request(&slow, "POST", "/v1/test/stream", BEARER JSON, "{}"));
    assert_true(fixture_wait_live(&fixture, 1));
    uint64_t before = port_double_read(port0());
    assert_true(port_double_push(port0(), 0, TOKENS, FINISH_NONE)); // 9 MB
    begin(&quick, "/v1/test/stream", "{}");
    assert_true(fixture_wait_live(&fixture, 2));
    assert_true(port_double_push(port0(), 1, 1000, FINISH_STOP));
    assert_true(http_client_head(&quick));
    assert_true(http_client_until(&quick, "data: [DONE]\n\n"));
    uint64_t read = port_double_read(port0()) - before - 1000;
    assert_in_range(read, 1, 4000);       // SO_SNDBUF (doubled by the kernel), buffers, 4 KiB
    assert_true(http_client_head(&slow)); // it reads again, and everything arrives
    assert_true(port_double_push(port0(), 0, 0, FINISH_STOP));
    assert_true(http_client_until(&slow, "data: [DONE]\n\n"));
    assert_int_equal(port_double_read(port0()) - before, TOKENS + 1000);
    http_client_close(&slow);
    http_client_close(&quick);
    assert_true(fixture_wait_live(&fixture, 0));
}

static bool none_is_answered(void *context)
{
    const struct fixture *f = context;
    return server_requests(f->server) == 0;
}

// With a stall limit of 1.5 s, a stalled reader's request is cancelled. Of responses that grow by
// one piece each, at least one stalls on its last piece, whatever the size of the kernel's buffers.
static void test_stalled_reader(void **state)
{
    (void)state;
    struct fixture short_fixture;
    struct server_options options = {.stall_timeout_ms = 1500};
    enum { PIECES = 12, PIECE_BYTES = 64 * 1024 };
    struct http_client slow, last[PIECES];
    fixture_open(&short_fixture, &options, true);
    for (int i = 0; i < PIECES; i++) {
        char body[16];
        snprintf(body, sizeof body, "%d", (i + 1) * PIECE_BYTES);
        assert_true(http_client_open_small(&last[i], short_fixture.port, 4096));
        assert_true(http_client_request(&last[i], "POST", "/v1/test/big", BEARER JSON, body));
    }
    assert_true(http_client_open_small(&slow, short_fixture.port, 4096));
    assert_true(http_client_request(&slow, "POST", "/v1/test/stream", BEARER JSON, "{}"));
    assert_true(fixture_wait_live(&short_fixture, 1));
    assert_true(port_double_push(short_fixture.ports[0], 0, 100000, FINISH_NONE));
    assert_true(fixture_wait_cancelled(&short_fixture, 1));
    port_double_settle(short_fixture.ports[0]);
    assert_true(fixture_wait_live(&short_fixture, 0));
    assert_true(wait_until(none_is_answered, &short_fixture));
    assert_in_range(metric_value(&short_fixture, "weft_readers_stalled_total"), 2, 1 + PIECES);
    for (int i = 0; i < PIECES; i++)
        http_client_close(&last[i]);
    http_client_close(&slow);
    fixture_close(&short_fixture);
}

static uint32_t byte_sum(const char *text)
{
    uint32_t sum = 0;
    for (; *text != '\0'; text++)
        sum += (unsigned char)*text;
    return sum;
}

static void test_text_work(void **state)
{
    (void)state;
    enum { AT_ONCE = 300 }; // more than one ring can hold
    static struct http_client clients[AT_ONCE];
    struct http_answer answer;
    seen.work_hold = 1;
    for (int i = 0; i < AT_ONCE; i++) {
        char body[32];
        snprintf(body, sizeof body, "{\"n\":%d}", i);
        begin(&clients[i], "/v1/test/work", body);
    }
    assert_true(http_once(fixture.port, "GET", "/health", NULL, NULL, &answer)); // not blocked
    assert_int_equal(answer.status, 200);
    http_answer_free(&answer);
    seen.work_hold = 0;
    for (int i = 0; i < AT_ONCE; i++) {
        char body[32], expected[32];
        snprintf(body, sizeof body, "{\"n\":%d}", i);
        snprintf(expected, sizeof expected, "{\"sum\":%u}", byte_sum(body));
        assert_true(http_client_answer(&clients[i], &answer));
        assert_string_equal(answer.body, expected);
        http_answer_free(&answer);
        http_client_close(&clients[i]);
    }
}

static bool work_came_back(void *context)
{
    return seen.done_gone == *(uint32_t *)context;
}

// The client leaves while a worker has its body: done is still called and reports it.
static void test_leave_in_text_work(void **state)
{
    (void)state;
    enum { AT_ONCE = 20 };
    struct http_client clients[AT_ONCE];
    uint32_t gone = seen.gone, wanted = seen.done_gone + AT_ONCE;
    seen.work_hold = 1;
    for (int i = 0; i < AT_ONCE; i++)
        begin(&clients[i], "/v1/test/work", "{\"some\":\"body\"}");
    for (int i = 0; i < AT_ONCE; i++)
        leave(&clients[i], i % 2 == 0 ? LEAVE_CLOSE : LEAVE_RESET);
    if (!wait_until(work_came_back, &wanted))
        fail_msg("%u of %u came back", seen.done_gone, wanted);
    seen.work_hold = 0;
    assert_int_equal(seen.gone, gone + AT_ONCE);
}

// A text worker prepares a body above the route's limit; on_request follows unless the client has
// left.
static void test_leave_while_prepared(void **state)
{
    (void)state;
    struct http_client large;
    struct http_answer answer;
    uint32_t prepared = seen.prepared, gone = seen.gone;
    begin(&large, "/v1/test/prepare", "{}");
    assert_true(http_client_answer(&large, &answer));
    assert_string_equal(answer.body, "{\"sum\":248}");
    http_answer_free(&answer);
    seen.work_hold = 1;
    http_client_close(&large);
    begin(&large, "/v1/test/prepare", "{\"some\":\"body\"}");
    assert_true(http_once(fixture.port, "GET", "/health", NULL, NULL, &answer)); // not blocked
    http_answer_free(&answer);
    leave(&large, LEAVE_CLOSE);
    gone++;
    assert_true(wait_until(gone_is, &gone));
    seen.work_hold = 0;
    assert_int_equal(seen.prepared, prepared + 1); // the first body only
}

// Large bodies occupy all workers that accept them, and more wait; small ones are still processed.
// If the client of a waiting large body leaves, its handler is notified immediately.
static void test_small_work_overtakes(void **state)
{
    (void)state;
    enum { LARGE = 7, SMALL = 60, LARGE_BYTES = 2 << 20 };
    struct fixture f;
    struct server_options options = {.text_workers = 2};
    struct http_client clients[LARGE];
    struct http_answer answer;
    char expected[32], *body = malloc(LARGE_BYTES + 1);
    memset(body, '1', LARGE_BYTES);
    body[LARGE_BYTES] = '\0';
    fixture_open(&f, &options, true);
    seen.work_hold = 2;
    for (int i = 0; i < LARGE; i++) {
        assert_true(http_client_open(&clients[i], f.port));
        assert_true(http_client_request(&clients[i], "POST", "/v1/test/work", BEARER JSON, body));
    }
    snprintf(expected, sizeof expected, "{\"sum\":%u}", byte_sum("[1]"));
    for (int i = 0; i < SMALL; i++) {
        assert_true(http_once(f.port, "POST", "/v1/test/work", BEARER JSON, "[1]", &answer));
        assert_string_equal(answer.body, expected);
        http_answer_free(&answer);
    }
    uint32_t wanted = seen.done_gone + LARGE - 1;
    for (int i = 1; i < LARGE; i++)
        leave(&clients[i], LEAVE_CLOSE);
    assert_true(wait_until(work_came_back, &wanted));
    seen.work_hold = 0;
    snprintf(expected, sizeof expected, "{\"sum\":%u}", byte_sum(body));
    assert_true(http_client_answer(&clients[0], &answer));
    assert_string_equal(answer.body, expected);
    http_answer_free(&answer);
    http_client_close(&clients[0]);
    fixture_close(&f);
    free(body);
}

// Bodies of 12 MB in progress yield to one of 2 MB after each slice, even with a single free worker
// of two. A body in preparation ends after its slice if its client leaves.
static void test_large_work_shares(void **state)
{
    (void)state;
    enum { LARGE = 3, LARGE_BYTES = 12000000, MIDDLE_BYTES = 2000000 };
    struct fixture f;
    struct server_options options = {.text_workers = 2};
    struct http_client clients[LARGE];
    struct http_answer answer;
    char expected[32], *body = malloc(LARGE_BYTES + 1);
    memset(body, '1', LARGE_BYTES);
    body[LARGE_BYTES] = '\0';
    fixture_open(&f, &options, true);
    seen.work_hold = 3;
    for (int i = 0; i < LARGE; i++) {
        assert_true(http_client_open(&clients[i], f.port));
        assert_true(http_client_request(&clients[i], "POST", "/v1/test/work", BEARER JSON, body));
    }
    body[MIDDLE_BYTES] = '\0';
    snprintf(expected, sizeof expected, "{\"sum\":%u}", byte_sum(body));
    assert_true(http_once(f.port, "POST", "/v1/test/work", BEARER JSON, body, &answer));
    assert_string_equal(answer.body, expected);
    http_answer_free(&answer);
    for (int i = 0; i < LARGE; i++) {
        uint32_t wanted = seen.done_gone + 1;
        leave(&clients[i], LEAVE_CLOSE);
        assert_true(wait_until(work_came_back, &wanted));
    }
    seen.work_hold = 0;
    fixture_close(&f);
    free(body);
}

static void test_pipelined(void **state)
{
    (void)state;
    struct http_client client;
    struct http_answer answer;
    assert_true(http_client_open(&client, fixture.port));
    for (int i = 0; i < 50; i++) {
        char body[16];
        snprintf(body, sizeof body, "%d", i);
        assert_true(http_client_request(&client, "POST", "/v1/test/echo", BEARER, body));
    }
    for (int i = 0; i < 50; i++) {
        assert_true(http_client_answer(&client, &answer));
        assert_int_equal(atoi(answer.body), i);
        http_answer_free(&answer);
    }
    http_client_close(&client);
}

// Bodies that arrive byte by byte or in chunks are complete when the handler gets them.
static void test_dripped_body(void **state)
{
    (void)state;
    struct http_client client;
    struct http_answer answer;
    assert_true(http_client_open(&client, fixture.port));
    const char *head =
        "POST /v1/test/echo HTTP/1.1\r\nHost: a\r\n" BEARER "Transfer-Encoding: chunked\r\n\r\n";
    const char *body = "3\r\n[1,\r\n2\r\n2]\r\n0\r\n\r\n";
    assert_true(http_client_send(&client, head, strlen(head)));
    for (const char *p = body; *p != '\0'; p++)
        assert_true(http_client_send(&client, p, 1));
    assert_true(http_client_answer(&client, &answer));
    assert_string_equal(answer.body, "[1,2]");
    http_answer_free(&answer);
    http_client_close(&client);
}

// HTTP/1.0: no chunks; closing the connection ends the body.
static void test_stream_http10(void **state)
{
    (void)state;
    struct http_client client;
    const char *head = "POST /v1/test/stream HTTP/1.0\r\n" BEARER "Content-Length: 2\r\n\r\n{}";
    assert_true(http_client_open(&client, fixture.port));
    assert_true(http_client_send(&client, head, strlen(head)));
    assert_true(fixture_wait_live(&fixture, 1));
    assert_true(port_double_push(port0(), 0, 2, FINISH_STOP));
    assert_true(http_client_head(&client));
    assert_false(client.chunked);
    assert_true(http_client_until(&client, "data: [DONE]\n\n"));
    char byte;
    assert_int_equal(http_client_piece(&client, &byte, 1), 0);
    http_client_close(&client);
    assert_true(fixture_wait_live(&fixture, 0));
}

static long resident_kib(void)
{
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &pages, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return resident * 4;
}

// A thousand concurrent streams: all events of each stream arrive in order; the second thousand
// uses no more memory than the first.
static void streams_run(struct http_client *clients, uint32_t rounds)
{
    for (int i = 0; i < STREAMS; i++)
        begin(&clients[i], "/v1/test/stream", "{}");
    assert_true(fixture_wait_live(&fixture, STREAMS));
    for (uint32_t r = 0; r < rounds; r++) {
        port_double_push_all(port0(), 1, FINISH_NONE);
        usleep(2000);
    }
    port_double_push_all(port0(), 0, FINISH_STOP);
    for (int i = 0; i < STREAMS; i++) {
        char wanted[32];
        assert_true(http_client_head(&clients[i]));
        static char body[1 << 16];
        size_t bytes = 0;
        int got;
        while ((got = http_client_piece(&clients[i], body + bytes, sizeof body - 1 - bytes)) > 0)
            bytes += (size_t)got;
        assert_int_equal(got, 0);
        body[bytes] = '\0';
        const char *at = body;
        for (uint32_t r = 0; r < rounds; r++) {
            snprintf(wanted, sizeof wanted, "{\"t\":%u,", r);
            at = strstr(at, wanted);
            if (!at)
                fail_msg("stream %d lacks event %u", i, r);
        }
        assert_non_null(strstr(at, "data: [DONE]\n\n"));
    }
    assert_true(fixture_wait_live(&fixture, 0));
}

static void test_thousand_streams(void **state)
{
    (void)state;
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max < 3 * STREAMS) {
        print_message("skipped: %ju files\n", (uintmax_t)limit.rlim_max);
        return;
    }
    limit.rlim_cur = 3 * STREAMS;
    setrlimit(RLIMIT_NOFILE, &limit);
    static struct http_client clients[STREAMS];
    long kib[3];
    for (int turn = 0; turn < 3; turn++) {
        streams_run(clients, 20);
        kib[turn] = resident_kib();
        for (int i = 0; i < STREAMS; i++)
            http_client_close(&clients[i]);
    }
    print_message("resident after 1, 2 and 3 thousand streams: %ld %ld %ld KiB\n", kib[0], kib[1],
                  kib[2]);
    if (resident_means_something)
        assert_true(kib[2] < kib[0] + kib[0] / 5 + 4096);
}

static void sum_check(struct http_client *client, const char *body)
{
    struct http_answer answer;
    assert_true(http_client_answer(client, &answer));
    assert_string_equal(answer.body, body);
    http_answer_free(&answer);
    http_client_close(client);
}

// Serial work occupies one worker, the others process bodies; all of it is done, even if clients
// leave.
static void test_work_alone(void **state)
{
    (void)state;
    enum { CLIENTS = 12, LEAVES = 4 };
    struct fixture f;
    struct http_client clients[CLIENTS], other;
    struct server_options options = {.text_workers = 4};
    fixture_open(&f, &options, true);
    seen.work_hold = 1;
    seen.alone_most = 0;
    for (int i = 0; i < CLIENTS; i++) {
        assert_true(http_client_open(&clients[i], f.port));
        assert_true(http_client_request(&clients[i], "POST", "/v1/test/alone", BEARER JSON, "1"));
    }
    assert_true(http_client_open(&other, f.port));
    assert_true(http_client_request(&other, "POST", "/v1/test/work", BEARER JSON, "2"));
    usleep(50000);
    http_client_close(&clients[LEAVES]);
    usleep(20000);
    seen.work_hold = 0;
    sum_check(&other, "{\"sum\":50}");
    for (int i = 0; i < CLIENTS; i++) {
        if (i == LEAVES)
            continue;
        sum_check(&clients[i], "{\"sum\":49}");
    }
    assert_int_equal(seen.alone_most, 1);
    fixture_close(&f);
}

static uint64_t finished(const char *reason)
{
    char series[128];
    snprintf(series, sizeof series,
             "weft_finished_total{model_name=\"org/qwen-x\",engine=\"0\",finished_reason=\"%s\"}",
             reason);
    return metric_value(&fixture, series);
}

static bool one_error_more(void *before)
{
    return finished("error") == *(uint64_t *)before + 1;
}

static bool one_abort_more(void *before)
{
    return finished("abort") == *(uint64_t *)before + 1;
}

// A client that leaves counts as an abort; a request that ends because the device failed counts as
// an error.
static void test_ends_are_counted(void **state)
{
    (void)state;
    struct http_client client;
    uint64_t aborts = finished("abort"), errors = finished("error");
    struct engine *other = engine_double_open(fixture.models[0].facts);
    for (int fails = 0; fails < 2; fails++) {
        assert_true(http_client_open(&client, fixture.port));
        assert_true(http_client_request(&client, "POST", "/v1/test/wait", BEARER JSON, "{}"));
        assert_true(fixture_wait_live(&fixture, 1));
        if (fails) { // another copy of the model still works
            fixture.copies[1].engine = other;
            fixture.models[0].copy_count = 2;
            engine_double_stats(fixture.engine)->failed = 1;
        } else {
            http_client_close(&client);
        }
        assert_true(fixture_wait_cancelled(&fixture, 1));
        assert_true(wait_until(fails ? one_error_more : one_abort_more, fails ? &errors : &aborts));
        engine_double_stats(fixture.engine)->failed = 0;
        port_double_settle(fixture.ports[0]);
        assert_true(fixture_wait_live(&fixture, 0));
    }
    fixture.copies[1].engine = fixture.engine;
    fixture.models[0].copy_count = 1;
    engine_double_close(other);
    assert_int_equal(finished("abort"), aborts + 1);
    http_client_close(&client);
}

// A failed engine has no heartbeat; while another model works, the server stays healthy, because a
// restart would end that model.
static void test_health_beside_a_failed_model(void **state)
{
    (void)state;
    static const char *const says[] = {"{\"status\":\"ok\"}",
                                       "the engine of 'embed' makes no progress"};
    struct engine_stats *failed = engine_double_stats(fixture.engine);
    struct engine *other = engine_double_open(fixture.models[1].facts);
    struct http_answer answer;
    fixture.copies[1].engine = other;
    failed->failed = 1;
    failed->beat_ns = 1;
    for (int late = 0; late <= 1; late++) { // 1: the other model is late, too
        engine_double_stats(other)->beat_ns = (uint64_t)late;
        assert_true(http_once(fixture.port, "GET", "/health", NULL, NULL, &answer));
        assert_int_equal(answer.status, late ? 503 : 200);
        assert_non_null(strstr(answer.body, says[late]));
        http_answer_free(&answer);
    }
    failed->failed = failed->beat_ns = 0;
    fixture.copies[1].engine = fixture.engine;
    engine_double_close(other);
}

// Prometheus rejects a page in which two buckets have the same bound.
static void test_bounds_of_tokens_grow(void **state)
{
    static const uint32_t windows[] = {1, 2, 3, 1000, 4096, 10000000, 20000000};
    double bounds[HISTOGRAM_BUCKETS_MAX];
    (void)state;
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        uint32_t count = histogram_bounds(HISTOGRAM_PROMPT_TOKENS, windows[i], bounds);
        assert_in_range(count, 1, HISTOGRAM_BUCKETS_MAX);
        for (uint32_t b = 1; b < count; b++)
            assert_true(bounds[b - 1] < bounds[b]);
        assert_true(bounds[count - 1] == windows[i]);
    }
}

static void test_request_metrics(void **state)
{
    (void)state;
    static const char *const counted[] = {
        "vllm:time_to_first_token_seconds_count{model_name=\"org/qwen-x\",engine=\"0\"}",
        "vllm:e2e_request_latency_seconds_count{model_name=\"org/qwen-x\",engine=\"0\"}",
        "vllm:request_generation_tokens_count{model_name=\"org/qwen-x\",engine=\"0\"}",
        "vllm:request_time_per_output_token_seconds_count{model_name=\"org/qwen-x\",engine=\"0\"}",
        "vllm:request_prompt_tokens_count{model_name=\"org/qwen-x\",engine=\"0\"}",
        "vllm:request_success_total{model_name=\"org/qwen-x\",engine=\"0\",finished_reason="
        "\"stop\"}",
    };
    const char *between =
        "vllm:inter_token_latency_seconds_count{model_name=\"org/qwen-x\",engine=\"0\"}";
    uint64_t before[6], intervals = metric_value(&fixture, between);
    for (int i = 0; i < 6; i++)
        before[i] = metric_value(&fixture, counted[i]);
    test_stream(state);
    for (int i = 0; i < 6; i++)
        assert_int_equal(metric_value(&fixture, counted[i]), before[i] + 1);
    assert_int_equal(metric_value(&fixture, between), intervals + 2); // three tokens
}

static int open_main(void **state)
{
    (void)state;
    fixture_open(&fixture, NULL, true);
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
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_reply_after_wait),
        cmocka_unit_test(test_end_before_the_engine),
        cmocka_unit_test(test_leave),
        cmocka_unit_test(test_leave_before_the_last_event),
        cmocka_unit_test(test_on_second),
        cmocka_unit_test(test_long_body),
        cmocka_unit_test(test_leave_in_long_body),
        cmocka_unit_test(test_stopped_reader),
        cmocka_unit_test(test_stalled_reader),
        cmocka_unit_test(test_text_work),
        cmocka_unit_test(test_leave_in_text_work),
        cmocka_unit_test(test_leave_while_prepared),
        cmocka_unit_test(test_small_work_overtakes),
        cmocka_unit_test(test_large_work_shares),
        cmocka_unit_test(test_pipelined),
        cmocka_unit_test(test_dripped_body),
        cmocka_unit_test(test_stream_http10),
        cmocka_unit_test(test_thousand_streams),
        cmocka_unit_test(test_work_alone),
        cmocka_unit_test(test_ends_are_counted),
        cmocka_unit_test(test_health_beside_a_failed_model),
        cmocka_unit_test(test_bounds_of_tokens_grow),
        cmocka_unit_test(test_request_metrics),
    };
    return cmocka_run_group_tests(tests, open_main, close_main);
}
