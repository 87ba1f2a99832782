// Masks of rows with a grammar (decision 0030). The engine asks for the mask of such a row once the
// tokens before it are settled, a thread of the engine (the mask worker) computes it while the
// step's forward runs, and model_sample waits for it.
//
// All matchers and mask caches are the worker's. The engine's thread tells it by jobs, in order,
// where a sequence's matcher begins, which token was drawn, and where it ends; so a matcher is
// known by the index of its sequence and outlives places, blocks and the request.
//
// A row whose mask cannot be made in this step is postponed: it has a mask without any bit, which
// tells the device to draw no token and to keep all that it knows of the sequence. Its mask is
// asked for again in the steps that follow, without a row; once it could be made, the next plan has
// a row for the same place. In exact mode its token is what this one's would have been.
#pragma once

#include "base/ring.h"
#include "runtime/grammar/matcher.h"
#include "runtime/grammar/token_rules.h"
#include "scheduler/stats.h"

enum {
    MASK_NO_TOKEN = -1,
    MASK_CACHES_MORE = 64, // grammars whose caches are kept beside one for each slot
    MASK_GONE_MAX = 16,
    MASK_CACHE_WORK = 20 * 1000, // of making a cache
};
#define MASK_IDLE_NS 60000000000u // a cache that nobody used for so long gives way
#define MASK_NO_SEQUENCE UINT32_MAX

// What the masks of one step may build that was not built before, in steps of about 5 ns; walks
// over the vocabulary and new caches count, too. Rows of one grammar share what a row takes beyond
// its own, and so do all grammars: who finds too little is postponed, and so is who would begin a
// walk where nothing is left to share. A row ends with an error only where all that one may have
// was not enough. Thus 256 rows take 3.3 million steps and a walk at most, some 20 ms, and one
// grammar cannot use up what others need; mask_turns.h says who comes first.
struct mask_limits {
    uint64_t row;     // one row: 1 million
    uint64_t own;     // of that, what needs no share: 5,000, but no walk
    uint64_t grammar; // shared by the rows of a grammar: 1 million
    uint64_t step;    // shared by all: 2 million
};
extern const struct mask_limits mask_limits; // as above

enum mask_verdict {
    MASK_USABLE,
    MASK_DONE, // the answer is complete, nothing can follow, and the model has no id that says so
    MASK_POSTPONED, // others have used up what the rows of a step share
    MASK_STUCK,     // nothing may follow that the model has
    MASK_OVER,      // a bound of work or memory was met, also where its token was not taken
    MASK_CROWDED,   // the same of memory, which other answers have
};

struct mask_job {
    // Counts of what the sequence's matcher begins with, one or both; both NULL: it stands.
    struct grammar *grammar;
    struct token_rules *rules;
    const void *request; // then: whose choice it is; never looked into
    uint32_t *words;     // the row that is made, bits from the vocabulary's size on are anything;
                         // NULL: the sequence's matcher ends
    uint64_t step;       // the round of masks whose row it is
    uint32_t sequence;   // MASK_NO_SEQUENCE: a row without any bit
    uint32_t row;        // its number in the step, for its verdict
    int32_t token; // accepted before the mask is made; MASK_NO_TOKEN: none, or it was postponed
};

struct grammar_cache { // of one grammar; in use while a matcher stands in it
    struct grammar *grammar;
    struct mask_cache *cache; // has a count of the grammar; NULL: the entry is free
    struct mask_cache_stats seen;
    uint32_t matchers;
    size_t bytes_max;
    uint64_t used;    // when a matcher began in it last
    uint64_t idle_ns; // since when none stands in it, as mask_idle saw it; 0: one did
    uint64_t step;    // the last one that had a row of it
    uint64_t work;    // left to it in that step
};

struct sequence_matcher {
    struct matcher matcher;
    const void *request;
    struct grammar *grammar;   // a count, until it has its cache
    struct grammar_cache *of;  // NULL: rules alone, or none yet
    struct token_rules *rules; // a count, or NULL
    uint32_t rules_at;         // where it stands in them
    struct token_budget_place budget_at;
    int32_t token; // still to be accepted, or MASK_NO_TOKEN
    bool free;     // its last row was one of ones
};

struct mask_gone { // a cache that gave way, and the bound of its memory
    struct mask_cache *cache;
    size_t bytes_max;
};

struct mask_thread;

struct mask_worker {
    struct ring ring;              // engine -> worker; a job is taken when it is done
    struct mask_job *job;          // [ring.mask + 1]
    uint8_t *verdict;              // [rows_max] enum mask_verdict of the step's rows
    uint32_t *spent;               // [rows_max] what they took of what rows share
    struct vocabulary *vocabulary; // the engine's
    uint32_t words;
    struct mask_limits limits;
    size_t idle_bytes_max;      // of grammars that no matcher stands in
    struct engine_stats *stats; // those that are the worker's
    struct mask_thread *thread;
    // What follows is the worker's alone.
    struct sequence_matcher *matchers; // [matcher_count] by index of the sequence
    struct grammar_cache *caches;      // [cache_count]
    uint32_t matcher_count, cache_count;
    uint64_t began;                       // matchers
    uint64_t step, work;                  // the last one, and what is left in it
    uint64_t shared;                      // taken of what rows share, by all masks
    uint32_t *spare;                      // [words]
    struct mask_gone gone[MASK_GONE_MAX]; // to be destroyed
    uint32_t gone_count;
};

// Does all jobs there are.
void mask_work(struct mask_worker *w);
// Then, while there are no new ones: destroys caches that were dropped and, of those that no
// matcher stands in, what is beyond idle_bytes_max or idle for MASK_IDLE_NS. Takes milliseconds.
// True: it should be called again in some seconds, because there are idle ones.
bool mask_idle(struct mask_worker *w, uint64_t now_ns);
// Gives back all that the worker has, jobs included; its thread has ended.
void mask_worker_empty(struct mask_worker *w);

// mask_thread.c, or a stand-in of the simulation. open comes once all other members are set.
enum status mask_thread_open(struct mask_worker *w, struct error *err) MUST_USE;
void mask_thread_close(struct mask_worker *w); // NULL in `thread` is allowed
void mask_thread_post(struct mask_worker *w);  // there are new jobs
void mask_thread_wait(struct mask_worker *w);  // until all jobs are done

static inline bool masks_pending(const struct mask_worker *w)
{
    return ring_free(&w->ring) <= w->ring.mask;
}
