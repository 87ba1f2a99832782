// SPDX-License-Identifier: Apache-2.0
// Masks of rows with a grammar or token rules (decision 0030). The engine requests the mask of such
// a row once the tokens before it are settled, a thread of the engine (the mask worker) computes it
// while the step's forward pass runs, and model_sample waits for it.
//
// The mask worker owns all matchers and mask caches. The engine thread sends it jobs, in order:
// start a sequence's matcher, accept a sampled token, end the matcher. A matcher is identified by
// the index of its sequence, so it can outlive the sequence's slot, its blocks and the request.
//
// A row whose mask cannot be made in this step is postponed: it gets a mask without any bit, which
// makes the device sample no token and keep the sequence's state unchanged. Its mask is requested
// again in the following steps, without a row; once it has been made, the next plan has a row for
// the same position. In exact mode the later row samples the token that the postponed row would
// have sampled.
//
// Where calls are optional (submit_args.watch), rows have masks only while a call or the beginning
// of a marker is written. The engine thread follows the text in between. With a step in flight it
// learns of a marker after the next step was launched, but before that step is sampled: such a
// `loose` row has the index of a mask, which is made if the token in flight turns out to begin a
// marker. Without such a row the step is sampled without masks.
#pragma once

#include "base/ring.h"
#include "runtime/grammar/matcher.h"
#include "runtime/grammar/token_rules.h"
#include "runtime/grammar/token_watch.h"
#include "scheduler/stats.h"

enum {
    MASK_NO_TOKEN = -1,
    MASK_CACHES_MORE = 64,       // caches in addition to one for each slot
    MASK_GONE_MAX = 16,          // most caches that are dropped and not yet destroyed
    MASK_CACHE_WORK = 20 * 1000, // work charged for creating a cache, in units of mask_limits
};
#define MASK_IDLE_NS 60000000000u   // 60 s: an unused cache is destroyed after this time
#define MASK_NO_SEQUENCE UINT32_MAX // mask_job.sequence: the job writes a row without any bit
#define MASK_EVERY (UINT32_MAX - 1) // mask_job.sequence: the job writes a row of all tokens

// Limits for the work of building masks in one step, that is, masks and automaton states not yet in
// the cache. One unit of work takes about 5 ns; walks over the vocabulary and new caches count too.
// Each row has an allowance of its own; beyond it, the rows of one grammar share a limit, and all
// grammars share a limit. A row that gets too little is postponed, and so is a row that would start
// a vocabulary walk when nothing of the shared limits is left. A row fails only if the maximum for
// one row was not enough. So 256 rows use at most 3.3 million units and one walk, about 20 ms, and
// one grammar cannot use up what others need. mask_order.h defines the order of the rows.
struct mask_limits {
    uint64_t row;     // maximum of one row: 1 million
    uint64_t own;     // the row's unshared allowance: 5,000, without walks
    uint64_t grammar; // shared by the rows of one grammar: 1 million
    uint64_t step;    // shared by all rows: 2 million
};
// The production limits, with the values above.
extern const struct mask_limits mask_limits;

enum mask_verdict {
    MASK_USABLE,
    // The answer is complete, nothing can follow, and the model has no end id.
    MASK_DONE,
    MASK_POSTPONED, // other rows have used up the shared work
    MASK_STUCK,     // no token of the model may follow
    MASK_OVER,      // a limit of work or memory was reached, or the token was not accepted
    MASK_CROWDED,   // a limit of memory was reached because other answers use the memory
};

struct mask_job {
    // References that the new matcher of the sequence takes over, one or both. Both NULL: the
    // matcher exists already.
    struct grammar *grammar;
    struct token_rules *rules;
    struct token_watch *watch; // with grammar: reference that the matcher takes over, or NULL
    const void *request;       // with grammar or rules: identity of the request, never dereferenced
    // Output: the mask row; bits from the vocabulary's size on are undefined. NULL: ends the
    // sequence's matcher.
    uint32_t *words;
    uint64_t round;    // round of masks that the row belongs to
    uint32_t sequence; // index of the sequence, which identifies the matcher; or one of the above
    uint32_t row;      // index of the mask in the round, for `verdict` and `spent`
    int32_t token; // token that the matcher accepts before the mask is made; MASK_NO_TOKEN: none
    // with a watch: phase in which the matcher starts, before the token; TOKEN_UNWATCHED: the
    // matcher continues
    uint8_t entry;
};

