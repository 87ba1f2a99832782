// SPDX-License-Identifier: Apache-2.0
// Private to http/*.c that use h2o: the server and its h2o threads. Nothing in http/api may include
// this. Only the thread itself touches the fields of its http_thread, except for the atomics.
#pragma once

#include "http/auth.h"
#include "http/cors.h"
#include "http/counters.h"
#include "http/exchange.h"
#include "http/wait_queue.h"
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
};

struct exchange;

// Classes of waiting jobs: those of work.h, and jobs of which one at a time runs (offload.serial).
enum { WAITING_SERIAL = WORK_CLASSES, WAITING_CLASSES };

// One TCP connection. The on_close callback of its socket points to it.
struct connection {
    struct http_thread *thread;
    SSL_CTX *ssl; // counted reference: libh2o uses it for the handshake after the accept
    h2o_socket_t *socket;
    struct connection *next, **link; // list thread->readable; link NULL: not in it
    uint64_t quiet_from_ns;          // when it was accepted, or last answered a request
    uint64_t resets_from_ns;         // start of the window in which resets are counted
    uint32_t resets;                 // HTTP/2 streams cut within that window
    uint64_t held;                   // bytes of its request bodies when last counted
    bool has_key;                    // true if one of its requests contains a valid key
    uint32_t checked_with;           // generation of the key set used for `has_key`; 0: unchecked
    // highest stream id whose head was checked for a key: before the current scan of the
    // connection, and including it; HTTP/1: 1
    uint32_t checked_to, checked_next;
    bool refused;        // true if its buffer may not grow: closed after this loop iteration
    bool busy;           // true if it had a request at the last scan
    bool cut;            // true once it is closed because of the body budget
    bool early;          // true if h2o has the head of the current HTTP/1 request without its body
    int linger_fd;       // duplicate of its descriptor, for linger.c; -1: none
    uint32_t keyed_with; // generation of the key set that accepted one of its requests; 0: none
};

enum { CONTROL_RUN, CONTROL_DRAIN, CONTROL_CUT, CONTROL_ABORT, CONTROL_QUIT };

// Progress of a draining thread. IDLE_CLIENTS: only cancelled engine requests are left.
enum { IDLE_NOT, IDLE_CLIENTS, IDLE_ALL };

struct http_thread {
    struct server *server;
    uint32_t index;
    pthread_t thread;
    h2o_context_t ctx;
    h2o_accept_ctx_t accept_ctx;
    int listen_fd, watch_fd;
    h2o_socket_t *listener, *control_socket, *waker_socket, *watch_socket;
    h2o_timeout_entry_t second; // timer entry in ctx.one_sec_timeout
    uint64_t scanned_ns;        // time of the last watch_second
    struct waker *control;      // wakes the thread for the server and the text workers
    struct waker *waker;        // wakes the thread for the engines
    struct work_side *work;
    struct wait_queue waiting[WAITING_CLASSES]; // jobs waiting for a worker, by class
    struct wait_rounds compile_rounds;          // ranks of the jobs for the grammar thread
    struct exchange *compiling;                 // this thread's job at the grammar thread, or NULL
    uint32_t compile_duplicates; // number of duplicates waiting for another job's grammar
    uint32_t compile_key_duplicates[WAIT_KEYS]; // number of those duplicates per API key
    struct wait_queue compiled;      // compiled groups whose duplicates must be completed
    bool serial_running;             // true while a serial job is at a worker
    struct exchange *exchanges;      // all exchanges that h2o has not disposed of
    _Atomic uint32_t exchange_count; // written by this thread only
    // list of connections that h2o reads from: all but HTTP/1 ones with an exchange
    struct connection *readable;
    struct early_stream *early;    // HTTP/2 streams to be answered in this iteration (early.c)
    h2o_timeout_entry_t early_run; // linked while there are such streams
    struct linger_one *lingering;  // connections that wait for their client to close
    h2o_timeout_t linger_timeout, early_timeout;
    uint32_t connection_count;    // written by this thread only; without lingering ones
    _Atomic bool listener_paused; // true while it does not accept because no connection is free
    uint64_t bodies_engaged;      // bytes of bodies on HTTP/1 connections with an exchange
    uint64_t bodies_next_ns;      // earliest time of the next count of all bodies
    uint64_t bodies_log_ns;       // earliest time of the next log line about closed connections
    uint32_t bodies_closed;       // connections closed since the last log line
    bool bodies_refused;          // true if a connection of this thread has `refused` set
    _Atomic uint64_t bodies_rank; // rank of the connection to close next; 0: unknown
    // true if a thread found the budget exceeded and this one must check now
    _Atomic bool bodies_check_requested;
    uint64_t drain_ns;              // start of the drain; 0: not draining
    int64_t drain_unix_ms;          // start of the drain, Unix time in milliseconds
    _Atomic uint32_t aborted_count; // accepted requests cut at the drain's deadline
    _Atomic int control_state;      // CONTROL_*, written by the server
    _Atomic int idle;               // IDLE_*
    _Atomic bool started;           // true once its loop and all its descriptors exist
    _Atomic uint64_t beat_ns;       // start of the last loop iteration, CLOCK_MONOTONIC
    // loop iterations begun. A pointer from server->access is not used past the iteration that read
    // it.
    _Atomic uint64_t iterations;
    _Atomic bool managed; // true if a job of exchange_manage is done (seq_cst, like the waker)
    struct thread_counters counters;
};

