// SPDX-License-Identifier: Apache-2.0
// Writes golden models as GGUF files; see gguf_rig.h.
#include "tests/runtime/gguf_rig.h"

#include "base/arena.h"
#include "base/status.h"
#include "base/utf8.h"
#include "runtime/source/gguf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 256 };

static uint32_t field(const json_t *config, const char *name, uint32_t otherwise)
{
    const json_t *value = json_object_get(config, name);
    return json_is_integer(value) ? (uint32_t)json_integer_value(value) : otherwise;
}

static void put_key(struct gguf_build *b, const char *family, const char *rest, uint32_t value)
{
    char key[NAME_BYTES];
    snprintf(key, sizeof key, "%s.%s", family, rest);
    gguf_key_count(b, key, value);
}

static void put_fraction(struct gguf_build *b, const char *family, const char *rest, double value)
{
    char key[NAME_BYTES];
    snprintf(key, sizeof key, "%s.%s", family, rest);
    gguf_key_number(b, key, (float)value);
}

// Returns a member of rope_parameters for the layers without a window, or of those with one, if
// config.json has them by kind of layer.
static const json_t *rope_of(const json_t *config, const char *kind)
{
    return json_object_get(json_object_get(config, "rope_parameters"), kind);
}

// Returns the base of the rotary embedding, with Hunyuan's scaling.
static double base_of(const json_t *config, uint32_t dim)
{
    const json_t *alpha = json_object_get(json_object_get(config, "rope_scaling"), "alpha");
    const json_t *places[] = {rope_of(config, "full_attention"),
                              json_object_get(config, "rope_parameters"), config};
    double base = 0;
    for (int i = 0; i < 3 && base == 0; i++)
        base = json_number_value(json_object_get(places[i], "rope_theta"));
    return alpha ? base * pow(json_number_value(alpha), dim / (dim - 2.0)) : base;
}

// Adds the factors of longrope.
static void put_rope_factors(struct gguf_build *b, const json_t *scaling)
{
    static const char *const names[][2] = {{"short_factor", "rope_factors_short.weight"},
                                           {"long_factor", "rope_factors_long.weight"}};
    for (int n = 0; n < 2; n++) {
        const json_t *list = json_object_get(scaling, names[n][0]), *value;
        float factors[64];
        size_t i;
        json_array_foreach(list, i, value)
        {
            check(i < 64, "too many factors");
            factors[i] = (float)json_number_value(value);
        }
        uint64_t count = json_array_size(list);
        gguf_tensor_add(b, names[n][1], &count, 1, 0, factors, count * sizeof *factors);
    }
}

static void put_scaling(struct gguf_build *b, const char *family, const json_t *config)
{
    const json_t *scaling = rope_of(config, "full_attention");
    if (!scaling)
        scaling = json_object_get(config, "rope_scaling");
    if (!scaling)
        scaling = json_object_get(config, "rope_parameters");
    const char *type = json_string_value(json_object_get(scaling, "rope_type"));
    type = type ? type : json_string_value(json_object_get(scaling, "type"));
    char key[NAME_BYTES];
    // llama3 is a tensor, which the caller adds; the base of Hunyuan's contains its scaling.
    if (!type || strcmp(type, "llama3") == 0 || json_object_get(scaling, "alpha"))
        return;
    if (strcmp(type, "longrope") == 0) {
        double positions = field(config, "max_position_embeddings", 1);
        uint32_t trained = field(config, "original_max_position_embeddings", 1);
        put_key(b, family, "rope.scaling.original_context_length", trained);
        put_fraction(b, family, "rope.scaling.attn_factor",
                     sqrt(1 + log(positions / trained) / log(trained)));
        put_rope_factors(b, scaling);
        return;
    }
    snprintf(key, sizeof key, "%s.rope.scaling.type", family);
    gguf_key_text(b, key, type);
    put_fraction(b, family, "rope.scaling.factor",
                 json_number_value(json_object_get(scaling, "factor")));
    static const char *const yarn[][2] = {{"attention_factor", "rope.scaling.yarn_attn_factor"},
                                          {"beta_fast", "rope.scaling.yarn_beta_fast"},
                                          {"beta_slow", "rope.scaling.yarn_beta_slow"},
                                          {"mscale_all_dim", "rope.scaling.yarn_log_multiplier"},
                                          {"llama_4_scaling_beta", "attention.temperature_scale"}};
    for (int i = 0; i < (strcmp(family, "mistral3") == 0 ? 5 : 3); i++)
        if (json_object_get(scaling, yarn[i][0]))
            put_fraction(b, family, yarn[i][1],
                         json_number_value(json_object_get(scaling, yarn[i][0])));
    uint32_t original = field(scaling, "original_max_position_embeddings", 0);
    if (original > 0)
        put_key(b, family, "rope.scaling.original_context_length", original);
}

