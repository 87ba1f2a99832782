// SPDX-License-Identifier: Apache-2.0
// The table of architectures; see arch.h. To add one: docs/ADDING_A_MODEL.md.
#include "runtime/model/arch.h"

#include "base/status.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

// Names that are equal in all decoders.
#define DECODER_NAMES                                                                              \
    .prefixes = {"model.", "", NULL}, .embed = {"embed_tokens.weight", SHARD_ROWS},                \
    .head = {"lm_head.weight", SHARD_ROWS}, .final_norm = "norm",                                  \
    .o = {"layers.%u.self_attn.o_proj", SHARD_COLUMNS},                                            \
    .down = {"layers.%u.mlp.down_proj", SHARD_COLUMNS}
#define QK_NORM_NAMES .q_norm = "layers.%u.self_attn.q_norm", .k_norm = "layers.%u.self_attn.k_norm"
#define QKV_NAMES                                                                                  \
    .q = {"layers.%u.self_attn.q_proj", SHARD_ROWS},                                               \
    .k = {"layers.%u.self_attn.k_proj", SHARD_ROWS},                                               \
    .v = {"layers.%u.self_attn.v_proj", SHARD_ROWS}
#define FFN_NAMES                                                                                  \
    .gate = {"layers.%u.mlp.gate_proj", SHARD_ROWS}, .up = {"layers.%u.mlp.up_proj", SHARD_ROWS}
#define FUSED_FFN_NAMES                                                                            \
    .gate = {"layers.%u.mlp.gate_up_proj", SHARD_ROWS},                                            \
    .up = {"layers.%u.mlp.gate_up_proj", SHARD_ROWS}
#define NORM_BEFORE_NAMES                                                                          \
    .anchor = "layers.0.input_layernorm.weight", .norm_attn = "layers.%u.input_layernorm",         \
    .norm_ffn = "layers.%u.post_attention_layernorm"

static const struct arch_names decoder_names = {
    DECODER_NAMES, QKV_NAMES, QK_NORM_NAMES, FFN_NAMES, NORM_BEFORE_NAMES,
};

static const struct arch_names phi3_names = {
    DECODER_NAMES,
    .q = {"layers.%u.self_attn.qkv_proj", SHARD_ROWS},
    .k = {"layers.%u.self_attn.qkv_proj", SHARD_ROWS},
    .v = {"layers.%u.self_attn.qkv_proj", SHARD_ROWS},
    FUSED_FFN_NAMES,
    NORM_BEFORE_NAMES,
};

static const struct arch_names gemma3_names = {
    DECODER_NAMES,
    QKV_NAMES,
    QK_NORM_NAMES,
    FFN_NAMES,
    .anchor = "layers.0.input_layernorm.weight",
    .norm_attn = "layers.%u.input_layernorm",
    .post_attn = "layers.%u.post_attention_layernorm",
    .norm_ffn = "layers.%u.pre_feedforward_layernorm",
    .post_ffn = "layers.%u.post_feedforward_layernorm",
};

static const struct arch_names glm4_names = {
    DECODER_NAMES,
    QKV_NAMES,
    FUSED_FFN_NAMES,
    .anchor = "layers.0.input_layernorm.weight",
    .norm_attn = "layers.%u.input_layernorm",
    .post_attn = "layers.%u.post_self_attn_layernorm",
    .norm_ffn = "layers.%u.post_attention_layernorm",
    .post_ffn = "layers.%u.post_mlp_layernorm",
};

static const struct arch_names cohere_names = {
    DECODER_NAMES,
    QKV_NAMES,
    FFN_NAMES,
    .anchor = "layers.0.input_layernorm.weight",
    .norm_attn = "layers.%u.input_layernorm",
};

static const struct arch_names hunyuan_names = {
    DECODER_NAMES,
    QKV_NAMES,
    FFN_NAMES,
    NORM_BEFORE_NAMES,
    .q_norm = "layers.%u.self_attn.query_layernorm",
    .k_norm = "layers.%u.self_attn.key_layernorm",
};

// Families without norms before attention and ffn: OLMo 2 and 3, EXAONE 4.
static const struct arch_names after_names = {
    DECODER_NAMES,
    QKV_NAMES,
    QK_NORM_NAMES,
    FFN_NAMES,
    .anchor = "layers.0.post_attention_layernorm.weight",
    .post_attn = "layers.%u.post_attention_layernorm",
    .post_ffn = "layers.%u.post_feedforward_layernorm",
};

// Tensor names that several mixtures of experts share; a family adds its other names.
#define EXPERT_NAMES                                                                               \
    .router = "layers.%u.mlp.gate", .gate = "layers.%u.mlp.experts.%u.gate_proj",                  \
    .up = "layers.%u.mlp.experts.%u.up_proj", .down = "layers.%u.mlp.experts.%u.down_proj"
#define BLOCK_SPARSE_NAMES                                                                         \
    .router = "layers.%u.block_sparse_moe.gate",                                                   \
    .gate = "layers.%u.block_sparse_moe.experts.%u.w1",                                            \
    .up = "layers.%u.block_sparse_moe.experts.%u.w3",                                              \
    .down = "layers.%u.block_sparse_moe.experts.%u.w2"
#define SHARED_NAMES(at)                                                                           \
    .shared_gate = {"layers.%u.mlp." at ".gate_proj", SHARD_ROWS},                                 \
    .shared_up = {"layers.%u.mlp." at ".up_proj", SHARD_ROWS},                                     \
    .shared_down = {"layers.%u.mlp." at ".down_proj", SHARD_COLUMNS}

