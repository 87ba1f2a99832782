// SPDX-License-Identifier: Apache-2.0
// The ops of encoders; see forward.c and lists.c. Rows are packed without padding; keys and values
// are read from the activations of the same step. Engine thread.
#include "runtime/model/forward.h"

static enum status encoder_embed(struct forward *f, const struct forward_op *op)
{
    struct model *model = f->model;
    struct embed_bert_args args = {
        .act = model->act,
        .word = weight_at(f->weights, MODEL_EMBED),
        .position_table = weight_at(f->weights, MODEL_POSITION),
        .type_table = weight_at(f->weights, MODEL_TYPE),
        .norm_weight = weight_at(f->weights, MODEL_EMBED_NORM),
        .norm_bias = weight_at(f->weights, MODEL_EMBED_NORM_BIAS),
        .token = model_state(model, model->layout.token),
        .position = model_state(model, model->layout.position),
        .type = model_state(model, model->layout.type),
        .out = model_act(model, op->out),
        .token_count = f->rows,
        .width = model->sizes.hidden,
        .position_offset = model->config.position_offset,
        .epsilon = (float)model->config.epsilon,
    };
    return op_embed_bert(model, &args);
}

enum status layer_attend_rows(struct forward *f, const struct forward_op *op)
{
    struct model *model = f->model;
    struct attn_args args = {
        .act = model->act,
        // bfloat16, as in a KV cache: faster than float32 activations
        .kv = model->facts.dtype == DTYPE_BF16 ? DTYPE_BF16 : model->act,
        .qkv = model_act(model, op->in),
        .out = model_act(model, op->out),
        .step = model_record(model),
        .step_host = f->host,
        .shape = model->shapes[f->kind],
        .row_count = f->host->row_count,
        .token_count = f->rows,
        .bias = weight_at(model->weights, MODEL_DISTANCE),
        .reach = model->config.reach,
    };
    return op_attn(model, &args);
}

// Computes out = LayerNorm(in + add).
static enum status norm_compute(struct forward *f, const struct forward_op *op, double epsilon)
{
    struct model *model = f->model;
    struct layer_norm_args args = {
        .act = model->act,
        .residual = model_act(model, op->in),
        .add = op->add == BUFFER_NONE ? NULL : model_act(model, op->add),
        .weight = weight_at(f->weights, op->weight),
        .bias = op->bias ? weight_at(f->weights, op->bias) : NULL,
        .out = model_act(model, op->out),
        .rows = f->rows,
        .width = weight_at(f->weights, op->weight)->shape.n,
        .epsilon = (float)epsilon,
    };
    return op_layer_norm(model, &args);
}

enum status layer_norm_sum(struct forward *f, const struct forward_op *op)
{
    return norm_compute(f, op, f->model->config.epsilon);
}

enum status forward_vector_norm(struct forward *f, const struct forward_op *op)
{
    return norm_compute(f, op, 1e-5); // the module LayerNorm has the default of torch
}

enum status layer_activate(struct forward *f, const struct forward_op *op)
{
    struct model *model = f->model;
    struct activate_args args = {model->act, model->config.kinds[f->kind].activation,
                                 model_act(model, op->in), f->rows,
                                 model->sizes.intermediate.count};
    return op_activate(model, &args);
}

enum status forward_score_activate(struct forward *f, const struct forward_op *op)
{
    struct model *model = f->model;
    struct activate_args args = {model->act, model->config.score_activation,
                                 model_act(model, op->in), f->rows, model->sizes.hidden};
    return op_activate(model, &args);
}

static const struct forward_op encoder_first[] = {
    {encoder_embed, .out = BUFFER_RESIDUAL},
    {.run = NULL},
};

const struct forward_ends encoder_ends = {.first = encoder_first};
