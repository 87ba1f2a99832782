// SPDX-License-Identifier: Apache-2.0
// Publishes the changes of a model's prefix cache over ZeroMQ as vLLM does, so that the routers
// that follow vLLM's KV events follow weft: a PUB socket sends [topic, sequence number, batch], and
// an optional ROUTER socket repeats batches. Each copy of a model has its own publisher, with a
// thread.
#pragma once

#include "base/status.h"

#include <stdint.h>

struct kv_event_log; // scheduler/kv_events.h
struct kv_publisher;

enum { KV_REPLAY_BATCHES = 10000, KV_REPLAY_BYTES = 64 << 20 }; // limits of what can be repeated

struct kv_publish_options {
    // "[HOST:]PORT", also with tcp:// before it; HOST * is all addresses, without it 127.0.0.1. The
    // port is that of copy 0; the others use the following ones. replay may be NULL: no replay.
    const char *address, *replay;
    const char *topic;
    uint32_t copy, block_tokens;
};

// Binds the sockets, creates the log and starts the thread. INVALID for an address that is not one,
// IO if it cannot be bound, UNSUPPORTED if weft was built without libzmq.
enum status kv_publisher_open(struct kv_publisher **out, const struct kv_publish_options *options,
                              struct error *err) MUST_USE;
// Returns the log for engine_options.kv_events.
struct kv_event_log *kv_publisher_log(struct kv_publisher *publisher);
// Publishes what the log holds, ends the thread and frees all. The engine must be closed. NULL is
// allowed.
void kv_publisher_close(struct kv_publisher *publisher);
