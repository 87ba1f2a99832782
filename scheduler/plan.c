// SPDX-License-Identifier: Apache-2.0
// Chooses the rows of the next step from the state of sequences, blocks and ring credit. Engine
// thread only.
//
// Decodes come first. Half of the tokens they leave goes to prompts by age, the oldest first, the
// other half to short prompts and then to all by age (decision 0012). So the oldest prompt always
// makes progress, no prompt takes more than twice the steps it would take by age alone, and a short
// prompt does not wait for a long one. Requests are scheduled in the order of queue.h, and only
// when they get tokens in this step.
//
// A sequence that lacks blocks preempts paused sequences, the one paused longest first, then
// younger sequences, the youngest first; never an older one that is not paused. Nothing is
// scheduled while a scheduled sequence waits for blocks. budget.h describes how the remaining
// blocks are reserved.
#include "scheduler/internal.h"

#include "base/number.h"

enum { SHORT_STEPS = 4 }; // a prompt is short if it fits into the second halves of this many steps

// Returns the number of blocks for `tokens` tokens.
static uint32_t blocks_for(const struct engine *engine, uint32_t tokens)
{
    return engine->paged ? (tokens + engine->blocks.tokens - 1) / engine->blocks.tokens : 0;
}

// Returns true if the sequence holds fewer blocks than `tokens` tokens need.
static bool blocks_lack(const struct engine *engine, const struct sequence *s, uint32_t tokens)
{
    return engine->paged && s->block_count * engine->blocks.tokens < tokens;
}

// Returns the number of blocks that must be available for a waiting sequence to start: those for
// its known tokens and the next one, except blocks of its match that other sequences hold now or,
// if `settled`, once the step in flight is settled.
static uint32_t blocks_to_start(const struct engine *engine, const struct sequence *s, bool settled)
{
    uint32_t known = sequence_known(s);
    uint32_t all = blocks_for(engine, smaller(known + 1, engine->facts.max_model_len));
    return all - s->match_count + share_idle(engine, s, settled);
}

// Returns true if v may be preempted in this plan.
static bool is_victim(const struct engine *engine, const struct sequence *v)
{
    return v->state == SEQUENCE_RUNNING && v->block_count > 0 && !plan_entry(engine, v)->planned;
}

// Returns the next sequence to preempt for s, or NULL. A sequence that cannot be preempted stays so
// for the rest of the plan, so each is examined once.
static struct sequence *victim_choose(struct engine *engine, const struct sequence *s)
{
    struct plan *plan = &engine->plan;
    for (; plan->paused_at; plan->paused_at = plan->paused_at->slow_next)
        if (is_victim(engine, plan->paused_at))
            return plan->paused_at;
    for (; plan->victim_at > 0; plan->victim_at--) {
        struct sequence *v = engine->order[plan->victim_at - 1];
        if (v->ticket <= s->ticket)
            return NULL;
        if (is_victim(engine, v))
            return v;
    }
    return NULL;
}

// Preempts sequences until `settled` blocks can be allocated once the step in flight is settled.
// Returns false if fewer than `count` can be allocated now; then s is not planned in this step.
static bool blocks_ensure(struct engine *engine, const struct sequence *s, uint32_t count,
                          uint32_t settled)
{
    const struct budget *budget = &engine->plan.budget;
    while (budget_lacks(budget, settled)) {
        struct sequence *victim = victim_choose(engine, s);
        if (!victim)
            break;
        sequence_preempt(engine, victim);
    }
    return budget_left(budget) >= count;
}

static enum batch_want want_of(const struct sequence *s)
{
    static const enum batch_want want[] = {[REQUEST_GENERATE] = WANT_TOKEN,
                                           [REQUEST_EMBED] = WANT_VECTOR,
                                           [REQUEST_SCORE] = WANT_SCORE};
    return want[s->request->args.kind];
}

// Returns a new row of the sequence, without tokens.
static struct plan_row row_open(struct engine *engine, struct sequence *s)
{
    plan_entry(engine, s)->planned = true;
    s->inflight++;
    return (struct plan_row){.sequence = s->index, .from = s->planned_len, .fed = s->fed};
}

