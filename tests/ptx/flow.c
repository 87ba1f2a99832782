// SPDX-License-Identifier: Apache-2.0
// Finds where the lanes of a warp reconverge after a divergent branch: at its nearest
// post-dominator, the first instruction that is on every path to the end.
//
// Post-dominators are the dominators of the reversed graph, computed as in Cooper, Harvey, Kennedy:
// "A simple, fast dominance algorithm" (2001), over basic blocks. The end of the kernel is a
// separate block.
#include "tests/ptx/internal.h"

#include <stdlib.h>

enum { NONE = UINT32_MAX };

struct basic_block {
    uint32_t first, last; // range of instructions
    uint32_t next[2], next_count;
    uint32_t order; // number in the traversal from the end; higher is nearer to the end
    uint32_t post;  // nearest post-dominator
    bool seen;
};

struct graph {
    struct basic_block *blocks; // basic blocks; the last one is the end
    uint32_t count;
    uint32_t *of;        // block of each instruction
    uint32_t *before_at; // start of each block's list of predecessors
    uint32_t *before;
    uint32_t *walk; // blocks that reach the end, in traversal order
    uint32_t walked;
};

static bool ends_block(const struct ptx_ins *i)
{
    return i->flow == FLOW_BRANCH || i->flow == FLOW_RETURN;
}

static void blocks_cut(const struct ptx_kernel *k, struct graph *g)
{
    bool *first = calloc(k->code_count + 1, 1);
    if (!first)
        abort();
    first[0] = true;
    for (uint32_t n = 0; n < k->code_count; n++) {
        if (k->code[n].flow == FLOW_BRANCH)
            first[k->code[n].target] = true;
        if (ends_block(&k->code[n]))
            first[n + 1] = true;
    }
    for (uint32_t n = 0; n < k->code_count; n++) {
        if (first[n])
            g->blocks[g->count++].first = n;
        g->blocks[g->count - 1].last = n;
        g->of[n] = g->count - 1;
    }
    g->of[k->code_count] = g->count++; // the block of the end
    free(first);
}

static void edge_add(struct basic_block *b, uint32_t to)
{
    b->next[b->next_count++] = to;
}

// Adds the edges of the blocks. Returns false if the last instruction does not leave the kernel.
static bool edges_add(const struct ptx_kernel *k, struct graph *g)
{
    for (uint32_t n = 0; n + 1 < g->count; n++) {
        struct basic_block *b = &g->blocks[n];
        const struct ptx_ins *i = &k->code[b->last];
        bool always = i->guard.absent;
        if (i->flow == FLOW_BRANCH)
            edge_add(b, g->of[i->target]);
        if (i->flow == FLOW_RETURN)
            edge_add(b, g->count - 1);
        if (ends_block(i) && always)
            continue;
        if (b->last + 1 == k->code_count)
            return false;
        edge_add(b, n + 1);
    }
    return true;
}

static void predecessors_list(struct graph *g)
{
    for (uint32_t n = 0; n < g->count; n++)
        for (uint32_t e = 0; e < g->blocks[n].next_count; e++)
            g->before_at[g->blocks[n].next[e] + 1]++;
    for (uint32_t n = 0; n < g->count; n++)
        g->before_at[n + 1] += g->before_at[n];
    uint32_t *filled = calloc(g->count, sizeof *filled);
    if (!filled)
        abort();
    for (uint32_t n = 0; n < g->count; n++)
        for (uint32_t e = 0; e < g->blocks[n].next_count; e++) {
            uint32_t to = g->blocks[n].next[e];
            g->before[g->before_at[to] + filled[to]++] = n;
        }
    free(filled);
}

// Traverses depth first from the end against the edges; a block is numbered after all its
// successors in this traversal.
static void walk_from_end(struct graph *g)
{
    uint32_t *stack = calloc(g->count, sizeof *stack), *at = calloc(g->count, sizeof *at);
    if (!stack || !at)
        abort();
    uint32_t depth = 0, number = 0;
    stack[depth++] = g->count - 1;
    g->blocks[g->count - 1].seen = true;
    while (depth != 0) {
        uint32_t n = stack[depth - 1];
        if (at[n] < g->before_at[n + 1] - g->before_at[n]) {
            uint32_t to = g->before[g->before_at[n] + at[n]++];
            if (!g->blocks[to].seen) {
                g->blocks[to].seen = true;
                stack[depth++] = to;
            }
            continue;
        }
        g->blocks[n].order = number;
        g->walk[number++] = n;
        depth--;
    }
    g->walked = number;
    free(stack);
    free(at);
}

static uint32_t common(const struct graph *g, uint32_t x, uint32_t y)
{
    while (x != y) {
        while (g->blocks[x].order < g->blocks[y].order)
            x = g->blocks[x].post;
        while (g->blocks[y].order < g->blocks[x].order)
            y = g->blocks[y].post;
    }
    return x;
}

static void post_dominators(struct graph *g)
{
    uint32_t end = g->count - 1;
    for (uint32_t n = 0; n < g->count; n++)
        g->blocks[n].post = NONE;
    g->blocks[end].post = end;
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t w = g->walked - 1; w-- > 0;) { // the end is last
            struct basic_block *b = &g->blocks[g->walk[w]];
            uint32_t post = NONE;
            for (uint32_t e = 0; e < b->next_count; e++)
                if (g->blocks[b->next[e]].post != NONE)
                    post = post == NONE ? b->next[e] : common(g, b->next[e], post);
            changed = changed || post != b->post;
            b->post = post;
        }
    }
}

bool ptx_flow(struct ptx_kernel *k)
{
    if (k->code_count == 0)
        return false;
    size_t room = (size_t)k->code_count + 2;
    struct graph g = {.blocks = calloc(room, sizeof *g.blocks),
                      .of = calloc(room, sizeof *g.of),
                      .before_at = calloc(room + 1, sizeof *g.before_at),
                      .before = calloc(2 * room, sizeof *g.before),
                      .walk = calloc(room, sizeof *g.walk)};
    if (!g.blocks || !g.of || !g.before_at || !g.before || !g.walk)
        abort();
    blocks_cut(k, &g);
    bool fine = edges_add(k, &g);
    if (fine) {
        predecessors_list(&g);
        walk_from_end(&g);
        post_dominators(&g);
    }
    for (uint32_t n = 0; fine && n < k->code_count; n++) {
        uint32_t post = g.blocks[g.of[n]].post;
        k->code[n].meet =
            post == NONE || post + 1 == g.count ? k->code_count : g.blocks[post].first;
    }
    free(g.blocks);
    free(g.of);
    free(g.before_at);
    free(g.before);
    free(g.walk);
    return fine;
}
