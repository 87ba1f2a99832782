// Compiled grammars of requests, kept by the hash of their source: the same schema is compiled once
// for all requests, models and threads, and what was refused is refused again without another try.
// What found no room is known, too, by how much it needs, and is tried again once there is so much.
// The schemas of tools are part of a larger source, which has the tools, their order, the model's
// dialect and what else binds the answer: another of these is another source.
//
// Two sources are the same when their kind, dialect, alphabet and all bytes of their text are, the
// order of keys included, because it is the order in which they are written. They are told apart by
// a keyed hash (base/hash.h) that nobody can make collide, so that finding one takes as long for a
// large source as for a small one.
//
// All grammars of requests are here, those in use and those that are kept: together they are
// bounded by bytes and number. What has no grammar is bounded by a number of its own, so that
// refused sources push out none. What nobody uses goes first, the least recently used before
// others. One that would take more than a quarter of what those in use leave is not given away, so
// that a few large ones do not keep out all others.
//
// Any thread. grammars_find takes microseconds; grammars_compile takes up to a second and is for
// the grammar thread (http/work.h) alone, so that equal sources which wait there are compiled once.
#pragma once

#include "base/hash.h"
#include "runtime/text/grammar/source.h"

struct grammars;

enum {
    GRAMMARS_BYTES_MAX = 128 << 20,
    GRAMMARS_COUNT_MAX = 4096,
    GRAMMARS_OTHERS_MAX = 1024,
    GRAMMARS_SHARE = 4
};

struct grammars *grammars_create(size_t bytes_max); // 0: GRAMMARS_BYTES_MAX
void grammars_destroy(struct grammars *cache);      // NULL is allowed

// About 1 ms for a megabyte.
struct hash grammars_hash(const struct grammar_source *source);

enum grammars_found {
    GRAMMARS_UNKNOWN, // it must be compiled
    GRAMMARS_MADE,
    GRAMMARS_REFUSED,
    GRAMMARS_BUSY, // the grammars in use leave no room for it now
};

// What is known of a source. MADE: *out is counted for the caller (grammar_give). REFUSED: why is
// in err.
enum grammars_found grammars_find(struct grammars *cache, const struct hash *hash,
                                  struct grammar **out, struct error *err);

// The same after compiling it, if nobody did meanwhile: never UNKNOWN. hash: of the source.
enum grammars_found grammars_compile(struct grammars *cache, const struct grammar_source *source,
                                     const struct hash *hash, struct grammar **out,
                                     struct error *err);

struct grammars_stats {
    uint64_t compiled, compile_ns; // refused ones included
    uint64_t hits;                 // sources that were known
    uint64_t refused;              // answers REFUSED, known or not
    uint64_t busy;                 // answers BUSY
    uint64_t bytes, count;         // held now
    uint64_t used_bytes;           // of them, by grammars in use
    uint64_t looks;                // at entries, whether they are in use
};
struct grammars_stats grammars_stats(struct grammars *cache);
