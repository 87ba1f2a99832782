// The states of KV blocks, as integers: which sequences hold a block, which blocks are free, and
// which only the prefix cache keeps. Each block is in exactly one state:
//
//            block_take                       block_give, last holder, not named or not ready
//    free ---------------> used (refs > 0) ------------------------------------------> free
//     ^                     ^    |
//     | block_take evicts   |    | block_give, last holder, named, ready
//     | the oldest          |    v
//     +------------------- cached (refs == 0, in the LRU list)
//                 block_share
//
// A full block is `named` while the prefix table (prefix.h) lists it under the hash of its tokens
// and all tokens before them. A named block is `ready` once the step that computes it is settled;
// until then other sequences wait for it. Engine thread only; the engine owns the arrays.
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
    uint32_t children;     // number of named blocks whose parent is this block
    uint32_t child;        // the child that was linked most recently
    // Serial: new each time the block is named; 0: not named, no parent.
    uint64_t serial, parent_serial;
    bool named, ready;
    bool barred;              // true if the block must not be named again before it is freed
    struct hash hash, parent; // hash of this block and of the previous one (or prefix_root)
};

struct blocks {
    uint32_t count, tokens; // number of blocks; tokens per block
    struct block *block;    // [count]
    int32_t *token;         // [count][tokens] token ids of the named blocks
    uint32_t *free;         // [count] stack of free block ids
    uint32_t *bucket;       // [bucket_mask + 1] first block of each hash bucket, or BLOCK_NONE
    uint32_t bucket_mask;
    struct route_table route; // named blocks, for other threads; without lines in some tests
    uint32_t free_count, cached_count;
    uint32_t releasing_count; // number of used blocks all of whose holders are leaving
    uint32_t newest, oldest;  // ends of the LRU list, or BLOCK_NONE
    uint64_t serials;         // last serial given to a named block
    uint64_t breaks;          // number of times a block lost its name while it had named children
};

// Returns the number of blocks that block_take can return now: free ones plus evictable ones.
static inline uint32_t blocks_available(const struct blocks *blocks)
{
    return blocks->free_count + blocks->cached_count;
}

// Marks all blocks as free. The caller has set the arrays, count, tokens and bucket_mask.
void blocks_reset(struct blocks *blocks);

// Returns a free block, or the least recently used cached block after removing its name. The caller
// becomes its only holder. Requires blocks_available() > 0.
uint32_t block_take(struct blocks *blocks);
// Adds a holder to a used or cached block, which must be ready.
void block_share(struct blocks *blocks, uint32_t id);
// Announces that one holder will release the block when its step in flight is settled; it then
// calls block_give with was_leaving = true.
void block_leave(struct blocks *blocks, uint32_t id);
// Removes one holder. After the last one the block becomes cached if it is named and ready,
// otherwise free.
void block_give(struct blocks *blocks, uint32_t id, bool was_leaving);
