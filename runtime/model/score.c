// The ends of pooling models: one vector or one score for each row that wants one. Engine thread.
#include "runtime/model/parts.h"

enum status pool_rows(struct model *model, const struct step *host, const void *hidden)
{
    struct step *record = model_record(model);
    struct pool_args args = {
        .act = model->act,
        .kind = model->config.pooling,
        .in = hidden,
        .rows = step_section(record, model->step.rows),
        .sampled = step_section(record, model->step.sampled),
        .out = model_act(model, model->layout.values),
        .count = host->sampled_count,
        .width = model->facts.hidden,
        .normalize = model->config.normalize,
    };
    return model->api->ops->pool(model->stream, &args);
}

static enum status dense_tanh(struct model *model, void *x, void *y, uint32_t rows)
{
    enum status status = model_gemm(model, WEIGHT_SCORE_DENSE, WEIGHT_SCORE_DENSE_BIAS, x, y, rows);
    struct activate_args args = {model->act, ACTIVATE_TANH, y, rows, model->facts.hidden};
    return status == STATUS_OK ? model->api->ops->activate(model->stream, &args) : status;
}

// hidden: [T][hidden] for encoders, whose heads read the first token; [n][hidden] for decoders,
// already gathered and normed.
enum status score_rows(struct model *model, const struct step *host, const void *hidden)
{
    struct step *record = model_record(model);
    uint32_t count = host->sampled_count;
    const void *x = hidden;
    enum status status = STATUS_OK;
    if (model->config.arch->family == ARCH_ENCODER) {
        struct gather_args gather = {
            .act = model->act,
            .in = hidden,
            .sampled = step_section(record, model->step.sampled),
            .first_token = 1,
            .rows = step_section(record, model->step.rows),
            .out = model_act(model, model->layout.last),
            .count = count,
            .width = model->facts.hidden,
        };
        status = model->api->ops->gather(model->stream, &gather);
        if (status == STATUS_OK)
            status =
                dense_tanh(model, gather.out, model_act(model, model->layout.last_delta), count);
        x = model_act(model, model->layout.last_delta);
    }
    struct gemm_args gemm = {
        .x_dtype = model->act,
        .y_dtype = DTYPE_F32,
        .x = x,
        .weight = weight_at(model->weights, WEIGHT_SCORE),
        .bias = weight_at(model->weights, WEIGHT_SCORE_BIAS),
        .y = model_act(model, model->layout.values),
        .rows = count,
        .x_stride = model->facts.hidden,
        .y_stride = 1,
    };
    return status == STATUS_OK ? model->api->ops->gemm(model->stream, &gemm) : status;
}
