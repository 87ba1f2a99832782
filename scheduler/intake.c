// What reaches the engine from outside its step: new requests, cancels, deadlines of queued
// requests, readers that stopped. Each touches only the requests it concerns. Engine thread only.
#include "scheduler/core.h"

#include <string.h>

static void request_take(struct engine *engine, struct request *r)
{
    bool generate = r->kind == REQUEST_GENERATE;
    memset(&r->run, 0, sizeof r->run);
    r->run.draw_total = generate ? r->choice_count : r->sequence_count;
    r->run.unfinished = generate ? r->choice_count : 1;
    r->run.tail_seen = atomic_load_explicit(&r->events.ring.tail, memory_order_relaxed);
    r->run.served_last = r->choice_count - 1; // the first choice is served first
    r->run.progress_ns = engine->now_ns;
    r->run.live = true;
    if (r->deadline_ns != 0)
        due_put(&engine->due, r, r->deadline_ns);
    r->run.live_previous = engine->live_last;
    if (engine->live_last)
        engine->live_last->run.live_next = r;
    else
        engine->live_first = r;
    engine->live_last = r;
    engine->live_count++;
    queue_put(engine, r);
    engine->waiting_sequences += r->run.draw_total;
    stat_add(&engine->stats.requests_submitted, 1);
    stat_add(&engine->stats.prompt_tokens, r->token_count);
}

// A model opened without penalty rows can never start a request with penalties.
static bool never_starts(const struct engine *engine, const struct request *r)
{
    return engine->facts.limits.penalty_rows == 0 && sequence_penalised(r);
}

static bool port_take(struct engine *engine, struct port *port)
{
    bool news = false;
    uint32_t number;
    while (number_pop(&port->inbound, &number)) {
        struct request *r = &port->requests[number];
        news = true;
        request_take(engine, r);
        // The notice of its cancel may have been read before it came in.
        if (atomic_load_explicit(&r->cancel, memory_order_relaxed))
            request_end(engine, r, FINISH_CANCEL);
        else if (engine->failed || never_starts(engine, r))
            request_end(engine, r, FINISH_ERROR);
    }
    return news;
}

// Cancels, and readers that made room for what is parked.
static bool port_notices(struct engine *engine, struct port *port)
{
    bool news = false;
    uint32_t number;
    while (number_pop(&port->notices, &number)) {
        struct request *r = &port->requests[number];
        flag_lower(&r->in_notices); // before the look: what comes after it sends a notice again
        // A late notice finds the request finished, or the next life of its number.
        if (!r->run.live)
            continue;
        if (atomic_load_explicit(&r->cancel, memory_order_relaxed)) {
            news = true;
            request_end(engine, r, FINISH_CANCEL);
        } else {
            parked_look(engine, r);
        }
    }
    return news;
}

// A paused request is due a minute after the progress that was known when it was paused. Its reader
// may have moved since: then it is due later.
static bool request_stalled(struct engine *engine, struct request *r)
{
    uint64_t progress_ns = r->run.progress_ns;
    if (atomic_load_explicit(&r->events.ring.tail, memory_order_relaxed) != r->run.tail_seen)
        progress_ns = engine->now_ns; // the next plan notes it
    if (engine->now_ns - progress_ns >= STALL_NS)
        return true;
    due_put(&engine->due, r, progress_ns + STALL_NS);
    return false;
}

static bool due_turn(struct engine *engine)
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

bool intake_turn(struct engine *engine)
{
    bool news = false;
    for (uint32_t i = 0; i < engine->options.port_count; i++) {
        news = port_take(engine, &engine->ports[i]) || news;
        news = port_notices(engine, &engine->ports[i]) || news;
    }
    return due_turn(engine) || news;
}

bool intake_empty(struct engine *engine)
{
    for (uint32_t i = 0; i < engine->options.port_count; i++) {
        struct port *port = &engine->ports[i];
        // seq_cst, in this order: the other half of the argument in port_submit.
        if (atomic_load_explicit(&port->submitting, memory_order_seq_cst))
            return false;
        uint32_t place;
        if (ring_peek(&port->inbound.ring, &place))
            return false;
    }
    return true;
}
