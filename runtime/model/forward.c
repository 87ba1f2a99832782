// The pieces that both forward passes are made of. Engine thread; nothing here waits.
#include "runtime/model/parts.h"

enum status model_prep(struct model *model, const struct step *host)
{
    const struct model_layout *at = &model->layout;
    struct prep_args args = {
        .step = model_record(model),
        .limits = model->facts.limits,
        .row_count = host->row_count,
        .token_count = host->token_count,
        .admit_count = host->admit_count,
        .change_count = host->change_count,
        .state = model->slots,
        .token = model_state(model, at->token),
        .position = model_state(model, at->position),
        .row_of = model_state(model, at->row_of),
        .type = model_state(model, at->type),
        .kv_place = model_state(model, at->kv_place),
        .block_shift =
            model->facts.block_tokens ? (uint32_t)__builtin_ctz(model->facts.block_tokens) : 0,
        .token_bytes = model->config.head_dim * dtype_bytes(model->facts.kv_dtype),
    };
    return model->api->ops->prep(model->stream, &args);
}

enum status model_gemm(struct model *model, uint32_t slot, uint32_t bias_slot, const void *x,
                       void *y, uint32_t rows)
{
    const struct weight *weight = weight_at(model->weights, slot);
    check(weight, "%s has no weight %u", model->facts.architecture, slot);
    struct gemm_args args = {
        .x_dtype = model->act,
        .y_dtype = model->act,
        .x = x,
        .weight = weight,
        .bias = weight_at(model->weights, bias_slot),
        .y = y,
        .rows = rows,
        .x_stride = weight->shape.k,
        .y_stride = weight->shape.n,
    };
    return model->api->ops->gemm(model->stream, &args);
}
