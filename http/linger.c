// SPDX-License-Identifier: Apache-2.0
// Closes a connection whose client may still send a body that no code reads. A close with unread
// bytes makes the kernel send a reset, and the client may then lose the answer. So the sending side
// is closed first, and what the client sends is read and dropped until it closes too, up to 64 KiB
// or 2 s. libh2o closes its descriptor when it has sent the answer; the duplicate keeps the
// connection open. On the connection's h2o thread.
#include "http/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DRAIN_BYTES_MAX = 64 * 1024 };

struct linger_one {
    struct http_thread *thread;
    h2o_socket_t *socket; // socket of the duplicate
    h2o_timeout_entry_t timeout;
    size_t left; // bytes that may still be read
    struct linger_one *next, **link;
};

void linger_open(struct http_thread *thread)
{
    h2o_timeout_init(thread->ctx.loop, &thread->linger_timeout,
                     thread->server->options.linger_timeout_ms);
}

void linger_prepare(struct connection *connection)
{
    if (connection->linger_fd >= 0)
        return;
    int fd = h2o_socket_get_fd(connection->socket);
    connection->linger_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0); // -1: no descriptor is free
}

static void linger_end(struct linger_one *one)
{
    struct server *server = one->thread->server;
    h2o_timeout_unlink(&one->timeout);
    h2o_socket_read_stop(one->socket);
    h2o_socket_close(one->socket);
    *one->link = one->next;
    if (one->next)
        one->next->link = one->link;
    heap_free(one);
    connection_count_release(server);
}

static void on_timeout(h2o_timeout_entry_t *entry)
{
    linger_end(H2O_STRUCT_FROM_MEMBER(struct linger_one, timeout, entry));
}

static void on_bytes(h2o_socket_t *socket, const char *err)
{
    (void)err;
    char dropped[4096];
    struct linger_one *one = socket->data;
    while (one->left > 0) {
        size_t most = one->left < sizeof dropped ? one->left : sizeof dropped;
        ssize_t got = recv(h2o_socket_get_fd(socket), dropped, most, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        one->left = got > 0 ? one->left - (size_t)got : 0;
    }
    linger_end(one);
}

bool linger_begin(struct connection *connection)
{
    struct http_thread *thread = connection->thread;
    int fd = connection->linger_fd;
    if (fd < 0)
        return false;
    if (connection->cut || shutdown(fd, SHUT_WR) != 0) { // the peer has left
        close(fd);
        return false;
    }
    struct linger_one *one = heap_alloc_zeroed(1, sizeof *one);
    one->thread = thread;
    one->left = DRAIN_BYTES_MAX;
    one->timeout.cb = on_timeout;
    one->next = thread->lingering;
    one->link = &thread->lingering;
    if (one->next)
        one->next->link = &one->next;
    thread->lingering = one;
    one->socket = h2o_evloop_socket_create(thread->ctx.loop, fd, H2O_SOCKET_FLAG_DONT_READ);
    one->socket->data = one;
    h2o_socket_read_start(one->socket, on_bytes);
    h2o_timeout_link(thread->ctx.loop, &thread->linger_timeout, &one->timeout);
    return true;
}

void linger_close(struct http_thread *thread)
{
    while (thread->lingering)
        linger_end(thread->lingering);
}
