// SPDX-License-Identifier: Apache-2.0
// Invariants of the production scheduler after every step, recomputed from its state.
#include "tests/sim/sim.h"

#include "base/number.h"

#include <stdio.h>
#include <string.h>

enum { BLOCKS_MAX = 1024 };

static void blocks_count(struct sim *sim, uint32_t *refs, uint32_t *leaving)
{
    struct engine *e = sim->engine;
    for (uint32_t i = 0; i < e->sequences_fresh; i++) {
        const struct sequence *s = &e->sequences[i];
        bool leaves = s->state == SEQUENCE_LEAVING || s->state == SEQUENCE_ENDING;
        bool none = s->state == SEQUENCE_FREE || s->state == SEQUENCE_PARKED ||
                    s->state == SEQUENCE_WAITING;
        sim_check(sim, !none || s->block_count == 0, "sequence %u, state %u, has blocks", i,
                  s->state);
        for (uint32_t b = 0; b < s->block_count; b++) {
            refs[s->blocks[b]]++;
            leaving[s->blocks[b]] += leaves;
        }
    }
}

// Each block is free, used or cached, exactly once.
static void blocks_hold(struct sim *sim)
{
    struct blocks *blocks = &sim->engine->blocks;
    uint32_t refs[BLOCKS_MAX] = {0}, leaving[BLOCKS_MAX] = {0};
    uint8_t seen[BLOCKS_MAX] = {0};
    uint32_t releasing = 0, used = 0, cached = 0;
    blocks_count(sim, refs, leaving);
    for (uint32_t i = 0; i < blocks->free_count; i++) {
        uint32_t id = blocks->free[i];
        sim_check(sim, !seen[id] && refs[id] == 0, "block %u: free twice or held", id);
        sim_check(sim, !blocks->block[id].in_table, "block %u: free and named", id);
        seen[id] = 1;
    }
    for (uint32_t id = blocks->count ? blocks->newest : BLOCK_NONE; id != BLOCK_NONE;
         id = blocks->block[id].older) {
        sim_check(sim, !seen[id] && refs[id] == 0, "block %u: cached and held", id);
        sim_check(sim, blocks->block[id].ready, "block %u: cached and never computed", id);
        seen[id] = 1;
        cached++;
    }
    for (uint32_t id = 0; id < blocks->count; id++) {
        const struct block *b = &blocks->block[id];
        sim_check(sim, b->refs == refs[id], "block %u: %u holders, %u counted", id, b->refs,
                  refs[id]);
        sim_check(sim, b->leaving == leaving[id], "block %u: %u leave, %u counted", id, b->leaving,
                  leaving[id]);
        sim_check(sim, (refs[id] > 0) != (seen[id] != 0), "block %u is lost", id);
        used += refs[id] > 0;
        releasing += refs[id] > 0 && refs[id] == leaving[id];
    }
    sim_check(sim, used + cached + blocks->free_count == blocks->count, "%u used", used);
    sim_check(sim, cached == blocks->cached_count && releasing == blocks->releasing_count,
              "%u cached, %u come", cached, releasing);
}

// The links between blocks in the prefix table are counted correctly, and a match that counts as
// valid consists of ready blocks with the right hashes.
static void matches_hold(struct sim *sim)
{
    struct engine *e = sim->engine;
    const struct block *block = e->blocks.block;
    uint32_t children[BLOCKS_MAX] = {0};
    for (uint32_t id = 0; id < e->blocks.count; id++) {
        uint32_t parent = block[id].parent_id;
        if (block[id].in_table && block[id].parent_serial != 0 && block[parent].in_table &&
            block[parent].serial == block[id].parent_serial)
            children[parent]++;
    }
    for (uint32_t id = 0; id < e->blocks.count; id++)
        sim_check(sim, !block[id].in_table || block[id].children == children[id],
                  "block %u: %u children, %u counted", id, children[id], block[id].children);
    for (uint32_t i = 0; i < e->order_count; i++) {
        const struct sequence *s = e->order[i];
        if (s->state != SEQUENCE_WAITING || !share_valid(e, s))
            continue;
        for (uint32_t k = 0; k < s->match_count; k++) {
            const struct block *b = &block[s->blocks[k]];
            sim_check(sim,
                      b->in_table && b->ready && b->hash.low == s->hashes[k].low &&
                          b->hash.high == s->hashes[k].high,
                      "sequence %u: block %u of its match is another", s->index, k);
        }
    }
}

