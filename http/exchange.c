// SPDX-License-Identifier: Apache-2.0
// One request's life on its h2o thread: what handlers may do to it (exchange.h), when its bytes are
// handed to h2o, and how it ends. Handlers only record; exchange_settle acts after the callback has
// returned, so that no handler runs inside h2o_send. The exchange is allocated in its own arena,
// which is destroyed with it. Engine requests: exchange_request.c; headers: respond.c; text
// workers: offload.c.
#include "http/internal.h"

#include <string.h>
#include <sys/socket.h>

enum { ARENA_BLOCK_BYTES = 4096 };

const struct exchange_info *exchange_info(const struct exchange *x)
{
    return &x->info;
}

struct arena *exchange_arena(struct exchange *x)
{
    return x->arena;
}

struct arena *exchange_scratch(struct exchange *x)
{
    if (!x->scratch)
        x->scratch = arena_create(0, scratch_bytes_max(x->info.body.bytes));
    return x->scratch;
}

void exchange_scratch_end(struct exchange *x)
{
    arena_destroy(x->scratch);
    x->scratch = NULL;
}

void exchange_state_set(struct exchange *x, void *state)
{
    x->state = state;
}

void *exchange_state(const struct exchange *x)
{
    return x->state;
}

void exchange_model_named(struct exchange *x, struct text id)
{
    x->model_named = arena_copy(x->arena, id);
}

bool exchange_gone(const struct exchange *x)
{
    return atomic_load_explicit(&x->gone, memory_order_relaxed);
}

int exchange_status(const struct exchange *x)
{
    return x->reply != REPLY_NONE && x->client != CLIENT_GONE ? x->response.status : 499;
}

bool exchange_is_stream(const struct exchange *x)
{
    return x->reply != REPLY_NONE && x->response.content_length == UINT64_MAX;
}

bool exchange_answered(const struct exchange *x)
{
    return x->reply != REPLY_NONE;
}

void exchange_header(struct exchange *x, const char *name, struct text value)
{
    check(x->reply == REPLY_NONE, "header %s after the answer", name);
    check(x->response.header_count < HEADERS_MAX, "over %d headers", HEADERS_MAX);
    struct text copy = arena_copy(x->arena, value);
    if (copy.at)
        x->response.headers[x->response.header_count++] = (struct response_header){name, copy};
}

static void answer_begin(struct exchange *x, int status, const char *content_type, uint64_t bytes)
{
    check(x->reply == REPLY_NONE, "a second answer, status %d after %d", status,
          x->response.status);
    x->reply = REPLY_BEGUN;
    x->response.status = status;
    x->response.content_type = content_type;
    x->response.content_length = bytes;
}

void exchange_reply_type(struct exchange *x, int status, const char *content_type, struct text body)
{
    answer_begin(x, status, content_type, body.bytes);
    json_put_raw(&x->send.filling, body);
    x->reply = REPLY_ENDED;
}

void exchange_reply_bare(struct exchange *x, int status, const char *content_type, uint64_t bytes)
{
    x->info.head = true;
    answer_begin(x, status, content_type, bytes);
    x->reply = REPLY_ENDED;
}

void exchange_cache(struct exchange *x, const char *control)
{
    x->response.cache_control = control;
}

void exchange_reply(struct exchange *x, int status, struct text json)
{
    exchange_reply_type(x, status, "application/json", json);
}

void exchange_reply_begin(struct exchange *x, int status, uint64_t content_length)
{
    answer_begin(x, status, "application/json", content_length);
}

void exchange_stream_begin(struct exchange *x)
{
    answer_begin(x, 200, "text/event-stream; charset=utf-8", UINT64_MAX);
}

size_t exchange_send_space(const struct exchange *x)
{
    size_t limit = exchange_is_stream(x) || x->reply == REPLY_NONE ? SEND_BYTES : SEND_PIECE_BYTES;
    if (x->wire >= WIRE_SENDING || x->reply == REPLY_ENDED || exchange_gone(x) ||
        x->send.filling.bytes >= limit)
        return 0;
    return limit - x->send.filling.bytes;
}

