// SPDX-License-Identifier: Apache-2.0
// Sockets of libcurl in one epoll set; see poll.h. With a thousand connections an iteration costs
// time for the ready sockets, not for all open sockets. Bytes may wait in a socket while those of
// other sockets are parsed; their times are those at which the kernel received them, so that the
// client's own work is not part of a latency. One thread.
#include "loadgen/poll.h"

#include "base/clock.h"

#include <math.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS_MAX = 256 };
static const double WAIT_MAX_S = 0.1;

static int socket_wanted(CURL *easy, curl_socket_t fd, int what, void *user, void *known)
{
    struct bench_poll *p = user;
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        epoll_ctl(p->epoll, EPOLL_CTL_DEL, fd, NULL); // may be closed already
        return 0;
    }
    uint32_t events = (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u);
    struct epoll_event event = {.events = events, .data.fd = fd};
    int op = known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    int failed = epoll_ctl(p->epoll, op, fd, &event);
    check(failed == 0, "epoll_ctl of descriptor %d failed", fd);
    curl_multi_assign(p->multi, fd, p);
    return 0;
}

static int timer_wanted(CURLM *multi, long ms, void *user)
{
    struct bench_poll *p = user;
    (void)multi;
    p->timer_at = ms < 0 ? -1 : clock_s() + (double)ms / 1e3;
    return 0;
}

enum status bench_poll_open(struct bench_poll *p, long connections, struct error *err)
{
    *p = (struct bench_poll){.timer_at = -1, .ready_at = clock_s()};
    p->epoll = epoll_create1(EPOLL_CLOEXEC);
    p->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    p->multi = curl_multi_init();
    struct epoll_event event = {.events = EPOLLIN, .data.fd = p->timer};
    if (p->epoll < 0 || p->timer < 0 || !p->multi ||
        epoll_ctl(p->epoll, EPOLL_CTL_ADD, p->timer, &event) != 0)
        return error_set(err, STATUS_NO_MEMORY,
                         "libcurl cannot be used: check the limit of open files (ulimit -n)");
    curl_multi_setopt(p->multi, CURLMOPT_SOCKETFUNCTION, socket_wanted);
    curl_multi_setopt(p->multi, CURLMOPT_SOCKETDATA, p);
    curl_multi_setopt(p->multi, CURLMOPT_TIMERFUNCTION, timer_wanted);
    curl_multi_setopt(p->multi, CURLMOPT_TIMERDATA, p);
    curl_multi_setopt(p->multi, CURLMOPT_MAXCONNECTS, connections);
    return STATUS_OK;
}

void bench_poll_close(struct bench_poll *p)
{
    curl_multi_cleanup(p->multi);
    if (p->epoll >= 0)
        close(p->epoll);
    if (p->timer >= 0)
        close(p->timer);
}

// Sets the timer, whose precision epoll's milliseconds do not have.
static void timer_set(struct bench_poll *p, double at)
{
    double second = floor(at);
    struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)second, .tv_nsec = (long)((at - second) * 1e9)}};
    timerfd_settime(p->timer, TFD_TIMER_ABSTIME, &when, NULL);
}

static int64_t ns_of(const struct timespec *t)
{
    return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

void bench_poll_stamp(int socket)
{
    int on = 1;
    (void)setsockopt(socket, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
}

// Returns the time at which the kernel received the first unread bytes of a socket, at most `now`;
// 0: there are no bytes; negative: the kernel gives no time.
static double arrival_of(const struct bench_poll *p, int fd, double now)
{
    char byte, control[CMSG_SPACE(sizeof(struct timespec))];
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    if (recvmsg(fd, &message, MSG_PEEK | MSG_DONTWAIT) <= 0)
        return 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPNS)
            continue;
        struct timespec t;
        memcpy(&t, CMSG_DATA(c), sizeof t);
        double at = (double)(ns_of(&t) - p->wall_ns) * 1e-9;
        return at < now ? at : now;
    }
    return -1;
}

// Sets the time of the bytes that libcurl is about to read. batch_s: time that the previous batch
// of sockets took; it counts as their age if the kernel gives no time.
static void arrival_note(struct bench_poll *p, int fd, double batch_s)
{
    double now = clock_s(), at = arrival_of(p, fd, now);
    double lag = at > 0 ? now - at : batch_s;
    p->read_at = at > 0 ? at : p->ready_at;
    p->stamped += at > 0;
    p->unstamped += at < 0;
    if (p->lag && (at > 0 || at < 0))
        bench_histogram_add(p->lag, lag);
}

void bench_poll_wait(struct bench_poll *p, double until)
{
    struct epoll_event events[EVENTS_MAX];
    double start = clock_s();
    double at = p->timer_at >= 0 && p->timer_at < until ? p->timer_at : until;
    at = at < start + WAIT_MAX_S ? at : start + WAIT_MAX_S;
    if (at > start)
        timer_set(p, at);
    int ready = epoll_wait(p->epoll, events, EVENTS_MAX, at > start ? -1 : 0);
    double batch_s = p->batch_s;
    p->ready_at = p->read_at = clock_s();
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    p->wall_ns = ns_of(&wall) - (int64_t)clock_ns();
    p->idle_s += p->ready_at - start;
    int running;
    for (int i = 0; i < ready; i++) {
        uint32_t got = events[i].events;
        int bits = (got & EPOLLIN ? CURL_CSELECT_IN : 0) | (got & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                   (got & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
        if (events[i].data.fd == p->timer)
            continue; // the next timer_set clears it
        if (got & EPOLLIN)
            arrival_note(p, events[i].data.fd, batch_s);
        curl_multi_socket_action(p->multi, events[i].data.fd, bits, &running);
    }
    p->batch_s = clock_s() - p->ready_at;
    bench_poll_kick(p);
}

void bench_poll_kick(struct bench_poll *p)
{
    int running;
    double now = clock_s();
    if (p->timer_at < 0 || now < p->timer_at)
        return;
    p->timer_at = -1;
    p->read_at = now;
    curl_multi_socket_action(p->multi, CURL_SOCKET_TIMEOUT, 0, &running);
}
