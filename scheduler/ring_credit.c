// SPDX-License-Identifier: Apache-2.0
// Credit in the event rings: a sequence may be planned for a token only if the ring has an entry
// for it. The others are paused. Engine thread only.
//
// A ring has at least 4 n + 8 entries for n choices. When a plan is made, a request has at most one
// event in flight and one outstanding finish for each choice. So an entry is refused only while at
// least n + 8 events are unread, and a start that needs half the ring free is refused only while at
// least 4 are unread: the reader always has an event to read, and reading it sends a notice.
#include "scheduler/internal.h"

static uint32_t credit_left(const struct request *r, uint32_t used)
{
    uint32_t empty = ring_free(&r->events.ring);
    return empty > used ? empty - used : 0;
}

// Returns the entries that the events in flight and the outstanding finishes will take.
static uint32_t credit_used(const struct request *r)
{
    return r->run.pending + r->run.unfinished;
}

static uint32_t credit_count(const struct request *r)
{
    return credit_left(r, credit_used(r));
}

static bool wants_token(const struct sequence *s)
{
    return (s->state == SEQUENCE_RUNNING || s->state == SEQUENCE_WAITING) &&
           !sequence_planned_out(s);
}

// A waiting sequence must recompute its context, so it starts only if half the ring is free.
// Otherwise a reader that reads one token at a time would cost a prefill for each token.
static bool credit_suffices(const struct request *r, const struct sequence *s, uint32_t credit)
{
    return credit > (s->state == SEQUENCE_WAITING ? r->events.ring.mask / 2 : 0);
}

// Grants entries if there are too few for all choices: round-robin, beginning after the choice that
// was served last. Returns the number of entries granted.
static uint32_t credit_share(struct engine *engine, struct request *r, uint32_t credit)
{
    uint32_t start = r->run.served_last;
    uint32_t all = credit;
    for (struct sequence *s = r->run.first; s; s = s->sibling)
        if (s->state != SEQUENCE_PARKED)
            plan_entry(engine, s)->granted = false;
    for (uint32_t lap = 0; lap < 2; lap++) {
        for (struct sequence *s = r->run.first; s && credit > 0; s = s->sibling) {
            bool in_lap = lap == 0 ? s->number > start : s->number <= start;
            if (!in_lap || !wants_token(s) || !credit_suffices(r, s, all))
                continue;
            credit--;
            plan_entry(engine, s)->granted = true;
            r->run.served_last = s->number;
        }
    }
    return all - credit;
}

// Records that the reader has read since the last call.
static void progress_note(struct engine *engine, struct request *r)
{
    uint32_t tail = atomic_load_explicit(&r->events.ring.tail, memory_order_relaxed);
    if (tail == r->run.tail_seen)
        return;
    r->run.tail_seen = tail;
    r->run.progress_ns = engine->now_ns;
}

// Pauses exactly the sequences that want a token and were refused an entry; resumes all others.
static void pauses_set(struct engine *engine, struct request *r)
{
    for (struct sequence *s = r->run.first; s; s = s->sibling) {
        if (s->state == SEQUENCE_PARKED)
            continue;
        bool refused = wants_token(s) && !plan_entry(engine, s)->granted;
        stat_add(&engine->stats.pauses, refused && !s->paused);
        pause_set(engine, s, refused);
    }
}

// Grants entries to the sequences of a generation for this plan.
static void credit_request(struct engine *engine, struct request *r)
{
    progress_note(engine, r);
    uint32_t credit = credit_count(r), wanting = 0;
    bool scarce = false;
    r->run.credit_used = credit_used(r);
    for (struct sequence *s = r->run.first; s; s = s->sibling) {
        if (s->state == SEQUENCE_PARKED)
            continue;
        bool wants = wants_token(s);
        *plan_entry(engine, s) = (struct plan_entry){.granted = wants};
        wanting += wants;
        scarce = scarce || (wants && !credit_suffices(r, s, credit));
    }
    scarce = scarce || credit < wanting;
    if (scarce) {
        // Raise the flag, then count again: either the engine sees the reader's new index, or the
        // reader sees the flag and wakes the engine. Without the second count both could sleep.
        flag_raise(&r->events.paused);
        wanting = credit_share(engine, r, credit_count(r));
    }
    r->run.credit_used += wanting;
    if (scarce || r->run.paused_count > 0)
        pauses_set(engine, r);
}

bool credit_returns(struct engine *engine, struct request *r)
{
    progress_note(engine, r);
    uint32_t half = r->events.ring.mask / 2;
    if (credit_count(r) > half)
        return true;
    flag_raise(&r->events.paused); // then count again, as in credit_request
    return credit_count(r) > half;
}

void credit_grant(struct engine *engine, uint64_t stamp)
{
    for (uint32_t i = 0; i < engine->order_count; i++) {
        struct sequence *s = engine->order[i];
        struct request *r = s->request;
        if (r->args.kind != REQUEST_GENERATE) {
            // A pooling request needs only the entry of its finish event.
            *plan_entry(engine, s) = (struct plan_entry){.granted = true};
        } else if (r->run.stamp != stamp) {
            r->run.stamp = stamp;
            credit_request(engine, r);
        }
    }
}

void credit_scheduled(struct engine *engine, struct sequence *s)
{
    struct request *r = s->request;
    struct plan_entry *entry = plan_entry(engine, s);
    *entry = (struct plan_entry){.granted = true, .scheduled = true};
    if (r->args.kind != REQUEST_GENERATE)
        return;
    if (r->run.stamp != engine->plan.stamp) { // it had no sequence with a slot when the plan began
        r->run.stamp = engine->plan.stamp;
        r->run.credit_used = credit_used(r);
    }
    if (credit_left(r, r->run.credit_used) == 0)
        flag_raise(&r->events.paused); // then count again, as in credit_request
    entry->granted = credit_left(r, r->run.credit_used) > 0;
    r->run.credit_used += entry->granted;
    stat_add(&engine->stats.pauses, !entry->granted);
    engine->plan.refused = engine->plan.refused || !entry->granted;
    pause_set(engine, s, !entry->granted);
    if (!entry->granted)
        parked_hold(engine, r);
}