// API keys and certificate. A reload replaces the whole struct (reload.c); each callback reads the
// pointer again.
struct access {
    struct keys *keys;
    SSL_CTX *ssl;        // NULL: no TLS
    uint32_t generation; // counts reloads, from 1
};

struct server {
    h2o_globalconf_t conf;
    struct server_options options;
    struct route_list routes;
    struct cors cors;
    _Atomic(struct access *) access;
    struct work_pool *work;
    _Atomic uint32_t connections; // open connections of all threads, lingering ones included
    // most open connections: connections_max, or fewer if the limit of open files is lower; atomic
    // because server_serve sets it while the threads accept
    _Atomic uint32_t connections_most;
    uint32_t descriptors_own;   // descriptors of the process, without connections
    uint32_t drain_connections; // connections that a drain may accept above connections_most
    _Atomic uint64_t short_ns;  // last time that a connection found no free descriptor; 0: never
    uint32_t port;
    uint32_t thread_count, started; // number of threads; number of those that run
    _Atomic bool leaving;           // true after server_leave; relaxed: orders no other data
    bool drained;
    uint64_t returned_ended, return_next_ns; // see server_memory_return
    struct http_thread *threads;             // [thread_count]
    int64_t started_unix;
    _Atomic(const struct served *) served; // NULL until server_serve
    // [slot * thread_count + thread]; NULL: no engine has the slot. acquire and release: a thread
    // that reads a port sees all that the owner of the engine wrote before it stored the port.
    _Atomic(struct port *) *ports;
    uint32_t slot_count;
};

// server.c: true if the options enable HTTP/2 on this host.
bool server_http2_is_on(const struct server_options *options);

// watch.c
enum status watch_open(struct http_thread *thread, struct error *err) MUST_USE;
void watch_start(struct http_thread *thread); // call on the h2o thread
void watch_add(struct exchange *x);           // notices when an HTTP/1 client leaves
void watch_remove(struct exchange *x);
void watch_second(struct http_thread *thread, uint64_t now); // each second: timeouts, on_second

// loop.c: loop_main is the main function of an h2o thread. loop_listen, called before the thread
// starts, binds its listening socket. loop_accept is the callback of the listener.
enum status loop_listen(struct http_thread *thread, struct error *err) MUST_USE;
void *loop_main(void *thread);
struct http_thread *loop_of(h2o_req_t *req); // returns the thread of a request
void loop_accept(h2o_socket_t *listener, const char *err);
// Accepts the connections that wait in the kernel, which would be reset when the listener closes.
void loop_accept_rest(struct http_thread *thread);
void loop_listener_close(struct http_thread *thread);
void loop_retry(struct http_thread *thread);          // accepts again if the listener is paused
void connection_count_release(struct server *server); // a connection, or a lingering one, is closed
bool loop_is_full(const struct server *server);       // true if new connections wait for a free one
int request_fd(h2o_req_t *req);
struct connection *request_connection(h2o_req_t *req);
// Record that an exchange begins, and ends, on the connection. Between the two, h2o reads no
// further HTTP/1 request from it.
void connection_engage(h2o_req_t *req);
void connection_release(h2o_req_t *req);

// drain.c: shutdown, on the h2o thread. drain_begin closes the listener; drain_check, called after
// each loop iteration from then on, closes idle connections and updates thread->idle; at the
// deadline drain_cut fails the requests without a complete answer; drain_abort closes what is then
// still open. drain_refuses returns true for a request that began too late.
void drain_begin(struct http_thread *thread);
void drain_check(struct http_thread *thread);
void drain_cut(struct http_thread *thread);
void drain_abort(struct http_thread *thread);
bool drain_refuses(const struct http_thread *thread, const h2o_req_t *req);

// bodies.c
void bodies_begin(struct http_thread *thread); // call on the h2o thread, before its first iteration
// After each loop iteration: while the bodies of all threads exceed body_memory_max, closes this
// thread's connections that hold most bytes; if others hold more, lets their threads close them.
void bodies_check(struct http_thread *thread);
uint64_t bodies_input(const struct connection *connection); // capacity of the socket's input buffer

// reload.c
const struct access *access_of(struct server *server); // valid until the callback returns

// tls.c: creates the TLS context; *out is NULL without certificate and key.
enum status tls_open(SSL_CTX **out, const struct server_options *options, bool http2,
                     struct error *err) MUST_USE;
