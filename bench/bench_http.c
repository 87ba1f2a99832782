// SPDX-License-Identifier: Apache-2.0
// The HTTP module without a model, on loopback in one process: bench_http [SECONDS]. Small
// responses per second compared with their floor (the same bytes through a bare epoll echo), and a
// thousand streams fed in bursts as a batch decoder does: events per second, processor time per
// event, memory per stream. One h2o thread; the client is one thread of the same machine and shares
// its cores.
#include "tests/http/fixture.h"

#include "base/clock.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS = 64, STREAMS = 1000, BURSTS = 100, BYTES_MAX = 4096 };

static double cpu_s(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double resident_kib(void)
{
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &pages, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / 1024;
}

// Sends the question on all connections, again after each complete answer. Returns answers per
// second.
static double closed_loop(uint32_t port, struct text question, size_t answer_bytes, double seconds)
{
    struct http_client clients[CONNECTIONS];
    size_t got[CONNECTIONS] = {0};
    int poller = epoll_create1(EPOLL_CLOEXEC);
    for (uint32_t i = 0; i < CONNECTIONS; i++) {
        check(http_client_open(&clients[i], port), "connect to port %u", port);
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};
        epoll_ctl(poller, EPOLL_CTL_ADD, clients[i].fd, &event);
        http_client_send(&clients[i], question.at, question.bytes);
    }
    uint64_t answers = 0;
    double begun = clock_s(), now = begun;
    while (now - begun < seconds) {
        struct epoll_event events[CONNECTIONS];
        int count = epoll_wait(poller, events, CONNECTIONS, 1000);
        for (int e = 0; e < count; e++) {
            static char bytes[BYTES_MAX];
            uint32_t i = events[e].data.u32;
            ssize_t more = recv(clients[i].fd, bytes, sizeof bytes, MSG_DONTWAIT);
            got[i] += more > 0 ? (size_t)more : 0;
            if (got[i] < answer_bytes)
                continue;
            got[i] = 0;
            answers++;
            http_client_send(&clients[i], question.at, question.bytes);
        }
        now = clock_s();
    }
    for (int i = 0; i < CONNECTIONS; i++)
        http_client_close(&clients[i]);
    close(poller);
    return (double)answers / (now - begun);
}

struct echo {
    int listener;
    uint32_t port;
    size_t question_bytes, answer_bytes;
    _Atomic bool stop;
};

// The floor: answers every question_bytes bytes with answer_bytes bytes, and does nothing else.
static void *echo_main(void *argument)
{
    struct echo *echo = argument;
    static char bytes[BYTES_MAX];
    size_t got[CONNECTIONS + 8] = {0};
    int fds[CONNECTIONS + 8], count = 0, poller = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = UINT32_MAX}, events[CONNECTIONS];
    epoll_ctl(poller, EPOLL_CTL_ADD, echo->listener, &event);
    while (!echo->stop) {
        int ready = epoll_wait(poller, events, CONNECTIONS, 100);
        for (int e = 0; e < ready; e++) {
            uint32_t i = events[e].data.u32;
            if (i == UINT32_MAX) {
                event.data.u32 = (uint32_t)count;
                fds[count] = accept(echo->listener, NULL, NULL);
                epoll_ctl(poller, EPOLL_CTL_ADD, fds[count], &event);
                count++;
                continue;
            }
            ssize_t more = recv(fds[i], bytes, sizeof bytes, MSG_DONTWAIT);
            if (more == 0)
                epoll_ctl(poller, EPOLL_CTL_DEL, fds[i], NULL);
            got[i] += more > 0 ? (size_t)more : 0;
            if (got[i] < echo->question_bytes)
                continue;
            got[i] = 0;
            ssize_t sent = send(fds[i], bytes, echo->answer_bytes, MSG_NOSIGNAL);
            check(sent == (ssize_t)echo->answer_bytes, "echo sent %zd", sent);
        }
    }
    for (int i = 0; i < count; i++)
        close(fds[i]);
    close(poller);
    return NULL;
}

