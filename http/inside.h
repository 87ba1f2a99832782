// Private to http/*.c that know h2o: the server, its h2o threads and the exchange. Nothing in
// http/api may include this.
//
// An exchange's life (all on its h2o thread):
//
//   exchange_create -> on_request -> [open] -> settled (fail, reply, end) -> FINAL sent -> dispose
//                          |            \-> left (client gone) ----------------------------^
//                          \-> offloaded -> done
//
// The h2o request holds a struct answer in its pool, whose dispose hook is the only sure end. The
// exchange is destroyed when the answer is gone and no text worker has it.
#pragma once

#include "http/auth.h"
#include "http/counters.h"
#include "http/exchange.h"
#include "http/route.h"
#include "http/server.h"
#include "http/wake.h"
#include "http/work.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"
#include "scheduler/port.h"

#include <h2o.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
    SEND_BYTES = 4096,          // a stream's send buffer: what a client may lag behind in h2o
    SEND_PIECE_BYTES = 64 * 1024, // of a long body, so that each piece shows progress
    HEADERS_MAX = 8,
    WATCH_EVENTS = 64,
    SOCKET_SEND_BYTES = 64 * 1024,
    DRAIN_GRACE_MS = 1000,      // requests that begin this soon after the signal are still served
    BEAT_MS = 1000,
};

// One TCP connection, found again through its socket's on_close.
struct connection {
    struct http_thread *thread;
    uint64_t resets_from_ns; // begin of the window that counts
    uint32_t resets;         // HTTP/2 streams that were cut
};

enum { CONTROL_RUN, CONTROL_DRAIN, CONTROL_ABORT, CONTROL_QUIT };

// What a draining thread still has.
enum { IDLE_NOT, IDLE_CLIENTS, IDLE_ALL }; // CLIENTS: only cancelled engine requests are left

struct http_thread {
    struct server *server;
    uint32_t index;
    pthread_t thread;
    h2o_context_t ctx;
    h2o_accept_ctx_t accept_ctx;
    int listen_fd, watch_fd;
    h2o_socket_t *listener, *control_socket, *waker_socket, *watch_socket;
    h2o_timeout_entry_t second;   // on ctx.one_sec_timeout
    struct wake *control;         // server -> thread, text worker -> thread
    struct waker *waker;          // engines -> thread
    struct work_side *work;
    struct exchange *backlog, **backlog_end; // offloads that found every ring full
    struct exchange *exchanges;   // all whose answer lives
    uint32_t exchange_count;
    uint32_t orphan_count;        // engine requests whose exchange is gone
    uint32_t connection_count, connections_max;
    bool listener_paused;
    uint64_t drain_ns;            // 0: not draining
    int64_t drain_unix_ms;
    _Atomic uint32_t aborted_count; // accepted requests that the deadline cut
    _Atomic int control_state;    // CONTROL_*, written by the server
    _Atomic int idle;             // IDLE_*
    _Atomic uint64_t beat_ns;
    unsigned char random[256];    // for request ids
    uint32_t random_left;
    struct thread_counters counters;
};

struct server {
    h2o_globalconf_t conf;
    struct server_options options;
    struct route_list routes;
    struct keys *keys;
    SSL_CTX *ssl;
    struct work_pool *work;
    uint32_t port;
    uint32_t thread_count;
    uint32_t started;             // threads that run
    bool drained;
    struct http_thread *threads;  // [thread_count]
    int64_t started_unix;
    _Atomic(const struct served *) served; // stored last by server_serve
    struct port **ports;          // [model * thread_count + thread]
};

// The h2o side of an exchange, in the request's pool.
struct answer {
    h2o_generator_t generator;
    h2o_req_t *req;
    struct exchange *x;
};

struct response_header {
    const char *name; // literal, lower case
    struct text value;
};

