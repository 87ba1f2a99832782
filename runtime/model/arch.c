// SPDX-License-Identifier: Apache-2.0
// The table of architectures; see arch.h. To add one: docs/ADDING_A_MODEL.md.
#include "runtime/model/arch.h"

#include <stdio.h>
#include <string.h>

static const struct arch_names decoder_names = {
    .prefixes = {"model.", "", NULL},
    .anchor = "layers.0.input_layernorm.weight",
    .embed = {"embed_tokens.weight", SHARD_ROWS},
    .head = {"lm_head.weight", SHARD_ROWS},
    .final_norm = "norm",
    .q = {"layers.%u.self_attn.q_proj", SHARD_ROWS},
    .k = {"layers.%u.self_attn.k_proj", SHARD_ROWS},
    .v = {"layers.%u.self_attn.v_proj", SHARD_ROWS},
    .o = {"layers.%u.self_attn.o_proj", SHARD_COLUMNS},
    .q_norm = "layers.%u.self_attn.q_norm",
    .k_norm = "layers.%u.self_attn.k_norm",
    .norm_attn = "layers.%u.input_layernorm",
    .norm_ffn = "layers.%u.post_attention_layernorm",
    .gate = {"layers.%u.mlp.gate_proj", SHARD_ROWS},
    .up = {"layers.%u.mlp.up_proj", SHARD_ROWS},
    .down = {"layers.%u.mlp.down_proj", SHARD_COLUMNS},
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
#define ENCODER(published, head_kind, more_flags, names_of)                                        \
    {.name = published,                                                                            \
     .family = ARCH_ENCODER,                                                                       \
     .head = head_kind,                                                                            \
     .flags = (more_flags),                                                                        \
     .names = &names_of,                                                                           \
     .norm_epsilon = 1e-12,                                                                        \
     .types = 2}

// keys that window_read (config.c) reads
#define WINDOW_KEYS "sliding_window"

enum {
    LLAMA = 0,
    MISTRAL = ARCH_WINDOW,
    QWEN2 = ARCH_QKV_BIAS | ARCH_WINDOW_BY_FLAG,
    QWEN3 = ARCH_QK_NORM | ARCH_WINDOW_BY_FLAG,
    ROBERTA = ARCH_POSITION_OFFSET,
};

// Sorted by name, because users read this list in the error message for an unknown name.
static const struct architecture architectures[] = {
    ENCODER("BertForMaskedLM", HEAD_NONE, 0, bert_names),
    ENCODER("BertForSequenceClassification", HEAD_POOLER, 0, bert_names),
    ENCODER("BertModel", HEAD_NONE, 0, bert_names),
    ENCODER("CamembertForMaskedLM", HEAD_NONE, ROBERTA, roberta_names),
    ENCODER("CamembertForSequenceClassification", HEAD_CLASSIFIER, ROBERTA, roberta_names),
    ENCODER("CamembertModel", HEAD_NONE, ROBERTA, roberta_names),
    DECODER("LlamaForCausalLM", HEAD_VOCABULARY, LLAMA, .window = 0),
    DECODER("LlamaForSequenceClassification", HEAD_SCORE, LLAMA, .window = 0),
    DECODER("LlamaModel", HEAD_NONE, LLAMA, .window = 0),
    DECODER("MistralForCausalLM", HEAD_VOCABULARY, MISTRAL, .window = 4096, .kv_heads = 8,
            .reads = WINDOW_KEYS),
    DECODER("MistralForSequenceClassification", HEAD_SCORE, MISTRAL, .window = 4096, .kv_heads = 8,
            .reads = WINDOW_KEYS),
    DECODER("MistralModel", HEAD_NONE, MISTRAL, .window = 4096, .kv_heads = 8,
            .reads = WINDOW_KEYS),
    DECODER("Qwen2ForCausalLM", HEAD_VOCABULARY, QWEN2, .window = 4096, .reads = WINDOW_KEYS),
    DECODER("Qwen2ForSequenceClassification", HEAD_SCORE, QWEN2, .window = 4096,
            .reads = WINDOW_KEYS),
    DECODER("Qwen2Model", HEAD_NONE, QWEN2, .window = 4096, .reads = WINDOW_KEYS),
    DECODER("Qwen3ForCausalLM", HEAD_VOCABULARY, QWEN3 | ARCH_YES_NO, .window = 4096,
            .head_dim = 128, .reads = WINDOW_KEYS),
    DECODER("Qwen3ForSequenceClassification", HEAD_SCORE, QWEN3 | ARCH_YES_NO_PROMPT,
            .window = 4096, .head_dim = 128, .reads = WINDOW_KEYS),
    DECODER("Qwen3Model", HEAD_NONE, QWEN3, .window = 4096, .head_dim = 128, .reads = WINDOW_KEYS),
    ENCODER("RobertaForMaskedLM", HEAD_NONE, ROBERTA, roberta_names),
    ENCODER("RobertaForSequenceClassification", HEAD_CLASSIFIER, ROBERTA, roberta_names),
    ENCODER("RobertaModel", HEAD_NONE, ROBERTA, roberta_names),
    ENCODER("XLMRobertaForMaskedLM", HEAD_NONE, ROBERTA, roberta_names),
    ENCODER("XLMRobertaForSequenceClassification", HEAD_CLASSIFIER, ROBERTA, roberta_names),
    ENCODER("XLMRobertaModel", HEAD_NONE, ROBERTA, roberta_names),
};

enum { ARCHITECTURE_COUNT = sizeof architectures / sizeof architectures[0] };

const struct architecture *architecture_find(const char *name)
{
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

void architecture_list(char *out, size_t bytes)
{
    size_t used = 0;
    const char *last = "";
    for (size_t i = 0; i < ARCHITECTURE_COUNT && used < bytes; i++) {
        const char *name = architectures[i].name;
        size_t family = family_bytes(name);
        if (family == family_bytes(last) && memcmp(name, last, family) == 0)
            continue;
        int wrote = snprintf(out + used, bytes - used, "%s%.*s", last[0] != '\0' ? ", " : "",
                             (int)family, name);
        used += wrote > 0 ? (size_t)wrote : 0;
        last = name;
    }
}
