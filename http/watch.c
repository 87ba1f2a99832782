// SPDX-License-Identifier: Apache-2.0
// Notices what libh2o 2.2.5 does not: a peer that leaves while its HTTP/1 response is idle (h2o
// removes the descriptor from its epoll then), clients that read nothing, HTTP/2 bodies that arrive
// too slowly, and HTTP/2 connections of unknown clients that live on PINGs. Each h2o thread has one
// additional epoll, which h2o's loop watches, and scans its exchanges each second.
//
// A pause of the machine does not count as time in which a client read nothing or a grammar waited;
// slow bodies and idle connections get no such allowance. The watcher does not read from sockets,
// because HTTP/1 requests point into h2o's read buffer. The scan also ends requests of a model
// whose device failed, because the engine may hang in it.
#include "http/internal.h"

#include "base/patience.h"

#include <errno.h>
#include <h2o/http2.h>
#include <h2o/http2_internal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

// Longest time between two scans that is not treated as a pause: scans run each second, or later on
// a busy machine.
static const uint64_t scan_pause_ns = 3000000000;

static void on_peer_gone(h2o_socket_t *socket, const char *err)
{
    (void)err;
    struct http_thread *thread = socket->data;
    struct epoll_event events[WATCH_EVENTS];
    int count = epoll_wait(thread->watch_fd, events, WATCH_EVENTS, 0);
    for (int i = 0; i < count; i++)
        exchange_abort(events[i].data.ptr);
}

enum status watch_open(struct http_thread *thread, struct error *err)
{
    thread->watch_fd = epoll_create1(EPOLL_CLOEXEC);
    if (thread->watch_fd < 0)
        return error_set(err, STATUS_IO, "epoll_create1: %s", strerror(errno));
    return STATUS_OK;
}

void watch_start(struct http_thread *thread)
{
    thread->scanned_ns = clock_ns();
    thread->watch_socket =
        h2o_evloop_socket_create(thread->ctx.loop, thread->watch_fd, H2O_SOCKET_FLAG_DONT_READ);
    thread->watch_socket->data = thread;
    h2o_socket_read_start(thread->watch_socket, on_peer_gone);
}

static void unwatched_report(int why)
{
    static atomic_flag reported = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&reported))
        log_line(LOG_WARNING,
                 "epoll_ctl: %s: HTTP/1 clients that disconnect are noticed late from now on "
                 "(raise fs.epoll.max_user_watches)",
                 strerror(why));
}

void watch_add(struct exchange *x)
{
    h2o_req_t *req = x->answer->req;
    if (req->version >= 0x200) // h2o keeps reading HTTP/2 connections and notices the end
        return;
    // edge-triggered: a peer that closed its sending side is reported once and counts as gone
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLET, .data.ptr = x};
    x->watched = epoll_ctl(x->thread->watch_fd, EPOLL_CTL_ADD, request_fd(req), &event) == 0;
    if (!x->watched)
        unwatched_report(errno);
}

void watch_remove(struct exchange *x)
{
    // the descriptor is still open: h2o closes it after it has disposed of the request
    if (x->watched)
        epoll_ctl(x->thread->watch_fd, EPOLL_CTL_DEL, request_fd(x->answer->req), NULL);
    x->watched = false;
}

static void scan_one(struct exchange *x, uint64_t now)
{
    uint64_t stall_ns = x->thread->server->options.stall_timeout_ms * 1000000;
    if (x->wire >= WIRE_SENDING && x->client != CLIENT_GONE && now - x->send.sent_ns > stall_ns) {
        atomic_fetch_add_explicit(&x->thread->counters.stalled, 1, memory_order_relaxed);
        // also if h2o has the complete answer, because the client did not read it
        exchange_client_gone(x);
        exchange_abort(x);
        return;
    }
    if (x->engine.request && x->job.state == JOB_NONE && served_copy_failed(x->engine.copy)) {
        static const char text[] = "The device of the model failed.";
        static const struct http_failure failure = {.error = HTTP_INTERNAL,
                                                    .message = {text, sizeof text - 1}};
        exchange_cut(x, &failure);
        return;
    }
    if (offload_is_late(x, now))
        return;
    if (exchange_is_lent(x) || x->reply == REPLY_ENDED || exchange_gone(x) || !x->route ||
        !x->route->on_second)
        return;
    x->route->on_second(x, now);
    exchange_run(x, x->route->on_ready);
}

// Returns the time since a request began that is not complete yet; 0 if it is complete.
static int64_t body_age_ms(const h2o_req_t *req)
{
    struct timeval begun = req->timestamps.request_begin_at;
    if (req->processed_at.at.tv_sec != 0 || begun.tv_sec == 0)
        return 0;
    struct timeval now;
    gettimeofday(&now, NULL); // the clock of h2o's time stamps
    return (int64_t)(now.tv_sec - begun.tv_sec) * 1000 +
           (int64_t)(now.tv_usec - begun.tv_usec) / 1000;
}

