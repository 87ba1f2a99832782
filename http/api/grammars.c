// See grammars.h. A grammar is in use while anybody beside its entry has a count of it. Counts are
// given away under the lock, so one that is not in use stays so while the lock is held.
#include "http/api/grammars.h"

#include "base/arena.h"
#include "base/clock.h"

#include <pthread.h>
#include <string.h>

enum { BUCKETS = 4096 };

struct grammars_entry {
    struct grammars_entry *next;          // in its bucket, or of those that go
    struct grammars_entry *older, *newer; // by when it was last found
    struct hash hash;
    struct grammar *grammar; // NULL: refused, or there was no room for it
    struct error *refusal;
    size_t bytes;      // of the grammar and this; 0: without a grammar
    size_t bytes_lack; // that a grammar without room would take; 0: of others
};

struct grammars {
    pthread_mutex_t lock; // of all below; never held while a grammar is compiled or freed
    struct grammars_entry *buckets[BUCKETS];
    struct grammars_entry *oldest, *newest;
    uint32_t count;
    size_t bytes, bytes_max;
    struct grammars_stats stats;
};

struct grammars *grammars_create(size_t bytes_max)
{
    struct grammars *cache = heap_take_zeroed(1, sizeof *cache);
    pthread_mutex_init(&cache->lock, NULL);
    cache->bytes_max = bytes_max > 0 ? bytes_max : GRAMMARS_BYTES_MAX;
    return cache;
}

struct hash grammars_hash(const struct grammar_source *source)
{
    struct {
        struct hash text;
        uint64_t kind, dialect;
        uint32_t alphabet[8];
    } all = {hash_own(source->text.at, source->text.bytes),
             (uint64_t)source->kind,
             (uintptr_t)source->dialect,
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

static void newest_set(struct grammars *cache, struct grammars_entry *e)
{
    e->older = cache->newest;
    e->newer = NULL;
    *(e->older ? &e->older->newer : &cache->oldest) = e;
    cache->newest = e;
}

static void order_leave(struct grammars *cache, struct grammars_entry *e)
{
    *(e->older ? &e->older->newer : &cache->oldest) = e->newer;
    *(e->newer ? &e->newer->older : &cache->newest) = e->older;
}

static void entry_unlink(struct grammars *cache, struct grammars_entry *e)
{
    struct grammars_entry **link = bucket_of(cache, &e->hash);
    while (*link != e)
        link = &(*link)->next;
    *link = e->next;
    order_leave(cache, e);
    cache->bytes -= e->bytes;
    cache->count--;
}

// Takes milliseconds for a large grammar: without the lock.
static void entries_free(struct grammars_entry *e)
{
    for (struct grammars_entry *next; e; e = next) {
        next = e->next;
        grammar_give(e->grammar);
        heap_give(e->refusal);
        heap_give(e);
    }
}

void grammars_destroy(struct grammars *cache)
{
    if (!cache)
        return;
    while (cache->oldest) {
        struct grammars_entry *e = cache->oldest;
        entry_unlink(cache, e);
        e->next = NULL;
        entries_free(e);
    }
    pthread_mutex_destroy(&cache->lock);
    heap_give(cache);
}

static bool is_used(const struct grammars_entry *e)
{
    return e->grammar && grammar_owners(e->grammar) > 1;
}

static size_t bytes_used(const struct grammars *cache)
{
    size_t bytes = 0;
    for (const struct grammars_entry *e = cache->oldest; e; e = e->newer)
        bytes += is_used(e) ? e->bytes : 0;
    return bytes;
}

// So much can be given away, once what nobody uses is gone.
static bool room_is(const struct grammars *cache, size_t bytes)
{
    return bytes <= (cache->bytes_max - bytes_used(cache)) / GRAMMARS_SHARE;
}

// Moves what nobody uses to *gone until so many bytes fit; false: they do not.
static bool room_make(struct grammars *cache, size_t bytes, struct grammars_entry **gone)
{
    struct grammars_entry *e = cache->oldest, *newer;
    if (bytes > 0 && !room_is(cache, bytes))
        return false;
    for (; e && (cache->count == GRAMMARS_COUNT_MAX || cache->bytes + bytes > cache->bytes_max);
         e = newer) {
        newer = e->newer;
        if (is_used(e))
            continue;
        entry_unlink(cache, e);
        e->next = *gone;
        *gone = e;
    }
    return cache->count < GRAMMARS_COUNT_MAX && cache->bytes + bytes <= cache->bytes_max;
}

// Keeps what became of a source; false: there is no room for it.
static bool entry_put(struct grammars *cache, const struct grammars_entry *entry,
                      struct grammars_entry **gone)
{
    if (!room_make(cache, entry->bytes, gone))
        return false;
    struct grammars_entry *e = heap_take(sizeof *e);
    *e = *entry;
    if (e->grammar)
        grammar_take(e->grammar);
    e->next = *bucket_of(cache, &e->hash);
    *bucket_of(cache, &e->hash) = e;
    newest_set(cache, e);
    cache->bytes += e->bytes;
    cache->count++;
    return true;
}

static enum grammars_found found_in(struct grammars *cache, struct grammars_entry *e,
                                    struct grammar **out, struct error *err)
{
    if (e->bytes_lack > 0 && room_is(cache, e->bytes_lack)) {
        entry_unlink(cache, e);
        heap_give(e);
        return GRAMMARS_UNKNOWN;
    }
    order_leave(cache, e);
    newest_set(cache, e);
    cache->stats.hits++;
    if (e->bytes_lack > 0) {
        cache->stats.busy++;
        return GRAMMARS_BUSY;
    }
    if (e->grammar) {
        *out = grammar_take(e->grammar);
        return GRAMMARS_MADE;
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

// Those without a grammar are small and bounded by their number.
static struct grammars_entry entry_of(const struct hash *hash, struct grammar *grammar,
                                      const struct error *err)
{
    struct grammars_entry e = {.hash = *hash, .grammar = grammar};
    if (grammar) {
        e.bytes = sizeof e + grammar_bytes(grammar);
    } else {
        e.refusal = heap_take(sizeof *err);
        *e.refusal = *err;
    }
    return e;
}

// Keeps what became of the source, or that there was no room for it. Sets *out to NULL then.
static enum grammars_found compiled_put(struct grammars *cache, const struct grammars_entry *e,
                                        struct grammars_entry **gone, struct grammar **out)
{
    struct grammars_entry busy = {.hash = e->hash, .bytes_lack = e->bytes};
    bool kept = entry_put(cache, e, gone);
    if (!e->grammar) {
        if (!kept)
            heap_give(e->refusal);
        cache->stats.refused++;
        return GRAMMARS_REFUSED;
    }
    if (kept)
        return GRAMMARS_MADE;
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
        grammar_give(e.grammar);
    return found;
}

struct grammars_stats grammars_stats(struct grammars *cache)
{
    pthread_mutex_lock(&cache->lock);
    struct grammars_stats stats = cache->stats;
    stats.bytes = cache->bytes;
    stats.count = cache->count;
    stats.used_bytes = bytes_used(cache);
    pthread_mutex_unlock(&cache->lock);
    return stats;
}
