// SPDX-License-Identifier: Apache-2.0
// The publisher of KV events; see kv_publish.h. Its thread owns the sockets after
// kv_publisher_open. It looks for events every few milliseconds, so the engine thread never has to
// wake it.
#include "cli/kv_publish.h"

#include "base/arena.h"
#include "scheduler/kv_events.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

// POLL_MS: longest time between an event and its batch. LOG_ENTRIES: a step stores and removes at
// most a few hundred blocks, so the ring holds the events of many steps.
enum { POLL_MS = 5, BATCH_EVENTS = 256, LOG_ENTRIES = 16384, ENDPOINT_BYTES = 280, SEQ_BYTES = 8 };

struct kv_publisher {
    struct kv_event_log *log;
    void *context, *pub, *replay; // replay: NULL if there is none
    const char *topic;            // borrowed
    uint32_t copy;
    uint64_t next;                              // sequence number of the next batch
    struct json_buffer kept[KV_REPLAY_BATCHES]; // batch s at s % KV_REPLAY_BATCHES
    uint64_t oldest;                            // sequence number of the oldest batch kept
    size_t kept_bytes;
    pthread_t thread;
    bool started;
    _Atomic bool stop; // relaxed: the log is read once more after it
};

// Writes "tcp://HOST:PORT" for "[tcp://][HOST:]PORT" and the copy's port.
static enum status endpoint_write(char *out, const char *option, const char *address, uint32_t copy,
                                  struct error *err)
{
    const char *rest = strncmp(address, "tcp://", 6) == 0 ? address + 6 : address;
    const char *colon = strrchr(rest, ':'), *digits = colon ? colon + 1 : rest;
    size_t host = colon ? (size_t)(colon - rest) : 0;
    char *end;
    unsigned long port = strtoul(digits, &end, 10);
    if (*digits < '0' || *digits > '9' || *end != '\0' || port < 1 || port + copy > 65535 ||
        (colon && host == 0) || host + 20 > ENDPOINT_BYTES)
        return error_set(err, STATUS_INVALID, "--%s must be [HOST:]PORT, got '%s'", option,
                         address);
    if (colon)
        snprintf(out, ENDPOINT_BYTES, "tcp://%.*s:%lu", (int)host, rest, port + copy);
    else
        snprintf(out, ENDPOINT_BYTES, "tcp://127.0.0.1:%lu", port + copy);
    return STATUS_OK;
}

static enum status socket_open(void **out, struct kv_publisher *p, int kind, const char *option,
                               const char *address, struct error *err)
{
    char endpoint[ENDPOINT_BYTES];
    enum status status = endpoint_write(endpoint, option, address, p->copy, err);
    if (status != STATUS_OK)
        return status;
    // A reader that is this many batches late loses some, and requests them again.
    int linger = 100, most = KV_REPLAY_BATCHES + 1, v6 = endpoint[6] == '[';
    *out = zmq_socket(p->context, kind);
    if (!*out || zmq_setsockopt(*out, ZMQ_LINGER, &linger, sizeof linger) != 0 ||
        zmq_setsockopt(*out, ZMQ_SNDHWM, &most, sizeof most) != 0 ||
        zmq_setsockopt(*out, ZMQ_IPV6, &v6, sizeof v6) != 0 || zmq_bind(*out, endpoint) != 0)
        return error_set(err, STATUS_IO, "--%s: %s cannot be bound: %s", option, endpoint,
                         zmq_strerror(errno));
    return STATUS_OK;
}

static void seq_write(unsigned char *out, uint64_t seq)
{
    for (int i = 0; i < SEQ_BYTES; i++)
        out[i] = (unsigned char)(seq >> 8 * (SEQ_BYTES - 1 - i));
}

static void oldest_drop(struct kv_publisher *p)
{
    struct json_buffer *batch = &p->kept[p->oldest++ % KV_REPLAY_BATCHES];
    p->kept_bytes -= batch->bytes;
    json_buffer_free(batch);
    *batch = (struct json_buffer){0};
}

// Publishes the events of the log as batches and keeps them for the replay.
static void events_publish(struct kv_publisher *p)
{
    for (;;) {
        struct timespec now;
        struct json_buffer batch = {0};
        unsigned char seq[SEQ_BYTES];
        clock_gettime(CLOCK_REALTIME, &now);
        uint32_t count = kv_events_write(
            p->log, &batch, (double)now.tv_sec + (double)now.tv_nsec / 1e9, p->copy, BATCH_EVENTS);
        if (count == 0)
            return;
        seq_write(seq, p->next);
        // a PUB socket never waits; it drops what a slow reader has no space for
        zmq_send(p->pub, p->topic, strlen(p->topic), ZMQ_SNDMORE);
        zmq_send(p->pub, seq, sizeof seq, ZMQ_SNDMORE);
        zmq_send(p->pub, batch.at, batch.bytes, 0);
        if (p->next - p->oldest == KV_REPLAY_BATCHES)
            oldest_drop(p);
        p->kept[p->next++ % KV_REPLAY_BATCHES] = batch;
        p->kept_bytes += batch.bytes;
        while (p->kept_bytes > KV_REPLAY_BYTES && p->next - p->oldest > 1)
            oldest_drop(p);
        kv_events_done(p->log, count); // after the batch is kept: an empty log is a complete replay
    }
}

