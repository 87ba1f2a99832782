// SPDX-License-Identifier: Apache-2.0
// One h2o thread: its listener, accept loop and wake-ups. Only this thread touches its h2o context;
// the server controls it through control_state and an eventfd.
#include "http/internal.h"

#include <errno.h>
#include <h2o/http1.h>
#include <h2o/http2.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ACCEPTS_MAX = 64, BACKLOG = 4096, WAIT_MS = 1000, DRAIN_WAIT_MS = 20 };

static const uint64_t short_again_ns = 60000000000;

struct http_thread *loop_of(h2o_req_t *req)
{
    return H2O_STRUCT_FROM_MEMBER(struct http_thread, ctx, req->conn->ctx);
}

int request_fd(h2o_req_t *req)
{
    return h2o_socket_get_fd(req->conn->callbacks->get_socket(req->conn));
}

struct connection *request_connection(h2o_req_t *req)
{
    return req->conn->callbacks->get_socket(req->conn)->on_close.data;
}

static void readable_add(struct connection *connection)
{
    connection->next = connection->thread->readable;
    connection->link = &connection->thread->readable;
    if (connection->next)
        connection->next->link = &connection->next;
    *connection->link = connection;
}

static void readable_remove(struct connection *connection)
{
    *connection->link = connection->next;
    if (connection->next)
        connection->next->link = connection->link;
    connection->link = NULL;
}

void connection_engage(h2o_req_t *req)
{
    struct connection *connection = request_connection(req);
    bool http1 = req->version < 0x200; // h2o reads no further request until this one is answered
    if (!http1 || !connection->link)
        return;
    readable_remove(connection);
    connection->held = bodies_input(connection);
    connection->thread->bodies_engaged += connection->held;
}

void connection_release(h2o_req_t *req)
{
    struct connection *connection = request_connection(req);
    connection->quiet_from_ns = clock_ns();
    if (connection->link)
        return;
    readable_add(connection);
    connection->thread->bodies_engaged -= connection->held;
    connection->checked_with = 0; // the next request may contain another key
    connection->early = false;
}

// Counts one more connection, if fewer than `most` are open. The kernel distributes connections
// over the threads by a hash, so one may get more than its share: all threads use one count.
// seq_cst, here and at the flags listener_paused: a thread that pauses raises its flag and then
// reads the count again; a thread that closes a connection lowers the count and then reads the
// flags. With a weaker order each could miss the other's change, and the listener would stay
// paused.
static bool connection_count_acquire(struct server *server, uint32_t most)
{
    uint32_t count = atomic_load(&server->connections);
    while (count < most)
        if (atomic_compare_exchange_weak(&server->connections, &count, count + 1))
            return true;
    return false;
}

void connection_count_release(struct server *server)
{
    atomic_fetch_sub(&server->connections, 1);
    for (uint32_t i = 0; i < server->thread_count; i++)
        if (atomic_load(&server->threads[i].listener_paused))
            waker_raise(server->threads[i].control);
}

bool loop_is_full(const struct server *server)
{
    bool full = false;
    for (uint32_t i = 0; i < server->thread_count; i++)
        full = full || atomic_load(&server->threads[i].listener_paused);
    return full;
}

static void on_connection_close(void *data)
{
    struct connection *connection = data;
    struct http_thread *thread = connection->thread;
    if (connection->link)
        readable_remove(connection);
    thread->connection_count--;
    atomic_store_explicit(&thread->counters.connections, thread->connection_count,
                          memory_order_relaxed);
    if (connection->ssl)
        SSL_CTX_free(connection->ssl);
    bool lingers = linger_begin(connection);
    heap_free(connection);
    if (!lingers)
        connection_count_release(thread->server);
}

enum accepted { ACCEPT_ONE, ACCEPT_NONE, ACCEPT_SHORT };

// ACCEPT_SHORT: a connection waits, but the process or the system has no descriptor or no memory
// for it.
static enum accepted accept_one(struct http_thread *thread)
{
    h2o_socket_t *socket = h2o_evloop_socket_accept(thread->listener);
    if (!socket) // errno is that of accept4
        return errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM
                   ? ACCEPT_SHORT
                   : ACCEPT_NONE;
    struct connection *connection = heap_alloc_zeroed(1, sizeof *connection);
    connection->thread = thread;
    connection->ssl = access_of(thread->server)->ssl;
    if (connection->ssl)
        SSL_CTX_up_ref(connection->ssl);
    thread->accept_ctx.ssl_ctx = connection->ssl;
    connection->socket = socket;
    connection->linger_fd = -1;
    connection->quiet_from_ns = clock_ns();
    readable_add(connection);
    socket->on_close.cb = on_connection_close;
    socket->on_close.data = connection;
    thread->connection_count++;
    atomic_store_explicit(&thread->counters.connections, thread->connection_count,
                          memory_order_relaxed);
    atomic_fetch_add_explicit(&thread->counters.connections_total, 1, memory_order_relaxed);
    h2o_accept(&thread->accept_ctx, socket);
    return ACCEPT_ONE;
}

