// SPDX-License-Identifier: Apache-2.0
// Sockets of libcurl in one epoll set: with a thousand connections an iteration costs time for the
// ready sockets, not for all open sockets.
#include "bench/load_poll.h"

#include "base/clock.h"

#include <sys/epoll.h>
#include <unistd.h>

enum { EVENTS_MAX = 256, WAIT_MS_MAX = 100 };

static int socket_wanted(CURL *easy, curl_socket_t fd, int what, void *user, void *known)
{
    struct load_poll *p = user;
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
    struct load_poll *p = user;
    (void)multi;
    p->timer_at = ms < 0 ? -1 : clock_s() + (double)ms / 1e3;
    return 0;
}

enum status load_poll_open(struct load_poll *p, long connections, struct error *err)
{
    *p = (struct load_poll){.timer_at = -1};
    p->epoll = epoll_create1(EPOLL_CLOEXEC);
    p->multi = curl_multi_init();
    if (p->epoll < 0 || !p->multi)
        return error_set(err, STATUS_NO_MEMORY, "cannot set up libcurl");
    curl_multi_setopt(p->multi, CURLMOPT_SOCKETFUNCTION, socket_wanted);
    curl_multi_setopt(p->multi, CURLMOPT_SOCKETDATA, p);
    curl_multi_setopt(p->multi, CURLMOPT_TIMERFUNCTION, timer_wanted);
    curl_multi_setopt(p->multi, CURLMOPT_TIMERDATA, p);
    curl_multi_setopt(p->multi, CURLMOPT_MAXCONNECTS, connections);
    return STATUS_OK;
}

void load_poll_close(struct load_poll *p)
{
    curl_multi_cleanup(p->multi);
    if (p->epoll >= 0)
        close(p->epoll);
}

void load_poll_wait(struct load_poll *p, double until)
{
    struct epoll_event events[EVENTS_MAX];
    double now = clock_s();
    double at = p->timer_at >= 0 && p->timer_at < until ? p->timer_at : until;
    double ms = (at - now) * 1e3;
    int wait = ms <= 0 ? 0 : ms > WAIT_MS_MAX ? WAIT_MS_MAX : (int)ms + 1;
    int ready = epoll_wait(p->epoll, events, EVENTS_MAX, wait);
    int running;
    for (int i = 0; i < ready; i++) {
        uint32_t got = events[i].events;
        int bits = (got & EPOLLIN ? CURL_CSELECT_IN : 0) | (got & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                   (got & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
        curl_multi_socket_action(p->multi, events[i].data.fd, bits, &running);
    }
    if (p->timer_at >= 0 && clock_s() >= p->timer_at) {
        p->timer_at = -1;
        curl_multi_socket_action(p->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    }
}
