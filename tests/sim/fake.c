// SPDX-License-Identifier: Apache-2.0
// The fake model; see fake.h. A step is computed at launch, and its results are returned at
// collect. With several ranks, each rank is a fake model in the production group; each has its own
// blocks and reads only those.
#include "tests/sim/fake.h"

#include "base/arena.h"
#include "runtime/grammar/vocabulary.h"
#include "runtime/model/group.h"
#include "runtime/model/link.h"

#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

enum { FAKE_RING = 3, LATE_NS = 1000000 };
#define SPOILT UINT64_MAX // value in `kv` and of a sum: not finite

struct fake_slot { // results of one step
    uint64_t step;
    uint32_t count;
    struct sample_result *results; // [rows_max]
    struct sample_top *tops;       // [rows_max][SAMPLE_TOP_MAX]
    float *values;                 // [rows_max][output_width]
    uint32_t *masks;               // [rows_max][mask_words]
};

struct fake_row { // row of the last launched step, for its sample
    uint32_t slot, want, mask;
    uint64_t sum;
};

struct comm {
    const struct comm_link *link; // connection to the ranks of other nodes, or NULL
};

struct model {
    struct fake_options options;
    struct model_facts facts;
    uint64_t launched, sampled, collected, computed, overlaps, ahead; // the rank's thread writes
    uint64_t fault_step, late_step;
    bool fault_at_collect;
    _Atomic bool let_go; // true: a late rank may continue
    uint64_t spoilt_step;
    bool more;                    // argument of the last model_more
    int32_t *last_token;          // [slots]
    uint32_t *table;              // [slots][blocks_max]
    struct sample_params *params; // [slots]
    struct step_bias *bias;       // [slots][bias_max]
    uint64_t *penalty;            // [penalty_rows]
    bool *done;                   // [slots]
    uint64_t *slot_step;          // [slots] last step with a row of this slot
    uint64_t *kv;                 // [blocks][block_tokens]
    uint64_t *writer;             // [blocks] step * 65536 + row of the last write
    struct fake_slot ring[FAKE_RING];
    struct batch *batch;   // copy of the last launched batch
    struct fake_row *rows; // [rows_max]
    uint32_t row_count, mask_count, mask_words;
    bool turn;                       // true if a step is launched and neither sampled nor dropped
    uint64_t steps;                  // launched steps; a late rank writes neither this nor `turn`
    struct model *others[RANKS_MAX]; // [1, ranks)
    struct model_group *group;       // group of the ranks, or NULL
    uint64_t dice;                   // random state for the delays of a rank; 0: none
    struct comm comm;                // communicator of the group
    uint64_t stall_step;             // step whose launch or collect waits for let_go; 0: none
    bool stall_at_collect;
};

static inline uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    return x ^ x >> 32;
}

static inline uint64_t token_hash(int32_t token, uint32_t position, uint32_t type_from)
{
    uint64_t type = position >= type_from;
    return mix(((uint64_t)(uint32_t)token << 32 | position) * 2 + type + 0x9e3779b97f4a7c15u);
}

void fake_feed(struct fake_alone *alone, int32_t token)
{
    alone->sum += token_hash(token, alone->length, alone->type_from);
    alone->length++;
}

void fake_count(struct fake_alone *alone, int32_t token, bool output)
{
    alone->penalty += mix((uint64_t)(uint32_t)token * 2 + output + 77);
}

static bool stops(const struct sample_params *p, int32_t token)
{
    for (uint32_t i = 0; i < p->stop_count; i++)
        if (p->stop_ids[i] == token)
            return true;
    return false;
}

static bool allowed(const uint32_t *mask, uint32_t token)
{
    return !mask || (mask[token / 32] >> token % 32 & 1);
}

