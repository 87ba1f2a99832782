// SPDX-License-Identifier: Apache-2.0
// Compiles a builder's expression to a grammar: removes expressions that can never match, rewrites
// repeats whose body can be empty so that each repetition consumes a byte, refuses left recursion,
// and groups bytes that no set distinguishes into classes.
#include "runtime/grammar/internal.h"

#include "base/arena.h"

#include <string.h>

// Rewriting of all reachable expressions of one builder into another one.
struct rewrite {
    const struct grammar_builder *from;
    struct grammar_builder *to;
    // [expr_count] each; nonempty: needed without the empty string
    uint8_t *wanted, *productive, *nullable, *nonempty;
    uint32_t *map; // [expr_count] expression in `to`
    // [expr_count] expression without the empty string, if nonempty and nullable
    uint32_t *map_nonempty;
    uint32_t *rule_filled; // [rule_count] rule of `to` without the empty string; UINT32_MAX: none
    uint32_t *rule;        // [rule_count] rule of `to`; UINT32_MAX: none
};

// Marks the expressions that are needed without the empty string: nullable bodies of repeats and
// the nullable expressions they consist of.
static void mark_filled(struct rewrite *w)
{
    const struct grammar_builder *b = w->from;
    uint32_t n = b->exprs.count, depth = 0;
    uint32_t *stack = heap_alloc((2 * (size_t)n + 2) * sizeof *stack);
    for (uint32_t e = 0; e < n; e++)
        if (w->wanted[e] && expr_of(b, e)->kind == EXPR_REPEAT && w->nullable[expr_of(b, e)->a])
            stack[depth++] = expr_of(b, e)->a;
    while (depth > 0) {
        uint32_t e = stack[--depth];
        if (w->nonempty[e] || !w->nullable[e])
            continue;
        const struct expr *x = expr_of(b, e);
        w->nonempty[e] = 1;
        if (x->kind == EXPR_RULE)
            stack[depth++] = (uint32_t)b->rules[x->a].body;
        if (x->kind != EXPR_RULE && x->kind != EXPR_SET && x->kind != EXPR_EMPTY &&
            x->kind != EXPR_ONCE)
            stack[depth++] = x->a;
        if (x->kind == EXPR_JOIN || x->kind == EXPR_EITHER)
            stack[depth++] = x->b;
    }
    heap_free(stack);
}

static uint32_t filled_of(const struct rewrite *w, uint32_t e)
{
    return w->nullable[e] ? w->map_nonempty[e] : w->map[e];
}

// Returns expression e in the other builder, which already contains its children.
static uint32_t expr_rewritten(struct rewrite *w, uint32_t e)
{
    const struct expr *x = expr_of(w->from, e);
    switch (x->kind) {
    case EXPR_EMPTY:
        return GRAMMAR_EMPTY;
    case EXPR_SET:
        return grammar_byte_set(w->to, w->from->sets.at + (size_t)x->a * SET_WORDS);
    case EXPR_JOIN:
        return grammar_join(w->to, w->map[x->a], w->map[x->b]);
    case EXPR_EITHER:
        return grammar_either(w->to, w->map[x->a], w->map[x->b]);
    case EXPR_REPEAT:
        return w->nullable[x->a] ? grammar_repeat(w->to, filled_of(w, x->a), 0, x->c)
                                 : grammar_repeat(w->to, w->map[x->a], x->b, x->c);
    case EXPR_LEVEL:
        return grammar_level(w->to, w->map[x->a]);
    case EXPR_ONCE:
        return builder_once(w->to, w->map[x->a], w->map[x->b], x->c);
    case EXPR_RULE:
        if (w->rule[x->a] == UINT32_MAX)
            return grammar_rule(w->to, builder_rule_name(w->from, x->a), &w->rule[x->a]);
        return GRAMMAR_NOTHING; // reached once per rule, because expressions are hash-consed
    default:
        return GRAMMAR_NOTHING;
    }
}

