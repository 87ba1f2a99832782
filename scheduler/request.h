// A port and its requests, private to the scheduler. A request has three parts: what the h2o thread
// fills before submit, what the engine keeps while it owns the request, and the event ring, which
// the port keeps for the next request with the same number.
#pragma once

#include "scheduler/ring.h"
#include "scheduler/route.h"
#include "scheduler/store.h"

struct sequence;
struct queue_key;

enum {
    REQUEST_CHOICES_MAX = 256,
    STORE_WORDS = 512,   // a chunk of the token store
    HISTORY_WORDS = 128, // a chunk of the histories
    BIAS_WORDS = sizeof(struct token_bias) / sizeof(int32_t),
};

// Engine's part: zeroed when the request is taken in.
struct request_run {
    uint32_t drawn, draw_total; // sequences started, and to start
    uint32_t redrawn;           // draws of parked ones
    uint32_t unfinished;        // finish events to come
    uint32_t inputs_done;       // pooling
    uint32_t pending;           // token events planned and not settled
    uint32_t paused_count;      // of its sequences
    uint32_t parked;            // of its sequences
    bool returning;             // the parked ones may be drawn again
    uint32_t served_last;       // choice that got the last entry when there were too few for all
    uint32_t tail_seen;         // reader's index when last looked at
    bool live;                  // taken in and not finished
    bool started;               // a row was planned
    uint32_t credit_used;       // ring entries in use when the plan began, and granted since
    uint64_t stamp;             // plan for which credit was counted
    uint32_t due_place;         // in engine.due, from 1; 0: not in it
    uint64_t progress_ns;       // when the reader last read, or had nothing to read
    uint64_t finished[REQUEST_CHOICES_MAX / 64]; // bit set: the choice has its finish event
    uint64_t noted[REQUEST_CHOICES_MAX / 64];    // bit set: cached tokens of the prompt are counted
    struct sequence *first, *last;               // started and not ended, in order of drawing
    struct request *live_next, *live_previous;
    uint32_t mask_key;                         // where its key may be (mask_turns.h)
    uint32_t mask_rows;                        // of it in the order that is being made
    uint64_t mask_served;                      // the last round that was its turn at masks
    uint64_t mask_waited;                      // the last round in which a row of it waited
    struct queue_key *wait_key;                // in the queue: sequences are left to draw
    struct request *wait_next, *wait_previous; // of its key, with or without penalties
    uint64_t wait_ticket;                      // ticket of its place in the queue
};

// Counters and times that the engine alone writes and any thread may read.
static inline void stat_add(_Atomic uint64_t *counter, uint64_t amount)
{
    // one writer, so no read-modify-write is needed
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + amount,
                          memory_order_relaxed);
}

static inline uint64_t stat_read(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static inline void stat_set(_Atomic uint64_t *gauge, uint64_t value)
{
    atomic_store_explicit(gauge, value, memory_order_relaxed);
}

// What request_facts_get copies, at any time. The engine writes the atomics until the last finish
// event.
struct request_marks {
    uint32_t prompt_tokens;
    uint64_t submitted_ns;
    _Atomic uint64_t cached_tokens, preemptions, started_ns, first_token_ns, finished_ns;
};

struct request {
    struct port *port;
    uint32_t number;
    struct submit_args asked; // as submitted, without its arrays; the owner is the h2o thread's
    uint32_t starts_at, types_at, bias_at; // places in the store, in words
    uint32_t word_count;                   // of the store
    int32_t stop_ids[REQUEST_STOP_IDS_MAX];
    bool typed;      // sequences have token types
    uint64_t serial; // separates requests where the prefix cache is off
    uint64_t result_bytes;
    struct request_marks marks;
    struct request_run run;
    _Alignas(CACHE_LINE) _Atomic uint32_t cancel; // set by the h2o thread, cleared at fill
    _Atomic uint32_t in_notices;                  // flag: its number is in the ring of notices
    _Atomic uint64_t cancelled[REQUEST_CHOICES_MAX / 64]; // bit set: as cancel, of one choice
    struct event_ring events;
};

// Engine-wide limits and their counters, raised before submit and lowered at free by h2o threads.
struct admission_limits {
    uint64_t requests, tokens, bytes;
};

struct admission_counters {
    _Alignas(CACHE_LINE) _Atomic uint64_t requests;
    _Atomic uint64_t tokens, bytes;
    _Atomic uint32_t turns; // port_turn
};

enum gate_state { GATE_OPEN, GATE_STOPPED, GATE_FAILED };

// What all ports of one engine share.
struct admission_gate {
    struct admission_limits limits;
    struct admission_counters counters;
    _Alignas(CACHE_LINE) _Atomic uint32_t state; // enum gate_state
    struct waker *waker;                         // the engine sleeps on it
    uint32_t choices_max, bias_max, output_width, vocab, max_model_len;
    bool generates;                  // the model's kind
    bool vocabulary;                 // requests may have grammars
    const struct route_table *route; // of its prefix cache, or NULL
    const uint64_t *secret;          // [2] of the cache's keys; all copies of a model have the same
    uint32_t block_tokens;
};

// port.c: takes room for a request under the limits, from any h2o thread; gives it back.
bool counters_raise(struct admission_gate *gate, uint64_t tokens, uint64_t bytes);
void counters_lower(struct admission_gate *gate, uint64_t tokens, uint64_t bytes);

struct port;
// port.c: what the router knows of the copies behind some ports, for this request.
void ports_look(struct route_copy *copies, struct port *const *ports, uint32_t count,
                const struct submit_args *args);

struct port {
    struct admission_gate *gate;
    struct waker *waker; // of the h2o thread, shared by its ports
    uint32_t request_count;
    struct request *requests; // [request_count]
    struct store words;       // prompt tokens, sequence starts, token types, biases
    struct store results;     // one item is one vector or score
    uint32_t *free;           // [request_count] stack of request numbers; h2o thread
    uint32_t free_count;
    uint32_t fresh; // request numbers never used so far
    uint64_t serial;
    bool touched; // engine: events were pushed since the last wake
    struct number_ring inbound, ready;
    struct number_ring notices; // to the engine: cancelled, or read from a full ring
    _Alignas(CACHE_LINE) _Atomic uint32_t submitting; // the h2o thread is inside port_submit
};

static inline int32_t request_word(const struct request *request, uint64_t at)
{
    return *(int32_t *)store_item(&request->port->words, request->number, at);
}

static inline bool choice_finished(const struct request *request, uint32_t choice)
{
    return request->run.finished[choice / 64] >> choice % 64 & 1;
}

// The h2o thread has cancelled the request, or this choice of it. An input is cancelled with its
// request only: there may be more inputs than bits.
static inline bool choice_cancelled(const struct request *request, uint32_t choice)
{
    if (atomic_load_explicit(&request->cancel, memory_order_relaxed))
        return true;
    if (request->asked.kind != REQUEST_GENERATE)
        return false;
    uint64_t bits = atomic_load_explicit(&request->cancelled[choice / 64], memory_order_relaxed);
    return bits >> choice % 64 & 1;
}

// Entries of the event ring for n choices: at least 4 n + 8, a power of two.
uint32_t request_ring_entries(uint32_t choices);
