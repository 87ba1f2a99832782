// SPDX-License-Identifier: Apache-2.0
// Conformance of prep and sample: integers must be equal; a sampled token may differ from the
// reference's only if the reference reports that another token was within rounding.
#include "tests/conformance/trial.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { COUNT_MAX = 0x7FFF }; // maximum of the output count in a penalty row

struct state_sizes {
    size_t slots, blocks, penalty, bias;
};

static struct state_sizes sizes_of(const struct step_limits *l)
{
    return (struct state_sizes){l->slots_max, (size_t)l->slots_max * l->blocks_max,
                                (size_t)l->penalty_rows * l->vocab,
                                (size_t)l->slots_max * l->bias_max};
}

static struct slot_state state_host(struct trial *t, const struct step_limits *l)
{
    struct state_sizes n = sizes_of(l);
    struct slot_state s = {
        .last_token = trial_heap(t, n.slots * sizeof *s.last_token),
        .block_table = trial_heap(t, n.blocks * sizeof *s.block_table),
        .params = trial_heap(t, n.slots * sizeof *s.params),
        .done = trial_heap(t, n.slots * sizeof *s.done),
        .penalty = trial_heap(t, n.penalty * sizeof *s.penalty),
        .bias = trial_heap(t, n.bias * sizeof *s.bias),
    };
    return s;
}

static struct slot_state state_put(struct trial *t, const struct slot_state *h,
                                   const struct step_limits *l)
{
    struct state_sizes n = sizes_of(l);
    return (struct slot_state){
        .last_token = trial_put(t, h->last_token, n.slots * sizeof *h->last_token),
        .block_table = trial_put(t, h->block_table, n.blocks * sizeof *h->block_table),
        .params = trial_put(t, h->params, n.slots * sizeof *h->params),
        .done = trial_put(t, h->done, n.slots * sizeof *h->done),
        .penalty = trial_put(t, h->penalty, n.penalty * sizeof *h->penalty),
        .bias = trial_put(t, h->bias, n.bias * sizeof *h->bias),
    };
}

static void bytes_equal(struct trial *t, const char *what, const void *device, const void *want,
                        size_t bytes)
{
    void *got = trial_heap(t, bytes);
    trial_fetch(t, got, device, bytes);
    trial_true(t, what, memcmp(got, want, bytes) == 0);
}

static void state_same(struct trial *t, const struct slot_state *device, const struct slot_state *h,
                       const struct step_limits *l)
{
    struct state_sizes n = sizes_of(l);
    bytes_equal(t, "last tokens", device->last_token, h->last_token,
                n.slots * sizeof *h->last_token);
    bytes_equal(t, "block tables", device->block_table, h->block_table,
                n.blocks * sizeof *h->block_table);
    bytes_equal(t, "sampling state", device->params, h->params, n.slots * sizeof *h->params);
    bytes_equal(t, "done flags", device->done, h->done, n.slots * sizeof *h->done);
    bytes_equal(t, "penalty counts", device->penalty, h->penalty, n.penalty * sizeof *h->penalty);
    bytes_equal(t, "bias lists", device->bias, h->bias, n.bias * sizeof *h->bias);
}

static void step_admits(struct trial *t, struct step *step, const struct step_limits *l)
{
    struct step_new_sequence *admit = step_section(step, step->layout.new_sequences);
    struct step_bias *bias = step_section(step, step->layout.bias);
    int32_t *history = step_section(step, step->layout.history);
    step->new_sequence_count = trial_below(t, 4);
    for (uint32_t i = 0; i < step->new_sequence_count; i++) {
        struct sample_params *p = &admit[i].params;
        admit[i].slot = 3 * i + trial_below(t, 3);
        admit[i].history_at = step->history_count;
        p->seed = trial_below(t, 1000);
        p->repetition = 1;
        p->penalty_row = STEP_NO_ROW;
        p->bias_count = trial_below(t, l->bias_max + 1);
        admit[i].bias_at = i * l->bias_max;
        for (uint32_t j = 0; j < p->bias_count; j++)
            bias[admit[i].bias_at + j] =
                (struct step_bias){(int32_t)trial_below(t, l->vocab), trial_normal(t)};
        if (!trial_below(t, 2))
            continue;
        p->flags = SAMPLE_PENALTY;
        p->penalty_row = i;
        admit[i].history_prompt = trial_below(t, 60);
        admit[i].history_output = trial_below(t, 60);
        for (uint32_t j = 0; j < admit[i].history_prompt + admit[i].history_output; j++)
            history[step->history_count++] = (int32_t)trial_below(t, 90);
    }
}