// Returns the strings of e except the empty one, as an expression of the other builder. The empty
// string must be a string of e.
static uint32_t rewritten_nonempty(struct rewrite *w, uint32_t e)
{
    const struct expr *x = expr_of(w->from, e);
    uint32_t first;
    switch (x->kind) {
    case EXPR_JOIN:
        first = grammar_join(w->to, filled_of(w, x->a), w->map[x->b]);
        return grammar_either(w->to, first, filled_of(w, x->b));
    case EXPR_EITHER:
        return grammar_either(w->to, filled_of(w, x->a), filled_of(w, x->b));
    case EXPR_REPEAT:
        first = filled_of(w, x->a);
        return grammar_join(
            w->to, first,
            grammar_repeat(w->to, first, 0, x->c == GRAMMAR_UNBOUNDED ? x->c : x->c - 1));
    case EXPR_LEVEL:
        return grammar_level(w->to, filled_of(w, x->a));
    case EXPR_ONCE:
        return builder_once(w->to, w->map[x->a], w->map[x->b], x->c | ONCE_FILLED);
    case EXPR_RULE:
        return grammar_rule(w->to, builder_rule_name(w->from, x->a), &w->rule_filled[x->a]);
    default:
        return GRAMMAR_NOTHING;
    }
}

static void rewrite_all(struct rewrite *w)
{
    const struct grammar_builder *b = w->from;
    for (uint32_t e = 0; e < b->exprs.count; e++) {
        w->map[e] = w->map_nonempty[e] = GRAMMAR_NOTHING;
        if (!w->wanted[e] || !w->productive[e])
            continue;
        w->map[e] = expr_rewritten(w, e);
        if (w->nonempty[e])
            w->map_nonempty[e] = rewritten_nonempty(w, e);
    }
    for (uint32_t r = 0; r < b->rule_count; r++) {
        if (w->rule[r] != UINT32_MAX)
            grammar_rule_set(w->to, w->rule[r], w->map[b->rules[r].body]);
        if (w->rule_filled[r] != UINT32_MAX)
            grammar_rule_set(w->to, w->rule_filled[r], filled_of(w, (uint32_t)b->rules[r].body));
    }
}

// Returns a new builder with the reachable expressions that can match; *root becomes the root
// there.
static struct grammar_builder *builder_rewrite(const struct grammar_builder *b, uint32_t *root)
{
    uint32_t n = b->exprs.count;
    struct grammar_limits limits = b->limits;
    struct rewrite w = {.from = b, .to = grammar_builder_create(&limits)};
    w.to->work = b->work;
    w.wanted = heap_alloc(4 * (size_t)n);
    w.productive = w.wanted + n;
    w.nullable = w.productive + n;
    w.nonempty = w.nullable + n;
    w.map = heap_alloc(2 * (size_t)n * sizeof *w.map);
    w.map_nonempty = w.map + n;
    w.rule = heap_alloc((2 * (size_t)b->rule_count + 1) * sizeof *w.rule);
    w.rule_filled = w.rule + b->rule_count;
    memset(w.rule, 0xFF, 2 * (size_t)b->rule_count * sizeof *w.rule);
    memset(w.nonempty, 0, n);
    expr_mark_reachable(b, *root, w.wanted);
    expr_find_productive(b, w.wanted, w.productive);
    expr_find_nullable(b, w.wanted, w.nullable);
    mark_filled(&w);
    if (grammar_spend(w.to, 8 * (uint64_t)n))
        rewrite_all(&w);
    *root = grammar_failed(w.to) ? GRAMMAR_NOTHING : w.map[*root];
    heap_free(w.wanted);
    heap_free(w.map);
    heap_free(w.rule);
    return w.to;
}

static void classes_find(struct grammar *g)
{
    uint32_t of[256] = {0}, count = 1;
    for (uint32_t s = 0; s < g->set_count && count < 256; s++) {
        const uint32_t *set = g->sets + (size_t)s * SET_WORDS;
        uint32_t split[256]; // new class for the bytes of each class in the set; 0: none yet
        bool outside[256] = {false};
        memset(split, 0, sizeof split);
        for (uint32_t i = 0; i < 256; i++)
            outside[of[i]] |= !set_has(set, i);
        for (uint32_t i = 0; i < 256; i++) {
            if (!set_has(set, i) || !outside[of[i]])
                continue;
            if (split[of[i]] == 0)
                split[of[i]] = count++;
            of[i] = split[of[i]];
        }
    }
    for (uint32_t i = 256; i > 0; i--) {
        g->class_of[i - 1] = (uint8_t)of[i - 1];
        g->class_first[of[i - 1]] = (uint8_t)(i - 1);
    }
    g->class_count = count;
    g->cuts = heap_alloc((g->set_count + 1) * sizeof *g->cuts);
    for (uint32_t s = 0; s < g->set_count; s++)
        g->cut |= g->cuts[s] = byte_groups_cut(g->sets + (size_t)s * SET_WORDS);
}

