// SPDX-License-Identifier: Apache-2.0
// Publishes the changes of a model's prefix cache over ZeroMQ in vLLM's format, for routers that
// read vLLM's KV events: a PUB socket sends [topic, sequence number, batch], and an optional ROUTER
// socket repeats batches. Each copy of a model has its own publisher, with a thread; the thread
// that loads and closes the model calls these functions.
#pragma once

#include "base/status.h"

#include <stdint.h>

struct kv_event_log; // scheduler/kv_events.h
struct kv_publisher;

enum { KV_REPLAY_BATCHES = 10000, KV_REPLAY_BYTES = 64 << 20 }; // limits of the batches kept

struct kv_publish_options {
    // "[HOST:]PORT", also with tcp:// before it. HOST * is all addresses; the default is 127.0.0.1.
    // Copy N of the model uses PORT + N. replay: address of the ROUTER socket; NULL: no replay.
    const char *address, *replay;
    const char *topic;           // first frame of each message; must outlive the publisher
    uint32_t copy, block_tokens; // index among the copies; tokens per KV block
};

// Binds the sockets, creates the log and starts the thread. INVALID if an address is malformed, IO
// if it cannot be bound, UNSUPPORTED if weft was built without libzmq.
enum status kv_publisher_open(struct kv_publisher **out, const struct kv_publish_options *options,
                              struct error *err) MUST_USE;
// Returns the log for engine_options.kv_events, which the publisher owns.
struct kv_event_log *kv_publisher_log(struct kv_publisher *publisher);
// Publishes the events that are left in the log, ends the thread and frees everything. The engine
// must be closed. NULL is allowed.
void kv_publisher_close(struct kv_publisher *publisher);
