// One forward for all encoders (BERT, RoBERTa, XLM-RoBERTa): rows packed without padding, keys and
// values read from the step's own activations. Engine thread; asynchronous like every op.
#include "runtime/model/parts.h"

static enum status embed(struct model *model, const struct step *host)
{
    struct embed_bert_args args = {
        .act = model->act,
        .word = weight_at(model->weights, WEIGHT_EMBED),
        .position_table = weight_at(model->weights, WEIGHT_POSITION),
        .type_table = weight_at(model->weights, WEIGHT_TYPE),
        .norm_weight = weight_at(model->weights, WEIGHT_EMBED_NORM),
        .norm_bias = weight_at(model->weights, WEIGHT_EMBED_NORM_BIAS),
        .token = model_state(model, model->layout.token),
        .position = model_state(model, model->layout.position),
        .type = model_state(model, model->layout.type),
        .out = model_act(model, model->layout.residual),
        .token_count = host->token_count,
        .width = model->facts.hidden,
        .position_offset = model->config.position_offset,
        .epsilon = (float)model->config.epsilon,
    };
    return model->api->ops->embed_bert(model->stream, &args);
}

static enum status attend(struct model *model, const struct step *host)
{
    struct attn_args args = {
        .act = model->act,
        // as a cache would hold them; where activations are float32 this is the faster form
        .kv = model->facts.dtype == DTYPE_BF16 ? DTYPE_BF16 : model->act,
        .qkv = model_act(model, model->layout.qkv),
        .out = model_act(model, model->layout.attn),
        .step = model_record(model),
        .step_host = host,
        .shape = model->limits.attn,
        .row_count = host->row_count,
        .token_count = host->token_count,
    };
    return model->api->ops->attn(model->stream, &args);
}

// residual = layer_norm(residual + delta)
static enum status add_norm(struct model *model, uint32_t slot, uint32_t rows)
{
    void *residual = model_act(model, model->layout.residual);
    struct layer_norm_args args = {
        .act = model->act,
        .residual = residual,
        .add = model_act(model, model->layout.delta),
        .weight = weight_at(model->weights, slot),
        .bias = weight_at(model->weights, slot + 1),
        .out = residual,
        .rows = rows,
        .width = model->facts.hidden,
        .epsilon = (float)model->config.epsilon,
    };
    return model->api->ops->layer_norm(model->stream, &args);
}

static enum status layer_forward(struct model *model, const struct step *host, uint32_t layer)
{
    const struct model_layout *at = &model->layout;
    uint32_t rows = host->token_count;
    void *x = model_act(model, at->residual);
    void *delta = model_act(model, at->delta);
    void *up = model_act(model, at->up);
    enum status status =
        model_gemm(model, layer_slot(layer, LAYER_QKV), layer_slot(layer, LAYER_QKV_BIAS), x,
                   model_act(model, at->qkv), rows);
    if (status == STATUS_OK)
        status = attend(model, host);
    if (status == STATUS_OK)
        status = model_gemm(model, layer_slot(layer, LAYER_O), layer_slot(layer, LAYER_O_BIAS),
                            model_act(model, at->attn), delta, rows);
    if (status == STATUS_OK)
        status = add_norm(model, layer_slot(layer, LAYER_NORM_ATTN), rows);
    if (status == STATUS_OK)
        status = model_gemm(model, layer_slot(layer, LAYER_UP), layer_slot(layer, LAYER_UP_BIAS), x,
                            up, rows);
    struct activate_args activate = {model->act, model->config.activation, up, rows,
                                     model->config.intermediate};
    if (status == STATUS_OK)
        status = model->api->ops->activate(model->stream, &activate);
    if (status == STATUS_OK)
        status = model_gemm(model, layer_slot(layer, LAYER_DOWN),
                            layer_slot(layer, LAYER_DOWN_BIAS), up, delta, rows);
    if (status == STATUS_OK)
        status = add_norm(model, layer_slot(layer, LAYER_NORM_FFN), rows);
    return status;
}

enum status encoder_forward(struct model *model, const struct step *host)
{
    enum status status = embed(model, host);
    for (uint32_t i = 0; status == STATUS_OK && i < model->facts.layers; i++)
        status = layer_forward(model, host, i);
    if (status != STATUS_OK || host->sampled_count == 0)
        return status;
    const void *hidden = model_act(model, model->layout.residual);
    return model->facts.kind == MODEL_RERANKER ? score_rows(model, host, hidden)
                                               : pool_rows(model, host, hidden);
}