static void hash_add(struct grammar_hash *hash, const uint32_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        hash->at[0] = (hash->at[0] ^ words[i]) * 0xD6E8FEB86659FD93u;
        hash->at[0] ^= hash->at[0] >> 32;
        hash->at[1] = (hash->at[1] + words[i]) * 0x9FB21C651E98DF25u;
        hash->at[1] ^= hash->at[1] >> 29;
    }
}

static uint32_t shortest_of(const struct grammar *g, uint32_t e, const uint8_t *nullable)
{
    const struct expr *x = &g->exprs[e];
    const uint8_t *of = g->shortest;
    switch (x->kind) {
    case EXPR_SET:
        return 1;
    case EXPR_JOIN:
        return (uint32_t)of[x->a] + of[x->b];
    case EXPR_EITHER:
        return of[x->a] < of[x->b] ? of[x->a] : of[x->b];
    case EXPR_REPEAT:
        return (x->b < UINT8_MAX ? x->b : UINT8_MAX) * of[x->a];
    case EXPR_LEVEL:
        return of[x->a];
    case EXPR_RULE: // its body is not looked at, which keeps this a single pass
        return !nullable[e];
    default:
        return 0;
    }
}

// Sets heights, levels and shortest.
static void heights_find(const struct grammar_builder *b, struct grammar *g)
{
    uint32_t n = b->exprs.count;
    uint8_t *wanted = heap_alloc(2 * (size_t)n), *nullable = wanted + n;
    g->heights = heap_alloc(2 * (size_t)n * sizeof *g->heights);
    g->levels = g->heights + n;
    expr_mark_reachable(b, g->root, wanted);
    expr_find_heights(b, wanted, g->heights, g->levels);
    expr_find_nullable(b, wanted, nullable);
    g->shortest = heap_alloc(n);
    for (uint32_t e = 0; e < n; e++) {
        uint32_t bytes = shortest_of(g, e, nullable);
        g->shortest[e] = (uint8_t)(bytes < UINT8_MAX ? bytes : UINT8_MAX);
    }
    heap_free(wanted);
}

// Creates the grammar of a rewritten builder.
static struct grammar *grammar_make(const struct grammar_builder *b, uint32_t root)
{
    struct grammar *g = heap_alloc_zeroed(1, sizeof *g);
    atomic_init(&g->owners, 1);
    g->expr_count = b->exprs.count;
    g->set_count = b->sets.count;
    g->rule_count = b->rule_count;
    g->root = root;
    g->exprs = heap_alloc(g->expr_count * sizeof *g->exprs);
    memcpy(g->exprs, b->exprs.at, g->expr_count * sizeof *g->exprs);
    g->sets = heap_alloc((g->set_count * (size_t)SET_WORDS + 1) * sizeof *g->sets);
    memcpy(g->sets, b->sets.at, g->set_count * (size_t)SET_WORDS * sizeof *g->sets);
    g->bodies = heap_alloc((g->rule_count + 1) * sizeof *g->bodies);
    for (uint32_t r = 0; r < g->rule_count; r++)
        g->bodies[r] = (uint32_t)b->rules[r].body;
    classes_find(g);
    heights_find(b, g);
    g->hash = (struct grammar_hash){{0x243F6A8885A308D3u, 0x13198A2E03707344u}};
    uint32_t head[4] = {g->expr_count, g->set_count, g->rule_count, root};
    hash_add(&g->hash, head, 4);
    hash_add(&g->hash, b->exprs.at, g->expr_count * (size_t)EXPR_WORDS);
    hash_add(&g->hash, b->sets.at, g->set_count * (size_t)SET_WORDS);
    hash_add(&g->hash, g->bodies, g->rule_count);
    g->bytes = sizeof *g + g->expr_count * (sizeof *g->exprs + 2 * sizeof *g->heights + 1) +
               g->set_count * (SET_WORDS * sizeof *g->sets + sizeof *g->cuts) +
               g->rule_count * sizeof *g->bodies;
    return g;
}

