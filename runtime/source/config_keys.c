// SPDX-License-Identifier: Apache-2.0
// The table of the keys that change what a model computes, and the check against it; see
// config_keys.h. Constant data; loading thread only.
#include "runtime/source/config_keys.h"

#include "base/json.h"
#include "base/safe.h"

#include <math.h>
#include <string.h>

#define DECODERS(name, gguf, neutral, value, meaning)                                              \
    {name, gguf, KEY_DECODERS, neutral, value, NULL, meaning}
#define ENCODERS(name, gguf, neutral, value, meaning)                                              \
    {name, gguf, KEY_ENCODERS, neutral, value, NULL, meaning}
#define ALL(name, gguf, neutral, value, meaning)                                                   \
    {name, gguf, KEY_ALL, neutral, value, NULL, meaning}
#define WORDS(families, name, words, meaning)                                                      \
    {name, NULL, families, NEUTRAL_WORD, 0, words, meaning}
#define READ(families, name, meaning) {name, NULL, families, NEUTRAL_ANY, 0, NULL, meaning}

// The message about a key names it with its value and `meaning`.
static const struct config_key keys[] = {
    // Sizes and functions that every architecture reads (model/config.c).
    READ(KEY_ALL, "vocab_size", "the rows of the embedding table"),
    READ(KEY_ALL, "hidden_size", "the width of the hidden states"),
    READ(KEY_ALL, "num_hidden_layers", "the number of layers"),
    READ(KEY_ALL, "num_attention_heads", "the number of heads"),
    READ(KEY_DECODERS, "num_key_value_heads", "the number of heads of keys and values"),
    READ(KEY_ALL, "head_dim", "the columns of a head"),
    READ(KEY_ALL, "intermediate_size", "the width of the feed-forward layers"),
    READ(KEY_ALL, "max_position_embeddings", "the number of positions"),
    READ(KEY_ENCODERS, "type_vocab_size", "the number of token types"),
    READ(KEY_ENCODERS, "pad_token_id", "the first position"),
    READ(KEY_ALL, "hidden_act", "the activation of the feed-forward layers"),
    READ(KEY_DECODERS, "rms_norm_eps", "the epsilon of the norms"),
    READ(KEY_ENCODERS, "layer_norm_eps", "the epsilon of the norms"),
    READ(KEY_DECODERS, "attention_bias", "biases of attention"),
    READ(KEY_DECODERS, "mlp_bias", "biases of the feed-forward layers"),
    READ(KEY_ALL, "tie_word_embeddings", "an output head that is the embedding table"),
    READ(KEY_ALL, "layer_types", "the kind of attention of each layer"),
    READ(KEY_ALL, "rope_theta", "the base of the rotary positions"),
    READ(KEY_ALL, "rope_scaling", "the scaling of positions"),
    READ(KEY_ALL, "rope_parameters", "the rotary positions"),
    READ(KEY_DECODERS, "partial_rotary_factor", "the rotated part of a head"),
    READ(KEY_DECODERS, "original_max_position_embeddings", "the number of trained positions"),

    // Scales and caps.
    DECODERS("attn_logit_softcapping", "attn_logit_softcapping", NEUTRAL_NUMBER, 0,
             "a cap on the scores of attention"),
    DECODERS("final_logit_softcapping", "final_logit_softcapping", NEUTRAL_NUMBER, 0,
             "a cap on the logits"),
    DECODERS("embedding_multiplier", "embedding_scale", NEUTRAL_NUMBER, 1,
             "a factor of the embeddings"),
    DECODERS("residual_multiplier", "residual_scale", NEUTRAL_NUMBER, 1,
             "a factor of each layer's output"),
    DECODERS("attention_multiplier", "attention.scale", NEUTRAL_HEAD_SCALE, 0,
             "a scale of attention"),
    DECODERS("query_pre_attn_scalar", NULL, NEUTRAL_HEAD_DIM, 0, "a scale of attention"),
    DECODERS("scale_attn_weights", NULL, NEUTRAL_NUMBER, 1, "attention without scale"),
    DECODERS("scale_attn_by_inverse_layer_idx", NULL, NEUTRAL_NUMBER, 0,
             "a scale of attention by layer"),
    DECODERS("logits_scaling", NULL, NEUTRAL_NUMBER, 1, "a divisor of the logits"),
    DECODERS("logit_scale", "logit_scale", NEUTRAL_NUMBER, 1, "a factor of the logits"),
    DECODERS("output_multiplier_scale", NULL, NEUTRAL_NUMBER, 1, "a factor of the logits"),
    DECODERS("embedding_multiplier_scale", NULL, NEUTRAL_NUMBER, 1, "a factor of the embeddings"),
    DECODERS("attn_output_multiplier", NULL, NEUTRAL_NUMBER, 1, "a scale of attention"),
    DECODERS("lm_head_multiplier", NULL, NEUTRAL_NUMBER, 1, "a factor of the logits"),
    DECODERS("key_multiplier", NULL, NEUTRAL_NUMBER, 1, "a factor of the keys"),
    DECODERS("scale_emb", NULL, NEUTRAL_NUMBER, 1, "a factor of the embeddings"),
    DECODERS("scale_depth", NULL, NEUTRAL_NONE, 0, "a factor of each layer's output"),
    DECODERS("dim_model_base", NULL, NEUTRAL_HIDDEN, 0, "a divisor of the logits"),
    DECODERS("clip_qkv", "attention.clamp_kqv", NEUTRAL_NUMBER, 0, "a limit of q, k and v"),
    DECODERS("swiglu_limit", NULL, NEUTRAL_NUMBER, 0, "a limit in the feed-forward layers"),
    READ(KEY_DECODERS, "swiglu_alpha", "a factor in the feed-forward layers"),

    // Norms, order of operations, activation.
    DECODERS("use_qk_norm", NULL, NEUTRAL_NUMBER, 0, "a norm of q and k"),
    DECODERS("qk_norm", NULL, NEUTRAL_NUMBER, 0, "a norm of q and k"),
    DECODERS("qk_layernorm", NULL, NEUTRAL_NUMBER, 0, "a norm of q and k"),
    DECODERS("use_parallel_residual", "use_parallel_residual", NEUTRAL_NUMBER, 0,
             "attention next to the feed-forward layer"),
    DECODERS("parallel_attn", NULL, NEUTRAL_NUMBER, 0, "attention next to the feed-forward layer"),
    DECODERS("do_layer_norm_before", NULL, NEUTRAL_NUMBER, 1, "norms after the blocks"),
    DECODERS("apply_residual_connection_post_layernorm", NULL, NEUTRAL_NUMBER, 0,
             "residuals after the norms"),
    WORDS(KEY_DECODERS, "hidden_activation", "silu swish", "an activation in place of hidden_act"),
    WORDS(KEY_ENCODERS, "feed_forward_type", "original mlp",
          "a feed-forward layer of another form"),
    DECODERS("attn_output_gate", NULL, NEUTRAL_NUMBER, 0, "a gate of attention's output"),
    ALL("embedding_size", NULL, NEUTRAL_HIDDEN, 0, "an embedding table of another width"),
    DECODERS("word_embed_proj_dim", NULL, NEUTRAL_HIDDEN, 0, "an embedding table of another width"),

    // Which tokens attend to which.
    DECODERS("sliding_window", "attention.sliding_window", NEUTRAL_WINDOW, 0,
             "an attention window"),
    READ(KEY_DECODERS, "use_sliding_window", "an attention window"),
    DECODERS("sliding_window_pattern", NULL, NEUTRAL_NUMBER, 1,
             "an attention window in some layers"),
    DECODERS("attention_chunk_size", "attention.chunk_size", NEUTRAL_LENGTH, 0,
             "attention in chunks"),
    DECODERS("dual_chunk_attention_config", NULL, NEUTRAL_NONE, 0, "dual chunk attention"),
    ALL("local_attention", NULL, NEUTRAL_LENGTH, 0, "an attention window"),
    READ(KEY_DECODERS, "is_causal", "attention to later tokens"),
    DECODERS("use_bidirectional_attention", NULL, NEUTRAL_NUMBER, 0, "attention to later tokens"),
    ENCODERS("is_decoder", NULL, NEUTRAL_NUMBER, 0, "causal attention"),
    ALL("add_cross_attention", NULL, NEUTRAL_NUMBER, 0, "attention to a second input"),
    ALL("is_encoder_decoder", NULL, NEUTRAL_NUMBER, 0, "an encoder with a decoder"),
    DECODERS("full_attention_interval", "full_attention_interval", NEUTRAL_NUMBER, 1,
             "layers of linear attention"),
    DECODERS("linear_attn_config", NULL, NEUTRAL_NONE, 0, "layers of linear attention"),
    DECODERS("num_kv_shared_layers", "attention.shared_kv_layers", NEUTRAL_NUMBER, 0,
             "layers that use the keys and values of other layers"),
    DECODERS("use_cla", NULL, NEUTRAL_NUMBER, 0,
             "layers that use the keys and values of other layers"),
    DECODERS("attention_k_eq_v", NULL, NEUTRAL_NUMBER, 0, "values that are the keys"),
    DECODERS("kv_lora_rank", "attention.kv_lora_rank", NEUTRAL_NUMBER, 0, "latent attention"),
    DECODERS("q_lora_rank", "attention.q_lora_rank", NEUTRAL_NUMBER, 0, "latent attention"),
    DECODERS("v_head_dim", NULL, NEUTRAL_HEAD_DIM, 0, "values of another length than keys"),

    // Positions.
    WORDS(KEY_ENCODERS, "position_embedding_type", "absolute", "another form of positions"),
    WORDS(KEY_DECODERS, "position_embedding_type", "rope rotary", "another form of positions"),
    ALL("alibi", NULL, NEUTRAL_NUMBER, 0, "positions as a bias of attention"),
    ALL("relative_attention", NULL, NEUTRAL_NUMBER, 0, "relative positions"),
    DECODERS("no_rope_layers", NULL, NEUTRAL_NOT_ZERO, 0, "layers without rotary positions"),
    DECODERS("no_rope_layer_interval", NULL, NEUTRAL_NUMBER, 0, "layers without rotary positions"),
    DECODERS("rotary_pct", NULL, NEUTRAL_NUMBER, 1, "the rotated part of a head"),
    DECODERS("rotary_dim", NULL, NEUTRAL_HEAD_DIM, 0, "the rotated part of a head"),
    DECODERS("rotary_emb_base", NULL, NEUTRAL_NUMBER, 10000, "the base of the rotary positions"),
    DECODERS("rope_ratio", NULL, NEUTRAL_NUMBER, 1, "a factor of the base of rotary positions"),
    DECODERS("rope_local_base_freq", NULL, NEUTRAL_NONE, 0,
             "other rotary positions in layers with a window"),
    DECODERS("rope_interleave", NULL, NEUTRAL_NUMBER, 0, "neighbouring columns as rotary pairs"),
    DECODERS("rope_interleaved", NULL, NEUTRAL_NUMBER, 0, "neighbouring columns as rotary pairs"),
    DECODERS("attn_temperature_tuning", NULL, NEUTRAL_NUMBER, 0, "a scale of queries by position"),
    ALL("rope.llama_4_scaling_beta", "attention.temperature_scale", NEUTRAL_NUMBER, 0,
        "a scale of queries by position"),
    ALL("rope.alpha", NULL, NEUTRAL_NUMBER, 1, "a factor of the base of rotary positions"),
    ALL("rope.extrapolation_factor", NULL, NEUTRAL_NUMBER, 1, "a factor of yarn"),
    READ(KEY_ALL, "rope.rope_type", "the scaling of positions"),
    READ(KEY_ALL, "rope.type", "the scaling of positions"),
    READ(KEY_ALL, "rope.rope_theta", "the base of the rotary positions"),
    READ(KEY_ALL, "rope.factor", "the scaling of positions"),
    READ(KEY_ALL, "rope.attention_factor", "a factor of yarn and longrope"),
    READ(KEY_ALL, "rope.beta_fast", "a limit of yarn"),
    READ(KEY_ALL, "rope.beta_slow", "a limit of yarn"),
    READ(KEY_ALL, "rope.mscale", "a factor of yarn"),
    READ(KEY_ALL, "rope.mscale_all_dim", "a factor of yarn"),
    READ(KEY_ALL, "rope.truncate", "rounded limits of yarn"),
    READ(KEY_ALL, "rope.low_freq_factor", "a limit of llama3"),
    READ(KEY_ALL, "rope.high_freq_factor", "a limit of llama3"),
    READ(KEY_ALL, "rope.short_factor", "the factors of longrope"),
    READ(KEY_ALL, "rope.long_factor", "the factors of longrope"),
    READ(KEY_ALL, "rope.partial_rotary_factor", "the rotated part of a head"),
    READ(KEY_ALL, "rope.original_max_position_embeddings", "the number of trained positions"),
    READ(KEY_ALL, "rope.max_position_embeddings", "the number of positions"),
    // For text, rotary positions in sections are plain ones.
    READ(KEY_ALL, "rope.mrope_section", "the sections of the positions of images"),
    READ(KEY_ALL, "rope.mrope_interleaved", "the sections of the positions of images"),
    READ(KEY_ALL, "rope.finetuned", "a remark on the training"),
    READ(KEY_ALL, "rope.attn_factor", "a factor that transformers does not read"),

    // Other layers.
    ALL("num_experts", "expert_count", NEUTRAL_AT_MOST, 1, "a mixture of experts"),
    ALL("num_local_experts", NULL, NEUTRAL_AT_MOST, 1, "a mixture of experts"),
    DECODERS("n_routed_experts", NULL, NEUTRAL_AT_MOST, 1, "a mixture of experts"),
    ALL("moe_num_experts", NULL, NEUTRAL_AT_MOST, 1, "a mixture of experts"),
    READ(KEY_DECODERS, "num_experts_per_tok", "the experts of a token"),
    READ(KEY_DECODERS, "moe_k", "the experts of a token"),
    READ(KEY_DECODERS, "moe_intermediate_size", "the width of an expert"),
    READ(KEY_DECODERS, "shared_expert_intermediate_size", "the width of the shared expert"),
    READ(KEY_DECODERS, "norm_topk_prob", "weights of experts that add up to 1"),
    READ(KEY_DECODERS, "n_group", "groups of experts"),
    READ(KEY_DECODERS, "topk_group", "groups of experts"),
    READ(KEY_DECODERS, "routed_scaling_factor", "a factor of the experts' weights"),
    READ(KEY_DECODERS, "first_k_dense_replace", "layers without experts"),
    READ(KEY_DECODERS, "decoder_sparse_step", "layers without experts"),
    READ(KEY_DECODERS, "mlp_only_layers", "layers without experts"),
    READ(KEY_DECODERS, "moe_layer_start_index", "layers without experts"),
    READ(KEY_DECODERS, "moe_layer_end_index", "layers without experts"),
    READ(KEY_DECODERS, "moe_layer_interval", "layers without experts"),
    DECODERS("moe_num_shared_experts", NULL, NEUTRAL_NUMBER, 0, "shared experts"),
    DECODERS("shared_intermediate_size", NULL, NEUTRAL_NUMBER, 0, "shared experts"),
    WORDS(KEY_DECODERS, "scoring_func", "softmax", "another score of experts"),
    READ(KEY_DECODERS, "use_routing_bias", "a correction of the experts' scores"),
    DECODERS("mlp_layer_types", NULL, NEUTRAL_NONE, 0, "layers without experts"),
    DECODERS("n_shared_experts", "expert_shared_count", NEUTRAL_NUMBER, 0, "shared experts"),
    DECODERS("mamba_d_state", "ssm.state_size", NEUTRAL_NUMBER, 0, "layers with a state"),
    DECODERS("hybrid_override_pattern", NULL, NEUTRAL_NONE, 0, "layers of several kinds"),
    DECODERS("layers_block_type", NULL, NEUTRAL_NONE, 0, "layers of several kinds"),
    DECODERS("block_configs", NULL, NEUTRAL_NONE, 0, "layers of several shapes"),
    DECODERS("conv_L_cache", "shortconv.l_cache", NEUTRAL_NUMBER, 0, "convolution layers"),
    DECODERS("hidden_size_per_layer_input", "embedding_length_per_layer_input", NEUTRAL_NUMBER, 0,
             "embeddings for each layer"),
    DECODERS("altup_num_inputs", "altup.num_inputs", NEUTRAL_AT_MOST, 1, "several residuals"),
    DECODERS("laurel_rank", NULL, NEUTRAL_NUMBER, 0, "low-rank residuals"),
    DECODERS("activation_sparsity_pattern", "activation_sparsity_scale", NEUTRAL_NUMBER, 0,
             "sparse activations"),
    ENCODERS("prenorm", NULL, NEUTRAL_NUMBER, 0, "norms before the blocks"),
    ENCODERS("parallel_block", NULL, NEUTRAL_NUMBER, 0, "attention next to the feed-forward layer"),
    ENCODERS("use_rms_norm", NULL, NEUTRAL_NUMBER, 0, "another kind of norm"),
    ENCODERS("causal", NULL, NEUTRAL_NUMBER, 0, "causal attention"),
    ENCODERS("moe_every_n_layers", NULL, NEUTRAL_NUMBER, 0, "a mixture of experts"),
    ENCODERS("rotary_emb_fraction", NULL, NEUTRAL_NUMBER, 1, "the rotated part of a head"),
    ENCODERS("rotary_emb_interleaved", NULL, NEUTRAL_NUMBER, 0,
             "neighbouring columns as rotary pairs"),
    ENCODERS("rotary_emb_scale_base", NULL, NEUTRAL_NONE, 0, "the scaling of positions"),
    ENCODERS("rotary_scaling_factor", NULL, NEUTRAL_NONE, 0, "the scaling of positions"),
    ENCODERS("logn_attention_scale", NULL, NEUTRAL_NUMBER, 0, "a scale of attention by position"),
    ENCODERS("logn_attention_clip1", NULL, NEUTRAL_NUMBER, 0, "a scale of attention by position"),
    WORDS(KEY_ENCODERS, "layer_norm_type", "layer_norm", "another kind of norm"),
    ENCODERS("num_hidden_groups", NULL, NEUTRAL_NONE, 0, "layers that share their weights"),
    ENCODERS("lora_adaptations", NULL, NEUTRAL_NONE, 0, "adapters for several tasks"),
};