// Returns the first token from `from` on that is allowed and, with `ban`, is not a stop id; -1:
// none.
static int64_t token_find(const struct sample_params *p, const uint32_t *mask, uint32_t from,
                          uint32_t vocab, bool ban)
{
    for (uint32_t i = 0; i < vocab; i++) {
        uint32_t token = (from + i) % vocab;
        if (allowed(mask, token) && !(ban && stops(p, (int32_t)token)))
            return token;
    }
    return -1;
}

int32_t fake_next(const struct fake_alone *alone, const struct sample_params *p,
                  const struct step_bias *bias, const uint32_t *mask, uint32_t vocab)
{
    uint64_t x = mix(alone->sum ^ p->seed * 0x9e3779b97f4a7c15u);
    x = mix(x + ((uint64_t)p->choice << 32 | p->output_count));
    if (p->flags & SAMPLE_PENALTY)
        x = mix(x + alone->penalty);
    for (uint32_t i = 0; i < p->bias_count; i++)
        x = mix(x + (uint64_t)(uint32_t)bias[i].token * 1000 + (uint64_t)bias[i].value);
    uint32_t token = (uint32_t)(x % vocab);
    int64_t found = token_find(p, mask, token, vocab, p->output_count < p->output_min);
    if (found < 0) // a grammar overrides a ban
        found = token_find(p, mask, token, vocab, false);
    return found < 0 ? (int32_t)token : (int32_t)found;
}

bool fake_sick(const struct fake_alone *alone, uint32_t sick)
{
    return sick > 0 && mix(alone->sum + 0x51c4) % sick == 0;
}

float fake_value(const struct fake_alone *alone, uint32_t column)
{
    return (float)(mix(alone->sum + column) >> 42);
}

static struct model *rank_open(const struct fake_options *options)
{
    struct model *m = heap_alloc_zeroed(1, sizeof *m);
    const struct model_facts *f = &options->facts;
    const struct step_limits *limits = &f->limits;
    uint32_t slots = limits->slots_max;
    m->options = *options;
    m->facts = *f;
    m->last_token = heap_alloc_zeroed(slots, sizeof *m->last_token);
    m->table = heap_alloc_zeroed((size_t)slots * limits->blocks_max + 1, sizeof *m->table);
    m->params = heap_alloc_zeroed(slots, sizeof *m->params);
    m->bias = heap_alloc_zeroed((size_t)slots * limits->bias_max + 1, sizeof *m->bias);
    m->penalty = heap_alloc_zeroed(limits->penalty_rows + 1u, sizeof *m->penalty);
    m->done = heap_alloc_zeroed(slots, sizeof *m->done);
    m->slot_step = heap_alloc_zeroed(slots, sizeof *m->slot_step);
    m->kv = heap_alloc_zeroed((size_t)f->block_count * f->block_tokens + 1, sizeof *m->kv);
    m->writer = heap_alloc_zeroed(f->block_count + 1u, sizeof *m->writer);
    m->mask_words = (f->vocab + 31) / 32;
    m->rows = heap_alloc_zeroed(limits->rows_max, sizeof *m->rows);
    for (uint32_t i = 0; i < FAKE_RING; i++) {
        struct fake_slot *slot = &m->ring[i];
        slot->results = heap_alloc_zeroed(limits->rows_max, sizeof *slot->results);
        slot->tops =
            heap_alloc_zeroed((size_t)limits->rows_max * SAMPLE_TOP_MAX, sizeof *slot->tops);
        slot->masks =
            heap_alloc_zeroed((size_t)limits->rows_max * m->mask_words + 1, sizeof *slot->masks);
        slot->values = heap_alloc_zeroed((size_t)limits->rows_max * (f->output_width + 1),
                                         sizeof *slot->values);
    }
    m->batch = heap_alloc_zeroed(1, batch_bytes(limits));
    batch_init(m->batch, limits);
    return m;
}

static void comm_abort(struct comm *comm) // the ranks of a process do not communicate
{
    if (comm->link)
        comm->link->abort(comm->link->context);
}

