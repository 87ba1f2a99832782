// SPDX-License-Identifier: Apache-2.0
// A hash table from token bytes to ids, and a trie over token bytes. Both are filled when a
// tokenizer is opened and constant afterwards.
#pragma once

#include "base/arena.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

// A key of at most 16 bytes is stored in its entry, so that a lookup touches one cache line.
struct word_entry {
    uint64_t low, high; // first and last eight bytes of the key
    const char *at;     // the key; NULL: empty entry
    uint32_t id;
    uint32_t bytes;
};

struct word_table {
    struct word_entry *entries; // [mask + 1]
    uint64_t mask;
};

// Allocates a table for at most `count` keys. Returns false if the arena is full.
bool word_table_init(struct word_table *table, struct arena *arena, size_t count);
// Stores a key, replacing an earlier id of it. The bytes are not copied.
void word_table_put(struct word_table *table, struct text key, uint32_t id);
// Returns the entry of a key, or NULL.
struct word_entry *word_table_find(const struct word_table *table, const char *at, size_t bytes);

struct trie_edge {
    uint32_t key; // node << 8 | byte; 0: empty entry
    uint32_t to;
};

struct trie {
    struct trie_edge *edges; // [mask + 1] open-addressing hash, on the heap
    uint32_t mask;
    uint32_t edge_count;
    int32_t *values; // [node] i32, value of the key that ends at the node; -1: none; on the heap
    uint32_t node_count, nodes_max;
    uint32_t root[256]; // child of the root node for each byte; 0: none
};

enum { TRIE_NODES_MAX = 1 << 24 };

void trie_init(struct trie *trie);
void trie_free(struct trie *trie);
// Stores a key's value, replacing an earlier one. Empty keys are ignored. Returns false if the trie
// would exceed TRIE_NODES_MAX nodes.
bool trie_put(struct trie *trie, struct text key, int32_t value);
int32_t trie_get(const struct trie *trie, struct text key); // -1: no such key
// As trie_step, for nodes other than the root.
uint32_t trie_find_edge(const struct trie *trie, uint32_t node, unsigned char byte);

// Returns the child of a node for this byte; 0: none.
static inline uint32_t trie_step(const struct trie *trie, uint32_t node, unsigned char byte)
{
    return node == 0 ? trie->root[byte] : trie_find_edge(trie, node, byte);
}