enum { KEY_COUNT = sizeof keys / sizeof keys[0], VALUE_BYTES = 48 };

const struct config_key *config_key_at(uint32_t i)
{
    return i < KEY_COUNT ? &keys[i] : NULL;
}

static bool number_neutral(const struct config_key *key, double number,
                           const struct config_facts *facts)
{
    switch (key->neutral) {
    case NEUTRAL_ANY:
        return true;
    case NEUTRAL_NUMBER:
        return number == key->value;
    case NEUTRAL_NOT_ZERO:
        return number != 0;
    case NEUTRAL_AT_MOST:
        return number <= key->value;
    case NEUTRAL_HEAD_DIM:
        return number == facts->head_dim;
    case NEUTRAL_HEAD_SCALE: // files round it
        return fabs(number * sqrt((double)facts->head_dim) - 1) < 1e-6;
    case NEUTRAL_HIDDEN:
        return number == facts->hidden;
    case NEUTRAL_LENGTH:
    case NEUTRAL_WINDOW:
        return number == 0 || number >= facts->positions;
    case NEUTRAL_NONE:
    case NEUTRAL_WORD:
        break;
    }
    return false;
}

// Returns true if the value changes nothing.
static bool value_neutral(const struct config_key *key, const json_t *value,
                          const struct config_facts *facts)
{
    bool list = key->neutral == NEUTRAL_NUMBER || key->neutral == NEUTRAL_NOT_ZERO;
    if (key->neutral == NEUTRAL_ANY || !value || json_is_null(value))
        return true;
    if (json_is_object(value))
        return json_object_size(value) == 0;
    for (size_t i = 0; json_is_array(value) && i < json_array_size(value); i++)
        if (!list || json_is_array(json_array_get(value, i)) ||
            !value_neutral(key, json_array_get(value, i), facts))
            return false;
    if (json_is_array(value))
        return true;
    const char *word =
        json_is_boolean(value) ? json_is_true(value) ? "true" : "false" : json_string_value(value);
    if (key->neutral == NEUTRAL_WORD && word)
        return text_has_word(key->words, word);
    if (json_is_boolean(value))
        return number_neutral(key, json_is_true(value), facts);
    return json_is_number(value) && number_neutral(key, json_number_value(value), facts);
}

