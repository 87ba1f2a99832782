// SPDX-License-Identifier: Apache-2.0
// A chat completions server with known delays, for bench/accuracy.py: each request gets its first
// event after --ttft milliseconds and one more each --gap milliseconds, up to max_tokens. With
// --burst it sends that many events at once, far more than a client can parse.
// Prints its port; after SIGTERM the times from the arrival of requests in the kernel to its first
// call of send, and between its calls of send, as one JSON object. One thread.
//
// Usage: mock_stream [--ttft MS] [--gap MS] [--burst N]
#include "base/clock.h"
#include "loadgen/samples.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum {
    CONNECTIONS_MAX = 20000,
    REQUEST_MAX = 1 << 16,
    EVENTS_MAX = 512,
    BURST_MAX = 256,
    CHUNK_MAX = 160
};

struct connection {
    char *in; // [bytes] of the request
    size_t bytes;
    double due, arrived_at, sent_at;
    double byte_at; // arrival of the last bytes that were read
    int left;       // events that the reply still has
    int tokens;     // number of all events of the reply
    bool first;
};

// Connections in the order in which their next event is due: all delays of a queue are equal.
struct queue {
    int *at; // ring of CONNECTIONS_MAX descriptors
    uint32_t head, count;
};

static struct connection *connections;
static struct queue firsts, nexts;
static struct bench_histogram ttft, gaps;
static double ttft_s = 0.1, gap_s = 0.02;
static int burst = 1;
static char chunks[BURST_MAX * CHUNK_MAX]; // `burst` times the same event, as chunks of HTTP
static size_t chunk_bytes;
static int epoll;

static void queue_push(struct queue *q, int fd)
{
    q->at[(q->head + q->count++) % CONNECTIONS_MAX] = fd;
}

static int queue_first(const struct queue *q)
{
    return q->count > 0 ? q->at[q->head] : -1;
}

static void queue_drop(struct queue *q)
{
    q->head = (q->head + 1) % CONNECTIONS_MAX;
    q->count--;
}

static void connection_close(int fd)
{
    connections[fd].left = 0;
    connections[fd].bytes = 0;
    close(fd);
}

// Starts the reply of a complete request.
static void request_begin(int fd)
{
    struct connection *c = &connections[fd];
    char *end = strstr(c->in, "\r\n\r\n"), *length = strcasestr(c->in, "content-length:");
    static const char models[] =
        "{\"object\":\"list\",\"data\":[{\"id\":\"mock\",\"object\":\"model\"}]}";
    if (!end)
        return;
    if (!length) { // GET
        c->bytes = 0;
        char out[256];
        int bytes = snprintf(out, sizeof out,
                             "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                             "Content-Length: %zu\r\n\r\n%s",
                             sizeof models - 1, models);
        (void)!send(fd, out, (size_t)bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        return;
    }
    size_t whole = (size_t)(end + 4 - c->in) + strtoul(length + 15, NULL, 10);
    if (c->bytes < whole)
        return;
    const char *tokens = strstr(end, "\"max_tokens\":"); // or "max_completion_tokens"
    tokens = tokens ? tokens : strstr(end, "_tokens\":");
    c->left = c->tokens = tokens ? atoi(strchr(tokens, ':') + 1) : 1;
    c->bytes = 0;
    c->first = true;
    c->arrived_at = c->byte_at;
    c->due = c->arrived_at + ttft_s;
    queue_push(&firsts, fd);
}

// Reads bytes and returns their number; *at receives the time at which the kernel got them.
static ssize_t stamped_read(double *at, int fd, char *to, size_t most)
{
    char control[CMSG_SPACE(sizeof(struct timespec))];
    struct iovec part = {.iov_base = to, .iov_len = most};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    struct timespec wall, t;
    ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT);
    clock_gettime(CLOCK_REALTIME, &wall);
    *at = clock_s();
    struct cmsghdr *c = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (!c || c->cmsg_type != SCM_TIMESTAMPNS)
        return got;
    memcpy(&t, CMSG_DATA(c), sizeof t);
    *at -= (double)(wall.tv_sec - t.tv_sec) + (double)(wall.tv_nsec - t.tv_nsec) * 1e-9;
    return got;
}

static void connection_read(int fd)
{
    struct connection *c = &connections[fd];
    if (!c->in)
        c->in = malloc(REQUEST_MAX);
    ssize_t got = stamped_read(&c->byte_at, fd, c->in + c->bytes, REQUEST_MAX - 1 - c->bytes);
    if (got <= 0) {
        connection_close(fd);
        return;
    }
    c->bytes += (size_t)got;
    c->in[c->bytes] = '\0';
    request_begin(fd);
}

#define EVENT_OPEN                                                                                 \
    "data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"created\":1,"                      \
    "\"model\":\"mock\",\"choices\":["

