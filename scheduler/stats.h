// SPDX-License-Identifier: Apache-2.0
// Counters and gauges of one engine. The engine's thread writes them, except where noted below; any
// thread may read them. All accesses are relaxed atomics, so values may be a step apart.
// http/api/metrics_models.c exports them.
#pragma once

#include <stdatomic.h>
#include <stdint.h>

enum { STEP_BUCKETS = 14 }; // upper bounds 1, 8, 16, 32, ... 16384, and unbounded

// Returns the index of the smallest bucket whose upper bound is at least `size`.
static inline uint32_t step_bucket(uint64_t size)
{
    if (size <= 1)
        return 0;
    uint32_t bucket = 1;
    while (bucket < STEP_BUCKETS - 1 && size > (uint64_t)4 << bucket)
        bucket++;
    return bucket;
}

// Returns the largest size of a bucket other than the last.
static inline uint64_t step_bound(uint32_t bucket)
{
    return bucket == 0 ? 1 : (uint64_t)4 << bucket;
}

struct engine_stats {
    _Atomic uint64_t steps;             // steps launched
    _Atomic uint64_t steps_decode_only; // steps without prompt tokens
    _Atomic uint64_t rows;              // rows computed, summed over steps
    _Atomic uint64_t tokens_computed;   // tokens that passed through the model, without padding
    _Atomic uint64_t steps_by_rows[STEP_BUCKETS];   // steps by number of rows
    _Atomic uint64_t steps_by_tokens[STEP_BUCKETS]; // steps by number of tokens
    _Atomic uint64_t prompt_tokens; // prompt tokens of accepted requests, cached ones included
    _Atomic uint64_t prompt_tokens_computed; // prefill tokens; again after a preemption
    _Atomic uint64_t generation_tokens;      // output tokens settled and published
    _Atomic uint64_t prefix_queries;         // prompt tokens looked up
    _Atomic uint64_t prefix_hits;            // prompt tokens found
    _Atomic uint64_t preemptions; // preemptions, including those of sequences that were parked
    _Atomic uint64_t pauses;      // times that a choice was paused for a slow reader
    _Atomic uint64_t parked;      // times that a paused sequence lost its slot
    _Atomic uint64_t rows_after_cancel; // rows computed after the request was cancelled
    // Masks. Each counter has one writer, which adds with a load and a store: the mask worker
    // writes those from masks_computed to mask_cache_bytes (mask_work.c), the engine's thread all
    // others.
    _Atomic uint64_t steps_masked;    // steps with masks, including those of waiting rows
    _Atomic uint64_t masks_alone;     // rounds of masks without a step (no row was ready)
    _Atomic uint64_t mask_waits;      // sum of steps_masked and masks_alone
    _Atomic uint64_t mask_wait_ns;    // time that the engine waited for the mask worker
    _Atomic uint64_t mask_rows;       // rows with masks, summed over steps
    _Atomic uint64_t masks_postponed; // mask_rows whose mask was not ready; computed again
    // Choices that ended with FINISH_STUCK, FINISH_OVER and FINISH_CROWDED.
    _Atomic uint64_t grammars_stuck, grammars_over, grammars_crowded;
    _Atomic uint64_t masks_computed, masks_reused; // masks built, and found in a cache
    _Atomic uint64_t masks_forgotten;              // times that a full cache forgot its masks
    _Atomic uint64_t mask_tokens_refused; // tokens sampled under a mask that their grammar rejected
    _Atomic uint64_t grammars_given_up;   // grammars of optional calls dropped at a limit
    _Atomic uint64_t mask_caches, mask_cache_bytes; // gauges: number of caches; bytes used
    _Atomic uint64_t requests_submitted;
    _Atomic uint64_t finished_stop, finished_length, finished_cancel, finished_error,
        finished_timeout, finished_pooling;
    _Atomic uint64_t sequences_running; // gauge: with a slot and not waiting
    _Atomic uint64_t sequences_waiting; // gauge: not yet scheduled, or waiting for blocks
    _Atomic uint64_t sequences_parked;  // gauge: sequences without a slot because of a slow reader
    _Atomic uint64_t blocks_total, blocks_used, blocks_cached; // gauges
    _Atomic uint64_t kv_events_lost;   // changes of the prefix cache that were not published
    _Atomic uint64_t step_started_ns;  // gauge: start of the step in flight; 0: none
    _Atomic uint64_t step_finished_ns; // gauge: end of the last step
    _Atomic uint64_t beat_ns;          // gauge: start of the last pass of the engine's loop
    _Atomic uint64_t failed; // 1: the device failed; written by any thread (engine_device_failed)
};