static const struct arch_experts qwen3_experts = {
    .score = ROUTE_SOFTMAX_ALL,
    .count = "num_experts",
    .chosen = "num_experts_per_tok",
    .width = "moe_intermediate_size",
    EXPERT_NAMES,
    // text parts of Qwen3-VL, as published or as transformers saves them
    .gate_stack = "layers.%u.mlp.experts.gate_up_proj",
    .up_stack = "layers.%u.mlp.experts.gate_up_proj",
    .down_stack = "layers.%u.mlp.experts.down_proj",
    .complete = true,
    .turned = true,
    .either = true,
};

static const struct arch_experts qwen2_experts = {
    .score = ROUTE_SOFTMAX_ALL,
    .count = "num_experts",
    .chosen = "num_experts_per_tok",
    .width = "moe_intermediate_size",
    .shared_width = "shared_expert_intermediate_size",
    EXPERT_NAMES,
    SHARED_NAMES("shared_expert"),
    .shared_factor = "layers.%u.mlp.shared_expert_gate",
};

static const struct arch_experts olmoe_experts = {
    .score = ROUTE_SOFTMAX_ALL,
    .count = "num_experts",
    .chosen = "num_experts_per_tok",
    .width = "intermediate_size",
    EXPERT_NAMES,
};

// Mixtral divides the softmax over all experts by its sum over the chosen ones. The result is the
// softmax over the chosen ones.
static const struct arch_experts mixtral_experts = {
    .score = ROUTE_SOFTMAX_CHOSEN,
    .count = "num_local_experts",
    .chosen = "num_experts_per_tok",
    .width = "intermediate_size",
    BLOCK_SPARSE_NAMES,
};

static const struct arch_experts minimax_experts = {
    .score = ROUTE_SIGMOID,
    .renormalises = true,
    .count = "num_local_experts",
    .chosen = "num_experts_per_tok",
    .width = "intermediate_size",
    .correction = "layers.%u.block_sparse_moe.e_score_correction_bias",
    BLOCK_SPARSE_NAMES,
};

static const struct arch_experts granite_experts = {
    .score = ROUTE_SOFTMAX_CHOSEN,
    .count = "num_local_experts",
    .chosen = "num_experts_per_tok",
    .width = "intermediate_size",
    .router = "layers.%u.block_sparse_moe.router.layer",
    .gate_stack = "layers.%u.block_sparse_moe.input_linear",
    .up_stack = "layers.%u.block_sparse_moe.input_linear",
    .down_stack = "layers.%u.block_sparse_moe.output_linear",
};

static const struct arch_experts glm4_experts = {
    .score = ROUTE_SIGMOID,
    .count = "n_routed_experts",
    .chosen = "num_experts_per_tok",
    .width = "moe_intermediate_size",
    .shared_count = "n_shared_experts",
    .correction = "layers.%u.mlp.gate.e_score_correction_bias",
    EXPERT_NAMES,
    SHARED_NAMES("shared_experts"),
};

static const struct arch_experts ernie_experts = {
    .score = ROUTE_SOFTMAX_ALL,
    .renormalises = true,
    .count = "moe_num_experts",
    .chosen = "moe_k",
    .width = "moe_intermediate_size",
    .shared_count = "moe_num_shared_experts",
    .correction = "layers.%u.mlp.moe_statics.e_score_correction_bias",
    EXPERT_NAMES,
    SHARED_NAMES("shared_experts"),
};

static const struct arch_experts gpt_oss_experts = {
    .score = ROUTE_SOFTMAX_CHOSEN,
    .count = "num_local_experts",
    .chosen = "num_experts_per_tok",
    .width = "intermediate_size",
    .router = "layers.%u.mlp.router",
    .gate_stack = "layers.%u.mlp.experts.gate_up_proj",
    .up_stack = "layers.%u.mlp.experts.gate_up_proj",
    .down_stack = "layers.%u.mlp.experts.down_proj",
    .complete = true,
    .turned = true,
    .paired = true,
    .biases = true,
    .clamped = true,
};

static const struct arch_names gpt_oss_names = {
    DECODER_NAMES, QKV_NAMES, FFN_NAMES, NORM_BEFORE_NAMES, .sinks = "layers.%u.self_attn.sinks",
};

#define ENCODER_NAMES(prefix)                                                                      \
    {                                                                                              \
        .prefixes = {prefix, "", "model.", NULL},                                                  \
        .anchor = "encoder.layer.0.attention.self.query.weight",                                   \
        .embed.name = "embeddings.word_embeddings.weight",                                         \
        .position = "embeddings.position_embeddings.weight",                                       \
        .type = "embeddings.token_type_embeddings.weight",                                         \
        .embed_norm = "embeddings.LayerNorm",                                                      \
        .q.name = "encoder.layer.%u.attention.self.query",                                         \
        .k.name = "encoder.layer.%u.attention.self.key",                                           \
        .v.name = "encoder.layer.%u.attention.self.value",                                         \
        .o.name = "encoder.layer.%u.attention.output.dense",                                       \
        .norm_attn = "encoder.layer.%u.attention.output.LayerNorm",                                \
        .norm_ffn = "encoder.layer.%u.output.LayerNorm",                                           \
        .up.name = "encoder.layer.%u.intermediate.dense",                                          \
        .down.name = "encoder.layer.%u.output.dense",                                              \
    }

static const struct arch_names distilbert_names = {
    .prefixes = {"distilbert.", "", NULL},
    .anchor = "transformer.layer.0.attention.q_lin.weight",
    .embed.name = "embeddings.word_embeddings.weight",
    .position = "embeddings.position_embeddings.weight",
    .embed_norm = "embeddings.LayerNorm",
    .q.name = "transformer.layer.%u.attention.q_lin",
    .k.name = "transformer.layer.%u.attention.k_lin",
    .v.name = "transformer.layer.%u.attention.v_lin",
    .o.name = "transformer.layer.%u.attention.out_lin",
    .norm_attn = "transformer.layer.%u.sa_layer_norm",
    .norm_ffn = "transformer.layer.%u.output_layer_norm",
    .up.name = "transformer.layer.%u.ffn.lin1",
    .down.name = "transformer.layer.%u.ffn.lin2",
};

