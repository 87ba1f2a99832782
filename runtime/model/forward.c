// SPDX-License-Identifier: Apache-2.0
// The forward pass: lists of ops (lists.h), executed by one function that stops at the first error:
// the ops before the layers, one list for each kind of layer, and the ops after the layers.
// decoder.c, encoder.c and experts.c have the ops, lists.c makes the lists of layers. This file
// executes them and has the ops that several of these files use. Engine thread; asynchronous like
// every op, without waits or allocation, so that a decode step can be recorded as a graph.
//
// If several ranks share a model, each executes these lists on its part: forward_sum adds the
// ranks' partial products, forward_logits concatenates their columns. Pipeline stages would be a
// range of layers for each stage.
#include "runtime/model/forward.h"

#include "runtime/model/group.h"

// Bias 0 of struct forward_op means none.
_Static_assert(LAYER_QKV_BIAS > 0 && MODEL_EMBED == 0, "no bias is the first of its list");

enum status forward_prep(struct model *model, const struct step *host)
{
    const struct model_layout *at = &model->layout;
    struct prep_args args = {
        .step = model_record(model),
        .limits = model->facts.limits,
        .row_count = host->row_count,
        .token_count = host->token_count,
        .new_sequence_count = host->new_sequence_count,
        .change_count = host->change_count,
        .state = model->slots,
        .token = model_state(model, at->token),
        .position = model_state(model, at->position),
        .row_of = model_state(model, at->row_of),
        .type = model_state(model, at->type),
        .kv_write_offset = model_state(model, at->kv_write_offset),
        .block_shift =
            model->facts.block_tokens ? (uint32_t)__builtin_ctz(model->facts.block_tokens) : 0,
        .token_bytes = model->kv_strides[0].token, // equal in all layers
    };
    return op_prep(model, &args);
}

// Computes y = x W^T + bias for the op, with y of `type` in buffer `out`.
static enum status forward_product(const struct forward *f, const struct forward_op *op,
                                   enum dtype type, enum model_buffer out)
{
    const struct weight *weight = weight_at(f->weights, op->weight);
    check(weight != NULL, "%s has no weight %u", f->model->facts.architecture, op->weight);
    struct gemm_args args = {
        .x_dtype = f->model->act,
        .y_dtype = type,
        .x = model_act(f->model, op->in),
        .weight = weight,
        .bias = op->bias ? weight_at(f->weights, op->bias) : NULL,
        .y = model_act(f->model, out),
        .rows = f->rows,
        .x_stride = weight->shape.k,
        .y_stride = weight->shape.n,
    };
    return op_gemm(f->model, &args);
}

enum status forward_gemm(struct forward *f, const struct forward_op *op)
{
    return forward_product(f, op, f->model->act, op->out);
}

enum status forward_ranks_sum(const struct forward *f, enum model_buffer out)
{
    struct model *model = f->model;
    struct all_reduce_args args = {
        .act = model->act,
        .in = model->parts_apart ? model_act(model, BUFFER_PARTIAL) : NULL,
        .out = model_act(model, out),
        .count = (uint64_t)f->rows * model->sizes.hidden,
        .ranks = model->sizes.ranks,
        .in_place = !model->parts_apart,
    };
    if (model->sizes.ranks == 1)
        return STATUS_OK;
    model->collectives_started++;
    return op_all_reduce(model, &args);
}

enum status forward_sum(struct forward *f, const struct forward_op *op)
{
    enum status status = forward_part(f, op);
    return status == STATUS_OK && f->host ? forward_ranks_sum(f, op->out) : status;
}

enum status forward_part(struct forward *f, const struct forward_op *op)
{
    return f->model->parts_apart ? forward_product(f, op, DTYPE_F32, BUFFER_PARTIAL)
                                 : forward_gemm(f, op);
}

enum status forward_head(struct forward *f, const struct forward_op *op)
{
    return forward_product(f, op, DTYPE_F32, op->out);
}

enum status forward_logits(struct forward *f, const struct forward_op *op)
{
    struct model *model = f->model;
    if (model->sizes.ranks == 1)
        return forward_head(f, op);
    struct all_gather_args args = {
        .in = model_act(model, BUFFER_PARTIAL),
        .out = model_act(model, op->out),
        .rows = f->rows,
        .stride = model->sizes.vocab.whole,
        .ranks = model->sizes.ranks,
    };
    for (uint32_t r = 0; r < args.ranks; r++) {
        struct model_span columns = span_cut(args.stride, r, args.ranks, 1);
        args.ends[r] = columns.first + columns.count;
    }
    enum status status = forward_product(f, op, DTYPE_F32, BUFFER_PARTIAL);
    if (status != STATUS_OK || !f->host)
        return status;
    model->collectives_started++;
    return op_all_gather(model, &args);
}

static enum status rows_gather(struct forward *f, const struct forward_op *op, bool first_token)
{
    struct model *model = f->model;
    struct step *record = model_record(model);
    struct gather_args args = {
        .act = model->act,
        .in = model_act(model, op->in),
        .sampled = step_section(record, model->step.sampled),
        .first_token = first_token,
        .rows = step_section(record, model->step.rows),
        .out = model_act(model, op->out),
        .count = f->host->sampled_count,
        .width = model->sizes.hidden,
    };
    f->rows = args.count;
    return op_gather(model, &args);
}

