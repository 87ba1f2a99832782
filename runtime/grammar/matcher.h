// SPDX-License-Identifier: Apache-2.0
// The position of a sequence in its grammar, and the tokens that may follow.
//
// A mask cache belongs to one grammar and one vocabulary. It contains the automaton as far as it
// was explored and the mask of each state that was requested; all sequences with that grammar and
// vocabulary share it. mask_cache_create reserves the memory, up to a bound; nothing is allocated
// later. If a table is full, everything that no matcher currently uses is dropped and rebuilt when
// needed.
//
// Threads: a mask cache and its matchers are used by one thread at a time (an engine's mask
// worker); the caller synchronizes a handover. Different caches share no mutable data, so engines
// never wait for each other. mask_cache_create may be called by any thread.
//
// Masks: one row as kernels/ops.h reads it: if bit (id % 32) of words[id / 32] is set, id is
// allowed.
#pragma once

#include "runtime/grammar/grammar.h"
#include "runtime/grammar/vocabulary.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mask_cache;

struct mask_cache_options {
    // Memory bound, at least 4 MiB; 0: 32 MiB. The kernel provides pages when they are first
    // touched, so a small grammar uses little.
    size_t bytes_max;
    // Bound of the new work of one call, in steps of about 5 ns; 0: 1 million. A walk over the
    // vocabulary, up to 1 ms, counts but is never interrupted.
    uint64_t work_max;
};
// Creates a cache; adds a reference to g and one to v. `options` NULL: the defaults above.
struct mask_cache *mask_cache_create(struct grammar *g, struct vocabulary *v,
                                     const struct mask_cache_options *options);
void mask_cache_destroy(struct mask_cache *c); // c may be NULL; no matcher may be left
// Limits all calls from now on to `work` steps together, in addition to the bound of each call. The
// work of dropping full tables counts against neither. walks false: no call may begin a walk over
// the vocabulary, because its work is only known afterwards.
void mask_cache_limit(struct mask_cache *c, uint64_t work, bool walks);
// Returns true if a call since mask_cache_limit stopped because of `work` or `walks`.
bool mask_cache_limited(const struct mask_cache *c);

struct mask_cache_stats {
    uint64_t computed, reused; // masks computed, masks found in the cache
    uint64_t forgotten;        // number of times that a full table was cleared
    // calls that exceeded work_max, or reached a state with more than 16,384 members
    uint64_t over;
    // calls that failed for lack of memory, and matchers that lost their position
    uint64_t out_of_memory;
    uint64_t work;     // steps of all calls, including the clearing of tables
    uint32_t states;   // current number of automaton states
    size_t bytes;      // current memory in use, without pages returned to the kernel
    size_t bytes_most; // highest value of `bytes` so far
};
struct mask_cache_stats mask_cache_stats(const struct mask_cache *c);

// The caller owns the memory and must not move it while the matcher is in use. The members are
// private to this module.
struct matcher {
    struct mask_cache *cache;
    struct matcher *previous, *next; // list of all matchers of the cache
    const void *owner;               // identity of the answer, only compared
    uint32_t state;                  // current automaton state
    // done: an end id was accepted; evicted: the position was dropped for lack of memory; kept:
    // used by positions_share
    bool done, evicted, kept;
    bool out_of_memory,
        memory_contended; // results of matcher_out_of_memory and matcher_memory_contended
};

// Starts at the beginning of the grammar.
void matcher_init(struct matcher *m, struct mask_cache *c);
// Initializes m, which must not be in use, with the position and the owner of `from`, in the same
// cache. The caller ends both matchers.
void matcher_copy(struct matcher *m, const struct matcher *from);
// Sets the owner of the answer. Matchers with the same owner do not count as "others" in
// matcher_memory_contended, nor do a copy and its original. Without this call, each matcher that is
// not a copy has a distinct owner.
void matcher_belong(struct matcher *m, const void *owner);
void matcher_restart(struct matcher *m); // returns to the beginning, as after matcher_init
void matcher_end(struct matcher *m);     // removes m from the cache; a second call does nothing

enum matcher_result {
    MATCHER_OK,
    // no token is allowed and the string may not end: the vocabulary lacks the bytes
    MATCHER_STUCK,
    // A limit was exceeded: work_max, the number of members of a state, or memory that other
    // matchers occupy (the matchers that use most lose their position permanently). Completed work
    // is kept, so a call after work_max may find the mask; an engine ends the answer instead.
    MATCHER_OVER,
};
// Writes vocabulary_words(v) words; bits from vocab on are 0 (in the scheduler's rows they are
// undefined and not read). A token is allowed if the accepted bytes followed by its bytes are a
// prefix of a string of the grammar. End ids are allowed if the accepted bytes are a complete
// string. After an end id, and with MATCHER_STUCK and MATCHER_OVER, only the end ids are set.
enum matcher_result matcher_mask(struct matcher *m, uint32_t *words);
// Advances m by a sampled token. False: the position is unchanged, so later masks no longer belong
// to the text, and the answer must end or continue without a matcher. If the token was allowed by a
// mask of MATCHER_OK, false means that a limit was exceeded, as in MATCHER_OVER. If no mask was
// applied (vocabulary_allows_all), false can also mean an id without bytes: a special token if the
// vocabulary has no specials, an id from its count on, or a token longer than
// VOCABULARY_TOKEN_BYTES_MAX. In a free part such an id does not matter: the position need not
// change and the caller may continue.
bool matcher_accept(struct matcher *m, int32_t token);
// Advances m by bytes that are not a token, such as a forced prefix. Returns false and does not
// change the position if the bytes are not allowed, an end id was accepted before, or a limit was
// exceeded.
bool matcher_accept_bytes(struct matcher *m, struct text bytes);

// matcher_out_of_memory returns true if the last failed call lacked memory, so that a larger cache
// might have been enough; matcher_memory_contended returns true if in addition matchers of other
// owners were in the cache, which may have used the memory up.
bool matcher_out_of_memory(const struct matcher *m);
bool matcher_memory_contended(const struct matcher *m);

// Returns true if m is in the state that these bytes lead to from the beginning; false also if an
// end id was accepted or a limit was exceeded.
bool matcher_is_after(struct matcher *m, struct text bytes);
bool matcher_is_done(const struct matcher *m); // true if an end id was accepted
// Returns true if the accepted bytes are a complete string. Also false if a limit was exceeded.
bool matcher_may_end(struct matcher *m);
