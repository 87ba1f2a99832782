// SPDX-License-Identifier: Apache-2.0
// Open files: what the limit leaves for connections, with many event loops too, and what happens
// when no descriptor is free although connections are.
#include "http/internal.h"
#include "tests/http/fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { FAR_MS = 120000 };

// The report of a server in another process.
struct report {
    uint32_t port, most, own, drain;
    uint64_t limit;
};

struct child {
    pid_t pid;
    int input; // the child ends when this is closed
    char log[2048];
    struct report report;
};

static struct server *server_of(uint32_t threads, uint32_t wanted)
{
    static const char *const keys[] = {"k"};
    struct server *server = NULL;
    struct error err = {0};
    struct server_options options = {.http_threads = threads,
                                     .connections_max = wanted,
                                     .api_keys = keys,
                                     .api_key_count = 1,
                                     .quiet_timeout_ms = 3600000};
    check(server_open(&server, &options, &err) == STATUS_OK, "%s", err.text);
    descriptors_share(server);
    descriptors_report(server);
    return server;
}

static void child_main(int input, int output, rlim_t soft, rlim_t hard, uint32_t threads,
                       uint32_t wanted)
{
    char byte;
    struct rlimit limit = {soft, hard};
    setrlimit(RLIMIT_NOFILE, &limit);
    struct server *server = server_of(threads, wanted);
    getrlimit(RLIMIT_NOFILE, &limit);
    struct report report = {server_port(server), atomic_load(&server->connections_most),
                            server->descriptors_own, server->drain_connections, limit.rlim_cur};
    bool sent = write(output, &report, sizeof report) == sizeof report;
    while (read(input, &byte, 1) > 0)
        continue;
    _exit(sent ? 0 : 1);
}

// Starts a server in a child with these limits of open files.
static void child_open(struct child *child, rlim_t soft, rlim_t hard, uint32_t threads,
                       uint32_t wanted)
{
    int input[2], output[2], log = memfd_create("log", MFD_CLOEXEC);
    *child = (struct child){0};
    assert_true(log >= 0 && pipe(input) == 0 && pipe(output) == 0);
    child->pid = fork();
    if (child->pid == 0) {
        close(input[1]);
        dup2(log, STDERR_FILENO);
        child_main(input[0], output[1], soft, hard, threads, wanted);
    }
    close(input[0]);
    close(output[1]);
    child->input = input[1];
    ssize_t got = read(output[0], &child->report, sizeof child->report);
    assert_true(pread(log, child->log, sizeof child->log - 1, 0) >= 0);
    if (got != sizeof child->report)
        fail_msg("%u loops at %ju files: %s", threads, (uintmax_t)hard, child->log);
    close(output[0]);
    close(log);
}

static void child_close(struct child *child)
{
    int status = 1;
    close(child->input);
    assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
    assert_int_equal(status, 0);
}

static bool is_answered(struct http_client *client)
{
    struct http_answer answer;
    static const char head[] = "GET /version HTTP/1.1\r\nHost: a\r\n\r\n";
    bool fine = http_client_send(client, head, sizeof head - 1) &&
                http_client_answer(client, &answer) && answer.status == 200;
    http_answer_free(&answer);
    return fine;
}

// As many connections as the server promises are accepted and answered; the next one is answered
// when one closes.
static void promise_check(const struct report *report)
{
    enum { CLIENTS_MAX = 2000 };
    static struct http_client clients[CLIENTS_MAX];
    struct http_client next;
    assert_true(report->most < CLIENTS_MAX);
    for (uint32_t i = 0; i < report->most; i++) {
        assert_true(http_client_open(&clients[i], report->port));
        if (!is_answered(&clients[i]))
            fail_msg("connection %u of %u is not answered", i + 1, report->most);
    }
    assert_true(http_client_open(&next, report->port));
    http_client_close(&clients[0]);
    assert_true(is_answered(&next));
    http_client_close(&next);
    for (uint32_t i = 1; i < report->most; i++)
        http_client_close(&clients[i]);
}

