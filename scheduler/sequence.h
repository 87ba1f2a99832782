// SPDX-License-Identifier: Apache-2.0
// A sequence is a choice of a generation or an input of a pooling request. It is scheduled when the
// engine takes it from the queue; from then to its end it has a device slot and, if it needs one, a
// penalty row. It keeps them when it is preempted. Only a sequence whose reader is slow may lose
// them, to a sequence that is scheduled (decision 0016): it is parked, keeps only its generated
// tokens, and is scheduled again as the youngest once its reader has read.
//
//          sequence_schedule               sequence_start (plan: blocks for all known tokens)
//     FREE ----------------> WAITING -----------------------------------------> RUNNING
//      ^                      ^   ^                                            |   |   |
//      |                      |   +--------------------------------------------+   |   |
//      |                      |       sequence_preempt, no step in flight          |   |
//      |                      |                                                    |   |
//      |                      +-- sequence_settled -- LEAVING <-- sequence_preempt +   |
//      |                                                 |          (step in flight)   |
//      |        sequence_settled         sequence_end    v         sequence_end        |
//      +------------------------------ ENDING <----------+------ (step in flight) -----+
//      +-- sequence_end, no step in flight: from every state
//
//     WAITING, RUNNING -- sequence_park, no step in flight --> PARKED
//     PARKED -- sequence_schedule --> WAITING
//
// `paused` is independent of the state: the event ring has no entry for the sequence's next token.
// A parked sequence is paused until it may return. Engine thread only.
#pragma once

#include "kernels/step.h"
#include "base/hash.h"
#include "scheduler/request.h"

struct engine;

enum sequence_state {
    SEQUENCE_FREE,    // unused entry
    SEQUENCE_WAITING, // scheduled or preempted: has a slot, holds no blocks
    SEQUENCE_RUNNING, // holds blocks and gets rows in steps
    SEQUENCE_LEAVING, // preempted; a step in flight still refers to it
    SEQUENCE_PARKED,  // without a slot, because its reader is slow
    SEQUENCE_ENDING,  // ended with a step in flight; must not read its request any more
};

enum { PENALTY_NONE = STEP_NO_ROW, SLOT_NONE = STEP_NO_ROW };

struct sequence {
    // Fields that every step touches come first.
    enum sequence_state state;
    bool paused;           // true if its event ring has no entry for its next token
    bool shares;           // true if it may share KV blocks with other sequences
    bool on_device;        // true if the device has its sampling parameters
    bool fed;              // true if its next input is the token that the device sampled last
    bool cached_noted;     // true once its cached tokens are counted
    bool ahead;            // true if it overtook a longer prompt when it was scheduled
    bool cancelled;        // true if a cancel ended it
    bool matched;          // true if the mask worker has a matcher for it
    bool mask_made;        // true if the mask of its postponed row can be made now
    uint8_t watch;         // with args.watch: its enum token_phase
    uint8_t entry;         // phase from which its matcher starts next, or TOKEN_UNWATCHED: none
    uint32_t index;        // index in engine.sequences
    uint32_t slot, number; // number: index of its choice or input in the request
    struct request *request;
    struct sequence *sibling; // next sequence of the request
    uint32_t prompt_len;
    uint32_t output_count;   // number of settled output tokens, in history
    uint32_t pending;        // number of outputs planned and not settled
    uint32_t output_max;     // number of outputs at which it ends
    uint32_t planned_len;    // tokens computed once all launched steps are done
    uint32_t inflight;       // number of launched steps that refer to it
    uint32_t postponed;      // times that its mask could not be made since its last token
    uint32_t block_count;    // number of blocks that it holds
    uint32_t blocks_sent;    // number of its blocks that are in the device's block table
    uint32_t blocks_settled; // number of its blocks that are full and settled
    uint32_t type_from;      // position of the first token of type 1, or TYPE_FROM_NONE
    uint32_t *blocks;        // [blocks_per_sequence_max] block ids, memory of the slot
    int32_t *history_last;   // last chunk of its generated tokens
    uint32_t prompt_at;      // offset of its prompt in the request's tokens
    uint32_t hash_count;     // number of valid entries of `hashes`
    uint32_t match_count;    // while waiting: blocks found in the cache, in `blocks`, not yet held
    uint32_t penalty_row;    // row of the penalty table, or PENALTY_NONE
    uint64_t ticket;         // number of its scheduling; a smaller ticket is older
    uint64_t match_serial, match_breaks; // cache state of the match, for share_valid
    struct hash *hashes; // [blocks_per_sequence_max] hashes of its full blocks, memory of the slot
    struct hash root;    // parent hash of its first block
    const struct store *history; // store of generated tokens; its owner number is `index`
    struct sequence *slow_next, *slow_previous; // list of paused or parked ones
};

