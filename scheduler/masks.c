// SPDX-License-Identifier: Apache-2.0
// The engine's side of masks.h: which rows of a step have masks, what is sent to the worker about
// their sequences, and the end of choices whose grammar allows nothing more. Engine thread only.
#include "scheduler/internal.h"

static void job_push(struct engine *engine, const struct mask_job *job)
{
    struct mask_worker *w = &engine->masks;
    // The ring is never full: each sequence with a matcher has at most one job for its end, and the
    // engine waits for all masks of a step.
    w->job[ring_place(&w->ring)] = *job;
    ring_publish(&w->ring);
    engine->masks_unposted = true;
}

uint32_t masks_row(struct launch *launch, const struct sequence *s, struct plan_row *row)
{
    bool follows = row->want == WANT_TOKEN && s->request->args.watch && s->watch < TOKEN_PHASES;
    row->loose = follows && !sequence_masked(s) && s->pending > 1;
    launch->loose_count += row->loose;
    if (row->want != WANT_TOKEN || !(row->loose || sequence_masked(s)))
        return BATCH_NO_MASK;
    return launch->mask_count++;
}

void masks_begin(struct engine *engine, struct launch *launch)
{
    const struct plan *plan = &engine->plan;
    struct plan_row *waiting = launch->rows + launch->row_count;
    launch->mask_round = ++engine->mask_rounds;
    launch->waiting_count = plan->waiting_count;
    for (uint32_t i = 0; i < plan->waiting_count; i++) {
        waiting[i] = plan->waiting[i];
        waiting[i].mask = launch->mask_count + i;
    }
}

static bool has_masks(const struct launch *launch)
{
    return launch->mask_count + launch->waiting_count > 0;
}

static int32_t token_last(const struct sequence *s)
{
    return s->history_last[(s->output_count - 1) % HISTORY_WORDS];
}

// Adds to the job what the sequence's matcher needs to start.
static void matcher_open(struct sequence *s, struct mask_job *job)
{
    const struct submit_args *args = &s->request->args;
    job->entry = s->entry;
    s->entry = TOKEN_UNWATCHED;
    if (s->matched)
        return;
    check(s->output_count == 0 || args->watch, "a matcher begins after %u tokens", s->output_count);
    job->grammar = args->grammar ? grammar_ref(args->grammar) : NULL;
    job->watch = args->watch ? token_watch_ref(args->watch) : NULL;
    job->rules = args->rules ? token_rules_ref(args->rules) : NULL;
    job->request = s->request;
    s->matched = true;
}

// Requests the mask of a row if all tokens before it are settled; otherwise returns false. A loose
// row that turns out to need none stays loose. `rows`: mask rows of the step, `round`: the round of
// masks.
static bool row_request(struct engine *engine, struct plan_row *row, uint64_t round, uint32_t *rows)
{
    struct sequence *s = &engine->sequences[row->sequence];
    struct mask_job job = {.words = rows + (size_t)row->mask * engine->masks.words,
                           .sequence = s->index,
                           .row = row->mask,
                           .round = round,
                           .token = MASK_NO_TOKEN,
                           .entry = TOKEN_UNWATCHED};
    if (s->state == SEQUENCE_ENDING && row->loose)
        return true;
    if (s->state == SEQUENCE_ENDING) { // its token will be dropped, so any mask does
        job.sequence = MASK_NO_SEQUENCE;
        job_push(engine, &job);
        return true;
    }
    if (s->pending > 1)
        return false;
    if (row->loose && !sequence_masked(s))
        return true;
    row->loose = false;
    if (s->output_count > 0 && s->postponed == 0) // otherwise the worker has the token already
        job.token = token_last(s); // earlier tokens were sent with earlier masks, or need not be
    matcher_open(s, &job);
    job_push(engine, &job);
    return true;
}

// Called once all masks are requested. Loose rows have no mask, unless other rows have one: then
// theirs allows every token, because the indexes of masks are part of the launched step.
static void loose_settle(struct engine *engine, struct launch *launch)
{
    uint32_t *rows = model_masks(engine->model), loose = 0;
    for (uint32_t i = 0; i < launch->row_count && launch->loose_count > 0; i++)
        loose += launch->rows[i].loose;
    bool none = loose == launch->mask_count;
    for (uint32_t i = 0; i < launch->row_count && loose > 0; i++) {
        struct plan_row *row = &launch->rows[i];
        if (!row->loose)
            continue;
        if (!none)
            job_push(engine,
                     &(struct mask_job){.words = rows + (size_t)row->mask * engine->masks.words,
                                        .sequence = MASK_EVERY,
                                        .round = launch->mask_round,
                                        .row = row->mask});
        row->mask = BATCH_NO_MASK;
    }
    if (none)
        launch->mask_count = 0;
    if (launch->row_count == 0)
        return; // no step
    stat_add(&engine->stats.steps_masked, has_masks(launch));
    stat_add(&engine->stats.mask_rows, launch->mask_count - (none ? 0 : loose));
}

