// SPDX-License-Identifier: Apache-2.0
// The cache of grammars: see grammars.h. A grammar is in use while its reference count is above the
// cache's own reference. References are given out under the lock, so an unused grammar stays unused
// while the lock is held.
#include "http/api/grammars.h"

#include "base/arena.h"
#include "base/clock.h"

#include <pthread.h>
#include <string.h>

enum { BUCKETS = 4096 };

struct grammars_entry {
    struct grammars_entry *next;          // next in its bucket, or in a list of evicted entries
    struct grammars_entry *older, *newer; // neighbours in its order, by time of the last lookup
    struct grammars_entry *used_next;     // next in the cache's list `used`, if `used` is set
    bool used;                            // true if in that list: it was in use when last examined
    struct hash hash;
    struct grammar *grammar; // NULL: source rejected, or grammar too large
    struct error *refusal;
    size_t bytes;      // size of grammar and entry; 0: no grammar
    size_t bytes_lack; // size of a grammar that was too large; 0: all other entries
};

struct order {
    struct grammars_entry *oldest, *newest;
    uint32_t count, count_max;
};

struct grammars {
    pthread_mutex_t lock; // protects all members; not held while a grammar is compiled or freed
    struct grammars_entry *buckets[BUCKETS];
    struct order compiled, others; // entries with a grammar; entries without one
    struct grammars_entry *used;   // list of all entries in use, and some that no longer are
    size_t bytes, bytes_max;
    struct grammars_stats stats;
};

struct grammars *grammars_create(size_t bytes_max)
{
    struct grammars *cache = heap_alloc_zeroed(1, sizeof *cache);
    pthread_mutex_init(&cache->lock, NULL);
    cache->bytes_max = bytes_max > 0 ? bytes_max : GRAMMARS_BYTES_MAX;
    cache->compiled.count_max = GRAMMARS_COUNT_MAX;
    cache->others.count_max = GRAMMARS_OTHERS_MAX;
    return cache;
}

struct hash grammars_hash(const struct grammar_source *source)
{
    struct {
        struct hash text;
        uint64_t kind, dialect, strict;
        uint32_t alphabet[8];
    } all = {hash_own(source->text.at, source->text.bytes),
             (uint64_t)source->kind,
             (uintptr_t)source->dialect,
             source->strict,
             {0}};
    if (source->alphabet)
        memcpy(all.alphabet, source->alphabet, sizeof all.alphabet);
    return hash_own(&all, sizeof all);
}

static struct grammars_entry **bucket_of(struct grammars *cache, const struct hash *hash)
{
    return &cache->buckets[hash->low % BUCKETS];
}

static struct grammars_entry *entry_find(struct grammars *cache, const struct hash *hash)
{
    struct grammars_entry *e = *bucket_of(cache, hash);
    while (e && (e->hash.low != hash->low || e->hash.high != hash->high))
        e = e->next;
    return e;
}

static struct order *order_of(struct grammars *cache, const struct grammars_entry *e)
{
    return e->grammar ? &cache->compiled : &cache->others;
}

static void newest_set(struct order *order, struct grammars_entry *e)
{
    e->older = order->newest;
    e->newer = NULL;
    *(e->older ? &e->older->newer : &order->oldest) = e;
    order->newest = e;
    order->count++;
}

static void order_leave(struct order *order, struct grammars_entry *e)
{
    *(e->older ? &e->older->newer : &order->oldest) = e->newer;
    *(e->newer ? &e->newer->older : &order->newest) = e->older;
    order->count--;
}

static void used_add(struct grammars *cache, struct grammars_entry *e)
{
    if (e->used)
        return;
    e->used = true;
    e->used_next = cache->used;
    cache->used = e;
}

// Returns the bytes of the grammars in use. Removes entries that are no longer in use from the
// list, so that each is examined only once after its use.
static size_t bytes_used(struct grammars *cache)
{
    size_t bytes = 0;
    for (struct grammars_entry *e, **link = &cache->used; (e = *link);) {
        cache->stats.examined++;
        if (grammar_owners(e->grammar) > 1) {
            bytes += e->bytes;
            link = &e->used_next;
        } else {
            e->used = false;
            *link = e->used_next;
        }
    }
    return bytes;
}

// Requires that the entry is not in the `used` list.
static void entry_unlink(struct grammars *cache, struct grammars_entry *e)
{
    struct grammars_entry **link = bucket_of(cache, &e->hash);
    while (*link != e)
        link = &(*link)->next;
    *link = e->next;
    order_leave(order_of(cache, e), e);
    cache->bytes -= e->bytes;
}

// Freeing a large grammar takes milliseconds: the caller does not hold the lock.
static void entries_free(struct grammars_entry *e)
{
    for (struct grammars_entry *next; e; e = next) {
        next = e->next;
        grammar_unref(e->grammar);
        heap_free(e->refusal);
        heap_free(e);
    }
}

static void order_empty(struct grammars *cache, struct order *order)
{
    while (order->oldest) {
        struct grammars_entry *e = order->oldest;
        entry_unlink(cache, e);
        e->next = NULL;
        entries_free(e);
    }
}

void grammars_destroy(struct grammars *cache)
{
    if (!cache)
        return;
    order_empty(cache, &cache->compiled);
    order_empty(cache, &cache->others);
    pthread_mutex_destroy(&cache->lock);
    heap_free(cache);
}