struct model *fake_open(const struct fake_options *options)
{
    static const struct device_api api = {.comm_abort = comm_abort};
    struct model *models[RANKS_MAX];
    struct error err;
    struct model *m = models[0] = rank_open(options);
    for (uint32_t r = 1; r < options->ranks; r++)
        models[r] = m->others[r] = rank_open(options);
    for (uint32_t r = 0; r < options->ranks; r++)
        models[r]->dice = 1 + r;
    const struct model_link *link = options->link;
    m->comm.link = link ? &link->comm : NULL;
    const struct group_args args = {.models = models,
                                    .size = link ? link->count : options->ranks,
                                    .api = &api,
                                    .comm = &m->comm,
                                    .link = link};
    if (options->ranks > 1 || link)
        check(group_open(&m->group, &args, &err) == STATUS_OK, "%s", err.text);
    return m;
}

static void rank_close(struct model *m)
{
    if (!m)
        return;
    for (uint32_t i = 0; i < FAKE_RING; i++) {
        heap_free(m->ring[i].results);
        heap_free(m->ring[i].tops);
        heap_free(m->ring[i].values);
        heap_free(m->ring[i].masks);
    }
    void *const parts[] = {m->last_token, m->table, m->params, m->bias,  m->penalty, m->done,
                           m->slot_step,  m->kv,    m->writer, m->batch, m->rows};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        heap_free(parts[i]);
    heap_free(m);
}

void model_close(struct model *m)
{
    if (!m)
        return;
    group_close(m->group);
    for (uint32_t r = 1; r < RANKS_MAX; r++)
        rank_close(m->others[r]);
    rank_close(m);
}

const struct model_facts *model_facts(const struct model *m)
{
    return &m->facts;
}

void fake_fault(struct model *m, uint64_t step, bool at_collect)
{
    uint32_t rank = m->options.ranks > 1 ? (uint32_t)(step % m->options.ranks) : 0;
    struct model *odd = rank > 0 ? m->others[rank] : m;
    odd->fault_step = step;
    odd->fault_at_collect = at_collect;
}

void fake_late(struct model *m, uint64_t step)
{
    m->late_step = step;
    if (m->options.ranks > 1)
        m->others[step % (m->options.ranks - 1) + 1]->late_step = step;
}

void fake_stall(struct model *m, uint64_t step, bool at_collect)
{
    m->stall_step = step;
    m->stall_at_collect = at_collect;
}

void fake_release(struct model *m)
{
    atomic_store(&m->let_go, true);
}

// Waits in the planned step until fake_release.
static void stall(const struct model *m, uint64_t step, bool at_collect)
{
    while (step == m->stall_step && at_collect == m->stall_at_collect && !atomic_load(&m->let_go))
        sched_yield();
}

void fake_spoil(struct model *m, uint64_t step)
{
    m->spoilt_step = step;
    for (uint32_t r = 1; r < RANKS_MAX && m->others[r]; r++)
        m->others[r]->spoilt_step = step;
}

uint64_t fake_steps(const struct model *m)
{
    return m->steps;
}

uint64_t fake_overlaps(const struct model *m)
{
    return m->overlaps;
}

uint64_t fake_ahead(const struct model *m)
{
    return m->ahead;
}

uint64_t fake_computed(const struct model *m)
{
    return m->computed;
}

const struct batch *fake_batch(const struct model *m)
{
    return m->batch;
}

