// SPDX-License-Identifier: Apache-2.0
// Properties of expressions: least solutions over all expressions together, and cycles of rules.
// All of it runs in linear time and without recursion, because clients send the grammars.
#include "runtime/grammar/internal.h"

#include "base/arena.h"

#include <string.h>

// Writes the children of an expression to out and returns their number.
static uint32_t expr_children(const struct grammar_builder *b, uint32_t e, uint32_t out[2])
{
    const struct expr *x = expr_of(b, e);
    switch (x->kind) {
    case EXPR_JOIN:
    case EXPR_EITHER:
    case EXPR_ONCE:
        out[0] = x->a;
        out[1] = x->b;
        return 2;
    case EXPR_REPEAT:
    case EXPR_LEVEL:
        out[0] = x->a;
        return 1;
    case EXPR_RULE:
        out[0] = (uint32_t)b->rules[x->a].body;
        return b->rules[x->a].body == RULE_UNSET ? 0 : 1;
    default:
        return 0;
    }
}

void expr_mark_reachable(const struct grammar_builder *b, uint32_t root, uint8_t *wanted)
{
    uint32_t *stack = heap_alloc((b->exprs.count + 1) * sizeof *stack), depth = 0, below[2];
    memset(wanted, 0, b->exprs.count);
    wanted[root] = 1;
    stack[depth++] = root;
    while (depth > 0) {
        uint32_t count = expr_children(b, stack[--depth], below);
        for (uint32_t i = 0; i < count; i++)
            if (!wanted[below[i]]) {
                wanted[below[i]] = 1;
                stack[depth++] = below[i];
            }
    }
    heap_free(stack);
}

// For each expression, the expressions that have it as a child.
struct users {
    uint32_t *first; // [expr_count + 1] index into at
    uint32_t *at;
};

static struct users users_of(const struct grammar_builder *b, const uint8_t *wanted)
{
    uint32_t n = b->exprs.count, below[2];
    struct users u = {.first = heap_alloc_zeroed(n + 2, sizeof *u.first)};
    for (uint32_t e = 0; e < n; e++)
        for (uint32_t i = wanted[e] ? expr_children(b, e, below) : 0; i > 0; i--)
            u.first[below[i - 1] + 2]++;
    for (uint32_t e = 2; e <= n + 1; e++)
        u.first[e] += u.first[e - 1];
    u.at = heap_alloc((u.first[n + 1] + 1) * sizeof *u.at);
    for (uint32_t e = 0; e < n; e++)
        for (uint32_t i = wanted[e] ? expr_children(b, e, below) : 0; i > 0; i--)
            u.at[u.first[below[i - 1] + 1]++] = e;
    return u;
}

// On entry truth marks expressions that are trivially true. Extends it to the least solution: a
// JOIN is true if both children are, any other expression if one child is.
static void truth_spread(const struct grammar_builder *b, const uint8_t *wanted, uint8_t *truth)
{
    uint32_t n = b->exprs.count, depth = 0;
    struct users u = users_of(b, wanted);
    uint32_t *stack = heap_alloc((n + 1) * sizeof *stack);
    uint8_t *half = heap_alloc_zeroed(n + 1, 1);
    for (uint32_t e = 0; e < n; e++)
        if (wanted[e] && truth[e])
            stack[depth++] = e;
    while (depth > 0) {
        uint32_t e = stack[--depth];
        for (uint32_t i = u.first[e]; i < u.first[e + 1]; i++) {
            uint32_t user = u.at[i];
            bool whole = expr_of(b, user)->kind != EXPR_JOIN || half[user];
            half[user] = 1;
            if (whole && !truth[user]) {
                truth[user] = 1;
                stack[depth++] = user;
            }
        }
    }
    heap_free(half);
    heap_free(stack);
    heap_free(u.first);
    heap_free(u.at);
}

// Returns true if the expression matches the empty string whatever its children are.
static bool expr_may_be_empty(const struct expr *x)
{
    return (x->kind == EXPR_REPEAT && x->b == 0) ||
           (x->kind == EXPR_ONCE && (x->c & ONCE_FILLED) == 0);
}

static void truth_find(const struct grammar_builder *b, const uint8_t *wanted, uint8_t *truth,
                       bool sets)
{
    for (uint32_t e = 0; e < b->exprs.count; e++) {
        const struct expr *x = expr_of(b, e);
        truth[e] = x->kind == EXPR_EMPTY || (x->kind == EXPR_SET && sets) || expr_may_be_empty(x);
    }
    truth_spread(b, wanted, truth);
}

