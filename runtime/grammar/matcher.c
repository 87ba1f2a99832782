// SPDX-License-Identifier: Apache-2.0
// Mask caches and their matchers. See matcher.h.
#include "runtime/grammar/mask.h"

#include "base/arena.h"

#include <string.h>

enum {
    CACHE_BYTES_MIN = 4 << 20,
    CACHE_BYTES = 32 << 20,
    WORK_MAX = 1000 * 1000,
};

struct mask_cache *mask_cache_create(struct grammar *g, struct vocabulary *v,
                                     const struct mask_cache_options *options)
{
    struct mask_cache *c = heap_alloc_zeroed(1, sizeof *c);
    c->bytes = options && options->bytes_max != 0 ? options->bytes_max : CACHE_BYTES;
    if (c->bytes < CACHE_BYTES_MIN)
        c->bytes = CACHE_BYTES_MIN;
    c->work_max = options && options->work_max != 0 ? options->work_max : WORK_MAX;
    c->work_limit = UINT64_MAX;
    c->walks = true;
    c->g = grammar_ref(g);
    c->v = vocabulary_ref(v);
    automaton_init(&c->a, g, c->bytes / 2);
    c->a.reach[0] = TOKEN_SHORT_MAX;
    c->a.reach[1] = v->longest;
    c->has_far_bounds = automaton_has_far_bounds(&c->a);
    c->kept_capacity = (c->bytes / 2 - 64) / sizeof *c->kept;
    pages_init(&c->pages, c->bytes / 2);
    c->kept = pages_alloc(&c->pages, c->kept_capacity, sizeof *c->kept);
    c->edges = heap_alloc(PLAIN_EDGES_MAX * sizeof *c->edges);
    c->walk_stack = heap_alloc(2 * (VOCABULARY_TOKEN_BYTES_MAX + 1) * sizeof *c->walk_stack);
    c->row = heap_alloc((3 * (size_t)v->words + 1) * sizeof *c->row);
    c->accept_row = c->row + v->words;
    c->tails = c->accept_row + v->words;
    mask_classes_find(c);
    mask_forget(c);
    c->start = automaton_start(&c->a);
    return c;
}

void mask_cache_destroy(struct mask_cache *c)
{
    if (!c)
        return;
    check(!c->matchers, "a matcher still uses the cache");
    automaton_deinit(&c->a);
    pages_deinit(&c->pages);
    heap_free(c->edges);
    heap_free(c->walk_stack);
    heap_free(c->row);
    grammar_unref(c->g);
    vocabulary_unref(c->v);
    heap_free(c);
}

void mask_cache_limit(struct mask_cache *c, uint64_t work, bool walks)
{
    c->work_limit = c->a.work + work;
    c->limited = false;
    c->walks = walks;
}

bool mask_cache_limited(const struct mask_cache *c)
{
    return c->limited;
}

static size_t bytes_held(const struct mask_cache *c)
{
    return sizeof *c + automaton_used(&c->a) + c->kept_count * sizeof *c->kept +
           PLAIN_EDGES_MAX * sizeof *c->edges +
           2 * (VOCABULARY_TOKEN_BYTES_MAX + 1) * sizeof *c->walk_stack +
           (3 * (size_t)c->v->words + 1) * sizeof *c->row;
}

struct mask_cache_stats mask_cache_stats(const struct mask_cache *c)
{
    return (struct mask_cache_stats){
        .computed = c->computed,
        .reused = c->reused,
        .forgotten = c->forgotten,
        .over = c->over,
        .out_of_memory = c->out_of_memory,
        .work = c->a.work,
        .states = c->a.state_count - STATE_FIRST,
        .bytes = bytes_held(c),
        .bytes_most = bytes_held(c) > c->bytes_most ? bytes_held(c) : c->bytes_most,
    };
}

// Returns the matcher with the lightest state of those without the mark `kept`, or NULL.
static struct matcher *matcher_lightest(struct mask_cache *c)
{
    struct matcher *least = NULL;
    uint64_t least_weight = 0;
    for (struct matcher *m = c->matchers; m; m = m->next) {
        uint64_t weight = m->evicted ? UINT64_MAX : automaton_weight(&c->a, m->state);
        if (!m->evicted && !m->kept && (!least || weight < least_weight)) {
            least = m;
            least_weight = weight;
        }
    }
    return least;
}

