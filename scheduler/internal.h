// The state that an engine's thread owns, and the calls between the files of the scheduler. Private
// to the scheduler and its tests.
#pragma once

#include "runtime/model/model.h"
#include "scheduler/due.h"
#include "scheduler/engine.h"
#include "scheduler/list.h"
#include "scheduler/mask_turns.h"
#include "scheduler/masks.h"
#include "scheduler/pace.h"
#include "scheduler/plan.h"
#include "scheduler/prefix.h"
#include "scheduler/queue.h"
#include "scheduler/request.h"
#include "scheduler/sequence.h"

enum { PLAN_LOOKS_MAX = 4096 }; // blocks looked up in one plan: about half a millisecond
// Steps launched and not settled: steps_in_flight + 1 at most. More than 2 do not work with masks:
// a row's mask would need the token of a step that is not the one before (step_launch).
enum { ENGINE_LAUNCHES = 2 };

#define STALL_NS 60000000000u // a reader that takes nothing for so long is cancelled
#define STEP_DEADLINE_NS 120000000000u

struct slow_list { // in the order in which they were paused or parked
    struct sequence *first, *last;
};

struct engine {
    struct admission_gate gate;
    struct model *model;
    struct model_facts facts;
    struct engine_options options;
    size_t bytes; // of the mapping that holds the engine
    uint64_t now_ns;
    bool own_clock; // engine_run: times are read from the clock
    bool failed;    // the live requests of a failed device were ended

    struct port *ports; // [port_count]

    struct request *live_first, *live_last; // taken in and not finished, in order of arrival
    struct queue queue;                     // requests with sequences left to draw
    uint32_t live_count;
    struct due_heap due;        // deadlines in the queue, and of slow readers
    uint64_t waiting_sequences; // not drawn

    struct sequence *sequences; // [sequence_count]
    uint32_t sequence_count;
    uint32_t *sequences_free;                       // [sequence_count] stack of those given back
    uint32_t sequences_free_count, sequences_fresh; // sequences_fresh: never used so far
    struct store history;                           // generated tokens, by sequence
    struct slow_list paused, parked;                // see sequence.h
    uint32_t parked_count;                          // those about to return included
    uint32_t parked_chunks, parked_chunks_max;      // chunks of history that they hold
    struct sequence **order;                        // [slots_max] drawn and not ended, oldest first
    uint32_t order_count, order_max;                // order_max: of order
    uint32_t *slots_free;                           // [slots_max] stack
    uint32_t slots_free_count;
    uint32_t *slot_blocks;    // [slots_max][blocks_per_sequence_max]
    struct hash *slot_hashes; // [slots_max][blocks_per_sequence_max]
    uint32_t *penalties_free; // [penalty_rows] stack
    uint32_t penalties_free_count;
    uint64_t tickets;

    struct blocks blocks;
    bool paged, sharing, cuttable; // has KV blocks; shares them; cuts prompts

    struct plan plan;
    struct pace pace;
    struct launch launches[ENGINE_LAUNCHES]; // step n in place n % ENGINE_LAUNCHES
    uint64_t launched, settled;              // steps
    struct batch *batch;
    struct mask_worker masks; // without a vocabulary it has no thread and gets no jobs
    struct mask_turns mask_turns;
    uint64_t mask_rounds;
    bool masks_unposted; // jobs were pushed that the worker was not told of

    struct error error;
    struct engine_stats stats;
};

uint64_t engine_now(const struct engine *engine);

// s must have a place.
static inline struct plan_entry *plan_entry(const struct engine *engine, const struct sequence *s)
{
    return &engine->plan.entries[s->slot];
}

// layout.c: sets all pointers into the mapping at `base` and returns its size; NULL: the size only.
size_t engine_layout(struct engine *engine, void *base);

// intake.c: takes new requests, cancels and deadlines; true if there was any.
bool intake_take(struct engine *engine);
bool intake_empty(struct engine *engine); // no request is inbound or being submitted

// events.c: the engine's side of a request's event ring.
void event_token(struct engine *engine, struct sequence *s, struct token_event *event,
                 const struct sample_top *tops);
void choice_finish(struct engine *engine, struct request *request, struct token_event *event);
void request_end(struct engine *engine, struct request *request, enum finish finish);
// One drawn choice that has not finished; the request is gone if it was the last.
void choice_end(struct engine *engine, struct request *request, uint32_t choice,
                enum finish finish);
void ports_wake(struct engine *engine);

// ring_credit.c: which sequences may be planned for a token.
void credit_grant(struct engine *engine, uint64_t stamp);
void credit_drawn(struct engine *engine, struct sequence *s); // for one drawn in the plan
// Whether half the ring is free, so that parked sequences may return. If not, the reader sends a
// notice when it has read.
bool credit_returns(struct engine *engine, struct request *r);

// park.c: sequences whose readers are slow.
void pause_set(struct engine *engine, struct sequence *s, bool paused);
void parked_look(struct engine *engine, struct request *r);  // returns if the ring has room
void parked_stay(struct engine *engine, struct request *r);  // the ring has no room left
void parked_drop(struct engine *engine, struct sequence *s); // drawn again, or ended
// Cancels requests until the histories of parked sequences are within their bound; true if there
// was any. Not while a plan is made, which may have rows of such a request.
bool parked_trim(struct engine *engine);
// Whether there is a place for one more sequence, with or without a penalty row, or a paused one
// could give its own up.
bool place_possible(const struct engine *engine, bool penalised);
void place_make(struct engine *engine, bool penalised); // parks a paused one if needed

// plan.c: chooses rows; false: none. fill.c: writes them into the batch. settle.c: takes results.
bool plan_make(struct engine *engine);
void batch_fill(struct engine *engine, struct launch *launch);
void step_settle(struct engine *engine, const struct launch *launch,
                 const struct model_output *output);

// masks.c: see masks.h.
// The row of the step's masks for a row of the batch, or BATCH_NO_MASK.
uint32_t masks_row(struct launch *launch, const struct sequence *s, const struct plan_row *row);
// Adds the plan's rows that wait, and begins a round: the masks of a step, or those of such rows
// alone.
void masks_begin(struct engine *engine, struct launch *launch);
// Asks for the masks of all rows whose earlier tokens are settled; false: some are not.
bool masks_ask(struct engine *engine, struct launch *launch);
void masks_wait(struct engine *engine, struct launch *launch); // for those of the round
void masks_end(struct engine *engine, struct sequence *s);     // its matcher, if it has one
void masks_post(struct engine *engine);                        // tells the worker of new jobs

// share.c: full blocks in the prefix table.
enum share { SHARE_NONE, SHARE_COMPUTING, SHARE_READY };
// Looks up the next blocks of s. A waiting sequence notes those that are ready as its match, a
// running one takes them.
enum share share_look(struct engine *engine, struct sequence *s);
bool share_holds(const struct engine *engine,
                 const struct sequence *s); // whether no block of the match was evicted
// Blocks of its match without holders: now, or once the step in flight is settled.
uint32_t share_idle(const struct engine *engine, const struct sequence *s, bool settled);
void share_take(struct engine *engine, struct sequence *s); // takes the blocks of its match
uint32_t share_cut(struct engine *engine, struct sequence *s, uint32_t q_len);
void share_announce(struct engine *engine, struct sequence *s, uint32_t from);
void share_settle(struct engine *engine, struct sequence *s, uint32_t kv_len);
void share_bar(struct engine *engine, struct sequence *s); // takes its blocks out of the cache
