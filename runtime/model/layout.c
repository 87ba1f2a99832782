// SPDX-License-Identifier: Apache-2.0
// The offsets of all arrays in a model's memory. The printed plan and the allocations use the same
// sizes. Pure functions.
#include "runtime/model/internal.h"

#include "base/number.h"

enum { LAYOUT_ALIGNMENT = 256 };

// Returns the offset of the next array and moves *at past it.
static size_t layout_reserve(size_t *at, uint64_t count, uint64_t bytes_each)
{
    size_t start = *at;
    *at += round_up(count * bytes_each, LAYOUT_ALIGNMENT);
    return start;
}

// Returns the rows of a buffer that products write (products_padded).
static uint64_t padded(uint32_t rows)
{
    return round_up(rows, PRODUCT_ROWS_UNIT);
}

// Lays out the arrays of the routing of a step.
static void routing_layout(struct model_layout *out, const struct experts_config *e,
                           uint64_t tokens)
{
    uint64_t pairs = tokens * e->chosen;
    size_t at = 0;
    out->routing.id = layout_reserve(&at, pairs, sizeof(uint32_t));
    out->routing.weight = layout_reserve(&at, pairs, sizeof(float));
    out->routing.order = layout_reserve(&at, pairs, sizeof(uint32_t));
    out->routing.place = layout_reserve(&at, pairs, sizeof(uint32_t));
    out->routing.offset = layout_reserve(&at, e->count > 0 ? e->count + 1 : 0, sizeof(uint32_t));
    out->routing.bytes = at;
}

// Reserves the buffers of a mixture of experts; all are empty if the model has none.
static void experts_layout(struct model_layout *out, size_t *at, const struct model_facts *facts,
                           const struct model_parts *parts)
{
    const struct experts_config *e = &parts->config.experts;
    uint64_t tokens = padded(facts->limits.tokens_max), pairs = tokens * e->chosen;
    uint64_t act = dtype_bytes(parts->act), hidden = e->count > 0 ? parts->sizes.hidden : 0;
    size_t *buffer = out->buffer;
    routing_layout(out, e, tokens);
    buffer[BUFFER_ROUTER] = layout_reserve(at, tokens * e->count, sizeof(float));
    buffer[BUFFER_ROUTING] = layout_reserve(at, 1, out->routing.bytes);
    buffer[BUFFER_SHARED_FACTOR] =
        layout_reserve(at, e->shared_width > 0 ? tokens : 0, sizeof(float));
    buffer[BUFFER_EXPERT_FFN] = layout_reserve(at, pairs * e->width, act);
    buffer[BUFFER_EXPERT_UP] =
        layout_reserve(at, pairs * larger((uint64_t)2 * e->width, hidden), act);
    buffer[BUFFER_EXPERT_OUT] = buffer[BUFFER_EXPERT_UP];
}

// The wide buffers share one region: qkv and attn are no longer needed when up and ffn are written,
// and none of these when the logits are written. test_forward_lists checks this on the lists of
// ops.
static void activations_layout(struct model_layout *out, const struct model_facts *facts,
                               const struct model_parts *parts)
{
    const struct model_sizes *s = &parts->sizes;
    uint64_t tokens = padded(facts->limits.tokens_max);
    uint64_t rows = padded(facts->limits.rows_max);
    uint64_t act = dtype_bytes(parts->act);
    uint64_t heads = s->heads.count, kv_heads = s->kv_heads.count;
    uint64_t intermediate = s->shared.count; // columns of UP and FFN
    bool gated = false, normed = false, generates = facts->kind == MODEL_GENERATOR;
    for (uint32_t i = 0; i < parts->config.kind_count; i++) {
        const struct layer_kind *kind = &parts->config.kinds[i];
        gated = gated || kind->gated;
        if (!kind->experts)
            intermediate = larger(intermediate, (uint64_t)s->intermediate.count);
        normed = normed || !(kind->norms & NORM_SUM); // at least for the final norm
    }
    size_t *buffer = out->buffer;
    size_t at = 0;
    buffer[BUFFER_RESIDUAL] = layout_reserve(&at, tokens * s->hidden, act);
    bool held = parts->stream.sums_bytes > 0; // by the stream
    buffer[BUFFER_DELTA] = layout_reserve(&at, held ? 0 : tokens * s->hidden, act);
    buffer[BUFFER_NORMED] = layout_reserve(&at, normed ? tokens * s->hidden : 0, act);
    uint64_t last = s->hidden;
    for (uint32_t i = 0; i < parts->config.module_count; i++)
        last = larger(last, (uint64_t)parts->config.modules[i].out);
    buffer[BUFFER_LAST] = layout_reserve(&at, rows * last, act);
    buffer[BUFFER_LAST_DELTA] = layout_reserve(&at, rows * last, act);
    buffer[BUFFER_VALUES] = layout_reserve(&at, rows * facts->output_width, sizeof(float));
    uint64_t part = 0; // several ranks: input of the sums and of the gathered logits
    if (s->ranks > 1)
        part = larger(tokens * s->hidden, generates * rows * s->vocab.count);
    buffer[BUFFER_PARTIAL] = layout_reserve(&at, part, sizeof(float));
    size_t wide = at;
    buffer[BUFFER_QKV] = layout_reserve(&at, tokens * (heads + 2 * kv_heads) * s->head_dim, act);
    buffer[BUFFER_ATTN] = layout_reserve(&at, tokens * heads * s->head_dim, act);
    size_t attention_end = at;
    at = wide;
    buffer[BUFFER_UP] = layout_reserve(&at, tokens * intermediate * (gated ? 2 : 1), act);
    buffer[BUFFER_FFN] = layout_reserve(&at, gated ? tokens * intermediate : 0, act);
    experts_layout(out, &at, facts, parts);
    size_t ffn_end = at;
    at = wide;
    buffer[BUFFER_LOGITS] =
        layout_reserve(&at, generates ? rows * s->vocab.whole : 0, sizeof(float));
    out->activation_bytes = larger(larger(attention_end, ffn_end), at);
}