static const struct arch_names mpnet_names = {
    .prefixes = {"mpnet.", "", NULL},
    .anchor = "encoder.layer.0.attention.attn.q.weight",
    .embed.name = "embeddings.word_embeddings.weight",
    .position = "embeddings.position_embeddings.weight",
    .embed_norm = "embeddings.LayerNorm",
    .distance = "encoder.relative_attention_bias.weight",
    .q.name = "encoder.layer.%u.attention.attn.q",
    .k.name = "encoder.layer.%u.attention.attn.k",
    .v.name = "encoder.layer.%u.attention.attn.v",
    .o.name = "encoder.layer.%u.attention.attn.o",
    .norm_attn = "encoder.layer.%u.attention.LayerNorm",
    .norm_ffn = "encoder.layer.%u.output.LayerNorm",
    .up.name = "encoder.layer.%u.intermediate.dense",
    .down.name = "encoder.layer.%u.output.dense",
};

static const struct arch_names nomic_names = {
    .prefixes = {"", "bert.", "nomic_bert.", NULL},
    .anchor = "encoder.layers.0.attn.Wqkv.weight",
    .embed.name = "embeddings.word_embeddings.weight",
    .type = "embeddings.token_type_embeddings.weight",
    .embed_norm = "emb_ln",
    .q.name = "encoder.layers.%u.attn.Wqkv",
    .k.name = "encoder.layers.%u.attn.Wqkv",
    .v.name = "encoder.layers.%u.attn.Wqkv",
    .o.name = "encoder.layers.%u.attn.out_proj",
    .norm_attn = "encoder.layers.%u.norm1",
    .norm_ffn = "encoder.layers.%u.norm2",
    .gate.name = "encoder.layers.%u.mlp.fc12",
    .up.name = "encoder.layers.%u.mlp.fc11",
    .down.name = "encoder.layers.%u.mlp.fc2",
};

static const struct arch_names modernbert_names = {
    .prefixes = {"model.", "", NULL},
    .anchor = "layers.0.attn.Wqkv.weight",
    .embed.name = "embeddings.tok_embeddings.weight",
    .embed_norm = "embeddings.norm",
    .final_norm = "final_norm",
    .q.name = "layers.%u.attn.Wqkv",
    .k.name = "layers.%u.attn.Wqkv",
    .v.name = "layers.%u.attn.Wqkv",
    .o.name = "layers.%u.attn.Wo",
    .norm_attn = "layers.%u.attn_norm",
    .norm_ffn = "layers.%u.mlp_norm",
    .gate.name = "layers.%u.mlp.Wi",
    .up.name = "layers.%u.mlp.Wi",
    .down.name = "layers.%u.mlp.Wo",
};

static const struct arch_names gte_names = {
    .prefixes = {"new.", "gte.", "", NULL},
    .anchor = "encoder.layer.0.attention.qkv_proj.weight",
    .embed.name = "embeddings.word_embeddings.weight",
    .type = "embeddings.token_type_embeddings.weight",
    .embed_norm = "embeddings.LayerNorm",
    .q.name = "encoder.layer.%u.attention.qkv_proj",
    .k.name = "encoder.layer.%u.attention.qkv_proj",
    .v.name = "encoder.layer.%u.attention.qkv_proj",
    .o.name = "encoder.layer.%u.attention.o_proj",
    .norm_attn = "encoder.layer.%u.attn_ln",
    .norm_ffn = "encoder.layer.%u.mlp_ln",
    .gate.name = "encoder.layer.%u.mlp.up_gate_proj",
    .up.name = "encoder.layer.%u.mlp.up_gate_proj",
    .down.name = "encoder.layer.%u.mlp.down_proj",
};

static const struct arch_names jina_names = {
    .prefixes = {"bert.", "", NULL},
    .anchor = "encoder.layer.0.mlp.gated_layers.weight",
    .embed.name = "embeddings.word_embeddings.weight",
    .type = "embeddings.token_type_embeddings.weight",
    .embed_norm = "embeddings.LayerNorm",
    .q.name = "encoder.layer.%u.attention.self.query",
    .k.name = "encoder.layer.%u.attention.self.key",
    .v.name = "encoder.layer.%u.attention.self.value",
    .o.name = "encoder.layer.%u.attention.output.dense",
    .norm_attn = "encoder.layer.%u.attention.output.LayerNorm",
    .norm_ffn = "encoder.layer.%u.mlp.layernorm",
    .gate.name = "encoder.layer.%u.mlp.gated_layers",
    .gate_apart.name = "encoder.layer.%u.mlp.gated_layers_w",
    .up.name = "encoder.layer.%u.mlp.gated_layers",
    .down.name = "encoder.layer.%u.mlp.wo",
};

static const struct arch_names bert_names = ENCODER_NAMES("bert.");
static const struct arch_names roberta_names = ENCODER_NAMES("roberta.");

#define DECODER(published, head_kind, more_flags, ...)                                             \
    {.name = published,                                                                            \
     .family = ARCH_DECODER,                                                                       \
     .head = head_kind,                                                                            \
     .flags = (more_flags),                                                                        \
     .names = &decoder_names,                                                                      \
     .norm_epsilon = 1e-6,                                                                         \
     __VA_ARGS__}
// A decoder with names, norm epsilon, defaults and keys of its own.
#define FAMILY(published, more_flags, names_of, epsilon, json, keys)                               \
    MIXTURE(published, more_flags, names_of, NULL, epsilon, json, keys)