// Each slot and penalty row is free or belongs to one sequence; parked sequences have none.
static void places_hold(struct sim *sim)
{
    struct engine *e = sim->engine;
    uint64_t places = 0, rows = 0;
    uint32_t parked = 0, chunks = 0, free = 0;
    for (uint32_t i = 0; i < e->sequences_fresh; i++) {
        const struct sequence *s = &e->sequences[i];
        free += s->state == SEQUENCE_FREE;
        if (s->state == SEQUENCE_FREE)
            continue;
        if (s->state == SEQUENCE_PARKED) {
            sim_check(sim, s->slot == SLOT_NONE && s->penalty_row == PENALTY_NONE && !s->inflight,
                      "sequence %u is parked with slot %u", i, s->slot);
            sim_check(sim, s->paused || s->request->run.returning, "sequence %u comes back", i);
            parked++;
            chunks += store_chunks(&e->history, s->output_count);
            continue;
        }
        sim_check(sim, s->slot < 64 && (places >> s->slot & 1) == 0, "slot %u is lent twice",
                  s->slot);
        places |= (uint64_t)1 << s->slot;
        if (s->penalty_row == PENALTY_NONE)
            continue;
        sim_check(sim, (rows >> s->penalty_row & 1) == 0, "row %u is lent twice", s->penalty_row);
        rows |= (uint64_t)1 << s->penalty_row;
    }
    sim_check(sim, free == e->sequences_free_count, "%u sequences free", free);
    sim_check(sim, parked == e->parked_count && chunks == e->parked_chunks, "%u parked", parked);
    sim_check(sim, chunks <= e->parked_chunks_max, "%u chunks of parked sequences", chunks);
}

static void sequences_hold(struct sim *sim)
{
    struct engine *e = sim->engine;
    uint32_t drawn = 0, ending = 0, each = e->blocks.tokens;
    for (uint32_t i = 0; i < e->sequences_fresh; i++) {
        const struct sequence *s = &e->sequences[i];
        drawn += s->request && s->state != SEQUENCE_PARKED;
        ending += s->state == SEQUENCE_ENDING;
        if (s->state == SEQUENCE_FREE || s->state == SEQUENCE_PARKED)
            continue;
        sim_check(sim, (!s->request) == (s->state == SEQUENCE_ENDING), "sequence %u state %u", i,
                  s->state);
        sim_check(sim,
                  s->state == SEQUENCE_RUNNING || s->state == SEQUENCE_WAITING || s->inflight > 0 ||
                      sim->failed,
                  "sequence %u stays in state %u", i, s->state);
        bool whole = !e->paged || s->block_count == (s->planned_len + each - 1) / each;
        bool behind = s->postponed > 0 && s->block_count == (s->planned_len + each) / each;
        sim_check(sim, whole || behind, "sequence %u: %u tokens in %u blocks", i, s->planned_len,
                  s->block_count);
        sim_check(sim, s->inflight <= e->launched - e->settled, "sequence %u: %u in flight", i,
                  s->inflight);
    }
    sim_check(sim, drawn == e->order_count, "%u drawn, %u in order", drawn, e->order_count);
    sim_check(sim, drawn + ending + e->slots_free_count == e->facts.limits.slots_max,
              "%u drawn, %u ending, %u free", drawn, ending, e->slots_free_count);
    for (uint32_t i = 1; i < e->order_count; i++)
        sim_check(sim, e->order[i - 1]->ticket < e->order[i]->ticket, "order at %u", i);
}

// No ring overflows: every planned token and every coming finish has an entry.
static void credits_hold(struct sim *sim)
{
    struct engine *e = sim->engine;
    uint64_t undrawn = 0;
    uint32_t live = 0;
    for (struct request *r = e->live_first; r; r = r->run.live_next) {
        uint32_t pending = 0, paused = 0;
        for (const struct sequence *s = r->run.first; s; s = s->sibling) {
            pending += s->pending;
            paused += s->paused;
        }
        live++;
        undrawn += r->run.sequence_total - r->run.scheduled;
        sim_check(sim, paused == r->run.paused_count, "%u paused, %u counted", r->run.paused_count,
                  paused);
        if (r->args.kind != REQUEST_GENERATE)
            continue;
        sim_check(sim, pending == r->run.pending, "%u pending, %u counted", r->run.pending,
                  pending);
        sim_check(sim, ring_free(&r->events.ring) >= pending + r->run.unfinished,
                  "%u entries for %u tokens and %u finishes", ring_free(&r->events.ring), pending,
                  r->run.unfinished);
    }
    sim_check(sim, live == e->live_count && undrawn == e->waiting_sequences, "%u live", live);
}