// Returns true if matchers of other owners use the cache.
static bool others_use_cache(const struct matcher *m)
{
    const struct matcher *other = m->cache->matchers;
    while (other && other->owner == m->owner)
        other = other->next;
    return other != NULL;
}

static void matcher_memory_lacks(struct matcher *m)
{
    m->out_of_memory = true;
    m->memory_contended = m->memory_contended || others_use_cache(m);
    m->cache->out_of_memory++;
}

// If the states of the matchers fill more than half of a table, the matchers that use most lose
// their position, so that a few deeply nested answers do not end all others. The lightest one is
// kept.
static void positions_share(struct mask_cache *c)
{
    uint32_t kept = 0;
    for (struct matcher *m = c->matchers; m; m = m->next)
        m->kept = false;
    automaton_unkeep(&c->a);
    automaton_keep(&c->a, c->start);
    for (struct matcher *m; (m = matcher_lightest(c)) != NULL; kept++) {
        automaton_keep(&c->a, m->state);
        if (automaton_half_full(&c->a) && kept > 0)
            break;
        m->kept = true;
    }
    for (struct matcher *m = c->matchers; m; m = m->next)
        if (!m->kept && !m->evicted) {
            m->evicted = true;
            m->state = c->start;
            matcher_memory_lacks(m);
        }
    automaton_unkeep(&c->a);
}

static void positions_keep(struct mask_cache *c)
{
    automaton_keep(&c->a, c->start);
    for (struct matcher *m = c->matchers; m; m = m->next)
        automaton_keep(&c->a, m->state);
}

// Drops everything but the positions of the matchers.
static void cache_forget(struct mask_cache *c)
{
    size_t bytes = bytes_held(c);
    c->forgotten++;
    c->bytes_most = bytes > c->bytes_most ? bytes : c->bytes_most;
    positions_keep(c);
    if (automaton_half_full(&c->a)) {
        positions_share(c);
        positions_keep(c);
    }
    automaton_compact(&c->a);
    mask_charge_forgotten(c, bytes);
    mask_forget(c);
    c->start = c->a.moved[c->start];
    for (struct matcher *m = c->matchers; m; m = m->next)
        m->state = c->a.moved[m->state];
}

// One call of a matcher: sets its work bound, and allows a second try after a table was full.
struct attempt {
    struct matcher *m;
    int tries;
};

static struct attempt call_begin(struct matcher *m)
{
    struct automaton *a = &m->cache->a;
    m->out_of_memory = m->out_of_memory && m->evicted;
    m->memory_contended = m->memory_contended && m->evicted;
    a->limit_hit = false;
    a->work_max = a->work + m->cache->work_max;
    if (a->work_max > m->cache->work_limit)
        a->work_max = m->cache->work_limit;
    return (struct attempt){m, 0};
}

// Called when nothing was found. Returns true if the caller should try again, false if a limit was
// exceeded, which is then counted.
static bool call_again(struct attempt *call)
{
    struct mask_cache *c = call->m->cache;
    c->limited = c->limited || (c->a.limit_hit && c->a.work >= c->work_limit);
    if (call->tries++ == 0 && !c->a.limit_hit)
        cache_forget(c);
    else if (c->a.limit_hit)
        c->over++;
    else
        matcher_memory_lacks(call->m);
    return call->tries == 1 && !c->a.limit_hit && !call->m->evicted;
}

void matcher_init(struct matcher *m, struct mask_cache *c)
{
    *m = (struct matcher){.cache = c, .owner = m, .next = c->matchers, .state = c->start};
    if (c->matchers)
        c->matchers->previous = m;
    c->matchers = m;
}

void matcher_copy(struct matcher *m, const struct matcher *from)
{
    matcher_init(m, from->cache);
    m->owner = from->owner;
    m->state = from->state;
    m->done = from->done;
    m->evicted = from->evicted;
    m->out_of_memory = from->out_of_memory;
    m->memory_contended = from->memory_contended;
}

void matcher_belong(struct matcher *m, const void *owner)
{
    m->owner = owner;
}

void matcher_end(struct matcher *m)
{
    if (!m->cache)
        return;
    if (m->previous)
        m->previous->next = m->next;
    else
        m->cache->matchers = m->next;
    if (m->next)
        m->next->previous = m->previous;
    *m = (struct matcher){0};
}

void matcher_restart(struct matcher *m)
{
    m->state = m->cache->start;
    m->done = m->evicted = m->out_of_memory = m->memory_contended = false;
}