// The server counts its own descriptors and keeps a sixteenth of the limit free, 8 to 256.
static void test_what_the_limit_leaves(void **state)
{
    static const struct {
        rlim_t soft, hard;
        uint32_t threads, wanted;
        bool all;
        uint32_t kept;
    } cases[] = {
        {256, 256, 13, 16384, false, 16}, {256, 256, 22, 16384, false, 16},
        {64, 320, 27, 16384, false, 20},  {64, 1000, 1, 500, true, 0},
        {1000, 1000, 27, 500, true, 0},   {100, 100, 1, 16384, false, 8},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct child child;
        child_open(&child, cases[i].soft, cases[i].hard, cases[i].threads, cases[i].wanted);
        const struct report *r = &child.report;
        if (cases[i].all)
            assert_int_equal(r->most, cases[i].wanted);
        else
            assert_int_equal(r->most + r->own + cases[i].kept, cases[i].hard);
        assert_in_range(r->own, 9 * cases[i].threads, 9 * cases[i].threads + 32);
        assert_in_range(r->limit, r->most + r->own, cases[i].hard);
        bool warned = strstr(child.log, "open files (ulimit -n), of which weft itself uses");
        assert_int_equal(warned, !cases[i].all);
        promise_check(r);
        child_close(&child);
    }
}

// A limit that is too low for the loops is an error at startup.
static void test_no_loop_fits(void **state)
{
    static const char *const keys[] = {"k"};
    (void)state;
    struct server_options options = {.http_threads = 27, .api_keys = keys, .api_key_count = 1};
    struct server *server;
    struct error err = {0};
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){200, 200});
        bool refused = server_open(&server, &options, &err) == STATUS_INVALID;
        _exit(refused && strstr(err.text, "27 event loops need at least") ? 0 : 1);
    }
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

struct stderr_kept {
    int kept, file;
};

static struct stderr_kept stderr_catch(void)
{
    struct stderr_kept k = {dup(STDERR_FILENO), memfd_create("log", MFD_CLOEXEC)};
    assert_true(k.kept >= 0 && k.file >= 0);
    fflush(stderr);
    dup2(k.file, STDERR_FILENO);
    return k;
}

static void stderr_return(struct stderr_kept k, char *text, size_t bytes)
{
    fflush(stderr);
    dup2(k.kept, STDERR_FILENO);
    close(k.kept);
    ssize_t got = pread(k.file, text, bytes - 1, 0);
    assert_true(got >= 0);
    text[got] = '\0';
    close(k.file);
}

static bool is_paused(void *server)
{
    return loop_is_full(server);
}

static uint64_t iterations_of(const struct server *server)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < server->thread_count; i++)
        sum += atomic_load(&server->threads[i].iterations);
    return sum;
}

// Other descriptors of the process use up the limit. The listener pauses instead of spinning, one
// line is logged, and idle connections are closed until the new one is answered.
static void test_no_descriptor_is_free(void **state)
{
    (void)state;
    enum { IDLE = 3, TAKEN_MAX = 4096, WAIT_US = 300000, THREADS = 3, SPUN = 200 };
    static int taken[TAKEN_MAX];
    struct fixture f;
    struct server_options options = {.http_threads = THREADS, .quiet_timeout_ms = 1200};
    struct http_client idle[IDLE], next = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    struct rlimit before, small = {0};
    char log[4096];
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    fixture_open(&f, &options, true);
    for (int i = 0; i < IDLE; i++) {
        assert_true(http_client_open(&idle[i], f.port));
        assert_true(is_answered(&idle[i]));
    }
    struct stderr_kept kept = stderr_catch();
    int count = 0, highest = dup(next.fd);
    small = (struct rlimit){(rlim_t)highest + 64, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &small), 0);
    taken[count++] = highest;
    for (int fd; count < TAKEN_MAX && (fd = dup(next.fd)) >= 0;)
        taken[count++] = fd;
    assert_int_equal(errno, EMFILE);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)f.port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(connect(next.fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_true(wait_until(is_paused, f.server));
    uint64_t from = iterations_of(f.server);
    usleep(WAIT_US);
    uint64_t spun = iterations_of(f.server) - from;
    bool answered = is_answered(&next);
    for (int i = 0; i < count; i++)
        close(taken[i]);
    setrlimit(RLIMIT_NOFILE, &before);
    stderr_return(kept, log, sizeof log);
    assert_true(answered);
    assert_in_range(spun, 0, SPUN);
    const char *said = strstr(log, "accept: Too many open files: new connections wait");
    assert_non_null(said);
    assert_null(strstr(said + 1, "accept: "));
    int open = 0;
    for (int i = 0; i < IDLE; i++) {
        open += !http_client_closed(&idle[i], 0);
        http_client_close(&idle[i]);
    }
    assert_true(open < IDLE);
    assert_true(metric_value(&f, "weft_quiet_connections_closed_total") >= 1);
    http_client_close(&next);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_the_limit_leaves),
        cmocka_unit_test(test_no_loop_fits),
        cmocka_unit_test(test_no_descriptor_is_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