// Sends the client one message of a replay: an empty frame, the sequence number, the batch.
static void replay_send(struct kv_publisher *p, zmq_msg_t *client, uint64_t seq,
                        const struct json_buffer *batch)
{
    unsigned char number[SEQ_BYTES];
    seq_write(number, seq);
    zmq_send(p->replay, zmq_msg_data(client), zmq_msg_size(client), ZMQ_SNDMORE);
    zmq_send(p->replay, "", 0, ZMQ_SNDMORE);
    zmq_send(p->replay, number, sizeof number, ZMQ_SNDMORE);
    zmq_send(p->replay, batch ? batch->at : "", batch ? batch->bytes : 0, 0);
}

// Answers a request [client, empty, first sequence number]: every batch kept from that one on, then
// the number -1. Other messages are ignored.
static void replay_serve(struct kv_publisher *p)
{
    zmq_msg_t frames[3];
    int count = 0, more = 1;
    for (; more; count++) {
        zmq_msg_t extra, *frame = count < 3 ? &frames[count] : &extra;
        zmq_msg_init(frame);
        if (zmq_msg_recv(frame, p->replay, ZMQ_DONTWAIT) < 0)
            more = 0;
        else
            more = zmq_msg_more(frame);
        if (count >= 3)
            zmq_msg_close(frame);
    }
    if (count == 3 && zmq_msg_size(&frames[1]) == 0 && zmq_msg_size(&frames[2]) == SEQ_BYTES) {
        const unsigned char *bytes = zmq_msg_data(&frames[2]);
        uint64_t from = 0;
        for (int i = 0; i < SEQ_BYTES; i++)
            from = from << 8 | bytes[i];
        for (uint64_t s = from > p->oldest ? from : p->oldest; s < p->next; s++)
            replay_send(p, &frames[0], s, &p->kept[s % KV_REPLAY_BATCHES]);
        replay_send(p, &frames[0], UINT64_MAX, NULL);
    }
    for (int i = 0; i < count && i < 3; i++)
        zmq_msg_close(&frames[i]);
}

static void *publisher_main(void *argument)
{
    struct kv_publisher *p = argument;
    pthread_setname_np(pthread_self(), "kv-events");
    while (!atomic_load_explicit(&p->stop, memory_order_relaxed)) {
        zmq_pollitem_t item = {.socket = p->replay, .events = ZMQ_POLLIN};
        if (zmq_poll(&item, p->replay ? 1 : 0, POLL_MS) > 0)
            replay_serve(p);
        events_publish(p);
    }
    events_publish(p);
    return NULL;
}

enum status kv_publisher_open(struct kv_publisher **out, const struct kv_publish_options *options,
                              struct error *err)
{
    struct kv_publisher *p = heap_alloc_zeroed(1, sizeof *p);
    *out = NULL;
    p->topic = options->topic;
    p->copy = options->copy;
    p->log = kv_event_log_create(options->block_tokens, LOG_ENTRIES);
    p->context = zmq_ctx_new();
    enum status status = socket_open(&p->pub, p, ZMQ_PUB, "kv-events", options->address, err);
    if (status == STATUS_OK && options->replay)
        status = socket_open(&p->replay, p, ZMQ_ROUTER, "kv-events-replay", options->replay, err);
    if (status == STATUS_OK) {
        int failed = pthread_create(&p->thread, NULL, publisher_main, p);
        if (failed != 0)
            status = error_thread(err, failed, "the publisher of KV events");
    }
    p->started = status == STATUS_OK;
    if (status == STATUS_OK)
        *out = p;
    else
        kv_publisher_close(p);
    return status;
}

struct kv_event_log *kv_publisher_log(struct kv_publisher *publisher)
{
    return publisher->log;
}

void kv_publisher_close(struct kv_publisher *publisher)
{
    struct kv_publisher *p = publisher;
    if (!p)
        return;
    atomic_store_explicit(&p->stop, true, memory_order_relaxed);
    if (p->started)
        pthread_join(p->thread, NULL);
    if (p->pub)
        zmq_close(p->pub);
    if (p->replay)
        zmq_close(p->replay);
    zmq_ctx_term(p->context);
    while (p->oldest < p->next)
        oldest_drop(p);
    kv_event_log_destroy(p->log);
    heap_free(p);
}
