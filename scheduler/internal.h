// SPDX-License-Identifier: Apache-2.0
// The state that an engine's thread owns, and the calls between the source files of the scheduler.
// Included only by the scheduler and its tests. All functions are for the engine thread.
#pragma once

#include "runtime/model/model.h"
#include "scheduler/due.h"
#include "scheduler/engine.h"
#include "scheduler/list.h"
#include "scheduler/mask_order.h"
#include "scheduler/masks.h"
#include "scheduler/pace.h"
#include "scheduler/plan.h"
#include "scheduler/prefix.h"
#include "scheduler/queue.h"
#include "scheduler/request.h"
#include "scheduler/sequence.h"

enum { PLAN_LOOKUPS_MAX = 4096 }; // number of blocks looked up in one plan: about 0.5 ms
// Number of steps that may be launched and not settled, at most steps_in_flight + 1. Masks do not
// work with more than 2: a row's mask may need tokens up to the previous step only (step_launch).
enum { ENGINE_LAUNCHES = 2 };

// 60 s. A request whose reader reads no event for this long is cancelled.
#define STALL_NS 60000000000u
#define STEP_DEADLINE_NS 120000000000u // 120 s: default of engine_options.step_deadline_ns

struct slow_list { // paused or parked sequences, the longest paused or parked first
    struct sequence *first, *last;
};

struct engine {
    struct admission_gate gate;
    struct model *model;
    struct model_facts facts;
    struct engine_options options;
    size_t bytes;    // size of the memory mapping that contains the engine
    uint64_t now_ns; // time of the current pass of the loop, CLOCK_MONOTONIC
    bool own_clock;  // true under engine_run: engine_now reads the clock
    bool failed;     // true if the device failed and all live requests were ended

    struct port *ports; // [port_count]

    struct request *live_first, *live_last; // accepted, not finished; in order of arrival
    struct queue queue;                     // requests that still have sequences to schedule
    uint32_t live_count;
    struct due_heap due;        // deadlines of queued requests and timeouts of slow readers
    uint64_t waiting_sequences; // number of sequences that were never scheduled

    struct sequence *sequences; // [sequence_count]
    uint32_t sequence_count;
    uint32_t *sequences_free; // [sequence_count] stack of free indexes, used before
    uint32_t sequences_free_count, sequences_fresh; // fresh: lowest index never used
    struct store history;            // generated tokens; the owner is the sequence's index
    struct slow_list paused, parked; // paused sequences that have a slot; parked sequences
    // number of parked sequences, including those that may be scheduled again
    uint32_t parked_count;
    uint32_t parked_chunks, parked_chunks_max; // history chunks they hold; limit
    struct sequence **order;         // [slots_max] with a slot and not ended, oldest first
    uint32_t order_count, order_max; // order_max: most entries of order
    uint32_t *slots_free;            // [slots_max] stack of free slots
    uint32_t slots_free_count;
    uint32_t *slot_blocks;    // [slots_max][blocks_per_sequence_max] block ids
    struct hash *slot_hashes; // [slots_max][blocks_per_sequence_max]
    uint32_t *penalties_free; // [penalty_rows] stack of free rows of the device's penalty table
    uint32_t penalties_free_count;
    uint64_t tickets; // ticket of the last sequence that was scheduled

    struct blocks blocks;
    // True if the model has KV blocks; if sequences share them; if prompts may be cut into chunks.
    bool paged, sharing, cuttable;

    struct plan plan;
    struct pace pace;
    // Step n (launch.step, which counts from 1) is at index (n - 1) % ENGINE_LAUNCHES.
    struct launch launches[ENGINE_LAUNCHES];
    uint64_t launched, settled; // number of steps launched and settled so far
    struct batch *batch;
    struct mask_worker masks; // has no thread and gets no jobs if there is no vocabulary
    struct mask_order mask_order;
    uint64_t mask_rounds; // number of the last round of masks (masks_begin)
    bool masks_unposted;  // true if jobs are queued but the worker has not been woken

    struct error error;
    struct engine_stats stats;
};

// Returns the current time: the clock's under engine_run, otherwise the time passed to engine_step.
uint64_t engine_now(const struct engine *engine);

// Returns the plan's entry of a sequence, which must have a slot.
static inline struct plan_entry *plan_entry(const struct engine *engine, const struct sequence *s)
{
    return &engine->plan.entries[s->slot];
}

// layout.c: sets all pointers of the engine into the mapping at `base` and returns the bytes of the
// mapping. base NULL: only returns the bytes.
size_t engine_layout(struct engine *engine, void *base);

// intake.c: accepts new requests and handles cancels and deadlines. Returns true if there were any.
bool intake_accept(struct engine *engine);
// Returns true if no request is in an inbound ring or being submitted.
bool intake_empty(struct engine *engine);

// events.c: the engine's side of a request's event ring. event_token pushes a token; if it is also
// the finish of the choice, the sequence ends. choice_finish pushes the finish event of a choice
// that has no sequence: it was never scheduled, or its sequence has ended. request_end ends all
// unfinished choices. After the last finish event the h2o thread owns the request, so the caller
// must not use it.
void event_token(struct engine *engine, struct sequence *s, struct token_event *event,
                 const struct sample_top *tops);
