// New requests, cancels, deadlines and slow readers. Each touches only the requests it concerns.
// Engine thread only.
#include "scheduler/internal.h"

#include <string.h>

static void request_take(struct engine *engine, struct request *r)
{
    bool generate = r->asked.kind == REQUEST_GENERATE;
    memset(&r->run, 0, sizeof r->run);
    r->run.draw_total = r->asked.sequence_count * r->asked.choice_count;
    r->run.unfinished = generate ? r->run.draw_total : 1;
    r->run.tail_seen = atomic_load_explicit(&r->events.ring.tail, memory_order_relaxed);
    r->run.served_last = r->run.draw_total - 1; // the first choice is served first
    r->run.progress_ns = engine->now_ns;
    r->run.live = true;
    if (r->asked.deadline_ns != 0)
        due_put(&engine->due, r, r->asked.deadline_ns);
    LIST_APPEND(engine->live_first, engine->live_last, r, run.live_next, run.live_previous);
    engine->live_count++;
    queue_put(engine, r);
    engine->waiting_sequences += r->run.draw_total;
    stat_add(&engine->stats.requests_submitted, 1);
    stat_add(&engine->stats.prompt_tokens, r->asked.token_count);
}

// A model without penalty rows can never start a request with penalties.
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
        // The notice of its cancel may have been read before the request was taken in.
        if (atomic_load_explicit(&r->cancel, memory_order_relaxed))
            request_end(engine, r, FINISH_CANCEL);
        else if (engine->failed || never_starts(engine, r))
            request_end(engine, r, FINISH_ERROR);
    }
    return news;
}

// Ends the choices that were cancelled and are not over; true if there was any.
static bool choices_end(struct engine *engine, struct request *r)
{
    bool news = false;
    for (uint32_t i = 0; i < REQUEST_CHOICES_MAX / 64 && r->run.live; i++) {
        uint64_t left = atomic_load_explicit(&r->cancelled[i], memory_order_relaxed);
        left &= ~r->run.finished[i];
        for (; left != 0; left &= left - 1) { // with the last choice the request is gone
            choice_end(engine, r, 64 * i + (uint32_t)__builtin_ctzll(left), FINISH_CANCEL);
            news = true;
        }
    }
    return news;
}

// Cancels, and readers that made room for parked sequences.
static bool port_notices(struct engine *engine, struct port *port)
{
    bool news = false;
    uint32_t number;
    while (number_pop(&port->notices, &number)) {
        struct request *r = &port->requests[number];
        flag_lower(&r->in_notices); // first: a later change sends a new notice
        // A late notice may find the request finished, or its number in use by the next one.
        if (!r->run.live)
            continue;
        if (atomic_load_explicit(&r->cancel, memory_order_relaxed)) {
            news = true;
            request_end(engine, r, FINISH_CANCEL);
        } else {
            news = choices_end(engine, r) || news;
            if (r->run.live)
                parked_look(engine, r);
        }
    }
    return news;
}

// Whether the reader of a paused request has taken nothing for STALL_NS. If it has read since, the
// request becomes due later.
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

static bool due_take(struct engine *engine)
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

bool intake_take(struct engine *engine)
{
    bool news = false;
    for (uint32_t i = 0; i < engine->options.port_count; i++) {
        news = port_take(engine, &engine->ports[i]) || news;
        news = port_notices(engine, &engine->ports[i]) || news;
    }
    return due_take(engine) || news;
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