void loop_retry(struct http_thread *thread)
{
    if (!thread->listener || !atomic_load(&thread->listener_paused) ||
        atomic_load(&thread->server->connections) >= atomic_load(&thread->server->connections_most))
        return;
    atomic_store(&thread->listener_paused, false);
    h2o_socket_read_start(thread->listener, loop_accept);
}

// Logs that no descriptor is free, unless it was so within the last minute.
static void short_log(struct server *server, int why)
{
    uint64_t now = clock_ns(), before = atomic_exchange(&server->short_ns, now);
    if (before == 0 || now - before > short_again_ns)
        log_line(LOG_WARNING,
                 "accept: %s: new connections wait, and connections that are idle for %llu ms are "
                 "closed (raise ulimit -n or lower --max-connections)",
                 strerror(why), (unsigned long long)server->options.quiet_timeout_ms);
}

// Accepts new connections. At the limit they wait in the kernel's queue until one closes; without a
// free descriptor, until one closes or the next scan (watch.c).
void loop_accept(h2o_socket_t *listener, const char *err)
{
    struct http_thread *thread = listener->data;
    if (err)
        return;
    struct server *server = thread->server;
    for (int i = 0; i < ACCEPTS_MAX; i++) {
        if (!connection_count_acquire(server, atomic_load(&server->connections_most))) {
            h2o_socket_read_stop(listener);
            atomic_store(&thread->listener_paused, true);
            loop_retry(thread); // a connection may have closed meanwhile
            return;
        }
        enum accepted accepted = accept_one(thread);
        if (accepted == ACCEPT_ONE)
            continue;
        if (accepted == ACCEPT_NONE) {
            connection_count_release(server);
            return;
        }
        short_log(server, errno);
        h2o_socket_read_stop(listener);
        // wakes no other thread: those paused for the same reason would wake each other forever
        atomic_fetch_sub(&server->connections, 1);
        atomic_store(&thread->listener_paused, true);
        return;
    }
}

// Accepts the connections queued in the kernel before the listener closes, because they would be
// reset. Beyond connections_most this uses some of the descriptors kept for other purposes; the
// rest must remain for /metrics and a reload.
void loop_accept_rest(struct http_thread *thread)
{
    struct server *server = thread->server;
    uint32_t most = atomic_load(&server->connections_most) + server->drain_connections;
    while (connection_count_acquire(server, most)) {
        enum accepted accepted = accept_one(thread);
        if (accepted == ACCEPT_ONE)
            continue;
        connection_count_release(server);
        if (accepted == ACCEPT_NONE)
            return;
        most = atomic_load(&server->connections);
        break;
    }
    log_line(LOG_WARNING,
             "shutdown with %u connections: those that still wait to be accepted are reset "
             "(--max-connections)",
             most);
}

// Returns true if another process listens on the port. With SO_REUSEPORT a second process would
// share the port silently; a bind without that option fails.
static bool port_is_used(const struct addrinfo *address)
{
    int on = 1;
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    bool used = bind(fd, address->ai_addr, address->ai_addrlen) != 0 && errno == EADDRINUSE;
    close(fd);
    return used;
}

static int socket_bound(const struct addrinfo *address, struct error *err)
{
    int on = 1, bytes = SOCKET_SEND_BYTES;
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        error_set(err, STATUS_IO, "socket: %s", strerror(errno));
        return -1;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    // inherited by connections; otherwise the kernel buffers megabytes before a slow reader is
    // noticed
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    if (bind(fd, address->ai_addr, address->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0) {
        error_set(err, STATUS_IO, "%s", strerror(errno));
        close(fd);
        return -1;
    }
    return fd;
}

static uint32_t port_of(int fd)
{
    struct sockaddr_storage address;
    socklen_t bytes = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &bytes) != 0)
        return 0;
    if (address.ss_family == AF_INET6)
        return ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
    return ntohs(((struct sockaddr_in *)&address)->sin_port);
}

