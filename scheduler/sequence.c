// SPDX-License-Identifier: Apache-2.0
// The state transitions of sequence.h. They keep requests, age order, blocks, slots and histories
// consistent. Engine thread only.
#include "scheduler/internal.h"

#include "runtime/grammar/token_watch.h"

#include <string.h>

bool sequence_penalised(const struct request *request)
{
    const struct sampling *p = &request->args.sampling;
    return request->args.kind == REQUEST_GENERATE &&
           (p->repetition != 1.0f || p->frequency != 0.0f || p->presence != 0.0f);
}

bool sequence_constrained(const struct sequence *s)
{
    const struct submit_args *args = &s->request->args;
    return args->grammar || args->rules;
}

bool sequence_masked(const struct sequence *s)
{
    const struct submit_args *args = &s->request->args;
    return args->rules || (args->grammar && (!args->watch || s->watch == TOKEN_OPEN));
}

// Sets where the grammar begins. Rules need masks from the beginning, so the matcher is started
// there as well.
static void sequence_watch(struct sequence *s, const struct submit_args *args)
{
    bool open = args->rules || args->watch_phase == TOKEN_CALL;
    s->entry = TOKEN_UNWATCHED;
    if (!args->watch)
        return;
    s->watch = open ? (uint8_t)TOKEN_OPEN : args->watch_phase;
    s->entry = open ? args->watch_phase : (uint8_t)TOKEN_UNWATCHED;
}

void sequence_tokens(const struct sequence *s, uint32_t from, uint32_t count, int32_t *out)
{
    uint32_t known = sequence_known(s);
    check(from + count <= known, "tokens %u to %u of %u", from, from + count, known);
    uint32_t prompt = 0;
    if (from < s->prompt_len) {
        prompt = s->prompt_len - from < count ? s->prompt_len - from : count;
        store_read(&s->request->port->words, s->request->number, s->prompt_at + from, prompt, out);
    }
    if (prompt < count)
        store_read(s->history, s->index, from + prompt - s->prompt_len, count - prompt,
                   out + prompt);
}

bool sequence_slots(const struct engine *engine)
{
    return engine->slots_free_count > 0 && engine->order_count < engine->order_max;
}

static struct sequence *parked_first(const struct request *r)
{
    struct sequence *s = r->run.first;
    while (s->state != SEQUENCE_PARKED)
        s = s->sibling;
    return s;
}

bool sequence_waits(const struct request *r)
{
    return r->run.scheduled < r->run.sequence_total || r->run.returning;
}

uint32_t sequence_next_known(const struct request *r)
{
    if (r->run.returning)
        return sequence_known(parked_first(r));
    uint64_t at = r->starts_at + r->run.scheduled / r->args.choice_count;
    return (uint32_t)(request_word(r, at + 1) - request_word(r, at));
}

static void sequence_prompt(struct sequence *s, const struct request *r)
{
    uint32_t input = s->number / r->args.choice_count;
    s->prompt_at = (uint32_t)request_word(r, r->starts_at + input);
    s->prompt_len = (uint32_t)request_word(r, r->starts_at + input + 1) - s->prompt_at;
    s->type_from = r->typed ? (uint32_t)request_word(r, r->types_at + input) : TYPE_FROM_NONE;
}

static struct hash sequence_root(const struct engine *engine, const struct request *r)
{
    struct prefix_apart apart = {.salt = {r->args.cache_salt[0], r->args.cache_salt[1]},
                                 .owner = r->args.cache_owner};
    if (!engine->options.prefix_cache) {
        apart.serial = r->serial;
        apart.port = (uint64_t)(r->port - engine->ports) + 1;
    }
    return prefix_root(engine->options.hash_key, &apart);
}

