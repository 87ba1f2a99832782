// SPDX-License-Identifier: Apache-2.0
// The ops of decoders; see forward.c and lists.c. Keys and values are stored in the KV blocks.
// Engine thread.
#include "runtime/model/forward.h"

static enum status decoder_embed(struct forward *f, const struct forward_op *op)
{
    struct model *model = f->model;
    bool apart = model->parts_apart;
    struct embed_args args = {
        .act = apart ? DTYPE_F32 : model->act,
        .table = weight_at(f->weights, MODEL_EMBED),
        .token = model_state(model, model->layout.token),
        .out = model_act(model, apart ? BUFFER_PARTIAL : op->out),
        .token_count = f->rows,
        .width = model->sizes.hidden,
        .first = model->sizes.vocab.first,
        .vocab = model->sizes.vocab.whole,
        .scale = model->embed_scale,
    };
    enum status status = op_embed(model, &args);
    return status == STATUS_OK ? forward_ranks_sum(f, op->out) : status;
}

// Returns the weight of the product that follows an op, which the op may prefetch, or NULL if
// another op follows.
static const struct weight *next_of(const struct forward *f, const struct forward_op *op)
{
    return forward_is_product(&op[1]) ? weight_at(f->weights, op[1].weight) : NULL;
}

// Adds `add` to the residual, and computes the LayerNorm of the sum.
static enum status norm_centred(struct forward *f, const struct forward_op *op)
{
    struct forward_op norm = *op;
    norm.add = BUFFER_NONE; // the residual contains it
    enum status status = op->add == BUFFER_NONE ? STATUS_OK : layer_add(f, op);
    return status == STATUS_OK ? layer_norm_sum(f, &norm) : status;
}

enum status layer_norm_one(struct forward *f, const struct forward_op *op)
{
    struct model *model = f->model;
    if (model->config.kinds[f->kind].centred)
        return norm_centred(f, op);
    struct rms_norm_args args = {
        .act = model->act,
        .residual = model_act(model, op->in),
        .add = op->add == BUFFER_NONE || op == f->fresh ? NULL : model_act(model, op->add),
        .weight = weight_at(f->weights, op->weight),
        .out = model_act(model, op->out),
        .rows = f->rows,
        .width = model->sizes.hidden,
        .epsilon = (float)model->config.epsilon,
        .next = next_of(f, op),
        .factor = (float)model->config.residual_factor,
    };
    return op_rms_norm(model, &args);
}

enum status layer_add(struct forward *f, const struct forward_op *op)
{
    struct model *model = f->model;
    struct rms_norm_args args = {
        .act = model->act,
        .residual = model_act(model, op->in),
        .add = model_act(model, op->add),
        .rows = f->rows,
        .width = model->sizes.hidden,
        .factor = (float)model->config.residual_factor,
    };
    return op == f->fresh ? STATUS_OK : op_rms_norm(model, &args);
}

enum status layer_norm_heads(struct forward *f, const struct forward_op *op)
{
    struct model *model = f->model;
    const struct attn_shape *shape = &model->shapes[f->kind];
    char *q = model_act(model, op->in);
    char *k = q + (size_t)shape->heads * shape->dim * dtype_bytes(model->act);
    struct rms_norm_args args = {
        .act = model->act,
        .residual = q,
        .weight = weight_at(f->weights, LAYER_Q_NORM),
        .out = q,
        .rows = f->rows,
        .width = shape->heads * shape->dim,
        .epsilon = (float)model->config.epsilon,
        .stride = (shape->heads + 2 * shape->kv_heads) * shape->dim,
    };
    enum status status = op_rms_norm(model, &args);
    args.residual = args.out = k;
    args.weight = weight_at(f->weights, LAYER_K_NORM);
    args.width = shape->kv_heads * shape->dim;
    return status == STATUS_OK ? op_rms_norm(model, &args) : status;
}

enum status layer_qkv_post(struct forward *f, const struct forward_op *op)
{
    struct model *model = f->model;
    const struct kv_strides *strides = &model->kv_strides[f->layer];
    const struct layer_kind *kind = &model->config.kinds[f->kind];
    bool last = kind->qk_norm == QK_NORM_LAST, each = last || kind->qk_norm == QK_NORM_EACH;
    struct qkv_post_args args = {
        .act = model->act,
        .kv = model->facts.kv_dtype,
        .qkv = model_act(model, op->in),
        .q_norm = each ? weight_at(f->weights, LAYER_Q_NORM) : NULL,
        .k_norm = each ? weight_at(f->weights, LAYER_K_NORM) : NULL,
        .cos_sin = model_rope(model, kind->rope),
        .q_factor = model_query_factors(model, kind->rope),
        .position = model_state(model, model->layout.position),
        .kv_write_offset = kind->paged ? model_state(model, model->layout.kv_write_offset) : NULL,
        .kv_base = model->kv.base,
        .layer_offset = strides->layer,
        .value_offset = strides->value,
        .head_bytes = strides->head,
        .shape = model->shapes[f->kind],
        .token_count = f->rows,
        .rotary_dim = kind->rotates ? model->config.ropes[kind->rope].dim : 0,
        .epsilon = (float)model->config.epsilon,
        .norm_last = last,
    };
    return op_qkv_post(model, &args);
}