// The knowledge about a step in which only loose rows may have masks.
enum loose { LOOSE_IN_FLIGHT, LOOSE_FREE, LOOSE_MASKED };

static enum loose loose_look(const struct engine *engine, const struct launch *launch)
{
    enum loose found = LOOSE_FREE;
    for (uint32_t i = 0; i < launch->row_count; i++) {
        const struct plan_row *row = &launch->rows[i];
        const struct sequence *s = &engine->sequences[row->sequence];
        if (!row->loose || s->state == SEQUENCE_ENDING)
            continue;
        if (s->pending > 1)
            return LOOSE_IN_FLIGHT;
        if (sequence_masked(s))
            found = LOOSE_MASKED;
    }
    return found;
}

// Keys are processed in order: the rows of a key are requested once all rows of the previous keys
// are.
bool masks_request(struct engine *engine, struct launch *launch)
{
    struct mask_order *order = &engine->mask_order;
    if (!has_masks(launch))
        return true;
    bool only_loose = launch->loose_count == launch->mask_count && launch->waiting_count == 0;
    enum loose loose = only_loose ? loose_look(engine, launch) : LOOSE_MASKED;
    if (loose == LOOSE_FREE)
        loose_settle(engine, launch);
    if (loose != LOOSE_MASKED)
        return loose == LOOSE_FREE;
    if (order->round != launch->mask_round)
        mask_order_make(engine, launch);
    uint32_t *rows = model_masks(engine->model), key = launch->rows[order->rows[0]].key;
    bool all = true;
    for (uint32_t i = 0; i < order->row_count; i++) {
        struct plan_row *row = &launch->rows[order->rows[i]];
        if (!all && row->key != key)
            break;
        key = row->key;
        if (!row->requested)
            row->requested = row_request(engine, row, launch->mask_round, rows);
        all = all && row->requested;
    }
    if (all)
        loose_settle(engine, launch);
    masks_post(engine);
    return all;
}

void masks_post(struct engine *engine)
{
    if (!engine->masks_unposted)
        return;
    engine->masks_unposted = false;
    mask_thread_post(&engine->masks);
}

// Handles the verdict of a row's mask. A choice whose grammar allows nothing more ends without the
// token of the row. The request counts as served in this round (mask_order.h) only if the mask used
// shared work or the row was postponed before.
static void verdict_handle(struct engine *engine, struct plan_row *row, uint64_t round)
{
    struct sequence *s = &engine->sequences[row->sequence];
    enum mask_verdict verdict = engine->masks.verdict[row->mask];
    if (s->state == SEQUENCE_ENDING)
        return;
    if (row->waits || verdict == MASK_POSTPONED)
        s->request->run.mask_waited = round;
    if (row->waits && (verdict == MASK_POSTPONED || verdict == MASK_USABLE)) {
        s->mask_made = verdict == MASK_USABLE;
        s->postponed += verdict == MASK_POSTPONED;
        return;
    }
    if (verdict == MASK_POSTPONED) {
        row->postponed = true;
        sequence_postpone(s);
        stat_add(&engine->stats.masks_postponed, 1);
        return;
    }
    if (s->postponed > 0 || engine->masks.spent[row->mask] > 0)
        s->request->run.mask_served = round;
    s->postponed = 0;
    s->mask_made = false;
    if (s->request->args.watch && !s->request->args.rules)
        s->watch = engine->masks.phase[row->mask];
    if (verdict == MASK_USABLE)
        return;
    stat_add(&engine->stats.grammars_stuck, verdict == MASK_STUCK);
    stat_add(&engine->stats.grammars_over, verdict == MASK_OVER);
    stat_add(&engine->stats.grammars_crowded, verdict == MASK_CROWDED);
    choice_end(engine, s->request, s->number,
               verdict == MASK_DONE    ? FINISH_STOP
               : verdict == MASK_STUCK ? FINISH_STUCK
               : verdict == MASK_OVER  ? FINISH_OVER
                                       : FINISH_CROWDED);
}

void masks_wait(struct engine *engine, struct launch *launch)
{
    struct engine_stats *stats = &engine->stats;
    if (!has_masks(launch))
        return;
    uint64_t before = engine_now(engine);
    mask_thread_wait(&engine->masks);
    stat_add(&stats->mask_waits, 1);
    stat_add(&stats->mask_wait_ns, engine_now(engine) - before);
    for (uint32_t i = 0; i < launch->row_count + launch->waiting_count; i++) {
        struct plan_row *row = &launch->rows[i];
        if (row->mask == BATCH_NO_MASK)
            continue;
        const struct mask_worker *w = &engine->masks;
        mask_order_charge(engine, row->key, w->spent[row->mask],
                          w->verdict[row->mask] == MASK_POSTPONED);
        verdict_handle(engine, row, launch->mask_round);
    }
}

void masks_matcher_end(struct engine *engine, struct sequence *s)
{
    if (!s->matched)
        return;
    s->matched = false;
    job_push(engine, &(struct mask_job){.sequence = s->index, .token = MASK_NO_TOKEN});
}
