// SPDX-License-Identifier: Apache-2.0
// Makes the op lists of a model; see lists.h. The list of a layer follows from its kind: where its
// norms are, whether keys and values are kept in KV blocks, whether its feed-forward part is gated.
// Loading thread.
#include "runtime/model/lists.h"

#include "runtime/model/forward.h"
#include "runtime/model/weights.h"

#include <string.h>

struct layer_list {
    struct forward_op *ops; // [most], zeroed
    uint32_t count, most;
};

static void list_add(struct layer_list *list, struct forward_op op)
{
    check(list->count < list->most - 1, "more than %u ops in a list", list->most);
    list->ops[list->count++] = op;
}

// Adds a product or a norm. It has a bias if the model has one for this weight.
static void list_add_biased(struct layer_list *list,
                            enum status (*run)(struct forward *, const struct forward_op *),
                            enum model_buffer in, enum model_buffer out, uint32_t weight)
{
    list_add(list, (struct forward_op){
                       .run = run, .in = in, .out = out, .weight = weight, .bias = weight + 1});
}

// Adds the norm of the residual, to which the op first adds the last output.
static void list_add_norm(struct layer_list *list, uint32_t weight)
{
    list_add(list, (struct forward_op){.run = layer_norm_one,
                                       .in = BUFFER_RESIDUAL,
                                       .out = BUFFER_NORMED,
                                       .weight = weight,
                                       .bias = weight + 1,
                                       .add = BUFFER_DELTA});
}

// Adds the norm of the sum of residual and output, if the layer has it.
static void list_add_sum_norm(struct layer_list *list, const struct layer_kind *kind,
                              uint32_t weight)
{
    if (kind->norms & NORM_SUM)
        list_add(list, (struct forward_op){.run = layer_norm_sum,
                                           .in = BUFFER_RESIDUAL,
                                           .out = BUFFER_RESIDUAL,
                                           .weight = weight,
                                           .bias = weight + 1,
                                           .add = BUFFER_DELTA});
}

// Adds the norm of an output, if the layer has it.
static void list_add_output_norm(struct layer_list *list, const struct layer_kind *kind,
                                 uint32_t weight)
{
    if (kind->norms & NORM_AFTER)
        list_add(list, (struct forward_op){.run = layer_norm_one,
                                           .in = BUFFER_DELTA,
                                           .out = BUFFER_DELTA,
                                           .weight = weight});
}

// Adds the norm before attention or before the feed-forward part; returns the buffer that the
// product reads.
static enum model_buffer list_add_input(struct layer_list *list, const struct layer_kind *kind,
                                        uint32_t weight)
{
    bool bare = kind->norms == NORM_AFTER || (kind->bare && weight == LAYER_NORM_ATTN);
    if (bare) // the last output is waiting to be added
        list_add(list,
                 (struct forward_op){.run = layer_add, .in = BUFFER_RESIDUAL, .add = BUFFER_DELTA});
    if (bare || !(kind->norms & NORM_BEFORE))
        return BUFFER_RESIDUAL;
    list_add_norm(list, weight);
    return BUFFER_NORMED;
}

static void list_add_attention(struct layer_list *list, const struct layer_kind *kind,
                               enum model_buffer in)
{
    list_add_biased(list, forward_gemm, in, BUFFER_QKV, LAYER_QKV);
    if (kind->qk_norm == QK_NORM_ALL)
        list_add(list, (struct forward_op){.run = layer_norm_heads, .in = BUFFER_QKV});
    if (kind->paged || kind->rotates || kind->qk_norm == QK_NORM_EACH)
        list_add(list, (struct forward_op){.run = layer_qkv_post, .in = BUFFER_QKV});
    list_add(list, (struct forward_op){.run = kind->paged ? layer_attend_paged : layer_attend_rows,
                                       .in = BUFFER_QKV,
                                       .out = BUFFER_ATTN});
    list_add_biased(list, forward_sum, BUFFER_ATTN, BUFFER_DELTA, LAYER_O);
    list_add_output_norm(list, kind, LAYER_POST_ATTN);
    list_add_sum_norm(list, kind, LAYER_NORM_ATTN);
}