// Adds the window, and the layers that have it unless the family's rule gives the same ones.
static void put_window(struct gguf_build *b, const char *family, const json_t *config)
{
    uint32_t window = field(config, "sliding_window", 0);
    uint32_t each = field(config, "sliding_window_pattern", 0);
    const json_t *types = json_object_get(config, "layer_types");
    char key[NAME_BYTES];
    uint8_t flags[64];
    if (window == 0 || json_is_false(json_object_get(config, "use_sliding_window")))
        return;
    put_key(b, family, "attention.sliding_window", window);
    if (!types && each == 0)
        return;
    uint32_t layers = field(config, "num_hidden_layers", 1);
    check(layers <= sizeof flags, "too many layers");
    for (uint32_t i = 0; i < layers; i++) {
        const char *type = json_string_value(json_array_get(types, i));
        flags[i] = type ? strcmp(type, "sliding_attention") == 0 : (i + 1) % each != 0;
    }
    snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", family);
    gguf_key_array(b, key, GGUF_RIG_BOOL, flags, layers, 1);
}

// Adds the keys of a mixture of experts. Its keys of config.json differ by family.
static void put_experts(struct gguf_build *b, const char *family, const json_t *config)
{
    static const char *const counts[][2] = {
        {"num_experts", "expert_count"},
        {"num_local_experts", "expert_count"},
        {"n_routed_experts", "expert_count"},
        {"moe_num_experts", "expert_count"},
        {"num_experts_per_tok", "expert_used_count"},
        {"moe_k", "expert_used_count"},
        {"moe_intermediate_size", "expert_feed_forward_length"},
        {"shared_expert_intermediate_size", "expert_shared_feed_forward_length"},
        {"n_shared_experts", "expert_shared_count"},
        {"moe_num_shared_experts", "expert_shared_count"},
        {"n_group", "expert_group_count"},
        {"topk_group", "expert_group_used_count"},
        {"first_k_dense_replace", "leading_dense_block_count"},
        {"moe_layer_start_index", "leading_dense_block_count"},
        {"moe_layer_interval", "interleave_moe_layer_step"},
        {"rotary_dim", "rope.dimension_count"}};
    const json_t *norm = json_object_get(config, "norm_topk_prob");
    const json_t *factor = json_object_get(config, "routed_scaling_factor");
    char key[NAME_BYTES];
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (json_object_get(config, counts[i][0]))
            put_key(b, family, counts[i][1], field(config, counts[i][0], 0));
    if (factor)
        put_fraction(b, family, "expert_weights_scale", json_number_value(factor));
    snprintf(key, sizeof key, "%s.expert_weights_norm", family);
    if (norm)
        gguf_key_flag(b, key, json_is_true(norm));
    if (strcmp(family, "glm4moe") == 0 || strcmp(family, "minimax-m2") == 0)
        put_key(b, family, "expert_gating_func", 2);
}

// Adds the keys that only some families have.
static void put_more(struct gguf_build *b, const char *family, const json_t *config)
{
    static const char *const factors[][2] = {{"embedding_multiplier", "embedding_scale"},
                                             {"residual_multiplier", "residual_scale"},
                                             {"attention_multiplier", "attention.scale"},
                                             {"logits_scaling", "logit_scale"}};
    const json_t *logits = json_object_get(config, "logit_scale");
    put_window(b, family, config);
    put_experts(b, family, config);
    if (logits) { // Cohere
        char key[NAME_BYTES];
        snprintf(key, sizeof key, "%s.rope.scaling.type", family);
        gguf_key_text(b, key, "none");
        put_fraction(b, family, "logit_scale", json_number_value(logits));
    }
    for (int i = 0; i < 4 && strncmp(family, "granite", 7) == 0; i++) {
        const json_t *value = json_object_get(config, factors[i][0]);
        put_fraction(b, family, factors[i][1], value ? json_number_value(value) : 1);
    }
    double part = json_number_value(json_object_get(config, "partial_rotary_factor"));
    uint32_t heads = field(config, "num_attention_heads", 1);
    uint32_t dim = field(config, "head_dim", field(config, "hidden_size", 1) / heads);
    if (part > 0)
        put_key(b, family, "rope.dimension_count", (uint32_t)(part * dim));
    const json_t *local = json_object_get(rope_of(config, "sliding_attention"), "rope_theta");
    if (local)
        put_fraction(b, family, "rope.freq_base_swa", json_number_value(local));
}

