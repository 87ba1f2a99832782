// The prefix cache: a table from the chained key of a full block to the block that holds it. Keys
// are 128-bit keyed hashes chained from a root, so a key stands for every token up to the block's
// end; tokens and parent are compared on a hit all the same. Engine thread only.
#pragma once

#include "scheduler/blocks.h"

// Key of the block with these tokens behind `parent`.
struct hash prefix_key(const uint64_t secret[2], const struct hash *parent, const int32_t *tokens,
                       uint32_t count);

struct prefix_name { // what is looked up
    struct hash key, parent;
    const int32_t *tokens; // [blocks->tokens]
    bool lasting;          // prefix_put: kept when nobody holds it
};

// The block of that name, ready or just being computed, or BLOCK_NONE.
uint32_t prefix_find(const struct blocks *blocks, const struct prefix_name *name);

// Names a used block. Its name must not be in the table.
void prefix_put(struct blocks *blocks, uint32_t id, const struct prefix_name *name, bool ready);
void prefix_drop(struct blocks *blocks, uint32_t id);

// The child that was linked to `parent` last, if it has these tokens; else BLOCK_NONE, and others
// may. Saves the key.
uint32_t prefix_follow(const struct blocks *blocks, uint32_t parent, const int32_t *tokens);

// Notes that the keyed block `id` follows `parent`, if that is the block that its name says. A
// chain of such links is whole as long as its last block has the serial it had and `breaks` has not
// grown.
void prefix_link(struct blocks *blocks, uint32_t id, uint32_t parent);

// Takes a used block out of the table, if it is there, and keeps it out until it is free.
void prefix_bar(struct blocks *blocks, uint32_t id);