static void list_add_ffn(struct layer_list *list, const struct layer_kind *kind,
                         enum model_buffer in)
{
    enum model_buffer inner = kind->gated ? BUFFER_FFN : BUFFER_UP;
    list_add_biased(list, forward_gemm, in, BUFFER_UP, LAYER_UP);
    if (kind->gated)
        list_add(list, (struct forward_op){
                           .run = layer_gate, .in = BUFFER_UP, .out = inner, .weight = LAYER_UP});
    else
        list_add(list, (struct forward_op){.run = layer_activate, .in = BUFFER_UP});
    list_add_biased(list, forward_sum, inner, BUFFER_DELTA, LAYER_DOWN);
    list_add_output_norm(list, kind, LAYER_POST_FFN);
    list_add_sum_norm(list, kind, LAYER_NORM_FFN);
}

// Adds the ops of the shared expert. layer_combine adds its output to that of the experts.
static void list_add_shared(struct layer_list *list, const struct arch_experts *names,
                            enum model_buffer in)
{
    list_add_biased(list, forward_gemm, in, BUFFER_UP, LAYER_SHARED_UP);
    list_add(list,
             (struct forward_op){
                 .run = layer_gate, .in = BUFFER_UP, .out = BUFFER_FFN, .weight = LAYER_SHARED_UP});
    list_add_biased(list, forward_part, BUFFER_FFN, BUFFER_DELTA, LAYER_SHARED_DOWN);
    if (names->shared_factor)
        list_add(list, (struct forward_op){.run = forward_head,
                                           .in = in,
                                           .out = BUFFER_SHARED_FACTOR,
                                           .weight = LAYER_SHARED_FACTOR});
}

static void list_add_experts(struct layer_list *list, const struct model_config *config,
                             const struct layer_kind *kind, enum model_buffer in)
{
    const struct arch_experts *names = config->arch->experts;
    bool shared = config->experts.shared_width > 0;
    if (shared)
        list_add_shared(list, names, in);
    list_add(list, (struct forward_op){.run = forward_head,
                                       .in = in,
                                       .out = BUFFER_ROUTER,
                                       .weight = LAYER_ROUTER,
                                       .bias = LAYER_ROUTER_BIAS});
    list_add(list, (struct forward_op){.run = layer_route,
                                       .in = BUFFER_ROUTER,
                                       .out = BUFFER_ROUTING,
                                       .weight = LAYER_ROUTER_CORRECTION});
    list_add(list, (struct forward_op){.run = layer_experts,
                                       .in = in,
                                       .out = BUFFER_EXPERT_UP,
                                       .weight = LAYER_EXPERT_UP,
                                       .bias = LAYER_EXPERT_UP_BIAS,
                                       .also = BUFFER_ROUTING});
    list_add(list, (struct forward_op){.run = layer_gate,
                                       .in = BUFFER_EXPERT_UP,
                                       .out = BUFFER_EXPERT_FFN,
                                       .weight = LAYER_EXPERT_UP});
    list_add(list, (struct forward_op){.run = layer_experts,
                                       .in = BUFFER_EXPERT_FFN,
                                       .out = BUFFER_EXPERT_OUT,
                                       .weight = LAYER_EXPERT_DOWN,
                                       .bias = LAYER_EXPERT_DOWN_BIAS,
                                       .also = BUFFER_ROUTING});
    bool factor = shared && names->shared_factor;
    list_add(list, (struct forward_op){.run = layer_combine,
                                       .in = BUFFER_EXPERT_OUT,
                                       .out = BUFFER_DELTA,
                                       .add = shared ? BUFFER_DELTA : BUFFER_NONE,
                                       .also = factor ? BUFFER_SHARED_FACTOR : BUFFER_NONE});
    list_add_output_norm(list, kind, LAYER_POST_FFN);
}

