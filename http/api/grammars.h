// Compiled grammars of requests, kept by their source: the same schema is compiled once for all
// requests, models and threads, and what was refused is refused again without another try.
//
// Two sources are the same when their kind, dialect and all bytes of their text are, the order of
// keys included, because it is the order in which they are written. What the cache holds is bounded
// by bytes; the least recently used goes first. A grammar that somebody holds outlives its entry.
//
// Any thread. grammars_find takes microseconds; grammars_compile takes up to a second and is for
// the grammar thread (http/work.h) alone, so that equal sources which wait there are compiled once.
#pragma once

#include "runtime/text/grammar/source.h"

struct grammars;

enum { GRAMMARS_BYTES_MAX = 64 << 20, GRAMMARS_COUNT_MAX = 1024 };

struct grammars *grammars_create(size_t bytes_max); // 0: GRAMMARS_BYTES_MAX
void grammars_destroy(struct grammars *cache);      // NULL is allowed

enum grammars_found {
    GRAMMARS_UNKNOWN, // it must be compiled
    GRAMMARS_MADE,
    GRAMMARS_REFUSED,
};

// What is known of a source. MADE: *out is counted for the caller (grammar_give). REFUSED: why is
// in err.
enum grammars_found grammars_find(struct grammars *cache, const struct grammar_source *source,
                                  struct grammar **out, struct error *err);

// The same after compiling it, if nobody did meanwhile: never UNKNOWN.
enum grammars_found grammars_compile(struct grammars *cache, const struct grammar_source *source,
                                     struct grammar **out, struct error *err);

struct grammars_stats {
    uint64_t compiled, compile_ns; // refused ones included
    uint64_t hits;                 // sources that were known
    uint64_t refused;              // answers REFUSED, known or not
    uint64_t bytes, count;         // held now
};
struct grammars_stats grammars_stats(struct grammars *cache);
