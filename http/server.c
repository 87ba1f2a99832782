// SPDX-License-Identifier: Apache-2.0
// The server as the cli module sees it: configuration of h2o, threads, text workers, the hand-over
// of models and ports, drain and close. Called from one thread (main); the h2o threads run loop.c.
#include "http/internal.h"
#include "http/key_rules.h"
#include "http/api/grammars.h"
#include "http/ui/page.h"

#include <h2o/http1.h>
#include <h2o/http2.h>
#include <malloc.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum {
    CONNECTIONS_DEFAULT = 16384,
    REQUEST_TIMEOUT_MS = 60000,
    STALL_TIMEOUT_MS = 60000,
    QUIET_TIMEOUT_MS = 10000,
    RESETS_DEFAULT = 200,
    RESETS_WINDOW_MS = 10000,
    DRAIN_GRACE_MS = 1000,
    COMPILES_DEFAULT = 1024,
    COMPILES_KEY_DEFAULT = 256,
    COMPILE_WAIT_MS = 30000,
    // h2o's own limit is higher than ours, so that ours is met first and answers in JSON
    BODY_SLACK_BYTES = 1 << 20,
    MMAP_THRESHOLD_BYTES = 128 * 1024,
    POLL_MS = 5,
    STARTED_POLL_US = 200,
    CUT_WAIT_MS = 2000, // time to send the last events of streams, and failures
    ABORT_WAIT_MS = 3000,
    LINGER_TIMEOUT_MS = 2000,
    EARLY_WAIT_MS = 100,
    DESCRIPTORS_EARLY = 1024, // limit for startup, beyond connections_max; counted later
};

static const uint64_t body_bytes_default = 32u << 20, body_memory_default = 256u << 20;

static void defaults_fill(struct server_options *o)
{
    o->host = o->host ? o->host : "127.0.0.1";
    o->http_threads = o->http_threads > 0 ? o->http_threads : 1;
    o->text_workers = o->text_workers > 0 ? o->text_workers : 1;
    o->connections_max = o->connections_max > 0 ? o->connections_max : CONNECTIONS_DEFAULT;
    o->body_bytes_max = o->body_bytes_max > 0 ? o->body_bytes_max : body_bytes_default;
    o->body_memory_max = o->body_memory_max > 0 ? o->body_memory_max : body_memory_default;
    o->request_timeout_ms = o->request_timeout_ms > 0 ? o->request_timeout_ms : REQUEST_TIMEOUT_MS;
    o->stall_timeout_ms = o->stall_timeout_ms > 0 ? o->stall_timeout_ms : STALL_TIMEOUT_MS;
    o->quiet_timeout_ms = o->quiet_timeout_ms > 0 ? o->quiet_timeout_ms : QUIET_TIMEOUT_MS;
    o->linger_timeout_ms = o->linger_timeout_ms > 0 ? o->linger_timeout_ms : LINGER_TIMEOUT_MS;
    o->early_wait_ms = o->early_wait_ms > 0 ? o->early_wait_ms : EARLY_WAIT_MS;
    o->resets_max = o->resets_max > 0 ? o->resets_max : RESETS_DEFAULT;
    o->resets_window_ms = o->resets_window_ms > 0 ? o->resets_window_ms : RESETS_WINDOW_MS;
    o->compiles_max = o->compiles_max > 0 ? o->compiles_max : COMPILES_DEFAULT;
    o->compiles_key_max = o->compiles_key_max > 0 ? o->compiles_key_max : COMPILES_KEY_DEFAULT;
    o->compile_wait_ms = o->compile_wait_ms > 0 ? o->compile_wait_ms : COMPILE_WAIT_MS;
    o->drain_grace_ms = o->drain_grace_ms > 0 ? o->drain_grace_ms : DRAIN_GRACE_MS;
}

bool server_http2_is_on(const struct server_options *options)
{
    return options->http2 < 0 ? host_is_loopback(options->host) : options->http2 != 0;
}

// Returns the memory for the preparation of one body: two arenas, a rendered conversation, its JSON
// values and their texts.
static uint64_t prepare_bytes_max(uint64_t body)
{
    // per byte of the body; limit for all values
    enum { VALUE_BYTES = 128, VALUES_BYTES_MAX = 768 << 20 };
    uint64_t values = VALUE_BYTES * body;
    values = values < VALUES_BYTES_MAX ? values : VALUES_BYTES_MAX;
    return 2 * scratch_bytes_max(body) + values + 2 * body;
}

