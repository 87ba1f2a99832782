// SPDX-License-Identifier: Apache-2.0
// Shutdown, on each h2o thread: accepts the connections queued in the kernel, closes the listener,
// sends GOAWAY to HTTP/2 peers, closes idle keep-alive connections, and lets accepted requests
// finish. At the deadline, unfinished requests get a failure; connections that are still open after
// that are shut down. A request that begins within a second of the signal is served; later ones get
// 503.
#include "http/internal.h"

#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>

// For how long a new connection without a request is kept open, so that a late request gets 503
// instead of a reset.
enum { NEW_CONNECTION_MS = 2000 };

static int64_t wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t wall_ms_of(struct timeval at)
{
    return (int64_t)at.tv_sec * 1000 + at.tv_usec / 1000;
}

bool drain_refuses(const struct http_thread *thread, const h2o_req_t *req)
{
    if (thread->drain_ns == 0)
        return false;
    int64_t grace_ms = (int64_t)thread->server->options.drain_grace_ms;
    return wall_ms_of(req->timestamps.request_begin_at) > thread->drain_unix_ms + grace_ms;
}

// Closes a connection of which neither h2o nor the kernel holds a byte of a request, unless it is
// new.
static int idle_close(h2o_req_t *req, void *data)
{
    const struct http_thread *thread = data;
    req->http1_is_persistent = 0;
    if (req->version != 0)
        return 0;
    h2o_socket_t *socket = req->conn->callbacks->get_socket(req->conn);
    int fd = h2o_socket_get_fd(socket), waiting = 0;
    if (socket->input->size > 0 || (ioctl(fd, FIONREAD, &waiting) == 0 && waiting > 0))
        return 0;
    int64_t now = wall_ms();
    if (now - wall_ms_of(req->conn->connected_at) < NEW_CONNECTION_MS &&
        now - thread->drain_unix_ms < NEW_CONNECTION_MS)
        return 0;
    shutdown(fd, SHUT_RD); // h2o reads the end of the stream and closes
    return 0;
}

void drain_begin(struct http_thread *thread)
{
    thread->drain_ns = clock_ns();
    thread->drain_unix_ms = wall_ms();
    if (thread->listener) {
        loop_accept_rest(thread);
        loop_listener_close(thread);
    }
    h2o_context_request_shutdown(&thread->ctx);
    for (struct exchange *x = thread->exchanges; x; x = x->next) {
        x->info.draining = true;
        x->response.close = true;
    }
    drain_check(thread);
}

void drain_check(struct http_thread *thread)
{
    thread->server->conf.http1.callbacks.foreach_request(&thread->ctx, idle_close, thread);
    bool clients =
        thread->connection_count > 0 || thread->exchange_count > 0 || !offload_is_idle(thread);
    bool orphans = atomic_load_explicit(&thread->counters.orphans, memory_order_relaxed) > 0;
    int idle = clients ? IDLE_NOT : orphans ? IDLE_CLIENTS : IDLE_ALL;
    atomic_store_explicit(&thread->idle, idle, memory_order_release);
}

static int connection_cut(h2o_req_t *req, void *data)
{
    (void)data;
    shutdown(request_fd(req), SHUT_RDWR);
    return 0;
}

static void exchange_count_aborted(struct exchange *x)
{
    if (!x->counted_aborted)
        x->thread->aborted_count++;
    x->counted_aborted = true;
}

// The deadline has passed: fails and counts the requests without a complete answer.
void drain_cut(struct http_thread *thread)
{
    static const char text[] = "The server shut down before the answer was complete.";
    static const struct http_failure failure = {.error = HTTP_UNAVAILABLE,
                                                .message = {text, sizeof text - 1}};
    struct exchange *next;
    for (struct exchange *x = thread->exchanges; x; x = next) {
        next = x->next; // x is freed later, by h2o's loop
        if (x->reply == REPLY_ENDED)
            continue;
        exchange_count_aborted(x);
        x->response.close = true;
        exchange_cut(x, &failure);
    }
}

// The last resort: closes everything that is still open.
void drain_abort(struct http_thread *thread)
{
    struct exchange *next;
    for (struct exchange *x = thread->exchanges; x; x = next) {
        next = x->next;
        if (x->client == CLIENT_GONE || x->wire == WIRE_LAST) // h2o already has the complete answer
            continue;
        exchange_count_aborted(x);
        exchange_abort(x);
    }
    thread->server->conf.http1.callbacks.foreach_request(&thread->ctx, connection_cut, NULL);
    thread->server->conf.http2.callbacks.foreach_request(&thread->ctx, connection_cut, NULL);
}