static double echo_floor(struct text question, size_t answer_bytes, double seconds)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    struct echo echo = {.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
                        .question_bytes = question.bytes,
                        .answer_bytes = answer_bytes};
    pthread_t thread;
    check(bind(echo.listener, (struct sockaddr *)&address, bytes) == 0 &&
              listen(echo.listener, CONNECTIONS) == 0 &&
              getsockname(echo.listener, (struct sockaddr *)&address, &bytes) == 0,
          "echo: errno %d", errno);
    pthread_create(&thread, NULL, echo_main, &echo);
    double rate = closed_loop(ntohs(address.sin_port), question, answer_bytes, seconds);
    echo.stop = true;
    pthread_join(thread, NULL);
    close(echo.listener);
    return rate;
}

static void small_answers(struct fixture *f, const char *path, double seconds)
{
    char question[256];
    struct http_answer answer;
    snprintf(question, sizeof question, "GET %s HTTP/1.1\r\nHost: a\r\n" BEARER "\r\n", path);
    check(http_once(f->port, "GET", path, BEARER, NULL, &answer), "no answer to %s", path);
    size_t bytes = strlen(answer.head) + answer.body_bytes;
    http_answer_free(&answer);
    double floor_rate = echo_floor(text_of(question), bytes, seconds);
    double rate = closed_loop(f->port, text_of(question), bytes, seconds);
    printf("GET %-12s %4zu bytes  %8.0f a second  bare echo %8.0f  share %.2f\n", path, bytes, rate,
           floor_rate, rate / floor_rate);
}

// Reads what is available on every stream. Returns the number of bytes.
static uint64_t streams_read(struct http_client *clients)
{
    static char bytes[65536];
    uint64_t sum = 0;
    for (int i = 0; i < STREAMS; i++) {
        ssize_t got = recv(clients[i].fd, bytes, sizeof bytes, MSG_DONTWAIT);
        sum += got > 0 ? (uint64_t)got : 0;
    }
    return sum;
}

static void streams_measure(struct fixture *f)
{
    static struct http_client clients[STREAMS];
    double before_kib = resident_kib();
    for (int i = 0; i < STREAMS; i++)
        check(http_client_open(&clients[i], f->port) &&
                  http_client_request(&clients[i], "POST", "/v1/test/stream", BEARER JSON, "{}"),
              "stream %d", i);
    check(fixture_wait_live(f, STREAMS), "not all of %d streams are there", STREAMS);
    uint64_t read_before = port_double_read(f->ports[0]), bytes = 0;
    double begun = clock_s(), client_s = cpu_s(CLOCK_THREAD_CPUTIME_ID);
    double process_s = cpu_s(CLOCK_PROCESS_CPUTIME_ID), held_kib = 0;
    for (uint64_t burst = 1; burst <= BURSTS; burst++) {
        port_double_push_all(f->ports[0], 1, FINISH_NONE);
        while (port_double_read(f->ports[0]) - read_before < burst * STREAMS)
            bytes += streams_read(clients);
        held_kib = burst == 1 ? resident_kib() : held_kib;
    }
    double took = clock_s() - begun;
    client_s = cpu_s(CLOCK_THREAD_CPUTIME_ID) - client_s;
    process_s = cpu_s(CLOCK_PROCESS_CPUTIME_ID) - process_s;
    double events = (double)BURSTS * STREAMS;
    printf("%d streams     %8.0f events a second, %.1f us of the h2o thread each, %.1f KiB a "
           "stream\n",
           STREAMS, events / took, (process_s - client_s) / events * 1e6,
           (held_kib - before_kib) / STREAMS);
    port_double_push_all(f->ports[0], 0, FINISH_STOP);
    check(fixture_wait_live(f, 0), "streams do not end");
    for (int i = 0; i < STREAMS; i++)
        http_client_close(&clients[i]);
}

int main(int count, char **values)
{
    double seconds = count > 1 ? strtod(values[1], NULL) : 3;
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    struct fixture f;
    fixture_open(&f, NULL, true);
    small_answers(&f, "/health", seconds);
    small_answers(&f, "/v1/models", seconds);
    streams_measure(&f);
    fixture_close(&f);
    return 0;
}
