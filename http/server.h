// SPDX-License-Identifier: Apache-2.0
// The HTTP server: N event loops with SO_REUSEPORT over libh2o 2.2.5. Only this module uses h2o;
// endpoints see exchanges.
#pragma once

#include "http/served.h"

struct manage_job; // manage.h

// Strings that are not copied must stay valid until server_close.
struct server_options {
    const char *host; // address to bind; NULL: 127.0.0.1
    uint32_t port;    // 0: the kernel chooses (tests)
    uint32_t http_threads;
    uint32_t text_workers;
    const char *const *api_keys; // plain texts, copied as hashes only
    uint32_t api_key_count;
    uint32_t admin_keys;                // number of leading api_keys that routes of admins accept
    uint32_t api_keys_fixed;            // number of leading api_keys that server_keys_renew keeps
    const char *const *allowed_origins; // see cors.h; copied
    uint32_t allowed_origin_count;      // 0: no web page may read answers
    const char *ssl_certfile, *ssl_keyfile; // NULL: no TLS
    const char *ssl_ciphers;                // suites of TLS 1.2, OpenSSL's list; NULL: the default
    int http2;                              // 1: on, 0: off, -1: on for loopback addresses only
    uint32_t connections_max;               // limit; 0: 16384
    uint64_t body_bytes_max;                // limit of one body; 0: 32 MiB
    uint64_t body_memory_max;               // limit of all bodies in memory; 0: 256 MiB
    uint64_t shutdown_timeout_ms; // limit of a drain; 0: open requests are cut immediately
    bool vllm_metrics;
    bool ui;                     // true: serve the web page at /
    uint64_t request_timeout_ms; // limit for a request's head and body, and for idle time; 0: 60 s
    uint64_t stall_timeout_ms;   // time until a client that reads nothing is aborted; 0: 60 s
    // time until an idle connection, or one with an unfinished body and no valid key, is closed, if
    // no connection or no descriptor is free; 0: 10 s
    uint64_t quiet_timeout_ms;
    // time for which the body of an HTTP/2 stream without a valid key is awaited; 0: 100 ms
    uint64_t early_wait_ms;
    // time for which a client that was refused before its body may continue to send; 0: 2 s
    uint64_t linger_timeout_ms;
    uint32_t resets_max; // HTTP/2 streams that a connection may reset early per window; 0: 200
    uint64_t resets_window_ms; // length of that window; 0: 10 s
    // Limits of grammars waiting to be compiled on each h2o thread: in all, per API key, and how
    // long a job may wait. Duplicates, which wait for a grammar already in the queue, have 16 times
    // these limits.
    uint32_t compiles_max, compiles_key_max; // 0: 1024, 256
    uint64_t compile_wait_ms;                // 0: 30 s
    // requests that begin this soon after the start of a drain are served; 0: 1 s
    uint64_t drain_grace_ms;
    // Receives jobs to load and unload models; NULL: the server loads none at run time. Called on
    // h2o threads; must not block. The owner calls server_manage_done once for each job.
    void (*manage)(void *context, struct manage_job *job);
    void *manage_context;
};

struct server;

// Binds, listens and starts the threads. /version and /metrics answer; other API routes answer 503
// until server_serve. SIGPIPE is ignored from now on. After this call server_waker returns each
// thread's waker, so that engines can create their ports.
enum status server_open(struct server **out, const struct server_options *options,
                        struct error *err) MUST_USE;
uint32_t server_port(const struct server *server);
struct waker *server_waker(struct server *server, uint32_t http_thread);

// Begins to serve the loaded models. ports: [copy * http_threads + thread]. `served` must stay
// valid until server_close.
void server_serve(struct server *server, const struct served *served, struct port *const *ports);

// Reload (SIGHUP): replaces the API keys after the fixed ones, or reads certificate and key again
// from the same two files (only for a server with TLS). Open connections and running requests
// continue; once this returns, new requests need a new key and new connections get the new
// certificate. On failure nothing changes. Main thread.
enum status server_keys_renew(struct server *server, const char *const *keys, uint32_t count,
                              struct error *err) MUST_USE;
enum status server_tls_renew(struct server *server, struct error *err) MUST_USE;

// Returns STATUS_OK if the list is one of OpenSSL's form, each name in it is that of a suite or
// group of suites, and it leaves at least one. Pure.
enum status server_ciphers_check(const char *list, struct error *err) MUST_USE;

// Any thread: the owner has filled the job's reply or failure. Frees the owner's reference.
void server_manage_done(struct server *server, struct manage_job *job);

// Models that are loaded and unloaded at run time. One thread at a time calls these three.
//
// Replaces the list of served models. Requests that began before use the old list and its models
// until their end: see struct served_use. Returns false if an h2o thread did not begin another
// iteration in time; then nothing of the old list may be freed.
bool server_replace(struct server *server, const struct served *served) MUST_USE;
// Stores the ports of an engine, [http_threads], in a free slot and sets the slot's counters to 0.
// Call it before the model is served.
void server_slot_open(struct server *server, uint32_t slot, struct port *const *ports);
// Removes the ports of a slot whose engine has ended and has no requests (engine_requests). Returns
// false like server_replace: then the engine must stay open.
bool server_slot_close(struct server *server, uint32_t slot) MUST_USE;

// Returns the number of requests whose answer is not sent completely yet. Any thread.
uint32_t server_requests(const struct server *server);

// Returns freed memory to the system, at most once in five seconds and only if requests with 256
// KiB of bodies (4 KiB more for each request) have ended since the last time: glibc keeps the pages
// of small pieces, of which the parsed JSON of large bodies is made. Call it each second. Main
// thread: one of lower priority could hold an allocator's lock for long.
void server_memory_return(struct server *server);

// Any thread: announces a shutdown. /ready returns 503, so that load balancers send requests
// elsewhere; the server continues to accept requests until server_drain.
void server_leave(struct server *server);
// Shutdown (SIGTERM): stops accepting, and waits up to shutdown_timeout_ms for the accepted
// requests. Then sends an error event to unfinished streams and 503 to other requests. Returns the
// number of requests that were cut.
int server_drain(struct server *server);
// Closes the server. The engines must have stopped, because they use wakers that are freed here.
void server_close(struct server *server);

// Returns the most bytes that the HTTP module may use, for the memory plan printed at startup.
uint64_t server_bytes_max(const struct server_options *options);