// Returns the start of a value as JSON.
static struct safe value_show(const json_t *value)
{
    struct json_buffer buffer = {0};
    bool complete = json_put_value_within(&buffer, value, VALUE_BYTES);
    if (!complete && buffer.bytes > VALUE_BYTES)
        buffer.bytes = VALUE_BYTES;
    if (!complete)
        json_put_literal(&buffer, "...");
    struct safe shown = safe_of(json_buffer_text(&buffer));
    json_buffer_free(&buffer);
    return shown;
}

static enum status key_refuse(const char *object, const char *name, const json_t *value,
                              const char *meaning, const struct config_facts *facts,
                              struct error *err)
{
    return error_set(err, STATUS_UNSUPPORTED,
                     "config.json: %s%s%s is %s: %s is not served with %s; take another model, or "
                     "remove the key if the model does not use it",
                     object, object[0] != '\0' ? "." : "", name, value_show(value).at, meaning,
                     facts->name);
}

bool config_key_ignored(const struct config_key *key, const json_t *value,
                        const struct config_facts *facts)
{
    return (key->families & facts->family) != 0 && !text_has_word(facts->reads, key->name) &&
           !value_neutral(key, value, facts);
}

enum status config_keys_check(const json_t *json, const struct config_facts *facts,
                              struct error *err)
{
    for (size_t i = 0; i < KEY_COUNT; i++) {
        const json_t *value = json_object_get(json, keys[i].name);
        if (keys[i].neutral == NEUTRAL_WINDOW &&
            json_is_false(json_object_get(json, "use_sliding_window")))
            continue;
        if (config_key_ignored(&keys[i], value, facts))
            return key_refuse("", keys[i].name, value, keys[i].meaning, facts, err);
    }
    return STATUS_OK;
}

enum status config_rope_check(const json_t *rope, const char *object,
                              const struct config_facts *facts, struct error *err)
{
    static const char start[] = "rope.";
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)rope, name, value)
    {
        const struct config_key *key = NULL;
        for (size_t i = 0; i < KEY_COUNT && !key; i++)
            if (strncmp(keys[i].name, start, sizeof start - 1) == 0 &&
                strcmp(keys[i].name + sizeof start - 1, name) == 0)
                key = &keys[i];
        if (json_is_null(value) || (key && !config_key_ignored(key, value, facts)))
            continue;
        return key_refuse(object, safe_of(text_of(name)).at, value,
                          key ? key->meaning : "an unknown parameter of positions", facts, err);
    }
    return STATUS_OK;
}

const struct config_key *config_key_of_gguf(const char *rest, uint32_t family)
{
    for (size_t i = 0; i < KEY_COUNT; i++)
        if (keys[i].gguf && (keys[i].families & family) != 0 && strcmp(keys[i].gguf, rest) == 0)
            return &keys[i];
    return NULL;
}
