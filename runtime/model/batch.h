// SPDX-License-Identifier: Apache-2.0
// The only type between scheduler and model: one ragged batch of fixed capacity, without pointers,
// so that it can be dumped and replayed. The scheduler fills it with integers; model_launch turns
// it into the device's step record. Sections lie after the header at offsets fixed by the limits.
#pragma once

#include "kernels/step.h"

#include <stddef.h>
#include <stdint.h>

enum { BATCH_TOKEN_FED = STEP_TOKEN_FED, BATCH_NO_MASK = STEP_NO_ROW };

enum batch_want { WANT_NOTHING, WANT_TOKEN, WANT_VECTOR, WANT_SCORE };

struct batch_row {
    uint32_t slot;      // slot of the sequence, below slots_max
    uint32_t q_len;     // tokens computed in this step
    uint32_t kv_len;    // tokens of the sequence after this step (q_len for encoders)
    uint32_t token_at;  // index in the token section; BATCH_TOKEN_FED: a decode row, q_len 1
    uint32_t type_from; // position from which the token type is 1, or STEP_NO_TYPE
    uint32_t want;      // enum batch_want
    uint32_t mask;      // row of the masks given to model_sample, or BATCH_NO_MASK
    uint32_t pool;      // WANT_VECTOR: value for step_row.pool
};

struct batch_change { // block-table entry: the index-th block of the slot's sequence is `block`
    uint32_t slot;
    uint32_t index;
    uint32_t block;
};

struct batch_new_sequence { // a sequence that is new on the device, and how it is sampled
    uint32_t slot;
    uint32_t history_at; // index in `history` (penalties only): prompt tokens, then output tokens
    uint32_t history_prompt; // number of prompt tokens there
    uint32_t history_output; // number of output tokens there
    uint32_t bias_at;        // index in `bias`
    struct sample_params params;
};

struct batch {
    uint64_t step; // number of the step, increasing by one
    uint32_t row_count, token_count, change_count, new_sequence_count, history_count, bias_count;
    uint32_t decode_count;   // rows with BATCH_TOKEN_FED; they come first
    uint32_t computed_count; // sum of q_len
    // Section offsets in bytes; total size.
    size_t rows, tokens, changes, new_sequences, history, bias, bytes;
};

// Returns the size of a batch for these limits. The caller allocates it, 16-byte aligned, and owns
// it; batch_init sets the section offsets and all counts to 0.
size_t batch_bytes(const struct step_limits *limits);
void batch_init(struct batch *batch, const struct step_limits *limits);
// Sets the step number, and all counts to 0.
void batch_clear(struct batch *batch, uint64_t step);
// Copies the used part of a batch to another batch of the same limits.
void batch_copy(struct batch *to, struct batch *from);

static inline struct batch_row *batch_rows(struct batch *b)
{
    return (struct batch_row *)((char *)b + b->rows); // [rows_max]
}

// Returns the number of masks that the rows name: the highest mask index plus 1.
uint32_t batch_mask_count(struct batch *batch);

static inline int32_t *batch_tokens(struct batch *b)
{
    return (int32_t *)((char *)b + b->tokens); // [tokens_max] of prefill rows only
}

static inline struct batch_change *batch_changes(struct batch *b)
{
    return (struct batch_change *)((char *)b + b->changes); // [changes_max]
}

static inline struct batch_new_sequence *batch_new_sequences(struct batch *b)
{
    return (struct batch_new_sequence *)((char *)b + b->new_sequences); // [new_sequences_max]
}

static inline int32_t *batch_history(struct batch *b)
{
    return (int32_t *)((char *)b + b->history); // [history_max]
}

static inline struct step_bias *batch_bias(struct batch *b)
{
    return (struct step_bias *)((char *)b + b->bias); // [new_sequences_max * bias_max]
}
