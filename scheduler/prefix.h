// The prefix cache: a table from the hash of a full block to the block. The hash is a 128-bit keyed
// hash of the block's tokens and the hash before it, so it stands for all tokens up to the block's
// end; a hit compares tokens and parent as well. Engine thread only.
#pragma once

#include "scheduler/blocks.h"

// What stands for the parent of a prompt's first block: it keeps apart what must not share blocks.
// Salts of requests, or 0; serial and port: of a request where there is no prefix cache, else 0.
struct prefix_apart {
    uint64_t salt[2], serial, port;
};
struct hash prefix_root(const uint64_t secret[2], const struct prefix_apart *apart);

// Hash of the block with these tokens after `parent`.
struct hash prefix_hash(const uint64_t secret[2], const struct hash *parent, const int32_t *tokens,
                        uint32_t count);

struct prefix_name { // what is looked up
    struct hash hash, parent;
    const int32_t *tokens; // [blocks->tokens]
};

// The block of that name, ready or not, or BLOCK_NONE.
uint32_t prefix_find(const struct blocks *blocks, const struct prefix_name *name);

// Enters a used block under a name that is not in the table.
void prefix_put(struct blocks *blocks, uint32_t id, const struct prefix_name *name, bool ready);
void prefix_drop(struct blocks *blocks, uint32_t id);

// The block that was linked to `parent` last if it has these tokens, found without a hash; else
// BLOCK_NONE, and prefix_find may find another.
uint32_t prefix_follow(const struct blocks *blocks, uint32_t parent, const int32_t *tokens);

// Records that the named block `id` follows `parent`, if its name says so. A chain of links is
// whole while its last block keeps its serial and `breaks` does not grow.
void prefix_link(struct blocks *blocks, uint32_t id, uint32_t parent);

// Takes a used block out of the table and keeps it out until it is free.
void prefix_bar(struct blocks *blocks, uint32_t id);
