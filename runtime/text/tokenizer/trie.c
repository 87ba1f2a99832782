// SPDX-License-Identifier: Apache-2.0
// A byte trie whose edges are in one hash table; see tokenizer/vocab.h. Used for added tokens and
// for the pieces of Unigram and WordPiece models.
#include "runtime/text/tokenizer/vocab.h"

static uint32_t edge_hash(uint32_t key)
{
    uint32_t hash = key * 0x9E3779B1u;
    return hash ^ hash >> 15;
}

void trie_init(struct trie *trie)
{
    *trie = (struct trie){.mask = 255, .node_count = 1, .nodes_max = 64};
    trie->edges = heap_alloc_zeroed(256, sizeof *trie->edges);
    trie->values = heap_alloc(trie->nodes_max * sizeof *trie->values);
    trie->values[0] = -1;
}

void trie_free(struct trie *trie)
{
    heap_free(trie->edges);
    heap_free(trie->values);
    *trie = (struct trie){0};
}

static struct trie_edge *edge_for(struct trie_edge *edges, uint32_t mask, uint32_t key)
{
    uint32_t i = edge_hash(key) & mask;
    while (edges[i].key != 0 && edges[i].key != key)
        i = (i + 1) & mask;
    return &edges[i];
}

uint32_t trie_find_edge(const struct trie *trie, uint32_t node, unsigned char byte)
{
    return edge_for(trie->edges, trie->mask, node << 8 | byte)->to;
}

static void grow_edges(struct trie *trie)
{
    uint32_t mask = trie->mask * 2 + 1;
    struct trie_edge *edges = heap_alloc_zeroed((size_t)mask + 1, sizeof *edges);
    for (uint32_t i = 0; i <= trie->mask; i++)
        if (trie->edges[i].key != 0)
            *edge_for(edges, mask, trie->edges[i].key) = trie->edges[i];
    heap_free(trie->edges);
    trie->edges = edges;
    trie->mask = mask;
}

static uint32_t add_node(struct trie *trie)
{
    if (trie->node_count == trie->nodes_max) {
        trie->nodes_max *= 2;
        trie->values = heap_grow(trie->values, trie->nodes_max * sizeof *trie->values);
    }
    trie->values[trie->node_count] = -1;
    return trie->node_count++;
}

int32_t trie_get(const struct trie *trie, struct text key)
{
    uint32_t node = 0;
    for (size_t i = 0; i < key.bytes; i++) {
        node = trie_step(trie, node, (unsigned char)key.at[i]);
        if (node == 0)
            return -1;
    }
    return trie->values[node];
}

bool trie_put(struct trie *trie, struct text key, int32_t value)
{
    uint32_t node = 0;
    for (size_t i = 0; i < key.bytes; i++) {
        unsigned char byte = (unsigned char)key.at[i];
        uint32_t next = trie_step(trie, node, byte);
        if (next == 0) {
            if (trie->node_count >= TRIE_NODES_MAX)
                return false;
            next = add_node(trie);
            if (node == 0) {
                trie->root[byte] = next;
            } else {
                if (++trie->edge_count * 2 > trie->mask)
                    grow_edges(trie);
                *edge_for(trie->edges, trie->mask, node << 8 | byte) =
                    (struct trie_edge){node << 8 | byte, next};
            }
        }
        node = next;
    }
    if (node != 0)
        trie->values[node] = value;
    return true;
}