static void batch_check(const struct model *m, struct batch *b)
{
    const struct step_limits *limits = &m->facts.limits;
    check(b->row_count >= 1 && b->row_count <= limits->rows_max, "%u rows", b->row_count);
    check(b->token_count <= limits->tokens_max, "%u tokens", b->token_count);
    check(b->computed_count <= limits->tokens_max, "%u computed", b->computed_count);
    check(b->change_count <= limits->changes_max, "%u changes", b->change_count);
    check(b->new_sequence_count <= limits->new_sequences_max, "%u new sequences",
          b->new_sequence_count);
    check(b->history_count <= limits->history_max, "%u history", b->history_count);
    uint32_t computed = 0, listed = 0;
    for (uint32_t i = 0; i < b->row_count; i++) {
        const struct batch_row *row = &batch_rows(b)[i];
        bool fed = row->token_at == BATCH_TOKEN_FED;
        check(row->slot < limits->slots_max, "slot %u", row->slot);
        check(m->slot_step[row->slot] != b->step, "slot %u has two rows", row->slot);
        m->slot_step[row->slot] = b->step;
        check(fed == (i < b->decode_count), "decode row %u of %u", i, b->decode_count);
        check(row->q_len >= 1 && row->q_len <= row->kv_len, "q %u kv %u", row->q_len, row->kv_len);
        check(!fed || row->q_len == 1, "a fed row of %u", row->q_len);
        check(row->kv_len <= m->facts.max_model_len, "%u tokens", row->kv_len);
        check(fed || row->token_at == listed, "tokens at %u, %u listed", row->token_at, listed);
        computed += row->q_len;
        listed += fed ? 0 : row->q_len;
    }
    check(computed == b->computed_count, "%u computed, %u said", computed, b->computed_count);
    check(listed == b->token_count, "%u listed, %u said", listed, b->token_count);
}

static void changes_apply(struct model *m, struct batch *b)
{
    uint32_t blocks_max = m->facts.limits.blocks_max;
    for (uint32_t i = 0; i < b->change_count; i++) {
        const struct batch_change *c = &batch_changes(b)[i];
        check(c->index < blocks_max && c->block < m->facts.block_count, "change %u: %u", c->index,
              c->block);
        m->table[(size_t)c->slot * blocks_max + c->index] = c->block;
    }
}

static void new_sequences_apply(struct model *m, struct batch *b)
{
    uint32_t bias_max = m->facts.limits.bias_max;
    for (uint32_t i = 0; i < b->new_sequence_count; i++) {
        const struct batch_new_sequence *a = &batch_new_sequences(b)[i];
        m->params[a->slot] = a->params;
        m->done[a->slot] = false;
        memcpy(&m->bias[(size_t)a->slot * bias_max], &batch_bias(b)[a->bias_at],
               a->params.bias_count * sizeof(struct step_bias));
        if (!(a->params.flags & SAMPLE_PENALTY))
            continue;
        struct fake_alone sums = {0};
        for (uint32_t t = 0; t < a->history_prompt + a->history_output; t++)
            fake_count(&sums, batch_history(b)[a->history_at + t], t >= a->history_prompt);
        check(a->params.penalty_row < m->facts.limits.penalty_rows, "penalty row %u",
              a->params.penalty_row);
        m->penalty[a->params.penalty_row] = sums.penalty;
    }
}

static uint64_t row_tag(const struct batch *b, uint32_t index)
{
    return b->step * 65536 + index;
}

static void row_write(struct model *m, struct batch *b, uint32_t index)
{
    const struct batch_row *row = &batch_rows(b)[index];
    uint32_t each = m->facts.block_tokens;
    const uint32_t *table = &m->table[(size_t)row->slot * m->facts.limits.blocks_max];
    for (uint32_t i = 0; i < row->q_len; i++) {
        uint32_t position = row->kv_len - row->q_len + i;
        int32_t token = row->token_at == BATCH_TOKEN_FED ? m->last_token[row->slot]
                                                         : batch_tokens(b)[row->token_at + i];
        uint32_t block = table[position / each];
        uint64_t tag = row_tag(b, index);
        check(m->writer[block] / 65536 != b->step || m->writer[block] == tag,
              "rows %u and %u write block %u", index, (uint32_t)(m->writer[block] % 65536), block);
        m->writer[block] = tag;
        m->kv[(size_t)block * each + position % each] =
            m->launched == m->spoilt_step ? SPOILT : token_hash(token, position, row->type_from);
    }
}