// Exactly the requests that are paused, or have a deadline and have not started, are in the heap,
// each with the right time.
static void dues_hold(struct sim *sim)
{
    struct engine *e = sim->engine;
    const struct due *entry = e->due.entry;
    uint32_t expected = 0;
    for (struct request *r = e->live_first; r; r = r->run.live_next) {
        bool waits = r->args.deadline_ns != 0 && !r->run.started, paused = r->run.paused_count > 0;
        sim_check(sim, (r->run.due_index > 0) == (waits || paused), "due at place %u",
                  r->run.due_index);
        if (r->run.due_index == 0)
            continue;
        const struct due *due = &entry[r->run.due_index - 1];
        uint64_t latest = waits ? r->args.deadline_ns : r->run.progress_ns + STALL_NS;
        sim_check(sim, due->request == r && due->at_ns <= latest, "due at place %u too late",
                  r->run.due_index);
        expected++;
    }
    sim_check(sim, e->due.count == expected, "%u due, %u expected", e->due.count, expected);
    for (uint32_t i = 1; i < e->due.count; i++)
        sim_check(sim, entry[(i - 1) / 2].at_ns <= entry[i].at_ns, "due out of order at %u", i);
}

// The budget reserves exactly the blocks that the prefills of scheduled sequences still need.
static void debts_hold(struct sim *sim)
{
    struct engine *e = sim->engine;
    uint32_t debt = 0;
    for (uint32_t i = 0; i < e->order_count; i++)
        debt += plan_entry(e, e->order[i])->debt;
    sim_check(sim, debt == e->plan.budget.owed, "%u blocks owed, %u counted", debt,
              e->plan.budget.owed);
}

// True if the last plan has a row for s or for an older sequence, which may have ended or been
// paused since.
static bool older_moved(struct engine *e, const struct sequence *s)
{
    const struct plan *plan = &e->plan;
    bool moved = false;
    for (uint32_t i = 0; i < plan->decode_count; i++)
        moved = moved || e->sequences[plan->decode[i].sequence].ticket <= s->ticket;
    for (uint32_t i = 0; i < plan->prefill_count; i++)
        moved = moved || e->sequences[plan->prefill[i].sequence].ticket <= s->ticket;
    for (uint32_t i = 0; i < plan->waiting_count; i++)
        moved = moved || e->sequences[plan->waiting[i].sequence].ticket <= s->ticket;
    return moved;
}

// The oldest sequence with a reader advances at least every second step.
static void oldest_moves(struct sim *sim)
{
    struct engine *e = sim->engine;
    const struct sequence *s = NULL;
    for (uint32_t i = 0; i < e->order_count && !s; i++)
        if (!e->order[i]->paused)
            s = e->order[i];
    if (!s || sim->failed) {
        sim->oldest.ticket = 0;
        return;
    }
    bool same = !older_moved(e, s) && sim->oldest.ticket == s->ticket &&
                sim->oldest.planned_len == s->planned_len &&
                sim->oldest.output_count == s->output_count &&
                sim->oldest.block_count == s->block_count && sim->oldest.pending == s->pending &&
                sim->oldest.state == s->state;
    sim->oldest.still = same ? sim->oldest.still + 1 : 0;
    sim_check(sim, sim->oldest.still < 2, "slot %u, the oldest, state %u, does not move", s->slot,
              s->state);
    sim->oldest.ticket = s->ticket;
    sim->oldest.planned_len = s->planned_len;
    sim->oldest.output_count = s->output_count;
    sim->oldest.block_count = s->block_count;
    sim->oldest.pending = s->pending;
    sim->oldest.state = s->state;
}

// Number of longer prompts of one key that a search may skip (queue.c). With more, a short prompt
// may not be found.
enum { PASSED_MOST = 16, DRAWS_MOST = 64 };
enum { DRAWS_KEY = 2 }; // per key while another waits: one in turn, one ahead of a longer prompt