// Returns the memory of the text workers: for each body size the copies made by h2o threads, and
// one preparation per worker.
static uint64_t workers_bytes_max(const struct server_options *options)
{
    uint64_t threads = options->http_threads, most = options->body_bytes_max;
    uint64_t sum = options->text_workers * (threads * WORK_SMALL_MAX * WORK_SMALL_BYTES +
                                            prepare_bytes_max(WORK_SMALL_BYTES));
    for (uint32_t size = 1; size <= work_size(most); size++) {
        uint64_t body = (uint64_t)WORK_SMALL_BYTES << size;
        body = body < most ? body : most;
        sum += work_large_count(options->text_workers) *
               (threads * WORK_LARGE_MAX * body + prepare_bytes_max(body));
    }
    return sum;
}

// The bodies of all connections share a budget (bodies.c). Not included is what an answer repeats
// of its body (documents, four bytes per token of /tokenize and /detokenize).
uint64_t server_bytes_max(const struct server_options *options)
{
    enum { STREAM_BYTES = 16 * 1024, COMPILE_BYTES = 128 << 20 };
    struct server_options filled = *options;
    defaults_fill(&filled);
    uint64_t connections = descriptors_fit(filled.connections_max);
    return filled.body_memory_max + connections * STREAM_BYTES + workers_bytes_max(&filled) +
           COMPILE_BYTES + GRAMMARS_BYTES_MAX +
           filled.http_threads * prepare_bytes_max(BODY_INLINE_BYTES_MAX);
}

// Overrides libh2o's function of this name, which accepts the upgrade of a cleartext request to
// HTTP/2 (Upgrade: h2c). The body of such a request would bypass the memory budget and its head the
// framing check, and if a proxy forwarded the upgrade, the client could reach every path through
// it. Returning -1 serves the request over HTTP/1.1. Cleartext HTTP/2 is still possible if the
// client begins with its preface.
__attribute__((visibility("default"))) int h2o_http2_handle_upgrade(h2o_req_t *req,
                                                                    struct timeval connected_at)
{
    (void)req, (void)connected_at;
    return -1;
}

static void conf_fill(struct server *server)
{
    const struct server_options *options = &server->options;
    h2o_globalconf_t *conf = &server->conf;
    h2o_config_init(conf);
    conf->server_name = h2o_iovec_init(H2O_STRLIT("weft"));
    conf->max_request_entity_size = options->body_bytes_max + BODY_SLACK_BYTES;
    conf->http1.req_timeout = options->request_timeout_ms;
    conf->http2.idle_timeout = options->request_timeout_ms;
    conf->http1.upgrade_to_http2 = server_http2_is_on(options);
    // larger bodies would be written to a file by h2o
    h2o_socket_buffer_mmap_settings.threshold = conf->max_request_entity_size * 2;
    h2o_hostconf_t *host =
        h2o_config_register_host(conf, h2o_iovec_init(H2O_STRLIT("default")), 65535);
    // one path and our own router, because pathconf pointers move with the next registration
    h2o_pathconf_t *path = h2o_config_register_path(host, "/", 0);
    h2o_create_handler(path, sizeof(h2o_handler_t))->on_req = handle_request;
    h2o_create_logger(&host->fallback_path, sizeof(h2o_logger_t))->log_access = access_log_refused;
    h2o_create_filter(&host->fallback_path, sizeof(h2o_filter_t))->on_setup_ostream =
        fallback_setup;
}

static enum status thread_prepare(struct server *server, uint32_t index, struct error *err)
{
    struct http_thread *thread = &server->threads[index];
    thread->server = server;
    thread->index = index;
    thread->listen_fd = thread->watch_fd = -1;
    atomic_store(&thread->beat_ns, clock_ns());
    enum status status = waker_open(&thread->control, err);
    if (status == STATUS_OK)
        status = waker_open(&thread->waker, err);
    if (status == STATUS_OK)
        status = watch_open(thread, err);
    return status == STATUS_OK ? loop_listen(thread, err) : status;
}

