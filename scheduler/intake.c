// What reaches the engine from outside its step: new requests, cancels, deadlines of queued
// requests, readers that stopped. Engine thread only.
#include "scheduler/core.h"

#include <string.h>

static void request_take(struct engine *engine, struct request *r)
{
    bool generate = r->kind == REQUEST_GENERATE;
    memset(&r->run, 0, sizeof r->run);
    r->run.draw_total = generate ? r->choice_count : r->sequence_count;
    r->run.unfinished = generate ? r->choice_count : 1;
    r->run.tail_seen = atomic_load_explicit(&r->events.tail, memory_order_relaxed);
    r->run.served_last = r->choice_count - 1; // the first choice is served first
    r->run.progress_ns = engine->now_ns;
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
        // The count of cancels may have been read before this request came in.
        if (atomic_load_explicit(&r->cancel, memory_order_relaxed))
            request_end(engine, r, FINISH_CANCEL);
        else if (stat_read(&engine->stats.failed) || never_starts(engine, r))
            request_end(engine, r, FINISH_ERROR);
    }
    return news;
}

static bool port_cancels(struct engine *engine, uint32_t index)
{
    struct port *port = &engine->ports[index];
    // Acquire: pairs with the release in port_cancel, so the flags counted are seen below.
    uint32_t cancels = atomic_load_explicit(&port->cancels, memory_order_acquire);
    if (cancels == engine->cancels_seen[index])
        return false;
    engine->cancels_seen[index] = cancels;
    struct request *next;
    for (struct request *r = engine->live_first; r; r = next) {
        next = r->run.live_next;
        if (r->port == port && atomic_load_explicit(&r->cancel, memory_order_relaxed))
            request_end(engine, r, FINISH_CANCEL);
    }
    return true;
}

static bool request_stalled(struct engine *engine, struct request *r)
{
    if (r->run.paused_count == 0)
        return false;
    uint32_t tail = atomic_load_explicit(&r->events.tail, memory_order_relaxed);
    return tail == r->run.tail_seen && engine->now_ns - r->run.progress_ns >= STALL_NS;
}

static bool scan(struct engine *engine)
{
    bool news = false;
    if (engine->now_ns - engine->scan_ns < SCAN_NS)
        return false;
    engine->scan_ns = engine->now_ns;
    struct request *next;
    for (struct request *r = engine->live_first; r; r = next) {
        next = r->run.live_next;
        bool late = r->deadline_ns != 0 && !r->run.started && engine->now_ns >= r->deadline_ns;
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
        news = port_cancels(engine, i) || news;
    }
    return scan(engine) || news;
}

bool intake_empty(struct engine *engine)
{
    for (uint32_t i = 0; i < engine->options.port_count; i++) {
        struct port *port = &engine->ports[i];
        // seq_cst, in this order: the other half of the argument in port_submit.
        if (atomic_load_explicit(&port->submitting, memory_order_seq_cst))
            return false;
        uint32_t head = atomic_load_explicit(&port->inbound.head, memory_order_acquire);
        if (head != atomic_load_explicit(&port->inbound.tail, memory_order_relaxed))
            return false;
    }
    return true;
}
