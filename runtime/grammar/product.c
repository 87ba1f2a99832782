// SPDX-License-Identifier: Apache-2.0
// Intersection and difference of two regular expressions: walks their automata in parallel, removes
// pairs of states that lead nowhere, and creates a rule for each remaining pair.
#include "runtime/grammar/automaton.h"

#include "base/arena.h"

#include <string.h>

enum {
    STATES_MAX = 50 * 1000,
    AUTOMATON_BYTES = 48 << 20,
    EDGES_FIRST = 1024,
    STEP_WORK = 20,
    COMPILE_WORK = 8
};

// A range of byte classes that lead from one pair of states to another.
struct edge {
    uint32_t to; // number of the pair + 1
    uint8_t first, last;
};

struct grammar_product {
    struct grammar_builder *b;
    struct grammar *g[2];
    struct automaton a[2];
    bool except;          // true: difference; false: intersection
    struct intern states; // pairs (state of a[0], state of a[1])
    uint32_t class_count; // number of classes of both grammars combined
    uint8_t class_first[256];
    uint32_t class_bytes[256][SET_WORDS];
    struct edge *edges; // grouped by pair
    uint32_t edge_count, edge_capacity;
    uint32_t first[STATES_MAX + 1]; // [pair] index of its first edge
    uint8_t alive[STATES_MAX];      // [pair] true if it can reach an end
    bool full;                      // true if a limit of an automaton was exceeded
};

// The tables are mapped once; only the memory used counts, see product_fits.
static void automaton_begin_within(struct automaton *a, const struct grammar_builder *b,
                                   const struct grammar *g)
{
    automaton_init(a, g, AUTOMATON_BYTES);
    a->work_max = b->limits.work_max - b->work;
}

// Comparisons may use half of the builder's bytes, for one automaton or two.
static bool bytes_fit(const struct grammar_builder *b, size_t used)
{
    return used <= b->limits.bytes_max / 2;
}

static bool product_fits(const struct grammar_product *p)
{
    return bytes_fit(p->b, automaton_used(&p->a[0]) + automaton_used(&p->a[1]) +
                               intern_bytes(&p->states) + p->edge_capacity * sizeof *p->edges);
}

// Adds the work of the automaton since the last call to that of the builder.
static bool automaton_charge(struct grammar_builder *b, struct automaton *a, uint64_t more)
{
    uint64_t work = a->work;
    a->work = 0;
    bool fits = grammar_spend(b, work + more);
    a->work_max = fits ? b->limits.work_max - b->work : 0;
    return fits;
}

static void classes_join(struct grammar_product *p)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t c = 0;
        while (c < p->class_count &&
               (p->g[0]->class_of[p->class_first[c]] != p->g[0]->class_of[byte] ||
                p->g[1]->class_of[p->class_first[c]] != p->g[1]->class_of[byte]))
            c++;
        if (c == p->class_count)
            p->class_first[p->class_count++] = (uint8_t)byte;
        p->class_bytes[c][byte / 32] |= 1u << (byte % 32);
    }
}

// Returns the number + 1 of a pair of states, 0 if it leads nowhere; UINT32_MAX: a table is full.
static uint32_t pair_put(struct grammar_product *p, uint32_t one, uint32_t other)
{
    if (one == STATE_FAILED || other == STATE_FAILED)
        return UINT32_MAX;
    if (one == STATE_DEAD || (other == STATE_DEAD && !p->except))
        return 0;
    uint32_t pair[2] = {one, other}, number = intern_put(&p->states, pair);
    if (number == INTERN_NONE && p->states.capacity < STATES_MAX) {
        uint32_t capacity =
            p->states.capacity * 2 < STATES_MAX ? p->states.capacity * 2 : STATES_MAX;
        intern_grow(&p->states, capacity);
        number = intern_put(&p->states, pair);
    }
    return number == INTERN_NONE ? UINT32_MAX : number + 1;
}