static bool is_encoder(const char *family)
{
    return strstr(family, "bert") != NULL;
}

// Returns the number of rows that converters leave out of RoBERTa's table of positions.
static uint32_t positions_left_out(const json_t *config)
{
    const char *type = json_string_value(json_object_get(config, "model_type"));
    return type && strstr(type, "roberta") ? field(config, "pad_token_id", 1) + 1 : 0;
}

static void put_encoder(struct gguf_build *b, const char *family, const json_t *config)
{
    bool modern = strcmp(family, "modern-bert") == 0;
    const char *epsilon = modern ? "norm_eps" : "layer_norm_eps";
    put_fraction(b, family, "attention.layer_norm_epsilon",
                 json_number_value(json_object_get(config, epsilon)));
    if (strcmp(family, "nomic-bert") == 0)
        put_fraction(b, family, "rope.freq_base", base_of(config, 0));
    if (json_object_get(config, "id2label"))
        put_key(b, family, "pooling_type", 4);
    if (!modern)
        return;
    double theta = json_number_value(json_object_get(config, "global_rope_theta"));
    put_fraction(b, family, "rope.freq_base", theta);
    theta = json_number_value(json_object_get(config, "local_rope_theta"));
    put_fraction(b, family, "rope.freq_base_swa", theta);
    put_key(b, family, "attention.sliding_window", field(config, "local_attention", 1));
    put_key(b, family, "attention.sliding_window_pattern",
            field(config, "global_attn_every_n_layers", 1));
}

static void put_config(struct gguf_build *b, const char *family, const json_t *config)
{
    uint32_t heads = field(config, "num_attention_heads", 1);
    uint32_t hidden = field(config, "hidden_size", 1);
    uint32_t head_dim = field(config, "head_dim", hidden / heads);
    gguf_key_text(b, "general.architecture", family);
    put_key(b, family, "embedding_length", hidden);
    put_key(b, family, "block_count", field(config, "num_hidden_layers", 1));
    put_key(b, family, "feed_forward_length", field(config, "intermediate_size", 1));
    put_key(b, family, "context_length",
            field(config, "max_position_embeddings", 1) - positions_left_out(config));
    put_key(b, family, "attention.head_count", heads);
    if (is_encoder(family)) {
        put_encoder(b, family, config);
        return;
    }
    put_key(b, family, "attention.head_count_kv", field(config, "num_key_value_heads", heads));
    put_key(b, family, "attention.key_length", head_dim);
    put_key(b, family, "attention.value_length", head_dim);
    put_fraction(b, family, "attention.layer_norm_rms_epsilon",
                 json_number_value(json_object_get(config, "rms_norm_eps")));
    if (json_object_get(config, "layer_norm_eps"))
        put_fraction(b, family, "attention.layer_norm_epsilon",
                     json_number_value(json_object_get(config, "layer_norm_eps")));
    put_fraction(b, family, "rope.freq_base", base_of(config, head_dim));
    put_scaling(b, family, config);
    put_more(b, family, config);
}

// Adds a vocabulary of words that stand for no text, and <s> and </s>.
static void put_vocabulary(struct gguf_build *b, const json_t *config, const char *family)
{
    uint32_t vocab = field(config, "vocab_size", 1);
    char(*names)[16] = heap_alloc_zeroed(vocab, sizeof *names);
    const char **list = heap_alloc(vocab * sizeof *list);
    int32_t *kinds = heap_alloc(vocab * sizeof *kinds);
    for (uint32_t i = 0; i < vocab; i++) {
        snprintf(names[i], sizeof names[i],
                 i == 1   ? "<s>"
                 : i == 2 ? "</s>"
                          : "w%c%u",
                 'a' + (int)(i % 26), i);
        list[i] = names[i];
        kinds[i] = i == 1 || i == 2 ? 3 : 1;
    }
    bool unigrams = positions_left_out(config) > 0;
    bool bert = is_encoder(family) && !unigrams && strcmp(family, "modern-bert") != 0;
    gguf_key_text(b, "tokenizer.ggml.model", unigrams ? "t5" : bert ? "bert" : "gpt2");
    gguf_key_text(b, "tokenizer.ggml.pre", "smollm");
    gguf_key_texts(b, "tokenizer.ggml.tokens", list, vocab);
    gguf_key_array(b, "tokenizer.ggml.token_type", GGUF_RIG_I32, kinds, vocab, 4);
    if (unigrams) {
        static const float scores[256];
        gguf_key_array(b, "tokenizer.ggml.scores", GGUF_RIG_F32, scores, vocab, sizeof *scores);
        gguf_key_count(b, "tokenizer.ggml.unknown_token_id", 3);
    }
    gguf_key_texts(b, "tokenizer.ggml.merges", NULL, 0);
    gguf_key_count(b, bert ? "tokenizer.ggml.cls_token_id" : "tokenizer.ggml.bos_token_id", 1);
    gguf_key_count(b, bert ? "tokenizer.ggml.seperator_token_id" : "tokenizer.ggml.eos_token_id",
                   2);
    heap_free(names);
    heap_free(list);
    heap_free(kinds);
}