// Makes a history with a count that stops at its maximum, next to a count in the same 32-bit word.
// The first token was also in the prompt; the second occurs more often than the maximum.
static void step_counts_full(struct step *step)
{
    struct step_new_sequence *new_sequence = step_section(step, step->layout.new_sequences);
    int32_t *history = step_section(step, step->layout.history);
    step->new_sequence_count = 1;
    new_sequence->params = (struct sample_params){.repetition = 1, .flags = SAMPLE_PENALTY};
    new_sequence->history_prompt = 2;
    history[step->history_count++] = 6;
    history[step->history_count++] = 8;
    for (uint32_t i = 0; i < 2 * COUNT_MAX + 300; i++)
        history[step->history_count++] = i % 2 || i > 2 * COUNT_MAX ? 7 : 6;
    new_sequence->history_output = step->history_count - 2;
}

// Makes a history of more prompt and output tokens than a block of the cuda device has threads,
// without repetitions. Ids outside the vocabulary must not be counted.
static void step_history_long(struct step *step, const struct step_limits *l)
{
    struct step_new_sequence *new_sequence = step_section(step, step->layout.new_sequences);
    int32_t *history = step_section(step, step->layout.history);
    const int32_t none[] = {-1, (int32_t)l->vocab, INT32_MIN};
    step->new_sequence_count = 1;
    new_sequence->slot = 1;
    new_sequence->params =
        (struct sample_params){.repetition = 1, .flags = SAMPLE_PENALTY, .penalty_row = 1};
    new_sequence->history_prompt = 700 + 3;
    new_sequence->history_output = 600 + 3;
    for (int32_t i = 0; i < 703; i++)
        history[step->history_count++] = i < 700 ? i * 3 : none[i - 700];
    for (int32_t i = 0; i < 603; i++)
        history[step->history_count++] = i < 600 ? i * 5 + 1 : none[i - 600];
}

static void step_rows(struct trial *t, struct step *step, const struct step_limits *l,
                      uint32_t shift)
{
    struct step_row *row = step_section(step, step->layout.rows);
    int32_t *token = step_section(step, step->layout.tokens);
    uint32_t most = l->blocks_max << shift;
    step->row_count = trial_range(t, 1, 12);
    for (uint32_t i = 0; i < step->row_count; i++) {
        bool decode = trial_below(t, 2);
        uint32_t q_len = decode ? 1 : trial_range(t, 1, 40);
        row[i] = (struct step_row){.slot = (i * 5 + 2) % l->slots_max,
                                   .q_start = step->token_count,
                                   .q_len = q_len,
                                   .kv_len = trial_range(t, q_len, most),
                                   .token_at = STEP_TOKEN_FED,
                                   .type_from = STEP_NO_TYPE,
                                   .sample = STEP_NO_ROW};
        if (trial_below(t, 4) == 0)
            row[i].type_from = trial_below(t, 30);
        if (decode && trial_below(t, 5) == 0)
            row[i].kv_len = 0; // padding row of a recorded graph
        if (!decode) {
            row[i].token_at = step->token_listed;
            for (uint32_t j = 0; j < q_len; j++)
                token[step->token_listed++] = (int32_t)trial_below(t, l->vocab);
        }
        step->token_count += q_len;
    }
    struct step_change *change = step_section(step, step->layout.changes);
    step->change_count = l->changes_max > 256 ? l->changes_max : trial_below(t, 30);
    for (uint32_t i = 0; i < step->change_count; i++) // each entry of the table at most once
        change[i] = (struct step_change){i % l->slots_max, i / l->slots_max * 8 + trial_below(t, 8),
                                         trial_below(t, 1u << 30)};
}

// Runs the reference, then the op on the device with the state `there`, and compares the arrays per
// token. Returns the arguments with the reference's outputs.
static struct prep_args prep_run(struct trial *t, struct prep_args *args, struct slot_state there)
{
    size_t n = args->token_count;
    reference_prep(args);
    struct prep_args want = *args;
    args->step = trial_put(t, want.step, want.step->layout.bytes);
    args->state = there;
    args->token = trial_device(t, n * 4);
    args->position = trial_device(t, n * 4);
    args->row_of = trial_device(t, n * 4);
    args->type = trial_device(t, n * 4);
    args->kv_write_offset = trial_device(t, n * 8);
    trial_true(t, "prep runs", t->api->ops->prep(t->stream, args) == STATUS_OK);
    bytes_equal(t, "prep tokens", args->token, want.token, n * 4);
    bytes_equal(t, "prep positions", args->position, want.position, n * 4);
    bytes_equal(t, "prep types", args->type, want.type, n * 4);
    bytes_equal(t, "prep places", args->kv_write_offset, want.kv_write_offset, n * 8);
    return want;
}

