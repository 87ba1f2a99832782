// SPDX-License-Identifier: Apache-2.0
// Batches as bytes: a header with the counts, then the used part of each section; see batch_wire.h.
#include "runtime/model/batch_wire.h"

#include <string.h>

struct wire_head {
    uint64_t step;
    uint32_t row_count, token_count, change_count, new_sequence_count, history_count, bias_count;
    uint32_t decode_count, computed_count;
};

struct wire_part { // the used part of a section
    void *at;
    size_t bytes;
};

enum { PARTS = 6 };

static void parts_find(struct wire_part out[PARTS], struct batch *b)
{
    const struct wire_part parts[PARTS] = {
        {batch_rows(b), b->row_count * sizeof(struct batch_row)},
        {batch_tokens(b), b->token_count * sizeof(int32_t)},
        {batch_changes(b), b->change_count * sizeof(struct batch_change)},
        {batch_new_sequences(b), b->new_sequence_count * sizeof(struct batch_new_sequence)},
        {batch_history(b), b->history_count * sizeof(int32_t)},
        {batch_bias(b), b->bias_count * sizeof(struct step_bias)},
    };
    memcpy(out, parts, sizeof parts);
}

size_t batch_wire_bytes(const struct batch *b)
{
    return sizeof(struct wire_head) + b->row_count * sizeof(struct batch_row) +
           b->token_count * sizeof(int32_t) + b->change_count * sizeof(struct batch_change) +
           b->new_sequence_count * sizeof(struct batch_new_sequence) +
           b->history_count * sizeof(int32_t) + b->bias_count * sizeof(struct step_bias);
}

size_t batch_wire_bytes_max(const struct step_limits *limits)
{
    return sizeof(struct wire_head) + batch_bytes(limits);
}

void batch_write(void *to, struct batch *b)
{
    const struct wire_head head = {b->step,         b->row_count,          b->token_count,
                                   b->change_count, b->new_sequence_count, b->history_count,
                                   b->bias_count,   b->decode_count,       b->computed_count};
    struct wire_part parts[PARTS];
    char *at = to;
    memcpy(at, &head, sizeof head);
    at += sizeof head;
    parts_find(parts, b);
    for (int i = 0; i < PARTS; i++) {
        memcpy(at, parts[i].at, parts[i].bytes);
        at += parts[i].bytes;
    }
}

// Returns true if [first, first + count) lies within [0, end).
static bool span_fits(uint32_t first, uint64_t count, uint32_t end)
{
    return first <= end && count <= end - first;
}

static bool tokens_fit(const int32_t *tokens, uint32_t count, uint32_t vocab)
{
    for (uint32_t i = 0; i < count; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= vocab)
            return false;
    return true;
}

static const char *counts_fault(const struct wire_head *head, const struct step_limits *limits)
{
    if (head->row_count == 0 || head->row_count > limits->rows_max)
        return "number of rows";
    if (head->token_count > limits->tokens_max || head->computed_count > limits->tokens_max)
        return "number of tokens";
    if (head->decode_count > head->row_count)
        return "number of decode rows";
    if (head->change_count > limits->changes_max)
        return "number of block changes";
    if (head->new_sequence_count > limits->new_sequences_max)
        return "number of new sequences";
    if (head->history_count > limits->history_max)
        return "number of history tokens";
    if (head->bias_count > (uint64_t)limits->new_sequences_max * limits->bias_max)
        return "number of biases";
    return NULL;
}

static bool row_fits(const struct batch *b, const struct batch_row *row, bool decodes,
                     const struct model_facts *facts)
{
    const struct step_limits *limits = &facts->limits;
    bool sampled = facts->kind == MODEL_GENERATOR;
    if (row->slot >= limits->slots_max || row->q_len == 0 || row->q_len > row->kv_len ||
        row->kv_len > facts->max_model_len || (row->pool & STEP_POOL_FROM) >= row->q_len)
        return false;
    if (row->mask != BATCH_NO_MASK && row->mask >= limits->rows_max)
        return false;
    if (decodes)
        return sampled && row->want == WANT_TOKEN && row->q_len == 1 &&
               row->token_at == BATCH_TOKEN_FED;
    if (!facts->paged && row->q_len != row->kv_len)
        return false;
    uint32_t wanted = sampled                         ? WANT_TOKEN
                      : facts->kind == MODEL_EMBEDDER ? WANT_VECTOR
                                                      : WANT_SCORE;
    return (row->want == WANT_NOTHING || row->want == wanted) &&
           span_fits(row->token_at, row->q_len, b->token_count);
}

