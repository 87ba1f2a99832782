// SPDX-License-Identifier: Apache-2.0
// The rows that plan.c chooses for the next step, and a step that was launched with them. Engine
// thread only.
#pragma once

#include "scheduler/budget.h"

#include <stdbool.h>
#include <stdint.h>

struct sequence;

struct plan_row {
    uint32_t sequence;  // index in engine.sequences
    uint32_t from;      // position of the first token computed
    uint32_t q_len;     // number of tokens computed
    uint32_t mask;      // index of its mask in the step, or BATCH_NO_MASK; set by batch_fill
    uint32_t key, rank; // with a mask: index in mask_order.keys; rank within its request
    uint8_t want;       // enum batch_want
    bool fed;           // true if its input is the token that the device sampled last
    bool requested;     // true if its mask was requested
    bool postponed;     // true if its mask could not be made, so that the row samples no token
    bool loose;         // true if whether it needs a mask depends on a token that is in flight
    bool waits;         // true if it only waits for its mask and is not in the batch
};

// State of a sequence with a slot within one plan; reset for each plan.
struct plan_entry {
    bool granted;   // true if its event ring has a free entry for a token
    bool planned;   // true if it has a row in this plan or waits for the row's mask
    bool stuck;     // true if it gets no more tokens in this plan
    bool scheduled; // true if scheduled in this plan: keeps its slot until the next one
    uint32_t row;   // index in plan.prefill, if it computes a prompt
    uint32_t debt;  // its share of budget.owed
};

// Rows of one step. Decodes are separate because they come first in the batch; rows that wait for
// their masks are separate because they are not in the batch.
struct plan {
    uint64_t stamp; // number of the plan
    uint32_t decode_count, prefill_count, waiting_count;
    struct plan_row *decode, *prefill, *waiting; // [rows_max] each
    struct plan_entry *entries;                  // [slots_max] by slot
    uint32_t first_left, second_left;            // prompt tokens left of each half (decision 0012)
    uint32_t rows_left, changes_left, new_sequences_left, history_left; // rest of the step's limits
    uint32_t short_most; // a prompt with at most this many tokens left is short
    bool unserved;       // true if a prompt needs more tokens than the first half gave it
    bool refused; // true if a scheduled sequence had no ring credit: the next plan may park it
    uint32_t lookups_left;      // remaining lookups in the prefix cache
    struct sequence *paused_at; // next candidate for preemption among the paused sequences
    uint32_t victim_at;         // candidates in `order` have lower indexes; the last comes first
    struct budget budget;       // KV blocks that the plan may still allocate
    bool full; // true if a prompt did not fit in the step: no new sequence is scheduled
};

// A step that is launched and not settled.
struct launch {
    uint64_t step, mask_round; // mask_round: number of its round of masks
    uint32_t row_count, mask_count;
    uint32_t loose_count; // number of masks of loose rows, included in mask_count
    // Rows that wait for their masks. They follow the rows of the batch, and so do their masks.
    uint32_t waiting_count;
    struct plan_row *rows; // [rows_max] rows of the batch, then the waiting rows
};