// Returns true if a grammar of this size may be given out, assuming that unused ones are evicted.
static bool grammar_fits(struct grammars *cache, size_t bytes)
{
    return bytes <= (cache->bytes_max - bytes_used(cache)) / GRAMMARS_SHARE;
}

// Evicts unused entries to the list *gone until the entry fits; returns false if it does not. An
// entry without a grammar replaces only entries without one.
static bool entry_fit(struct grammars *cache, const struct grammars_entry *entry,
                      struct grammars_entry **gone)
{
    struct order *order = order_of(cache, entry);
    struct grammars_entry *e = order->oldest, *newer;
    size_t most = cache->bytes_max - entry->bytes; // meaningful only if grammar_fits, checked below
    if (entry->bytes > 0 && !grammar_fits(cache, entry->bytes))
        return false;
    for (; e && (order->count == order->count_max || cache->bytes > most); e = newer) {
        newer = e->newer;
        if (e->used)
            continue;
        entry_unlink(cache, e);
        e->next = *gone;
        *gone = e;
    }
    return order->count < order->count_max && cache->bytes <= most;
}

// Adds an entry with the result for a source; returns false if it does not fit.
static bool entry_put(struct grammars *cache, const struct grammars_entry *entry,
                      struct grammars_entry **gone)
{
    if (!entry_fit(cache, entry, gone))
        return false;
    struct grammars_entry *e = heap_alloc(sizeof *e);
    *e = *entry;
    if (e->grammar) {
        grammar_ref(e->grammar);
        used_add(cache, e);
    }
    e->next = *bucket_of(cache, &e->hash);
    *bucket_of(cache, &e->hash) = e;
    newest_set(order_of(cache, e), e);
    cache->bytes += e->bytes;
    return true;
}

static enum grammars_found found_in(struct grammars *cache, struct grammars_entry *e,
                                    struct grammar **out, struct error *err)
{
    if (e->bytes_lack > 0 && grammar_fits(cache, e->bytes_lack)) {
        entry_unlink(cache, e);
        heap_free(e);
        return GRAMMARS_UNKNOWN;
    }
    order_leave(order_of(cache, e), e);
    newest_set(order_of(cache, e), e);
    cache->stats.hits++;
    if (e->bytes_lack > 0) {
        cache->stats.busy++;
        return GRAMMARS_BUSY;
    }
    if (e->grammar) {
        used_add(cache, e);
        *out = grammar_ref(e->grammar);
        return GRAMMARS_FOUND;
    }
    *err = *e->refusal;
    cache->stats.refused++;
    return GRAMMARS_REFUSED;
}

enum grammars_found grammars_find(struct grammars *cache, const struct hash *hash,
                                  struct grammar **out, struct error *err)
{
    *out = NULL;
    pthread_mutex_lock(&cache->lock);
    struct grammars_entry *e = entry_find(cache, hash);
    enum grammars_found found = e ? found_in(cache, e, out, err) : GRAMMARS_UNKNOWN;
    pthread_mutex_unlock(&cache->lock);
    return found;
}

// Makes an entry. Entries without a grammar count as 0 bytes, because they are small and limited in
// number.
static struct grammars_entry entry_of(const struct hash *hash, struct grammar *grammar,
                                      const struct error *err)
{
    struct grammars_entry e = {.hash = *hash, .grammar = grammar};
    if (grammar) {
        e.bytes = sizeof e + grammar_bytes(grammar);
    } else {
        e.refusal = heap_alloc(sizeof *err);
        *e.refusal = *err;
    }
    return e;
}

// Adds the result of compiling. If the grammar does not fit, adds an entry with its size instead
// and sets *out to NULL.
static enum grammars_found compiled_put(struct grammars *cache, const struct grammars_entry *e,
                                        struct grammars_entry **gone, struct grammar **out)
{
    struct grammars_entry busy = {.hash = e->hash, .bytes_lack = e->bytes};
    bool kept = entry_put(cache, e, gone);
    if (!e->grammar) {
        if (!kept)
            heap_free(e->refusal);
        cache->stats.refused++;
        return GRAMMARS_REFUSED;
    }
    if (kept)
        return GRAMMARS_FOUND;
    (void)entry_put(cache, &busy, gone);
    cache->stats.busy++;
    *out = NULL;
    return GRAMMARS_BUSY;
}

enum grammars_found grammars_compile(struct grammars *cache, const struct grammar_source *source,
                                     const struct hash *hash, struct grammar **out,
                                     struct error *err)
{
    enum grammars_found found = grammars_find(cache, hash, out, err);
    if (found != GRAMMARS_UNKNOWN)
        return found;
    uint64_t begun = clock_ns();
    if (grammar_source_compile(source, out, err) != STATUS_OK)
        *out = NULL;
    struct grammars_entry e = entry_of(hash, *out, err), *gone = NULL;
    pthread_mutex_lock(&cache->lock);
    found = compiled_put(cache, &e, &gone, out);
    cache->stats.compiled++;
    cache->stats.compile_ns += clock_ns() - begun;
    pthread_mutex_unlock(&cache->lock);
    entries_free(gone);
    if (found == GRAMMARS_BUSY)
        grammar_unref(e.grammar);
    return found;
}

struct grammars_stats grammars_stats(struct grammars *cache)
{
    pthread_mutex_lock(&cache->lock);
    size_t used = bytes_used(cache);
    struct grammars_stats stats = cache->stats;
    stats.bytes = cache->bytes;
    stats.count = cache->compiled.count + cache->others.count;
    stats.used_bytes = used;
    pthread_mutex_unlock(&cache->lock);
    return stats;
}
