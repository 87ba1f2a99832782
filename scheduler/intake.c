// SPDX-License-Identifier: Apache-2.0
// Accepts new requests and handles cancels, deadlines and slow readers. The work is proportional to
// the requests concerned. Engine thread only.
#include "scheduler/internal.h"

#include <string.h>

static void request_accept(struct engine *engine, struct request *r)
{
    bool generate = r->args.kind == REQUEST_GENERATE;
    memset(&r->run, 0, sizeof r->run);
    r->run.sequence_total = r->args.sequence_count * r->args.choice_count;
    r->run.unfinished = generate ? r->run.sequence_total : 1;
    r->run.tail_seen = atomic_load_explicit(&r->events.ring.tail, memory_order_relaxed);
    r->run.served_last = r->run.sequence_total - 1; // so that the first choice is served first
    r->run.progress_ns = engine->now_ns;
    r->run.live = true;
    if (r->args.deadline_ns != 0)
        due_put(&engine->due, r, r->args.deadline_ns);
    LIST_APPEND(engine->live_first, engine->live_last, r, run.live_next, run.live_previous);
    engine->live_count++;
    queue_put(engine, r);
    engine->waiting_sequences += r->run.sequence_total;
    stat_add(&engine->stats.requests_submitted, 1);
    stat_add(&engine->stats.prompt_tokens, r->args.token_count);
}

// Returns true if the request has penalties and the model has no penalty rows.
static bool never_starts(const struct engine *engine, const struct request *r)
{
    return engine->facts.limits.penalty_rows == 0 && sequence_penalised(r);
}

static bool port_accept(struct engine *engine, struct port *port)
{
    bool news = false;
    uint32_t number;
    while (number_pop(&port->inbound, &number)) {
        struct request *r = &port->requests[number];
        news = true;
        request_accept(engine, r);
        // The notice of a cancel may have been read before the request was accepted.
        if (atomic_load_explicit(&r->cancel, memory_order_relaxed))
            request_end(engine, r, FINISH_CANCEL);
        else if (engine->failed || never_starts(engine, r))
            request_end(engine, r, FINISH_ERROR);
    }
    return news;
}

// Ends the choices that were cancelled and have not finished; returns true if there were any.
static bool choices_end(struct engine *engine, struct request *r)
{
    bool news = false;
    for (uint32_t i = 0; i < REQUEST_CHOICES_MAX / 64 && r->run.live; i++) {
        uint64_t left = atomic_load_explicit(&r->cancelled[i], memory_order_relaxed);
        left &= ~r->run.finished[i];
        for (; left != 0; left &= left - 1) { // after its last choice, r->run.live is false
            choice_end(engine, r, 64 * i + (uint32_t)__builtin_ctzll(left), FINISH_CANCEL);
            news = true;
        }
    }
    return news;
}

// Handles the port's notices: cancels, and readers that freed ring entries for parked sequences.
static bool port_notices(struct engine *engine, struct port *port)
{
    bool news = false;
    uint32_t number;
    while (number_pop(&port->notices, &number)) {
        struct request *r = &port->requests[number];
        flag_lower(&r->in_notices); // before looking, so that a later change sends a new notice
        // The request of a late notice may be finished, or its number may be used by another
        // request.
        if (!r->run.live)
            continue;
        if (atomic_load_explicit(&r->cancel, memory_order_relaxed)) {
            news = true;
            request_end(engine, r, FINISH_CANCEL);
        } else {
            news = choices_end(engine, r) || news;
            if (r->run.live)
                parked_return(engine, r);
        }
    }
    return news;
}

// Returns true if the reader of a paused request has read nothing for STALL_NS. If it has read
// since, sets its timer again.
static bool request_stalled(struct engine *engine, struct request *r)
{
    uint64_t progress_ns = r->run.progress_ns;
    if (atomic_load_explicit(&r->events.ring.tail, memory_order_relaxed) != r->run.tail_seen)
        progress_ns = engine->now_ns; // the next plan records it
    if (engine->now_ns - progress_ns >= STALL_NS)
        return true;
    due_put(&engine->due, r, progress_ns + STALL_NS);
    return false;
}

// Ends the requests whose deadline passed before they started, or whose reader has stalled.
static bool due_handle(struct engine *engine)
{
    bool news = false;
    while (engine->due.count > 0 && engine->due.entry[0].at_ns <= engine->now_ns) {
        struct request *r = engine->due.entry[0].request;
        bool late = !r->run.started;
        if (!late && !request_stalled(engine, r))
            continue;
        news = true;
        request_end(engine, r, late ? FINISH_TIMEOUT : FINISH_STALLED);
    }
    return news;
}

bool intake_accept(struct engine *engine)
{
    bool news = false;
    for (uint32_t i = 0; i < engine->options.port_count; i++) {
        news = port_accept(engine, &engine->ports[i]) || news;
        news = port_notices(engine, &engine->ports[i]) || news;
    }
    return due_handle(engine) || news;
}

bool intake_empty(struct engine *engine)
{
    for (uint32_t i = 0; i < engine->options.port_count; i++) {
        struct port *port = &engine->ports[i];
        // seq_cst, in this order: see port_submit.
        if (atomic_load_explicit(&port->submitting, memory_order_seq_cst))
            return false;
        uint32_t place;
        if (ring_peek(&port->inbound.ring, &place))
            return false;
    }
    return true;
}