static bool nothing_set(const struct vocabulary *v, const uint32_t *words)
{
    for (uint32_t w = 0; w < v->words; w++)
        if (words[w] != 0)
            return false;
    return true;
}

// 1: the string is complete, 0: it is not, -1: a limit was exceeded.
static int ends_here(struct matcher *m)
{
    struct attempt call = call_begin(m);
    if (m->done || m->evicted)
        return m->done ? 1 : -1;
    int ends = automaton_ends(&m->cache->a, m->state);
    while (ends < 0 && call_again(&call))
        ends = automaton_ends(&m->cache->a, m->state);
    return ends;
}

bool matcher_may_end(struct matcher *m)
{
    return ends_here(m) == 1;
}

// Writes the mask without end ids. Returns false if a limit was exceeded.
static bool tokens_find(struct matcher *m, uint32_t *words)
{
    struct attempt call = call_begin(m);
    bool found = !m->evicted && mask_find(m->cache, m->state, words);
    while (!found && !m->evicted && call_again(&call))
        found = mask_find(m->cache, m->state, words);
    return found;
}

enum matcher_result matcher_mask(struct matcher *m, uint32_t *words)
{
    const struct vocabulary *v = m->cache->v;
    int ends = m->done || tokens_find(m, words) ? ends_here(m) : -1;
    enum matcher_result result = MATCHER_OK;
    if (ends < 0)
        result = MATCHER_OVER;
    if (ends < 0 || m->done)
        memset(words, 0, v->words * sizeof *words);
    else if (ends == 0 && nothing_set(v, words))
        result = MATCHER_STUCK;
    if (ends == 1 || result != MATCHER_OK)
        for (uint32_t i = 0; i < v->end_count; i++)
            words[v->ends[i] / 32] |= 1u << (v->ends[i] % 32);
    return result;
}

static uint32_t matcher_step(struct matcher *m, uint8_t byte)
{
    return automaton_step(&m->cache->a, m->state, m->cache->g->class_of[byte]);
}

// Returns the state after the bytes, STATE_DEAD, or STATE_FAILED if a limit was exceeded. A text
// longer than a token gets one work bound per VOCABULARY_TOKEN_BYTES_MAX bytes.
static uint32_t state_after(struct matcher *m, struct text bytes)
{
    struct matcher ahead;
    struct attempt call = call_begin(m);
    matcher_copy(&ahead, m);
    for (size_t i = 0; i < bytes.bytes && ahead.state >= STATE_FIRST && !ahead.evicted; i++) {
        if (i % VOCABULARY_TOKEN_BYTES_MAX == 0)
            call = call_begin(&ahead);
        uint32_t to = matcher_step(&ahead, (uint8_t)bytes.at[i]);
        while (to == STATE_FAILED && call_again(&call))
            to = matcher_step(&ahead, (uint8_t)bytes.at[i]);
        ahead.state = to;
    }
    uint32_t state = m->evicted || ahead.evicted ? STATE_FAILED : ahead.state;
    m->out_of_memory = m->out_of_memory || ahead.out_of_memory;
    m->memory_contended = m->memory_contended || ahead.memory_contended;
    matcher_end(&ahead);
    return state;
}

bool matcher_accept_bytes(struct matcher *m, struct text bytes)
{
    uint32_t to = m->done ? STATE_DEAD : state_after(m, bytes);
    if (to < STATE_FIRST)
        return false;
    m->state = to;
    return true;
}

bool matcher_is_after(struct matcher *m, struct text bytes)
{
    struct matcher other;
    matcher_copy(&other, m);
    matcher_restart(&other);
    bool accepted = matcher_accept_bytes(&other, bytes);
    bool equal = accepted && !m->done && !m->evicted && other.state == m->state;
    matcher_end(&other);
    return equal;
}

bool matcher_accept(struct matcher *m, int32_t token)
{
    struct mask_cache *c = m->cache;
    struct text bytes = vocabulary_token(c->v, token);
    if (bytes.bytes > 0)
        return matcher_accept_bytes(m, bytes);
    if (!vocabulary_is_end(c->v, token))
        return false;
    m->done = matcher_may_end(m) || matcher_mask(m, c->accept_row) != MATCHER_OK;
    return m->done;
}

bool matcher_out_of_memory(const struct matcher *m)
{
    return m->out_of_memory;
}

bool matcher_memory_contended(const struct matcher *m)
{
    return m->memory_contended;
}

bool matcher_is_done(const struct matcher *m)
{
    return m->done;
}
