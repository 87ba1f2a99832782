// What plan.c chooses of the next step, and a step that was launched with it. Engine thread only.
#pragma once

#include "scheduler/budget.h"

#include <stdbool.h>
#include <stdint.h>

struct sequence;

struct plan_row {
    uint32_t sequence; // index in engine.sequences
    uint32_t from;     // first token computed
    uint32_t q_len;
    uint32_t mask;      // of the step, or BATCH_NO_MASK; once it is in a batch
    uint32_t key, turn; // with a mask: whose turn it has, its number in its request (mask_turns.h)
    uint8_t want;       // enum batch_want
    bool fed;
    bool asked, postponed; // the worker was told to make its mask; and could not
    bool waits;            // it has a mask and no row in the batch
};

// What a plan knows of a drawn sequence; made new for each plan.
struct plan_entry {
    bool granted;  // its event ring has room for a token
    bool planned;  // it has a row in this plan, or waits for the mask of one
    bool stuck;    // it gets no more tokens in this plan
    bool drawn;    // it was drawn in this plan: its place is not taken again
    uint32_t row;  // in plan.prefill, if it computes a prompt
    uint32_t debt; // its part of budget.owed
};

// Rows of one step. Decodes are apart because they come first in the batch, and so are rows that
// wait for their masks.
struct plan {
    uint64_t stamp;
    uint32_t decode_count, prefill_count, waiting_count;
    struct plan_row *decode, *prefill, *waiting; // [rows_max] each
    struct plan_entry *entries;                  // [slots_max] by slot
    uint32_t first_left, second_left;            // prompt tokens of both halves (decision 0012)
    uint32_t rows_left, changes_left, newcomers_left, history_left; // of the step's limits
    uint32_t short_most;        // a prompt with at most so many tokens left is short
    bool unserved;              // a prompt needs more than the first half gave it
    bool refused;               // a drawn one had no credit: the next plan may take its place
    uint32_t looks_left;        // lookups in the prefix cache
    struct sequence *paused_at; // next candidate for preemption among the paused
    uint32_t victim_at;         // candidates in `order` stand before it, the last one first
    struct budget budget;       // blocks
    bool full;                  // a prompt found no room in the step: nothing new is drawn
};

struct launch {           // a step that is launched and not settled
    uint64_t step, round; // round: of masks
    uint32_t row_count, mask_count;
    uint32_t waiting_count; // rows that wait for their masks: after those of the batch, as theirs
    struct plan_row *rows;  // [rows_max] in the order of the batch
};
