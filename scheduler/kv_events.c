// SPDX-License-Identifier: Apache-2.0
// Records and writes changes of the prefix table; see kv_events.h. The engine thread produces, one
// other thread consumes. The format is that of vLLM from 0.26 on: field names instead of positions.
#include "scheduler/kv_events.h"

#include "base/arena.h"
#include "base/msgpack.h"

#include <string.h>

struct kv_event_log *kv_event_log_create(uint32_t block_tokens, uint32_t entries)
{
    struct kv_event_log *log = heap_alloc_zeroed(1, sizeof *log);
    log->events = heap_alloc_zeroed(entries, sizeof *log->events);
    log->ring.mask = entries - 1;
    log->tokens = block_tokens;
    kv_event_cleared(log);
    return log;
}

void kv_event_log_destroy(struct kv_event_log *log)
{
    if (!log)
        return;
    heap_free(log->events);
    heap_free(log);
}

// Returns the next entry to fill, or NULL if the event is lost.
static struct kv_event *event_place(struct kv_event_log *log)
{
    uint32_t space = ring_free(&log->ring);
    if (log->losing && space > log->ring.mask / 2) {
        log->losing = false;
        kv_event_cleared(log);
        space--;
    }
    log->losing |= space == 0;
    if (!log->losing)
        return &log->events[ring_place(&log->ring)];
    atomic_fetch_add_explicit(&log->lost, 1, memory_order_relaxed);
    return NULL;
}

void kv_event_stored(struct kv_event_log *log, const struct hash *hash, const struct hash *parent,
                     const int32_t *tokens)
{
    struct kv_event *event = event_place(log);
    if (!event)
        return;
    event->kind = KV_STORED;
    event->hash = hash->low;
    event->first = !parent;
    event->parent = parent ? parent->low : 0;
    memcpy(event->tokens, tokens, log->tokens * sizeof *tokens);
    ring_publish(&log->ring);
}

void kv_event_removed(struct kv_event_log *log, const struct hash *hash)
{
    struct kv_event *event = event_place(log);
    if (!event)
        return;
    event->kind = KV_REMOVED;
    event->hash = hash->low;
    ring_publish(&log->ring);
}

void kv_event_cleared(struct kv_event_log *log)
{
    struct kv_event *event = event_place(log);
    if (!event)
        return;
    event->kind = KV_CLEARED;
    ring_publish(&log->ring);
}

static void hashes_put(struct json_buffer *out, const char *type, uint32_t members, uint64_t hash)
{
    msgpack_map(out, members);
    msgpack_text(out, "type");
    msgpack_text(out, type);
    msgpack_text(out, "block_hashes");
    msgpack_array(out, 1);
    msgpack_unsigned(out, hash);
    msgpack_text(out, "medium");
    msgpack_text(out, "GPU"); // the name of the first tier, also where it is the memory of a CPU
}

static void stored_put(struct json_buffer *out, const struct kv_event *event, uint32_t tokens)
{
    hashes_put(out, "BlockStored", 8, event->hash);
    msgpack_text(out, "parent_block_hash");
    if (event->first)
        msgpack_nil(out);
    else
        msgpack_unsigned(out, event->parent);
    msgpack_text(out, "token_ids");
    msgpack_array(out, tokens);
    for (uint32_t i = 0; i < tokens; i++)
        msgpack_unsigned(out, (uint64_t)event->tokens[i]);
    msgpack_text(out, "block_size");
    msgpack_unsigned(out, tokens);
    msgpack_text(out, "lora_id");
    msgpack_nil(out);
    msgpack_text(out, "lora_name");
    msgpack_nil(out);
}

uint32_t kv_events_write(const struct kv_event_log *log, struct json_buffer *out, double unix_s,
                         uint32_t rank, uint32_t most)
{
    uint32_t first, count = log->ring.mask + 1 - ring_free(&log->ring);
    count = count < most ? count : most;
    if (!ring_peek(&log->ring, &first) || count == 0)
        return 0;
    msgpack_array(out, 3);
    msgpack_real(out, unix_s);
    msgpack_array(out, count);
    for (uint32_t i = 0; i < count; i++) {
        const struct kv_event *event = &log->events[(first + i) & log->ring.mask];
        if (event->kind == KV_STORED) {
            stored_put(out, event, log->tokens);
        } else if (event->kind == KV_REMOVED) {
            hashes_put(out, "BlockRemoved", 3, event->hash);
        } else {
            msgpack_map(out, 1);
            msgpack_text(out, "type");
            msgpack_text(out, "AllBlocksCleared");
        }
    }
    msgpack_unsigned(out, rank);
    return count;
}

void kv_events_done(struct kv_event_log *log, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        ring_pop(&log->ring);
}
