// SPDX-License-Identifier: Apache-2.0
// Writes a plan into the batch that the model reads: decode rows, prefill rows with their tokens,
// block-table changes, and sampling parameters of sequences new on the device. Engine thread only.
#include "scheduler/internal.h"

#include <string.h>

_Static_assert((uint32_t)TOP_LOGPROBS_MAX == SAMPLE_TOP_MAX &&
                   (uint32_t)TYPE_FROM_NONE == STEP_NO_TYPE &&
                   (int)MODEL_END_IDS_MAX + (int)REQUEST_STOP_IDS_MAX <= (int)SAMPLE_STOP_IDS_MAX,
               "the port's limits are those of the device");

// Writes the model's end ids, then the request's stop ids.
static void stops_fill(const struct engine *engine, const struct request *r,
                       struct sample_params *out)
{
    for (uint32_t i = 0; i < engine->facts.end_count; i++)
        out->stop_ids[out->stop_count++] = engine->facts.end_ids[i];
    for (uint32_t i = 0; i < r->args.stop_id_count; i++)
        out->stop_ids[out->stop_count++] = r->args.stop_ids[i];
}

// Translates the request's sampling options to the device's parameters.
static void params_fill(const struct engine *engine, const struct sequence *s,
                        struct sample_params *out)
{
    const struct request *r = s->request;
    const struct sampling *p = &r->args.sampling;
    *out = (struct sample_params){
        .seed = p->seed,
        .choice = r->args.prompts_differ ? s->number : s->number % r->args.choice_count,
        .output_count = s->output_count,
        .temperature = p->temperature,
        .top_p = p->top_p,
        .min_p = p->min_p,
        .top_k = p->top_k,
        .repetition = p->repetition,
        .frequency = p->frequency,
        .presence = p->presence,
        .top_logprobs = p->top_logprobs,
        .output_min = p->output_min,
        .penalty_row = s->penalty_row,
        .bias_count = r->args.bias_count};
    out->flags |= p->logprob ? SAMPLE_LOGPROB : 0;
    out->flags |= s->penalty_row != PENALTY_NONE ? SAMPLE_PENALTY : 0;
    out->flags |= r->args.ignore_end ? SAMPLE_IGNORE_END : 0;
    stops_fill(engine, r, out);
}

static void bias_fill(struct engine *engine, const struct request *r)
{
    struct batch *batch = engine->batch;
    for (uint32_t i = 0; i < r->args.bias_count; i++) {
        struct token_bias bias;
        store_read(&r->port->words, r->number, r->bias_at + BIAS_WORDS * i, BIAS_WORDS, &bias);
        batch_bias(batch)[batch->bias_count++] = (struct step_bias){bias.token, bias.value};
    }
}

static void new_sequence_fill(struct engine *engine, struct sequence *s)
{
    struct batch *batch = engine->batch;
    struct batch_new_sequence *new_sequence =
        &batch_new_sequences(batch)[batch->new_sequence_count++];
    *new_sequence = (struct batch_new_sequence){.slot = s->slot, .bias_at = batch->bias_count};
    params_fill(engine, s, &new_sequence->params);
    bias_fill(engine, s->request);
    if (s->penalty_row != PENALTY_NONE) {
        new_sequence->history_at = batch->history_count;
        new_sequence->history_prompt = s->prompt_len;
        new_sequence->history_output = s->output_count;
        uint32_t known = sequence_known(s);
        sequence_tokens(s, 0, known, &batch_history(batch)[batch->history_count]);
        batch->history_count += known;
    }
    s->on_device = true;
}

static void changes_fill(struct engine *engine, struct sequence *s)
{
    struct batch *batch = engine->batch;
    for (; s->blocks_sent < s->block_count; s->blocks_sent++)
        batch_changes(batch)[batch->change_count++] = (struct batch_change){
            .slot = s->slot, .index = s->blocks_sent, .block = s->blocks[s->blocks_sent]};
}

// Returns true if the cached tokens of this prompt were counted before, for another choice, and
// marks them as counted.
static bool prompt_noted(struct request *r, uint32_t prompt)
{
    if (r->args.kind != REQUEST_GENERATE)
        return false;
    uint64_t bit = (uint64_t)1 << prompt % 64, *word = &r->run.noted[prompt / 64];
    bool noted = *word & bit;
    *word |= bit;
    return noted;
}

static void started_note(struct engine *engine, struct sequence *s, uint32_t from)
{
    struct request *r = s->request;
    if (!r->run.started) {
        r->run.started = true;
        due_drop(&engine->due, r);
        stat_set(&r->marks.started_ns, engine->now_ns);
    }
    // cached_tokens counts the tokens of a prompt once, for its first choice, and adds up over
    // prompts and inputs. Recomputation after a preemption does not change it.
    if (s->cached_noted || prompt_noted(r, s->number / r->args.choice_count))
        return;
    s->cached_noted = true;
    stat_add(&r->marks.cached_tokens, from);
    if (!engine->options.prefix_cache || !engine->sharing)
        return;
    stat_add(&engine->stats.prefix_queries, s->prompt_len);
    stat_add(&engine->stats.prefix_hits, from);
}

static void row_fill(struct engine *engine, struct launch *launch, struct plan_row *row)
{
    struct batch *batch = engine->batch;
    struct sequence *s = &engine->sequences[row->sequence];
    started_note(engine, s, row->from);
    changes_fill(engine, s);
    if (sequence_generates(s) && !s->on_device)
        new_sequence_fill(engine, s);
    row->mask = masks_row(launch, s, row);
    struct batch_row *out = &batch_rows(batch)[batch->row_count++];
    *out = (struct batch_row){.slot = s->slot,
                              .q_len = row->q_len,
                              .kv_len = row->from + row->q_len,
                              .token_at = BATCH_TOKEN_FED,
                              .type_from = s->type_from,
                              .want = row->want,
                              .mask = row->mask,
                              .pool = s->request->args.pool_from |
                                      (s->request->args.pool_raw ? STEP_POOL_RAW : 0)};
    batch->computed_count += row->q_len;
    if (row->fed) {
        batch->decode_count++;
        return;
    }
    stat_add(&engine->stats.prompt_tokens_computed, row->q_len);
    out->token_at = batch->token_count;
    sequence_tokens(s, row->from, row->q_len, &batch_tokens(batch)[batch->token_count]);
    batch->token_count += row->q_len;
}

void batch_fill(struct engine *engine, struct launch *launch)
{
    const struct plan *plan = &engine->plan;
    batch_clear(engine->batch, launch->step);
    memcpy(launch->rows, plan->decode, plan->decode_count * sizeof *plan->decode);
    memcpy(launch->rows + plan->decode_count, plan->prefill,
           plan->prefill_count * sizeof *plan->prefill);
    launch->row_count = plan->decode_count + plan->prefill_count;
    launch->mask_count = launch->loose_count = 0;
    for (uint32_t i = 0; i < launch->row_count; i++)
        row_fill(engine, launch, &launch->rows[i]);
    masks_begin(engine, launch);
    stat_add(&engine->stats.steps, 1);
    stat_add(&engine->stats.steps_decode_only, plan->prefill_count == 0);
    stat_add(&engine->stats.rows, launch->row_count);
    stat_add(&engine->stats.tokens_computed, engine->batch->computed_count);
    stat_add(&engine->stats.steps_by_rows[step_bucket(launch->row_count)], 1);
    stat_add(&engine->stats.steps_by_tokens[step_bucket(engine->batch->computed_count)], 1);
}