uint64_t layout_delta_bytes(const struct model_facts *facts, const struct model_parts *parts)
{
    return padded(facts->limits.tokens_max) * parts->sizes.hidden * dtype_bytes(parts->act);
}

static void state_layout(struct model_layout *out, const struct model_facts *facts)
{
    const struct step_limits *limits = &facts->limits;
    bool sampled = facts->kind == MODEL_GENERATOR;
    uint64_t slots = limits->slots_max;
    uint64_t sampled_slots = sampled ? slots : 0;
    uint64_t tokens = limits->tokens_max;
    size_t at = 0;
    out->last_token = layout_reserve(&at, slots, sizeof(int32_t));
    out->block_table = layout_reserve(&at, slots * limits->blocks_max, sizeof(uint32_t));
    out->params = layout_reserve(&at, sampled_slots, sizeof(struct sample_params));
    out->done = layout_reserve(&at, slots, sizeof(uint32_t));
    out->penalty =
        layout_reserve(&at, (uint64_t)limits->penalty_rows * limits->vocab, sizeof(uint16_t));
    out->penalty_bytes = at - out->penalty;
    out->bias = layout_reserve(&at, sampled_slots * limits->bias_max, sizeof(struct step_bias));
    out->token = layout_reserve(&at, tokens, sizeof(int32_t));
    out->position = layout_reserve(&at, tokens, sizeof(uint32_t));
    out->row_of = layout_reserve(&at, tokens, sizeof(uint32_t));
    out->type = layout_reserve(&at, tokens, sizeof(uint32_t));
    out->kv_write_offset = layout_reserve(&at, tokens, sizeof(uint64_t));
    out->record = layout_reserve(&at, 1, out->record_bytes);
    out->masks = layout_reserve(&at, 1, out->masks_bytes);
    out->state_bytes = at;
}

static void host_layout(struct model_layout *out, const struct model_facts *facts)
{
    bool sampled = facts->kind == MODEL_GENERATOR;
    uint64_t rows = facts->limits.rows_max;
    size_t at = 0;
    layout_reserve(&at, sampled ? rows : 0, sizeof(struct sample_result));
    out->results_bytes = at;
    at = 0;
    layout_reserve(&at, sampled ? rows * SAMPLE_TOP_MAX : 0, sizeof(struct sample_top));
    out->tops_bytes = at;
    at = 0;
    layout_reserve(&at, sampled ? 0 : rows * facts->output_width, sizeof(float));
    out->values_bytes = at;
    at = 0;
    out->records = layout_reserve(&at, MODEL_HOST_STEPS, out->record_bytes);
    out->results = layout_reserve(&at, MODEL_HOST_STEPS, out->results_bytes);
    out->tops = layout_reserve(&at, MODEL_HOST_STEPS, out->tops_bytes);
    out->host_values = layout_reserve(&at, MODEL_HOST_STEPS, out->values_bytes);
    out->host_masks = layout_reserve(&at, MODEL_HOST_STEPS, out->masks_bytes);
    out->host_logits = layout_reserve(&at, sampled ? facts->vocab : 0, sizeof(float));
    out->word = layout_reserve(&at, 2, sizeof(uint32_t));
    out->logits_word = out->word + sizeof(uint32_t);
    out->host_bytes = at;
}

void model_layout_init(struct model_layout *out, const struct model_facts *facts,
                       const struct model_parts *parts)
{
    *out = (struct model_layout){0};
    size_t masks = 0;
    if (facts->kind == MODEL_GENERATOR)
        layout_reserve(&masks, (uint64_t)facts->limits.rows_max * ((facts->vocab + 31) / 32),
                       sizeof(uint32_t));
    out->masks_bytes = masks;
    size_t record = 0;
    layout_reserve(&record, 1, parts->step.bytes);
    out->record_bytes = record;
    activations_layout(out, facts, parts);
    state_layout(out, facts);
    host_layout(out, facts);
    for (uint32_t i = 0; i < parts->config.rope_count; i++) {
        const struct rope_config *rope = &parts->config.ropes[i];
        out->rope[i] =
            layout_reserve(&out->rope_bytes, facts->max_model_len, rope->dim * sizeof(float));
        if (rope->query_beta != 0)
            out->query_factors[i] =
                layout_reserve(&out->rope_bytes, facts->max_model_len, sizeof(float));
    }
}