static bool pair_ends(struct grammar_product *p, uint32_t number)
{
    const uint32_t *pair = p->states.at + 2 * (size_t)number;
    int one = automaton_ends(&p->a[0], pair[0]);
    int other = pair[1] != STATE_DEAD ? automaton_ends(&p->a[1], pair[1]) : 0;
    p->full = p->full || one < 0 || other < 0;
    return one == 1 && (other == 1) != p->except;
}

static void edge_put(struct grammar_product *p, uint32_t pair, uint32_t class, uint32_t to)
{
    struct edge *last = p->edge_count > p->first[pair] ? &p->edges[p->edge_count - 1] : NULL;
    if (last && last->to == to && last->last + 1u == class) {
        last->last = (uint8_t)class;
        return;
    }
    if (p->edge_count == p->edge_capacity) {
        p->edge_capacity = p->edge_capacity == 0 ? EDGES_FIRST : 2 * p->edge_capacity;
        p->edges = heap_grow(p->edges, p->edge_capacity * sizeof *p->edges);
    }
    p->edges[p->edge_count++] = (struct edge){to, (uint8_t)class, (uint8_t)class};
}

// Finds the edges of a pair. Returns false if a limit was exceeded.
static bool pair_walk(struct grammar_product *p, uint32_t i)
{
    p->first[i] = p->edge_count;
    for (uint32_t c = 0; c < p->class_count; c++) {
        const uint32_t *pair = p->states.at + 2 * (size_t)i;
        uint32_t byte = p->class_first[c];
        uint32_t one = automaton_step(&p->a[0], pair[0], p->g[0]->class_of[byte]);
        uint32_t other = automaton_step(&p->a[1], pair[1], p->g[1]->class_of[byte]);
        uint32_t to = pair_put(p, one, other);
        if (!automaton_charge(p->b, &p->a[0], STEP_WORK) || !automaton_charge(p->b, &p->a[1], 0) ||
            to == UINT32_MAX || !product_fits(p))
            return false;
        if (to != 0)
            edge_put(p, i, c, to);
    }
    p->first[i + 1] = p->edge_count;
    return true;
}

// Finds all pairs. Returns false if a limit was exceeded, or made an automaton drop an item.
static bool pairs_walk(struct grammar_product *p)
{
    if (pair_put(p, automaton_start(&p->a[0]), automaton_start(&p->a[1])) != 1)
        return false;
    for (uint32_t i = 0; i < p->states.count; i++)
        if (!pair_walk(p, i))
            return false;
    return !p->a[0].too_deep && !p->a[1].too_deep;
}

// Marks the pairs that can reach an end. Pairs are mostly followed by later pairs, so a few rounds
// over them in reverse are enough.
static bool pairs_find_alive(struct grammar_product *p)
{
    bool changed = true;
    for (uint32_t i = 0; i < p->states.count; i++)
        p->alive[i] = pair_ends(p, i);
    while (changed) {
        changed = false;
        if (!grammar_spend(p->b, p->states.count + p->edge_count))
            return false;
        for (uint32_t i = p->states.count; i > 0; i--)
            for (uint32_t e = p->first[i - 1]; e < p->first[i] && !p->alive[i - 1]; e++)
                if (p->alive[p->edges[e].to - 1]) {
                    p->alive[i - 1] = 1;
                    changed = true;
                }
    }
    return !p->full;
}

// Collects the bytes of all edges of the pair that lead to the same pair as edge e.
static void edges_bytes(const struct grammar_product *p, uint32_t number, uint32_t e,
                        uint32_t set[SET_WORDS])
{
    for (uint32_t k = e; k < p->first[number + 1]; k++)
        for (uint32_t c = p->edges[k].first;
             p->edges[k].to == p->edges[e].to && c <= p->edges[k].last; c++)
            for (uint32_t w = 0; w < SET_WORDS; w++)
                set[w] |= p->class_bytes[c][w];
}

static bool edge_is_first(const struct grammar_product *p, uint32_t number, uint32_t e)
{
    for (uint32_t k = p->first[number]; k < e; k++)
        if (p->edges[k].to == p->edges[e].to)
            return false;
    return true;
}