// A decoder in which some or all layers are mixtures of experts.
#define MIXTURE(published, more_flags, names_of, experts_of, epsilon, json, ...)                   \
    {.name = published,                                                                            \
     .family = ARCH_DECODER,                                                                       \
     .head = HEAD_VOCABULARY,                                                                      \
     .flags = (more_flags),                                                                        \
     .names = &names_of,                                                                           \
     .experts = experts_of,                                                                        \
     .norm_epsilon = epsilon,                                                                      \
     .defaults = json,                                                                             \
     .reads = __VA_ARGS__}
// An encoder; form_of: its differences from BERT.
#define FORM(published, head_kind, form_of, names_of, ...)                                         \
    {.name = published,                                                                            \
     .family = ARCH_ENCODER,                                                                       \
     .head = head_kind,                                                                            \
     .form = (form_of),                                                                            \
     .names = &names_of,                                                                           \
     .norm_epsilon = 1e-12,                                                                        \
     __VA_ARGS__}

// BERT and RoBERTa.
#define ENCODER(published, head_kind, more_flags, names_of)                                        \
    FORM(published, head_kind, 0, names_of, .flags = (more_flags), .types = 2)

// Keys that an architecture reads (config.c, config_layers.c, config_rope.c).
#define WINDOW_KEYS "sliding_window"
#define PATTERN_KEYS WINDOW_KEYS " sliding_window_pattern"
#define GEMMA3_KEYS PATTERN_KEYS " query_pre_attn_scalar hidden_activation rope_local_base_freq"
// Cohere has the rotary pairs of ARCH_PAIRED; its config.json calls them rope_gptj.
#define COHERE_KEYS "layer_norm_eps logit_scale position_embedding_type"
#define TEMPERATURE_KEYS WINDOW_KEYS " rope.llama_4_scaling_beta"
#define POSITION_KEYS "position_embedding_type"
#define JINA_KEYS POSITION_KEYS " feed_forward_type"
#define MODERNBERT_KEYS "local_attention"
#define GEMMA3_TEXT_KEYS GEMMA3_KEYS " use_bidirectional_attention"
#define GRANITE_KEYS "embedding_multiplier residual_multiplier attention_multiplier logits_scaling"

#define QWEN_MOE_KEYS                                                                              \
    WINDOW_KEYS " num_experts num_local_experts num_experts_per_tok moe_intermediate_size "        \
                "norm_topk_prob decoder_sparse_step mlp_only_layers"
#define QWEN2_MOE_KEYS QWEN_MOE_KEYS " shared_expert_intermediate_size"
// Files of Qwen3-Coder have use_qk_norm, which the reference does not read.
#define QWEN3_MOE_KEYS QWEN_MOE_KEYS " use_qk_norm"
// transformers 5 saves the number of experts under this name.
#define QWEN3_MOE_RENAMES "num_experts:num_local_experts"
#define OLMOE_KEYS "num_experts num_experts_per_tok norm_topk_prob"
#define MIXTRAL_KEYS WINDOW_KEYS " num_local_experts num_experts_per_tok"
#define MINIMAX_KEYS                                                                               \
    "num_local_experts num_experts_per_tok rotary_dim use_qk_norm scoring_func use_routing_bias"
#define GPT_OSS_KEYS                                                                               \
    PATTERN_KEYS " num_local_experts num_experts_per_tok swiglu_limit rope.truncate"
#define GRANITE_MOE_KEYS GRANITE_KEYS " num_local_experts num_experts_per_tok"
#define GLM4_MOE_KEYS                                                                              \
    "n_routed_experts num_local_experts num_experts_per_tok moe_intermediate_size "                \
    "n_shared_experts n_group topk_group routed_scaling_factor norm_topk_prob "                    \
    "first_k_dense_replace use_qk_norm scoring_func"
#define ERNIE_MOE_KEYS                                                                             \
    "moe_num_experts moe_k moe_intermediate_size moe_num_shared_experts moe_layer_start_index "    \
    "moe_layer_end_index moe_layer_interval"

enum {
    LLAMA = 0,
    MISTRAL = ARCH_WINDOW,
    QWEN2 = ARCH_QKV_BIAS | ARCH_WINDOW_BY_FLAG,
    QWEN3 = ARCH_QK_NORM | ARCH_WINDOW_BY_FLAG,
    ROBERTA = ARCH_POSITION_OFFSET,
    GEMMA = ARCH_NORM_LESS_ONE | ARCH_EMBED_ROOT | ARCH_GEGLU,
    GEMMA3 = GEMMA | ARCH_NORM_AFTER | ARCH_QK_NORM | ARCH_QUERY_SCALAR | ARCH_WINDOW |
             ARCH_WINDOW_PATTERN | ARCH_WINDOW_ROPE,
    OLMO2 = ARCH_NORM_ONLY_AFTER | ARCH_QK_NORM_ALL,
    OLMO3 = OLMO2 | ARCH_WINDOW | ARCH_WINDOW_PATTERN | ARCH_WINDOW_ROPE,
    EXAONE4 = ARCH_NORM_ONLY_AFTER | ARCH_QK_NORM | ARCH_WINDOW | ARCH_WINDOW_PATTERN |
              ARCH_WINDOW_ROPE_ONLY,
    COHERE = ARCH_LAYER_NORM | ARCH_PARALLEL | ARCH_LOGIT_SCALE | ARCH_PAIRED,
    COHERE2 = COHERE | ARCH_WINDOW | ARCH_WINDOW_PATTERN | ARCH_ROPE_WINDOW,
    GLM4 = ARCH_NORM_AFTER | ARCH_PAIRED | ARCH_OUT_BIAS,
    HELIUM = ARCH_PAIRED | ARCH_OUT_BIAS,
    NOMIC = FORM_ROPE | FORM_BIAS_KEYS | FORM_SILU,
    MODERNBERT = FORM_ROPE | FORM_BEFORE | FORM_BIAS_KEYS | FORM_WINDOW,
    GTE = FORM_ROPE | FORM_UP_FIRST | FORM_UP_PLAIN,
    JINA = FORM_ALIBI | FORM_UP_PLAIN,
};

