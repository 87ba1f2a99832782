// SPDX-License-Identifier: Apache-2.0
// Sequences whose readers are slow. A paused sequence keeps its slot until a request that is
// scheduled needs it; then the sequence paused longest is parked (decision 0016). Parked sequences
// keep their generated tokens, all together up to a limit; beyond it the request parked first is
// cancelled. Engine thread only.
#include "scheduler/internal.h"

static void slow_append(struct slow_list *list, struct sequence *s)
{
    LIST_APPEND(list->first, list->last, s, slow_next, slow_previous);
}

static void slow_drop(struct slow_list *list, struct sequence *s)
{
    LIST_REMOVE(list->first, list->last, s, slow_next, slow_previous);
}

void pause_set(struct engine *engine, struct sequence *s, bool paused)
{
    struct request *r = s->request;
    if (s->paused == paused)
        return;
    s->paused = paused;
    r->run.paused_count += paused ? 1 : -1;
    if (s->state != SEQUENCE_PARKED) {
        if (paused)
            slow_append(&engine->paused, s);
        else
            slow_drop(&engine->paused, s);
    }
    if (paused && r->run.paused_count == 1)
        due_put(&engine->due, r, r->run.progress_ns + STALL_NS);
    else if (r->run.paused_count == 0)
        due_drop(&engine->due, r);
}

// Returns the sequence paused longest that no step in flight refers to and, if penalised, that has
// a penalty row; or NULL. A sequence scheduled in this plan keeps its slot until the next plan;
// otherwise two slow readers could take a slot from each other endlessly.
static struct sequence *paused_choose(const struct engine *engine, bool penalised)
{
    for (struct sequence *s = engine->paused.first; s; s = s->slow_next)
        if (s->inflight == 0 && !plan_entry(engine, s)->scheduled &&
            (!penalised || s->penalty_row != PENALTY_NONE))
            return s;
    return NULL;
}

static void paused_park(struct engine *engine, struct sequence *s)
{
    if (engine->plan.paused_at == s)
        engine->plan.paused_at = s->slow_next;
    slow_drop(&engine->paused, s);
    sequence_park(engine, s);
    if (engine->plan.victim_at > engine->order_count)
        engine->plan.victim_at = engine->order_count;
    slow_append(&engine->parked, s);
    engine->parked_chunks += store_chunks(&engine->history, s->output_count);
    engine->parked_count++;
    stat_add(&engine->stats.parked, 1);
    s->request->run.parked++;
    parked_return(engine, s->request);
}

void parked_drop(struct engine *engine, struct sequence *s)
{
    struct request *r = s->request;
    slow_drop(&engine->parked, s);
    engine->parked_chunks -= store_chunks(&engine->history, s->output_count);
    engine->parked_count--;
    r->run.parked--;
    r->run.returning = r->run.returning && r->run.parked > 0;
}

bool parked_trim(struct engine *engine)
{
    bool news = false;
    for (; engine->parked_chunks > engine->parked_chunks_max; news = true) {
        struct sequence *s = engine->parked.first;
        while (s && !s->paused)
            s = s->slow_next;
        if (!s) // all parked sequences may be scheduled again
            s = engine->parked.first;
        request_end(engine, s->request, FINISH_STALLED);
    }
    return news;
}

static void returning_set(struct engine *engine, struct request *r, bool returning)
{
    r->run.returning = returning;
    for (struct sequence *s = r->run.first; s; s = s->sibling)
        if (s->state == SEQUENCE_PARKED)
            pause_set(engine, s, !returning);
    if (returning && !r->run.wait_key)
        queue_put(engine, r);
    else if (!sequence_waits(r))
        queue_drop(engine, r);
}

void parked_return(struct engine *engine, struct request *r)
{
    if (r->run.parked > 0 && !r->run.returning && credit_returns(engine, r))
        returning_set(engine, r, true);
}

void parked_hold(struct engine *engine, struct request *r)
{
    if (r->run.returning)
        returning_set(engine, r, false);
}

// Returns the sequence that would be parked to free a slot and, if penalised, a penalty row, or
// NULL. A sequence that loses its penalty row loses its slot as well.
static struct sequence *slot_parked_for(const struct engine *engine, bool penalised)
{
    bool row = penalised && engine->penalties_free_count == 0;
    return row || !sequence_slots(engine) ? paused_choose(engine, row) : NULL;
}

bool slot_possible(const struct engine *engine, bool penalised)
{
    bool row = !penalised || engine->penalties_free_count > 0;
    return (row && sequence_slots(engine)) || slot_parked_for(engine, penalised);
}

void slot_make(struct engine *engine, bool penalised)
{
    struct sequence *s = slot_parked_for(engine, penalised);
    if (s)
        paused_park(engine, s);
}