void exchange_write(struct exchange *x, struct text bytes)
{
    check(x->reply == REPLY_BEGUN, "write outside of an answer (status %d)", x->response.status);
    if (!exchange_gone(x))
        json_put_raw(&x->send.filling, bytes);
}

void exchange_stream_failed(struct exchange *x, enum http_error error)
{
    check(x->reply == REPLY_BEGUN, "a failed stream that has not begun (status %d)",
          x->response.status);
    x->response.code = http_error_code(error);
}

void exchange_end(struct exchange *x)
{
    check(x->reply == REPLY_BEGUN, "end outside of an answer (status %d)", x->response.status);
    x->reply = REPLY_ENDED;
}

// Hands h2o the next piece, or the end. h2o accepts one piece at a time and calls proceed when the
// kernel has it. h2o_send may free x, so x is not used after it.
static void exchange_pump(struct exchange *x)
{
    if (x->wire >= WIRE_SENDING)
        return;
    if (x->send.sending_at == x->send.sending.bytes) {
        struct json_buffer empty = x->send.sending;
        empty.bytes = 0;
        x->send.sending = x->send.filling;
        x->send.filling = empty;
        x->send.sending_at = 0;
    }
    size_t left = x->info.head ? 0 : x->send.sending.bytes - x->send.sending_at;
    size_t bytes = left < SEND_PIECE_BYTES ? left : SEND_PIECE_BYTES;
    bool last =
        x->reply == REPLY_ENDED && (x->info.head || (bytes == left && x->send.filling.bytes == 0));
    if (bytes == 0 && !last) // h2o_send without bytes would spin
        return;
    h2o_iovec_t piece = h2o_iovec_init(x->send.sending.at + x->send.sending_at, bytes);
    x->send.sending_at += bytes;
    x->wire = last ? WIRE_LAST : WIRE_SENDING;
    x->send.sent_ns = clock_ns();
    h2o_send(x->answer->req, &piece, bytes > 0,
             last ? H2O_SEND_STATE_FINAL : H2O_SEND_STATE_IN_PROGRESS);
}

void exchange_settle(struct exchange *x)
{
    if (exchange_is_lent(x))
        return;
    if (x->reply == REPLY_ENDED && x->engine.request)
        exchange_request_orphan(x);
    if (x->client == CLIENT_GONE || !x->answer || x->reply == REPLY_NONE || x->wire == WIRE_LAST)
        return;
    bool has_bytes = x->send.filling.bytes > 0 || x->send.sending_at < x->send.sending.bytes;
    if (x->wire == WIRE_NONE && !has_bytes && x->reply != REPLY_ENDED)
        return;
    if (x->wire == WIRE_NONE) {
        x->wire = WIRE_OPEN;
        respond_headers(x);
        h2o_start_response(x->answer->req, &x->answer->generator);
    }
    exchange_pump(x);
}

// Runs on_request. on_prepare has run, on this thread or on a text worker.
static void request_run(struct exchange *x)
{
    if (!exchange_gone(x))
        x->route->on_request(x);
    if (x->job.state == JOB_NONE)
        exchange_scratch_end(x);
}

void exchange_begin(struct exchange *x)
{
    const struct route *route = x->route;
    if (route->on_prepare && x->info.body.bytes > route->inline_bytes_max) {
        exchange_offload(x, (struct offload){.work = route->on_prepare,
                                             .done = request_run,
                                             .reads_body = true,
                                             .bytes = x->info.body.bytes});
        return;
    }
    if (route->on_prepare)
        route->on_prepare(x);
    request_run(x);
}

void exchange_run(struct exchange *x, void (*callback)(struct exchange *x))
{
    if (callback && x->reply != REPLY_ENDED)
        callback(x);
    exchange_settle(x);
}

