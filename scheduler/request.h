// SPDX-License-Identifier: Apache-2.0
// A port and its requests, private to the scheduler. A request has three parts: what the h2o thread
// fills before submit, what the engine keeps while it owns the request, and the event ring, which
// stays with the request's number and is used again by the next request with that number.
#pragma once

#include "scheduler/ring.h"
#include "scheduler/route.h"
#include "scheduler/store.h"

struct sequence;
struct queue_key;

enum {
    REQUEST_CHOICES_MAX = 256,
    STORE_WORDS = 512,   // words per chunk of the token store
    HISTORY_WORDS = 128, // tokens per chunk of the histories
    BIAS_WORDS = sizeof(struct token_bias) / sizeof(int32_t),
};

// The engine's part; zeroed when the engine accepts the request.
struct request_run {
    uint32_t scheduled, sequence_total; // number of sequences scheduled so far; of all sequences
    uint32_t rescheduled;               // number of times a parked sequence was scheduled again
    uint32_t unfinished;                // number of finish events not yet pushed
    uint32_t inputs_done;               // pooling: number of sequences with a result
    uint32_t pending;                   // number of token events planned and not settled
    uint32_t paused_count;              // number of its paused sequences
    uint32_t parked;                    // number of its parked sequences
    bool returning;                     // true if its parked sequences may be scheduled again
    uint32_t served_last; // choice that got the last ring entry when there were too few for all
    uint32_t tail_seen;   // reader's ring index when the engine last read it
    bool live;            // true from acceptance until it is finished
    bool started;         // true once a row of it was put into a batch
    uint32_t credit_used; // ring entries promised: when the plan began, plus those granted since
    uint64_t stamp;       // number of the plan for which credit was counted
    uint32_t due_index;   // index in engine.due plus 1; 0: not in it
    uint64_t progress_ns; // time at which the reader last read or had nothing to read
    uint64_t finished[REQUEST_CHOICES_MAX / 64]; // bit set: the choice's finish event was pushed
    uint64_t noted[REQUEST_CHOICES_MAX / 64];    // bit set: cached tokens of the prompt are counted
    struct sequence *first, *last;               // scheduled and not ended, in order of scheduling
    struct request *live_next, *live_previous;
    uint32_t mask_key;          // index in mask_order.keys at which its key was last
    uint32_t mask_rows;         // number of its rows ranked so far in the current mask order
    uint64_t mask_served;       // last round of masks in which it was served
    uint64_t mask_waited;       // last round in which a row of it waited for its mask
    struct queue_key *wait_key; // key under which it is queued; NULL: no sequence left to schedule
    struct request *wait_next, *wait_previous; // neighbours in the key's list
    uint64_t wait_ticket;                      // ticket of its position in the queue
};

// Adds to a counter that only the calling thread writes and any thread may read.
static inline void stat_add(_Atomic uint64_t *counter, uint64_t amount)
{
    // A single writer, so no atomic read-modify-write is needed.
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + amount,
                          memory_order_relaxed);
}