// Adds q_len tokens to the row: allocates their blocks and advances the sequence.
static void row_grow(struct engine *engine, struct sequence *s, struct plan_row *row,
                     uint32_t q_len)
{
    while (blocks_lack(engine, s, s->planned_len + q_len))
        s->blocks[s->block_count++] = block_alloc(&engine->blocks);
    row->q_len += q_len;
    s->planned_len += q_len;
    if (s->planned_len < sequence_known(s))
        return;
    row->want = (uint8_t)want_of(s);
    s->pending++;
    if (sequence_generates(s)) {
        s->request->run.pending++;
        s->fed = true;
    }
}

// Plans one token of a decoding sequence, or only its mask if the mask could not be made before.
static void plan_decode(struct engine *engine, struct sequence *s)
{
    struct plan *plan = &engine->plan;
    if (!plan_entry(engine, s)->granted || sequence_planned_out(s))
        return;
    if (sequence_lacks_mask(s)) {
        plan_entry(engine, s)->planned = true;
        plan->waiting[plan->waiting_count++] =
            (struct plan_row){.sequence = s->index, .waits = true};
        return;
    }
    if (blocks_lack(engine, s, s->planned_len + 1) && !blocks_ensure(engine, s, 1, 1)) {
        budget_keep(&plan->budget, 1);
        return;
    }
    struct plan_row *row = &plan->decode[plan->decode_count++];
    *row = row_open(engine, s);
    row_grow(engine, s, row, 1);
}

// Returns the number of tokens that are sent to the device for penalties.
static uint32_t history_need(const struct sequence *s)
{
    return s->penalty_row == PENALTY_NONE ? 0 : sequence_known(s);
}

// Ensures the blocks that s needs to start. If a sequence that is preempted for it held blocks of
// its match, more blocks are needed.
static bool start_ensure(struct engine *engine, const struct sequence *s)
{
    uint32_t need;
    do {
        uint32_t owed = engine->plan.budget.owed;
        need = blocks_to_start(engine, s, false);
        if (!blocks_ensure(engine, s, need + owed, blocks_to_start(engine, s, true) + owed))
            return false;
    } while (blocks_to_start(engine, s, false) > need);
    return share_valid(engine, s);
}

// Starts a waiting sequence if there are blocks for all its tokens. A sequence whose next block is
// being computed by another sequence preempts none, unless this plan has no row yet: each plan must
// make progress.
static bool plan_start(struct engine *engine, struct sequence *s, enum share share)
{
    struct plan *plan = &engine->plan;
    uint32_t need = engine->paged ? blocks_to_start(engine, s, false) : 0;
    if (share == SHARE_COMPUTING && plan->decode_count + plan->prefill_count > 0) {
        if (budget_left(&plan->budget) < plan->budget.owed + need)
            return false;
    } else if (need > 0 && !start_ensure(engine, s)) {
        budget_keep(&plan->budget, blocks_to_start(engine, s, false));
        return false;
    }
    sequence_start(s);
    share_ref(engine, s);
    return true;
}

// Returns the number of tokens of the next chunk that the token budget and shared blocks allow; 0:
// none in this step.
static uint32_t chunk_choose(struct engine *engine, struct sequence *s, uint32_t budget)
{
    uint32_t left = sequence_known(s) - s->planned_len;
    uint32_t q_len = smaller(left, budget);
    if (!engine->cuttable)
        return q_len == left ? q_len : 0;
    return q_len > 0 ? share_cut(engine, s, q_len) : 0;
}

// Returns the part of the chunk that blocks and block-table changes allow.
static uint32_t chunk_fit(struct engine *engine, struct sequence *s, uint32_t q_len)
{
    if (!engine->paged)
        return q_len;
    struct plan *plan = &engine->plan;
    uint32_t count = blocks_for(engine, s->planned_len + q_len) - s->block_count;
    uint32_t changes = plan_entry(engine, s)->planned ? 0 : s->block_count - s->blocks_sent;
    if (changes > plan->changes_left)
        return 0;
    uint32_t fit = smaller(count, plan->changes_left - changes);
    if (fit > 0 && !blocks_ensure(engine, s, fit, fit)) {
        uint32_t got = budget_left(&plan->budget);
        budget_keep(&plan->budget, fit - got);
        fit = got;
    }
    if (fit == count)
        return q_len;
    uint32_t most = (s->block_count + fit) * engine->blocks.tokens - s->planned_len;
    return engine->cuttable ? smaller(q_len, most) : 0;
}

