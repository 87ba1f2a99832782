// One sequence: a choice of a generation, or one input of a pooling request. It has a place, which
// is a slot of the device and, where it needs one, a penalty row, from drawing to end, through
// every preemption, so a started sequence never lacks one. Only one whose reader is slow gives its
// place up, when somebody waits for one (decision 0016): it is parked, keeps nothing but its
// generated tokens, and is drawn again, as the youngest, once its reader has made room.
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
// `paused` is apart from the state: the reader has no room; WAITING or RUNNING all the same. What
// is parked is paused, too, until its reader has made room.
#pragma once

#include "kernels/step.h"
#include "scheduler/hash.h"
#include "scheduler/request.h"

struct engine;

enum sequence_state {
    SEQUENCE_FREE,    // no request
    SEQUENCE_WAITING, // drawn or preempted: nothing on the device
    SEQUENCE_RUNNING, // holds blocks, is planned
    SEQUENCE_LEAVING, // preempted; a step in flight still refers to it
    SEQUENCE_PARKED,  // no place: its reader is slow, and others waited
    SEQUENCE_ENDING,  // over; likewise. Its request may already be the h2o thread's: never read it
};

enum { PENALTY_NONE = STEP_NO_ROW, SLOT_NONE = STEP_NO_ROW };

struct sequence {
    // What each step of a running one touches comes first.
    enum sequence_state state;
    bool paused;           // no room in the event ring
    bool lasting;          // its named blocks are kept: for the cache, or for its siblings
    bool admitted;         // the device knows how it is sampled
    bool fed;              // the device's last token of this slot is the next input
    bool cached_noted;     // its share of cached_tokens is counted
    bool ahead;            // drawn before its turn, because it is short
    bool cancelled;        // ended by cancel: rows in flight are counted
    uint32_t record;       // its number among all
    uint32_t slot, number; // device row; choice or input
    struct request *request;
    struct sequence *sibling; // next of its request
    uint32_t prompt_len;
    uint32_t output_count; // settled tokens, in history
    uint32_t pending;      // outputs planned and not settled
    uint32_t output_max;
    uint32_t planned_len;    // tokens in KV once every launched step is done
    uint32_t inflight;       // launched steps that refer to it
    uint32_t block_count;    // of blocks
    uint32_t blocks_sent;    // of those, known to the device
    uint32_t blocks_settled; // of those, known to the prefix table or private for good
    uint32_t type_from;
    uint32_t *blocks;      // [blocks_per_sequence_max], of the slot
    int32_t *history_last; // the last chunk of its generated tokens
    uint32_t prompt_at;
    uint32_t key_count;   // of keys
    uint32_t match_count; // of blocks while it waits: found in the cache, held by nobody for it
    uint32_t penalty_row;
    uint64_t ticket;                     // order of drawing: who is older
    uint64_t match_serial, match_breaks; // by which a match is known to be whole
    struct hash *keys; // [blocks_per_sequence_max] chained; kept through preemption; of the slot
    struct hash root;  // parent of its first block's key
    const struct store *history;                // its generated tokens: those of owner `record`
    struct sequence *slow_next, *slow_previous; // of the paused, or of the parked
};

// Tokens whose values the host knows.
static inline uint32_t sequence_known(const struct sequence *s)
{
    return s->prompt_len + s->output_count;
}

static inline bool sequence_generates(const struct sequence *s)
{
    return s->request->kind == REQUEST_GENERATE;
}

// Everything it wants is planned: only settling is left.
static inline bool sequence_planned_out(const struct sequence *s)
{
    return s->output_count + s->pending >= s->output_max;
}

// The next row is one token that the device has sampled itself.
static inline bool sequence_decodes(const struct sequence *s)
{
    return s->fed && s->state == SEQUENCE_RUNNING;
}

void sequence_tokens(const struct sequence *s, uint32_t from, uint32_t count, int32_t *out);

bool sequence_penalised(const struct request *request); // its sequences need penalty rows

bool sequence_slots(const struct engine *engine);   // there is a slot for one more
bool sequence_waits(const struct request *request); // something of it is to be drawn
bool sequence_drawable(const struct engine *engine, const struct request *request);
uint32_t sequence_next_known(const struct request *request); // tokens the next one begins with
// The next sequence of a waiting request; ask sequence_drawable first. Becomes the youngest.
struct sequence *sequence_draw(struct engine *engine, struct request *request);

void sequence_start(struct engine *engine, struct sequence *s);
void sequence_preempt(struct engine *engine, struct sequence *s);
void sequence_park(struct engine *engine, struct sequence *s);    // no step in flight
void sequence_end(struct engine *engine, struct sequence *s);     // leaves its request
void sequence_settled(struct engine *engine, struct sequence *s); // one step less in flight
void sequence_blocks_give(struct engine *engine, struct sequence *s, bool was_leaving);