struct draws { // sequences scheduled in one step ("draws")
    uint32_t count;
    struct draw {
        uint32_t client, key, tokens;
        bool in_turn; // true if its sequence still exists and was not scheduled ahead of a longer
                      // prompt
    } draw[DRAWS_MOST];
};

static uint32_t next_tokens(const struct client *c, uint32_t drawn)
{
    uint32_t prompt = drawn / c->args.choice_count;
    return c->starts[prompt + 1] - c->starts[prompt];
}

static uint32_t shortest(const struct client *c)
{
    uint32_t tokens = UINT32_MAX;
    for (uint32_t i = 0; i < c->args.sequence_count; i++)
        tokens = smaller(tokens, c->starts[i + 1] - c->starts[i]);
    return tokens;
}

static bool drawn_in_turn(const struct client *c, uint32_t drawn)
{
    for (const struct sequence *s = c->request->run.first; s; s = s->sibling)
        if (s->number == drawn)
            return !s->ahead;
    return false;
}

static void ready_look(struct sim *sim, struct client *c)
{
    const struct request *r = c->request;
    struct turn *key = &sim->keys[r->args.key_id];
    bool was = c->turn.ready, waits = r->run.unfinished > 0 && sequence_waits(r);
    key->waiting += waits;
    c->turn.ready = waits && !sequence_penalised(r);
    c->turn.stayed = was && c->turn.ready;
    key->stayed = key->stayed || c->turn.stayed;
    if (!c->turn.ready)
        return;
    c->turn.tokens = sequence_next_known(r);
    for (uint32_t i = c->drawn; i < r->run.scheduled; i++) // all that were next in this step
        c->turn.tokens = larger(c->turn.tokens, next_tokens(c, i));
    if (!key->ready || key->tokens > c->turn.tokens)
        key->tokens = c->turn.tokens;
    key->ready = true;
}

static void draws_look(struct sim *sim, struct draws *draws)
{
    for (uint32_t i = 0; i < SIM_KEYS; i++) {
        sim->keys[i].ready = sim->keys[i].stayed = false;
        sim->keys[i].waiting = 0;
    }
    for (uint32_t i = 0; i < SIM_CLIENTS; i++) {
        struct client *c = &sim->clients[i];
        if (!c->used) {
            c->turn.ready = c->turn.stayed = false;
            continue;
        }
        ready_look(sim, c);
        for (; c->redrawn < c->request->run.rescheduled; c->redrawn++) // at least these tokens
            draws->draw[draws->count++] =
                (struct draw){i, c->request->args.key_id, shortest(c), false};
        for (; c->drawn < c->request->run.scheduled; c->drawn++)
            draws->draw[draws->count++] = (struct draw){
                i, c->request->args.key_id, next_tokens(c, c->drawn), drawn_in_turn(c, c->drawn)};
    }
}

// No request is drawn twice while another one with no more tokens is ready and not drawn. A key may
// be drawn once in turn and once ahead.
static void turn_compare(struct sim *sim, struct turn *t, uint32_t own, const struct draws *draws,
                         bool keys)
{
    if (!t->stayed || !t->counted) {
        memset(t->others, 0, sizeof t->others);
        t->own = 0;
    }
    uint32_t key = keys ? own : sim->clients[own].request->args.key_id;
    t->counted = t->ready && sim->keys[key].waiting < PASSED_MOST;
    for (uint32_t i = 0; t->counted && i < draws->count; i++) {
        const struct draw *d = &draws->draw[i];
        t->own += own == (keys ? d->key : d->client);
    }
    for (uint32_t i = 0; t->counted && i < draws->count; i++) {
        const struct draw *d = &draws->draw[i];
        uint32_t other = keys ? d->key : d->client;
        if (other == own || d->tokens < t->tokens || (!keys && d->key != key))
            continue;
        t->others[other]++;
        sim_check(sim, t->others[other] <= t->own + (keys ? DRAWS_KEY : 1),
                  "%u draws of %u, %u of %u, which was ready", t->others[other], other, t->own,
                  own);
    }
}