// Notes the last listed token of each row: the sequence is fed this token until one is sampled.
static void listed_note(struct model *m, struct batch *b)
{
    for (uint32_t i = 0; i < b->row_count; i++) {
        const struct batch_row *row = &batch_rows(b)[i];
        if (row->token_at != BATCH_TOKEN_FED)
            m->last_token[row->slot] = batch_tokens(b)[row->token_at + row->q_len - 1];
    }
}

// Returns the sum over all tokens of the sequence, read through its block table, or SPOILT if any
// of them is.
static uint64_t row_read(const struct model *m, struct batch *b, uint32_t index)
{
    const struct batch_row *row = &batch_rows(b)[index];
    uint32_t each = m->facts.block_tokens;
    uint64_t sum = 0;
    bool spoilt = false;
    if (m->facts.limits.blocks_max == 0) {
        for (uint32_t i = 0; i < row->q_len; i++)
            sum += token_hash(batch_tokens(b)[row->token_at + i], i, row->type_from);
        return sum;
    }
    const uint32_t *table = &m->table[(size_t)row->slot * m->facts.limits.blocks_max];
    for (uint32_t at = 0; at < row->kv_len; at += each) {
        uint32_t block = table[at / each];
        uint32_t count = row->kv_len - at < each ? row->kv_len - at : each;
        check(m->writer[block] / 65536 != b->step || m->writer[block] == row_tag(b, index),
              "row %u reads block %u while row %u writes it", index, block,
              (uint32_t)(m->writer[block] % 65536));
        const uint64_t *kv = &m->kv[(size_t)block * each];
        for (uint32_t i = 0; i < count; i++) {
            sum += kv[i];
            spoilt = spoilt || kv[i] == SPOILT;
        }
    }
    return spoilt ? SPOILT : sum;
}

static void tops_fill(struct sample_top *tops, uint32_t count, int32_t token)
{
    for (uint32_t i = 0; i < count; i++)
        tops[i] = (struct sample_top){token + (int32_t)i, -(float)i};
}

static void row_sample(struct model *m, struct fake_slot *out, const struct fake_row *row,
                       const uint32_t *masks)
{
    uint64_t sum = row->sum;
    const uint32_t *mask =
        row->mask == BATCH_NO_MASK || !masks ? NULL : masks + (size_t)row->mask * m->mask_words;
    struct sample_params *p = &m->params[row->slot];
    struct sample_result *result = &out->results[out->count];
    *result = (struct sample_result){.token = -1, .flags = SAMPLED_DONE};
    if (m->done[row->slot])
        return;
    bool counted = (p->flags & SAMPLE_PENALTY) != 0;
    struct fake_alone alone = {.sum = sum, .penalty = counted ? m->penalty[p->penalty_row] : 0};
    if (sum == SPOILT || fake_sick(&alone, m->options.sick)) {
        m->done[row->slot] = true;
        result->flags = SAMPLED_NOT_FINITE;
        return;
    }
    if (mask && mask_is_empty(mask, m->mask_words)) {
        result->flags = SAMPLED_DROPPED;
        return;
    }
    const struct step_bias *bias = &m->bias[(size_t)row->slot * m->facts.limits.bias_max];
    int32_t token = fake_next(&alone, p, bias, mask, m->facts.vocab);
    *result = (struct sample_result){.token = token, .top_count = p->top_logprobs};
    if (p->flags & SAMPLE_LOGPROB)
        result->logprob = -(float)(token % 7);
    tops_fill(&out->tops[(size_t)out->count * SAMPLE_TOP_MAX], p->top_logprobs, token);
    if (counted)
        fake_count(&alone, token, true);
    if (counted)
        m->penalty[p->penalty_row] = alone.penalty;
    p->output_count++;
    m->last_token[row->slot] = token;
    bool ends = !(p->flags & SAMPLE_IGNORE_END) && p->output_count > p->output_min;
    if (stops(p, token) && ends && !m->options.text) {
        m->done[row->slot] = true;
        result->flags = SAMPLED_END;
    }
}