// Reads a counter, gauge or time from any thread.
static inline uint64_t stat_read(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

// Sets a gauge or time.
static inline void stat_set(_Atomic uint64_t *gauge, uint64_t value)
{
    atomic_store_explicit(gauge, value, memory_order_relaxed);
}

// The numbers that request_facts_get copies, at any time. The engine writes the atomics until the
// last finish event.
struct request_marks {
    uint32_t prompt_tokens;
    uint64_t submitted_ns;
    _Atomic uint64_t cached_tokens, preemptions, started_ns, first_token_ns, finished_ns;
};

struct request {
    struct port *port;
    uint32_t number;         // index in the port's table
    struct submit_args args; // as submitted, without arrays; the h2o thread may change `owner`
    uint32_t starts_at, types_at, bias_at; // offsets in port.words, in words
    uint32_t word_count;                   // words that it uses of port.words
    int32_t stop_ids[REQUEST_STOP_IDS_MAX];
    bool typed;            // true if the sequences have token types
    uint64_t serial;       // number that separates requests if the prefix cache is off
    uint64_t result_bytes; // bytes of its vectors or scores; 0 for a generation
    struct request_marks marks;
    struct request_run run;
    _Alignas(CACHE_LINE) _Atomic uint32_t cancel; // set by port_cancel, cleared by port_submit
    _Atomic uint32_t in_notices;                  // flag: its number is in port.notices
    _Atomic uint64_t cancelled[REQUEST_CHOICES_MAX / 64]; // bit set: this choice is cancelled
    struct event_ring events;
};

// Engine-wide limits and the counters of what is in use. h2o threads raise the counters before
// submit and lower them in port_free.
struct admission_limits {
    uint64_t requests, tokens, bytes;
};

struct admission_counters {
    _Alignas(CACHE_LINE) _Atomic uint64_t requests;
    _Atomic uint64_t tokens, bytes;
    _Atomic uint32_t route_numbers; // counter of port_route_number
};

enum gate_state { GATE_OPEN, GATE_STOPPED, GATE_FAILED };

// State that all ports of one engine share.
struct admission_gate {
    struct admission_limits limits;
    struct admission_counters counters;
    _Alignas(CACHE_LINE) _Atomic uint32_t state; // enum gate_state
    struct waker *waker;                         // waker of the engine thread
    uint32_t choices_max, bias_max, output_width, vocab, max_model_len;
    bool generates;                  // true if the model is a generator
    bool vocabulary;                 // true if requests may have grammars
    const struct route_table *route; // fingerprints of its cached blocks, or NULL
    const uint64_t *secret;          // [2] key of the block hashes; equal in all copies of a model
    uint32_t block_tokens;
};

// port.c: counters_raise reserves capacity for a request under the limits and returns false if
// there is not enough; counters_lower releases it. Any h2o thread.
bool counters_raise(struct admission_gate *gate, uint64_t tokens, uint64_t bytes);
void counters_lower(struct admission_gate *gate, uint64_t tokens, uint64_t bytes);

struct port;
// port.c: fills copies[count] with the load and the cached prompt tokens of the engines of `ports`;
// no port may be NULL. Looks up at most ROUTE_BLOCKS_MAX blocks of the prompts in args.
void ports_look_up(struct route_copy *copies, struct port *const *ports, uint32_t count,
                   const struct submit_args *args);

struct port {
    struct admission_gate *gate;
    struct waker *waker; // waker of the h2o thread, shared by all its ports
    uint32_t request_count;
    struct request *requests; // [request_count]
    struct store words;       // prompt tokens, sequence starts, token types, biases
    struct store results;     // one item is one vector or score
    uint32_t *free;           // [request_count] stack of free request numbers; h2o thread
    uint32_t free_count;
    uint32_t fresh;                    // lowest request number never used
    uint64_t serial;                   // serial of the last submitted request
    bool touched;                      // engine thread: events were pushed since the last wake
    struct number_ring inbound, ready; // to the engine: submitted; to the reader: with events
    struct number_ring notices;        // to the engine: cancelled, or the reader has read again
    _Alignas(CACHE_LINE) _Atomic uint32_t submitting; // 1: the h2o thread is inside port_submit
};

// Returns a word of the request's part of port.words.
static inline int32_t request_word(const struct request *request, uint64_t at)
{
    return *(int32_t *)store_item(&request->port->words, request->number, at);
}

// Returns true if the choice's finish event was pushed.
static inline bool choice_finished(const struct request *request, uint32_t choice)
{
    return request->run.finished[choice / 64] >> choice % 64 & 1;
}

// Returns true if the h2o thread has cancelled the request or this choice of it. An input of a
// pooling request cannot be cancelled alone: there may be more inputs than bits.
static inline bool choice_cancelled(const struct request *request, uint32_t choice)
{
    if (atomic_load_explicit(&request->cancel, memory_order_relaxed))
        return true;
    if (request->args.kind != REQUEST_GENERATE)
        return false;
    uint64_t bits = atomic_load_explicit(&request->cancelled[choice / 64], memory_order_relaxed);
    return bits >> choice % 64 & 1;
}

// Returns the entries of the event ring for n choices: a power of two, at least 4 n + 8 and 64.
uint32_t request_ring_entries(uint32_t choices);