// A model that keeps no sequences has no state; prep writes only tokens and positions.
static void prep_without_state(struct trial *t)
{
    trial_begin(t, 41000);
    struct step_limits l = t->limits.step;
    struct step_layout layout;
    step_layout_init(&layout, &l, 0);
    struct step *step = trial_heap(t, layout.bytes);
    step->layout = layout;
    step_rows(t, step, &l, 4);
    struct step_row *row = step_section(step, layout.rows);
    for (uint32_t i = 0; i < step->row_count; i++)
        if (row[i].token_at == (uint32_t)STEP_TOKEN_FED && row[i].kv_len > 0)
            row[i].token_at = 0;
    l.blocks_max = 0;
    size_t n = step->token_count;
    struct prep_args args = {.step = step,
                             .limits = l,
                             .row_count = step->row_count,
                             .token_count = step->token_count,
                             .token = trial_heap(t, n * 4),
                             .position = trial_heap(t, n * 4),
                             .row_of = trial_heap(t, n * 4),
                             .type = trial_heap(t, n * 4),
                             .kv_write_offset = trial_heap(t, n * 8)};
    prep_run(t, &args, args.state);
}

void try_prep(struct trial *t, enum dtype act)
{
    (void)act;
    prep_without_state(t);
    for (uint64_t i = 0; i < 12; i++) {
        trial_begin(t, 40000 + i);
        struct step_limits l = t->limits.step;
        uint32_t shift = 4 + trial_below(t, 3);
        l.history_max = i == 0 ? 2 * COUNT_MAX + 302 : i == 1 ? 1400 : l.history_max;
        l.changes_max = i == 2 ? 600 : 250; // more than two blocks of the cuda device have threads
        struct step_layout layout;
        step_layout_init(&layout, &l, 0);
        struct step *step = trial_heap(t, layout.bytes);
        step->layout = layout;
        if (i == 0)
            step_counts_full(step);
        else if (i == 1)
            step_history_long(step, &l);
        else
            step_admits(t, step, &l);
        step_rows(t, step, &l, shift);
        struct slot_state host = state_host(t, &l);
        for (uint32_t j = 0; j < l.slots_max; j++) {
            host.done[j] = j % 3 == 0;
            host.last_token[j] = (int32_t)trial_below(t, l.vocab);
        }
        for (uint32_t j = 0; j < l.slots_max * l.blocks_max; j++)
            host.block_table[j] = j * 7;
        for (uint32_t j = 0; j < l.penalty_rows * l.vocab; j++) // values of an earlier sequence
            host.penalty[j] = (uint16_t)(j * 40503u);
        struct slot_state there = state_put(t, &host, &l);
        size_t n = step->token_count;
        struct prep_args args = {
            .step = step,
            .limits = l,
            .row_count = step->row_count,
            .token_count = step->token_count,
            .new_sequence_count = step->new_sequence_count,
            .change_count = step->change_count,
            .state = host,
            .token = trial_heap(t, n * 4),
            .position = trial_heap(t, n * 4),
            .row_of = trial_heap(t, n * 4),
            .type = trial_heap(t, n * 4),
            .kv_write_offset = trial_heap(t, n * 8),
            .block_shift = shift,
            .token_bytes = 128,
        };
        struct prep_args want = prep_run(t, &args, there);
        bytes_equal(t, "prep rows", args.row_of, want.row_of, n * 4);
        state_same(t, &there, &host, &l);
        args.token_count = l.tokens_max + 1;
        trial_true(t, "prep refuses",
                   prep_check(&args)[0] != '\0' &&
                       t->api->ops->prep(t->stream, &args) == STATUS_INVALID);
    }
}