// The body of a pair's rule: for each next pair, the bytes that lead there.
static uint32_t pair_body(struct grammar_product *p, uint32_t number, const uint32_t *refs)
{
    uint32_t body = pair_ends(p, number) ? GRAMMAR_EMPTY : GRAMMAR_NOTHING;
    uint64_t count = p->first[number + 1] - p->first[number];
    if (!grammar_spend(p->b, count * count / 4))
        return GRAMMAR_NOTHING;
    for (uint32_t e = p->first[number]; e < p->first[number + 1]; e++) {
        uint32_t set[SET_WORDS] = {0}, to = p->edges[e].to - 1;
        if (!p->alive[to] || !edge_is_first(p, number, e))
            continue;
        edges_bytes(p, number, e, set);
        uint32_t way = grammar_join(p->b, grammar_byte_set(p->b, set), refs[to]);
        body = grammar_either(p->b, way, body);
    }
    return body;
}

static uint32_t pairs_rules(struct grammar_product *p)
{
    uint32_t count = p->states.count;
    if (!p->alive[0])
        return GRAMMAR_NOTHING;
    uint32_t *refs = heap_alloc(2 * (size_t)count * sizeof *refs), *rules = refs + count;
    for (uint32_t i = 0; i < count; i++)
        if (p->alive[i])
            refs[i] = grammar_rule(p->b, (struct text){NULL, 0}, &rules[i]);
    for (uint32_t i = 0; i < count && !grammar_failed(p->b); i++)
        if (p->alive[i])
            grammar_rule_set(p->b, rules[i], pair_body(p, i, refs));
    uint32_t start = refs[0];
    heap_free(refs);
    return start;
}

// Compiles a regular expression; *out is NULL with STATUS_OK if it matches nothing.
static enum status compile_regular(struct grammar_builder *b, uint32_t e, struct grammar **out,
                                   struct error *err)
{
    *out = NULL;
    uint8_t *wanted = heap_alloc(b->exprs.count);
    expr_mark_reachable(b, e, wanted);
    int64_t rule = expr_nesting(b, wanted);
    heap_free(wanted);
    if (rule >= 0)
        return error_set(err, STATUS_UNSUPPORTED,
                         "a nested structure cannot be compared with another expression");
    if (!grammar_spend(b, 2 * COMPILE_WORK * (uint64_t)b->exprs.count))
        return error_set(err, STATUS_TOO_LARGE, "%s", b->failure.text);
    return grammar_compile(b, e, out, err);
}

static enum status too_large(struct error *err)
{
    return error_set(err, STATUS_TOO_LARGE,
                     "two expressions that are compared have more than %d states", STATES_MAX);
}

static uint32_t product_make(struct grammar_product *p, enum status *status, struct error *err)
{
    uint32_t result = GRAMMAR_NOTHING;
    p->states.words = 2;
    intern_grow(&p->states, 64);
    classes_join(p);
    for (int i = 0; i < 2; i++)
        automaton_begin_within(&p->a[i], p->b, p->g[i]);
    if (pairs_walk(p) && pairs_find_alive(p))
        result = pairs_rules(p);
    else if (!grammar_failed(p->b))
        *status = too_large(err);
    if (grammar_failed(p->b))
        *status = error_set(err, p->b->failure.status, "%s", p->b->failure.text);
    for (int i = 0; i < 2; i++)
        automaton_deinit(&p->a[i]);
    intern_free(&p->states);
    heap_free(p->edges);
    return result;
}

static enum status compare_new(struct grammar_builder *b, uint32_t one, uint32_t other, bool except,
                               uint32_t *out, struct error *err)
{
    struct grammar_product *p = heap_alloc_zeroed(1, sizeof *p);
    p->b = b;
    p->except = except;
    *out = GRAMMAR_NOTHING;
    enum status status = compile_regular(b, one, &p->g[0], err);
    if (status == STATUS_OK)
        status = compile_regular(b, other, &p->g[1], err);
    if (status == STATUS_OK && p->g[0] && p->g[1])
        *out = product_make(p, &status, err);
    else if (status == STATUS_OK && p->g[0] && except)
        *out = one;
    grammar_unref(p->g[0]);
    grammar_unref(p->g[1]);
    heap_free(p);
    return status;
}

