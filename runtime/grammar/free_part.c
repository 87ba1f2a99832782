// SPDX-License-Identifier: Apache-2.0
// Free parts: any text up to the first of several markers. One automaton (Aho and Corasick) finds
// all markers together, and each of its nodes becomes a rule. Nodes are prefixes of markers, in two
// tries: one of all markers, used after nothing but blanks, and one of the markers that count
// anywhere.
#include "runtime/grammar/internal.h"

#include "base/arena.h"

#include <string.h>

// TEXT: root of the markers that count anywhere; HEAD: of all
enum { NODE_NONE, NODE_TEXT, NODE_HEAD, NODE_FIRST };

struct node {
    uint32_t to[256];   // child, or NODE_NONE; after steps_fill the next node for every byte
    uint32_t fail;      // failure link: node of the longest proper suffix in the trie of NODE_TEXT
    uint32_t then;      // expression after the marker
    bool complete;      // true if a marker is complete at this node
    uint32_t ref, rule; // expression and number of the node's rule
};

struct finder {
    struct grammar_builder *b;
    struct node *nodes;
    uint32_t count, capacity;
    uint32_t *queue, queued; // nodes at which no marker is complete, shortest first
};

static uint32_t node_make(struct finder *f)
{
    if (f->count == f->capacity) {
        f->capacity = f->capacity == 0 ? 64 : 2 * f->capacity;
        f->nodes = heap_grow(f->nodes, f->capacity * sizeof *f->nodes);
    }
    memset(&f->nodes[f->count], 0, sizeof *f->nodes);
    return f->count++;
}

static void marker_put(struct finder *f, uint32_t root, const struct grammar_marker *marker)
{
    uint32_t at = root;
    for (size_t i = 0; i < marker->text.bytes; i++) {
        uint8_t byte = (uint8_t)marker->text.at[i];
        if (f->nodes[at].to[byte] == NODE_NONE) {
            uint32_t made = node_make(f); // reallocates f->nodes
            f->nodes[at].to[byte] = made;
        }
        at = f->nodes[at].to[byte];
    }
    struct node *end = &f->nodes[at];
    end->then = end->complete ? grammar_either(f->b, end->then, marker->then) : marker->then;
    end->complete = true;
}

// Returns the next node for a byte with which no marker continues.
static uint32_t node_fallback(const struct finder *f, uint32_t at, uint32_t byte)
{
    if (at == NODE_TEXT)
        return NODE_TEXT;
    if (at == NODE_HEAD && (byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n'))
        return NODE_HEAD;
    return f->nodes[at == NODE_HEAD ? (uint32_t)NODE_TEXT : f->nodes[at].fail].to[byte];
}

// Computes all transitions of a trie. NODE_TEXT must be done first, because fallbacks lead into it.
static void steps_fill(struct finder *f, uint32_t root)
{
    uint32_t read = f->queued;
    f->queue[f->queued++] = root;
    for (; read < f->queued && grammar_spend(f->b, 512); read++) {
        uint32_t at = f->queue[read];
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t child = f->nodes[at].to[byte];
            if (child == NODE_NONE) {
                f->nodes[at].to[byte] = node_fallback(f, at, byte);
                continue;
            }
            struct node *node = &f->nodes[child];
            node->fail = node_fallback(f, at, byte);
            if (!node->complete && f->nodes[node->fail].complete) { // a shorter marker ends here
                node->complete = true;
                node->then = f->nodes[node->fail].then;
            }
            if (!node->complete)
                f->queue[f->queued++] = child;
        }
    }
}

// The body of a node's rule. Bytes that lead to the same node share a set.
static uint32_t body_of(const struct finder *f, const struct node *node, bool must)
{
    uint32_t body = must ? GRAMMAR_NOTHING : GRAMMAR_EMPTY;
    uint32_t seen[SET_WORDS] = {0};
    for (uint32_t first = 0; first < 256; first++) {
        uint32_t set[SET_WORDS] = {0}, to = node->to[first];
        if (set_has(seen, first))
            continue;
        for (uint32_t byte = first; byte < 256; byte++)
            if (node->to[byte] == to) {
                set[byte / 32] |= 1u << (byte % 32);
                seen[byte / 32] |= 1u << (byte % 32);
            }
        uint32_t next = f->nodes[to].complete ? f->nodes[to].then : f->nodes[to].ref;
        body = grammar_either(f->b, grammar_join(f->b, grammar_byte_set(f->b, set), next), body);
    }
    return body;
}

static uint32_t rules_make(struct finder *f, uint32_t root, bool must)
{
    struct grammar_builder *b = f->b;
    for (uint32_t i = 0; i < f->queued; i++) {
        struct node *node = &f->nodes[f->queue[i]];
        node->ref = grammar_rule(b, text_of("free"), &node->rule);
    }
    for (uint32_t i = 0; i < f->queued && !grammar_failed(b); i++) {
        const struct node *node = &f->nodes[f->queue[i]];
        grammar_rule_set(b, node->rule, body_of(f, node, must));
    }
    return grammar_failed(b) ? GRAMMAR_NOTHING : f->nodes[root].ref;
}

uint32_t grammar_free_part(struct grammar_builder *b, const struct grammar_free_part *part)
{
    struct finder f = {.b = b};
    bool head = false;
    while (f.count < NODE_FIRST)
        node_make(&f);
    for (uint32_t i = 0; i < part->count; i++) {
        size_t bytes = part->markers[i].text.bytes;
        check(bytes > 0 && bytes <= GRAMMAR_MARKER_BYTES_MAX, "a marker of %zu bytes", bytes);
        head |= part->markers[i].first;
        marker_put(&f, NODE_HEAD, &part->markers[i]);
        if (!part->markers[i].first)
            marker_put(&f, NODE_TEXT, &part->markers[i]);
    }
    f.queue = heap_alloc(f.count * sizeof *f.queue);
    steps_fill(&f, NODE_TEXT);
    if (head)
        steps_fill(&f, NODE_HEAD);
    uint32_t result = GRAMMAR_NOTHING;
    if (!grammar_failed(b))
        result = rules_make(&f, head ? NODE_HEAD : NODE_TEXT, part->must);
    heap_free(f.queue);
    heap_free(f.nodes);
    return result;
}