// Adds the chunk to the sequence's row in this plan, which is created if needed.
static void chunk_commit(struct engine *engine, struct sequence *s, uint32_t q_len)
{
    struct plan *plan = &engine->plan;
    struct plan_entry *entry = plan_entry(engine, s);
    uint32_t from = s->planned_len, changes = entry->planned ? s->block_count : s->blocks_sent;
    if (!entry->planned) {
        if (sequence_generates(s) && !s->on_device) {
            plan->new_sequences_left--;
            plan->history_left -= history_need(s);
        }
        plan->rows_left--;
        entry->row = plan->prefill_count++;
        plan->prefill[entry->row] = row_open(engine, s);
    }
    row_grow(engine, s, &plan->prefill[entry->row], q_len);
    plan->changes_left -= s->block_count - changes;
    share_announce(engine, s, from);
}

// Updates the blocks owed to a started prompt: those for the rest of its tokens. A decode is owed
// none, because its next block is allocated before all prompts.
static void debt_note(struct engine *engine, struct sequence *s)
{
    uint32_t whole = blocks_for(engine, sequence_known(s));
    bool owes = s->state == SEQUENCE_RUNNING && !s->fed && whole > s->block_count;
    budget_owe(&engine->plan.budget, &plan_entry(engine, s)->debt,
               owes ? whole - s->block_count : 0);
}

// Returns true if the step has a row left and, for a sequence new on the device, room for its
// sampling parameters and history.
static bool step_has_room(const struct plan *plan, bool is_new, uint32_t history)
{
    return plan->rows_left > 0 &&
           (!is_new || (plan->new_sequences_left > 0 && plan->history_left >= history));
}

// Returns true if more blocks are reserved for older sequences than are available. Then no other
// sequence can start, and its lookup in the cache is skipped.
static bool starts_none(const struct engine *engine)
{
    return engine->plan.budget.kept > blocks_available(&engine->blocks);
}

// Plans up to `limit` prompt tokens of the sequence and returns their number.
static uint32_t plan_prefill(struct engine *engine, struct sequence *s, uint32_t limit)
{
    struct plan *plan = &engine->plan;
    if (!plan_entry(engine, s)->planned) {
        if (!step_has_room(plan, sequence_generates(s) && !s->on_device, history_need(s))) {
            plan->full = true;
            return 0;
        }
        bool waits = s->state == SEQUENCE_WAITING;
        if (waits && starts_none(engine))
            return 0;
        enum share share = share_look_up(engine, s);
        if (waits && !plan_start(engine, s, share))
            return 0;
        if (share == SHARE_COMPUTING) // the block is ready within two steps
            return 0;
    }
    uint32_t q_len = chunk_choose(engine, s, limit);
    plan->full = plan->full || (q_len == 0 && !engine->cuttable);
    if (q_len > 0)
        q_len = chunk_fit(engine, s, q_len);
    if (q_len > 0)
        chunk_commit(engine, s, q_len);
    return q_len;
}

// Returns the number of prompt tokens of the sequence that may still be planned in this plan.
static uint32_t prefill_left(const struct engine *engine, const struct sequence *s)
{
    const struct plan_entry *entry = plan_entry(engine, s);
    if (s->state == SEQUENCE_LEAVING || sequence_decodes(s) || !entry->granted || entry->stuck)
        return 0;
    return sequence_known(s) - s->planned_len;
}

// Plans tokens of one prompt and subtracts them from *tokens.
static void prefill_serve(struct engine *engine, struct sequence *s, uint32_t *tokens)
{
    if (prefill_left(engine, s) > 0 && *tokens > 0) {
        *tokens -= plan_prefill(engine, s, *tokens);
        if (*tokens > 0) // it has no more tokens, or lacks something other than tokens
            plan_entry(engine, s)->stuck = true;
    }
    debt_note(engine, s);
}

// Draws and plans requests whose next prompt has at most `most` tokens, while tokens are left.
static void queue_serve(struct engine *engine, uint32_t *tokens, uint32_t most)
{
    struct plan *plan = &engine->plan;
    while (*tokens > 0 && !plan->budget.blocked && !plan->full) {
        bool ahead = false;
        struct request *r = queue_next(engine, most, &ahead);
        if (!r)
            return;
        bool penalised = sequence_penalised(r);
        if (!step_has_room(plan, r->args.kind == REQUEST_GENERATE,
                           penalised ? sequence_next_known(r) : 0))
            return;
        slot_make(engine, penalised);
        struct sequence *s = sequence_schedule(engine, r, ahead);
        credit_scheduled(engine, s);
        prefill_serve(engine, s, tokens);
        plan->unserved = plan->unserved || prefill_left(engine, s) > 0;
    }
}