struct grammar_cache { // the mask cache of one grammar; in use while `matchers` > 0
    struct grammar *grammar;
    struct mask_cache *cache;     // holds a reference to the grammar; NULL: unused entry
    struct mask_cache_stats seen; // statistics already added to the engine's counters
    uint32_t matchers;            // number of matchers that use the cache
    size_t bytes_max;
    uint64_t used;    // value of mask_worker.began when a matcher last started to use it
    uint64_t idle_ns; // time at which mask_idle first found it unused; 0: not yet
    uint64_t round;   // last round of masks with a row of the grammar
    uint64_t work;    // shared work left to the grammar in that round
};

struct sequence_matcher {
    struct matcher matcher;
    const void *request;       // identity of the request, never dereferenced
    struct grammar *grammar;   // reference, until the matcher has its cache; then NULL
    struct grammar_cache *of;  // cache that it uses; NULL: only rules, or not yet assigned
    struct token_watch *watch; // reference, or NULL: the grammar holds from the beginning
    uint8_t entry;             // phase in which it must start next; TOKEN_UNWATCHED: it has started
    struct token_rules *rules; // reference, or NULL
    uint32_t rules_at;         // state in the token rules
    struct token_budget_place budget_at; // state in the rules' token budget
    int32_t token;                       // sampled token not yet accepted, or MASK_NO_TOKEN
    bool free;                           // true if its last mask allowed all tokens
};

struct mask_gone { // a cache that is out of use and not yet destroyed, and its memory limit
    struct mask_cache *cache;
    size_t bytes_max;
};

struct mask_thread;

struct mask_worker {
    struct ring ring;     // engine -> worker; a job is popped after it is done
    struct mask_job *job; // [ring.mask + 1]
    uint8_t *verdict;     // [rows_max] enum mask_verdict of the round's masks
    uint32_t *spent;      // [rows_max] shared work that each mask used
    // [rows_max] enum token_phase of matchers with a watch: TOKEN_OPEN, or the phase of text that
    // needs no matcher
    uint8_t *phase;
    struct vocabulary *vocabulary; // the engine's
    uint32_t words;                // 32-bit words of a mask row
    struct mask_limits limits;
    size_t idle_bytes_max;      // limit for the size of grammars whose caches are unused
    struct engine_stats *stats; // the engine's; the worker writes its part (stats.h)
    struct mask_thread *thread;
    // Members below are used by the worker's thread only.
    struct sequence_matcher *matchers; // [matcher_count] by sequence index
    struct grammar_cache *caches;      // [cache_count]
    uint32_t matcher_count, cache_count;
    uint64_t began;                       // number of matchers that started so far
    uint64_t round, work;                 // last round of masks; shared work left in it
    uint64_t shared;                      // total shared work used by all masks so far
    uint32_t *spare;                      // [words] scratch row
    struct mask_gone gone[MASK_GONE_MAX]; // caches to be destroyed by mask_idle
    uint32_t gone_count;
};

// Executes all queued jobs. Worker's thread.
void mask_work(struct mask_worker *w);
// Worker's thread, after mask_work. Destroys caches that were dropped, caches without matchers
// beyond idle_bytes_max, and caches without matchers for MASK_IDLE_NS; takes milliseconds for each
// and stops when a new job arrives. now_ns: CLOCK_MONOTONIC. Returns true if unused caches are
// left, so that it should be called again in some seconds.
bool mask_idle(struct mask_worker *w, uint64_t now_ns);
// Releases everything the worker holds, queued jobs included. Its thread must have ended.
void mask_worker_empty(struct mask_worker *w);

// mask_thread.c, or a replacement in the simulation. The engine thread calls these functions.
// mask_thread_open starts the worker's thread; all other members of `w` must be set before.
// NO_MEMORY if the thread cannot be started, IO if no descriptor is free.
enum status mask_thread_open(struct mask_worker *w, struct error *err) MUST_USE;
void mask_thread_close(struct mask_worker *w); // ends the thread; NULL in `thread` is allowed
void mask_thread_post(struct mask_worker *w);  // wakes the worker because there are new jobs
void mask_thread_wait(struct mask_worker *w);  // blocks until all jobs are done

// Returns true if the worker has jobs to do.
static inline bool masks_pending(const struct mask_worker *w)
{
    return ring_free(&w->ring) <= w->ring.mask;
}
