// SPDX-License-Identifier: Apache-2.0
// The ops of a mixture of experts in the forward pass; see lists.c. The host knows the number of
// pairs of token and expert, but not how many rows each expert has. Engine thread.
#include "runtime/model/forward.h"

// Returns the routing of the layer: arrays in BUFFER_ROUTING, one after the other.
static struct routing routing_of(const struct forward *f)
{
    const struct experts_config *e = &f->model->config.experts;
    struct model_layout *layout = &f->model->layout;
    char *at = model_act(f->model, BUFFER_ROUTING);
    struct routing out = {.token_count = f->rows, .experts = e->count, .chosen = e->chosen};
    out.id = (uint32_t *)(void *)(at + layout->routing.id);
    out.weight = (float *)(void *)(at + layout->routing.weight);
    out.order = (uint32_t *)(void *)(at + layout->routing.order);
    out.place = (uint32_t *)(void *)(at + layout->routing.place);
    out.offset = (uint32_t *)(void *)(at + layout->routing.offset);
    return out;
}

enum status layer_route(struct forward *f, const struct forward_op *op)
{
    const struct experts_config *e = &f->model->config.experts;
    struct route_args args = {
        .out = routing_of(f),
        .score = e->score,
        .logits = model_act(f->model, op->in),
        .correction = weight_at(f->weights, op->weight),
        .groups = e->groups,
        .groups_kept = e->groups_kept,
        .group_top = 2,
        .renormalise = e->renormalise,
        .factor = (float)e->factor,
    };
    return op_route(f->model, &args);
}

enum status layer_experts(struct forward *f, const struct forward_op *op)
{
    const struct weight *weight = weight_at(f->weights, op->weight);
    check(weight != NULL, "%s has no weight %u", f->model->facts.architecture, op->weight);
    struct gemm_experts_args args = {
        .act = f->model->act,
        .routing = routing_of(f),
        .x = model_act(f->model, op->in),
        .weight = weight,
        .bias = op->bias ? weight_at(f->weights, op->bias) : NULL,
        .y = model_act(f->model, op->out),
        .x_stride = weight->shape.k,
        .y_stride = weight_matrix_rows(&weight->shape),
        .sorted = op->in == BUFFER_EXPERT_FFN,
        .first = f->model->sizes.experts.first,
    };
    return op_gemm_experts(f->model, &args);
}

enum status layer_combine(struct forward *f, const struct forward_op *op)
{
    struct model *model = f->model;
    bool apart = model->parts_apart;
    void *out = model_act(model, apart ? BUFFER_PARTIAL : op->out);
    struct combine_args args = {
        .act = model->act,
        .out_dtype = apart ? DTYPE_F32 : model->act,
        .routing = routing_of(f),
        .y = model_act(model, op->in),
        .shared = op->add == BUFFER_NONE ? NULL : out,
        .gate = op->also == BUFFER_NONE ? NULL : model_act(model, op->also),
        .out = out,
        .width = model->sizes.hidden,
        .first = model->sizes.experts.first,
        .held = model->sizes.experts.count,
    };
    enum status status = op_combine(model, &args);
    return status == STATUS_OK ? forward_ranks_sum(f, op->out) : status;
}