// Returns the number of decode rows that this plan may have.
static uint32_t decodes_count(const struct engine *engine)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < engine->order_count; i++) {
        const struct sequence *s = engine->order[i];
        count += sequence_decodes(s) && plan_entry(engine, s)->granted &&
                 !sequence_planned_out(s) && !sequence_lacks_mask(s);
    }
    return count;
}

static void plan_open(struct engine *engine, uint64_t stamp)
{
    const struct step_limits *limits = &engine->facts.limits;
    struct plan *plan = &engine->plan;
    uint32_t decodes = decodes_count(engine);
    // Decodes come first: their tokens are reserved before prompts get any.
    uint32_t tokens = pace_begin(&engine->pace, decodes, limits->tokens_max - decodes,
                                 decodes > 0 && engine->cuttable); // decision 0013
    plan->stamp = stamp;
    plan->decode_count = plan->prefill_count = plan->waiting_count = 0;
    // Inputs that cannot be cut are planned by age only.
    plan->second_left = engine->cuttable ? tokens / 2 : 0;
    plan->first_left = tokens - plan->second_left;
    plan->short_most = SHORT_STEPS * plan->second_left;
    plan->rows_left = limits->rows_max - decodes;
    plan->changes_left = limits->changes_max;
    if (engine->paged)
        plan->changes_left -= decodes;
    plan->new_sequences_left = limits->new_sequences_max;
    plan->history_left = limits->history_max;
    plan->budget = (struct budget){.blocks = &engine->blocks};
    plan->lookups_left = PLAN_LOOKUPS_MAX;
    plan->paused_at = engine->paused.first;
    plan->victim_at = engine->order_count;
    plan->unserved = plan->refused = plan->full = false;
}

// Returns true if a waiting sequence cannot start for lack of blocks.
static bool lacks_blocks(const struct engine *engine, const struct sequence *s)
{
    const struct budget *budget = &engine->plan.budget;
    return engine->paged && s->state == SEQUENCE_WAITING &&
           budget_left(budget) < budget->owed + blocks_to_start(engine, s, false);
}

// Plans decodes, then the first half of the prompt tokens by age. A prompt that was scheduled ahead
// of a longer one uses the second half, so that the first half remains for the prompts it overtook.
static void plan_first(struct engine *engine)
{
    struct plan *plan = &engine->plan;
    for (uint32_t i = 0; i < engine->order_count; i++) {
        struct sequence *s = engine->order[i];
        if (sequence_decodes(s)) {
            plan_decode(engine, s);
            continue;
        }
        bool second = s->ahead && s->state == SEQUENCE_RUNNING;
        prefill_serve(engine, s, second ? &plan->second_left : &plan->first_left);
        if (prefill_left(engine, s) == 0)
            continue;
        plan->unserved = true;
        plan->budget.blocked = plan->budget.blocked || lacks_blocks(engine, s);
    }
    queue_serve(engine, &plan->first_left, UINT32_MAX);
}

// Plans the second half and the rest of the first: short prompts by age, short prompts of the
// queue, then all prompts by age.
static void plan_second(struct engine *engine)
{
    struct plan *plan = &engine->plan;
    uint32_t tokens = plan->first_left + plan->second_left;
    for (uint32_t i = 0; i < engine->order_count && tokens > 0 && plan->unserved; i++) {
        struct sequence *s = engine->order[i];
        if (prefill_left(engine, s) <= plan->short_most)
            prefill_serve(engine, s, &tokens);
    }
    queue_serve(engine, &tokens, plan->short_most);
    for (uint32_t i = 0; i < engine->order_count && tokens > 0 && plan->unserved; i++)
        prefill_serve(engine, engine->order[i], &tokens);
    queue_serve(engine, &tokens, UINT32_MAX);
}

bool plan_make(struct engine *engine)
{
    struct plan *plan = &engine->plan;
    credit_grant(engine, plan->stamp + 1);
    plan_open(engine, plan->stamp + 1);
    plan_first(engine);
    plan_second(engine);
    return plan->decode_count + plan->prefill_count > 0;
}
