// SPDX-License-Identifier: Apache-2.0
// Handles the results of a step: tokens into histories and event rings, ends of sequences, vectors
// and scores, full blocks into the prefix cache. Engine thread only.
#include "scheduler/internal.h"

#include "runtime/grammar/token_watch.h"
#include "runtime/grammar/vocabulary.h"

#include <math.h>
#include <string.h>

static bool id_listed(const int32_t *ids, uint32_t count, int32_t token)
{
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] == token)
            return true;
    return false;
}

// The host checks every id as well, because with ignore_end the device checks none.
static bool is_end_token(const struct engine *engine, const struct sequence *s,
                         const struct sample_result *result)
{
    const struct request *r = s->request;
    if (result->flags & SAMPLED_END)
        return true;
    // A mask allows an end id only if the answer is complete, whatever else the request specifies.
    // Where calls are optional, it may also come from text without a mask.
    if (r->args.grammar && !r->args.watch &&
        vocabulary_is_end(engine->options.vocabulary, result->token))
        return true;
    if (s->output_count <= r->args.sampling.output_min) // output_count includes this token
        return false;
    if (id_listed(r->args.stop_ids, r->args.stop_id_count, result->token))
        return true;
    return !r->args.ignore_end &&
           id_listed(engine->facts.end_ids, engine->facts.end_count, result->token);
}

static enum finish finish_of(const struct engine *engine, const struct sequence *s,
                             const struct sample_result *result)
{
    if (is_end_token(engine, s, result))
        return FINISH_STOP;
    if (s->output_count < s->output_max)
        return FINISH_NONE;
    return s->output_count == s->request->args.max_tokens ? FINISH_LENGTH : FINISH_CONTEXT;
}

static bool token_usable(const struct engine *engine, const struct sample_result *result)
{
    return result->token >= 0 && (uint32_t)result->token < engine->facts.vocab &&
           (result->flags & SAMPLED_NOT_FINITE) == 0;
}

static bool values_finite(const struct engine *engine, const struct model_output *output,
                          uint32_t index)
{
    uint32_t width = engine->facts.output_width;
    for (uint32_t i = 0; i < width; i++)
        if (!isfinite(output->values[(size_t)index * width + i]))
            return false;
    return true;
}

static void history_append(struct engine *engine, struct sequence *s, int32_t token)
{
    uint32_t at = s->output_count % HISTORY_WORDS;
    if (at == 0) {
        store_extend(&engine->history, s->index, s->output_count, s->output_count + 1);
        s->history_last = store_item(&engine->history, s->index, s->output_count);
    }
    s->history_last[at] = token;
    s->output_count++;
}

// Follows the text of a sequence between calls. If a marker may have begun, its next row has a
// mask.
static void watch_settle(struct sequence *s, int32_t token)
{
    if (!s->request->args.watch || s->watch >= TOKEN_PHASES)
        return;
    enum token_phase before = s->watch;
    s->watch = (uint8_t)token_watch_next(s->request->args.watch, before, token);
    if (s->watch == TOKEN_OPEN)
        s->entry = (uint8_t)before;
}

static void token_settle(struct engine *engine, struct sequence *s, bool usable,
                         const struct sample_result *result, const struct sample_top *tops)
{
    struct request *r = s->request;
    s->pending--;
    r->run.pending--;
    struct token_event event = {.choice = s->number, .index = s->output_count};
    if (!usable) { // only this choice fails
        event.finish = FINISH_ERROR;
        sequence_end(engine, s);
        choice_finish(engine, r, &event);
        return;
    }
    history_append(engine, s, result->token);
    watch_settle(s, result->token);
    event.token = result->token;
    event.logprob = result->logprob;
    event.flags = EVENT_TOKEN;
    event.finish = (uint8_t)finish_of(engine, s, result);
    uint32_t wanted_tops = r->args.sampling.top_logprobs;
    event.top_count = (uint16_t)(result->top_count < wanted_tops ? result->top_count : wanted_tops);
    event_token(engine, s, &event, tops);
}

static void values_settle(struct engine *engine, struct sequence *s, const float *values)
{
    struct request *r = s->request;
    uint32_t width = engine->facts.output_width;
    memcpy(store_item(&r->port->results, r->number, s->number), values, width * sizeof *values);
    sequence_end(engine, s);
    r->run.inputs_done++;
    if (r->run.inputs_done < r->run.sequence_total)
        return;
    struct token_event event = {.finish = FINISH_DONE};
    choice_finish(engine, r, &event);
}

static void row_settle(struct engine *engine, const struct plan_row *row,
                       const struct model_output *output, uint32_t index)
{
    struct sequence *s = &engine->sequences[row->sequence];
    check(s->state != SEQUENCE_FREE, "a row of sequence %u outlived its sequence", row->sequence);
    const struct sample_result *result = row->want == WANT_TOKEN ? &output->results[index] : NULL;
    bool usable = row->want == WANT_NOTHING ||
                  (result ? token_usable(engine, result) : values_finite(engine, output, index));
    // A row of a sequence that had ended on the device, or a dropped row, has no token, but its
    // blocks are valid. The last position of a postponed row is written again later.
    if (usable || (result && (result->flags & (SAMPLED_DONE | SAMPLED_DROPPED))))
        share_settle(engine, s, row->from + row->q_len - row->postponed);
    else
        share_exclude(engine, s);
    // Count rows computed after their request was cancelled. With a step in flight, the row that
    // ran during the cancel is not counted, only the next one.
    bool left = s->state == SEQUENCE_ENDING
                    ? s->cancelled
                    : engine->facts.steps_in_flight == 0 && choice_cancelled(s->request, s->number);
    if (left)
        stat_add(&engine->stats.rows_after_cancel, 1);
    if (s->state == SEQUENCE_ENDING) {
        sequence_settled(engine, s); // its token is dropped
        return;
    }
    if (row->postponed) {
        sequence_settled(engine, s);
        return;
    }
    if (result) {
        token_settle(engine, s, usable, result,
                     output->tops ? &output->tops[(size_t)index * SAMPLE_TOP_MAX] : NULL);
    } else if (row->want != WANT_NOTHING) {
        values_settle(engine, s, &output->values[(size_t)index * engine->facts.output_width]);
    }
    sequence_settled(engine, s);
}

void step_settle(struct engine *engine, const struct launch *launch,
                 const struct model_output *output)
{
    check(output->step == launch->step, "results of step %llu, %llu was expected",
          (unsigned long long)output->step, (unsigned long long)launch->step);
    uint32_t wanted = 0;
    for (uint32_t i = 0; i < launch->row_count; i++) {
        const struct plan_row *row = &launch->rows[i];
        check(row->want == WANT_NOTHING || wanted < output->count, "%u results", output->count);
        row_settle(engine, row, output, wanted);
        wanted += row->want != WANT_NOTHING;
    }
}