// Defaults of the reference's configuration classes.
#define COHERE_DEFAULTS                                                                            \
    "{\"max_position_embeddings\":8192,\"rope_theta\":500000.0,\"logit_scale\":0.0625,"            \
    "\"tie_word_embeddings\":true}"
#define COHERE2_DEFAULTS                                                                           \
    "{\"max_position_embeddings\":8192,\"logit_scale\":0.0625,\"sliding_window\":4096,"            \
    "\"sliding_window_pattern\":4,\"tie_word_embeddings\":true}"
#define ERNIE4_5_DEFAULTS                                                                          \
    "{\"num_key_value_heads\":2,\"head_dim\":128,\"rope_theta\":500000.0,"                         \
    "\"max_position_embeddings\":131072,\"tie_word_embeddings\":true}"
#define EXAONE4_DEFAULTS                                                                           \
    "{\"num_key_value_heads\":32,\"max_position_embeddings\":2048,\"sliding_window\":4096,"        \
    "\"sliding_window_pattern\":4}"
#define GEMMA_DEFAULTS                                                                             \
    "{\"num_key_value_heads\":16,\"head_dim\":256,\"hidden_act\":\"gelu_pytorch_tanh\","           \
    "\"max_position_embeddings\":8192,\"tie_word_embeddings\":true}"
#define GEMMA3_DEFAULTS                                                                            \
    "{\"vocab_size\":262208,\"hidden_size\":2304,\"intermediate_size\":9216,"                      \
    "\"num_hidden_layers\":26,\"num_attention_heads\":8,\"num_key_value_heads\":4,"                \
    "\"head_dim\":256,\"hidden_activation\":\"gelu_pytorch_tanh\",\"query_pre_attn_scalar\":256,"  \
    "\"max_position_embeddings\":131072,\"sliding_window\":4096,\"sliding_window_pattern\":6,"     \
    "\"rope_theta\":1000000.0,\"rope_local_base_freq\":10000.0,\"tie_word_embeddings\":true}"
#define DISTILBERT_DEFAULTS "{\"max_position_embeddings\":512}"
#define MODERNBERT_DEFAULTS                                                                        \
    "{\"rope_theta\":160000.0,\"rope_local_base_freq\":10000.0,\"local_attention\":128,"           \
    "\"global_attn_every_n_layers\":3,\"layer_norm_eps\":1e-5,\"max_position_embeddings\":8192}"
#define NOMIC_DEFAULTS "{\"rope_theta\":1000.0,\"hidden_act\":\"silu\"}"
#define NEW_DEFAULTS "{\"rope_theta\":10000.0,\"type_vocab_size\":1}"
#define GTE_DEFAULTS                                                                               \
    "{\"rope_theta\":160000.0,\"type_vocab_size\":1,\"max_position_embeddings\":8192}"
#define DISTILBERT_RENAMES                                                                         \
    "hidden_size:dim num_hidden_layers:n_layers num_attention_heads:n_heads "                      \
    "intermediate_size:hidden_dim hidden_act:activation"
#define MODERNBERT_RENAMES                                                                         \
    "hidden_act:hidden_activation layer_norm_eps:norm_eps rope_theta:global_rope_theta "           \
    "rope_local_base_freq:local_rope_theta"
#define NOMIC_RENAMES                                                                              \
    "hidden_size:n_embd num_hidden_layers:n_layer num_attention_heads:n_head "                     \
    "intermediate_size:n_inner max_position_embeddings:n_positions "                               \
    "hidden_act:activation_function layer_norm_eps:layer_norm_epsilon "                            \
    "rope_theta:rotary_emb_base attention_bias:qkv_proj_bias mlp_bias:mlp_fc2_bias"
#define GLM4_DEFAULTS                                                                              \
    "{\"num_key_value_heads\":2,\"head_dim\":128,\"partial_rotary_factor\":0.5,"                   \
    "\"max_position_embeddings\":131072,\"attention_bias\":true}"
#define HELIUM_DEFAULTS                                                                            \
    "{\"num_key_value_heads\":20,\"head_dim\":128,\"rope_theta\":100000.0,"                        \
    "\"max_position_embeddings\":4096}"
#define HUNYUAN_DEFAULTS "{\"max_position_embeddings\":2048}"
#define MINISTRAL3_DEFAULTS                                                                        \
    "{\"num_key_value_heads\":8,\"head_dim\":128,\"max_position_embeddings\":262144,"              \
    "\"sliding_window\":null,\"rope_scaling\":{\"type\":\"yarn\",\"rope_theta\":1000000.0,"        \
    "\"factor\":16.0,\"original_max_position_embeddings\":16384,\"beta_fast\":32.0,"               \
    "\"beta_slow\":1.0,\"mscale_all_dim\":1.0,\"mscale\":1.0,\"llama_4_scaling_beta\":0.1}}"
#define OLMO2_DEFAULTS "{\"max_position_embeddings\":2048}"
#define OLMO3_DEFAULTS                                                                             \
    "{\"max_position_embeddings\":2048,\"rope_theta\":500000.0,\"sliding_window\":4096,"           \
    "\"sliding_window_pattern\":4}"
#define PHI3_DEFAULTS "{\"max_position_embeddings\":4096,\"original_max_position_embeddings\":4096}"
#define SEED_OSS_DEFAULTS                                                                          \
    "{\"num_key_value_heads\":8,\"head_dim\":128,\"max_position_embeddings\":524288,"              \
    "\"attention_bias\":true}"