static enum status work_start(struct server *server, struct error *err)
{
    struct waker **wakers = heap_alloc_zeroed(server->thread_count, sizeof *wakers);
    for (uint32_t i = 0; i < server->thread_count; i++)
        wakers[i] = server->threads[i].control;
    struct work_options options = {.workers = server->options.text_workers,
                                   .sizes = work_size(server->options.body_bytes_max) + 1,
                                   .sides = server->thread_count,
                                   .wakers = wakers,
                                   .run = offload_run};
    enum status status = work_open(&server->work, &options, err);
    heap_free(wakers);
    for (uint32_t i = 0; i < server->thread_count && status == STATUS_OK; i++)
        server->threads[i].work = work_side(server->work, i);
    return status;
}

// Starts the text workers and the h2o threads with all signals blocked: main waits for signals.
static enum status threads_start(struct server *server, struct error *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    enum status status = work_start(server, err);
    for (uint32_t i = 0; i < server->thread_count && status == STATUS_OK; i++) {
        struct http_thread *thread = &server->threads[i];
        int failed = pthread_create(&thread->thread, NULL, loop_main, thread);
        if (failed != 0)
            status = error_thread(err, failed, "the h2o thread %u", i);
        else
            server->started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    for (uint32_t i = 0; i < server->started; i++)
        while (!atomic_load(&server->threads[i].started))
            usleep(STARTED_POLL_US);
    return status;
}

static enum status server_start(struct server *server, struct error *err)
{
    const struct server_options *options = &server->options;
    struct access *access = heap_alloc_zeroed(1, sizeof *access);
    access->generation = 1;
    atomic_store(&server->access, access);
    enum status status = keys_open(&access->keys, options->api_keys, options->api_key_count, err);
    if (status == STATUS_OK)
        status =
            cors_open(&server->cors, options->allowed_origins, options->allowed_origin_count, err);
    if (status == STATUS_OK)
        status = tls_open(&access->ssl, options, server_http2_is_on(options), err);
    for (uint32_t i = 0; i < server->thread_count && status == STATUS_OK; i++)
        status = thread_prepare(server, i, err);
    if (status == STATUS_OK)
        status = descriptors_check(server, err);
    return status == STATUS_OK ? threads_start(server, err) : status;
}

enum status server_open(struct server **out, const struct server_options *options,
                        struct error *err)
{
    struct server *server = heap_alloc_zeroed(1, sizeof *server);
    server->options = *options;
    defaults_fill(&server->options);
    descriptors_raise((uint64_t)server->options.connections_max + DESCRIPTORS_EARLY);
    atomic_store(&server->connections_most, server->options.connections_max); // not counted yet
    server->port = options->port;
    server->thread_count = server->options.http_threads;
    server->threads = heap_alloc_zeroed(server->thread_count, sizeof *server->threads);
    server->started_unix = time(NULL);
    route_list_fill(&server->routes, route_tables);
    if (options->ui)
        route_list_add(&server->routes, ui_routes);
    // returns freed bodies to the system; by default glibc raises this threshold to the size of the
    // first large body
    mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES);
    signal(SIGPIPE, SIG_IGN); // h2o writes to sockets that the peer may have closed
    conf_fill(server);
    enum status status = server_start(server, err);
    server->options.api_keys = NULL; // only the hashes are kept
    server->options.allowed_origins = NULL;
    if (status != STATUS_OK) {
        server_close(server);
        return status;
    }
    descriptors_share(server);
    *out = server;
    return STATUS_OK;
}

uint32_t server_port(const struct server *server)
{
    return server->port;
}

struct waker *server_waker(struct server *server, uint32_t http_thread)
{
    check(http_thread < server->thread_count, "thread %u of %u", http_thread, server->thread_count);
    return server->threads[http_thread].waker;
}

void server_serve(struct server *server, const struct served *served, struct port *const *ports)
{
    uint32_t slots = served->slot_count > 0 ? served->slot_count : served->copy_count;
    server->slot_count = slots;
    for (uint32_t i = 0; i < server->thread_count; i++)
        server->threads[i].counters.copies =
            heap_alloc_zeroed(slots, sizeof(struct model_counters));
    size_t count = (size_t)served->copy_count * server->thread_count;
    server->ports = heap_alloc_zeroed((size_t)slots * server->thread_count, sizeof *server->ports);
    for (size_t i = 0; i < count; i++)
        atomic_store_explicit(&server->ports[i], ports[i], memory_order_relaxed);
    descriptors_share(server); // again, because engines have descriptors
    descriptors_report(server);
    // release: a thread that loads `served` sees ports and counters
    atomic_store_explicit(&server->served, served, memory_order_release);
}

