// SPDX-License-Identifier: Apache-2.0
// One memory budget for the bodies of all requests in progress, shared by all threads and both
// protocols. libh2o 2.2.5 calls the handler only once a body is complete: until then an HTTP/1.1
// body is in the socket's input buffer, where it stays until the answer is sent, and an HTTP/2 body
// in a buffer of its stream. libh2o is linked dynamically and resolves h2o_buffer_reserve to the
// function in this file, so each growth of such a buffer is checked here; in addition all buffers
// are counted again between iterations of the loop. Above the budget, the connection that holds
// most bytes is closed, those without a valid key first. A thread closes only its own connections.
// If another thread has the largest one, it leaves the closing to that thread, unless the budget is
// exceeded by more than a quarter.
#include "http/internal.h"

#include <dlfcn.h>
#include <h2o/http1.h>
#include <h2o/http2.h>
#include <h2o/http2_internal.h>
#include <sys/socket.h>

enum { WORST_MAX = 32, SMALL_BYTES = 64 * 1024 };

static const uint64_t check_every_ns = 10000000; // every iteration once half of the budget is used
static const uint64_t log_every_ns = 1000000000;
// bit of a rank: the connection holds a large body and has shown no valid key
static const uint64_t keyless = UINT64_C(1) << 63;

// A buffer that h2o is about to enlarge, and by how much. at NULL: none.
struct growth {
    h2o_buffer_t **at;
    uint64_t bytes;
};

struct worst {
    const struct access *access;
    struct growth growth;
    struct connection *growing;       // the connection that owns the buffer
    struct connection *at[WORST_MAX]; // sorted by rank, highest first
    uint32_t count;
};

static _Thread_local struct http_thread *current;

// Returns the capacity, not the size: memory beyond the size was written earlier and is still
// resident.
static uint64_t buffer_bytes(const h2o_buffer_t *buffer)
{
    return buffer && buffer->bytes ? buffer->capacity : 0;
}

uint64_t bodies_input(const struct connection *connection)
{
    return buffer_bytes(connection->socket->input);
}

static uint64_t stream_bytes(h2o_req_t *req)
{
    return buffer_bytes(H2O_STRUCT_FROM_MEMBER(h2o_http2_stream_t, req, req)->_req_body);
}

static int stream_add(h2o_req_t *req, void *sum)
{
    if (!request_connection(req)->cut) // else it is being closed
        *(uint64_t *)sum += stream_bytes(req);
    return 0;
}

static uint64_t bytes_sum(struct http_thread *thread)
{
    uint64_t sum = thread->bodies_engaged;
    for (const struct connection *c = thread->readable; c; c = c->next)
        sum += c->cut ? 0 : bodies_input(c);
    thread->server->conf.http2.callbacks.foreach_request(&thread->ctx, stream_add, &sum);
    return sum;
}

// Returns the rank of a connection; the highest is closed first. Small ones are ranked by size
// only: their head may be incomplete, so a key may still arrive.
static uint64_t rank_of(const struct connection *c)
{
    return c->held | (!c->has_key && c->held > SMALL_BYTES ? keyless : 0);
}

static void worst_add(struct worst *worst, struct connection *c)
{
    if (c->cut || c->held == 0)
        return;
    uint32_t at = worst->count;
    while (at > 0 && rank_of(worst->at[at - 1]) < rank_of(c))
        at--;
    if (at == WORST_MAX)
        return;
    worst->count += worst->count < WORST_MAX;
    for (uint32_t i = worst->count - 1; i > at; i--)
        worst->at[i] = worst->at[i - 1];
    worst->at[at] = c;
}

// Whether a connection has a valid key is remembered until the request is answered (HTTP/1) or the
// keys are renewed; on HTTP/2 the head of each later stream is checked once. A check costs an HMAC
// and a walk over all keys, and buffers grow often.
static void key_checks_begin(struct connection *c, const struct access *access)
{
    if (c->checked_with != access->generation) {
        c->has_key = false;
        c->checked_next = 0;
    }
    c->checked_with = access->generation;
    c->checked_to = c->checked_next;
}

static void stream_key_check(struct connection *c, const h2o_req_t *req, uint32_t stream,
                             const struct access *access)
{
    if (c->has_key || stream <= c->checked_to)
        return;
    c->has_key = request_has_key(req, access->keys);
    c->checked_next = stream > c->checked_next ? stream : c->checked_next;
}

static int http1_rate(h2o_req_t *req, void *data)
{
    struct worst *worst = data;
    struct connection *c = request_connection(req);
    key_checks_begin(c, worst->access);
    if (c->held > SMALL_BYTES && req->version != 0) // the head is complete
        stream_key_check(c, req, 1, worst->access);
    if (!c->link)
        worst_add(worst, c);
    return 0;
}

static void growth_add(struct worst *worst, struct connection *c, h2o_buffer_t **buffer)
{
    if (worst->growth.at != buffer)
        return;
    c->held += worst->growth.bytes;
    worst->growing = c;
}