static void on_proceed(h2o_generator_t *generator, h2o_req_t *req)
{
    struct exchange *x = ((struct answer *)generator)->x;
    x->wire = WIRE_OPEN;
    if (x->client == CLIENT_GONE) { // the client left while an HTTP/2 stream was stalled
        x->wire = WIRE_LAST;
        h2o_send(req, NULL, 0, H2O_SEND_STATE_ERROR);
        return;
    }
    bool sent_all = x->send.sending_at == x->send.sending.bytes;
    if (!sent_all || x->send.filling.bytes > 0 || x->reply == REPLY_ENDED) {
        exchange_pump(x);
        return;
    }
    struct json_buffer used = x->send.sending; // swap, so that the larger buffer is filled again
    used.bytes = 0;
    x->send.sending = x->send.filling;
    x->send.filling = used;
    x->send.sending_at = 0;
    exchange_run(x, x->route->on_send_space);
}

static void on_stop(h2o_generator_t *generator, h2o_req_t *req)
{
    (void)req;
    struct exchange *x = ((struct answer *)generator)->x;
    x->wire = WIRE_LAST; // h2o accepts nothing more
    exchange_client_gone(x);
}

void exchange_destroy(struct exchange *x)
{
    check(!x->engine.request, "an exchange goes with request %p", (void *)x->engine.request);
    counters_request_finished(x);
    json_buffer_free(&x->send.filling);
    json_buffer_free(&x->send.sending);
    exchange_scratch_end(x);
    exchange_served_unref(x);
    arena_destroy(x->arena); // also frees x
}

// Counts an HTTP/2 stream that was cut. A client may open and reset thousands of streams per second
// (Rapid Reset); too many within the window close the connection.
static void cut_count(struct exchange *x, h2o_req_t *req)
{
    struct connection *connection = request_connection(req);
    bool cut = x->client == CLIENT_GONE || x->wire != WIRE_LAST;
    if (req->version < 0x200 || !cut)
        return;
    struct http_thread *thread = x->thread;
    uint64_t now = clock_ns();
    if (now - connection->resets_from_ns > thread->server->options.resets_window_ms * 1000000) {
        connection->resets_from_ns = now;
        connection->resets = 0;
    }
    if (++connection->resets != thread->server->options.resets_max)
        return;
    atomic_fetch_add_explicit(&thread->counters.resets_over, 1, memory_order_relaxed);
    log_line(LOG_WARNING,
             "an HTTP/2 client reset %u streams before their end: its connection is closed",
             connection->resets);
    shutdown(request_fd(req), SHUT_RDWR);
}

static void on_dispose(void *memory)
{
    struct answer *answer = memory;
    struct exchange *x = answer->x;
    counters_answered(x);
    watch_remove(x);
    cut_count(x, answer->req);
    connection_release(answer->req);
    x->answer = NULL;
    if (x->wire != WIRE_LAST)
        exchange_client_gone(x);
    access_log(x, answer->req);
    *x->link = x->next;
    if (x->next)
        x->next->link = x->link;
    x->thread->exchange_count--;
    if (x->job.state == JOB_NONE)
        exchange_destroy(x);
}

// Returns the time from the start of the request until it was complete. libh2o records wall-clock
// stamps, so only their difference is used.
static uint64_t upload_ns(const h2o_req_t *req)
{
    int64_t us = h2o_timeval_subtract((struct timeval *)&req->timestamps.request_begin_at,
                                      (struct timeval *)&req->processed_at.at);
    return us > 0 && req->timestamps.request_begin_at.tv_sec > 0 ? (uint64_t)us * 1000 : 0;
}