// Returns the ticket of a request that is the first of its key, or 0.
static uint64_t first_ticket(const struct client *c)
{
    const struct request *r = c->request;
    if (!c->used || !c->turn.ready || r->run.returning)
        return 0;
    const struct queue_key *key = r->run.wait_key;
    bool first = key->first[0] == r &&
                 (!key->first[1] || key->first[1]->run.wait_ticket > r->run.wait_ticket);
    return first ? r->run.wait_ticket : 0;
}

// The first request of a key keeps its rank whatever other requests of the key do. Meanwhile no
// other key draws two prompts in turn that have as many tokens, nor a third one at all, except one
// more ahead for each shorter prompt of the request's key that is drawn ahead.
static void first_keeps_turn(struct sim *sim, struct client *c, const struct draws *draws)
{
    uint64_t ticket = first_ticket(c);
    if (ticket == 0 || ticket != c->first.ticket)
        memset(&c->first, 0, sizeof c->first);
    uint32_t count = c->first.ticket > 0 ? draws->count : 0;
    for (uint32_t i = 0; i < count; i++)
        c->first.own += draws->draw[i].key == c->request->args.key_id;
    for (uint32_t i = 0; i < count; i++) {
        const struct draw *d = &draws->draw[i];
        if (d->key == c->request->args.key_id || d->tokens < c->turn.tokens)
            continue;
        uint32_t all = ++c->first.draws[d->key], in_turn = c->first.in_turn[d->key] += d->in_turn;
        sim_check(sim, in_turn < 2 && all <= DRAWS_KEY + c->first.own,
                  "key %u draws again, client %u of another keeps waiting", d->key,
                  (uint32_t)(c - sim->clients));
    }
    c->first.ticket = ticket;
}

// True if a slot is free, each scheduled sequence has a free block left, and none of them waits or
// has more than one token to compute. Then there are blocks and tokens for another sequence.
static bool may_draw(const struct engine *e)
{
    bool may = sequence_slots(e);
    may = may && (!e->paged || blocks_available(&e->blocks) > e->order_count);
    for (uint32_t i = 0; i < e->order_count; i++) {
        const struct sequence *s = e->order[i];
        bool last = s->fed || s->postponed > 0 || s->planned_len == sequence_known(s);
        may = may && s->state == SEQUENCE_RUNNING && last;
    }
    return may;
}

enum { UNDRAWN_MOST = 8 }; // steps; the first steps of an engine on a CPU have no prompt tokens

// A waiting sequence is scheduled within a few steps if nothing prevents it.
static void draws_go_on(struct sim *sim, const struct draws *draws)
{
    bool stayed = false;
    for (uint32_t i = 0; i < SIM_KEYS; i++)
        stayed = stayed || sim->keys[i].stayed;
    bool missed = sim->drawable && stayed && draws->count == 0 && !sim->failed;
    sim->undrawn = missed ? sim->undrawn + 1 : 0;
    sim_check(sim, sim->undrawn < UNDRAWN_MOST, "none of those that wait was drawn in %u steps",
              sim->undrawn);
    sim->drawable = may_draw(sim->engine);
}

// Sequences are scheduled round-robin by key, and by request within a key.
static void turns_hold(struct sim *sim)
{
    struct draws draws = {.count = 0};
    draws_look(sim, &draws);
    draws_go_on(sim, &draws);
    for (uint32_t i = 0; i < SIM_KEYS; i++)
        turn_compare(sim, &sim->keys[i], i, &draws, true);
    for (uint32_t i = 0; i < SIM_CLIENTS; i++) {
        if (sim->clients[i].used)
            turn_compare(sim, &sim->clients[i].turn, i, &draws, false);
        first_keeps_turn(sim, &sim->clients[i], &draws);
    }
}

// An engine may be idle only if every sequence lacks ring credit, its reader will wake the engine
// when it frees an entry, and no sequence waits for a slot, because sequences of slow readers are
// parked.
void sim_rests(struct sim *sim)
{
    struct engine *e = sim->engine;
    for (uint32_t i = 0; i < e->sequences_fresh; i++) {
        const struct sequence *s = &e->sequences[i];
        if (s->state == SEQUENCE_FREE)
            continue;
        bool granted = s->state != SEQUENCE_PARKED && plan_entry(e, s)->granted;
        sim_check(sim, !granted && s->request->events.paused != 0,
                  "idle with sequence %u, state %u", i, s->state);
    }
    sim_check(sim, !e->queue.first, "idle with a request waiting");
}

