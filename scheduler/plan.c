// Chooses the rows of the next step. Bookkeeping over sequences and blocks: no clock, no model, and
// of the rings only what room.c counted. Engine thread only.
//
// Sequences are served from the oldest to the youngest: a running one gets its next token, one that
// still has tokens to compute gets a chunk of what the budget leaves after all next tokens. Who
// lacks a block takes it from paused sequences, then from the youngest; nobody takes it from an
// older one, and what an older one still waits for is left alone. Then new sequences are drawn, in
// the turn of keys and requests (queue.h), as long as every started one has its blocks.
#include "scheduler/core.h"

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t blocks_for(const struct engine *engine, uint32_t tokens)
{
    return engine->paged ? (tokens + engine->blocks.tokens - 1) / engine->blocks.tokens : 0;
}

// Takes all blocks that a sequence could need to start: what it knows, and its next token.
static uint32_t blocks_to_start(const struct engine *engine, const struct sequence *s)
{
    uint32_t known = sequence_known(s);
    uint32_t all = blocks_for(engine, smaller(known + 1, engine->facts.max_model_len));
    return all - s->block_count;
}

static bool is_victim(const struct engine *engine, const struct sequence *v)
{
    return v->state == SEQUENCE_RUNNING && v->block_count > 0 &&
           v->planned_stamp != engine->plan.stamp;
}

static struct sequence *victim_choose(struct engine *engine, const struct sequence *s)
{
    for (uint32_t i = engine->order_count; i-- > 0;) {
        struct sequence *v = engine->order[i];
        if (v->paused && v != s && is_victim(engine, v))
            return v;
    }
    for (uint32_t i = engine->order_count; i-- > 0;) {
        struct sequence *v = engine->order[i];
        if (v->ticket <= s->ticket)
            return NULL;
        if (is_victim(engine, v))
            return v;
    }
    return NULL;
}

// Makes `count` blocks available to s beyond what older ones wait for. False: they are coming, or
// cannot come; s sits out this step and its want is kept for it. Blocks that come when the step in
// flight is settled count, so no second victim falls for the same want.
static bool blocks_ensure(struct engine *engine, const struct sequence *s, uint32_t count)
{
    struct plan *plan = &engine->plan;
    const struct blocks *blocks = &engine->blocks;
    while (blocks_available(blocks) + blocks->coming < plan->unmet + count) {
        struct sequence *victim = victim_choose(engine, s);
        if (!victim)
            break;
        sequence_preempt(engine, victim);
    }
    return blocks_available(blocks) >= plan->unmet + count;
}

static void want_keep(struct engine *engine, uint32_t count)
{
    engine->plan.unmet += count;
    engine->plan.blocked = true;
}

static enum batch_want want_of(const struct sequence *s)
{
    static const enum batch_want want[] = {[REQUEST_GENERATE] = WANT_TOKEN,
                                           [REQUEST_EMBED] = WANT_VECTOR,
                                           [REQUEST_SCORE] = WANT_SCORE};
    return want[s->request->kind];
}

// The row is decided: blocks are taken, lengths and counts move on.
static struct plan_row row_commit(struct engine *engine, struct sequence *s, uint32_t q_len)
{
    struct plan *plan = &engine->plan;
    uint32_t from = s->planned_len;
    uint32_t blocks = blocks_for(engine, from + q_len);
    while (s->block_count < blocks)
        s->blocks[s->block_count++] = block_take(&engine->blocks);
    s->planned_len += q_len;
    s->planned_stamp = plan->stamp;
    s->inflight++;
    struct plan_row row = {.slot = s->slot, .from = from, .q_len = q_len, .fed = s->fed};
    if (s->planned_len < sequence_known(s))
        return row;
    row.want = (uint8_t)want_of(s);
    s->pending++;
    if (sequence_generates(s)) {
        s->request->run.pending++;
        s->fed = true;
    }
    return row;
}

static void plan_decode(struct engine *engine, struct sequence *s)
{
    struct plan *plan = &engine->plan;
    if (!s->granted || sequence_planned_out(s))
        return;
    uint32_t count = blocks_for(engine, s->planned_len + 1) - s->block_count;
    if (count > 0 && !blocks_ensure(engine, s, count)) {
        want_keep(engine, count);
        return;
    }
    plan->decode[plan->decode_count++] = row_commit(engine, s, 1);
}

// Tokens of its history that a sequence brings along for the penalties.
static uint32_t history_need(const struct sequence *s)
{
    return s->penalty_row == PENALTY_NONE ? 0 : sequence_known(s);
}

// A waiting sequence, with the blocks it shares, starts if the rest of what it knows fits too. One
// that waits for another's block needs no block now, so it takes none from others (unless it is
// the first of the plan, which always moves) and holds nobody up.
static bool plan_start(struct engine *engine, struct sequence *s, enum share share)
{
    struct plan *plan = &engine->plan;
    if (s->state == SEQUENCE_RUNNING)
        return true;
    uint32_t need = engine->paged ? blocks_to_start(engine, s) : 0;
    bool first = plan->decode_count + plan->prefill_count == 0;
    if (share == SHARE_COMPUTING && !first) {
        if (blocks_available(&engine->blocks) < plan->unmet + plan->debt + need)
            return false;
    } else if (need > 0 && !blocks_ensure(engine, s, need + plan->debt)) {
        want_keep(engine, need);
        return false;
    }
    sequence_start(engine, s);
    return true;
}

