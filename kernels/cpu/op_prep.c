// SPDX-License-Identifier: Apache-2.0
// prep: applies the changes in the step record to the state of the slots, then expands rows to
// per-token arrays. Integers only, on the calling thread.
#include "kernels/cpu/internal.h"

#include <string.h>

static const void *record_section(const struct prep_args *args, size_t offset)
{
    return (const char *)args->step + offset;
}

static void history_apply(const struct prep_args *args,
                          const struct step_new_sequence *new_sequence)
{
    const struct sample_params *p = &new_sequence->params;
    if ((p->flags & SAMPLE_PENALTY) == 0 || p->penalty_row >= args->limits.penalty_rows)
        return;
    uint32_t vocab = args->limits.vocab;
    uint16_t *seen = args->state.penalty + (size_t)p->penalty_row * vocab;
    const int32_t *history = record_section(args, args->step->layout.history);
    history += new_sequence->history_at;
    memset(seen, 0, vocab * sizeof *seen);
    for (uint32_t i = 0; i < new_sequence->history_prompt; i++)
        if ((uint32_t)history[i] < vocab)
            seen[history[i]] |= 0x8000u;
    for (uint32_t i = 0; i < new_sequence->history_output; i++) {
        uint32_t token = (uint32_t)history[new_sequence->history_prompt + i];
        if (token < vocab && (seen[token] & 0x7FFFu) < 0x7FFFu)
            seen[token]++;
    }
}

static void new_sequence_apply(const struct prep_args *args,
                               const struct step_new_sequence *new_sequence)
{
    const struct slot_state *state = &args->state;
    uint32_t slot = new_sequence->slot;
    state->params[slot] = new_sequence->params;
    state->done[slot] = 0;
    const struct step_bias *bias = record_section(args, args->step->layout.bias);
    uint32_t most = args->limits.bias_max;
    uint32_t count =
        new_sequence->params.bias_count < most ? new_sequence->params.bias_count : most;
    if (count > 0)
        memcpy(state->bias + (size_t)slot * most, bias + new_sequence->bias_at,
               count * sizeof *bias);
    history_apply(args, new_sequence);
}

static void row_expand(const struct prep_args *args, const struct step_row *row, uint32_t index)
{
    const struct slot_state *state = &args->state;
    const int32_t *listed = record_section(args, args->step->layout.tokens);
    bool still = row->kv_len == 0 || (state->done && state->done[row->slot] != 0);
    bool stored = !still && args->limits.blocks_max > 0 && state->block_table;
    const uint32_t *blocks =
        stored ? state->block_table + (size_t)row->slot * args->limits.blocks_max : NULL;
    uint32_t mask = (1u << args->block_shift) - 1;
    for (uint32_t i = 0; i < row->q_len; i++) {
        uint32_t t = row->q_start + i;
        uint32_t position = row->kv_len > 0 ? row->kv_len - row->q_len + i : 0;
        if (row->kv_len == 0)
            args->token[t] = 0;
        else if (row->token_at == (uint32_t)STEP_TOKEN_FED)
            args->token[t] = state->last_token[row->slot];
        else
            args->token[t] = listed[row->token_at + i];
        args->position[t] = position;
        args->row_of[t] = index;
        args->type[t] = position >= row->type_from ? 1 : 0;
        args->kv_write_offset[t] = UINT64_MAX;
        if (stored && position >> args->block_shift < args->limits.blocks_max)
            args->kv_write_offset[t] =
                (uint64_t)blocks[position >> args->block_shift] * TABLE_UNIT_BYTES +
                (position & mask) * args->token_bytes;
    }
    if (row->token_at != (uint32_t)STEP_TOKEN_FED && state->last_token)
        state->last_token[row->slot] = listed[row->token_at + row->q_len - 1];
}

enum status cpu_prep(struct stream *stream, const struct prep_args *args)
{
    (void)stream;
    const struct step_layout *layout = &args->step->layout;
    const struct step_new_sequence *new_sequences = record_section(args, layout->new_sequences);
    for (uint32_t i = 0; i < args->new_sequence_count; i++)
        new_sequence_apply(args, &new_sequences[i]);
    const struct step_change *changes = record_section(args, layout->changes);
    for (uint32_t i = 0; i < args->change_count; i++)
        args->state
            .block_table[(size_t)changes[i].slot * args->limits.blocks_max + changes[i].index] =
            changes[i].units;
    const struct step_row *rows = record_section(args, layout->rows);
    for (uint32_t i = 0; i < args->row_count; i++)
        row_expand(args, &rows[i], i);
    return STATUS_OK;
}
