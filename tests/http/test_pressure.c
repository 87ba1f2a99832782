// SPDX-License-Identifier: Apache-2.0
// Limits on the resources of unknown clients: connections without a request are closed if new ones
// wait, and the bodies of all open requests share a budget.
#include "tests/http/fixture.h"

#include <dlfcn.h>
#include <errno.h>
#include <openssl/hmac.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

enum { FAR_MS = 120000 };

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

enum { HALF, SILENT, ALIVE, HTTP2, QUIET, BODY = QUIET, STREAM, OLD };

static void quiet_send(struct http_client *client, int which)
{
    if (which == HALF)
        bytes_send(client, "POST /v1/test/echo HTTP/1.1\r\nHost: a\r\n");
    if (which == ALIVE) {
        bytes_send(client, "GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
        status_check(client, 200);
    }
    if (which == HTTP2) {
        bytes_send(client, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        assert_true(http_client_send(client, "\0\0\0\4\0\0\0\0\0", 9));
    }
    if (which == BODY)
        bytes_send(client, UPLOAD "Content-Length: 2\r\n\r\n{");
    if (which == STREAM)
        assert_true(http_client_request(client, "POST", "/v1/test/stream", BEARER, "{}"));
}

// All connections are in use, and as many new ones wait as there are connections without a complete
// head (a partial head, silent, keep-alive, HTTP/2 without a stream). Those are closed; connections
// with a body or response in progress stay.
static void test_quiet_connections(void **state)
{
    (void)state;
    enum { ALL = OLD + QUIET };
    static const int order[OLD] = {BODY, STREAM, ALIVE, HTTP2, HALF, SILENT};
    struct fixture f;
    struct server_options options = {.http2 = 1, .connections_max = OLD, .quiet_timeout_ms = 1500};
    struct http_client clients[ALL];
    fixture_open(&f, &options, true);
    for (int i = 0; i < OLD; i++) { // none closes before all are open; the last one is silent
        assert_true(http_client_open(&clients[order[i]], f.port));
        quiet_send(&clients[order[i]], order[i]);
    }
    assert_true(fixture_wait_live(&f, 1));
    for (int i = OLD; i < ALL; i++) { // the kernel has accepted them
        assert_true(http_client_open(&clients[i], f.port));
        assert_true(http_client_request(&clients[i], "POST", "/v1/test/wait", BEARER, "{}"));
    }
    assert_true(fixture_wait_live(&f, 1 + QUIET));
    for (int i = 0; i < QUIET; i++)
        if (!http_client_closed(&clients[i], i == HTTP2 ? 0 : FAR_MS) &&
            i != HTTP2) // it has frames to read
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

// The kernel distributes connections to the threads by a hash. The limit applies to their sum, and
// a closed connection makes space for a new one on any thread.
static void test_connections_of_all_threads(void **state)
{
    (void)state;
    enum { ALL = 31, MORE = 8 };
    struct fixture f;
    struct server_options options = {
        .http_threads = 3, .connections_max = ALL, .quiet_timeout_ms = 3600000};
    struct http_client clients[ALL + MORE];
    fixture_open(&f, &options, true);
    for (int i = 0; i < ALL + MORE; i++) {
        assert_true(http_client_open(&clients[i], f.port));
        bytes_send(&clients[i], "GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
        if (i < ALL)
            status_check(&clients[i], 200);
    }
    for (int i = 0; i < ALL; i++) // none was closed to admit another
        assert_false(http_client_closed(&clients[i], 0));
    for (int i = 0; i < MORE; i++)
        http_client_close(&clients[i]);
    for (int i = ALL; i < ALL + MORE; i++)
        status_check(&clients[i], 200);
    for (int i = MORE; i < ALL + MORE; i++)
        http_client_close(&clients[i]);
    fixture_close(&f);
}

static bool one_is_open(void *context)
{
    return metric_value(context, "weft_connections") == 2; // and this request's own
}

// Below the limit no connection is closed.
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
    usleep(2500 * 1000); // two scans of all connections
    bytes_send(&client, "Content-Length: 2\r\n\r\n{}");
    status_check(&client, 200);
    http_client_close(&client);
    fixture_close(&f);
}

enum { MIB = 1 << 20, SMALL_BYTES = 64 << 10 };

static char filler[8 * MIB];

#define OPEN_UPLOAD "POST /v1/test/echo HTTP/1.1\r\nHost: a\r\n"

// Sends the head and the start of a body of `length` bytes.
static void upload_begin(struct http_client *client, const struct fixture *f, const char *head,
                         size_t length)
{
    char text[512];
    snprintf(text, sizeof text, "%sContent-Length: %zu\r\n\r\n", head, length);
    assert_true(http_client_open(client, f->port));
    bytes_send(client, text);
}

// Sends a head whose key is revoked afterwards (strangers_revoke): a request that never had a valid
// key is answered at its head. The server has read the head when it sends 100.
static void stranger_head(struct http_client *client, const char *head)
{
    static const char wanted[] = "HTTP/1.1 100 Continue\r\n\r\n";
    char got[sizeof wanted] = "";
    bytes_send(client, OPEN_UPLOAD "Expect: 100-continue\r\n");
    bytes_send(client, head);
    recv(client->fd, got, sizeof got - 1, MSG_WAITALL);
    assert_string_equal(got, wanted);
}

static void stranger_begin(struct http_client *client, const struct fixture *f, const char *head)
{
    assert_true(http_client_open(client, f->port));
    stranger_head(client, head);
}

static void keys_set(const struct fixture *f, uint32_t count)
{
    static const char *const keys[] = {KEY, "sk-other"};
    struct error err;
    assert_int_equal(server_keys_renew(f->server, keys, count, &err), STATUS_OK);
}

static void strangers_revoke(const struct fixture *f)
{
    keys_set(f, 1);
}

static void upload_end(struct http_client *client, size_t bytes)
{
    assert_true(http_client_send(client, filler, bytes));
    status_check(client, 200);
}

static void wait_held(const struct fixture *f, uint64_t from, uint64_t to)
{
    metric_wait(f, "weft_body_bytes", from, to);
}

// Uploads whose key was revoked are closed, the largest first, in any format. Small requests with a
// key are answered meanwhile, and a large one with a key stays although it holds the most memory.
static void test_body_budget(void **state)
{
    (void)state;
    enum { FLOOD = 24, BUDGET = 16 * MIB };
    struct fixture f;
    struct server_options options = {.body_bytes_max = 6 * MIB, .body_memory_max = BUDGET};
    static struct http_client clients[FLOOD];
    struct http_client keyed;
    struct http_answer answer;
    fixture_open(&f, &options, true);
    upload_begin(&keyed, &f, UPLOAD, 5 * MIB);
    assert_true(http_client_send(&keyed, filler, 5 * MIB - 1)); // holds 8 MiB
    wait_held(&f, 8 * MIB, BUDGET);
    for (int i = 0; i < FLOOD; i++) {
        static const char *const heads[] = {
            "x-api-key: sk-other\r\nContent-Length: 2097152\r\n\r\n",
            "Authorization: Bearer sk-other\r\nContent-Length: 2097152\r\n\r\n",
            "api-key: sk-other\r\nTransfer-Encoding: chunked\r\n\r\n"};
        stranger_begin(&clients[i], &f, heads[i % 3]);
    }
    strangers_revoke(&f);
    for (int i = 0; i < FLOOD; i++) {
        if (i % 3 == 2)
            bytes_send(&clients[i], "200000\r\n");
        http_client_send(&clients[i], filler, 3 * MIB / 2); // holds 2 MiB, or is already closed
        assert_true(http_once(f.port, "POST", "/v1/test/echo", BEARER JSON, "[1]", &answer));
        assert_int_equal(answer.status, 200);
        http_answer_free(&answer);
    }
    metric_wait(&f, "weft_body_floods_total", FLOOD - 4, FLOOD);
    wait_held(&f, 8 * MIB, BUDGET);
    upload_end(&keyed, 1);
    for (int i = 0; i < FLOOD; i++)
        http_client_close(&clients[i]);
    http_client_close(&keyed);
    wait_held(&f, 0, SMALL_BYTES);
    fixture_close(&f);
}

// Bodies of requests being answered count. If no upload without a key is large, the largest with a
// key is closed; partial heads and smaller bodies stay.
static void test_body_budget_among_keyed(void **state)
{
    (void)state;
    struct fixture f;
    struct server_options options = {.body_bytes_max = 8 * MIB, .body_memory_max = 14 * MIB};
    struct http_client half, small, large, other;
    fixture_open(&f, &options, true);
    assert_true(http_client_open(&half, f.port));
    bytes_send(&half, OPEN_UPLOAD);
    upload_begin(&small, &f, "POST /v1/test/wait HTTP/1.1\r\nHost: a\r\n" BEARER, 3 * MIB);
    assert_true(http_client_send(&small, filler, 3 * MIB)); // holds 4 MiB; answered from now on
    upload_begin(&large, &f, "POST /v1/test/wait HTTP/1.1\r\nHost: a\r\n" BEARER, 5 * MIB);
    assert_true(http_client_send(&large, filler, 5 * MIB)); // holds 8 MiB
    assert_true(fixture_wait_live(&f, 2));
    wait_held(&f, 12 * MIB, 13 * MIB);
    upload_begin(&other, &f, UPLOAD, 6 * MIB);
    assert_true(http_client_send(&other, filler, 7 * MIB / 2)); // holds 4 MiB: 2 over the limit
    assert_true(fixture_wait_cancelled(&f, 1));
    assert_true(http_client_closed(&large, FAR_MS));
    port_double_settle(f.ports[0]);
    assert_true(fixture_wait_live(&f, 1));
    assert_true(port_double_push(f.ports[0], 0, 1, FINISH_STOP));
    status_check(&small, 200);
    wait_held(&f, 4 * MIB, 8 * MIB + SMALL_BYTES); // the closed body is subtracted once
    upload_end(&other, 6 * MIB - 7 * MIB / 2);
    bytes_send(&half, BEARER "Content-Length: 2\r\n\r\n{}");
    status_check(&half, 200);
    http_client_close(&half);
    http_client_close(&small);
    http_client_close(&large);
    http_client_close(&other);
    wait_held(&f, 0, SMALL_BYTES);
    fixture_close(&f);
}

// The upload without a key is closed on any thread, even if another thread detects the excess first
// and could close one with a key.
static void test_body_budget_over_threads(void **state)
{
    (void)state;
    enum { ROUNDS = 12 };
    struct fixture f;
    struct server_options options = {
        .http_threads = 2, .body_bytes_max = 10 * MIB, .body_memory_max = 20 * MIB};
    fixture_open(&f, &options, true);
    for (int i = 0; i < ROUNDS; i++) {
        struct http_client keyed, stranger;
        keys_set(&f, 2);
        stranger_begin(&stranger, &f, "x-api-key: sk-other\r\nContent-Length: 10485760\r\n\r\n");
        strangers_revoke(&f);
        assert_true(http_client_send(&stranger, filler, 5 * MIB)); // holds 8 MiB
        wait_held(&f, 8 * MIB, 9 * MIB);
        upload_begin(&keyed, &f, UPLOAD, 10 * MIB);
        assert_true(http_client_send(&keyed, filler, 7 * MIB)); // holds 8 MiB
        wait_held(&f, 16 * MIB, 17 * MIB);
        assert_true(http_client_send(&keyed, filler, 2 * MIB)); // holds 16 MiB: 4 over the limit
        if (!http_client_closed(&stranger, FAR_MS))
            fail_msg("round %d: the stranger stays", i);
        upload_end(&keyed, MIB);
        http_client_close(&keyed);
        http_client_close(&stranger);
        wait_held(&f, 0, SMALL_BYTES);
    }
    assert_int_equal(metric_value(&f, "weft_body_floods_total"), ROUNDS);
    fixture_close(&f);
}

static _Atomic uint32_t hashes;

// Replaces libcrypto's function and calls it; counts the key checks.
unsigned char *HMAC(const EVP_MD *type, const void *key, int key_bytes, const unsigned char *data,
                    size_t bytes, unsigned char *out, unsigned *out_bytes)
{
    typeof(HMAC) *library = (typeof(HMAC) *)dlsym(RTLD_NEXT, "HMAC");
    hashes++;
    return library(type, key, key_bytes, data, bytes, out, out_bytes);
}

// The key of a body is checked at its head, and once while the budget is exceeded. The result does
// not apply to the connection's next body.
static void test_keys_are_judged_once(void **state)
{
    (void)state;
    enum { KEYED = 3, ROUNDS = 10 };
    struct fixture f;
    struct server_options options = {.body_bytes_max = 8 * MIB, .body_memory_max = 14 * MIB};
    struct http_client keyed[KEYED], large;
    fixture_open(&f, &options, true);
    for (int i = 0; i < KEYED; i++) {
        upload_begin(&keyed[i], &f, UPLOAD, 3 * MIB);
        assert_true(http_client_send(&keyed[i], filler, 3 * MIB - 1)); // holds 4 MiB
    }
    wait_held(&f, 12 * MIB, 13 * MIB);
    uint32_t before = hashes;
    for (int i = 0; i < ROUNDS; i++) {
        upload_begin(&large, &f, UPLOAD, 6 * MIB);
        (void)http_client_send(&large, filler, 6 * MIB - 1); // holds 8 MiB: over the limit
        assert_true(http_client_closed(&large, FAR_MS));
        http_client_close(&large);
    }
    assert_in_range(hashes - before, 1, KEYED + 2 * ROUNDS);
    upload_end(&keyed[2], 1);
    http_client_close(&keyed[2]);
    upload_end(&keyed[0], 1); // its connection stays; the key of the next body is revoked
    stranger_head(&keyed[0], "x-api-key: sk-other\r\nContent-Length: 3145728\r\n\r\n");
    strangers_revoke(&f);
    assert_true(http_client_send(&keyed[0], filler, 3 * MIB - 1));
    wait_held(&f, 8 * MIB, 9 * MIB);
    upload_begin(&large, &f, UPLOAD, 6 * MIB);
    assert_true(http_client_send(&large, filler, 6 * MIB - 1));
    assert_true(http_client_closed(&keyed[0], FAR_MS));
    upload_end(&large, 1);
    upload_end(&keyed[1], 1);
    http_client_close(&large);
    http_client_close(&keyed[0]);
    http_client_close(&keyed[1]);
    fixture_close(&f);
}

// Replaces the system call: fails as if no watch were left for a client.
static _Atomic bool watches_spent;

int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
    if (watches_spent && operation == EPOLL_CTL_ADD && (event->events & EPOLLRDHUP)) {
        errno = ENOSPC;
        return -1;
    }
    return (int)syscall(SYS_epoll_ctl, epoll, operation, fd, event);
}

// Requests are still served, and one warning is logged.
static void test_no_watches_left(void **state)
{
    (void)state;
    char text[4096] = "";
    struct fixture f;
    struct http_client client;
    fixture_open(&f, NULL, true);
    int kept = dup(STDERR_FILENO), file = memfd_create("log", MFD_CLOEXEC);
    assert_true(kept >= 0 && file >= 0);
    fflush(stderr);
    dup2(file, STDERR_FILENO);
    watches_spent = true;
    int answered = 0;
    for (int i = 0; i < 3; i++) {
        struct http_answer answer = {0};
        bool asked = http_client_open(&client, f.port) &&
                     http_client_request(&client, "POST", "/v1/test/wait", BEARER JSON, "{}") &&
                     fixture_wait_live(&f, 1) && port_double_push(f.ports[0], 0, 0, FINISH_STOP);
        answered += asked && http_client_answer(&client, &answer) && answer.status == 200;
        http_answer_free(&answer);
        http_client_close(&client);
    }
    watches_spent = false;
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    assert_true(pread(file, text, sizeof text - 1, 0) >= 0);
    close(file);
    assert_int_equal(answered, 3);
    const char *said = strstr(text, "No space left on device: HTTP/1 clients that disconnect");
    assert_non_null(said);
    assert_null(strstr(strchr(said, '\n'), "HTTP/1 clients that disconnect"));
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_watches_left),
        cmocka_unit_test(test_quiet_connections),
        cmocka_unit_test(test_connections_of_all_threads),
        cmocka_unit_test(test_quiet_without_pressure),
        cmocka_unit_test(test_body_budget),
        cmocka_unit_test(test_body_budget_among_keyed),
        cmocka_unit_test(test_body_budget_over_threads),
        cmocka_unit_test(test_keys_are_judged_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