#define SMOLLM3_DEFAULTS                                                                           \
    "{\"num_key_value_heads\":4,\"max_position_embeddings\":32768,\"rope_theta\":2000000.0,"       \
    "\"no_rope_layer_interval\":4,\"tie_word_embeddings\":true}"

#define QWEN2_MOE_DEFAULTS                                                                         \
    "{\"max_position_embeddings\":32768,\"num_experts\":60,\"num_experts_per_tok\":4,"             \
    "\"moe_intermediate_size\":1408,\"shared_expert_intermediate_size\":5632,"                     \
    "\"num_key_value_heads\":16,\"sliding_window\":4096}"
#define QWEN3_MOE_DEFAULTS                                                                         \
    "{\"max_position_embeddings\":32768,\"num_experts\":128,\"num_experts_per_tok\":8,"            \
    "\"moe_intermediate_size\":768,\"num_key_value_heads\":4,\"sliding_window\":4096}"
#define OLMOE_DEFAULTS                                                                             \
    "{\"max_position_embeddings\":4096,\"num_experts\":64,\"num_experts_per_tok\":8}"
#define MIXTRAL_DEFAULTS                                                                           \
    "{\"num_key_value_heads\":8,\"max_position_embeddings\":131072,\"num_local_experts\":8,"       \
    "\"num_experts_per_tok\":2,\"rope_theta\":1000000.0,\"sliding_window\":null}"
#define MINIMAX_DEFAULTS                                                                           \
    "{\"num_key_value_heads\":8,\"head_dim\":128,\"max_position_embeddings\":196608,"              \
    "\"num_local_experts\":256,\"num_experts_per_tok\":8,\"rope_theta\":5000000.0}"
#define GRANITE_MOE_DEFAULTS                                                                       \
    "{\"max_position_embeddings\":2048,\"num_local_experts\":8,\"num_experts_per_tok\":2}"
#define GLM4_MOE_DEFAULTS                                                                          \
    "{\"num_key_value_heads\":8,\"partial_rotary_factor\":0.5,"                                    \
    "\"max_position_embeddings\":131072,\"n_routed_experts\":128,\"num_experts_per_tok\":8,"       \
    "\"moe_intermediate_size\":1408,\"n_shared_experts\":1,\"first_k_dense_replace\":1,"           \
    "\"norm_topk_prob\":true,\"num_nextn_predict_layers\":1}"
#define ERNIE_MOE_DEFAULTS                                                                         \
    "{\"num_key_value_heads\":4,\"rope_theta\":500000.0,\"max_position_embeddings\":131072,"       \
    "\"tie_word_embeddings\":true,\"moe_num_experts\":64,\"moe_k\":6,"                             \
    "\"moe_intermediate_size\":1536,\"moe_num_shared_experts\":2,\"moe_layer_start_index\":1}"

#define GPT_OSS_DEFAULTS                                                                           \
    "{\"num_key_value_heads\":8,\"head_dim\":64,\"attention_bias\":true,\"sliding_window\":128,"   \
    "\"sliding_window_pattern\":2,\"max_position_embeddings\":131072,\"rope_theta\":150000.0,"     \
    "\"num_local_experts\":128,\"num_experts_per_tok\":4,\"swiglu_limit\":7.0,"                    \
    "\"swiglu_alpha\":1.702,\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":32.0,"             \
    "\"beta_fast\":32.0,\"beta_slow\":1.0,\"truncate\":false,"                                     \
    "\"original_max_position_embeddings\":4096}}"