static void control_set(struct server *server, int state)
{
    for (uint32_t i = 0; i < server->started; i++) {
        atomic_store_explicit(&server->threads[i].control_state, state, memory_order_release);
        waker_raise(server->threads[i].control);
    }
}

static bool any_has_failed(const struct server *server)
{
    const struct served *served = atomic_load_explicit(&server->served, memory_order_acquire);
    bool any = false;
    for (uint32_t i = 0; served && i < served->copy_count; i++)
        any = any || served_copy_failed(&served->copies[i]);
    return any;
}

// Waits until no thread has clients (all: nor engine requests), at most ms. If a device failed,
// engine requests are not waited for: its engine may hang and never return them.
static bool idle_wait(const struct server *server, bool all, uint64_t ms)
{
    uint64_t deadline = clock_ns() + ms * 1000000;
    for (;;) {
        uint32_t idle = 0;
        int wanted = all && !any_has_failed(server) ? IDLE_ALL : IDLE_CLIENTS;
        for (uint32_t i = 0; i < server->started; i++)
            idle += atomic_load_explicit(&server->threads[i].idle, memory_order_acquire) >= wanted;
        if (idle == server->started)
            return true;
        if (clock_ns() > deadline)
            return false;
        usleep(POLL_MS * 1000);
    }
}

void server_leave(struct server *server)
{
    atomic_store_explicit(&server->leaving, true, memory_order_relaxed);
}

int server_drain(struct server *server)
{
    control_set(server, CONTROL_DRAIN);
    server->drained = true;
    if (idle_wait(server, true, server->options.shutdown_timeout_ms))
        return 0;
    control_set(server, CONTROL_CUT);
    if (!idle_wait(server, false, CUT_WAIT_MS)) {
        control_set(server, CONTROL_ABORT);
        idle_wait(server, false, ABORT_WAIT_MS);
    }
    uint32_t aborted = 0;
    for (uint32_t i = 0; i < server->started; i++)
        aborted += atomic_load(&server->threads[i].aborted_count);
    return (int)aborted;
}

void server_memory_return(struct server *server)
{
    // a parsed body takes up to 100 times its bytes: below 32 MiB are left before the next call
    enum { LEAST_BYTES = 256 * 1024 };
    static const uint64_t every_ns = 5000000000;
    uint64_t ended = 0, now = clock_ns();
    for (uint32_t i = 0; i < server->started; i++)
        ended +=
            atomic_load_explicit(&server->threads[i].counters.ended_bytes, memory_order_relaxed);
    if (ended - server->returned_ended < LEAST_BYTES || now < server->return_next_ns)
        return;
    malloc_trim(0);
    server->returned_ended = ended;
    server->return_next_ns = clock_ns() + every_ns;
}

uint32_t server_requests(const struct server *server)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < server->started; i++)
        count += atomic_load_explicit(&server->threads[i].exchange_count, memory_order_relaxed);
    return count;
}

static void thread_close(struct http_thread *thread)
{
    if (!thread->server) // startup failed before this thread: it has no descriptors
        return;
    if (thread->listen_fd >= 0)
        close(thread->listen_fd);
    if (thread->watch_fd >= 0)
        close(thread->watch_fd);
    waker_close(thread->control);
    if (thread->waker)
        waker_close(thread->waker);
    heap_free(thread->counters.copies);
}

void server_close(struct server *server)
{
    if (!server->drained && server->started > 0) {
        control_set(server, CONTROL_ABORT);
        idle_wait(server, false, ABORT_WAIT_MS);
    }
    bool clean = idle_wait(server, false, 0);
    control_set(server, CONTROL_QUIT);
    for (uint32_t i = 0; i < server->started; i++)
        pthread_join(server->threads[i].thread, NULL);
    work_close(server->work);
    struct access *access = atomic_load(&server->access);
    keys_close(access->keys);
    if (!clean) // h2o has connections that point into these structures; the process is about to end
        return;
    for (uint32_t i = 0; i < server->thread_count; i++)
        thread_close(&server->threads[i]);
    h2o_config_dispose(&server->conf);
    cors_close(&server->cors);
    if (access->ssl)
        SSL_CTX_free(access->ssl);
    heap_free(access);
    heap_free((void *)server->ports);
    heap_free(server->threads);
    heap_free(server);
}
