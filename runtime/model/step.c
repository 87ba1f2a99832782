// SPDX-License-Identifier: Apache-2.0
// Turns a batch into the device's step record: rows get their position in the step, block ids
// become offsets, rows with results get an index. Engine thread, or a rank's; the record is
// host-visible memory.
#include "runtime/model/internal.h"

#include <string.h>

static void rows_build(struct step *out, const struct model *model, struct batch *batch,
                       uint32_t padded)
{
    struct step_row *rows = step_section(out, out->layout.rows);
    struct step_sampled *sampled = step_section(out, out->layout.sampled);
    const struct step_limits *limits = &model->facts.limits;
    uint32_t at = 0;
    for (uint32_t i = 0; i < batch->row_count; i++) {
        const struct batch_row *in = &batch_rows(batch)[i];
        check(in->slot < limits->slots_max, "slot %u of %u", in->slot, limits->slots_max);
        check(in->q_len >= 1 && in->q_len <= in->kv_len, "%u of %u tokens", in->q_len, in->kv_len);
        check(in->kv_len <= model->facts.max_model_len, "%u tokens, %u fit", in->kv_len,
              model->facts.max_model_len);
        check(i >= batch->decode_count || in->want == WANT_TOKEN, "decode row %u wants no token",
              i);
        check((in->pool & STEP_POOL_FROM) < in->q_len, "row %u pools nothing", i);
        // A model without token types has one row in its type table, or no table.
        uint32_t type_from = model->facts.token_types ? in->type_from : STEP_NO_TYPE;
        rows[i] = (struct step_row){in->slot,     at,        in->q_len,   in->kv_len,
                                    in->token_at, type_from, STEP_NO_ROW, in->pool};
        if (in->want != WANT_NOTHING) {
            rows[i].sample = out->sampled_count;
            sampled[out->sampled_count++] =
                (struct step_sampled){i, in->slot, at + in->q_len - 1, in->mask};
        }
        at += in->q_len;
        out->q_len_max = in->q_len > out->q_len_max ? in->q_len : out->q_len_max;
        out->kv_len_max = in->kv_len > out->kv_len_max ? in->kv_len : out->kv_len_max;
    }
    for (uint32_t i = batch->row_count; i < padded; i++) // padding rows of a recorded graph
        rows[i] = (struct step_row){0, at++, 1, 0, STEP_TOKEN_FED, STEP_NO_TYPE, STEP_NO_ROW, 0};
    out->token_count = at;
}

static void new_sequences_build(struct step *out, const struct model *model, struct batch *batch)
{
    struct step_new_sequence *new_sequences = step_section(out, out->layout.new_sequences);
    for (uint32_t i = 0; i < batch->new_sequence_count; i++) {
        const struct batch_new_sequence *in = &batch_new_sequences(batch)[i];
        new_sequences[i] = (struct step_new_sequence){
            in->slot, in->history_at, in->history_prompt, in->history_output, in->bias_at,
            0,        in->params};
        model->top_of_slot[in->slot] = (uint8_t)in->params.top_logprobs;
    }
    memcpy(step_section(out, out->layout.bias), batch_bias(batch),
           batch->bias_count * sizeof(struct step_bias));
    memcpy(step_section(out, out->layout.history), batch_history(batch),
           batch->history_count * sizeof(int32_t));
}

static void counts_check(const struct model *model, const struct batch *batch)
{
    const struct step_limits *limits = &model->facts.limits;
    check(batch->row_count <= limits->rows_max, "%u rows", batch->row_count);
    check(batch->token_count <= limits->tokens_max, "%u tokens listed", batch->token_count);
    check(batch->computed_count <= limits->tokens_max, "%u tokens", batch->computed_count);
    check(batch->change_count <= limits->changes_max, "%u changes", batch->change_count);
    check(batch->new_sequence_count <= limits->new_sequences_max, "%u new sequences",
          batch->new_sequence_count);
    check(batch->history_count <= limits->history_max, "%u history tokens", batch->history_count);
    check(batch->bias_count <= (uint64_t)limits->new_sequences_max * limits->bias_max, "%u biases",
          batch->bias_count);
}

static void changes_build(struct step *out, const struct model *model, struct batch *batch)
{
    struct step_change *changes = step_section(out, out->layout.changes);
    for (uint32_t i = 0; i < batch->change_count; i++) {
        const struct batch_change *in = &batch_changes(batch)[i];
        check(in->block < model->kv.block_count, "block %u of %u", in->block,
              model->kv.block_count);
        changes[i] =
            (struct step_change){in->slot, in->index, kv_memory_units(&model->kv, in->block)};
    }
}

void step_build(struct step *out, const struct model *model, struct batch *batch, uint32_t padded)
{
    counts_check(model, batch);
    *out = (struct step){
        .id = (uint32_t)batch->step,
        .row_count = padded > batch->row_count ? padded : batch->row_count,
        .decode_count = padded > 0 ? padded : batch->decode_count,
        .change_count = batch->change_count,
        .new_sequence_count = batch->new_sequence_count,
        .history_count = batch->history_count,
        .bias_count = batch->bias_count,
        .token_listed = batch->token_count,
        .layout = model->step,
    };
    rows_build(out, model, batch, padded);
    size_t private_bytes = model->api->step_plan ? model->api->step_plan(model->stream, out) : 0;
    step_layout_pack(out, private_bytes);
    check(out->layout.bytes <= model->step.bytes, "a record of %zu bytes", out->layout.bytes);
    changes_build(out, model, batch);
    new_sequences_build(out, model, batch);
    memcpy(step_section(out, out->layout.tokens), batch_tokens(batch),
           batch->token_count * sizeof(int32_t));
}
