// HTTP/2 lets a connection hold a hundred bodies where HTTP/1.1 holds one. The bound printed at
// start counts one a connection, so the streams of all HTTP/2 connections of a thread share what
// the connections that are not HTTP/1.1 may hold: above it the connection that holds most is
// closed. libh2o 2.2.5 has a fixed number of streams and no hook on a body's way: this looks
// between turns.
#include "http/inside.h"

#include <h2o/http2.h>
#include <h2o/http2_internal.h>
#include <sys/socket.h>

static const uint64_t check_every_ns = 10000000; // each turn once half of it is taken

struct held {
    uint64_t all, of_one, most;
    h2o_conn_t *one, *conn_most;
    uint32_t connections;
};

static struct connection *connection_of(h2o_conn_t *conn)
{
    return conn->callbacks->get_socket(conn)->on_close.data;
}

static void one_end(struct held *held)
{
    if (held->of_one > held->most) {
        held->most = held->of_one;
        held->conn_most = held->one;
    }
}

// Streams of a connection come one after the other.
static int add(h2o_req_t *req, void *data)
{
    struct held *held = data;
    const h2o_http2_stream_t *stream = H2O_STRUCT_FROM_MEMBER(h2o_http2_stream_t, req, req);
    uint64_t bytes = stream->_req_body != NULL ? stream->_req_body->size : 0;
    if (req->conn != held->one) {
        one_end(held);
        held->one = req->conn;
        held->of_one = 0;
        held->connections++;
    }
    if (connection_of(req->conn)->cut) // its end is on the way
        return 0;
    held->of_one += bytes;
    held->all += bytes;
    return 0;
}

// A plain shutdown would leave a peer that is in the middle of sending before a closed window; with
// the lingering off it gets a reset when h2o lets go of the connection.
static void connection_close(h2o_conn_t *conn)
{
    struct linger reset = {.l_onoff = 1, .l_linger = 0};
    int fd = h2o_socket_get_fd(conn->callbacks->get_socket(conn));
    connection_of(conn)->cut = true;
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    shutdown(fd, SHUT_RDWR);
}

void bodies_check(struct http_thread *thread)
{
    const h2o_globalconf_t *conf = &thread->server->conf;
    uint64_t now = now_ns();
    if (now < thread->bodies_next_ns)
        return;
    struct held held = {0};
    conf->http2.callbacks.foreach_request(&thread->ctx, add, &held);
    one_end(&held);
    uint32_t others = thread->connection_count - held.connections;
    uint32_t free = thread->connections_max > others ? thread->connections_max - others : 0;
    uint64_t most = (uint64_t)free * conf->max_request_entity_size;
    thread->bodies_next_ns = held.all > most / 2 ? 0 : now + check_every_ns;
    if (held.conn_most == NULL || held.all <= most)
        return;
    atomic_fetch_add_explicit(&thread->counters.body_floods, 1, memory_order_relaxed);
    log_line(LOG_WARNING, "HTTP/2 clients hold %llu bytes of bodies: the one with %llu is closed",
             (unsigned long long)held.all, (unsigned long long)held.most);
    connection_close(held.conn_most);
}