struct exchange *exchange_create(struct http_thread *thread, h2o_req_t *req,
                                 const struct route_match *match)
{
    struct server *server = thread->server;
    struct arena *arena =
        arena_create(ARENA_BLOCK_BYTES, (64u << 20) + 16 * server->options.body_bytes_max);
    struct exchange *x = arena_alloc_zeroed(arena, 1, sizeof *x);
    struct answer *answer = h2o_mem_alloc_shared(&req->pool, sizeof *answer, on_dispose);
    *answer =
        (struct answer){.generator = {.proceed = on_proceed, .stop = on_stop}, .req = req, .x = x};
    x->thread = thread;
    x->answer = answer;
    x->arena = arena;
    x->route = match->route;
    x->route_index = match->index < server->routes.count ? match->index : ROUTES_MAX;
    x->info.shape = match->shape;
    x->info.head = match->head || h2o_memis(req->method.base, req->method.len, H2O_STRLIT("HEAD"));
    x->info.path_rest =
        match->path_rest.bytes > 0 ? arena_copy(arena, match->path_rest) : (struct text){"", 0};
    const char *query = memchr(req->path.base, '?', req->path.len);
    if (query)
        x->info.query = arena_copy(
            arena, text_span(query + 1, req->path.len - (size_t)(query + 1 - req->path.base)));
    x->info.body = text_span(req->entity.base, req->entity.len);
    x->info.started_ns = clock_ns();
    uint64_t upload = upload_ns(req);
    x->arrived_ns = upload < x->info.started_ns ? x->info.started_ns - upload : 1;
    x->info.key_id = KEY_NONE;
    x->info.draining = thread->drain_ns != 0;
    exchange_served_ref(x, atomic_load_explicit(&server->served, memory_order_acquire));
    x->response.close = x->info.draining;
    x->next = thread->exchanges;
    x->link = &thread->exchanges;
    if (x->next)
        x->next->link = &x->next;
    thread->exchanges = x;
    thread->exchange_count++;
    connection_engage(req);
    return x;
}

void exchange_forget(struct exchange *x)
{
    if (x->engine.request)
        exchange_request_orphan(x);
    if (x->reply != REPLY_ENDED && x->route && x->route->on_gone)
        x->route->on_gone(x);
}

// Ends the handler's part, unless it has ended before. client: CLIENT_CUT or CLIENT_GONE.
static void exchange_drop(struct exchange *x, enum client_state client)
{
    x->client = client;
    if (exchange_gone(x))
        return;
    atomic_store_explicit(&x->gone, true, memory_order_relaxed);
    offload_drop(x);
    if (x->job.state == JOB_NONE) // else when the worker has returned it
        exchange_forget(x);
}

// The client has disconnected, or is treated as if it had. h2o keeps the request until it disposes
// of it.
void exchange_client_gone(struct exchange *x)
{
    if (x->client == CLIENT_GONE)
        return;
    if (x->reply != REPLY_ENDED)
        atomic_fetch_add_explicit(&x->thread->counters.clients_gone, 1, memory_order_relaxed);
    exchange_drop(x, CLIENT_GONE);
}

void exchange_cut(struct exchange *x, const struct http_failure *failure)
{
    if (x->reply == REPLY_ENDED || exchange_gone(x) ||
        (x->reply == REPLY_BEGUN && !exchange_is_stream(x)))
        return;
    x->cut_with = failure;
    if (x->reply == REPLY_BEGUN && x->route->on_cut) {
        x->route->on_cut(x, failure);
        x->route->on_ready(x);
    }
    exchange_drop(x, CLIENT_CUT);
    if (x->job.state == JOB_NONE)
        exchange_cut_end(x);
}

void exchange_cut_end(struct exchange *x)
{
    if (!x->cut_with || x->client == CLIENT_GONE || x->reply == REPLY_ENDED)
        return;
    if (x->reply == REPLY_BEGUN)
        exchange_end(x);
    else
        exchange_fail(x, x->cut_with);
    exchange_settle(x);
}

// Ends the h2o side. On HTTP/1.1 shutdown makes a pending write fail immediately and h2o releases
// the request; on HTTP/2 the socket carries other streams, so a stalled stream is reset when h2o
// next sends from it.
void exchange_abort(struct exchange *x)
{
    // else h2o has the complete answer, and the client may have received it
    if (x->wire != WIRE_LAST)
        exchange_client_gone(x);
    struct answer *answer = x->answer;
    if (!answer)
        return;
    h2o_req_t *req = answer->req;
    if (req->version < 0x200)
        shutdown(request_fd(req), SHUT_RDWR);
    if (x->wire >= WIRE_SENDING)
        return;
    bool started = x->wire == WIRE_OPEN;
    x->wire = WIRE_LAST;
    if (!started) {
        req->res.status = 499;
        req->res.reason = "Client Closed Request";
        req->res.content_length = 0;
        req->http1_is_persistent = 0;
        h2o_start_response(req, &answer->generator);
    }
    h2o_send(req, NULL, 0, H2O_SEND_STATE_ERROR);
}
