// The HTTP server: N event loops with SO_REUSEPORT over libh2o 2.2.5. The only room that knows h2o;
// endpoints see exchanges.
#pragma once

#include "http/served.h"

struct server_options {
    const char *host; // address to bind
    uint32_t port;    // 0: the kernel chooses (tests)
    uint32_t http_threads;
    uint32_t text_workers;
    const char *const *api_keys; // plain texts; only hashes are kept
    uint32_t api_key_count;
    uint32_t api_keys_fixed;                // the first so many stay when the others are renewed
    const char *const *allowed_origins;     // cors.h; copied
    uint32_t allowed_origin_count;          // 0: no web page reads answers
    const char *ssl_certfile, *ssl_keyfile; // NULL: no TLS
    int http2;                              // 1 on, 0 off, -1: on loopback only
    uint32_t connections_max;               // 0: 16384
    uint64_t body_bytes_max;                // 0: 32 MiB
    uint64_t body_memory_max;               // all bodies under way; 0: 256 MiB
    uint64_t shutdown_timeout_ms;           // of a drain; 0: whatever is open is cut at once
    bool vllm_metrics;
    bool ui;                     // the web page at /
    uint64_t request_timeout_ms; // head and body of one request, keep-alive idle; 0: 60 s
    uint64_t stall_timeout_ms;   // a reader that takes nothing; 0: 60 s
    uint64_t quiet_timeout_ms;   // a connection without a request, with all taken; 0: 10 s
    uint32_t resets_max;         // HTTP/2 streams reset before an answer, per connection; 0: 200
    uint64_t resets_window_ms;   // and within so long; 0: 10 s
    // Grammars that wait to be compiled, on each h2o thread: in all, of one key, and how long. Of
    // requests that wait for one of these, too, there may be 16 times as many.
    uint32_t compiles_max, compiles_key_max; // 0: 1024, 256
    uint64_t compile_wait_ms;                // 0: 30 s
    uint64_t drain_grace_ms; // requests that begin so soon after a drain are served; 0: 1 s
};

struct server;

// Binds and listens; /version and /metrics answer, the rest 503 until server_serve. After this each
// thread has its waker, so that engines can be given their ports.
enum status server_open(struct server **out, const struct server_options *options,
                        struct error *err) MUST_USE;
uint32_t server_port(const struct server *server);
struct waker *server_waker(struct server *server, uint32_t http_thread);

// The models are loaded: ports[model * http_threads + thread]. served stays valid until close.
void server_serve(struct server *server, const struct served *served, struct port *const *ports);

// SIGHUP: the keys after the fixed ones, or certificate and key of the same two files. Open
// connections and requests go on; new requests need a new key, new connections get the new
// certificate once this returns. After a failure everything is as it was.
enum status server_keys_renew(struct server *server, const char *const *keys, uint32_t count,
                              struct error *err) MUST_USE;
enum status server_tls_renew(struct server *server, struct error *err) MUST_USE;

// Requests that have no whole answer yet; from any thread.
uint32_t server_requests(const struct server *server);

// SIGTERM: stops accepting, finishes what was accepted in at most shutdown_timeout_ms. Then a
// stream without its end gets an error event, other requests 503. Returns how many those were.
int server_drain(struct server *server);
// Engines must have stopped: their wakers go with the server.
void server_close(struct server *server);

// Bytes the HTTP side may take, for the plan printed at start.
uint64_t server_bytes_max(const struct server_options *options);
