// KV blocks as integers: who holds which, which are free, which only the prefix cache keeps. Each
// block is in exactly one state:
//
//            block_take                       block_give, last holder, not named or not ready
//    free ---------------> used (refs > 0) ------------------------------------------> free
//     ^                     ^    |
//     | block_take evicts   |    | block_give, last holder, named, ready
//     | the oldest          |    v
//     +------------------- cached (refs == 0, in the LRU list)
//                 block_share
//
// A hash names the tokens of a full block and all before it (prefix.h). A named block is `ready`
// once the step that computes it is settled; until then others wait for it. Engine thread only.
#pragma once

#include "scheduler/route.h"

#include <stdbool.h>
#include <stdint.h>

enum { BLOCK_NONE = 0xFFFFFFFF, BLOCK_TOKENS_MAX = 64 };

struct block {
    uint32_t refs;         // sequences that hold it
    uint32_t leaving;      // of those, the ones that give it back when their step is settled
    uint32_t newer, older; // LRU list of cached blocks
    uint32_t next;         // in its bucket
    uint32_t parent_id;    // the block before it, if that is still block parent_serial
    uint32_t children;     // named blocks that have this one as parent
    uint32_t child;        // the one of them that was linked last
    uint64_t serial, parent_serial; // serial: new with each name; 0: not named
    bool named, ready;
    bool barred;              // not to be named again until it is free
    struct hash hash, parent; // of this block; of the one before it (or the root)
};

struct blocks {
    uint32_t count, tokens; // blocks; tokens a block
    struct block *block;    // [count]
    int32_t *token;         // [count][tokens] of named blocks
    uint32_t *free;         // [count] stack
    uint32_t *bucket;       // [bucket_mask + 1] heads of chains
    uint32_t bucket_mask;
    struct route_table route; // of named blocks, for other threads; without lines in some tests
    uint32_t free_count, cached_count;
    uint32_t releasing_count; // used blocks all of whose holders are leaving
    uint32_t newest, oldest;  // ends of the LRU list
    uint64_t serials;         // names given so far
    uint64_t breaks;          // how often a block lost its name while a child kept one
};

static inline uint32_t blocks_available(const struct blocks *blocks)
{
    return blocks->free_count + blocks->cached_count;
}

void blocks_reset(struct blocks *blocks); // all free; arrays and counts are set by the caller

uint32_t block_take(struct blocks *blocks); // needs blocks_available() > 0
void block_share(struct blocks *blocks, uint32_t id);
void block_leave(struct blocks *blocks,
                 uint32_t id); // the holder gives it back when its step is settled
void block_give(struct blocks *blocks, uint32_t id, bool was_leaving);