static enum status rule_error(const struct grammar_builder *b, uint32_t rule, const char *what,
                              struct error *err)
{
    struct text name = builder_rule_name(b, rule);
    return error_set(err, STATUS_INVALID, "the rule %.*s%s", (int)name.bytes, name.at, what);
}

static enum status check_bodies(const struct grammar_builder *b, uint32_t root, struct error *err)
{
    int64_t missing = -1;
    uint8_t *wanted = heap_alloc(b->exprs.count);
    expr_mark_reachable(b, root, wanted);
    for (uint32_t e = 0; e < b->exprs.count && missing < 0; e++) {
        const struct expr *x = expr_of(b, e);
        if (wanted[e] && x->kind == EXPR_RULE && b->rules[x->a].body == RULE_UNSET)
            missing = x->a;
    }
    heap_free(wanted);
    if (missing >= 0)
        return rule_error(b, (uint32_t)missing, " is used and not defined", err);
    return STATUS_OK;
}

static enum status check_left_recursion(const struct grammar_builder *b, uint32_t root,
                                        struct error *err)
{
    uint32_t n = b->exprs.count;
    uint8_t *wanted = heap_alloc(2 * (size_t)n), *nullable = wanted + n;
    expr_mark_reachable(b, root, wanted);
    expr_find_nullable(b, wanted, nullable);
    int64_t rule = expr_left_recursion(b, wanted, nullable);
    heap_free(wanted);
    if (rule >= 0)
        return rule_error(b, (uint32_t)rule,
                          " begins with itself (left recursion): write it as a repeat", err);
    return STATUS_OK;
}

enum status grammar_compile(const struct grammar_builder *b, uint32_t root, struct grammar **out,
                            struct error *err)
{
    *out = NULL;
    if (grammar_failed(b))
        return error_set(err, b->failure.status, "%s", b->failure.text);
    enum status status = check_bodies(b, root, err);
    if (status != STATUS_OK)
        return status;
    // The second pass removes rules that match nothing once the empty string is removed.
    struct grammar_builder *once = builder_rewrite(b, &root);
    struct grammar_builder *twice = builder_rewrite(once, &root);
    if (grammar_failed(once) || grammar_failed(twice)) {
        const struct error *failure = grammar_failed(once) ? &once->failure : &twice->failure;
        status = error_set(err, failure->status, "%s", failure->text);
    } else if (root != GRAMMAR_NOTHING) {
        status = check_left_recursion(twice, root, err);
        if (status == STATUS_OK)
            *out = grammar_make(twice, root);
        if (*out &&
            ((*out)->heights[root] > HEIGHT_MAX || (*out)->levels[root] > GRAMMAR_LEVELS_MAX)) {
            grammar_unref(*out);
            *out = NULL;
            status = error_set(err, STATUS_TOO_LARGE,
                               "every text of the grammar is nested too deep: make it simpler");
        }
    }
    grammar_builder_destroy(once);
    grammar_builder_destroy(twice);
    return status;
}

enum status grammar_finish(struct grammar_builder *b, uint32_t root, struct grammar **out,
                           struct error *err)
{
    enum status status = grammar_compile(b, root, out, err);
    grammar_builder_destroy(b);
    if (status == STATUS_OK && !*out)
        return error_set(err, STATUS_INVALID, "no text at all matches the grammar");
    return status;
}

struct grammar *grammar_ref(struct grammar *g)
{
    // relaxed: the caller already holds a reference, so nothing has to be ordered
    atomic_fetch_add_explicit(&g->owners, 1, memory_order_relaxed);
    return g;
}

uint32_t grammar_owners(const struct grammar *g)
{
    return atomic_load_explicit(&g->owners, memory_order_acquire);
}

void grammar_unref(struct grammar *g)
{
    // acq_rel: all accesses by other owners happen before the last owner frees it
    if (!g || atomic_fetch_sub_explicit(&g->owners, 1, memory_order_acq_rel) != 1)
        return;
    heap_free(g->exprs);
    heap_free(g->sets);
    heap_free(g->cuts);
    heap_free(g->bodies);
    heap_free(g->heights);
    heap_free(g->shortest);
    heap_free(g);
}

struct grammar_hash grammar_hash(const struct grammar *g)
{
    return g->hash;
}

size_t grammar_bytes(const struct grammar *g)
{
    return g->bytes;
}
