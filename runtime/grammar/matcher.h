// Where a sequence stands in its grammar, and which tokens may come next.
//
// A mask cache belongs to one grammar and one vocabulary. It holds the automaton as far as it was
// walked, and the mask of each state that was asked for; all sequences with that grammar and
// vocabulary share it. Memory is taken by mask_cache_create, up to its bound, and never after: when
// a table is full, what no matcher stands on is forgotten and built anew when it is met again.
//
// Threads: a mask cache and all of its matchers are used by one thread at a time (an engine's mask
// worker); whoever hands them over synchronises. Different caches share nothing that changes, so
// engines never wait for each other. mask_cache_create may be called by any thread.
//
// Masks: one row as kernels/ops.h reads it: bit (id % 32) of words[id / 32] set: id is allowed.
#pragma once

#include "runtime/grammar/grammar.h"
#include "runtime/grammar/vocabulary.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mask_cache;

struct mask_cache_options {
    // Bound of its memory, at least 4 MiB; 0: 32 MiB. The system lends pages as they are touched,
    // so a small grammar holds little.
    size_t bytes_max;
    // Bound of what one call may build that was not built before, in steps of about 5 ns; 0: 1
    // million. The walk over a vocabulary, up to 1 ms, counts, but is never broken off.
    uint64_t work_max;
};
// Takes a count of the grammar and one of the vocabulary. NULL: the options above.
struct mask_cache *mask_cache_create(struct grammar *g, struct vocabulary *v,
                                     const struct mask_cache_options *options);
void mask_cache_destroy(struct mask_cache *c); // NULL is allowed; no matcher may be left
// All calls from now on may build so much together; each still has its own bound. What is forgotten
// meanwhile, because a table is full, takes nothing from either. walks false: none may begin a walk
// over the vocabulary, whose work is known afterwards only.
void mask_cache_limit(struct mask_cache *c, uint64_t work, bool walks);
// A call since then would have gone on with a larger limit, or with a walk.
bool mask_cache_limited(const struct mask_cache *c);

struct mask_cache_stats {
    uint64_t computed, reused; // masks
    uint64_t forgotten;        // times that a table was full
    uint64_t over;             // calls that met work_max, or a place with more ways than 16,384
    uint64_t starved;          // calls that found no room, and matchers that lost their place
    uint64_t work;             // steps of all calls, and of what was forgotten
    uint32_t states;           // of the automaton, now
    size_t bytes;              // held, now; pages that were forgotten are the system's again
    size_t bytes_most;         // ... at most so far
};
struct mask_cache_stats mask_cache_stats(const struct mask_cache *c);

// The caller owns the memory, and must not move it while the matcher is in use. The members are
// this room's own.
struct matcher {
    struct mask_cache *cache;
    struct matcher *previous, *next; // all matchers of the cache
    const void *owner;               // whose answer it is; never looked into
    uint32_t state;
    bool done, lost, kept;
    bool starved, crowded; // as matcher_starved and matcher_crowded say
};

void matcher_init(struct matcher *m, struct mask_cache *c);       // at the beginning of the grammar
void matcher_copy(struct matcher *m, const struct matcher *from); // m is not in use before
// Answers of one owner are no others to each other (matcher_crowded), nor is a copy to its
// original; without this call each matcher that was not copied has an owner of its own.
void matcher_belong(struct matcher *m, const void *owner);
void matcher_end(struct matcher *m); // leaves the cache; a second call does nothing

enum matcher_result {
    MATCHER_OK,
    MATCHER_STUCK, // nothing may come and the string may not end: the vocabulary lacks the bytes
    // A bound was met: work_max, the ways that are followed at once, or memory, where other
    // matchers need what there is (those that hold most lose their place for good). What was built
    // stays, so a call after work_max may find the mask; an engine ends the answer instead.
    MATCHER_OVER,
};
// Writes vocabulary_words(v) words; bits from vocab on are 0 (in rows of the scheduler they may be
// anything, and nobody reads them). A token is allowed where its bytes,
// after those that were accepted, are the beginning of a string of the grammar; an end id exactly
// where that string may end here, and after the end. STUCK, OVER: the end ids alone.
enum matcher_result matcher_mask(struct matcher *m, uint32_t *words);
// The token was drawn. False: the state is as before, and later masks are not those of the text any
// more, so the answer must end or go on without a matcher. Under a mask of MATCHER_OK that is a
// bound that was met since, as MATCHER_OVER. Without one (vocabulary_allows_all) it is also an id
// without bytes: special ones where the vocabulary has no specials, ids from its count on, tokens
// over VOCABULARY_TOKEN_BYTES_MAX. In a free part those are like any other byte: the state need not
// change, and who drew one may go on.
bool matcher_accept(struct matcher *m, int32_t token);
// The same for bytes that are no token's, such as a forced beginning.
bool matcher_accept_bytes(struct matcher *m, struct text bytes);

// The call that met a bound met that of memory: a larger cache might have had room. Where matchers
// of other owners stood in it, they may have taken what it needed: it is crowded, too.
bool matcher_starved(const struct matcher *m);
bool matcher_crowded(const struct matcher *m);

bool matcher_is_done(const struct matcher *m); // an end id was accepted
// The string is complete as it stands. False also where a bound was met.
bool matcher_may_end(struct matcher *m);
