// SPDX-License-Identifier: Apache-2.0
// The prefix cache: a table from the hash of a full block to the block. The hash is a 128-bit keyed
// hash of the block's tokens and of the previous block's hash, so it identifies all tokens up to
// the block's end; a lookup compares tokens and parent hash as well. Engine thread only, except
// prefix_root and prefix_hash, which any thread may call.
#pragma once

#include "scheduler/blocks.h"

// Input of the root hash, the parent of a prompt's first block. Prompts with different roots share
// no blocks. salt and owner: of the request, or 0. serial and port: of the request if there is no
// prefix cache, so that only its own choices share blocks; else 0.
struct prefix_apart {
    uint64_t salt[2], owner, serial, port;
};
// Returns the root hash.
struct hash prefix_root(const uint64_t secret[2], const struct prefix_apart *apart);

// Returns the hash of a block with `count` tokens, at most BLOCK_TOKENS_MAX, whose parent's hash is
// `parent`.
struct hash prefix_hash(const uint64_t secret[2], const struct hash *parent, const int32_t *tokens,
                        uint32_t count);

struct prefix_key { // identity of a full block
    struct hash hash, parent;
    const int32_t *tokens; // [blocks->tokens]
};

// Returns the block of that key, ready or not, or BLOCK_NONE.
uint32_t prefix_find(const struct blocks *blocks, const struct prefix_key *key);

// Enters a used block that is not in the table under a key that is not in the table; copies the
// tokens. Does nothing if the block is excluded.
void prefix_put(struct blocks *blocks, uint32_t id, const struct prefix_key *key, bool ready);
// Marks a block of the table as ready and records KV_STORED (kv_events.h); does nothing if it is
// ready. first: true if the block is the first of its prompt.
void prefix_settle(struct blocks *blocks, uint32_t id, bool first);
// Removes a block from the table.
void prefix_drop(struct blocks *blocks, uint32_t id);

// Returns the block that was linked to `parent` most recently if it has these tokens. Needs no
// hash. Returns BLOCK_NONE otherwise; prefix_find may still find a block.
uint32_t prefix_follow(const struct blocks *blocks, uint32_t parent, const int32_t *tokens);

// Records that the block `id` of the table follows `parent`, if its parent hash is that of
// `parent`. No block of a chain of links was dropped as long as its last block keeps its serial and
// `breaks` is unchanged.
void prefix_link(struct blocks *blocks, uint32_t id, uint32_t parent);

// Removes a used block from the table and keeps it out until it is free.
void prefix_exclude(struct blocks *blocks, uint32_t id);