static void chunks_make(void)
{
    static const char event[] = EVENT_OPEN "{\"index\":0,\"delta\":{\"content\":\" a\"}}]}\n\n";
    for (int i = 0; i < burst; i++)
        chunk_bytes = (size_t)snprintf(chunks + (size_t)i * chunk_bytes, CHUNK_MAX, "%zx\r\n%s\r\n",
                                       sizeof event - 1, event);
}

// Sends the next events of a connection, and the end after the last.
static void event_send(int fd)
{
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                               "Transfer-Encoding: chunked\r\n\r\n";
    static const char done[] = "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"; // 14 bytes
    struct connection *c = &connections[fd];
    char out[512 + sizeof chunks], usage[256];
    size_t bytes = 0;
    if (c->first)
        bytes = (size_t)snprintf(out, sizeof out, "%s", head);
    int count = c->left < burst ? c->left : burst;
    memcpy(out + bytes, chunks, (size_t)count * chunk_bytes);
    bytes += (size_t)count * chunk_bytes;
    c->left -= count;
    if (c->left == 0) {
        int size = snprintf(usage, sizeof usage,
                            EVENT_OPEN "],\"usage\":{\"prompt_tokens\":32,"
                                       "\"completion_tokens\":%d,\"total_tokens\":%d}}\n\n",
                            c->tokens, 32 + c->tokens);
        bytes += (size_t)snprintf(out + bytes, sizeof out - bytes, "%x\r\n%s\r\n%s", (unsigned)size,
                                  usage, done);
    }
    double now = clock_s();
    if (send(fd, out, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)bytes) {
        connection_close(fd);
        return;
    }
    bench_histogram_add(c->first ? &ttft : &gaps, now - (c->first ? c->arrived_at : c->sent_at));
    c->first = false;
    c->sent_at = now;
    c->due += gap_s;
    if (c->left > 0)
        queue_push(&nexts, fd);
}

// Sends what is due. Returns the time of the next event; 0: none.
static double queue_run(struct queue *q)
{
    for (int fd; (fd = queue_first(q)) >= 0;) {
        struct connection *c = &connections[fd];
        if (c->left > 0 && c->due > clock_s())
            return c->due;
        queue_drop(q);
        if (c->left > 0) // else it was closed
            event_send(fd);
    }
    return 0;
}

static void watch(int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

static int listen_open(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (bind(fd, (struct sockaddr *)&address, size) != 0 || listen(fd, 4096) != 0)
        exit(1);
    getsockname(fd, (struct sockaddr *)&address, &size);
    printf("%u\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

static void figures_print(const char *name, const struct bench_histogram *h, const char *after)
{
    struct bench_metric m = bench_metric_of_histogram(h);
    printf("\"%s\":{\"count\":%llu,\"mean\":%.4f,\"median\":%.4f,\"p99\":%.4f}%s", name,
           (unsigned long long)m.count, m.mean, m.median, m.p99, after);
}

static void timer_set(int timer, double at)
{
    at = at > 0 ? at : clock_s() + 1;
    struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)at, .tv_nsec = (long)((at - (double)(time_t)at) * 1e9)}};
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
}

static void serve(int listener, int timer, int ended)
{
    struct epoll_event events[EVENTS_MAX];
    for (;;) {
        double first = queue_run(&firsts), next = queue_run(&nexts);
        double at = first > 0 && (next <= 0 || first < next) ? first : next;
        timer_set(timer, at);
        int count = epoll_wait(epoll, events, EVENTS_MAX, -1);
        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd, on = 1;
            if (fd == ended)
                return;
            if (fd == listener) {
                int new = accept(listener, NULL, NULL);
                if (new >= CONNECTIONS_MAX)
                    close(new);
                else if (new >= 0 &&
                         setsockopt(new, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0 &&
                         setsockopt(new, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on) == 0)
                    watch(new);
            } else if (fd != timer) {
                connection_read(fd);
            }
        }
    }
}

int main(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2)
        if (strcmp(argv[i], "--ttft") == 0)
            ttft_s = atof(argv[i + 1]) / 1e3;
        else if (strcmp(argv[i], "--gap") == 0)
            gap_s = atof(argv[i + 1]) / 1e3;
        else if (strcmp(argv[i], "--burst") == 0)
            burst = atoi(argv[i + 1]) < BURST_MAX ? atoi(argv[i + 1]) : BURST_MAX;
    chunks_make();
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    connections = calloc(CONNECTIONS_MAX, sizeof *connections);
    firsts.at = calloc(CONNECTIONS_MAX, sizeof *firsts.at);
    nexts.at = calloc(CONNECTIONS_MAX, sizeof *nexts.at);
    epoll = epoll_create1(0);
    int ended = signalfd(-1, &set, 0), timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    int listener = listen_open();
    watch(ended);
    watch(timer);
    watch(listener);
    serve(listener, timer, ended);
    printf("{");
    figures_print("ttft", &ttft, ",");
    figures_print("itl", &gaps, "}\n");
    return 0;
}