// Tokens of the next chunk as far as budget and sharing go; 0: none in this step.
static uint32_t chunk_choose(struct engine *engine, struct sequence *s, uint32_t budget)
{
    uint32_t left = sequence_known(s) - s->planned_len;
    uint32_t q_len = smaller(left, budget);
    if (!engine->cuttable)
        return q_len == left ? q_len : 0;
    return q_len > 0 ? share_cut(engine, s, q_len) : 0;
}

// As much of a chunk as blocks and table changes permit.
static uint32_t chunk_fit(struct engine *engine, struct sequence *s, uint32_t q_len)
{
    if (!engine->paged)
        return q_len;
    struct plan *plan = &engine->plan;
    uint32_t count = blocks_for(engine, s->planned_len + q_len) - s->block_count;
    uint32_t changes = s->block_count - s->blocks_sent;
    if (changes > plan->changes_left)
        return 0;
    uint32_t fit = smaller(count, plan->changes_left - changes);
    if (fit > 0 && !blocks_ensure(engine, s, fit)) {
        uint32_t available = blocks_available(&engine->blocks);
        uint32_t got = available > plan->unmet ? available - plan->unmet : 0;
        want_keep(engine, fit - got);
        fit = got;
    }
    if (fit == count)
        return q_len;
    uint32_t room = (s->block_count + fit) * engine->blocks.tokens - s->planned_len;
    return engine->cuttable ? smaller(q_len, room) : 0;
}

// Shared blocks go back: they may be evicted meanwhile, so what is set aside for an older sequence
// that waits for blocks counts them too.
static void start_drop(struct engine *engine, struct sequence *s)
{
    uint32_t before = blocks_available(&engine->blocks);
    sequence_blocks_give(engine, s, false);
    engine->plan.unmet += blocks_available(&engine->blocks) - before;
}

static void chunk_commit(struct engine *engine, struct sequence *s, uint32_t q_len)
{
    struct plan *plan = &engine->plan;
    uint32_t from = s->planned_len;
    if (sequence_generates(s) && !s->admitted) {
        plan->admits_left--;
        plan->history_left -= history_need(s);
    }
    plan->prefill[plan->prefill_count++] = row_commit(engine, s, q_len);
    plan->rows_left--;
    plan->tokens_left -= q_len;
    plan->changes_left -= s->block_count - s->blocks_sent;
    share_announce(engine, s, from);
}

// False: the step has no room for the chunk, so a younger one need not be tried.
static bool plan_prefill(struct engine *engine, struct sequence *s)
{
    struct plan *plan = &engine->plan;
    bool generate = sequence_generates(s);
    if (!s->granted || s->planned_len >= sequence_known(s))
        return true;
    if (plan->rows_left == 0 || plan->tokens_left == 0)
        return false;
    if (generate && !s->admitted &&
        (plan->admits_left == 0 || plan->history_left < history_need(s)))
        return false;
    enum share share = share_attach(engine, s);
    if (!plan_start(engine, s, share)) {
        start_drop(engine, s);
        return true;
    }
    if (share == SHARE_COMPUTING) // settled within two steps
        return true;
    uint32_t q_len = chunk_choose(engine, s, plan->tokens_left);
    bool fits = q_len > 0;
    if (fits)
        q_len = chunk_fit(engine, s, q_len);
    if (q_len > 0)
        chunk_commit(engine, s, q_len);
    uint32_t whole = blocks_for(engine, sequence_known(s));
    plan->debt += whole > s->block_count ? whole - s->block_count : 0;
    return fits;
}

static uint32_t decodes_count(const struct engine *engine)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < engine->order_count; i++) {
        const struct sequence *s = engine->order[i];
        count += sequence_decodes(s) && s->granted && !sequence_planned_out(s);
    }
    return count;
}

static void plan_open(struct engine *engine, uint64_t stamp)
{
    const struct step_limits *limits = &engine->facts.limits;
    struct plan *plan = &engine->plan;
    uint32_t decodes = decodes_count(engine);
    plan->stamp = stamp;
    plan->decode_count = plan->prefill_count = 0;
    // Next tokens come first: their share of the step is set aside before any chunk is cut.
    plan->tokens_left = limits->tokens_max - decodes;
    plan->rows_left = limits->rows_max - decodes;
    plan->changes_left = limits->changes_max;
    if (engine->paged)
        plan->changes_left -= decodes;
    plan->admits_left = limits->admits_max;
    plan->history_left = limits->history_max;
    plan->unmet = plan->debt = 0;
    plan->blocked = false;
}

bool plan_make(struct engine *engine)
{
    struct plan *plan = &engine->plan;
    room_grant(engine, plan->stamp + 1);
    plan_open(engine, plan->stamp + 1);
    bool room = true;
    for (uint32_t i = 0; i < engine->order_count; i++) {
        struct sequence *s = engine->order[i];
        if (s->state == SEQUENCE_LEAVING)
            continue;
        if (sequence_decodes(s))
            plan_decode(engine, s);
        else
            room = plan_prefill(engine, s) && room;
    }
    while (room && !plan->blocked) {
        struct request *r = queue_next(engine);
        if (!r || plan->rows_left == 0 || plan->tokens_left == 0)
            break;
        struct sequence *s = sequence_draw(engine, r);
        room_drawn(engine, s);
        room = plan_prefill(engine, s);
    }
    return plan->decode_count + plan->prefill_count > 0;
}