static int http2_rate(h2o_req_t *req, void *data)
{
    struct worst *worst = data;
    struct connection *c = request_connection(req);
    h2o_http2_stream_t *stream = H2O_STRUCT_FROM_MEMBER(h2o_http2_stream_t, req, req);
    c->held += stream_bytes(req);
    growth_add(worst, c, &stream->_req_body);
    if (req->input.method.len > 0) // the head is complete
        stream_key_check(c, req, stream->stream_id, worst->access);
    return 0;
}

struct growth_search {
    h2o_buffer_t **at;
    bool found;
};

static int growth_find(h2o_req_t *req, void *data)
{
    struct growth_search *search = data;
    h2o_http2_stream_t *stream = H2O_STRUCT_FROM_MEMBER(h2o_http2_stream_t, req, req);
    search->found = search->found || search->at == &stream->_req_body;
    return 0;
}

// Returns true if the buffer belongs to a body. It is false for TLS and output buffers, whose
// connection is unknown.
static bool growth_is_known(struct http_thread *thread, struct growth growth)
{
    struct growth_search search = {growth.at, false};
    for (const struct connection *c = thread->readable; c && !search.found; c = c->next)
        search.found = growth.at == &c->socket->input;
    if (!search.found)
        thread->server->conf.http2.callbacks.foreach_request(&thread->ctx, growth_find, &search);
    return search.found;
}

static void worst_find(struct http_thread *thread, struct growth growth, struct worst *worst)
{
    const h2o_globalconf_t *conf = &thread->server->conf;
    *worst = (struct worst){.access = access_of(thread->server), .growth = growth};
    for (struct connection *c = thread->readable; c; c = c->next) {
        c->held = bodies_input(c);
        key_checks_begin(c, worst->access);
        growth_add(worst, c, &c->socket->input);
    }
    conf->http1.callbacks.foreach_request(&thread->ctx, http1_rate, worst);
    conf->http2.callbacks.foreach_request(&thread->ctx, http2_rate, worst);
    for (struct connection *c = thread->readable; c; c = c->next)
        worst_add(worst, c);
}

static void closed_count(struct http_thread *thread)
{
    thread->bodies_closed++;
    atomic_fetch_add_explicit(&thread->counters.body_floods, 1, memory_order_relaxed);
}

// Closes the connection. h2o has no function for that, but its reader treats an error as the end of
// the peer and frees everything immediately. SO_LINGER 0 sends a reset, so that a peer that is
// still sending notices.
static void connection_close(struct connection *c)
{
    struct linger reset = {.l_onoff = 1, .l_linger = 0};
    h2o_socket_t *socket = c->socket;
    int fd = h2o_socket_get_fd(socket);
    c->cut = true;
    if (!c->refused) // else it was counted when refused
        closed_count(c->thread);
    if (!c->link) {
        c->thread->bodies_engaged -= c->held;
        c->held = 0;
    }
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    shutdown(fd, SHUT_RDWR);
    if (socket->_cb.read)
        socket->_cb.read(socket, h2o_socket_error_closed); // c may be freed now
}

static uint64_t counter_load(const _Atomic uint64_t *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
}

static void counter_store(_Atomic uint64_t *to, uint64_t value)
{
    atomic_store_explicit(to, value, memory_order_relaxed);
}

static uint64_t bytes_of_all(const struct server *server)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < server->thread_count; i++)
        sum += counter_load(&server->threads[i].counters.body_bytes);
    return sum;
}

// Returns the highest rank in other threads; UINT64_MAX if one of them has bodies but has not
// reported a rank yet.
static uint64_t rank_of_others(const struct http_thread *thread)
{
    const struct server *server = thread->server;
    uint64_t highest = 0;
    for (uint32_t i = 0; i < server->thread_count; i++) {
        const struct http_thread *other = &server->threads[i];
        if (other == thread || counter_load(&other->counters.body_bytes) == 0)
            continue;
        uint64_t rank = counter_load(&other->bodies_rank);
        rank = rank == 0 ? UINT64_MAX : rank;
        highest = rank > highest ? rank : highest;
    }
    return highest;
}

static void others_check_request(struct http_thread *thread)
{
    struct server *server = thread->server;
    for (uint32_t i = 0; i < server->thread_count; i++) {
        struct http_thread *other = &server->threads[i];
        if (other != thread && counter_load(&other->counters.body_bytes) > 0 &&
            !atomic_exchange_explicit(&other->bodies_check_requested, true, memory_order_relaxed))
            waker_raise(other->control);
    }
}

enum outcome { ENOUGH, OTHERS, REFUSE };

// Returns true if one more connection must be closed. An eighth of the budget more than needed is
// freed from connections without a key, so that a flood does not lead here with every piece it
// sends.
static bool closing_continues(const struct http_thread *thread, const struct connection *c,
                              uint64_t over, uint64_t closed)
{
    uint64_t more = thread->server->options.body_memory_max / 8;
    return closed < over || ((rank_of(c) & keyless) != 0 && closed < over + more);
}