// The worker has a matcher for exactly the sequences that have had a mask, unless jobs are pending.
static void matchers_hold(struct sim *sim)
{
    struct engine *e = sim->engine;
    const struct engine_stats *stats = &e->stats;
    if (!e->options.vocabulary)
        return;
    sim_check(sim, sim->failed || stats->mask_waits == stats->steps_masked + stats->masks_alone,
              "%u waits for masks in %u steps", (uint32_t)stats->mask_waits,
              (uint32_t)stats->steps_masked);
    sim_check(sim, stats->mask_tokens_refused == 0, "%u tokens were refused",
              (uint32_t)stats->mask_tokens_refused);
    for (uint32_t i = 0; i < ENGINE_LAUNCHES; i++)
        for (uint32_t k = 0; k < e->launches[i].row_count; k++) {
            const struct plan_row *row = &e->launches[i].rows[k];
            bool last = e->launches[i].mask_round == e->mask_rounds && row->postponed;
            sim_check(sim, !last || !e->sequences[row->sequence].mask_made,
                      "sequence %u was postponed and has its mask", row->sequence);
        }
    if (masks_pending(&e->masks))
        return;
    for (uint32_t i = 0; i < e->sequences_fresh; i++) {
        const struct sequence *s = &e->sequences[i];
        const struct sequence_matcher *m = &e->masks.matchers[i];
        const struct grammar_cache *of = m->of;
        bool begun = of || m->rules || m->grammar || m->watch;
        sim_check(sim, s->matched == begun, "sequence %u: a matcher %d, one expected %d", i, begun,
                  s->matched);
        sim_check(sim, !of || !s->request || of->grammar == s->request->args.grammar,
                  "sequence %u has another grammar", i);
    }
}

// Clients cancel between two steps, so without a step in flight no row is computed after a cancel.
static void cancels_hold(struct sim *sim)
{
    struct engine *e = sim->engine;
    sim_check(sim, e->facts.steps_in_flight > 0 || e->stats.rows_after_cancel == 0,
              "%u rows after a cancel", (uint32_t)e->stats.rows_after_cancel);
}

void sim_invariants(struct sim *sim)
{
    struct engine *e = sim->engine;
    uint64_t inflight = e->launched - e->settled;
    sim_check(sim, sim->failed || inflight <= e->facts.steps_in_flight, "%u steps in flight",
              (uint32_t)inflight);
    blocks_hold(sim);
    matches_hold(sim);
    places_hold(sim);
    sequences_hold(sim);
    credits_hold(sim);
    dues_hold(sim);
    debts_hold(sim);
    matchers_hold(sim);
    cancels_hold(sim);
    oldest_moves(sim);
    turns_hold(sim);
}

void sim_empty(struct sim *sim)
{
    struct engine *e = sim->engine;
    const struct admission_counters *c = &e->gate.counters;
    sim_check(sim, e->live_count == 0 && e->order_count == 0, "%u live, %u drawn", e->live_count,
              e->order_count);
    sim_check(sim, c->requests == 0 && c->tokens == 0 && c->bytes == 0, "%u requests counted",
              (uint32_t)c->requests);
    for (uint32_t i = 0; i < sim->options.port_count; i++) {
        struct port *port = &e->ports[i];
        sim_check(sim,
                  port->words.free_count == port->words.fresh &&
                      port->results.free_count == port->results.fresh &&
                      port->free_count == port->fresh,
                  "port %u keeps memory", i);
    }
    if (sim->failed)
        return; // steps in flight never return their blocks
    sim_check(sim, e->slots_free_count == e->facts.limits.slots_max, "%u slots free",
              e->slots_free_count);
    sim_check(sim,
              e->history.free_count == e->history.fresh && !e->paused.first && !e->parked.first,
              "%u chunks of histories free", e->history.free_count);
    sim_check(sim, e->penalties_free_count == e->facts.limits.penalty_rows, "%u penalty rows free",
              e->penalties_free_count);
    sim_check(sim, blocks_available(&e->blocks) == e->blocks.count, "%u blocks available",
              blocks_available(&e->blocks));
    sim_check(sim, fake_computed(sim->model) == e->stats.tokens_computed, "%u tokens computed",
              (uint32_t)e->stats.tokens_computed);
}
