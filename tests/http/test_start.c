// SPDX-License-Identifier: Apache-2.0
// Startup of a server: defaults, addresses, libh2o's configuration; and reloading keys while
// requests run.
#include "http/internal.h"
#include "tests/http/fixture.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const keys[] = {"k"};

static struct server *open_with(struct server_options options)
{
    struct server *server = NULL;
    struct error err = {0};
    options.api_keys = keys;
    options.api_key_count = 1;
    if (server_open(&server, &options, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return server;
}

// The values that http/server.h documents for 0.
static void test_defaults(void **state)
{
    (void)state;
    struct server *server = open_with((struct server_options){.http2 = -1});
    const struct server_options *o = &server->options;
    assert_string_equal(o->host, "127.0.0.1");
    assert_int_equal(o->http_threads, 1);
    assert_int_equal(o->text_workers, 1);
    assert_int_equal(o->connections_max, 16384);
    assert_int_equal(o->linger_timeout_ms, 2000);
    assert_int_equal(o->early_wait_ms, 100);
    assert_int_equal(o->body_bytes_max, 32 << 20);
    assert_int_equal(o->body_memory_max, 256 << 20);
    assert_int_equal(o->shutdown_timeout_ms, 0);
    assert_int_equal(o->request_timeout_ms, 60000);
    assert_int_equal(o->stall_timeout_ms, 60000);
    assert_int_equal(o->quiet_timeout_ms, 10000);
    assert_int_equal(o->resets_max, 200);
    assert_int_equal(o->resets_window_ms, 10000);
    assert_int_equal(o->drain_grace_ms, 1000);
    assert_null(o->api_keys); // only hashes are kept
    assert_int_equal(server->conf.max_request_entity_size, 33 << 20);
    assert_int_equal(server->conf.http1.req_timeout, 60000);
    assert_int_equal(server->conf.http2.idle_timeout, 60000);
    assert_int_equal(server->conf.http1.upgrade_to_http2, 1);
    assert_in_range(server->started_unix, time(NULL) - 60, time(NULL));
    assert_int_equal(server_requests(server), 0);
    server_close(server);
}

static void test_given_values_stay(void **state)
{
    (void)state;
    struct server *server = open_with((struct server_options){.host = "127.0.0.2",
                                                              .http_threads = 2,
                                                              .text_workers = 3,
                                                              .http2 = 0,
                                                              .connections_max = 5,
                                                              .body_bytes_max = 6 << 20,
                                                              .body_memory_max = 70 << 20,
                                                              .shutdown_timeout_ms = 8,
                                                              .request_timeout_ms = 9,
                                                              .stall_timeout_ms = 10,
                                                              .quiet_timeout_ms = 11,
                                                              .resets_max = 12,
                                                              .resets_window_ms = 13,
                                                              .drain_grace_ms = 14});
    const struct server_options *o = &server->options;
    assert_string_equal(o->host, "127.0.0.2");
    assert_int_equal(server->thread_count, 2);
    assert_int_equal(server->started, 2);
    assert_int_equal(o->text_workers, 3);
    assert_int_equal(o->connections_max, 5);
    assert_int_equal(o->body_bytes_max, 6 << 20);
    assert_int_equal(o->body_memory_max, 70 << 20);
    assert_int_equal(o->shutdown_timeout_ms, 8);
    assert_int_equal(o->stall_timeout_ms, 10);
    assert_int_equal(o->quiet_timeout_ms, 11);
    assert_int_equal(o->resets_max, 12);
    assert_int_equal(o->resets_window_ms, 13);
    assert_int_equal(o->drain_grace_ms, 14);
    assert_int_equal(server->conf.max_request_entity_size, 7 << 20);
    assert_int_equal(server->conf.http1.req_timeout, 9);
    assert_int_equal(server->conf.http2.idle_timeout, 9);
    assert_int_equal(server->conf.http1.upgrade_to_http2, 0);
    assert_int_equal(atomic_load(&server->connections_most), 5);
    assert_int_equal(server->drain_connections, 128); // half of the free descriptors
    server_close(server);
}

static void test_where_http2_is_on(void **state)
{
    static const struct {
        const char *host;
        int option;
        bool on;
    } cases[] = {{"127.0.0.1", -1, true}, {"localhost", -1, true}, {"::1", -1, true},
                 {"0.0.0.0", -1, false},  {"10.0.0.1", -1, false}, {"0.0.0.0", 1, true},
                 {"127.0.0.1", 0, false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct server_options options = {.host = cases[i].host, .http2 = cases[i].option};
        assert_int_equal(server_http2_is_on(&options), cases[i].on);
    }
}

static bool answers(int family, uint32_t port)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    v6.sin6_addr = in6addr_loopback;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char text[64] = "";
    static const char head[] = "GET /version HTTP/1.1\r\nHost: [::1]\r\n\r\n";
    bool fine = connect(fd, (struct sockaddr *)&v6, sizeof v6) == 0 &&
                send(fd, head, sizeof head - 1, 0) > 0 && recv(fd, text, sizeof text - 1, 0) > 0;
    close(fd);
    return fine && strncmp(text, "HTTP/1.1 200 OK", 15) == 0;
}

// The kernel chooses the port; server_port returns it, and all threads listen on it.
static void test_ipv6(void **state)
{
    (void)state;
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    bool there = fd >= 0 && bind(fd, (struct sockaddr *)&any, sizeof any) == 0;
    if (fd >= 0)
        close(fd);
    if (!there) {
        print_message("no IPv6 here\n");
        return;
    }
    struct server *server = open_with((struct server_options){.host = "::1", .http_threads = 2});
    assert_in_range(server_port(server), 1, 65535);
    for (int i = 0; i < 8; i++)
        assert_true(answers(AF_INET6, server_port(server)));
    server_close(server);
}

// A port in use by another process is refused with advice; the port of another address is free.
static void test_a_port_that_is_taken(void **state)
{
    (void)state;
    struct server *first = open_with((struct server_options){.host = "127.0.0.1"}), *second = NULL;
    struct error err = {0};
    char wanted[160];
    struct server_options options = {
        .host = "127.0.0.1", .port = server_port(first), .api_keys = keys, .api_key_count = 1};
    assert_int_equal(server_open(&second, &options, &err), STATUS_IO);
    snprintf(wanted, sizeof wanted,
             "cannot listen on 127.0.0.1 port %u: another process listens on it: choose "
             "another port with --port (make serve: PORT=...)",
             server_port(first));
    assert_string_equal(err.text, wanted);
    options.host = "127.0.0.3";
    assert_int_equal(server_open(&second, &options, &err), STATUS_OK);
    assert_int_equal(server_port(second), server_port(first));
    server_close(second);
    server_close(first);
}

static void key_status(const struct fixture *f, const char *key, int wanted)
{
    char headers[128];
    struct http_answer answer;
    snprintf(headers, sizeof headers, "Authorization: Bearer %s\r\n", key);
    for (int i = 0; i < 6; i++) { // on all threads
        assert_true(http_once(f->port, "POST", "/v1/test/echo", headers, "{}", &answer));
        if (answer.status != wanted)
            fail_msg("%s: %d instead of %d", key, answer.status, wanted);
        http_answer_free(&answer);
    }
}

// The first keys are permanent, the others are those of the last valid list; an invalid list has no
// effect.
static void test_keys_renewed(void **state)
{
    static const char *const fresh[] = {"new-1", "new-2"}, *const bad[] = {"good", "b d"};
    (void)state;
    struct fixture f;
    struct server_options options = {.http_threads = 3, .api_keys_fixed = 1};
    struct error err;
    struct http_client open_one;
    struct http_answer answer;
    fixture_open(&f, &options, true); // sk-other, KEY
    assert_true(http_client_open(&open_one, f.port));
    key_status(&f, "sk-other", 200);
    key_status(&f, KEY, 200);
    assert_int_equal(server_keys_renew(f.server, fresh, 2, &err), STATUS_OK);
    key_status(&f, "sk-other", 200);
    key_status(&f, KEY, 401);
    key_status(&f, "new-1", 200);
    key_status(&f, "new-2", 200);
    assert_int_equal(server_keys_renew(f.server, bad, 2, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "key 2"));
    key_status(&f, "new-2", 200);
    key_status(&f, "good", 401);
    assert_int_equal(server_keys_renew(f.server, NULL, 0, &err), STATUS_OK); // the fixed key only
    key_status(&f, "sk-other", 200);
    key_status(&f, "new-1", 401);
    assert_true(http_client_request(&open_one, "POST", "/v1/test/echo",
                                    "Authorization: Bearer sk-other\r\n", "[]"));
    assert_true(http_client_answer(&open_one, &answer)); // it was open all the time
    assert_int_equal(answer.status, 200);
    http_answer_free(&answer);
    http_client_close(&open_one);
    assert_int_equal(access_of(f.server)->generation, 3); // one per renewal
    fixture_close(&f);
}

static void test_no_key_is_left(void **state)
{
    (void)state;
    struct fixture f;
    struct error err;
    fixture_open(&f, NULL, true);
    assert_int_equal(server_keys_renew(f.server, NULL, 0, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "--api-key-file"));
    key_status(&f, KEY, 200);
    assert_int_equal(access_of(f.server)->generation, 1);
    fixture_close(&f);
}

struct asking {
    const struct fixture *f;
    _Atomic bool stop;
    _Atomic uint32_t answered, wrong;
};

static void *ask_on(void *argument)
{
    struct asking *asking = argument;
    while (!asking->stop) {
        struct http_answer answer;
        bool fine = http_once(asking->f->port, "POST", "/v1/test/echo",
                              "Authorization: Bearer sk-other\r\n", "[1]", &answer);
        asking->wrong += !fine || answer.status != 200;
        asking->answered++;
        if (fine)
            http_answer_free(&answer);
    }
    return NULL;
}

// The old list is freed when no thread can use it; sanitizers detect errors.
static void test_renewed_under_load(void **state)
{
    enum { CLIENTS = 2, ROUNDS = 30 };
    static const char *const lists[] = {"one", "two"};
    (void)state;
    struct fixture f;
    struct server_options options = {.http_threads = 2, .api_keys_fixed = 1};
    pthread_t threads[CLIENTS];
    struct error err;
    fixture_open(&f, &options, true);
    struct asking asking = {.f = &f};
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_on, &asking), 0);
    for (int i = 0; i < ROUNDS; i++)
        assert_int_equal(server_keys_renew(f.server, &lists[i % 2], 1, &err), STATUS_OK);
    while (asking.answered < 50)
        usleep(1000);
    asking.stop = true;
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(asking.wrong, 0);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_given_values_stay),
        cmocka_unit_test(test_where_http2_is_on),
        cmocka_unit_test(test_ipv6),
        cmocka_unit_test(test_a_port_that_is_taken),
        cmocka_unit_test(test_keys_renewed),
        cmocka_unit_test(test_no_key_is_left),
        cmocka_unit_test(test_renewed_under_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