// Returns the number of tokens whose values the host knows: the prompt and the settled outputs.
static inline uint32_t sequence_known(const struct sequence *s)
{
    return s->prompt_len + s->output_count;
}

// Returns true if it belongs to a generation.
static inline bool sequence_generates(const struct sequence *s)
{
    return s->request->args.kind == REQUEST_GENERATE;
}

// Returns true if all its output tokens are planned; some may not be settled yet.
static inline bool sequence_planned_out(const struct sequence *s)
{
    return s->output_count + s->pending >= s->output_max;
}

// Returns true if its next row is a decode row: its input is the token that the device sampled
// last.
static inline bool sequence_decodes(const struct sequence *s)
{
    return s->fed && s->state == SEQUENCE_RUNNING;
}

// Returns true if its mask could not be made and still cannot: it gets no row in a step.
static inline bool sequence_lacks_mask(const struct sequence *s)
{
    return s->postponed > 0 && !s->mask_made;
}

// Copies the token ids at positions from .. from + count - 1 to `out`; all must be known.
void sequence_tokens(const struct sequence *s, uint32_t from, uint32_t count, int32_t *out);

// Returns true if the sequences of the request need penalty rows.
bool sequence_penalised(const struct request *request);
// Returns true if its sampled rows may have masks: the request has a grammar or token rules.
bool sequence_constrained(const struct sequence *s);
// Returns true if its next sampled row has a mask, as far as the settled tokens show.
bool sequence_masked(const struct sequence *s);

// Returns true if a slot is free for one more sequence.
bool sequence_slots(const struct engine *engine);
// Returns true if the request has a sequence to schedule.
bool sequence_waits(const struct request *request);

// Returns the number of known tokens of the sequence that is scheduled next.
uint32_t sequence_next_known(const struct request *request);
// Schedules the next sequence of a request, or its first parked one if they may return, and makes
// it the youngest of the engine. A slot must be free, and a penalty row if it needs one. ahead: it
// overtakes a longer prompt of another request.
struct sequence *sequence_schedule(struct engine *engine, struct request *request, bool ahead);

// Changes a waiting sequence to running. The caller makes it a holder of its blocks.
void sequence_start(struct sequence *s);
// Releases all blocks of a running sequence, which waits afterwards: immediately, or, if a step in
// flight refers to it, once that is settled.
void sequence_preempt(struct engine *engine, struct sequence *s);
// Drops its row of the step that was just launched, because the row's mask could not be made. The
// device keeps the sampling parameters and the row's last token, which is the input of the next
// row.
void sequence_postpone(struct sequence *s);
// Releases the slot, the penalty row and all blocks of a waiting or running sequence. No step of it
// may be in flight. Only park.c calls it, which keeps the list of parked sequences.
void sequence_park(struct engine *engine, struct sequence *s);
// Ends a sequence in any state and removes it from its request, but pushes no event. Its entry is
// freed now, or, if a step in flight refers to it, once that is settled.
void sequence_end(struct engine *engine, struct sequence *s);
// Counts one step of the sequence as settled, and completes a preemption or end that waited for it.
void sequence_settled(struct engine *engine, struct sequence *s);
// Releases all blocks of a sequence. was_leaving: they were announced with block_unref_later.
void sequence_blocks_unref(struct engine *engine, struct sequence *s, bool was_leaving);
