// What two regular expressions have in common, and what one has beside the other: their automata
// are walked side by side, ways that lead nowhere are cut off, and each pair of states that is left
// becomes a rule.
#include "runtime/grammar/automaton.h"

#include "base/arena.h"

#include <string.h>

enum { STATES_MAX = 50 * 1000, AUTOMATON_BYTES = 48 << 20 };

struct token_product {
    struct grammar_builder *b;
    struct grammar *g[2];
    struct automaton a[2];
    bool except;
    struct intern states; // pairs: state of the first, state of the second
    uint32_t class_count; // of both together
    uint8_t class_of[256], class_first[256];
    uint32_t *next; // [states.capacity][class_count] pair + 1; 0: dead
    uint8_t *alive; // [states.capacity] may reach an end
};

static void classes_join(struct token_product *p)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t c = 0;
        while (c < p->class_count &&
               (p->g[0]->class_of[p->class_first[c]] != p->g[0]->class_of[byte] ||
                p->g[1]->class_of[p->class_first[c]] != p->g[1]->class_of[byte]))
            c++;
        if (c == p->class_count)
            p->class_first[p->class_count++] = (uint8_t)byte;
        p->class_of[byte] = (uint8_t)c;
    }
}

// The number + 1 of a pair of states, 0 where it leads nowhere; UINT32_MAX: no room.
static uint32_t pair_put(struct token_product *p, uint32_t one, uint32_t other)
{
    if (one == STATE_NO_ROOM || other == STATE_NO_ROOM)
        return UINT32_MAX;
    if (one == STATE_DEAD || (other == STATE_DEAD && !p->except))
        return 0;
    uint32_t pair[2] = {one, other}, number = intern_put(&p->states, pair);
    if (number == INTERN_NONE && p->states.capacity < STATES_MAX) {
        uint32_t capacity =
            p->states.capacity * 2 < STATES_MAX ? p->states.capacity * 2 : STATES_MAX;
        intern_grow(&p->states, capacity);
        p->next = heap_grow(p->next, (size_t)capacity * p->class_count * sizeof *p->next);
        number = intern_put(&p->states, pair);
    }
    return number == INTERN_NONE ? UINT32_MAX : number + 1;
}

static bool pair_ends(struct token_product *p, uint32_t number)
{
    const uint32_t *pair = p->states.at + 2 * (size_t)number;
    bool one = automaton_ends(&p->a[0], pair[0]) == 1;
    bool other = pair[1] != STATE_DEAD && automaton_ends(&p->a[1], pair[1]) == 1;
    return one && other != p->except;
}

// False: a limit was met.
static bool pairs_walk(struct token_product *p)
{
    if (pair_put(p, automaton_start(&p->a[0]), automaton_start(&p->a[1])) != 1)
        return false;
    for (uint32_t i = 0; i < p->states.count; i++)
        for (uint32_t c = 0; c < p->class_count; c++) {
            const uint32_t *pair = p->states.at + 2 * (size_t)i;
            uint32_t byte = p->class_first[c];
            uint32_t one = automaton_step(&p->a[0], pair[0], p->g[0]->class_of[byte]);
            uint32_t other = automaton_step(&p->a[1], pair[1], p->g[1]->class_of[byte]);
            uint32_t to = pair_put(p, one, other);
            if (to == UINT32_MAX || !grammar_spend(p->b, 20))
                return false;
            p->next[(size_t)i * p->class_count + c] = to;
        }
    return !p->a[0].too_deep && !p->a[1].too_deep;
}

// Pairs that can reach an end; later ones are mostly followed by later ones, so few rounds do.
static bool pairs_find_alive(struct token_product *p)
{
    bool changed = true;
    p->alive = heap_take_zeroed(p->states.count, 1);
    for (uint32_t i = 0; i < p->states.count; i++)
        p->alive[i] = pair_ends(p, i);
    while (changed) {
        changed = false;
        if (!grammar_spend(p->b, (uint64_t)p->states.count * p->class_count / 4))
            return false;
        for (uint32_t i = p->states.count; i > 0; i--) {
            const uint32_t *next = p->next + (size_t)(i - 1) * p->class_count;
            for (uint32_t c = 0; c < p->class_count && !p->alive[i - 1]; c++)
                if (next[c] != 0 && p->alive[next[c] - 1]) {
                    p->alive[i - 1] = 1;
                    changed = true;
                }
        }
    }
    return true;
}

// The body of a pair's rule: for each pair that follows, the bytes that lead there.
static uint32_t pair_body(struct token_product *p, uint32_t number, const uint32_t *refs)
{
    const uint32_t *next = p->next + (size_t)number * p->class_count;
    uint32_t body = pair_ends(p, number) ? GRAMMAR_EMPTY : GRAMMAR_NOTHING;
    bool done[256] = {false};
    for (uint32_t c = 0; c < p->class_count; c++) {
        uint32_t set[SET_WORDS] = {0};
        if (done[c] || next[c] == 0 || !p->alive[next[c] - 1])
            continue;
        for (uint32_t byte = 0; byte < 256; byte++)
            if (next[p->class_of[byte]] == next[c]) {
                set[byte / 32] |= 1u << (byte % 32);
                done[p->class_of[byte]] = true;
            }
        uint32_t way = grammar_join(p->b, grammar_byte_set(p->b, set), refs[next[c] - 1]);
        body = grammar_either(p->b, way, body);
    }
    return body;
}