struct exchange {
    struct exchange_info info;
    struct http_thread *thread;
    struct answer *answer; // NULL once h2o has disposed of the request
    const struct route *route;
    uint32_t route_index;
    struct exchange *next, **link; // thread->exchanges
    struct exchange *backlog_next;
    struct arena *arena;
    void *state;

    struct port *port; // attached engine request
    struct request *request;
    const struct served_model *model;
    uint32_t tokens_max; // of any choice
    uint64_t token_ns;   // when the last tokens were read
    uint64_t tokens_out;

    int status;
    const char *content_type;
    uint64_t content_length;
    uint32_t header_count;
    struct response_header headers[HEADERS_MAX];
    struct json_buffer filling; // written, not yet handed to h2o
    struct json_buffer sending; // what h2o reads now
    size_t sending_at;          // of a long body: where the next piece begins
    uint64_t sent_ns;           // when h2o took the piece in flight

    void (*work)(struct exchange *x);
    void (*done)(struct exchange *x);

    _Atomic bool gone; // also read by the text worker
    bool begun;        // status and headers are decided
    bool stream;       // SSE
    bool started;      // h2o_start_response was called
    bool inflight;     // h2o has bytes
    bool ended;        // the handler is finished with it
    bool finished;     // FINAL or ERROR was handed to h2o
    bool offloaded;
    bool told;         // on_gone was called
    bool watched;
    bool close;        // the connection closes behind this answer
    bool cut;          // by the scan or by the end of a drain
};

uint64_t now_ns(void);

// exchange.c
struct exchange *exchange_create(struct http_thread *thread, h2o_req_t *req,
                                 const struct route_match *match);
void exchange_run(struct exchange *x, void (*callback)(struct exchange *x)); // and settle
void exchange_settle(struct exchange *x);
void exchange_left(struct exchange *x);    // the client is gone; tells the handler
void exchange_abort(struct exchange *x);   // left, and the h2o side is ended
void exchange_work_take(struct http_thread *thread); // what the text workers gave back
void exchange_work_run(struct exchange *x);          // on a text worker

// engine_side.c
void engine_side_orphan(struct exchange *x);
void engine_side_drain(struct http_thread *thread);

// respond.c
void respond_headers(struct exchange *x);
void request_id_make(struct http_thread *thread, struct text wanted, char *out);
enum { REQUEST_ID_MAX = 128 };

// handle.c
int handle_request(h2o_handler_t *self, h2o_req_t *req);

// fallback.c: h2o's own errors in our shapes
void fallback_setup(h2o_filter_t *self, h2o_req_t *req, h2o_ostream_t **slot);

// accesslog.c
void access_log(h2o_logger_t *self, h2o_req_t *req);

// watch.c
enum status watch_open(struct http_thread *thread, struct error *err) MUST_USE;
void watch_start(struct http_thread *thread); // in the h2o thread
void watch_add(struct exchange *x);
void watch_remove(struct exchange *x);
void watch_second(struct http_thread *thread, uint64_t now);

// loop.c
enum status loop_listen(struct http_thread *thread, struct error *err) MUST_USE;
void *loop_main(void *thread);
struct http_thread *loop_of(h2o_req_t *req);
void loop_accept(h2o_socket_t *listener, const char *err);
void loop_accept_rest(struct http_thread *thread);
void loop_listener_close(struct http_thread *thread);
int request_fd(h2o_req_t *req);
struct connection *request_connection(h2o_req_t *req);

// drain.c
void drain_begin(struct http_thread *thread);
void drain_check(struct http_thread *thread);
void drain_abort(struct http_thread *thread);
bool drain_refuses(const struct http_thread *thread, const h2o_req_t *req);

// tls.c
enum status tls_open(SSL_CTX **out, const struct server_options *options, bool http2,
                     struct error *err) MUST_USE;

// counters.c
void counters_answered(struct exchange *x);
void counters_refused(struct exchange *x);
void counters_request_done(struct exchange *x);
