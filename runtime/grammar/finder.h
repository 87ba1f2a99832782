// SPDX-License-Identifier: Apache-2.0
// Private header of free_part.c and token_watch.c: one automaton (Aho and Corasick) that finds
// several markers in any text. Nodes are prefixes of markers, in two tries: one of all markers,
// used after nothing but blanks, and one of the markers that count anywhere.
#pragma once

#include "runtime/grammar/internal.h"

// TEXT: root of the markers that count anywhere; HEAD: of all
enum { NODE_NONE, NODE_TEXT, NODE_HEAD, NODE_FIRST };

struct finder_node {
    uint32_t to[256];   // child, or NODE_NONE; after finder_fill the next node for every byte
    uint32_t fail;      // failure link: node of the longest proper suffix in the trie of NODE_TEXT
    uint32_t then;      // grammar_marker.then of the marker that ends here
    bool complete;      // true if a marker is complete at this node
    uint32_t ref, rule; // expression and number of the node's rule
};

struct finder {
    struct grammar_builder *b; // counts the work; NULL: not counted
    // Returns the union of what follows two equal markers. NULL: the first counts.
    uint32_t (*unite)(struct grammar_builder *b, uint32_t one, uint32_t other);
    struct finder_node *nodes;
    uint32_t count, capacity;
    uint32_t *queue, queued; // nodes at which no marker is complete, shortest first
    uint32_t head;           // root for the beginning: NODE_HEAD, or NODE_TEXT without `first`
};

// Builds the automaton. f: b and unite are set, all other members are zero. A marker's `then` is
// any number.
void finder_fill(struct finder *f, const struct grammar_marker *markers, uint32_t count);
void finder_free(struct finder *f);