static uint32_t pairs_rules(struct token_product *p)
{
    uint32_t count = p->states.count;
    if (!p->alive[0])
        return GRAMMAR_NOTHING;
    uint32_t *refs = heap_take(2 * (size_t)count * sizeof *refs), *rules = refs + count;
    for (uint32_t i = 0; i < count; i++)
        if (p->alive[i])
            refs[i] = grammar_rule(p->b, (struct text){NULL, 0}, &rules[i]);
    for (uint32_t i = 0; i < count && !grammar_failed(p->b); i++)
        if (p->alive[i])
            grammar_rule_set(p->b, rules[i], pair_body(p, i, refs));
    uint32_t start = refs[0];
    heap_give(refs);
    return start;
}

// The grammar of a regular expression; NULL with STATUS_OK where nothing matches it.
static enum status regular(struct grammar_builder *b, uint32_t e, struct grammar **out,
                           struct error *err)
{
    *out = NULL;
    uint8_t *wanted = heap_take(b->exprs.count);
    expr_mark_reachable(b, e, wanted);
    int64_t rule = expr_nesting(b, wanted);
    heap_give(wanted);
    if (rule >= 0)
        return error_set(err, STATUS_UNSUPPORTED,
                         "a nested structure cannot be compared with another expression");
    if (!grammar_spend(b, 16 * (uint64_t)b->exprs.count))
        return error_set(err, STATUS_TOO_LARGE, "%s", b->failure.text);
    return grammar_compile(b, e, out, err);
}

static uint32_t product_make(struct token_product *p, enum status *status, struct error *err)
{
    uint32_t result = GRAMMAR_NOTHING;
    p->states.words = 2;
    intern_grow(&p->states, 64);
    classes_join(p);
    p->next = heap_take((size_t)p->states.capacity * p->class_count * sizeof *p->next);
    for (int i = 0; i < 2; i++)
        automaton_open(&p->a[i], p->g[i], AUTOMATON_BYTES);
    if (pairs_walk(p) && pairs_find_alive(p))
        result = pairs_rules(p);
    else if (!grammar_failed(p->b))
        *status =
            error_set(err, STATUS_TOO_LARGE,
                      "two expressions that are compared have more than %d states", STATES_MAX);
    if (grammar_failed(p->b))
        *status = error_set(err, p->b->failure.status, "%s", p->b->failure.text);
    for (int i = 0; i < 2; i++)
        automaton_close(&p->a[i]);
    intern_free(&p->states);
    heap_give(p->next);
    heap_give(p->alive);
    return result;
}

static enum status compare(struct grammar_builder *b, uint32_t one, uint32_t other, bool except,
                           uint32_t *out, struct error *err)
{
    struct token_product p = {.b = b, .except = except};
    *out = GRAMMAR_NOTHING;
    enum status status = regular(b, one, &p.g[0], err);
    if (status == STATUS_OK)
        status = regular(b, other, &p.g[1], err);
    if (status == STATUS_OK && p.g[0] && p.g[1])
        *out = product_make(&p, &status, err);
    else if (status == STATUS_OK && p.g[0] && except)
        *out = one;
    grammar_give(p.g[0]);
    grammar_give(p.g[1]);
    return status;
}

enum status grammar_both(struct grammar_builder *b, uint32_t one, uint32_t other, uint32_t *out,
                         struct error *err)
{
    return compare(b, one, other, false, out, err);
}

enum status grammar_except(struct grammar_builder *b, uint32_t one, uint32_t other, uint32_t *out,
                           struct error *err)
{
    return compare(b, one, other, true, out, err);
}

static int automaton_takes(struct automaton *a, const struct grammar *g, struct text bytes)
{
    uint32_t state = automaton_start(a);
    for (size_t i = 0; i < bytes.bytes && state >= STATE_FIRST; i++)
        state = automaton_step(a, state, g->class_of[(uint8_t)bytes.at[i]]);
    return state == STATE_NO_ROOM ? -1 : state >= STATE_FIRST ? automaton_ends(a, state) : 0;
}

enum status grammar_matches_all(struct grammar_builder *b, uint32_t one, const struct text *texts,
                                uint32_t count, bool *out, struct error *err)
{
    struct grammar *g;
    struct automaton a;
    memset(out, 0, count * sizeof *out);
    enum status status = grammar_compile(b, one, &g, err);
    if (status != STATUS_OK || !g)
        return status;
    automaton_open(&a, g, AUTOMATON_BYTES);
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++) {
        int ends = automaton_takes(&a, g, texts[i]);
        if (ends < 0 || !grammar_spend(b, 20 + 10 * (uint64_t)texts[i].bytes))
            status = error_set(err, STATUS_TOO_LARGE, "an expression is too large to be tried");
        out[i] = ends > 0;
    }
    automaton_close(&a);
    grammar_give(g);
    return status;
}

enum status grammar_matches(struct grammar_builder *b, uint32_t one, struct text bytes, bool *out,
                            struct error *err)
{
    return grammar_matches_all(b, one, &bytes, 1, out, err);
}