void expr_find_productive(const struct grammar_builder *b, const uint8_t *wanted, uint8_t *truth)
{
    truth_find(b, wanted, truth, true);
}

void expr_find_nullable(const struct grammar_builder *b, const uint8_t *wanted, uint8_t *truth)
{
    truth_find(b, wanted, truth, false);
}

// Bucket queue of expressions with a possible height (or number of levels). The lowest bucket is
// processed first and an entry is never lower than the child it follows from, so the first height
// popped for an expression is the final one.
struct heights {
    const struct grammar_builder *b;
    const struct users *users;
    bool levels;         // true: count only items that close a level
    uint16_t *at;        // [expr_count] result; HEIGHT_MAX + 1: none yet
    uint32_t *expr;      // [entries] expression
    uint32_t *next;      // [entries] next entry of the same height, + 1
    uint32_t count;      // number of entries
    uint32_t *by_height; // [HEIGHT_MAX + 1] first entry of each bucket, + 1
};

static void height_put(struct heights *h, uint32_t e, uint32_t height)
{
    if (height >= h->at[e])
        return;
    h->expr[h->count] = e;
    h->next[h->count] = h->by_height[height];
    h->by_height[height] = ++h->count;
}

// Returns the amount that an item of this expression itself counts: 0 or 1.
static uint32_t height_own(const struct heights *h, uint32_t e)
{
    return !h->levels || expr_of(h->b, e)->kind == EXPR_LEVEL;
}

// Called when a child of `user` has its final height: pushes the height of `user` that follows.
static void height_rise(struct heights *h, uint32_t user)
{
    const struct expr *x = expr_of(h->b, user);
    uint32_t below[2] = {0}, count = expr_children(h->b, user, below), low = h->at[below[0]];
    uint32_t other = count > 1 ? h->at[below[1]] : low, own = height_own(h, user);
    if (x->kind == EXPR_EITHER || x->kind == EXPR_ONCE) {
        low = low < other ? low : other;
        low += x->kind == EXPR_ONCE ? own : 0; // the item of the other members is below
        // the second child's item is below
    } else if (x->kind == EXPR_JOIN || x->kind == EXPR_REPEAT) {
        low += height_own(h, count > 1 ? below[1] : user);
        low = low > other ? low : other;
    }
    if (low <= HEIGHT_MAX)
        height_put(h, user, low > own ? low : own);
}

static void heights_fill(struct heights *h)
{
    uint32_t n = h->b->exprs.count;
    for (uint32_t e = 0; e < n; e++) {
        const struct expr *x = expr_of(h->b, e);
        h->at[e] = HEIGHT_MAX + 1;
        if (x->kind == EXPR_EMPTY)
            height_put(h, e, 0);
        else if (x->kind == EXPR_SET || expr_may_be_empty(x))
            height_put(h, e, height_own(h, e));
    }
    for (uint32_t height = 0; height <= HEIGHT_MAX; height++)
        while (h->by_height[height] != 0) {
            uint32_t entry = h->by_height[height] - 1, e = h->expr[entry];
            h->by_height[height] = h->next[entry];
            if (h->at[e] <= height)
                continue;
            h->at[e] = (uint16_t)height;
            for (uint32_t i = h->users->first[e]; i < h->users->first[e + 1]; i++)
                height_rise(h, h->users->at[i]);
        }
}

void expr_find_heights(const struct grammar_builder *b, const uint8_t *wanted, uint16_t *heights,
                       uint16_t *levels)
{
    struct users u = users_of(b, wanted);
    size_t entries = (size_t)b->exprs.count + u.first[b->exprs.count];
    struct heights h = {.b = b, .users = &u, .expr = heap_alloc(2 * entries * sizeof *h.expr)};
    h.next = h.expr + entries;
    h.by_height = heap_alloc_zeroed(HEIGHT_MAX + 1, sizeof *h.by_height);
    h.at = heights;
    heights_fill(&h);
    h.at = levels;
    h.levels = true;
    h.count = 0;
    heights_fill(&h);
    heap_free(h.expr);
    heap_free(h.by_height);
    heap_free(u.first);
    heap_free(u.at);
}

