// SPDX-License-Identifier: Apache-2.0
// The ops of decoders (Llama, Mistral, Qwen2, Qwen3); see forward.c. The weights that exist
// determine which optional ops a layer has. Keys and values are stored in the KV blocks. Engine
// thread.
#include "runtime/model/internal.h"

static enum status decoder_embed(struct forward *f, const struct forward_op *op)
{
    struct model *model = f->model;
    bool alone = model->sizes.ranks == 1;
    struct embed_args args = {
        .act = alone ? model->act : DTYPE_F32,
        .table = weight_at(f->weights, MODEL_EMBED),
        .token = model_state(model, model->layout.token),
        .out = model_act(model, alone ? op->out : BUFFER_PARTIAL),
        .token_count = f->rows,
        .width = model->sizes.hidden,
        .first = model->sizes.vocab.first,
        .vocab = model->sizes.vocab.whole,
    };
    enum status status = op_embed(model, &args);
    return alone || status != STATUS_OK ? status : forward_ranks_sum(f, op->out);
}

// Returns the weight of the product that follows an op, which the op may prefetch, or NULL if
// another op follows.
static const struct weight *next_of(const struct forward *f, const struct forward_op *op)
{
    bool product = op[1].run == forward_gemm || op[1].run == forward_sum ||
                   op[1].run == forward_logits || op[1].run == forward_head;
    return product ? weight_at(f->weights, op[1].weight) : NULL;
}

static enum status decoder_norm(struct forward *f, const struct forward_op *op)
{
    struct model *model = f->model;
    // The first norm has nothing to add.
    bool first = f->layer == 0 && op->weight == LAYER_NORM_ATTN;
    struct rms_norm_args args = {
        .act = model->act,
        .residual = model_act(model, op->in),
        .add = first ? NULL : model_act(model, op->add),
        .weight = weight_at(f->weights, op->weight),
        .out = model_act(model, op->out),
        .rows = f->rows,
        .width = model->sizes.hidden,
        .epsilon = (float)model->config.epsilon,
        .next = next_of(f, op),
    };
    return op_rms_norm(model, &args);
}

// Byte strides of the KV blocks: [layer][K|V][kv_head][token][dim].
struct strides {
    uint64_t layer, value, head, token;
};

static struct strides kv_strides(const struct model *model, uint32_t layer)
{
    uint64_t token = kv_token_bytes(model->facts.kv_dtype, model->sizes.head_dim);
    uint64_t head = token * model->facts.block_tokens;
    uint64_t value = head * model->sizes.kv_heads.count;
    return (struct strides){layer * 2 * value, value, head, token};
}

static enum status qkv_post(struct forward *f, const struct forward_op *op)
{
    struct model *model = f->model;
    struct strides strides = kv_strides(model, f->layer);
    struct qkv_post_args args = {
        .act = model->act,
        .kv = model->facts.kv_dtype,
        .qkv = model_act(model, op->in),
        .q_norm = weight_at(f->weights, LAYER_Q_NORM),
        .k_norm = weight_at(f->weights, LAYER_K_NORM),
        .cos_sin = model->rope,
        .position = model_state(model, model->layout.position),
        .kv_write_offset = model_state(model, model->layout.kv_write_offset),
        .kv_base = model->kv.base,
        .layer_offset = strides.layer,
        .value_offset = strides.value,
        .head_bytes = strides.head,
        .shape = model->limits.attn,
        .token_count = f->rows,
        .rotary_dim = model->config.rope.dim,
        .epsilon = (float)model->config.epsilon,
    };
    return op_qkv_post(model, &args);
}

static enum status decoder_attend(struct forward *f, const struct forward_op *op)
{
    struct model *model = f->model;
    struct strides strides = kv_strides(model, f->layer);
    struct attn_args args = {
        .act = model->act,
        .kv = model->facts.kv_dtype,
        .qkv = model_act(model, op->in),
        .out = model_act(model, op->out),
        .step = model_record(model),
        .step_host = f->host,
        .block_table = model->slots.block_table,
        .kv_base = model->kv.base,
        .layer_offset = strides.layer,
        .value_offset = strides.value,
        .head_bytes = strides.head,
        .token_bytes = strides.token,
        .shape = model->limits.attn,
        .blocks_max = model->facts.limits.blocks_max,
        .block_shift = (uint32_t)__builtin_ctz(model->facts.block_tokens),
        .row_count = f->host->row_count,
        .token_count = f->rows,
        .next = next_of(f, op),
    };
    bool full = model->config.full_layers[f->layer];
    uint32_t window = model->config.window;
    args.shape.window = full || window >= model->facts.max_model_len ? 0 : window;
    return op_attn(model, &args);
}