// Closes this thread's connections that have to be closed. OTHERS: another thread has the largest
// connection. REFUSE: the next connection to close owns the buffer that is growing, and h2o is
// reading from it now.
static enum outcome worst_close(struct http_thread *thread, uint64_t over, struct growth growth)
{
    struct worst worst;
    bool waits = over <= thread->server->options.body_memory_max / 4;
    uint64_t others = waits ? rank_of_others(thread) : 0;
    uint64_t closed = 0;
    uint32_t next = 0;
    if (growth.at && !growth_is_known(thread, growth))
        return ENOUGH;
    worst_find(thread, growth, &worst);
    for (; next < worst.count && closing_continues(thread, worst.at[next], over, closed); next++) {
        if (worst.at[next] == worst.growing || rank_of(worst.at[next]) < others)
            break;
        closed += worst.at[next]->held;
        connection_close(worst.at[next]);
    }
    struct connection *remaining = next < worst.count ? worst.at[next] : NULL;
    uint64_t rank = remaining ? rank_of(remaining) : 1;
    bool refuse = remaining && closed < over && remaining == worst.growing && rank >= others;
    if (refuse && !remaining->refused) {
        closed_count(thread);
        thread->bodies_refused = remaining->refused = true;
    }
    counter_store(&thread->bodies_rank, rank);
    counter_store(&thread->counters.body_bytes,
                  counter_load(&thread->counters.body_bytes) - closed);
    return closed >= over ? ENOUGH : refuse ? REFUSE : OTHERS;
}

// Closes the connections whose buffer was refused. On HTTP/2, h2o itself has only reset the stream.
static void refused_close(struct http_thread *thread)
{
    struct connection *next;
    for (struct connection *c = thread->readable; c; c = next) {
        next = c->next;
        if (c->refused && !c->cut)
            connection_close(c);
    }
    thread->bodies_refused = false;
}

// Returns by how many bytes h2o will enlarge the buffer, if it becomes a large one; else 0.
static uint64_t growth_of(const h2o_buffer_t *buffer, size_t least)
{
    uint64_t capacity = buffer->capacity;
    if (!buffer->bytes || (buffer->size + least) * 2 <= capacity ||
        least <= capacity - buffer->size - (uint64_t)(buffer->bytes - buffer->_buf))
        return 0;
    do {
        capacity *= 2;
    } while (capacity - buffer->size < least);
    return capacity > SMALL_BYTES ? capacity - buffer->capacity : 0;
}

static bool buffer_may_grow(struct http_thread *thread, struct growth growth)
{
    uint64_t most = thread->server->options.body_memory_max;
    _Atomic uint64_t *own = &thread->counters.body_bytes;
    bool fits = bytes_of_all(thread->server) + growth.bytes <= most;
    if (!fits) { // the count may still include memory that was freed since
        counter_store(own, bytes_sum(thread));
        uint64_t all = bytes_of_all(thread->server) + growth.bytes;
        enum outcome outcome = all > most ? worst_close(thread, all - most, growth) : ENOUGH;
        if (outcome == REFUSE)
            return false;
        if (outcome == OTHERS)
            others_check_request(thread);
    }
    counter_store(own, counter_load(own) + growth.bytes);
    return true;
}

// Overrides libh2o's function of this name, and calls it. If no memory is returned, h2o closes an
// HTTP/1.1 connection and resets an HTTP/2 stream.
h2o_iovec_t h2o_buffer_reserve(h2o_buffer_t **buffer, size_t least)
{
    static h2o_iovec_t (*_Atomic library)(h2o_buffer_t **, size_t);
    if (!library)
        library = (h2o_iovec_t(*)(h2o_buffer_t **, size_t))dlsym(RTLD_NEXT, "h2o_buffer_reserve");
    struct growth growth = {buffer, growth_of(*buffer, least)};
    if (growth.bytes > 0 && current && !buffer_may_grow(current, growth))
        return (h2o_iovec_t){NULL, 0};
    return library(buffer, least);
}

void bodies_begin(struct http_thread *thread)
{
    current = thread;
}

static void closed_log(struct http_thread *thread, uint64_t now)
{
    if (thread->bodies_closed == 0 || now < thread->bodies_log_ns)
        return;
    log_line(
        LOG_WARNING,
        "request bodies exceed the %llu bytes of --max-body-memory: %u connections were closed",
        (unsigned long long)thread->server->options.body_memory_max, thread->bodies_closed);
    thread->bodies_closed = 0;
    thread->bodies_log_ns = now + log_every_ns;
}

void bodies_check(struct http_thread *thread)
{
    uint64_t now = clock_ns(), most = thread->server->options.body_memory_max;
    closed_log(thread, now);
    if (thread->bodies_refused)
        refused_close(thread);
    if (!atomic_exchange_explicit(&thread->bodies_check_requested, false, memory_order_relaxed) &&
        now < thread->bodies_next_ns)
        return;
    counter_store(&thread->counters.body_bytes, bytes_sum(thread));
    uint64_t all = bytes_of_all(thread->server);
    thread->bodies_next_ns = all > most / 2 ? 0 : now + check_every_ns;
    if (all <= most) {
        counter_store(&thread->bodies_rank, 0);
        return;
    }
    if (worst_close(thread, all - most, (struct growth){0}) == OTHERS)
        others_check_request(thread);
}