// Interleaves the two halves of each head's rows, like converters do for llama.
static void rows_interleave(char *to, const char *from, uint32_t rows, size_t row_bytes,
                            uint32_t heads)
{
    uint32_t half = rows / heads / 2;
    for (uint32_t head = 0; head < heads; head++)
        for (uint32_t i = 0; i < half; i++)
            for (uint32_t h = 0; h < 2; h++)
                memcpy(to + (head * 2 * half + 2 * i + h) * row_bytes,
                       from + (head * 2 * half + h * half + i) * row_bytes, row_bytes);
}

// Names of one family: family, name in a folder, name in the file.
static const char *const family_names[][3] = {
    {"gemma3", "post_attention_layernorm.", "post_attention_norm."},
    {"gemma3", "pre_feedforward_layernorm.", "ffn_norm."},
    {"gemma3", "post_feedforward_layernorm.", "post_ffw_norm."},
    {"glm4", "post_self_attn_layernorm.", "post_attention_norm."},
    {"glm4", "post_mlp_layernorm.", "post_ffw_norm."},
    {"olmo2", "post_attention_layernorm.", "post_attention_norm."},
    {"olmo2", "post_feedforward_layernorm.", "post_ffw_norm."},
    {"exaone4", "post_attention_layernorm.", "post_attention_norm."},
    {"exaone4", "post_feedforward_layernorm.", "post_ffw_norm."},
    {"seed_oss", "post_attention_layernorm.", "post_attention_norm."},
    {"glm4moe", "post_attention_layernorm.", "post_attention_norm."},
    {"gpt-oss", "post_attention_layernorm.", "post_attention_norm."},
    {"hunyuan-dense", "self_attn.query_layernorm.", "attn_q_norm."},
    {"hunyuan-dense", "self_attn.key_layernorm.", "attn_k_norm."},
    {"bert", "classifier.dense.", "cls."},
    {"bert", "classifier.out_proj.", "cls.output."},
    {"jina-bert-v2", "mlp.gated_layers.", "ffn_up."},
    {"jina-bert-v2", "mlp.wo.", "ffn_down."},
    {"jina-bert-v2", "mlp.layernorm.", "layer_output_norm."},
    {"nomic-bert", "emb_ln.", "token_embd_norm."},
    {"nomic-bert", "attn.Wqkv.", "attn_qkv."},
    {"nomic-bert", "attn.out_proj.", "attn_output."},
    {"nomic-bert", "mlp.fc11.", "ffn_up."},
    {"nomic-bert", "mlp.fc12.", "ffn_gate."},
    {"nomic-bert", "mlp.fc2.", "ffn_down."},
    {"nomic-bert", "norm1.", "attn_output_norm."},
    {"nomic-bert", "norm2.", "layer_output_norm."},
    {"modern-bert", "embeddings.tok_embeddings.", "token_embd."},
    {"modern-bert", "embeddings.norm.", "token_embd_norm."},
    {"modern-bert", "final_norm.", "output_norm."},
    {"modern-bert", "attn_norm.", "attn_norm."},
    {"modern-bert", "attn.Wqkv.", "attn_qkv."},
    {"modern-bert", "attn.Wo.", "attn_output."},
    {"modern-bert", "mlp_norm.", "ffn_norm."},
    {"modern-bert", "mlp.Wi.", "ffn_up."},
    {"modern-bert", "mlp.Wo.", "ffn_down."},
    {"modern-bert", "head.dense.", "cls."},
    {"modern-bert", "head.norm.", "cls.norm."},
    {"modern-bert", "classifier.", "cls.output."},
};