static void list_add_layer(struct layer_list *list, const struct model_config *config,
                           const struct layer_kind *kind)
{
    enum model_buffer in = list_add_input(list, kind, LAYER_NORM_ATTN);
    list_add_attention(list, kind, in);
    if (kind->parallel) // the ffn reads the same norm, so the output of attention is added alone
        list_add(list,
                 (struct forward_op){.run = layer_add, .in = BUFFER_RESIDUAL, .add = BUFFER_DELTA});
    else
        in = list_add_input(list, kind, LAYER_NORM_FFN);
    if (kind->experts)
        list_add_experts(list, config, kind, in);
    else
        list_add_ffn(list, kind, in);
}

// Adds the norm after the layers, if the model has it; returns the buffer with the hidden states.
static enum model_buffer list_add_final_norm(struct layer_list *list, const struct layer_kind *kind)
{
    if (kind->norms & NORM_SUM)
        return BUFFER_RESIDUAL;
    list_add_norm(list, MODEL_FINAL_NORM);
    return BUFFER_NORMED;
}

// Makes the list of an embedder. Every token is normalised, because pooling may read all of them.
static void list_make_pool(struct layer_list *list, const struct model_config *config)
{
    enum model_buffer in = list_add_final_norm(list, &config->kinds[0]);
    if (config->module_count == 0) {
        list_add(list, (struct forward_op){.run = forward_pool, .in = in, .out = BUFFER_VALUES});
        return;
    }
    enum model_buffer vectors = BUFFER_LAST, other = BUFFER_LAST_DELTA;
    list_add(list, (struct forward_op){.run = forward_pool_act, .in = in, .out = vectors});
    for (uint32_t i = 0; i < config->module_count; i++) {
        const struct vector_module *module = &config->modules[i];
        uint32_t weight = MODEL_MODULE + 2 * i;
        if (module->norm) {
            list_add_biased(list, forward_vector_norm, vectors, vectors, weight);
            continue;
        }
        list_add_biased(list, forward_gemm, vectors, other, weight);
        if (module->tanh)
            list_add(list, (struct forward_op){
                               .run = forward_vector_tanh, .in = other, .weight = weight});
        enum model_buffer swapped = vectors;
        vectors = other;
        other = swapped;
    }
    list_add(list,
             (struct forward_op){.run = forward_vectors, .in = vectors, .out = BUFFER_VALUES});
}

// Makes the list of an encoder's score, which reads the first token of each row or the mean of its
// tokens.
static void list_make_score(struct layer_list *list, const struct model_config *config)
{
    enum model_buffer in = list_add_final_norm(list, &config->kinds[0]);
    bool first = config->score_pooling == POOL_CLS;
    list_add(list, (struct forward_op){.run = first ? forward_gather_first : forward_pool_score,
                                       .in = in,
                                       .out = BUFFER_LAST});
    list_add_biased(list, forward_gemm, BUFFER_LAST, BUFFER_LAST_DELTA, MODEL_SCORE_DENSE);
    list_add(list, (struct forward_op){.run = forward_score_activate, .in = BUFFER_LAST_DELTA});
    if (config->arch->head == HEAD_DENSE_NORM)
        list_add_biased(list, layer_norm_sum, BUFFER_LAST_DELTA, BUFFER_LAST_DELTA,
                        MODEL_SCORE_NORM);
    list_add_biased(list, forward_head, BUFFER_LAST_DELTA, BUFFER_VALUES, MODEL_SCORE);
}

void forward_lists_make(struct forward_lists *out, const struct model_config *config)
{
    const struct forward_ends *ends =
        config->arch->family == ARCH_DECODER ? &decoder_ends : &encoder_ends;
    memset(out, 0, sizeof *out);
    out->first = ends->first;
    out->last = ends->last[config->kind];
    out->last_in_place = ends->last_in_place;
    struct layer_list made = {out->ends, 0, ENDS_OPS_MAX};
    if (config->kind == MODEL_EMBEDDER)
        list_make_pool(&made, config);
    else if (config->arch->family == ARCH_ENCODER)
        list_make_score(&made, config);
    if (made.count > 0)
        out->last = out->ends;
    for (uint32_t i = 0; i < config->kind_count; i++) {
        struct layer_list list = {out->layer[i], 0, LAYER_OPS_MAX};
        list_add_layer(&list, config, &config->kinds[i]);
    }
}