enum status layer_attend_paged(struct forward *f, const struct forward_op *op)
{
    struct model *model = f->model;
    const struct kv_strides *strides = &model->kv_strides[f->layer];
    struct attn_args args = {
        .act = model->act,
        .kv = model->facts.kv_dtype,
        .qkv = model_act(model, op->in),
        .out = model_act(model, op->out),
        .step = model_record(model),
        .step_host = f->host,
        .block_table = model->slots.block_table,
        .kv_base = model->kv.base,
        .layer_offset = strides->layer,
        .value_offset = strides->value,
        .head_bytes = strides->head,
        .token_bytes = strides->token,
        .shape = model->shapes[f->kind],
        .blocks_max = model->facts.limits.blocks_max,
        .block_shift = (uint32_t)__builtin_ctz(model->facts.block_tokens),
        .row_count = f->host->row_count,
        .token_count = f->rows,
        .next = next_of(f, op),
        .sinks = weight_at(f->weights, LAYER_SINKS),
    };
    return op_attn(model, &args);
}

enum status layer_gate(struct forward *f, const struct forward_op *op)
{
    struct model *model = f->model;
    static const enum gate gates[] = {[ACTIVATE_SILU] = GATE_SILU,
                                      [ACTIVATE_GELU_TANH] = GATE_GELU_TANH,
                                      [ACTIVATE_GELU] = GATE_GELU};
    const struct weight *up = weight_at(f->weights, op->weight);
    check(up != NULL, "%s has no weight %u", model->facts.architecture, op->weight);
    uint32_t each = up->shape.stack > 0 ? model->config.experts.chosen : 1; // rows of a token
    const struct layer_kind *kind = &model->config.kinds[f->kind];
    struct swiglu_args args = {
        .act = model->act,
        .in = model_act(model, op->in),
        .out = model_act(model, op->out),
        .rows = f->rows * each,
        .width = weight_matrix_rows(&up->shape) / 2,
        .next = next_of(f, op),
        .gate = kind->gate_limit > 0 ? GATE_CLAMPED : gates[kind->activation],
        .limit = kind->gate_limit,
        .alpha = kind->gate_alpha,
    };
    return op_swiglu(model, &args);
}

static const struct forward_op decoder_first[] = {
    {decoder_embed, .out = BUFFER_RESIDUAL},
    {.run = NULL},
};

// The output head is computed only for the rows that want a token, not for entire prompts.
static const struct forward_op decoder_generate[] = {
    {forward_gather, .in = BUFFER_RESIDUAL, .out = BUFFER_LAST},
    {forward_gather, .in = BUFFER_DELTA, .out = BUFFER_LAST_DELTA},
    {layer_norm_one, BUFFER_LAST, BUFFER_NORMED, .weight = MODEL_FINAL_NORM,
     .add = BUFFER_LAST_DELTA},
    {forward_logits, BUFFER_NORMED, BUFFER_LOGITS, .weight = MODEL_HEAD},
    {.run = NULL},
};

static const struct forward_op decoder_generate_in_place[] = {
    {layer_norm_one, BUFFER_RESIDUAL, BUFFER_NORMED, .weight = MODEL_FINAL_NORM,
     .add = BUFFER_DELTA},
    {forward_logits, BUFFER_NORMED, BUFFER_LOGITS, .weight = MODEL_HEAD},
    {.run = NULL},
};

static const struct forward_op decoder_score[] = {
    {forward_gather, .in = BUFFER_RESIDUAL, .out = BUFFER_LAST},
    {forward_gather, .in = BUFFER_DELTA, .out = BUFFER_LAST_DELTA},
    {layer_norm_one, BUFFER_LAST, BUFFER_NORMED, .weight = MODEL_FINAL_NORM,
     .add = BUFFER_LAST_DELTA},
    {forward_head, BUFFER_NORMED, BUFFER_VALUES, .weight = MODEL_SCORE, .bias = MODEL_SCORE_BIAS},
    {.run = NULL},
};

const struct forward_ends decoder_ends = {
    .first = decoder_first,
    .last = {[MODEL_GENERATOR] = decoder_generate, [MODEL_RERANKER] = decoder_score},
    .last_in_place = decoder_generate_in_place,
};