static void params_make(struct trial *t, struct sample_params *p, const struct step_limits *l,
                        uint32_t row)
{
    *p = (struct sample_params){
        .seed = 1000 + trial_below(t, 100000),
        .choice = trial_below(t, 4),
        .output_count = trial_below(t, 50),
        .temperature = 1,
        .top_p = 1,
        .repetition = 1,
        .penalty_row = STEP_NO_ROW,
    };
    uint32_t kind = trial_below(t, 8);
    if (kind == 0)
        p->temperature = 0;
    if (kind >= 2)
        p->temperature = 0.2f + (float)trial_below(t, 100) / 50;
    if (kind == 3 || kind >= 6)
        p->top_k = trial_range(t, 1, trial_below(t, 2) ? 40 : l->vocab);
    if (kind == 4 || kind >= 6)
        p->top_p = (float)trial_below(t, 100) / 100;
    if (kind == 5 || kind == 7)
        p->min_p = (float)trial_below(t, 40) / 100;
    if (trial_below(t, 2))
        p->flags |= SAMPLE_LOGPROB;
    if (trial_below(t, 2))
        p->top_logprobs = trial_below(t, SAMPLE_TOP_MAX + 1);
    if (trial_below(t, 3) == 0)
        p->bias_count = trial_range(t, 1, l->bias_max);
    if (row < l->penalty_rows && trial_below(t, 2)) {
        p->flags |= SAMPLE_PENALTY;
        p->penalty_row = row;
        p->repetition = 1.3f;
        p->frequency = 0.4f;
        p->presence = -0.3f;
    }
    p->stop_count = trial_below(t, SAMPLE_STOP_IDS_MAX + 1);
    for (uint32_t i = 0; i < p->stop_count; i++)
        p->stop_ids[i] = (int32_t)trial_below(t, 30);
    p->output_min = trial_below(t, 60);
    if (trial_below(t, 5) == 0)
        p->flags |= SAMPLE_IGNORE_END;
}

static bool tops_agree(const struct sample_top *got, const struct sample_top *want, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (got[i].token != want[i].token || fabsf(got[i].logprob - want[i].logprob) > 2e-4f)
            return false;
    return true;
}

struct sample_scene {
    struct step_limits l;
    uint32_t rows, stride, words;
    float *logits;
    struct step_sampled *sampled;
    uint32_t *masks;
    struct slot_state state;
};

static struct sample_scene sample_make(struct trial *t, uint64_t i)
{
    struct sample_scene s = {.l = t->limits.step};
    static const uint32_t vocabs[] = {5000, 97, 1024, 333};
    s.l.vocab = i % 12 == 7 ? 16484 : vocabs[i % 4]; // needs three chunks on the cuda device
    s.rows = trial_range(t, 1, 9);
    s.stride = s.l.vocab + 3 * (uint32_t)(i % 2);
    s.words = (s.l.vocab + 31) / 32;
    // peaked rows, as a model's logits, or flat rows, as a dummy model's
    s.logits = trial_floats(t, (size_t)s.rows * s.stride, DTYPE_F32, i % 3 ? 3 : 0.3f);
    s.state = state_host(t, &s.l);
    s.sampled = trial_heap(t, s.rows * sizeof *s.sampled);
    s.masks = trial_heap(t, (size_t)4 * s.words * sizeof *s.masks);
    for (uint32_t j = 0; j < 3 * s.words; j++) // the fourth mask stays empty: it drops its rows
        s.masks[j] = trial_below(t, UINT32_MAX) & trial_below(t, UINT32_MAX);
    for (uint32_t j = 0; j < s.l.slots_max * s.l.bias_max; j++)
        s.state.bias[j] =
            (struct step_bias){(int32_t)trial_below(t, s.l.vocab), 4 * trial_normal(t)};
    for (uint32_t j = 0; j < s.l.penalty_rows * s.l.vocab; j++)
        if (trial_below(t, 10) == 0)
            s.state.penalty[j] = (uint16_t)(trial_below(t, 2) << 15 | trial_below(t, 5));
    for (uint32_t r = 0; r < s.rows; r++) {
        uint32_t mask = trial_below(t, 8);
        s.sampled[r] = (struct step_sampled){r, (r * 3 + 1) % s.l.slots_max, r,
                                             mask < 4 ? mask : (uint32_t)STEP_NO_ROW};
        params_make(t, &s.state.params[s.sampled[r].slot], &s.l, r);
    }
    struct sample_params *first = &s.state.params[s.sampled[0].slot];
    if (i % 12 == 6) { // flat row with a tiny top_p, which keeps only the greatest token
        first->temperature = 1;
        first->top_k = 0;
        first->min_p = 0;
        first->top_p = 1e-20f;
    }
    if (i % 3 == 1) { // the mask allows only end ids, and the minimum number of outputs bans them
        first->stop_count = 1 + (uint32_t)(i % 30);
        first->output_min = first->output_count + 1;
        memset(s.masks + s.words, 0, s.words * sizeof *s.masks);
        for (uint32_t j = 0; j < first->stop_count; j++) {
            first->stop_ids[j] = (int32_t)(3 * j + i % 3);
            s.masks[s.words + (uint32_t)first->stop_ids[j] / 32] |= 1u << first->stop_ids[j] % 32;
        }
        s.sampled[0].mask = 1;
    }
    if (i % 10 == 3) { // all counts are at their maximum
        first->flags |= SAMPLE_PENALTY;
        first->penalty_row = 0;
        first->repetition = 1.3f;
        first->frequency = 0;
        for (uint32_t j = 0; j < s.l.vocab; j++)
            s.state.penalty[j] = (uint16_t)(trial_below(t, 2) << 15 | 0x7FFF);
    }
    if (i % 5 == 4)
        s.logits[(size_t)(s.rows - 1) * s.stride + s.l.vocab / 2] = NAN;
    if (i % 7 == 6)
        s.state.done[s.sampled[0].slot] = 1;
    return s;
}

