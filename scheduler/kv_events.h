// SPDX-License-Identifier: Apache-2.0
// The changes of an engine's prefix table, for routers that choose a server by the prompts that it
// has cached. The engine thread records them in a ring; one other thread reads them and publishes
// them in the format of vLLM's KV events. The low 64 bits of its hash identify a block.
#pragma once

#include "base/json.h"
#include "base/ring.h"
#include "scheduler/blocks.h"

enum kv_event_kind {
    KV_STORED,  // a block of the table has been computed
    KV_REMOVED, // a block was removed from the table
    KV_CLEARED, // the reader must forget all blocks
};

struct kv_event {
    enum kv_event_kind kind;
    bool first; // true if the block is the first of its prompt: it has no parent
    uint64_t hash, parent;
    int32_t tokens[BLOCK_TOKENS_MAX]; // KV_STORED: [log->tokens] i32
};

struct kv_event_log {
    struct ring ring;
    struct kv_event *events; // [ring.mask + 1]
    uint32_t tokens;         // tokens per block
    // Engine thread: true from an event that found the ring full until half of it is free. The next
    // event is then preceded by KV_CLEARED, so readers know some of the cached blocks and no
    // others.
    bool losing;
    _Atomic uint64_t lost; // number of events not recorded; relaxed: a statistic
};

// Creates a log whose first event is KV_CLEARED, because the readers may know an earlier process.
// block_tokens: tokens per block. entries: power of two.
struct kv_event_log *kv_event_log_create(uint32_t block_tokens, uint32_t entries);
void kv_event_log_destroy(struct kv_event_log *log); // NULL is allowed

// Engine thread: record a change without waiting. tokens: [log->tokens] i32, copied. parent: NULL
// for the first block of a prompt.
void kv_event_stored(struct kv_event_log *log, const struct hash *hash, const struct hash *parent,
                     const int32_t *tokens);
void kv_event_removed(struct kv_event_log *log, const struct hash *hash);
void kv_event_cleared(struct kv_event_log *log);

// Reader: appends up to `most` events as one batch in vLLM's format, the msgpack array
// [unix_s, [event...], rank]; an event is a map with its name under "type". Returns the number of
// events, which stay in the ring until kv_events_done; 0: nothing was appended. unix_s: time of the
// batch in seconds since 1970. rank: index among the copies of the model.
uint32_t kv_events_write(const struct kv_event_log *log, struct json_buffer *out, double unix_s,
                         uint32_t rank, uint32_t most);
void kv_events_done(struct kv_event_log *log, uint32_t count);