static bool name_make(char out[NAME_BYTES], const char *name, const char *family)
{
    static const char *const names[][2] = {
        {"embed_tokens.", "token_embd."},
        {"norm.", "output_norm."},
        {"lm_head.", "output."},
        {"self_attn.q_proj.", "attn_q."},
        {"self_attn.k_proj.", "attn_k."},
        {"self_attn.v_proj.", "attn_v."},
        {"self_attn.o_proj.", "attn_output."},
        {"self_attn.qkv_proj.", "attn_qkv."},
        {"self_attn.q_norm.", "attn_q_norm."},
        {"self_attn.k_norm.", "attn_k_norm."},
        {"input_layernorm.", "attn_norm."},
        {"post_attention_layernorm.", "ffn_norm."},
        {"mlp.gate.weight", "ffn_gate_inp.weight"},
        {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias"},
        {"mlp.moe_statics.e_score_correction_bias", "exp_probs_b.bias"},
        {"mlp.shared_expert_gate.", "ffn_gate_inp_shexp."},
        {"mlp.shared_expert.gate_proj.", "ffn_gate_shexp."},
        {"mlp.shared_expert.up_proj.", "ffn_up_shexp."},
        {"mlp.shared_expert.down_proj.", "ffn_down_shexp."},
        {"mlp.shared_experts.gate_proj.", "ffn_gate_shexp."},
        {"mlp.shared_experts.up_proj.", "ffn_up_shexp."},
        {"mlp.shared_experts.down_proj.", "ffn_down_shexp."},
        {"mlp.experts.0.gate_proj.", "ffn_gate_exps."},
        {"mlp.experts.0.up_proj.", "ffn_up_exps."},
        {"mlp.experts.0.down_proj.", "ffn_down_exps."},
        {"self_attn.sinks", "attn_sinks.weight"},
        {"mlp.router.", "ffn_gate_inp."},
        {"mlp.experts.gate_up_proj_bias", "ffn_gate_exps.bias"},
        {"mlp.experts.gate_up_proj", "ffn_gate_exps.weight"},
        {"mlp.experts.down_proj_bias", "ffn_down_exps.bias"},
        {"mlp.experts.down_proj", "ffn_down_exps.weight"},
        {"block_sparse_moe.gate.weight", "ffn_gate_inp.weight"},
        {"block_sparse_moe.e_score_correction_bias", "exp_probs_b.bias"},
        {"block_sparse_moe.experts.0.w1.", "ffn_gate_exps."},
        {"block_sparse_moe.experts.0.w3.", "ffn_up_exps."},
        {"block_sparse_moe.experts.0.w2.", "ffn_down_exps."},
        {"block_sparse_moe.router.layer.", "ffn_gate_inp."},
        {"block_sparse_moe.input_linear.", "ffn_gate_exps."},
        {"block_sparse_moe.output_linear.", "ffn_down_exps."},
        {"mlp.gate_proj.", "ffn_gate."},
        {"mlp.up_proj.", "ffn_up."},
        {"mlp.gate_up_proj.", "ffn_up."},
        {"mlp.down_proj.", "ffn_down."},
        {"embeddings.word_embeddings.", "token_embd."},
        {"embeddings.position_embeddings.", "position_embd."},
        {"embeddings.token_type_embeddings.", "token_types."},
        {"embeddings.LayerNorm.", "token_embd_norm."},
        {"attention.self.query.", "attn_q."},
        {"attention.self.key.", "attn_k."},
        {"attention.self.value.", "attn_v."},
        {"attention.output.dense.", "attn_output."},
        {"attention.output.LayerNorm.", "attn_output_norm."},
        {"intermediate.dense.", "ffn_up."},
        {"output.dense.", "ffn_down."},
        {"output.LayerNorm.", "layer_output_norm."},
    };
    uint32_t layer;
    int used = 0;
    char prefix[32] = "";
    const char *rest = name;
    if (strncmp(rest, "model.", 6) == 0)
        rest += 6;
    else if (strncmp(rest, "bert.", 5) == 0)
        rest += 5;
    else if (strncmp(rest, "roberta.", 8) == 0)
        rest += 8;
    if (strncmp(rest, "pooler.", 7) == 0) // converters omit it
        return false;
    if (sscanf(rest, "layers.%u.%n", &layer, &used) == 1 ||
        sscanf(rest, "encoder.layer.%u.%n", &layer, &used) == 1 ||
        sscanf(rest, "encoder.layers.%u.%n", &layer, &used) == 1) {
        rest += used;
        snprintf(prefix, sizeof prefix, "blk.%u.", layer);
    }
    for (size_t i = 0; i < sizeof family_names / sizeof *family_names; i++) {
        size_t bytes = strlen(family_names[i][1]);
        if (strcmp(family, family_names[i][0]) != 0 ||
            strncmp(rest, family_names[i][1], bytes) != 0)
            continue;
        snprintf(out, NAME_BYTES, "%s%s%s", prefix, family_names[i][2], rest + bytes);
        return true;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t bytes = strlen(names[i][0]);
        if (strncmp(rest, names[i][0], bytes) != 0)
            continue;
        snprintf(out, NAME_BYTES, "%s%s%s", prefix, names[i][1], rest + bytes);
        return true;
    }
    check(false, "no name for %s", name);
}

// Adds a tensor of blocks of a quantised format (tools/golden_codes.py). Its rows are in the order
// of the file.
static void put_blocks(struct gguf_build *b, const json_t *golden, const struct golden_tensor *t,
                       uint32_t type)
{
    char name[NAME_BYTES], key[16];
    const struct gguf_type *facts = gguf_type_of(type);
    check(facts && facts->bytes > 0 && name_make(name, t->name, "llama"), "no blocks for %s",
          t->name);
    uint64_t rows = (uint64_t)json_integer_value(json_array_get(t->shape, 0));
    uint64_t cols = (uint64_t)json_integer_value(json_array_get(t->shape, 1));
    size_t bytes = rows * cols / facts->elements * facts->bytes;
    uint8_t *data = heap_alloc(bytes);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)(golden_noise(t, i) >> 56);
    snprintf(key, sizeof key, "%u", type);
    size_t index;
    const json_t *half;
    json_array_foreach(json_object_get(json_object_get(golden, "halves"), key), index, half)
    {
        size_t at = (size_t)json_integer_value(json_array_get(half, 0)) + 1;
        uint8_t random = (uint8_t)json_integer_value(json_array_get(half, 1));
        uint8_t fixed = (uint8_t)json_integer_value(json_array_get(half, 2));
        for (size_t block = 0; block < bytes; block += facts->bytes)
            data[block + at] = (uint8_t)((data[block + at] & random) | fixed);
    }
    gguf_tensor_add(b, name, (const uint64_t[]){cols, rows}, 2, type, data, bytes);
    heap_free(data);
}