static void row_give(struct model *m, struct fake_slot *out, const struct fake_row *row,
                     const uint32_t *masks)
{
    if (row->want == WANT_NOTHING)
        return;
    if (row->want == WANT_TOKEN) {
        row_sample(m, out, row, masks);
    } else {
        struct fake_alone alone = {.sum = row->sum};
        for (uint32_t i = 0; i < m->facts.output_width; i++)
            out->values[(size_t)out->count * m->facts.output_width + i] =
                row->sum == SPOILT ? NAN : fake_value(&alone, i);
    }
    out->count++;
}

// Notes the rows of the step for its sample.
static void rows_note(struct model *m, struct batch *b)
{
    m->row_count = b->row_count;
    m->mask_count = 0;
    for (uint32_t i = 0; i < b->row_count; i++) {
        const struct batch_row *row = &batch_rows(b)[i];
        bool unread = m->options.cheap || m->done[row->slot] || row->want == WANT_NOTHING;
        m->rows[i] = (struct fake_row){row->slot, row->want, row->mask,
                                       unread ? row->slot : row_read(m, b, i)};
        if (row->mask != BATCH_NO_MASK && row->mask >= m->mask_count)
            m->mask_count = row->mask + 1;
    }
}

// Exchanges the sum of the step's rows with the other nodes, which must have the same one: the
// batch has arrived there as it was sent, and their blocks have the same content.
static enum status rows_exchange(struct model *m, struct error *err)
{
    uint64_t sums[RANKS_MAX], own = 0;
    size_t ends[RANKS_MAX];
    const struct comm_link *link = m->comm.link;
    for (uint32_t i = 0; i < m->row_count; i++)
        own = mix(own + m->rows[i].sum);
    for (uint32_t r = 0; r < link->ranks; r++) {
        sums[r] = own + (r != link->first);
        ends[r] = (r + 1) * sizeof *sums;
    }
    if (link->exchange(link->context, sums, ends) != STATUS_OK)
        return error_set(err, STATUS_DEVICE_FAULT, "the exchange was cancelled");
    for (uint32_t r = 0; r < link->ranks; r++)
        check(sums[r] == own, "ranks %u and %u computed different rows", link->first, r);
    return STATUS_OK;
}

// Delays a rank by some microseconds. Rarely yields the CPU, because that takes milliseconds on a
// busy machine.
static void delay(struct model *m)
{
    if (m->dice == 0)
        return;
    m->dice = mix(m->dice + 0x9e3779b97f4a7c15u);
    enum { YIELD_IN = 64, SPIN_IN = 8, SPINS = 4096 };
    if (m->dice % YIELD_IN == 0)
        sched_yield();
    for (uint64_t i = m->dice % SPIN_IN == 0 ? (m->dice >> 32) % SPINS : 0; i > 0; i--)
        atomic_signal_fence(memory_order_seq_cst);
}

enum status rank_tune(struct model *m, struct error *err)
{
    (void)m;
    (void)err;
    return STATUS_OK;
}

enum status rank_warm(struct model *m, struct error *err)
{
    (void)m;
    (void)err;
    return STATUS_OK;
}

enum status rank_record(struct model *m, struct error *err)
{
    (void)m;
    (void)err;
    return STATUS_OK;
}

void rank_begin(const struct model *m)
{
    (void)m;
}

uint64_t rank_collectives_started(const struct model *m)
{
    (void)m;
    return 0;
}

