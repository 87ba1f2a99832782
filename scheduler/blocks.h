// SPDX-License-Identifier: Apache-2.0
// The states of KV blocks, as integers: which sequences hold a block, which blocks are free, and
// which only the prefix cache keeps. Each block is in exactly one state:
//
//            block_alloc             block_unref, last holder, not in the table or not ready
//    free ---------------> used (refs > 0) ------------------------------------------> free
//                           ^    |
//  block_ref, or block_alloc|    | block_unref, last holder, in the table, ready
//  if no block is free: it  |    v
//  evicts the oldest       cached (refs == 0, in the LRU list)
//
// A full block is `in_table` while the prefix table (prefix.h) lists it under the hash of its
// tokens and all tokens before them. A block in the table is `ready` once the step that computes it
// is settled; until then other sequences wait for it. Engine thread only; the engine owns the
// arrays.
#pragma once

#include "scheduler/route.h"

#include <stdbool.h>
#include <stdint.h>

enum { BLOCK_NONE = 0xFFFFFFFF, BLOCK_TOKENS_MAX = 64 };

struct block {
    uint32_t refs;         // number of sequences that hold the block
    uint32_t leaving;      // holders that release it when their step in flight is settled
    uint32_t newer, older; // neighbours in the LRU list of cached blocks, or BLOCK_NONE
    uint32_t next;         // next block of the same hash bucket, or BLOCK_NONE
    uint32_t parent_id;    // previous block, if its serial is still parent_serial
    uint32_t children;     // number of blocks in the table whose parent is this block
    uint32_t child;        // the child that was linked most recently
    // Serial: new each time the block enters the table; 0: not in the table, no parent.
    uint64_t serial, parent_serial;
    bool in_table, ready;
    bool excluded;            // true if the block must not enter the table before it is freed
    struct hash hash, parent; // hash of this block and of the previous one (or prefix_root)
};

struct kv_event_log; // kv_events.h

struct blocks {
    uint32_t count, tokens; // number of blocks; tokens per block
    struct block *block;    // [count]
    int32_t *token;         // [count][tokens] token ids of the blocks in the table
    uint32_t *free;         // [count] stack of free block ids
    uint32_t *bucket;       // [bucket_mask + 1] first block of each hash bucket, or BLOCK_NONE
    uint32_t bucket_mask;
    struct route_table route; // blocks in the table, for other threads; without lines in some tests
    struct kv_event_log *events; // log of the blocks stored in and removed from the table, or NULL
    uint32_t free_count, cached_count;
    uint32_t releasing_count; // number of used blocks all of whose holders are leaving
    uint32_t newest, oldest;  // ends of the LRU list, or BLOCK_NONE
    uint64_t serials;         // last serial that a block got
    uint64_t breaks;          // number of times a block with children left the table
};

// Returns the number of blocks that block_alloc can return now: free ones plus evictable ones.
static inline uint32_t blocks_available(const struct blocks *blocks)
{
    return blocks->free_count + blocks->cached_count;
}

// Marks all blocks as free and empties the table. The caller has set the arrays, count, tokens and
// bucket_mask, and zeroed the route table.
void blocks_reset(struct blocks *blocks);

// Returns a free block, or the least recently used cached block after removing it from the table.
// The caller becomes its only holder. Requires blocks_available() > 0.
uint32_t block_alloc(struct blocks *blocks);
// Adds a holder to a used or cached block, which must be ready.
void block_ref(struct blocks *blocks, uint32_t id);
// Announces that one holder will release the block when its step in flight is settled. The holder
// then calls block_unref with was_leaving = true.
void block_unref_later(struct blocks *blocks, uint32_t id);
// Removes one holder; was_leaving: true if it was announced with block_unref_later. After the last
// holder the block becomes cached if it is in the table and ready; otherwise it leaves the table
// and becomes free.
void block_unref(struct blocks *blocks, uint32_t id, bool was_leaving);