// Returns true for the families whose rows of q and k converters interleave.
static bool is_paired(const char *family)
{
    return strcmp(family, "llama") == 0 || strncmp(family, "granite", 7) == 0 ||
           strcmp(family, "smollm3") == 0 || strcmp(family, "mistral3") == 0;
}

static struct golden_tensor tensor_at(const json_t *golden, uint32_t index)
{
    const json_t *entry = json_array_get(json_object_get(golden, "tensors"), index);
    return (struct golden_tensor){json_string_value(json_array_get(entry, 0)),
                                  json_array_get(entry, 1),
                                  (uint64_t)json_integer_value(json_object_get(golden, "seed")),
                                  index, (int)json_integer_value(json_array_get(entry, 2))};
}

// Adds the tensors of all experts as one, if the tensor is that of the first expert. Returns false
// if the tensor is of no expert.
static bool put_stack(struct gguf_build *b, const json_t *golden, const struct golden_tensor *first,
                      const char *family)
{
    const char *at = strstr(first->name, "experts.");
    if (!at || at[8] < '0' || at[8] > '9')
        return false;
    if (at[8] != '0' || at[9] != '.')
        return true; // part of the stack of expert 0
    struct gguf_bytes all = {NULL, 0};
    char name[NAME_BYTES];
    uint64_t shape[3] = {(uint64_t)json_integer_value(json_array_get(first->shape, 1)),
                         (uint64_t)json_integer_value(json_array_get(first->shape, 0)), 0};
    for (bool found = true; found; shape[2] += found) {
        snprintf(name, sizeof name, "%.*s%llu%s", (int)(at + 8 - first->name), first->name,
                 (unsigned long long)shape[2], at + 9);
        found = false;
        for (uint32_t i = 0; i < json_array_size(json_object_get(golden, "tensors")); i++) {
            struct golden_tensor tensor = tensor_at(golden, i);
            struct tensor_file made;
            if (strcmp(tensor.name, name) != 0)
                continue;
            tensor_file_begin(&made);
            tensor_file_add(&made, &tensor, DTYPE_F32);
            gguf_put(&all, made.data, made.bytes);
            heap_free(made.data);
            json_decref(made.header);
            found = true;
        }
    }
    check(name_make(name, first->name, family), "no name for %s", first->name);
    gguf_tensor_add(b, name, shape, 3, 0, all.at, all.bytes);
    heap_free(all.at);
    return true;
}