static enum status decoder_swiglu(struct forward *f, const struct forward_op *op)
{
    struct model *model = f->model;
    struct swiglu_args args = {
        model->act, model_act(model, op->in),        model_act(model, op->out),
        f->rows,    model->sizes.intermediate.count, next_of(f, op)};
    return op_swiglu(model, &args);
}

static const struct forward_op decoder_first[] = {
    {decoder_embed, .out = BUFFER_RESIDUAL},
    {.run = NULL},
};

// The next norm adds BUFFER_DELTA to the residual.
static const struct forward_op decoder_layer[] = {
    {decoder_norm, BUFFER_RESIDUAL, BUFFER_NORMED, .weight = LAYER_NORM_ATTN, .add = BUFFER_DELTA},
    {forward_gemm, BUFFER_NORMED, BUFFER_QKV, .weight = LAYER_QKV, .bias = LAYER_QKV_BIAS},
    {qkv_post, .in = BUFFER_QKV},
    {decoder_attend, .in = BUFFER_QKV, .out = BUFFER_ATTN},
    {forward_sum, BUFFER_ATTN, BUFFER_DELTA, .weight = LAYER_O, .bias = LAYER_O_BIAS},
    {decoder_norm, BUFFER_RESIDUAL, BUFFER_NORMED, .weight = LAYER_NORM_FFN, .add = BUFFER_DELTA},
    {forward_gemm, BUFFER_NORMED, BUFFER_UP, .weight = LAYER_UP, .bias = LAYER_UP_BIAS},
    {decoder_swiglu, .in = BUFFER_UP, .out = BUFFER_FFN},
    {forward_sum, BUFFER_FFN, BUFFER_DELTA, .weight = LAYER_DOWN, .bias = LAYER_DOWN_BIAS},
    {.run = NULL},
};

// The output head is computed only for the rows that want a token, not for entire prompts.
static const struct forward_op decoder_generate[] = {
    {forward_gather, .in = BUFFER_RESIDUAL, .out = BUFFER_LAST},
    {forward_gather, .in = BUFFER_DELTA, .out = BUFFER_LAST_DELTA},
    {decoder_norm, BUFFER_LAST, BUFFER_NORMED, .weight = MODEL_FINAL_NORM,
     .add = BUFFER_LAST_DELTA},
    {forward_logits, BUFFER_NORMED, BUFFER_LOGITS, .weight = MODEL_HEAD},
    {.run = NULL},
};

static const struct forward_op decoder_generate_in_place[] = {
    {decoder_norm, BUFFER_RESIDUAL, BUFFER_NORMED, .weight = MODEL_FINAL_NORM, .add = BUFFER_DELTA},
    {forward_logits, BUFFER_NORMED, BUFFER_LOGITS, .weight = MODEL_HEAD},
    {.run = NULL},
};

static const struct forward_op decoder_score[] = {
    {forward_gather, .in = BUFFER_RESIDUAL, .out = BUFFER_LAST},
    {forward_gather, .in = BUFFER_DELTA, .out = BUFFER_LAST_DELTA},
    {decoder_norm, BUFFER_LAST, BUFFER_NORMED, .weight = MODEL_FINAL_NORM,
     .add = BUFFER_LAST_DELTA},
    {forward_head, BUFFER_NORMED, BUFFER_VALUES, .weight = MODEL_SCORE, .bias = MODEL_SCORE_BIAS},
    {.run = NULL},
};

// Every token is normalised, because mean pooling reads all of them.
static const struct forward_op decoder_pool[] = {
    {decoder_norm, BUFFER_RESIDUAL, BUFFER_NORMED, .weight = MODEL_FINAL_NORM, .add = BUFFER_DELTA},
    {forward_pool, .in = BUFFER_NORMED, .out = BUFFER_VALUES},
    {.run = NULL},
};

const struct forward_lists decoder_lists = {
    .first = decoder_first,
    .layer = decoder_layer,
    .last = {[MODEL_GENERATOR] = decoder_generate,
             [MODEL_EMBEDDER] = decoder_pool,
             [MODEL_RERANKER] = decoder_score},
    .last_in_place = decoder_generate_in_place,
};