// Strongly connected components (Tarjan) over all children, or over those that a match may begin
// with.
struct parts {
    const struct grammar_builder *b;
    // NULL: all children count, else only those that a match may begin with
    const uint8_t *nullable;
    uint32_t *order, *low; // [expr_count] order of first visit + 1; lowest order reached
    uint32_t *part;        // [expr_count] number of the component + 1
    // [open_count] stack of expressions whose component is not complete
    uint32_t *open, open_count;
    uint32_t seen, part_count;
};
struct visit {
    uint32_t expr, next;
};

static uint32_t parts_children(const struct parts *p, uint32_t e, uint32_t out[2])
{
    uint32_t count = expr_children(p->b, e, out);
    bool first_only = p->nullable && expr_of(p->b, e)->kind == EXPR_JOIN && !p->nullable[out[0]];
    return first_only ? 1 : count;
}

static void part_close(struct parts *p, uint32_t e)
{
    uint32_t member;
    p->part_count++;
    do {
        member = p->open[--p->open_count];
        p->part[member] = p->part_count;
    } while (member != e);
}

static void parts_visit(struct parts *p, struct visit *stack, uint32_t root)
{
    uint32_t depth = 0, below[2];
    stack[depth++] = (struct visit){root, 0};
    while (depth > 0) {
        struct visit *v = &stack[depth - 1];
        uint32_t e = v->expr;
        if (v->next == 0) {
            p->order[e] = p->low[e] = ++p->seen;
            p->open[p->open_count++] = e;
        }
        uint32_t count = parts_children(p, e, below);
        if (v->next < count) {
            uint32_t to = below[v->next++];
            if (p->order[to] == 0)
                stack[depth++] = (struct visit){to, 0};
            else if (p->part[to] == 0 && p->order[to] < p->low[e])
                p->low[e] = p->order[to];
            continue;
        }
        if (p->low[e] == p->order[e])
            part_close(p, e);
        depth--;
        if (depth > 0 && p->low[e] < p->low[stack[depth - 1].expr])
            p->low[stack[depth - 1].expr] = p->low[e];
    }
}

static struct parts parts_of(const struct grammar_builder *b, const uint8_t *wanted,
                             const uint8_t *nullable)
{
    uint32_t n = b->exprs.count;
    struct parts p = {.b = b, .nullable = nullable};
    p.order = heap_alloc_zeroed(n, sizeof *p.order);
    p.low = heap_alloc_zeroed(n, sizeof *p.low);
    p.part = heap_alloc_zeroed(n, sizeof *p.part);
    p.open = heap_alloc(n * sizeof *p.open);
    struct visit *stack = heap_alloc(n * sizeof *stack);
    for (uint32_t e = 0; e < n; e++)
        if (wanted[e] && p.order[e] == 0)
            parts_visit(&p, stack, e);
    heap_free(stack);
    return p;
}

static void parts_free(struct parts *p)
{
    heap_free(p->order);
    heap_free(p->low);
    heap_free(p->part);
    heap_free(p->open);
}

// Returns a rule of a component with an inner edge, or -1. `inner`: only edges to a child that is
// followed by something count.
static int64_t parts_cycle(const struct parts *p, const uint8_t *wanted, bool inner)
{
    uint32_t below[2];
    int64_t part = 0;
    for (uint32_t e = 0; e < p->b->exprs.count && part == 0; e++) {
        uint32_t kind = expr_of(p->b, e)->kind;
        uint32_t count = wanted[e] ? parts_children(p, e, below) : 0;
        if (inner && count > 0)
            count = kind == EXPR_ONCE ? count : kind == EXPR_JOIN || kind == EXPR_REPEAT ? 1 : 0;
        for (uint32_t i = 0; i < count; i++)
            if (p->part[below[i]] == p->part[e])
                part = p->part[e];
    }
    for (uint32_t e = 0; e < p->b->exprs.count && part != 0; e++)
        if (p->part[e] == part && expr_of(p->b, e)->kind == EXPR_RULE)
            return expr_of(p->b, e)->a;
    return -1;
}

int64_t expr_left_recursion(const struct grammar_builder *b, const uint8_t *wanted,
                            const uint8_t *nullable)
{
    struct parts p = parts_of(b, wanted, nullable);
    int64_t rule = parts_cycle(&p, wanted, false);
    parts_free(&p);
    return rule;
}

int64_t expr_nesting(const struct grammar_builder *b, const uint8_t *wanted)
{
    struct parts p = parts_of(b, wanted, NULL);
    int64_t rule = parts_cycle(&p, wanted, true);
    parts_free(&p);
    return rule;
}