// Sorted by name, because users read this list in the error message for an unknown name.
static const struct architecture architectures[] = {
    ENCODER("BertForMaskedLM", HEAD_NONE, 0, bert_names),
    ENCODER("BertForSequenceClassification", HEAD_POOLER, 0, bert_names),
    ENCODER("BertModel", HEAD_NONE, 0, bert_names),
    ENCODER("CamembertForMaskedLM", HEAD_NONE, ROBERTA, roberta_names),
    ENCODER("CamembertForSequenceClassification", HEAD_CLASSIFIER, ROBERTA, roberta_names),
    ENCODER("CamembertModel", HEAD_NONE, ROBERTA, roberta_names),
    FAMILY("Cohere2ForCausalLM", COHERE2, cohere_names, 1e-5, COHERE2_DEFAULTS,
           COHERE_KEYS " " PATTERN_KEYS),
    FAMILY("CohereForCausalLM", COHERE, cohere_names, 1e-5, COHERE_DEFAULTS, COHERE_KEYS),
    FORM("DistilBertForMaskedLM", HEAD_NONE, 0, distilbert_names, .defaults = DISTILBERT_DEFAULTS,
         .renames = DISTILBERT_RENAMES),
    FORM("DistilBertForSequenceClassification", HEAD_PRE_CLASSIFIER, 0, distilbert_names,
         .defaults = DISTILBERT_DEFAULTS, .renames = DISTILBERT_RENAMES),
    FORM("DistilBertModel", HEAD_NONE, 0, distilbert_names, .defaults = DISTILBERT_DEFAULTS,
         .renames = DISTILBERT_RENAMES),
    FAMILY("Ernie4_5ForCausalLM", ARCH_PAIRED | ARCH_USE_BIAS, decoder_names, 1e-5,
           ERNIE4_5_DEFAULTS, NULL),
    MIXTURE("Ernie4_5_MoeForCausalLM", ARCH_PAIRED | ARCH_USE_BIAS, decoder_names, &ernie_experts,
            1e-5, ERNIE_MOE_DEFAULTS, ERNIE_MOE_KEYS),
    FAMILY("Exaone4ForCausalLM", EXAONE4, after_names, 1e-5, EXAONE4_DEFAULTS, PATTERN_KEYS),
    FAMILY("Gemma3ForCausalLM", GEMMA3, gemma3_names, 1e-6, GEMMA3_DEFAULTS, GEMMA3_KEYS),
    {.name = "Gemma3TextModel",
     .family = ARCH_DECODER,
     .head = HEAD_NONE,
     .flags = GEMMA3 | ARCH_BOTH_KEY,
     .names = &gemma3_names,
     .norm_epsilon = 1e-6,
     .defaults = GEMMA3_DEFAULTS,
     .reads = GEMMA3_TEXT_KEYS},
    FAMILY("GemmaForCausalLM", GEMMA | ARCH_YES_NO, decoder_names, 1e-6, GEMMA_DEFAULTS,
           "hidden_activation"),
    FAMILY("Glm4ForCausalLM", GLM4, glm4_names, 1.5625e-7, GLM4_DEFAULTS, NULL),
    MIXTURE("Glm4MoeForCausalLM", ARCH_QK_NORM_BY_FLAG | ARCH_OUT_BIAS, decoder_names,
            &glm4_experts, 1e-5, GLM4_MOE_DEFAULTS, GLM4_MOE_KEYS),
    MIXTURE("GptOssForCausalLM", ARCH_WINDOW | ARCH_WINDOW_PATTERN, gpt_oss_names, &gpt_oss_experts,
            1e-5, GPT_OSS_DEFAULTS, GPT_OSS_KEYS),
    FAMILY("GraniteForCausalLM", ARCH_MULTIPLIERS, decoder_names, 1e-6, NULL, GRANITE_KEYS),
    MIXTURE("GraniteMoeForCausalLM", ARCH_MULTIPLIERS, decoder_names, &granite_experts, 1e-6,
            GRANITE_MOE_DEFAULTS, GRANITE_MOE_KEYS),
    FORM("GteForSequenceClassification", HEAD_POOLER, GTE, gte_names, .defaults = GTE_DEFAULTS),
    FORM("GteModel", HEAD_NONE, GTE, gte_names, .defaults = GTE_DEFAULTS),
    FAMILY("HeliumForCausalLM", HELIUM, decoder_names, 1e-8, HELIUM_DEFAULTS, NULL),
    FAMILY("HunYuanDenseV1ForCausalLM", ARCH_QK_NORM_LAST | ARCH_ROPE_ALPHA, hunyuan_names, 1e-5,
           HUNYUAN_DEFAULTS, "use_qk_norm rope.alpha"),
    FORM("JinaBertForMaskedLM", HEAD_NONE, JINA, jina_names, .types = 2, .reads = JINA_KEYS),
    FORM("JinaBertForSequenceClassification", HEAD_POOLER, JINA, jina_names, .types = 2,
         .reads = JINA_KEYS),
    FORM("JinaBertModel", HEAD_NONE, JINA, jina_names, .types = 2, .reads = JINA_KEYS),
    DECODER("LlamaBidirectionalModel", HEAD_NONE, ARCH_BOTH_WAYS, .window = 0),
    DECODER("LlamaForCausalLM", HEAD_VOCABULARY, LLAMA, .window = 0),
    DECODER("LlamaForSequenceClassification", HEAD_SCORE, LLAMA, .window = 0),
    DECODER("LlamaModel", HEAD_NONE, LLAMA, .window = 0),
    MIXTURE("MiniMaxM2ForCausalLM", ARCH_QK_NORM_ALL, decoder_names, &minimax_experts, 1e-6,
            MINIMAX_DEFAULTS, MINIMAX_KEYS),
    FORM("MPNetForMaskedLM", HEAD_NONE, FORM_BUCKETS, mpnet_names, .flags = ARCH_POSITION_OFFSET),
    FORM("MPNetModel", HEAD_NONE, FORM_BUCKETS, mpnet_names, .flags = ARCH_POSITION_OFFSET),
    FAMILY("Ministral3ForCausalLM", ARCH_WINDOW, decoder_names, 1e-5, MINISTRAL3_DEFAULTS,
           TEMPERATURE_KEYS),
    DECODER("MistralForCausalLM", HEAD_VOCABULARY, MISTRAL, .window = 4096, .kv_heads = 8,
            .reads = WINDOW_KEYS),
    DECODER("MistralForSequenceClassification", HEAD_SCORE, MISTRAL, .window = 4096, .kv_heads = 8,
            .reads = WINDOW_KEYS),
    DECODER("MistralModel", HEAD_NONE, MISTRAL, .window = 4096, .kv_heads = 8,
            .reads = WINDOW_KEYS),
    MIXTURE("MixtralForCausalLM", MISTRAL, decoder_names, &mixtral_experts, 1e-5, MIXTRAL_DEFAULTS,
            MIXTRAL_KEYS),
    FORM("ModernBertForMaskedLM", HEAD_NONE, MODERNBERT, modernbert_names,
         .defaults = MODERNBERT_DEFAULTS, .renames = MODERNBERT_RENAMES, .reads = MODERNBERT_KEYS),
    FORM("ModernBertForSequenceClassification", HEAD_DENSE_NORM, MODERNBERT, modernbert_names,
         .defaults = MODERNBERT_DEFAULTS, .renames = MODERNBERT_RENAMES, .reads = MODERNBERT_KEYS),
    FORM("ModernBertModel", HEAD_NONE, MODERNBERT, modernbert_names,
         .defaults = MODERNBERT_DEFAULTS, .renames = MODERNBERT_RENAMES, .reads = MODERNBERT_KEYS),
    FORM("NewForSequenceClassification", HEAD_POOLER, GTE, gte_names, .defaults = NEW_DEFAULTS,
         .reads = POSITION_KEYS),
    FORM("NewModel", HEAD_NONE, GTE, gte_names, .defaults = NEW_DEFAULTS, .reads = POSITION_KEYS),
    FORM("NomicBertModel", HEAD_NONE, NOMIC, nomic_names, .types = 2, .defaults = NOMIC_DEFAULTS,
         .renames = NOMIC_RENAMES),
    FAMILY("Olmo2ForCausalLM", OLMO2, after_names, 1e-5, OLMO2_DEFAULTS, NULL),
    FAMILY("Olmo3ForCausalLM", OLMO3, after_names, 1e-5, OLMO3_DEFAULTS, PATTERN_KEYS),
    MIXTURE("OlmoeForCausalLM", ARCH_QK_NORM_ALL, decoder_names, &olmoe_experts, 1e-5,
            OLMOE_DEFAULTS, OLMOE_KEYS),
    FAMILY("Phi3ForCausalLM", ARCH_WINDOW, phi3_names, 1e-5, PHI3_DEFAULTS, WINDOW_KEYS),
    DECODER("Qwen2ForCausalLM", HEAD_VOCABULARY, QWEN2 | ARCH_YES_NO, .window = 4096,
            .reads = WINDOW_KEYS),
    DECODER("Qwen2ForSequenceClassification", HEAD_SCORE, QWEN2, .window = 4096,
            .reads = WINDOW_KEYS),
    DECODER("Qwen2Model", HEAD_NONE, QWEN2, .window = 4096, .reads = WINDOW_KEYS),
    MIXTURE("Qwen2MoeForCausalLM", QWEN2, decoder_names, &qwen2_experts, 1e-6, QWEN2_MOE_DEFAULTS,
            QWEN2_MOE_KEYS),
    DECODER("Qwen3ForCausalLM", HEAD_VOCABULARY, QWEN3 | ARCH_YES_NO, .window = 4096,
            .head_dim = 128, .reads = WINDOW_KEYS),
    DECODER("Qwen3ForSequenceClassification", HEAD_SCORE, QWEN3 | ARCH_YES_NO_PROMPT,
            .window = 4096, .head_dim = 128, .reads = WINDOW_KEYS),
    DECODER("Qwen3Model", HEAD_NONE, QWEN3, .window = 4096, .head_dim = 128, .reads = WINDOW_KEYS),
    MIXTURE("Qwen3MoeForCausalLM", QWEN3, decoder_names, &qwen3_experts, 1e-6, QWEN3_MOE_DEFAULTS,
            QWEN3_MOE_KEYS, .renames = QWEN3_MOE_RENAMES),
    ENCODER("RobertaForMaskedLM", HEAD_NONE, ROBERTA, roberta_names),
    ENCODER("RobertaForSequenceClassification", HEAD_CLASSIFIER, ROBERTA, roberta_names),
    ENCODER("RobertaModel", HEAD_NONE, ROBERTA, roberta_names),
    FAMILY("SeedOssForCausalLM", ARCH_OUT_BIAS, decoder_names, 1e-6, SEED_OSS_DEFAULTS, NULL),
    FAMILY("SmolLM3ForCausalLM", ARCH_NO_ROPE_LAYERS, decoder_names, 1e-6, SMOLLM3_DEFAULTS,
           "no_rope_layers no_rope_layer_interval"),
    ENCODER("XLMRobertaForMaskedLM", HEAD_NONE, ROBERTA, roberta_names),
    ENCODER("XLMRobertaForSequenceClassification", HEAD_CLASSIFIER, ROBERTA, roberta_names),
    ENCODER("XLMRobertaModel", HEAD_NONE, ROBERTA, roberta_names),
};

