// SPDX-License-Identifier: Apache-2.0
// Offsets of a batch's sections; see batch.h. Pure functions.
#include "runtime/model/batch.h"

#include "base/number.h"
#include "base/status.h"

#include <string.h>

enum { BATCH_ALIGNMENT = 16 };

// Returns the offset of the next section and moves *at past it.
static size_t section_reserve(size_t *at, size_t count, size_t bytes_each)
{
    size_t start = *at;
    *at += round_up(count * bytes_each, BATCH_ALIGNMENT);
    return start;
}

static void batch_layout(struct batch *batch, const struct step_limits *limits)
{
    size_t at = 0;
    section_reserve(&at, 1, sizeof *batch);
    batch->rows = section_reserve(&at, limits->rows_max, sizeof(struct batch_row));
    batch->tokens = section_reserve(&at, limits->tokens_max, sizeof(int32_t));
    batch->changes = section_reserve(&at, limits->changes_max, sizeof(struct batch_change));
    batch->new_sequences =
        section_reserve(&at, limits->new_sequences_max, sizeof(struct batch_new_sequence));
    batch->history = section_reserve(&at, limits->history_max, sizeof(int32_t));
    size_t biases = (size_t)limits->new_sequences_max * limits->bias_max;
    batch->bias = section_reserve(&at, biases, sizeof(struct step_bias));
    batch->bytes = at;
}

size_t batch_bytes(const struct step_limits *limits)
{
    struct batch batch;
    batch_layout(&batch, limits);
    return batch.bytes;
}

void batch_init(struct batch *batch, const struct step_limits *limits)
{
    memset(batch, 0, sizeof *batch);
    batch_layout(batch, limits);
}

void batch_clear(struct batch *batch, uint64_t step)
{
    batch->step = step;
    batch->row_count = 0;
    batch->token_count = 0;
    batch->change_count = 0;
    batch->new_sequence_count = 0;
    batch->history_count = 0;
    batch->bias_count = 0;
    batch->decode_count = 0;
    batch->computed_count = 0;
}

// Copies only the used part of each section: the capacities are much larger.
void batch_copy(struct batch *to, struct batch *from)
{
    check(to->bytes == from->bytes, "a batch of %zu bytes into %zu", from->bytes, to->bytes);
    *to = *from;
    memcpy(batch_rows(to), batch_rows(from), from->row_count * sizeof(struct batch_row));
    memcpy(batch_tokens(to), batch_tokens(from), from->token_count * sizeof(int32_t));
    memcpy(batch_changes(to), batch_changes(from),
           from->change_count * sizeof(struct batch_change));
    memcpy(batch_new_sequences(to), batch_new_sequences(from),
           from->new_sequence_count * sizeof(struct batch_new_sequence));
    memcpy(batch_history(to), batch_history(from), from->history_count * sizeof(int32_t));
    memcpy(batch_bias(to), batch_bias(from), from->bias_count * sizeof(struct step_bias));
}

uint32_t batch_mask_count(struct batch *batch)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < batch->row_count; i++) {
        const struct batch_row *row = &batch_rows(batch)[i];
        if (row->want == WANT_TOKEN && row->mask != BATCH_NO_MASK && row->mask >= count)
            count = row->mask + 1;
    }
    return count;
}
