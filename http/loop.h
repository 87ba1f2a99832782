// Private to http/*.c that know h2o: the server and its h2o threads. Nothing in http/api may
// include this. A thread's fields are touched by that thread alone, but for the atomics.
#pragma once

#include "http/auth.h"
#include "http/cors.h"
#include "http/counters.h"
#include "http/exchange.h"
#include "http/route.h"
#include "http/server.h"
#include "http/work.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/waker.h"
#include "scheduler/port.h"

#include <h2o.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
    WATCH_EVENTS = 64,
    SOCKET_SEND_BYTES = 64 * 1024,
    COMPILE_KEYS = 64, // keys whose numbers differ by a multiple share turns and counts
};

struct compile_group; // offload.c
struct exchange;

struct exchange_list {
    struct exchange *first, **end; // end: where the next one is put
};

// One TCP connection, found again through its socket's on_close.
struct connection {
    struct http_thread *thread;
    SSL_CTX *ssl; // held: libh2o begins a handshake with it after the accept
    h2o_socket_t *socket;
    struct connection *next, **link; // thread->readable; link NULL: not in it
    uint64_t quiet_from_ns;          // accepted, or last answered
    uint64_t resets_from_ns;         // begin of the window that counts
    uint32_t resets;                 // HTTP/2 streams that were cut
    uint64_t held;                   // bytes of its bodies, as last counted
    bool keyed;                      // a valid key came with them
    uint32_t judged_with;            // generation of the keys that said so; 0: not judged
    uint32_t judged_to, judged_next; // heads of streams up to this were judged; 1: that of HTTP/1
    bool refused; // its buffer may not grow: closed after this iteration of the loop
    bool busy;    // has a request, by the last scan
    bool cut;     // by the body budget
};

enum { CONTROL_RUN, CONTROL_DRAIN, CONTROL_CUT, CONTROL_ABORT, CONTROL_QUIT };

// What a draining thread still has to finish.
enum { IDLE_NOT, IDLE_CLIENTS, IDLE_ALL }; // IDLE_CLIENTS: only cancelled engine requests are left

struct http_thread {
    struct server *server;
    uint32_t index;
    pthread_t thread;
    h2o_context_t ctx;
    h2o_accept_ctx_t accept_ctx;
    int listen_fd, watch_fd;
    h2o_socket_t *listener, *control_socket, *waker_socket, *watch_socket;
    h2o_timeout_entry_t second; // on ctx.one_sec_timeout
    uint64_t scanned_ns;        // by watch_second
    struct waker *control;      // server -> thread, text worker -> thread
    struct waker *waker;        // engines -> thread
    struct work_side *work;
    struct exchange_list waiting[WORK_SIZES_MAX]; // for a text worker, by size
    struct exchange_list waiting_alone;           // the same, of which one runs at a time
    struct exchange_list waiting_answers;         // large ones
    struct exchange_list waiting_compile;         // for the grammar thread, sorted by turn
    struct exchange *compiling;                   // what that has of this thread, or NULL
    uint64_t compile_turn;                        // of the last one that it was given
    uint64_t compile_turns[COMPILE_KEYS];         // the same, by API key
    uint32_t compile_repeats;                     // that wait with another one
    uint32_t compile_key_repeats[COMPILE_KEYS];   // the same, by API key
    struct compile_group *compiled;               // whose repeats are to be ended
    struct compile_group **compiled_end;
    bool alone_out;                  // one is running
    struct exchange *exchanges;      // all that h2o still has
    _Atomic uint32_t exchange_count; // written by this thread alone
    struct connection *readable;  // all but those with an exchange on HTTP/1: h2o reads from them
    uint32_t connection_count;    // written by this thread alone
    _Atomic bool listener_paused; // no connection was free
    uint64_t bodies_engaged;      // bytes of bodies on HTTP/1 that are being answered
    uint64_t bodies_next_ns;      // when bodies are counted again
    uint64_t bodies_log_ns;       // no log line before then
    uint32_t bodies_closed;       // connections, not logged yet
    bool bodies_refused;          // a connection of this thread is refused
    _Atomic uint64_t bodies_rank; // of the next one to close; 0: not known
    _Atomic bool bodies_asked;    // to look, by a thread that found the budget exceeded
    uint64_t drain_ns;            // 0: not draining
    int64_t drain_unix_ms;
    _Atomic uint32_t aborted_count; // accepted requests that the deadline cut
    _Atomic int control_state;      // CONTROL_*, written by the server
    _Atomic int idle;               // IDLE_*
    _Atomic uint64_t beat_ns;
    _Atomic uint64_t iterations; // begun; nothing of server->access is used across two turns
    struct thread_counters counters;
};

// Keys and certificate, replaced as a whole by a reload (reload.c) and looked up again in each
// callback.
struct access {
    struct keys *keys;
    SSL_CTX *ssl;        // NULL: no TLS
    uint32_t generation; // from 1
};

struct server {
    h2o_globalconf_t conf;
    struct server_options options;
    struct route_list routes;
    struct cors cors;
    _Atomic(struct access *) access;
    struct work_pool *work;
    _Atomic uint32_t connections; // of all threads
    uint32_t drain_connections;   // so many more are accepted when it drains
    uint32_t port;
    uint32_t thread_count;
    uint32_t started; // threads that run
    bool drained;
    struct http_thread *threads; // [thread_count]
    int64_t started_unix;
    _Atomic(const struct served *) served; // stored last by server_serve
    struct port **ports;                   // [copy * thread_count + thread]
};

// server.c
bool server_http2_is_on(const struct server_options *options);

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
bool loop_is_full(const struct server *server); // newcomers wait for a connection
int request_fd(h2o_req_t *req);
struct connection *request_connection(h2o_req_t *req);
// An exchange begins and ends on the connection.
void connection_engage(h2o_req_t *req);
void connection_release(h2o_req_t *req);

// drain.c
void drain_begin(struct http_thread *thread);
void drain_check(struct http_thread *thread);
void drain_cut(struct http_thread *thread);
void drain_abort(struct http_thread *thread);
bool drain_refuses(const struct http_thread *thread, const h2o_req_t *req);

// bodies.c
void bodies_begin(struct http_thread *thread); // on the thread
void bodies_check(struct http_thread *thread);
uint64_t bodies_input(const struct connection *connection); // bytes of the socket's input buffer

// reload.c
const struct access *access_of(struct server *server); // until the callback returns

// tls.c
enum status tls_open(SSL_CTX **out, const struct server_options *options, bool http2,
                     struct error *err) MUST_USE;
