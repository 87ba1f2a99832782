// Counters and gauges of one engine, written by its thread (`failed` by others too) and read by
// any: relaxed atomics, which may be a step apart. http/api/metrics_models.c exports them.
#pragma once

#include <stdatomic.h>
#include <stdint.h>

enum { STEP_BUCKETS = 14 }; // up to 1, 8, 16, 32, ... 16384, and more

// The bucket of a size.
static inline uint32_t step_bucket(uint64_t size)
{
    if (size <= 1)
        return 0;
    uint32_t bucket = 1;
    while (bucket < STEP_BUCKETS - 1 && size > (uint64_t)4 << bucket)
        bucket++;
    return bucket;
}

// The largest size in a bucket other than the last.
static inline uint64_t step_bound(uint32_t bucket)
{
    return bucket == 0 ? 1 : (uint64_t)4 << bucket;
}

struct engine_stats {
    _Atomic uint64_t steps; // launched
    _Atomic uint64_t steps_decode_only;
    _Atomic uint64_t rows;                          // computed rows, summed over steps
    _Atomic uint64_t tokens_computed;               // token rows through the model (no padding)
    _Atomic uint64_t steps_by_rows[STEP_BUCKETS];   // steps by their rows
    _Atomic uint64_t steps_by_tokens[STEP_BUCKETS]; // steps by their tokens
    _Atomic uint64_t prompt_tokens;                 // admitted prompts, cached ones included
    _Atomic uint64_t prompt_tokens_computed;        // of prefills; again after a preemption
    _Atomic uint64_t generation_tokens;             // settled and published
    _Atomic uint64_t prefix_queries;                // prompt tokens looked up
    _Atomic uint64_t prefix_hits;                   // prompt tokens found
    _Atomic uint64_t preemptions;                   // also of sequences that were parked
    _Atomic uint64_t pauses;                        // choices paused for a slow reader
    _Atomic uint64_t parked;                        // how often a paused sequence lost its place
    _Atomic uint64_t rows_after_cancel;             // computed after the request was cancelled
    // Masks. Each counter has one writer, which adds with a load and a store: those from
    // masks_computed to mask_cache_bytes are the mask worker's (mask_work.c), all others the
    // engine's thread's.
    _Atomic uint64_t steps_masked; // with masks, also of rows that wait for theirs
    _Atomic uint64_t masks_alone;  // times that masks were made and no row could go
    _Atomic uint64_t mask_waits;   // the sum of both
    _Atomic uint64_t mask_wait_ns;
    _Atomic uint64_t mask_rows;       // rows with a grammar, summed over steps
    _Atomic uint64_t masks_postponed; // of these, computed again when it could be made
    _Atomic uint64_t grammars_stuck, grammars_over, grammars_crowded; // choices that ended so
    _Atomic uint64_t masks_computed, masks_reused;
    _Atomic uint64_t masks_forgotten;     // times that the memory of a cache was full
    _Atomic uint64_t mask_tokens_refused; // drawn under a mask and not taken by its grammar
    _Atomic uint64_t mask_caches, mask_cache_bytes; // gauges: grammars with a cache, and its use
    _Atomic uint64_t requests_submitted;
    _Atomic uint64_t finished_stop, finished_length, finished_cancel, finished_error,
        finished_timeout, finished_pooling;
    _Atomic uint64_t sequences_running;                        // gauge: resident
    _Atomic uint64_t sequences_waiting;                        // gauge: neither resident nor parked
    _Atomic uint64_t sequences_parked;                         // gauge
    _Atomic uint64_t blocks_total, blocks_used, blocks_cached; // gauges
    _Atomic uint64_t step_started_ns;                          // of the step in flight; 0: none
    _Atomic uint64_t step_finished_ns;                         // of the last one
    _Atomic uint64_t beat_ns;                                  // last pass of the loop
    _Atomic uint64_t failed;                                   // 1: its device failed
};
