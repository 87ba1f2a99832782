// SPDX-License-Identifier: Apache-2.0
// See finder.h.
#include "runtime/grammar/finder.h"

#include "base/arena.h"

#include <string.h>

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
    struct finder_node *end = &f->nodes[at];
    if (!end->complete)
        end->then = marker->then;
    else if (f->unite)
        end->then = f->unite(f->b, end->then, marker->then);
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
    for (; read < f->queued && (!f->b || grammar_spend(f->b, 512)); read++) {
        uint32_t at = f->queue[read];
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t child = f->nodes[at].to[byte];
            if (child == NODE_NONE) {
                f->nodes[at].to[byte] = node_fallback(f, at, byte);
                continue;
            }
            struct finder_node *node = &f->nodes[child];
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

void finder_fill(struct finder *f, const struct grammar_marker *markers, uint32_t count)
{
    bool head = false;
    while (f->count < NODE_FIRST)
        node_make(f);
    for (uint32_t i = 0; i < count; i++) {
        size_t bytes = markers[i].text.bytes;
        check(bytes > 0 && bytes <= GRAMMAR_MARKER_BYTES_MAX, "a marker of %zu bytes", bytes);
        head |= markers[i].first;
        marker_put(f, NODE_HEAD, &markers[i]);
        if (!markers[i].first)
            marker_put(f, NODE_TEXT, &markers[i]);
    }
    f->queue = heap_alloc(f->count * sizeof *f->queue);
    f->head = head ? NODE_HEAD : NODE_TEXT;
    steps_fill(f, NODE_TEXT);
    if (head)
        steps_fill(f, NODE_HEAD);
}

void finder_free(struct finder *f)
{
    heap_free(f->queue);
    heap_free(f->nodes);
}
