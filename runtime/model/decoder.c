// One forward for all decoders (Llama, Mistral, Qwen2, Qwen3): flags of the architecture say what a
// layer has. Keys and values go through the KV blocks. Engine thread; asynchronous like every op,
// and free of waits and allocation, so that a decode step can be recorded as a graph.
#include "runtime/model/parts.h"

static enum status embed(struct model *model, const struct step *host)
{
    struct embed_args args = {
        .act = model->act,
        .table = weight_at(model->weights, WEIGHT_EMBED),
        .token = model_state(model, model->layout.token),
        .out = model_act(model, model->layout.residual),
        .token_count = host->token_count,
        .width = model->facts.hidden,
    };
    return model->api->ops->embed(model->stream, &args);
}

struct norm {
    uint32_t slot;
    void *residual, *out;
    const void *add;
    uint32_t rows;
};

static enum status norm(struct model *model, const struct norm *norm)
{
    struct rms_norm_args args = {
        .act = model->act,
        .residual = norm->residual,
        .add = norm->add,
        .weight = weight_at(model->weights, norm->slot),
        .out = norm->out,
        .rows = norm->rows,
        .width = model->facts.hidden,
        .epsilon = (float)model->config.epsilon,
    };
    return model->api->ops->rms_norm(model->stream, &args);
}

// Byte strides of the KV blocks: [layer][K|V][kv_head][token][dim].
struct strides {
    uint64_t layer, value, head, token;
};

static struct strides kv_strides(const struct model *model, uint32_t layer)
{
    uint64_t token = model->config.head_dim * dtype_bytes(model->facts.kv_dtype);
    uint64_t head = token * model->facts.block_tokens;
    uint64_t value = head * model->config.kv_heads;
    return (struct strides){layer * 2 * value, value, head, token};
}

static enum status post(struct model *model, const struct step *host, uint32_t layer)
{
    struct strides strides = kv_strides(model, layer);
    struct qkv_post_args args = {
        .act = model->act,
        .kv = model->facts.kv_dtype,
        .qkv = model_act(model, model->layout.qkv),
        .q_norm = weight_at(model->weights, layer_slot(layer, LAYER_Q_NORM)),
        .k_norm = weight_at(model->weights, layer_slot(layer, LAYER_K_NORM)),
        .cos_sin = model->rope,
        .position = model_state(model, model->layout.position),
        .kv_place = model_state(model, model->layout.kv_place),
        .kv_base = model->pool.base,
        .layer_offset = strides.layer,
        .value_offset = strides.value,
        .head_bytes = strides.head,
        .shape = model->limits.attn,
        .token_count = host->token_count,
        .rotary_dim = model->config.rope.dim,
        .epsilon = (float)model->config.epsilon,
    };
    return model->api->ops->qkv_post(model->stream, &args);
}

static enum status attend(struct model *model, const struct step *host, uint32_t layer)
{
    struct strides strides = kv_strides(model, layer);
    struct attn_args args = {
        .act = model->act,
        .kv = model->facts.kv_dtype,
        .qkv = model_act(model, model->layout.qkv),
        .out = model_act(model, model->layout.attn),
        .step = model_record(model),
        .step_host = host,
        .block_table = model->slots.block_table,
        .kv_base = model->pool.base,
        .layer_offset = strides.layer,
        .value_offset = strides.value,
        .head_bytes = strides.head,
        .token_bytes = strides.token,
        .shape = model->limits.attn,
        .blocks_max = model->facts.limits.blocks_max,
        .block_shift = (uint32_t)__builtin_ctz(model->facts.block_tokens),
        .row_count = host->row_count,
        .token_count = host->token_count,
    };
    bool full = model->config.full_layers[layer];
    uint32_t window = model->config.window;
    args.shape.window = full || window >= model->facts.max_model_len ? 0 : window;
    return model->api->ops->attn(model->stream, &args);
}

static enum status attention(struct model *model, const struct step *host, uint32_t layer)
{
    const struct model_layout *at = &model->layout;
    uint32_t rows = host->token_count;
    enum status status =
        model_gemm(model, layer_slot(layer, LAYER_QKV), layer_slot(layer, LAYER_QKV_BIAS),
                   model_act(model, at->normed), model_act(model, at->qkv), rows);
    if (status == STATUS_OK)
        status = post(model, host, layer);
    if (status == STATUS_OK)
        status = attend(model, host, layer);
    if (status == STATUS_OK)
        status = model_gemm(model, layer_slot(layer, LAYER_O), layer_slot(layer, LAYER_O_BIAS),
                            model_act(model, at->attn), model_act(model, at->delta), rows);
    return status;
}