void choice_finish(struct engine *engine, struct request *request, struct token_event *event);
void request_end(struct engine *engine, struct request *request, enum finish finish);
// Ends a scheduled choice that has not finished. If it was the last, the h2o thread owns the
// request.
void choice_end(struct engine *engine, struct request *request, uint32_t choice,
                enum finish finish);
// Wakes the h2o threads to whose ports events were pushed since the last call.
void ports_wake(struct engine *engine);

// ring_credit.c: grants ring credit. At the start of a plan, decides for each sequence with a slot
// whether the plan may compute a token of it. stamp: number of the plan.
void credit_grant(struct engine *engine, uint64_t stamp);
// Decides this for a sequence that got its slot during the current plan.
void credit_scheduled(struct engine *engine, struct sequence *s);
// Returns true if more than half the ring is free, so that parked sequences may return. Otherwise
// sets the ring's flag `paused`: the reader sends a notice when it next reads an event.
bool credit_returns(struct engine *engine, struct request *r);

// park.c: sequences whose readers are slow. Pauses a sequence, or resumes it.
void pause_set(struct engine *engine, struct sequence *s, bool paused);
// Lets the parked sequences of a request be scheduled again if its ring has enough free entries.
void parked_return(struct engine *engine, struct request *r);
// Stops the return of parked sequences, because the ring has no free entry.
void parked_hold(struct engine *engine, struct request *r);
// Removes a sequence that is scheduled again or ended from the parked ones.
void parked_drop(struct engine *engine, struct sequence *s);
// Cancels requests until the histories of parked sequences are within their limit; returns true if
// any was cancelled. Must not be called while a plan is made, which may have rows of such a
// request.
bool parked_trim(struct engine *engine);
// Returns true if a slot and, if penalised, a penalty row are free for one more sequence, or a
// paused sequence could be parked to free them.
bool slot_possible(const struct engine *engine, bool penalised);
// Frees a slot and, if penalised, a penalty row by parking a paused sequence if needed.
void slot_make(struct engine *engine, bool penalised);

// plan.c: chooses the rows of the next step; returns false if it has none, although
// plan.waiting_count rows may still wait for their masks. fill.c: writes the rows into the batch.
// settle.c: handles the results of a step.
bool plan_make(struct engine *engine);
void batch_fill(struct engine *engine, struct launch *launch);
void step_settle(struct engine *engine, const struct launch *launch,
                 const struct model_output *output);

// masks.c: see masks.h. Returns the index, among the step's masks, of the mask of a batch row, or
// BATCH_NO_MASK if the row needs none. Counts the mask in launch->mask_count, and sets row->loose.
uint32_t masks_row(struct launch *launch, const struct sequence *s, struct plan_row *row);
// Begins a round of masks: those of the step's rows, followed by those of the plan's rows that wait
// for a mask. Without a step the round consists of the waiting rows only.
void masks_begin(struct engine *engine, struct launch *launch);
// Requests the masks of all rows whose earlier tokens are settled; returns false if some are not.
// Call again once they are.
bool masks_request(struct engine *engine, struct launch *launch);
// Waits until the worker has made all masks of the round, then handles their verdicts.
void masks_wait(struct engine *engine, struct launch *launch);
// Ends the sequence's matcher, if it has one.
void masks_matcher_end(struct engine *engine, struct sequence *s);
// Wakes the worker if jobs were queued since the last call.
void masks_post(struct engine *engine);

// share.c: full blocks in the prefix table. The result of looking up the next block of a sequence:
// no block in the table; a block that another sequence is computing; a block that can be used. A
// plan has PLAN_LOOKUPS_MAX lookups; afterwards the result is COMPUTING, and a later plan
// continues.
enum share { SHARE_NONE, SHARE_COMPUTING, SHARE_READY };
// Looks up the next blocks of s. A waiting sequence records the ready ones as its match; a running
// sequence becomes a holder of them. Returns COMPUTING if the block after them is not ready yet,
// else NONE.
enum share share_look_up(struct engine *engine, struct sequence *s);
// Returns true if no block of the match of s was evicted since it was recorded.
bool share_valid(const struct engine *engine, const struct sequence *s);
// Returns how many blocks of the match have no holder now or, if `settled`, once the step in flight
// is settled. May be wrong by a few if sequences computed equal blocks at the same time.
uint32_t share_idle(const struct engine *engine, const struct sequence *s, bool settled);
// Makes the starting sequence a holder of the blocks of its match.
void share_ref(struct engine *engine, struct sequence *s);
// Returns the length to which a chunk of q_len tokens is cut, so that the next plan can use a later
// block that is already in the table.
uint32_t share_cut(struct engine *engine, struct sequence *s, uint32_t q_len);
// Enters the blocks that the chunk from token `from` to planned_len will fill, as not ready; not
// the block of the last token if that token's row may get a mask, because the row may be repeated.
void share_announce(struct engine *engine, struct sequence *s, uint32_t from);
// Marks the full blocks of the first kv_len tokens as ready. If there is a prefix cache, enters
// those not yet in the table.
void share_settle(struct engine *engine, struct sequence *s, uint32_t kv_len);
// Removes the blocks of s from the prefix table, because one of them holds a bad value.
void share_exclude(struct engine *engine, struct sequence *s);