// Gives the sequence a slot and, if needed, a penalty row, and makes it the youngest.
static void slot_acquire(struct engine *engine, struct sequence *s)
{
    size_t each = engine->facts.blocks_per_sequence_max;
    s->slot = engine->slots_free[--engine->slots_free_count];
    s->blocks = engine->slot_blocks + s->slot * each;
    s->hashes = engine->slot_hashes + s->slot * each;
    s->hash_count = s->match_count = 0;
    if (sequence_penalised(s->request)) {
        check(engine->penalties_free_count > 0, "no penalty row is free");
        s->penalty_row = engine->penalties_free[--engine->penalties_free_count];
    }
    s->ticket = ++engine->tickets;
    engine->order[engine->order_count++] = s;
    s->state = SEQUENCE_WAITING;
}

static void slot_release(struct engine *engine, struct sequence *s)
{
    if (s->penalty_row != PENALTY_NONE)
        engine->penalties_free[engine->penalties_free_count++] = s->penalty_row;
    s->penalty_row = PENALTY_NONE;
    engine->slots_free[engine->slots_free_count++] = s->slot;
    s->slot = SLOT_NONE;
}

// Creates the next sequence of a request.
static struct sequence *sequence_open(struct engine *engine, struct request *r)
{
    uint32_t index = engine->sequences_free_count > 0
                         ? engine->sequences_free[--engine->sequences_free_count]
                         : engine->sequences_fresh++;
    check(index < engine->sequence_count, "all %u sequences are in use", engine->sequence_count);
    struct sequence *s = &engine->sequences[index];
    check(s->state == SEQUENCE_FREE, "sequence %u is in use in state %u", index, s->state);
    *s = (struct sequence){.index = index,
                           .number = r->run.scheduled,
                           .request = r,
                           .shares = engine->sharing &&
                                     (engine->options.prefix_cache || r->run.sequence_total > 1),
                           .slot = SLOT_NONE,
                           .penalty_row = PENALTY_NONE,
                           .history = &engine->history};
    sequence_prompt(s, r);
    sequence_watch(s, &r->args);
    s->output_max = 1;
    if (sequence_generates(s)) {
        uint32_t left = engine->facts.max_model_len - s->prompt_len;
        s->output_max = r->args.max_tokens < left ? r->args.max_tokens : left;
    }
    if (s->shares)
        s->root = sequence_root(engine, r);
    if (r->run.last)
        r->run.last->sibling = s;
    else
        r->run.first = s;
    r->run.last = s;
    engine->waiting_sequences--;
    r->run.scheduled++;
    return s;
}

struct sequence *sequence_schedule(struct engine *engine, struct request *r, bool ahead)
{
    check(sequence_slots(engine), "%u slots are free", engine->slots_free_count);
    struct sequence *s;
    if (r->run.returning) {
        s = parked_first(r);
        // It may have been parked, and paused, after the request began to return.
        pause_set(engine, s, false);
        parked_drop(engine, s);
        r->run.rescheduled++;
    } else {
        s = sequence_open(engine, r);
    }
    s->ahead = ahead;
    slot_acquire(engine, s);
    queue_rotate(engine, r, ahead);
    return s;
}

void sequence_blocks_unref(struct engine *engine, struct sequence *s, bool was_leaving)
{
    // Release the last block first: the cache evicts blocks in the order of release, and a chain
    // must lose its end first so that the rest can still be found.
    for (uint32_t i = s->block_count; i-- > 0;)
        block_unref(&engine->blocks, s->blocks[i], was_leaving);
    s->block_count = 0;
    s->match_count = 0;
    s->blocks_sent = 0;
    s->blocks_settled = 0;
    s->planned_len = 0;
}

static void blocks_unref_later(struct engine *engine, struct sequence *s)
{
    for (uint32_t i = 0; i < s->block_count; i++)
        block_unref_later(&engine->blocks, s->blocks[i]);
}

void sequence_start(struct sequence *s)
{
    check(s->state == SEQUENCE_WAITING, "start in state %u", s->state);
    s->state = SEQUENCE_RUNNING;
}