// Caches the results: large grammars repeat comparisons, for example for each tool.
static enum status compare_cached(struct grammar_builder *b, uint32_t one, uint32_t other,
                                  bool except, uint32_t *out, struct error *err)
{
    uint32_t place = builder_compared(b, one, other, except);
    *out = GRAMMAR_NOTHING;
    if (place == INTERN_NONE)
        return error_set(err, b->failure.status, "%s", b->failure.text);
    if (b->results[place] == RESULT_UNKNOWN) {
        enum status status = compare_new(b, one, other, except, out, err);
        if (status == STATUS_TOO_LARGE && !grammar_failed(b))
            b->results[place] = RESULT_TOO_LARGE;
        if (status != STATUS_OK)
            return status;
        b->results[place] = *out;
    }
    if (b->results[place] == RESULT_TOO_LARGE)
        return too_large(err);
    *out = b->results[place];
    return STATUS_OK;
}

enum status grammar_both(struct grammar_builder *b, uint32_t one, uint32_t other, uint32_t *out,
                         struct error *err)
{
    bool ordered = one < other;
    return compare_cached(b, ordered ? one : other, ordered ? other : one, false, out, err);
}

enum status grammar_except(struct grammar_builder *b, uint32_t one, uint32_t other, uint32_t *out,
                           struct error *err)
{
    return compare_cached(b, one, other, true, out, err);
}

// 1: the text is a complete string, or with `begins` the prefix of one; 0: not; -1: a table is
// full.
static int automaton_matches(struct automaton *a, const struct grammar *g, struct text bytes,
                             bool begins)
{
    uint32_t state = automaton_start(a);
    for (size_t i = 0; i < bytes.bytes && state >= STATE_FIRST; i++)
        state = automaton_step(a, state, g->class_of[(uint8_t)bytes.at[i]]);
    if (state < STATE_FIRST)
        return state == STATE_FAILED ? -1 : 0;
    return begins ? 1 : automaton_ends(a, state);
}

static enum status match_all(struct grammar_builder *b, uint32_t one, const struct text *texts,
                             uint32_t count, bool begins, bool *out, struct error *err)
{
    struct grammar *g;
    struct automaton a;
    memset(out, 0, count * sizeof *out);
    if (!grammar_spend(b, COMPILE_WORK * (uint64_t)b->exprs.count))
        return error_set(err, STATUS_TOO_LARGE, "%s", b->failure.text);
    enum status status = grammar_compile(b, one, &g, err);
    if (status != STATUS_OK || !g)
        return status;
    automaton_begin_within(&a, b, g);
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++) {
        int ends = automaton_matches(&a, g, texts[i], begins);
        if (!automaton_charge(b, &a, STEP_WORK + texts[i].bytes) || ends < 0 ||
            !bytes_fit(b, automaton_used(&a)))
            status = error_set(err, STATUS_TOO_LARGE,
                               "an expression is too large to be matched against strings");
        out[i] = ends > 0;
    }
    automaton_deinit(&a);
    grammar_unref(g);
    return status;
}

enum status grammar_matches_all(struct grammar_builder *b, uint32_t one, const struct text *texts,
                                uint32_t count, bool *out, struct error *err)
{
    return match_all(b, one, texts, count, false, out, err);
}

enum status grammar_begins_all(struct grammar_builder *b, uint32_t one, const struct text *texts,
                               uint32_t count, bool *out, struct error *err)
{
    return match_all(b, one, texts, count, true, out, err);
}

enum status grammar_matches(struct grammar_builder *b, uint32_t one, struct text bytes, bool *out,
                            struct error *err)
{
    return grammar_matches_all(b, one, &bytes, 1, out, err);
}
