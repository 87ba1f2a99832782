// Hash from token bytes to ids, and a trie over token bytes. Built at open, then constant.
#pragma once

#include "base/arena.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

// A key of at most 16 bytes lies in its entry as a whole, so that a find touches one cache line.
struct word_entry {
    uint64_t low, high; // first and last eight bytes
    const char *at;     // NULL: empty
    uint32_t id;
    uint32_t bytes;
};

struct word_table {
    struct word_entry *entries; // [mask + 1]
    uint64_t mask;
};

// Room for count keys at most; false: the arena is full.
bool word_table_init(struct word_table *table, struct arena *arena, size_t count);
// The last id of a key wins; the bytes are not copied.
void word_table_put(struct word_table *table, struct text key, uint32_t id);
// NULL: not there.
struct word_entry *word_table_find(const struct word_table *table, const char *at, size_t bytes);

struct trie_edge {
    uint32_t key; // node << 8 | byte, 0 for an empty entry
    uint32_t to;
};

struct trie {
    struct trie_edge *edges; // [mask + 1], on the heap
    uint32_t mask;
    uint32_t edge_count;
    int32_t *values; // [node] i32: what ends at the node, -1: nothing; on the heap
    uint32_t node_count, nodes_max;
    uint32_t root[256]; // children of the first node
};

enum { TRIE_NODES_MAX = 1 << 24 };

void trie_init(struct trie *trie);
void trie_free(struct trie *trie);
// Empty keys are ignored. false: more than TRIE_NODES_MAX nodes.
bool trie_put(struct trie *trie, struct text key, int32_t value);
int32_t trie_get(const struct trie *trie, struct text key); // the value of a key, -1: none
uint32_t trie_find_edge(const struct trie *trie, uint32_t node, unsigned char byte);

// The child of a node, 0: none.
static inline uint32_t trie_step(const struct trie *trie, uint32_t node, unsigned char byte)
{
    return node == 0 ? trie->root[byte] : trie_find_edge(trie, node, byte);
}