enum status rank_launch(struct model *m, struct batch *b, struct error *err)
{
    delay(m);
    while (!m->group && m->launched + 1 == m->late_step && !atomic_load(&m->let_go))
        sched_yield();
    stall(m, m->launched + 1, false);
    check(m->launched == m->sampled, "launch before sample");
    check(m->launched - m->collected <= m->facts.steps_in_flight, "%llu in flight",
          (unsigned long long)(m->launched - m->collected));
    if (m->launched + 1 == m->fault_step && !m->fault_at_collect)
        return error_set(err, STATUS_DEVICE_FAULT, "the fake device failed at launch");
    m->overlaps += m->launched > m->collected;
    m->launched++;
    if (!m->options.cheap)
        batch_check(m, b);
    m->computed += b->computed_count;
    changes_apply(m, b);
    new_sequences_apply(m, b);
    struct fake_slot *out = &m->ring[m->launched % FAKE_RING];
    out->step = b->step;
    out->count = 0;
    if (m->facts.limits.blocks_max > 0 && !m->options.cheap)
        for (uint32_t i = 0; i < b->row_count; i++)
            if (!m->done[batch_rows(b)[i].slot])
                row_write(m, b, i);
    listed_note(m, b);
    rows_note(m, b);
    if (!m->options.cheap)
        batch_copy(m->batch, b);
    return m->comm.link ? rows_exchange(m, err) : STATUS_OK;
}

enum status model_launch(struct model *m, struct batch *b, struct error *err)
{
    if (m->group && m->launched + 1 == m->late_step)
        group_deadline(m->group, LATE_NS);
    enum status status = m->group ? group_launch(m->group, b, err) : rank_launch(m, b, err);
    m->turn = status == STATUS_OK;
    m->steps += status == STATUS_OK;
    return status;
}

void model_more(struct model *m, bool more)
{
    m->more = more;
}

bool fake_more(const struct model *m)
{
    return m->more;
}

void model_step_deadline(struct model *m, uint64_t ns)
{
    (void)m;
    (void)ns;
}

uint32_t *model_masks(struct model *m)
{
    return m->ring[(m->sampled + 1) % FAKE_RING].masks;
}

void model_drop(struct model *m)
{
    m->turn = false;
    for (uint32_t r = 1; r < RANKS_MAX && m->others[r]; r++)
        atomic_store(&m->others[r]->let_go, true);
}

bool fake_turn(const struct model *m)
{
    return m->turn;
}

enum status rank_sample(struct model *m, const uint32_t *masks, uint32_t count, struct error *err)
{
    (void)err;
    delay(m);
    check(m->launched == m->sampled + 1, "sample without launch");
    check((count == 0 || count == m->mask_count) && (count == 0) == !masks, "%u masks of %u", count,
          m->mask_count);
    m->ahead += count > 0 && m->sampled > m->collected;
    m->sampled++;
    struct fake_slot *out = &m->ring[m->sampled % FAKE_RING];
    for (uint32_t i = 0; i < m->row_count; i++)
        row_give(m, out, &m->rows[i], masks);
    // Clears the buffer, so that code which relies on the masks of the previous step fails.
    if (!m->options.cheap)
        memset(model_masks(m), 0,
               (size_t)m->facts.limits.rows_max * m->mask_words * sizeof(uint32_t));
    return STATUS_OK;
}

enum status model_sample(struct model *m, const uint32_t *masks, uint32_t count, struct error *err)
{
    m->turn = false;
    return m->group ? group_sample(m->group, masks, count, err) : rank_sample(m, masks, count, err);
}

enum status rank_collect(struct model *m, struct model_output *out, uint64_t deadline_ns,
                         struct error *err)
{
    (void)deadline_ns;
    stall(m, m->collected + 1, true);
    check(m->collected < m->sampled, "collect without a step");
    if (m->collected + 1 == m->fault_step && m->fault_at_collect)
        return error_set(err, STATUS_DEVICE_FAULT, "the fake device failed in a step");
    m->collected++;
    const struct fake_slot *slot = &m->ring[m->collected % FAKE_RING];
    *out = (struct model_output){.step = slot->step,
                                 .count = slot->count,
                                 .results = slot->results,
                                 .tops = slot->tops,
                                 .values = slot->values};
    return STATUS_OK;
}

enum status model_collect(struct model *m, struct model_output *out, uint64_t deadline_ns,
                          struct error *err)
{
    return m->group ? group_collect(m->group, out, deadline_ns, err)
                    : rank_collect(m, out, deadline_ns, err);
}
