// SPDX-License-Identifier: Apache-2.0
// Replaces API keys, certificate and the list of models while the server runs. The main thread
// stores a new struct access and frees the old one after each h2o thread has begun another
// iteration: no callback uses the old one then. A connection holds a reference to the TLS context
// it was accepted with.
#include "http/internal.h"

#include <openssl/ssl.h>
#include <unistd.h>

enum { ITERATION_WAIT_MS = 10000, POLL_US = 1000 };

const struct access *access_of(struct server *server)
{
    return atomic_load(&server->access); // seq_cst: see access_replace
}

// Waits until the thread has begun another iteration of its loop. Returns false at the deadline.
static bool iteration_wait(struct http_thread *thread, uint64_t deadline)
{
    uint64_t before = atomic_load(&thread->iterations);
    waker_raise(thread->control);
    while (atomic_load(&thread->iterations) == before) {
        if (clock_ns() > deadline)
            return false;
        usleep(POLL_US);
    }
    return true;
}

// Waits until each h2o thread has begun another iteration. Returns false if one did not in time.
static bool iterations_wait(struct server *server)
{
    uint64_t deadline = clock_ns() + (uint64_t)ITERATION_WAIT_MS * 1000000;
    bool moved_on = true;
    for (uint32_t i = 0; i < server->started; i++)
        moved_on = iteration_wait(&server->threads[i], deadline) && moved_on;
    return moved_on;
}

// Stores the new keys and TLS context. Returns false if a thread did not begin another iteration in
// time: it may still use the old struct, which is then not freed.
static bool access_replace(struct server *server, struct keys *keys, SSL_CTX *ssl)
{
    struct access *fresh = heap_alloc_zeroed(1, sizeof *fresh);
    *fresh = (struct access){keys, ssl, access_of(server)->generation + 1};
    // seq_cst, here and at the iteration counters: with a weaker order, an iteration that begins
    // after its counter was read could still load the old struct, which is freed once that
    // iteration has begun.
    struct access *old = atomic_exchange(&server->access, fresh);
    bool moved_on = iterations_wait(server);
    if (moved_on)
        heap_free(old);
    return moved_on;
}

bool server_replace(struct server *server, const struct served *served)
{
    // seq_cst: see access_replace
    atomic_store(&server->served, served);
    return iterations_wait(server);
}

void server_slot_open(struct server *server, uint32_t slot, struct port *const *ports)
{
    check(slot < server->slot_count, "slot %u of %u", slot, server->slot_count);
    for (uint32_t i = 0; i < server->thread_count; i++) {
        memset(&server->threads[i].counters.copies[slot], 0, sizeof(struct model_counters));
        atomic_store_explicit(&server->ports[slot * server->thread_count + i], ports[i],
                              memory_order_release);
    }
}

bool server_slot_close(struct server *server, uint32_t slot)
{
    for (uint32_t i = 0; i < server->thread_count; i++)
        atomic_store(&server->ports[slot * server->thread_count + i], NULL);
    return iterations_wait(server);
}

enum status server_keys_renew(struct server *server, const char *const *plain, uint32_t count,
                              struct error *err)
{
    struct access old = *access_of(server);
    struct keys *keys;
    enum status status =
        keys_renew(&keys, old.keys, server->options.api_keys_fixed, plain, count, err);
    if (status != STATUS_OK)
        return status;
    if (access_replace(server, keys, old.ssl))
        keys_close(old.keys);
    return STATUS_OK;
}

enum status server_tls_renew(struct server *server, struct error *err)
{
    struct access old = *access_of(server);
    check(old.ssl, "a server without TLS has no certificate");
    const struct server_options *options = &server->options;
    SSL_CTX *ssl;
    enum status status = tls_open(&ssl, options, server_http2_is_on(options), err);
    if (status != STATUS_OK)
        return status;
    if (access_replace(server, old.keys, ssl))
        SSL_CTX_free(old.ssl);
    return STATUS_OK;
}