// Closes connections whose request body takes too long: h2o has no timeout between the frames of an
// HTTP/2 body.
static int body_check(h2o_req_t *req, void *data)
{
    struct http_thread *thread = data;
    if (body_age_ms(req) > (int64_t)thread->server->options.request_timeout_ms)
        shutdown(request_fd(req), SHUT_RDWR);
    return 0;
}

// Closes HTTP/2 connections without a stream on which no request with a valid key has arrived,
// request_timeout_ms after the accept or the last answer. h2o has such a timeout, but restarts it
// with each frame: a client could hold a connection with PINGs.
static void keyless_close(struct http_thread *thread, uint64_t now)
{
    uint64_t most_ns = thread->server->options.request_timeout_ms * 1000000;
    uint32_t generation = access_of(thread->server)->generation;
    h2o_linklist_t *all = &thread->ctx.http2._conns, *next;
    for (h2o_linklist_t *node = all->next; node != all; node = next) {
        next = node->next; // conn may be freed
        h2o_http2_conn_t *conn = H2O_STRUCT_FROM_MEMBER(h2o_http2_conn_t, _conns, node);
        const struct connection *c = conn->sock->on_close.data;
        if (conn->num_streams.pull.open > 0 || c->keyed_with == generation ||
            now - c->quiet_from_ns <= most_ns)
            continue;
        if (conn->state == H2O_HTTP2_CONN_STATE_OPEN) { // sends GOAWAY and closes
            h2o_timeout_unlink(&conn->_timeout_entry);
            conn->_timeout_entry.cb(&conn->_timeout_entry);
        } else { // the client does not read
            shutdown(h2o_socket_get_fd(conn->sock), SHUT_RDWR);
        }
    }
}

// Marks connections with a complete request head: h2o sets version (HTTP/1) and method (HTTP/2)
// then. A body that is incomplete after quiet_timeout_ms counts only if the head has a valid key;
// it has none if the key was revoked meanwhile, or if libh2o does not use early.c.
static int busy_mark(h2o_req_t *req, void *data)
{
    struct http_thread *thread = data;
    if (req->version == 0 || req->input.method.len == 0)
        return 0;
    struct server *server = thread->server;
    bool late = body_age_ms(req) > (int64_t)server->options.quiet_timeout_ms;
    if (!late || request_has_key(req, access_of(server)->keys))
        request_connection(req)->busy = true;
    return 0;
}

// Closes idle connections while new ones wait to be accepted: those without a complete request
// head, or with a late body and no valid key; TLS and HTTP/2 connections without a stream; idle
// keep-alive connections.
static void quiet_close(struct http_thread *thread, uint64_t now)
{
    const struct server *server = thread->server;
    uint64_t most_ns = server->options.quiet_timeout_ms * 1000000;
    for (struct connection *c = thread->readable; c; c = c->next)
        c->busy = false;
    server->conf.http1.callbacks.foreach_request(&thread->ctx, busy_mark, thread);
    server->conf.http2.callbacks.foreach_request(&thread->ctx, busy_mark, thread);
    for (struct connection *c = thread->readable; c; c = c->next) {
        if (c->busy || now - c->quiet_from_ns <= most_ns)
            continue;
        atomic_fetch_add_explicit(&thread->counters.quiet_closed, 1, memory_order_relaxed);
        // h2o reads the end of the stream and closes
        shutdown(h2o_socket_get_fd(c->socket), SHUT_RDWR);
    }
}

// Moves the start times of waits forward by a pause of the machine, so that it does not count.
static void pause_leave_out(struct http_thread *thread, uint64_t pause_ns, uint64_t now)
{
    for (struct exchange *x = thread->exchanges; x; x = x->next) {
        x->send.sent_ns = smaller(x->send.sent_ns + pause_ns, now);
        if (x->job.compile.since_ns != 0)
            x->job.compile.since_ns = smaller(x->job.compile.since_ns + pause_ns, now);
    }
}

void watch_second(struct http_thread *thread, uint64_t now)
{
    uint64_t pause_ns = patience_pause(&thread->scanned_ns, now, scan_pause_ns);
    if (pause_ns > 0)
        pause_leave_out(thread, pause_ns, now);
    if (loop_is_full(thread->server))
        quiet_close(thread, now);
    exchange_requests_pages_return(thread);
    loop_retry(thread);
    struct exchange *next;
    for (struct exchange *x = thread->exchanges; x; x = next) {
        next = x->next; // scan_one ends only x, and h2o's loop frees it later
        scan_one(x, now);
    }
    thread->server->conf.http2.callbacks.foreach_request(&thread->ctx, body_check, thread);
    keyless_close(thread, now);
}