static void sample_compare(struct trial *t, const struct sample_args *got,
                           const struct sample_args *want, const double *gap)
{
    for (uint32_t r = 0; r < want->count; r++) {
        const struct sample_result *g = &got->result[r];
        const struct sample_result *w = &want->result[r];
        uint32_t slot = want->sampled[r].slot;
        if (g->token != w->token && gap[r] < 2e-4 && g->token >= 0) {
            // another token within rounding: its effects are not compared
            continue;
        }
        trial_true(t, "sampled token", g->token == w->token);
        trial_true(t, "sampled flags", g->flags == w->flags);
        trial_true(t, "sampled logprob", fabsf(g->logprob - w->logprob) < 2e-4f);
        trial_true(t, "count of top logprobs", g->top_count == w->top_count);
        trial_true(t, "top logprobs",
                   tops_agree(got->top + (size_t)r * SAMPLE_TOP_MAX,
                              want->top + (size_t)r * SAMPLE_TOP_MAX, w->top_count));
        int32_t last;
        uint32_t done;
        struct sample_params params;
        trial_fetch(t, &last, got->state.last_token + slot, sizeof last);
        trial_fetch(t, &done, got->state.done + slot, sizeof done);
        trial_fetch(t, &params, got->state.params + slot, sizeof params);
        trial_true(t, "last token", last == want->state.last_token[slot]);
        trial_true(t, "done", done == want->state.done[slot]);
        trial_true(t, "parameters", memcmp(&params, &want->state.params[slot], sizeof params) == 0);
        uint32_t row = params.penalty_row;
        if (row != STEP_NO_ROW) {
            uint32_t vocab = want->limits.vocab;
            bytes_equal(t, "penalties", got->state.penalty + (size_t)row * vocab,
                        want->state.penalty + (size_t)row * vocab, vocab * sizeof(uint16_t));
        }
    }
}

void try_sample(struct trial *t, enum dtype act)
{
    (void)act;
    sample_edges(t);
    for (uint64_t i = 0; i < trial_cases(60); i++) {
        trial_begin(t, 50000 + i);
        struct sample_scene s = sample_make(t, i);
        struct slot_state there = state_put(t, &s.state, &s.l);
        double gap[64];
        size_t n = (size_t)s.rows * s.stride;
        struct sample_args want = {
            .logits = s.logits,
            .sampled = s.sampled,
            .state = s.state,
            .masks = i % 3 ? s.masks : NULL,
            .result = trial_heap(t, s.rows * sizeof *want.result),
            .top = trial_heap(t, s.rows * SAMPLE_TOP_MAX * sizeof *want.top),
            .limits = s.l,
            .count = s.rows,
            .stride = s.stride,
            .max_top = SAMPLE_TOP_MAX,
        };
        struct sample_args args = want;
        reference_sample_gap(&want, gap);
        args.logits = trial_put(t, s.logits, n * sizeof(float));
        args.sampled = trial_put(t, s.sampled, s.rows * sizeof *s.sampled);
        args.state = there;
        if (args.masks)
            args.masks = trial_put(t, s.masks, (size_t)4 * s.words * sizeof *s.masks);
        args.result = trial_host(t, s.rows * sizeof *args.result);
        args.top = trial_host(t, s.rows * SAMPLE_TOP_MAX * sizeof *args.top);
        trial_true(t, "sample runs", t->api->ops->sample(t->stream, &args) == STATUS_OK);
        uint32_t word = 0;
        trial_fetch(t, &word, there.done, sizeof word); // waits for the stream
        sample_compare(t, &args, &want, gap);
        args.stride = s.l.vocab - 1;
        trial_true(t, "sample refuses",
                   sample_check(&args)[0] != '\0' &&
                       t->api->ops->sample(t->stream, &args) == STATUS_INVALID);
    }
}