static bool rows_fit(struct batch *b, const struct model_facts *facts)
{
    uint64_t computed = 0;
    for (uint32_t i = 0; i < b->row_count; i++) {
        const struct batch_row *row = &batch_rows(b)[i];
        if (!row_fits(b, row, i < b->decode_count, facts))
            return false;
        computed += row->q_len;
    }
    return computed == b->computed_count;
}

static bool changes_fit(struct batch *b, const struct model_facts *facts)
{
    for (uint32_t i = 0; i < b->change_count; i++) {
        const struct batch_change *change = &batch_changes(b)[i];
        if (change->slot >= facts->limits.slots_max || change->index >= facts->limits.blocks_max ||
            change->block >= facts->block_count)
            return false;
    }
    return true;
}

static bool new_sequences_fit(struct batch *b, const struct model_facts *facts)
{
    const struct step_limits *limits = &facts->limits;
    for (uint32_t i = 0; i < b->new_sequence_count; i++) {
        const struct batch_new_sequence *new = &batch_new_sequences(b)[i];
        const struct sample_params *params = &new->params;
        uint64_t history = (uint64_t)new->history_prompt + new->history_output;
        if (new->slot >= limits->slots_max ||
            !span_fits(new->history_at, history, b->history_count) ||
            params->bias_count > limits->bias_max ||
            !span_fits(new->bias_at, params->bias_count, b->bias_count))
            return false;
        if ((params->flags & SAMPLE_PENALTY) && params->penalty_row != STEP_NO_ROW &&
            params->penalty_row >= limits->penalty_rows)
            return false;
        // the ops ignore token ids of these lists that are out of range
        if (params->top_logprobs > SAMPLE_TOP_MAX || params->stop_count > SAMPLE_STOP_IDS_MAX)
            return false;
    }
    return true;
}

static const char *content_fault(struct batch *b, const struct model_facts *facts)
{
    if (!rows_fit(b, facts))
        return "row";
    if (!tokens_fit(batch_tokens(b), b->token_count, facts->vocab))
        return "token";
    if (!changes_fit(b, facts))
        return "block change";
    return new_sequences_fit(b, facts) ? NULL : "new sequence";
}

enum status batch_read(struct batch *out, const struct model_facts *facts, const void *from,
                       size_t bytes, struct error *err)
{
    struct wire_head head;
    if (bytes < sizeof head)
        return error_set(err, STATUS_INVALID, "a batch of %zu bytes has no header", bytes);
    memcpy(&head, from, sizeof head);
    const char *fault = counts_fault(&head, &facts->limits);
    if (fault)
        return error_set(err, STATUS_INVALID, "the %s of a batch is out of range", fault);
    batch_clear(out, head.step);
    out->row_count = head.row_count;
    out->token_count = head.token_count;
    out->change_count = head.change_count;
    out->new_sequence_count = head.new_sequence_count;
    out->history_count = head.history_count;
    out->bias_count = head.bias_count;
    out->decode_count = head.decode_count;
    out->computed_count = head.computed_count;
    if (bytes != batch_wire_bytes(out))
        return error_set(err, STATUS_INVALID, "a batch has %zu bytes, its counts need %zu", bytes,
                         batch_wire_bytes(out));
    struct wire_part parts[PARTS];
    const char *at = (const char *)from + sizeof head;
    parts_find(parts, out);
    for (int i = 0; i < PARTS; i++) {
        memcpy(parts[i].at, at, parts[i].bytes);
        at += parts[i].bytes;
    }
    fault = content_fault(out, facts);
    return fault ? error_set(err, STATUS_INVALID, "a %s of a batch is out of range", fault)
                 : STATUS_OK;
}
