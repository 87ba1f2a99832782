// See grammars.h. Few entries hold large things, so they stand in one array that is looked through
// by hash; all bytes are compared before an entry counts as the same.
#include "http/api/grammars.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/random.h"

#include <pthread.h>
#include <string.h>

struct grammars_entry {
    uint64_t hash, used; // used: the clock of the cache when it was last found
    struct grammar_source source;
    struct grammar *grammar; // NULL: refused
    struct error *refusal;   // NULL: made
    size_t bytes;
};

struct grammars {
    pthread_mutex_t lock; // of all below; never held while a grammar is compiled
    struct grammars_entry *entries;
    uint32_t count;
    size_t bytes, bytes_max;
    uint64_t seed, clock;
    struct grammars_stats stats;
};

struct grammars *grammars_create(size_t bytes_max)
{
    struct grammars *cache = heap_take_zeroed(1, sizeof *cache);
    pthread_mutex_init(&cache->lock, NULL);
    cache->entries = heap_take_zeroed(GRAMMARS_COUNT_MAX, sizeof *cache->entries);
    cache->bytes_max = bytes_max > 0 ? bytes_max : GRAMMARS_BYTES_MAX;
    cache->seed = random_seed();
    return cache;
}

static void entry_drop(struct grammars *cache, uint32_t i)
{
    struct grammars_entry *e = &cache->entries[i];
    cache->bytes -= e->bytes;
    grammar_give(e->grammar);
    heap_give(e->refusal);
    heap_give((char *)e->source.text.at); // made by entry_put
    *e = cache->entries[--cache->count];
}

void grammars_destroy(struct grammars *cache)
{
    if (!cache)
        return;
    while (cache->count > 0)
        entry_drop(cache, cache->count - 1);
    pthread_mutex_destroy(&cache->lock);
    heap_give(cache->entries);
    heap_give(cache);
}

static uint64_t hash_of(const struct grammars *cache, const struct grammar_source *source)
{
    uint64_t hash = cache->seed ^ source->kind ^ (uintptr_t)source->dialect;
    for (size_t i = 0; i < source->text.bytes; i++)
        hash = (hash ^ (unsigned char)source->text.at[i]) * 1099511628211u;
    return hash;
}

static struct grammars_entry *entry_find(struct grammars *cache,
                                         const struct grammar_source *source, uint64_t hash)
{
    for (uint32_t i = 0; i < cache->count; i++) {
        struct grammars_entry *e = &cache->entries[i];
        if (e->hash == hash && e->source.kind == source->kind &&
            e->source.dialect == source->dialect && text_equal(e->source.text, source->text))
            return e;
    }
    return NULL;
}

static void oldest_drop(struct grammars *cache)
{
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < cache->count; i++)
        if (cache->entries[i].used < cache->entries[oldest].used)
            oldest = i;
    entry_drop(cache, oldest);
}

// Keeps what became of a source, unless it alone is over the bound.
static void entry_put(struct grammars *cache, const struct grammar_source *source, uint64_t hash,
                      struct grammar *grammar, const struct error *err)
{
    struct grammars_entry e = {.hash = hash, .used = ++cache->clock, .source = *source};
    e.bytes = sizeof e + source->text.bytes + (grammar ? grammar_bytes(grammar) : sizeof *err);
    if (e.bytes > cache->bytes_max)
        return;
    while (cache->count == GRAMMARS_COUNT_MAX || cache->bytes + e.bytes > cache->bytes_max)
        oldest_drop(cache);
    char *text = heap_take(source->text.bytes);
    if (source->text.bytes > 0)
        memcpy(text, source->text.at, source->text.bytes);
    e.source.text.at = text;
    if (grammar) {
        e.grammar = grammar_take(grammar);
    } else {
        e.refusal = heap_take(sizeof *err);
        *e.refusal = *err;
    }
    cache->bytes += e.bytes;
    cache->entries[cache->count++] = e;
}

static enum grammars_found found_in(struct grammars *cache, struct grammars_entry *e,
                                    struct grammar **out, struct error *err)
{
    e->used = ++cache->clock;
    cache->stats.hits++;
    if (e->grammar) {
        *out = grammar_take(e->grammar);
        return GRAMMARS_MADE;
    }
    *err = *e->refusal;
    cache->stats.refused++;
    return GRAMMARS_REFUSED;
}

static enum grammars_found find(struct grammars *cache, const struct grammar_source *source,
                                uint64_t hash, struct grammar **out, struct error *err)
{
    *out = NULL;
    pthread_mutex_lock(&cache->lock);
    struct grammars_entry *e = entry_find(cache, source, hash);
    enum grammars_found found = e ? found_in(cache, e, out, err) : GRAMMARS_UNKNOWN;
    pthread_mutex_unlock(&cache->lock);
    return found;
}

enum grammars_found grammars_find(struct grammars *cache, const struct grammar_source *source,
                                  struct grammar **out, struct error *err)
{
    return find(cache, source, hash_of(cache, source), out, err);
}

enum grammars_found grammars_compile(struct grammars *cache, const struct grammar_source *source,
                                     struct grammar **out, struct error *err)
{
    uint64_t hash = hash_of(cache, source);
    enum grammars_found found = find(cache, source, hash, out, err);
    if (found != GRAMMARS_UNKNOWN)
        return found;
    uint64_t begun = clock_ns();
    enum status status = grammar_source_compile(source, out, err);
    pthread_mutex_lock(&cache->lock);
    cache->stats.compiled++;
    cache->stats.compile_ns += clock_ns() - begun;
    cache->stats.refused += status != STATUS_OK;
    if (!entry_find(cache, source, hash))
        entry_put(cache, source, hash, *out, err);
    pthread_mutex_unlock(&cache->lock);
    return status == STATUS_OK ? GRAMMARS_MADE : GRAMMARS_REFUSED;
}

struct grammars_stats grammars_stats(struct grammars *cache)
{
    pthread_mutex_lock(&cache->lock);
    struct grammars_stats stats = cache->stats;
    stats.bytes = cache->bytes;
    stats.count = cache->count;
    pthread_mutex_unlock(&cache->lock);
    return stats;
}