enum { ARCHITECTURE_COUNT = sizeof architectures / sizeof architectures[0] };

const struct architecture *architecture_find(const char *name)
{
    if (strcmp(name, "Ernie4_5_ForCausalLM") == 0) // the name in the first published folders
        name = "Ernie4_5ForCausalLM";
    for (size_t i = 0; i < ARCHITECTURE_COUNT; i++)
        if (strcmp(architectures[i].name, name) == 0)
            return &architectures[i];
    return NULL;
}

const struct architecture *architecture_at(uint32_t i)
{
    return i < ARCHITECTURE_COUNT ? &architectures[i] : NULL;
}

// Returns the length of the family's name at the start of a published name: "Llama" of
// "LlamaForCausalLM".
static size_t family_bytes(const char *name)
{
    const char *end = strstr(name, "For");
    if (!end)
        end = strstr(name, "Model");
    return end ? (size_t)(end - name) : strlen(name);
}

void architecture_list_add(char *out, size_t bytes, const char *name)
{
    size_t used = strlen(out);
    snprintf(out + used, bytes - used, "%s%.*s", used > 0 ? ", " : "", (int)family_bytes(name),
             name);
}

void architecture_list(char *out, size_t bytes)
{
    const char *last = "";
    out[0] = '\0';
    for (size_t i = 0; i < ARCHITECTURE_COUNT; i++) {
        const char *name = architectures[i].name;
        size_t family = family_bytes(name);
        if (family != family_bytes(last) || memcmp(name, last, family) != 0)
            architecture_list_add(out, bytes, name);
        last = name;
    }
}

bool architecture_rename_next(const char **renames, char pair[128], const char **other)
{
    struct text word = *renames ? text_word(renames) : (struct text){NULL, 0};
    if (word.bytes == 0)
        return false;
    snprintf(pair, 128, "%.*s", (int)word.bytes, word.at);
    char *colon = strchr(pair, ':');
    check(colon && word.bytes < 128, "not a renamed key: %s", pair);
    *colon = '\0';
    *other = colon + 1;
    return true;
}

void architecture_rename(const struct architecture *arch, json_t *config)
{
    const char *renames = arch->renames;
    char key[128];
    for (const char *other; architecture_rename_next(&renames, key, &other);) {
        json_t *own = json_object_get(config, key), *value = json_object_get(config, other);
        if (value && (!own || json_is_null(own)))
            json_object_set(config, key, value);
    }
}