enum status forward_gather(struct forward *f, const struct forward_op *op)
{
    return rows_gather(f, op, false);
}

enum status forward_gather_first(struct forward *f, const struct forward_op *op)
{
    return rows_gather(f, op, true);
}

// Pools rows, or converts vectors (POOL_GIVEN).
static enum status rows_pool(struct forward *f, const struct forward_op *op, enum pooling kind,
                             bool out_act, uint32_t width)
{
    struct model *model = f->model;
    struct step *record = model_record(model);
    struct pool_args args = {
        .act = model->act,
        .kind = kind,
        .in = model_act(model, op->in),
        .rows = step_section(record, model->step.rows),
        .sampled = step_section(record, model->step.sampled),
        .out = model_act(model, op->out),
        .count = f->host->sampled_count,
        .width = width,
        .normalize = !out_act && model->config.normalize,
        .out_act = out_act,
    };
    f->rows = args.count;
    return op_pool(model, &args);
}

enum status forward_pool(struct forward *f, const struct forward_op *op)
{
    return rows_pool(f, op, f->model->config.pooling, false, f->model->sizes.hidden);
}

enum status forward_pool_act(struct forward *f, const struct forward_op *op)
{
    return rows_pool(f, op, f->model->config.pooling, true, f->model->sizes.hidden);
}

enum status forward_pool_score(struct forward *f, const struct forward_op *op)
{
    return rows_pool(f, op, f->model->config.score_pooling, true, f->model->sizes.hidden);
}

enum status forward_vectors(struct forward *f, const struct forward_op *op)
{
    return rows_pool(f, op, POOL_GIVEN, false, f->model->config.vector_width);
}

enum status forward_vector_tanh(struct forward *f, const struct forward_op *op)
{
    struct model *model = f->model;
    struct activate_args args = {model->act, ACTIVATE_TANH, model_act(model, op->in), f->rows,
                                 weight_at(f->weights, op->weight)->shape.n};
    return op_activate(model, &args);
}

static enum status list_run(struct forward *f, const struct forward_op *op)
{
    enum status status = STATUS_OK;
    for (; status == STATUS_OK && op->run; op++)
        status = op->run(f, op);
    return status;
}

bool forward_is_product(const struct forward_op *op)
{
    return op->run == forward_gemm || op->run == forward_sum || op->run == forward_part ||
           op->run == forward_head || op->run == forward_logits;
}

static enum status products_run(struct forward *f, const struct forward_op *op)
{
    enum status status = STATUS_OK;
    for (; status == STATUS_OK && op->run; op++)
        if (forward_is_product(op))
            status = op->run(f, op);
    return status;
}

// Runs the products of the first layer of each kind and of the head. Layers of one kind have
// products of the same sizes.
enum status forward_products(struct model *model, uint32_t tokens)
{
    const struct forward_lists *lists = &model->lists;
    uint32_t rows_max = model->facts.limits.rows_max;
    struct forward f = {.model = model, .rows = tokens};
    enum status status = STATUS_OK;
    uint32_t seen = 0;
    for (; status == STATUS_OK && f.layer < model->facts.layers; f.layer++) {
        f.kind = model->config.layer_kind[f.layer];
        if (f.kind != seen)
            continue;
        seen++;
        f.weights = model->weights + layer_weight_index(f.layer, 0);
        status = products_run(&f, lists->layer[f.kind]);
    }
    // The head has at most rows_max rows, which were run before.
    if (status != STATUS_OK || tokens >= 2 * rows_max)
        return status;
    f.weights = model->weights;
    f.rows = tokens < rows_max ? tokens : rows_max;
    return products_run(&f, lists->last);
}

// Returns true for a step with decode rows only: token i is row i, so nothing has to be gathered. A
// recorded graph assumes the same; it lists no rows with results, and the results of its padding
// rows are not read.
static bool rows_in_place(const struct step *host)
{
    return host->decode_count == host->row_count && host->token_count == host->row_count;
}

enum status forward_run(struct model *model, const struct step *host)
{
    const struct forward_lists *lists = &model->lists;
    struct forward f = {
        .model = model, .host = host, .weights = model->weights, .rows = host->token_count};
    enum status status = list_run(&f, lists->first);
    f.fresh = lists->layer[model->config.layer_kind[0]];
    for (; status == STATUS_OK && f.layer < model->facts.layers; f.layer++) {
        if (model->meets && f.layer % model->meet_layers == model->meet_layers - 1)
            group_meet(model->meets);
        f.weights = model->weights + layer_weight_index(f.layer, 0);
        f.kind = model->config.layer_kind[f.layer];
        status = list_run(&f, lists->layer[f.kind]);
        f.fresh = NULL;
    }
    f.weights = model->weights;
    bool in_place = rows_in_place(host);
    if (status != STATUS_OK || (host->sampled_count == 0 && !in_place))
        return status;
    bool decode = in_place && model->facts.kind == MODEL_GENERATOR;
    return list_run(&f, decode ? lists->last_in_place : lists->last);
}