void sequence_preempt(struct engine *engine, struct sequence *s)
{
    check(s->state == SEQUENCE_RUNNING, "preemption in state %u", s->state);
    stat_add(&s->request->marks.preemptions, 1);
    stat_add(&engine->stats.preemptions, 1);
    s->ahead = false;
    s->fed = false;
    s->on_device = false;
    if (s->inflight > 0) {
        s->state = SEQUENCE_LEAVING;
        blocks_unref_later(engine, s);
        return;
    }
    sequence_blocks_unref(engine, s, false);
    s->state = SEQUENCE_WAITING;
}

void sequence_postpone(struct sequence *s)
{
    check(s->state == SEQUENCE_RUNNING && s->pending == 1 && s->planned_len == sequence_known(s),
          "sequence %u is postponed with %u tokens in flight", s->index, s->pending);
    s->pending--;
    s->request->run.pending--;
    s->postponed++;
    s->mask_made = false;
    s->planned_len--;
}

// Removes the sequence from its request.
static void request_drop(struct engine *engine, struct request *r, struct sequence *s)
{
    struct sequence **link = &r->run.first, *before = NULL;
    while (*link != s) {
        before = *link;
        link = &(*link)->sibling;
    }
    *link = s->sibling;
    if (r->run.last == s)
        r->run.last = before;
    r->run.pending -= s->pending; // tokens in flight are discarded
    pause_set(engine, s, false);
    s->pending = 0;
    s->request = NULL;
}

// Removes the sequence from the age order and cancels the blocks owed to it. If an examined
// sequence moves below plan.victim_at, it is examined once more, so no victim is missed.
static void order_drop(struct engine *engine, struct sequence *s)
{
    uint32_t at = 0;
    budget_owe(&engine->plan.budget, &plan_entry(engine, s)->debt, 0);
    while (engine->order[at] != s)
        at++;
    engine->order_count--;
    memmove(&engine->order[at], &engine->order[at + 1],
            (engine->order_count - at) * sizeof *engine->order);
}

static void sequence_close(struct engine *engine, struct sequence *s)
{
    masks_matcher_end(engine, s);
    store_free(&engine->history, s->index, s->output_count);
    engine->sequences_free[engine->sequences_free_count++] = s->index;
    s->state = SEQUENCE_FREE;
}

void sequence_park(struct engine *engine, struct sequence *s)
{
    check(s->inflight == 0, "sequence %u is parked with %u steps in flight", s->index, s->inflight);
    if (s->state == SEQUENCE_RUNNING)
        sequence_preempt(engine, s);
    order_drop(engine, s);
    slot_release(engine, s);
    s->state = SEQUENCE_PARKED;
}

void sequence_end(struct engine *engine, struct sequence *s)
{
    check(s->request, "sequence %u ends twice", s->index);
    if (s->state == SEQUENCE_PARKED) {
        parked_drop(engine, s);
        request_drop(engine, s->request, s);
        sequence_close(engine, s);
        return;
    }
    request_drop(engine, s->request, s);
    order_drop(engine, s);
    if (s->inflight > 0) {
        if (s->state != SEQUENCE_LEAVING)
            blocks_unref_later(engine, s);
        s->state = SEQUENCE_ENDING;
        return;
    }
    sequence_blocks_unref(engine, s, false);
    slot_release(engine, s);
    sequence_close(engine, s);
}

void sequence_settled(struct engine *engine, struct sequence *s)
{
    check(s->inflight > 0, "slot %u settles a step it was not in", s->slot);
    s->inflight--;
    if (s->inflight > 0 || s->state == SEQUENCE_RUNNING)
        return;
    check(s->state == SEQUENCE_LEAVING || s->state == SEQUENCE_ENDING, "settled in state %u",
          s->state);
    sequence_blocks_unref(engine, s, true);
    if (s->state == SEQUENCE_LEAVING) {
        s->state = SEQUENCE_WAITING;
        return;
    }
    slot_release(engine, s);
    sequence_close(engine, s);
}
