// Caches and the matchers that stand in them. See matcher.h.
#include "runtime/grammar/mask.h"

#include "base/arena.h"

#include <string.h>

enum { CACHE_BYTES_MIN = 4 << 20, CACHE_BYTES = 32 << 20 };

struct mask_cache *mask_cache_create(struct grammar *g, struct vocabulary *v, size_t bytes_max)
{
    struct mask_cache *c = heap_take_zeroed(1, sizeof *c);
    c->bytes = bytes_max == 0 ? CACHE_BYTES : bytes_max;
    if (c->bytes < CACHE_BYTES_MIN)
        c->bytes = CACHE_BYTES_MIN;
    c->g = grammar_take(g);
    c->v = vocabulary_take(v);
    automaton_open(&c->a, g, c->bytes / 2);
    c->a.reach[0] = TOKEN_NEAR;
    c->a.reach[1] = v->longest;
    c->kept_capacity = (c->bytes / 2 - 64) / sizeof *c->kept;
    pages_open(&c->pages, c->bytes / 2);
    c->kept = pages_take(&c->pages, c->kept_capacity, sizeof *c->kept);
    c->edges = heap_take(PLAIN_EDGES_MAX * sizeof *c->edges);
    c->path = heap_take((VOCABULARY_TOKEN_BYTES_MAX + 1) * sizeof *c->path);
    c->row = heap_take((2 * (size_t)v->words + 1) * sizeof *c->row);
    c->ask = c->row + v->words;
    mask_edges_find(c);
    mask_forget(c);
    c->start = automaton_start(&c->a);
    return c;
}

void mask_cache_destroy(struct mask_cache *c)
{
    if (!c)
        return;
    check(!c->matchers, "a matcher still stands in the cache");
    automaton_close(&c->a);
    pages_close(&c->pages);
    heap_give(c->edges);
    heap_give(c->path);
    heap_give(c->row);
    grammar_give(c->g);
    vocabulary_give(c->v);
    heap_give(c);
}

struct mask_cache_stats mask_cache_stats(const struct mask_cache *c)
{
    return (struct mask_cache_stats){
        .computed = c->computed,
        .reused = c->reused,
        .forgotten = c->forgotten,
        .states = c->a.state_count - STATE_FIRST,
        .bytes = automaton_used(&c->a) + c->kept_count * sizeof *c->kept,
    };
}

// Forgets everything but where the matchers stand; the second time without success in between, what
// is new counts as not allowed for the present call.
static void cache_forget(struct mask_cache *c, bool again)
{
    c->forgotten++;
    automaton_keep(&c->a, c->start);
    for (struct matcher *m = c->matchers; m; m = m->next)
        automaton_keep(&c->a, m->state);
    automaton_compact(&c->a);
    mask_forget(c);
    c->start = c->a.moved[c->start];
    for (struct matcher *m = c->matchers; m; m = m->next)
        m->state = c->a.moved[m->state];
    c->a.starved = again;
}

void matcher_init(struct matcher *m, struct mask_cache *c)
{
    *m = (struct matcher){.cache = c, .next = c->matchers, .state = c->start};
    if (c->matchers)
        c->matchers->previous = m;
    c->matchers = m;
}

void matcher_copy(struct matcher *m, const struct matcher *from)
{
    matcher_init(m, from->cache);
    m->state = from->state;
    m->done = from->done;
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

static bool nothing_set(const struct vocabulary *v, const uint32_t *words)
{
    for (uint32_t w = 0; w < v->words; w++)
        if (words[w] != 0)
            return false;
    return true;
}

void matcher_mask(struct matcher *m, uint32_t *words)
{
    struct mask_cache *c = m->cache;
    if (m->done)
        memset(words, 0, c->v->words * sizeof *words);
    for (int tries = 0; !m->done && !mask_find(c, m->state, words); tries++)
        cache_forget(c, tries > 0);
    c->a.starved = false;
    if (m->done || matcher_may_end(m) || nothing_set(c->v, words))
        for (uint32_t i = 0; i < c->v->end_count; i++)
            words[c->v->ends[i] / 32] |= 1u << (c->v->ends[i] % 32);
}

bool matcher_may_end(struct matcher *m)
{
    int ends = m->done ? 1 : automaton_ends(&m->cache->a, m->state);
    for (int tries = 0; ends < 0; tries++) {
        cache_forget(m->cache, tries > 0);
        ends = automaton_ends(&m->cache->a, m->state);
    }
    m->cache->a.starved = false;
    return ends > 0;
}

static uint32_t state_walk(struct mask_cache *c, uint32_t state, struct text bytes)
{
    for (size_t i = 0; i < bytes.bytes && state >= STATE_FIRST; i++)
        state = automaton_step(&c->a, state, c->g->class_of[(uint8_t)bytes.at[i]]);
    return state;
}

bool matcher_needs_mask(struct matcher *m)
{
    const struct vocabulary *v = m->cache->v;
    uint32_t *words = m->cache->ask;
    matcher_mask(m, words);
    for (uint32_t w = 0; w < v->words; w++)
        if (v->any[w] & ~words[w])
            return true;
    return false;
}

// The state after the bytes, or STATE_DEAD.
static uint32_t state_after(struct matcher *m, struct text bytes)
{
    struct mask_cache *c = m->cache;
    uint32_t to = state_walk(c, m->state, bytes);
    for (int tries = 0; to == STATE_NO_ROOM; tries++) {
        cache_forget(c, tries > 0);
        to = state_walk(c, m->state, bytes);
    }
    c->a.starved = false;
    return to;
}

bool matcher_accept_bytes(struct matcher *m, struct text bytes)
{
    uint32_t to = m->done ? STATE_DEAD : state_after(m, bytes);
    if (to == STATE_DEAD)
        return false;
    m->state = to;
    return true;
}

bool matcher_accept(struct matcher *m, int32_t token)
{
    struct mask_cache *c = m->cache;
    struct text bytes = vocabulary_token(c->v, token);
    if (bytes.bytes > 0)
        return matcher_accept_bytes(m, bytes);
    if (!vocabulary_is_end(c->v, token))
        return false;
    if (!matcher_may_end(m)) {
        matcher_mask(m, c->ask);
        if (!(c->ask[token / 32] >> (token % 32) & 1))
            return false;
    }
    m->done = true;
    return true;
}

bool matcher_is_done(const struct matcher *m)
{
    return m->done;
}

// How many bytes can come next: 0, 1 or 2 (more); *byte: the last one seen.
static uint32_t bytes_next(struct matcher *m, uint32_t *byte)
{
    uint32_t count = 0;
    for (uint32_t b = 0; b < 256 && count < 2; b++) {
        char one = (char)b;
        if (state_after(m, text_span(&one, 1)) == STATE_DEAD)
            continue;
        count++;
        *byte = b;
    }
    return count;
}

bool matcher_must_end(struct matcher *m)
{
    uint32_t byte;
    return m->done || (matcher_may_end(m) && bytes_next(m, &byte) == 0);
}

uint32_t matcher_forced(struct matcher *m, char *out, uint32_t out_max)
{
    struct matcher ahead;
    uint32_t bytes = 0, byte;
    matcher_copy(&ahead, m);
    while (bytes < out_max && !matcher_may_end(&ahead) && bytes_next(&ahead, &byte) == 1) {
        out[bytes] = (char)byte;
        if (!matcher_accept_bytes(&ahead, text_span(out + bytes, 1)))
            break;
        bytes++;
    }
    matcher_end(&ahead);
    return bytes;
}
