// SPDX-License-Identifier: Apache-2.0
// Cache of compiled grammars, keyed by the hash of their source. A schema is compiled once for all
// requests, models and threads. Rejected sources are cached as well and are rejected again without
// compiling. A grammar that did not fit into memory is remembered with its size, and is compiled
// again once it would fit (see below).
//
// The schemas of tools are part of a larger source, together with the tools' order, the model's
// dialect and everything else that constrains the answer; if any of these differs, it is another
// source.
//
// Two sources are equal if kind, dialect, alphabet and all bytes of the text are equal. The order
// of keys matters, because it is the order in which the model writes them. Sources are compared by
// a keyed hash (base/hash.h) for which clients cannot construct collisions, so a lookup takes the
// same time for large and small sources.
//
// The cache holds all grammars, whether in use or not, and bounds their total bytes and number.
// Entries without a grammar have a separate bound, so that rejected sources do not evict grammars.
// Entries that no request uses are evicted, least recently used first. A new grammar fits if it
// needs at most a quarter of the memory that the grammars in use leave free, so that a few large
// grammars do not keep out all others; if it does not fit, the result is GRAMMARS_BUSY.
//
// Thread-safe. grammars_find takes microseconds. grammars_compile takes up to a second and is
// called only by the grammar thread (http/work.h), so that equal sources in its queue are compiled
// once.
#pragma once

#include "base/hash.h"
#include "runtime/text/grammar/source.h"

struct grammars;

// Limits of the cache: bytes and number of grammars, number of entries without one, and the divisor
// for the free memory that one grammar may take.
enum {
    GRAMMARS_BYTES_MAX = 128 << 20,
    GRAMMARS_COUNT_MAX = 4096,
    GRAMMARS_OTHERS_MAX = 1024,
    GRAMMARS_SHARE = 4
};

struct grammars *grammars_create(size_t bytes_max); // 0: GRAMMARS_BYTES_MAX
void grammars_destroy(struct grammars *cache);      // NULL is allowed

// Hashes a source: about 1 ms for a megabyte.
struct hash grammars_hash(const struct grammar_source *source);

enum grammars_found {
    GRAMMARS_UNKNOWN, // not in the cache: must be compiled
    GRAMMARS_FOUND,
    GRAMMARS_REFUSED,
    GRAMMARS_BUSY, // does not fit now, because of the grammars in use; may fit later
};

// Looks up a source. GRAMMARS_FOUND: *out is a reference that the caller releases with
// grammar_unref; otherwise *out is NULL. GRAMMARS_REFUSED: err has the reason.
enum grammars_found grammars_find(struct grammars *cache, const struct hash *hash,
                                  struct grammar **out, struct error *err);

// Looks up the source and compiles it if it is unknown; never returns GRAMMARS_UNKNOWN. hash: that
// of the source. *out and err: as in grammars_find.
enum grammars_found grammars_compile(struct grammars *cache, const struct grammar_source *source,
                                     const struct hash *hash, struct grammar **out,
                                     struct error *err);

struct grammars_stats {
    uint64_t compiled, compile_ns; // rejected sources included
    uint64_t hits;                 // lookups that found an entry, also one without a grammar
    uint64_t refused;              // results GRAMMARS_REFUSED, from the cache or from compiling
    uint64_t busy;                 // results GRAMMARS_BUSY
    uint64_t bytes, count;         // of the entries held now
    uint64_t used_bytes;           // bytes of the grammars in use
    uint64_t examined;             // entries examined to find out whether they are in use
};
struct grammars_stats grammars_stats(struct grammars *cache);