// Binds this thread's own socket to the common port (SO_REUSEPORT). If the port is 0, the first
// thread's bind chooses it.
enum status loop_listen(struct http_thread *thread, struct error *err)
{
    struct server *server = thread->server;
    char port[16];
    snprintf(port, sizeof port, "%u", server->port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int failed = getaddrinfo(server->options.host, port, &hints, &found);
    if (failed != 0)
        return error_set(err, STATUS_INVALID, "--host %s: %s", server->options.host,
                         gai_strerror(failed));
    bool used = thread->index == 0 && server->port != 0 && port_is_used(found);
    thread->listen_fd = -1;
    if (used)
        error_set(err, STATUS_IO,
                  "another process listens on it: choose another port with --port (make serve: "
                  "PORT=...)");
    else
        thread->listen_fd = socket_bound(found, err);
    freeaddrinfo(found);
    if (thread->listen_fd < 0)
        return error_prefix(err, "cannot listen on %s port %u", server->options.host, server->port);
    server->port = port_of(thread->listen_fd);
    return STATUS_OK;
}

static void on_control(h2o_socket_t *socket, const char *err)
{
    (void)err;
    struct http_thread *thread = socket->data;
    waker_clear(thread->control);
    offload_handle_finished(thread);
    manage_handle_done(thread);
    loop_retry(thread);
    int state = atomic_load_explicit(&thread->control_state, memory_order_acquire);
    if (state >= CONTROL_DRAIN && thread->drain_ns == 0)
        drain_begin(thread);
}

static void on_waker(h2o_socket_t *socket, const char *err)
{
    (void)err;
    struct http_thread *thread = socket->data;
    waker_clear(thread->waker);
    exchange_requests_drain(thread);
}

static void on_second(h2o_timeout_entry_t *entry)
{
    struct http_thread *thread = H2O_STRUCT_FROM_MEMBER(struct http_thread, second, entry);
    watch_second(thread, clock_ns());
    h2o_timeout_link(thread->ctx.loop, &thread->ctx.one_sec_timeout, &thread->second);
}

static h2o_socket_t *socket_watch(struct http_thread *thread, int fd, h2o_socket_cb callback)
{
    h2o_socket_t *socket =
        h2o_evloop_socket_create(thread->ctx.loop, fd, H2O_SOCKET_FLAG_DONT_READ);
    socket->data = thread;
    h2o_socket_read_start(socket, callback);
    return socket;
}

static void loop_start(struct http_thread *thread)
{
    struct server *server = thread->server;
    h2o_context_init(&thread->ctx, h2o_evloop_create(), &server->conf);
    thread->accept_ctx = (h2o_accept_ctx_t){.ctx = &thread->ctx, .hosts = server->conf.hosts};
    // closing an h2o socket closes its descriptor, so eventfds with other owners are duplicated
    thread->control_socket = socket_watch(thread, dup(waker_fd(thread->control)), on_control);
    thread->waker_socket = socket_watch(thread, dup(waker_fd(thread->waker)), on_waker);
    thread->listener = socket_watch(thread, thread->listen_fd, loop_accept);
    thread->listen_fd = -1;
    watch_start(thread);
    linger_open(thread);
    thread->second.cb = on_second;
    h2o_timeout_link(thread->ctx.loop, &thread->ctx.one_sec_timeout, &thread->second);
}

static void socket_end(h2o_socket_t **socket)
{
    if (!*socket)
        return;
    h2o_socket_read_stop(*socket);
    h2o_socket_close(*socket);
    *socket = NULL;
}

void loop_listener_close(struct http_thread *thread)
{
    socket_end(&thread->listener);
    atomic_store(&thread->listener_paused, false);
}

// Closes the thread's h2o context. h2o_context_dispose must not run while connections are open;
// then the context is left as is, because the process is about to end.
static void loop_end(struct http_thread *thread)
{
    h2o_loop_t *loop = thread->ctx.loop;
    h2o_timeout_unlink(&thread->second);
    socket_end(&thread->control_socket);
    socket_end(&thread->waker_socket);
    socket_end(&thread->watch_socket);
    socket_end(&thread->listener);
    linger_close(thread);
    thread->watch_fd = -1;
    // may still be armed for a second
    h2o_timeout_unlink(&thread->ctx.http2._graceful_shutdown_timeout);
    h2o_evloop_run(loop, 0);
    if (thread->connection_count > 0) {
        log_line(LOG_WARNING, "%u connections are still open", thread->connection_count);
        return;
    }
    h2o_timeout_dispose(loop, &thread->linger_timeout);
    early_end(thread);
    h2o_context_dispose(&thread->ctx);
    h2o_evloop_run(loop, 0);
    h2o_evloop_destroy(loop);
}

void *loop_main(void *argument)
{
    struct http_thread *thread = argument;
    pthread_setname_np(pthread_self(), "http");
    loop_start(thread);
    bodies_begin(thread);
    early_begin(thread);
    atomic_store(&thread->started, true);
    while (atomic_load_explicit(&thread->control_state, memory_order_acquire) != CONTROL_QUIT) {
        atomic_store_explicit(&thread->beat_ns, clock_ns(), memory_order_relaxed);
        atomic_fetch_add(&thread->iterations, 1); // seq_cst: see access_replace in reload.c
        h2o_evloop_run(thread->ctx.loop, thread->drain_ns != 0 ? DRAIN_WAIT_MS : WAIT_MS);
        bodies_check(thread);
        int state = atomic_load_explicit(&thread->control_state, memory_order_relaxed);
        if (state == CONTROL_CUT)
            drain_cut(thread);
        else if (state == CONTROL_ABORT)
            drain_abort(thread);
        if (thread->drain_ns != 0)
            drain_check(thread);
    }
    loop_end(thread);
    return NULL;
}