static enum status feed_forward(struct model *model, const struct step *host, uint32_t layer)
{
    const struct model_layout *at = &model->layout;
    uint32_t rows = host->token_count;
    void *up = model_act(model, at->up);
    void *ffn = model_act(model, at->ffn);
    enum status status =
        model_gemm(model, layer_slot(layer, LAYER_UP), layer_slot(layer, LAYER_UP_BIAS),
                   model_act(model, at->normed), up, rows);
    struct swiglu_args swiglu = {model->act, up, ffn, rows, model->config.intermediate};
    if (status == STATUS_OK)
        status = model->api->ops->swiglu(model->stream, &swiglu);
    if (status == STATUS_OK)
        status =
            model_gemm(model, layer_slot(layer, LAYER_DOWN), layer_slot(layer, LAYER_DOWN_BIAS),
                       ffn, model_act(model, at->delta), rows);
    return status;
}

static enum status gather(struct model *model, const struct step *host, size_t from, size_t to)
{
    struct step *record = model_record(model);
    struct gather_args args = {
        .act = model->act,
        .in = model_act(model, from),
        .sampled = step_section(record, model->step.sampled),
        .rows = step_section(record, model->step.rows),
        .out = model_act(model, to),
        .count = host->sampled_count,
        .width = model->facts.hidden,
    };
    return model->api->ops->gather(model->stream, &args);
}

// A step whose rows are all decode rows has its wanted rows in place: token i is row i. That is
// also what a recorded graph assumes, whose padding rows are computed and not looked at.
static bool rows_in_place(const struct step *host)
{
    return host->decode_count == host->row_count && host->token_count == host->row_count;
}

static enum status logits(struct model *model, const void *x, uint32_t rows)
{
    const struct weight *head = weight_at(model->weights, WEIGHT_HEAD);
    struct gemm_args args = {
        .x_dtype = model->act,
        .y_dtype = DTYPE_F32,
        .x = x,
        .weight = head ? head : weight_at(model->weights, WEIGHT_EMBED),
        .y = model_act(model, model->layout.logits),
        .rows = rows,
        .x_stride = model->facts.hidden,
        .y_stride = model->facts.vocab,
    };
    return model->api->ops->gemm(model->stream, &args);
}

// The last feed-forward's output is still to be added. Pooling norms every token (mean reads them
// all); heads read wanted rows only, so that no head ever runs over a whole prompt.
static enum status finish(struct model *model, const struct step *host)
{
    const struct model_layout *at = &model->layout;
    struct norm all = {WEIGHT_FINAL_NORM, model_act(model, at->residual),
                       model_act(model, at->normed), model_act(model, at->delta),
                       host->token_count};
    enum status status = STATUS_OK;
    if (model->facts.kind == MODEL_EMBEDDER) {
        status = norm(model, &all);
        return status == STATUS_OK ? pool_rows(model, host, all.out) : status;
    }
    if (!rows_in_place(host)) {
        status = gather(model, host, at->residual, at->last);
        if (status == STATUS_OK)
            status = gather(model, host, at->delta, at->last_delta);
        all.residual = model_act(model, at->last);
        all.add = model_act(model, at->last_delta);
        all.rows = host->sampled_count;
    }
    if (status == STATUS_OK)
        status = norm(model, &all);
    if (status != STATUS_OK)
        return status;
    return model->facts.kind == MODEL_RERANKER ? score_rows(model, host, all.out)
                                               : logits(model, all.out, all.rows);
}

enum status decoder_forward(struct model *model, const struct step *host)
{
    const struct model_layout *at = &model->layout;
    struct norm before = {0, model_act(model, at->residual), model_act(model, at->normed), NULL,
                          host->token_count};
    enum status status = embed(model, host);
    for (uint32_t i = 0; status == STATUS_OK && i < model->facts.layers; i++) {
        before.slot = layer_slot(i, LAYER_NORM_ATTN);
        status = norm(model, &before);
        before.add = model_act(model, at->delta);
        if (status == STATUS_OK)
            status = attention(model, host, i);
        before.slot = layer_slot(i, LAYER_NORM_FFN);
        if (status == STATUS_OK)
            status = norm(model, &before);
        if (status == STATUS_OK)
            status = feed_forward(model, host, i);
    }
    bool wanted = host->sampled_count > 0 || rows_in_place(host); // a recorded step lists no rows
    return status == STATUS_OK && wanted ? finish(model, host) : status;
}