// Adds a tensor whose matrices have first the rows of the gate, then those of up, as two tensors.
static void put_halves(struct gguf_build *b, const char *name, const uint64_t shape[3],
                       uint32_t dims, const char *data)
{
    size_t half = shape[0] * shape[1] / 2 * sizeof(float);
    for (uint32_t h = 0; h < 2; h++) {
        char *rows = heap_alloc(half * shape[2]), own[NAME_BYTES];
        for (uint64_t e = 0; e < shape[2]; e++)
            memcpy(rows + e * half, data + (2 * e + h) * half, half);
        snprintf(own, sizeof own, "%.*s%s%s", (int)(strstr(name, "ffn_") + 4 - name), name,
                 h == 0 ? "gate" : "up", dims == 2 ? ".weight" : "_exps.weight");
        gguf_tensor_add(b, own, (const uint64_t[]){shape[0], shape[1] / 2, shape[2]}, dims, 0, rows,
                        half * shape[2]);
        heap_free(rows);
    }
}

// Adds a tensor [experts][columns][rows] of GPT-OSS, or its biases [experts][rows], with the rows
// of an expert from row `first` on, every step-th.
static void put_turned(struct gguf_build *b, const char *name, const uint64_t shape[3],
                       uint32_t dims, const float *data, uint32_t first, uint32_t step)
{
    uint64_t rows = shape[0], columns = dims == 3 ? shape[1] : 1, experts = shape[dims - 1];
    uint64_t kept = rows / step, at = 0;
    float *made = heap_alloc(experts * kept * columns * sizeof *made);
    for (uint64_t e = 0; e < experts; e++)
        for (uint64_t r = first; r < rows; r += step)
            for (uint64_t c = 0; c < columns; c++)
                made[at++] = data[(e * columns + c) * rows + r];
    uint64_t matrices[3] = {columns, kept, experts}, biases[2] = {kept, experts};
    gguf_tensor_add(b, name, dims == 3 ? matrices : biases, dims, 0, made, at * sizeof *made);
    heap_free(made);
}

// Adds a tensor of all experts of GPT-OSS; returns false if the tensor is another one.
static bool put_gpt_oss(struct gguf_build *b, const struct golden_tensor *tensor,
                        const uint64_t shape[3], uint32_t dims, const char *data)
{
    const float *floats = (const float *)(const void *)data;
    char name[NAME_BYTES], up[NAME_BYTES];
    if (!strstr(tensor->name, "mlp.experts.") || !name_make(name, tensor->name, "gpt-oss"))
        return false;
    char *at = strstr(name, "gate_exps");
    put_turned(b, name, shape, dims, floats, 0, at ? 2 : 1);
    if (!at)
        return true;
    snprintf(up, sizeof up, "%.*sup%s", (int)(at - name), name, at + strlen("gate"));
    put_turned(b, up, shape, dims, floats, 1, 2);
    return true;
}

static void put_tensors(struct gguf_build *b, const json_t *golden, const char *family)
{
    const json_t *config = json_object_get(golden, "config");
    const json_t *tensors = json_object_get(golden, "tensors");
    uint32_t heads = field(config, "num_attention_heads", 1);
    uint32_t kv = field(config, "num_key_value_heads", heads);
    for (uint32_t i = 0; i < json_array_size(tensors); i++) {
        const json_t *entry = json_array_get(tensors, i);
        struct golden_tensor tensor = tensor_at(golden, i);
        if (put_stack(b, golden, &tensor, family))
            continue;
        if (json_array_size(entry) > 3) {
            put_blocks(b, golden, &tensor, (uint32_t)json_integer_value(json_array_get(entry, 3)));
            continue;
        }
        struct tensor_file made;
        char name[NAME_BYTES];
        tensor_file_begin(&made);
        tensor_file_add(&made, &tensor, DTYPE_F32);
        uint32_t dims = (uint32_t)json_array_size(tensor.shape);
        uint64_t shape[4] = {1, 1, 1, 1};
        for (uint32_t d = 0; d < dims; d++)
            shape[dims - 1 - d] = (uint64_t)json_integer_value(json_array_get(tensor.shape, d));
        char *data = heap_alloc(made.bytes);
        memcpy(data, made.data, made.bytes);
        bool q = strstr(tensor.name, "q_proj."), k = strstr(tensor.name, "k_proj.");
        uint32_t rows = (uint32_t)shape[dims - 1];
        if (is_paired(family) && (q || k))
            rows_interleave(data, made.data, rows, made.bytes / rows, q ? heads : kv);
        bool norm = strstr(tensor.name, "norm.weight") && strncmp(family, "gemma", 5) == 0;
        for (uint64_t e = 0; norm && e < made.bytes / sizeof(float); e++)
            ((float *)(void *)data)[e] += 1;
        size_t before = 0; // bytes of the rows that are left out
        if (strstr(tensor.name, "position_embeddings.")) {
            before = positions_left_out(config) * (made.bytes / rows);
            shape[dims - 1] -= positions_left_out(config);
        }
        bool made_turned =
            strcmp(family, "gpt-oss") == 0 && put_gpt_oss(b, &tensor, shape, dims, data);
        const char *joined = b->gate_apart ? "mlp.gated_layers" : "input_linear";
        if (!made_turned && strstr(tensor.name, joined) && name_make(name, tensor.name, family))
            put_halves(b, name, shape, dims, data);
        else if (!made_turned && name_make(name, tensor.name, family))
            gguf_tensor_add(b, name, shape, dims, 0, data + before, made.bytes - before);
        heap_free(data);
        heap_free(made.data);
        json_decref(made.header);
    }
}

