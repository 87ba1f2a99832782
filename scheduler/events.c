// SPDX-License-Identifier: Apache-2.0
// The engine's side of event rings: tokens, finishes and wakes. The h2o thread owns a request from
// its last finish event on. Engine thread only.
#include "scheduler/internal.h"

static void tops_copy(struct token_top *out, const struct sample_top *tops, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        out[i] = (struct token_top){tops[i].token, tops[i].logprob};
}

static void event_push(struct engine *engine, struct request *r, const struct token_event *event,
                       const struct sample_top *tops)
{
    struct port *port = r->port;
    struct event_ring *ring = &r->events;
    uint32_t number = r->number;
    uint32_t place = ring_place(&ring->ring);
    if (ring_free(&ring->ring) == ring->ring.mask + 1)
        r->run.progress_ns = engine->now_ns; // the reader had read all events
    ring->event[place] = *event;
    tops_copy(&ring->top[(size_t)place * TOP_LOGPROBS_MAX], tops, event->top_count);
    ring_publish(&ring->ring);
    // The h2o thread may have freed the request by now, if this was its last event. Only members
    // that stay valid are used below.
    if (flag_raise(&ring->in_ready))
        number_push(&port->ready, number);
    port->touched = true;
}

void ports_wake(struct engine *engine)
{
    for (uint32_t i = 0; i < engine->options.port_count; i++) {
        struct port *port = &engine->ports[i];
        if (!port->touched)
            continue;
        port->touched = false;
        waker_raise(port->waker);
    }
}

static void finish_count(struct engine_stats *stats, enum finish finish)
{
    switch (finish) {
#define COUNT(name, counted)                                                                       \
    case FINISH_##name:                                                                            \
        stat_add(&stats->finished_##counted, 1);                                                   \
        return;
        FINISH_LIST(COUNT)
#undef COUNT
    case FINISH_NONE:
    case FINISH_COUNT:
        break;
    }
    check(false, "finish %d ends nothing", (int)finish);
}

static void live_drop(struct engine *engine, struct request *r)
{
    due_drop(&engine->due, r);
    r->run.live = false; // before the last event, after which the h2o thread may free the request
    LIST_REMOVE(engine->live_first, engine->live_last, r, run.live_next, run.live_previous);
    engine->live_count--;
}

// Pushes the finish event of a choice. After the last one the h2o thread owns the request.
static void event_finish(struct engine *engine, struct request *r, struct token_event *event,
                         const struct sample_top *tops)
{
    uint64_t *bits = &r->run.finished[event->choice / 64];
    uint64_t bit = (uint64_t)1 << event->choice % 64;
    check((*bits & bit) == 0, "choice %u finishes twice", event->choice);
    *bits |= bit;
    finish_count(&engine->stats, event->finish);
    if (--r->run.unfinished == 0) {
        event->flags |= EVENT_LAST;
        stat_set(&r->marks.finished_ns, engine_now(engine));
        live_drop(engine, r);
    }
    event_push(engine, r, event, tops);
}

void choice_finish(struct engine *engine, struct request *r, struct token_event *event)
{
    event_finish(engine, r, event, NULL);
}

void event_token(struct engine *engine, struct sequence *s, struct token_event *event,
                 const struct sample_top *tops)
{
    struct request *r = s->request;
    if (stat_read(&r->marks.first_token_ns) == 0)
        stat_set(&r->marks.first_token_ns, engine_now(engine));
    stat_add(&engine->stats.generation_tokens, 1);
    if (event->finish == FINISH_NONE) {
        event_push(engine, r, event, tops);
        return;
    }
    sequence_end(engine, s); // before the event, because the h2o thread may then free the request
    event_finish(engine, r, event, tops);
}

void choice_end(struct engine *engine, struct request *r, uint32_t choice, enum finish finish)
{
    struct sequence *s = r->run.first;
    while (s && s->number != choice)
        s = s->sibling;
    check(s, "choice %u of request %u is ended before it was scheduled", choice, r->number);
    s->cancelled = finish == FINISH_CANCEL;
    sequence_end(engine, s);
    // It was the last parked sequence that could be scheduled.
    if (r->run.wait_key && !sequence_waits(r))
        queue_drop(engine, r);
    struct token_event event = {.choice = choice, .finish = (uint8_t)finish};
    choice_finish(engine, r, &event);
}

void request_end(struct engine *engine, struct request *r, enum finish finish)
{
    queue_drop(engine, r);
    engine->waiting_sequences -= r->run.sequence_total - r->run.scheduled;
    while (r->run.first) {
        struct sequence *s = r->run.first;
        s->cancelled = finish == FINISH_CANCEL;
        sequence_end(engine, s);
    }
    uint32_t left = r->run.unfinished;
    for (uint32_t choice = 0; left > 0; choice++) {
        if (choice_finished(r, choice))
            continue;
        left--; // the h2o thread may free the request after the last event
        struct token_event event = {.choice = choice, .finish = (uint8_t)finish};
        choice_finish(engine, r, &event);
    }
}
