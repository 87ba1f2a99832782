// A sequence is a choice of a generation or an input of a pooling request. From drawing to end it
// has a place: a slot of the device and, if it needs one, a penalty row. It keeps the place when it
// is preempted. Only one whose reader is slow may lose it to a request that is drawn (decision
// 0016): it is parked, keeps nothing but its generated tokens, and is drawn again as the youngest
// once its reader has read.
//
//            sequence_draw                 sequence_start (plan: blocks for all it knows)
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
//     WAITING, RUNNING -- sequence_park, no step in flight --> PARKED -- sequence_draw --> WAITING
//
// `paused` is apart from the state: the event ring has no entry for its next token. A parked
// sequence is paused until it may return.
#pragma once

#include "kernels/step.h"
#include "base/hash.h"
#include "scheduler/request.h"

struct engine;

enum sequence_state {
    SEQUENCE_FREE,    // no request
    SEQUENCE_WAITING, // drawn or preempted: nothing on the device
    SEQUENCE_RUNNING, // holds blocks, is planned
    SEQUENCE_LEAVING, // preempted; a step in flight still refers to it
    SEQUENCE_PARKED,  // without a place, because its reader is slow
    SEQUENCE_ENDING,  // over, with a step in flight; its request must not be read any more
};

enum { PENALTY_NONE = STEP_NO_ROW, SLOT_NONE = STEP_NO_ROW };

struct sequence {
    // Fields that every step touches come first.
    enum sequence_state state;
    bool paused;           // see above
    bool shares;           // another sequence may have its blocks, or it those of another
    bool on_device;        // the device has its sampling record
    bool fed;              // its next input is the last token that the device sampled or was told
    bool cached_noted;     // its cached tokens are counted
    bool ahead;            // drawn ahead of its turn because it is short
    bool cancelled;        // ended by a cancel
    bool matched;          // the mask worker has a matcher of it
    bool mask_made;        // the mask of its postponed row can be made now
    uint32_t index;        // index in engine.sequences
    uint32_t slot, number; // number: of the choice or input
    struct request *request;
    struct sequence *sibling; // next sequence of the request
    uint32_t prompt_len;
    uint32_t output_count; // settled tokens, in history
    uint32_t pending;      // outputs planned and not settled
    uint32_t output_max;
    uint32_t planned_len; // tokens computed when all launched steps are done
    uint32_t inflight;    // launched steps that refer to it
    uint32_t postponed;   // times since its last token that its mask could not be made
    uint32_t block_count;
    uint32_t blocks_sent;    // of these, in the device's block table
    uint32_t blocks_settled; // of these, full and settled
    uint32_t type_from;
    uint32_t *blocks;      // [blocks_per_sequence_max], of the slot
    int32_t *history_last; // the last chunk of its generated tokens
    uint32_t prompt_at;
    uint32_t hash_count;
    uint32_t match_count; // blocks found in the cache and not yet taken; while it waits
    uint32_t penalty_row;
    uint64_t ticket;                     // number of its draw: the smaller is older
    uint64_t match_serial, match_breaks; // for share_holds
    struct hash *hashes;         // [blocks_per_sequence_max] of its full blocks; of the slot
    struct hash root;            // parent of its first block's hash
    const struct store *history; // generated tokens, of owner `index`
    struct sequence *slow_next, *slow_previous; // of paused or parked ones
};

// Tokens whose values the host knows.
static inline uint32_t sequence_known(const struct sequence *s)
{
    return s->prompt_len + s->output_count;
}

static inline bool sequence_generates(const struct sequence *s)
{
    return s->request->asked.kind == REQUEST_GENERATE;
}

// All its tokens are planned; some may have to be settled.
static inline bool sequence_planned_out(const struct sequence *s)
{
    return s->output_count + s->pending >= s->output_max;
}

// Its next row is one token, which the device has.
static inline bool sequence_decodes(const struct sequence *s)
{
    return s->fed && s->state == SEQUENCE_RUNNING;
}

// Its mask could not be made: it has no row in a step until it can.
static inline bool sequence_lacks_mask(const struct sequence *s)
{
    return s->postponed > 0 && !s->mask_made;
}

void sequence_tokens(const struct sequence *s, uint32_t from, uint32_t count, int32_t *out);

bool sequence_penalised(const struct request *request); // its sequences need penalty rows
bool sequence_masked(const struct sequence *s);         // its rows have masks

bool sequence_slots(const struct engine *engine);   // there is a slot for one more
bool sequence_waits(const struct request *request); // has a sequence to draw

uint32_t sequence_next_known(const struct request *request); // prompt tokens of the next draw
// Draws the next sequence of a request, in turn or ahead of a longer prompt; there must be a place
// for it. It becomes the youngest.
struct sequence *sequence_draw(struct engine *engine, struct request *request, bool ahead);

void sequence_start(struct sequence *s);
void sequence_preempt(struct engine *engine, struct sequence *s);
// Its row in the step that was just launched, whose mask could not be made, is dropped. The device
// still has its sampling record and the row's last token, which is fed again.
void sequence_postpone(struct sequence *s);
void sequence_park(struct engine *engine, struct sequence *s);    // no step in flight
void sequence_end(struct engine *engine, struct sequence *s);     // leaves its request
void sequence_settled(struct engine *engine, struct sequence *s); // one step less in flight
void sequence_blocks_give(struct engine *engine, struct sequence *s, bool was_leaving);