void gguf_of_golden(struct gguf_build *b, const json_t *golden)
{
    static const char *const modes[] = {"", "pooling_mode_mean_tokens", "pooling_mode_cls_token",
                                        "pooling_mode_lasttoken"};
    const json_t *config = json_object_get(golden, "config");
    const json_t *pooling =
        json_object_get(json_object_get(golden, "files"), "1_Pooling/config.json");
    const char *type = json_string_value(json_object_get(config, "model_type"));
    const char *family = strcmp(type, "gemma3_text") == 0               ? "gemma3"
                         : strcmp(type, "gpt_oss") == 0                 ? "gpt-oss"
                         : strcmp(type, "qwen3_moe") == 0               ? "qwen3moe"
                         : strcmp(type, "qwen2_moe") == 0               ? "qwen2moe"
                         : strcmp(type, "mixtral") == 0                 ? "llama"
                         : strcmp(type, "glm4_moe") == 0                ? "glm4moe"
                         : strcmp(type, "ernie4_5_moe") == 0            ? "ernie4_5-moe"
                         : strcmp(type, "minimax_m2") == 0              ? "minimax-m2"
                         : strcmp(type, "olmo3") == 0                   ? "olmo2"
                         : strcmp(type, "hunyuan_v1_dense") == 0        ? "hunyuan-dense"
                         : strcmp(type, "cohere") == 0                  ? "command-r"
                         : strcmp(type, "nomic_bert") == 0              ? "nomic-bert"
                         : strcmp(type, "modernbert") == 0              ? "modern-bert"
                         : json_object_get(config, "feed_forward_type") ? "jina-bert-v2"
                         : strstr(type, "roberta")                      ? "bert"
                         : strstr(type, "istral")                       ? "mistral3"
                                                                        : type;
    put_config(b, family, config);
    for (uint32_t i = 1; i < 4; i++)
        if (json_is_true(json_object_get(pooling, modes[i])))
            put_key(b, family, "pooling_type", i);
    if (json_is_true(json_object_get(config, "is_original_qwen3_reranker")))
        put_key(b, family, "pooling_type", 4);
    put_vocabulary(b, config, family);
    put_tensors(b, golden, family);
}

void gguf_add_freqs(struct gguf_build *b, const json_t *config, const json_t *scaling)
{
    float factors[64];
    double theta = json_number_value(json_object_get(config, "rope_theta"));
    double factor = json_number_value(json_object_get(scaling, "factor"));
    double low = json_number_value(json_object_get(scaling, "low_freq_factor"));
    double high = json_number_value(json_object_get(scaling, "high_freq_factor"));
    double original =
        json_number_value(json_object_get(scaling, "original_max_position_embeddings"));
    uint32_t dim = (uint32_t)json_integer_value(json_object_get(config, "head_dim"));
    if (dim == 0)
        dim = (uint32_t)(json_integer_value(json_object_get(config, "hidden_size")) /
                         json_integer_value(json_object_get(config, "num_attention_heads")));
    for (uint32_t i = 0; i < dim / 2; i++) {
        double turns = original / (6.283185307179586 * pow(theta, 2.0 * i / dim));
        double smooth = (turns - low) / (high - low);
        double by = turns < low ? factor : turns > high ? 1 : 1 / ((1 - smooth) / factor + smooth);
        factors[i] = (float)(low > 0 ? by : factor);
    }
    gguf_tensor_add(b, "rope_freqs.weight", &(uint64_t){dim / 2}, 1, 0, factors, 4ul * (dim / 2));
}
