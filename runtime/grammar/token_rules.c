// SPDX-License-Identifier: Apache-2.0
// Banned sequences are a trie with failure links (Aho and Corasick): a position is the node of the
// longest prefix of a sequence that the answer ends with. Banned sequences of one id are removed
// from the allowed ids instead. See token_rules.h.
#include "runtime/grammar/token_rules.h"

#include "base/arena.h"
#include "base/status.h"
#include "runtime/grammar/vocabulary.h"

#include <stdatomic.h>
#include <string.h>

enum { ROOT = TOKEN_RULES_START }; // the root is no child or sibling, so 0 means "none" there

struct bad_node {
    int32_t token;
    uint32_t child, sibling; // first child; next child of the same parent
    uint32_t fail;           // node of the longest proper suffix
    bool ends;               // true if a sequence is complete here
};

struct token_rules {
    _Atomic uint32_t owners;
    uint32_t vocab, words;
    uint32_t *allowed; // [words]
    struct bad_node *nodes;
    uint32_t node_count;
    struct token_budget *budget; // or NULL
};

static uint32_t child_of(const struct token_rules *r, uint32_t at, int32_t token)
{
    uint32_t child = r->nodes[at].child;
    while (child != 0 && r->nodes[child].token != token)
        child = r->nodes[child].sibling;
    return child;
}

static void sequence_put(struct token_rules *r, const int32_t *tokens, uint32_t count)
{
    uint32_t at = ROOT;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t child = child_of(r, at, tokens[i]);
        if (child == 0) {
            child = r->node_count++;
            r->nodes[child] = (struct bad_node){.token = tokens[i], .sibling = r->nodes[at].child};
            r->nodes[at].child = child;
        }
        at = child;
    }
    r->nodes[at].ends = true;
}

// Breadth first: the link of a node depends on those of shorter nodes.
static void links_make(struct token_rules *r)
{
    uint32_t *queue = heap_alloc(r->node_count * sizeof *queue);
    uint32_t head = 0, tail = 0;
    for (uint32_t c = r->nodes[ROOT].child; c != 0; c = r->nodes[c].sibling)
        queue[tail++] = c; // the link of these is the root
    while (head < tail) {
        uint32_t at = queue[head++];
        for (uint32_t c = r->nodes[at].child; c != 0; c = r->nodes[c].sibling) {
            r->nodes[c].fail = token_rules_next(r, r->nodes[at].fail, r->nodes[c].token);
            queue[tail++] = c;
        }
    }
    heap_free(queue);
}

static void id_set(uint32_t *words, int32_t id, bool allowed)
{
    if (allowed)
        words[id / 32] |= 1u << id % 32;
    else
        words[id / 32] &= ~(1u << id % 32);
}

static void allowed_fill(struct token_rules *r, const struct token_rules_args *args)
{
    for (uint32_t i = 0; i < args->allowed_count; i++)
        id_set(r->allowed, args->allowed[i], true);
    for (uint32_t i = 0; args->allowed_count == 0 && i < r->vocab; i++)
        id_set(r->allowed, (int32_t)i, true);
}

struct token_rules *token_rules_create(const struct token_rules_args *args)
{
    struct token_rules *r = heap_alloc_zeroed(1, sizeof *r);
    atomic_init(&r->owners, 1);
    r->vocab = args->vocab;
    r->words = (args->vocab + 31) / 32;
    r->allowed = heap_alloc_zeroed(r->words, sizeof *r->allowed);
    uint32_t tokens = args->bad_count > 0 ? args->bad_start[args->bad_count] : 0;
    r->nodes = heap_alloc_zeroed(tokens + 1, sizeof *r->nodes);
    r->node_count = 1;
    allowed_fill(r, args);
    for (uint32_t i = 0; i < args->bad_count; i++) {
        uint32_t from = args->bad_start[i], count = args->bad_start[i + 1] - from;
        if (count == 1)
            id_set(r->allowed, args->bad[from], false);
        else
            sequence_put(r, args->bad + from, count);
    }
    links_make(r);
    if (!mask_is_empty(r->allowed, r->words))
        return r;
    token_rules_unref(r);
    return NULL;
}

void token_rules_limit(struct token_rules *r, const struct token_budget *budget)
{
    check(!r->budget, "rules have one budget");
    r->budget = heap_alloc(sizeof *r->budget);
    *r->budget = *budget;
}

const struct token_budget *token_rules_budget(const struct token_rules *r)
{
    return r->budget;
}

struct token_rules *token_rules_ref(struct token_rules *r)
{
    // relaxed: the caller already holds a reference, so nothing has to be ordered
    atomic_fetch_add_explicit(&r->owners, 1, memory_order_relaxed);
    return r;
}

void token_rules_unref(struct token_rules *r)
{
    // acq_rel: all accesses by other owners happen before the last owner frees it
    if (!r || atomic_fetch_sub_explicit(&r->owners, 1, memory_order_acq_rel) != 1)
        return;
    heap_free(r->allowed);
    heap_free(r->nodes);
    heap_free(r->budget);
    heap_free(r);
}

uint32_t token_rules_vocab(const struct token_rules *r)
{
    return r->vocab;
}

uint32_t token_rules_owners(const struct token_rules *r)
{
    return atomic_load_explicit(&r->owners, memory_order_acquire);
}

uint32_t token_rules_next(const struct token_rules *r, uint32_t at, int32_t token)
{
    uint32_t child;
    while ((child = child_of(r, at, token)) == 0 && at != ROOT)
        at = r->nodes[at].fail;
    return child;
}

bool token_rules_apply(const struct token_rules *r, uint32_t at, uint32_t *words)
{
    for (uint32_t i = 0; i < r->words; i++)
        words[i] &= r->allowed[i];
    for (; at != ROOT; at = r->nodes[at].fail)
        for (uint32_t c = r->nodes[at].child; c != 0; c = r->nodes[c].sibling)
            if (r->nodes[c].ends)
                id_set(words, r->nodes[c].token, false);
    return !mask_is_empty(words, r->words);
}

void token_rules_row(const struct token_rules *r, uint32_t *words)
{
    memcpy(words, r->allowed, r->words * sizeof *words);
}
