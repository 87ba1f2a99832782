// SPDX-License-Identifier: Apache-2.0
// The table of families of GGUF files; see gguf_family.h. Names and keys are those of llama.cpp and
// of its converter. Constant data.
#include "runtime/source/gguf_family.h"

#include "runtime/source/gguf_documents.h"

#include <stdio.h>
#include <string.h>

#define GRANITE_KEYS "embedding_multiplier residual_multiplier attention_multiplier logit_scale"

static const struct gguf_mixture ernie_mixture = {
    .generator = "Ernie4_5_MoeForCausalLM",
    .count = "moe_num_experts",
    .chosen = "moe_k",
    .width = "moe_intermediate_size",
    .shared_count = "moe_num_shared_experts",
    .dense = "moe_layer_start_index",
    .interval = "moe_layer_interval",
    .score = GGUF_SCORE_SOFTMAX,
};

static const struct gguf_mixture glm4_mixture = {
    .generator = "Glm4MoeForCausalLM",
    .count = "n_routed_experts",
    .chosen = "num_experts_per_tok",
    .width = "moe_intermediate_size",
    .shared_count = "n_shared_experts",
    .dense = "first_k_dense_replace",
    .score = GGUF_SCORE_SIGMOID,
    .flags = MIXTURE_NORM_KEY | MIXTURE_NORM | MIXTURE_FACTOR | MIXTURE_GROUPS,
};

// A mixture whose experts have intermediate_size columns.
#define PLAIN_MIXTURE(published, key, gating, more)                                                \
    {                                                                                              \
        .generator = published,                                                                    \
        .count = key,                                                                              \
        .chosen = "num_experts_per_tok",                                                           \
        .width = "intermediate_size",                                                              \
        .score = gating,                                                                           \
        .flags = (more),                                                                           \
    }
static const struct gguf_mixture gpt_oss_mixture =
    PLAIN_MIXTURE("GptOssForCausalLM", "num_local_experts", GGUF_SCORE_CHOSEN, 0);
static const struct gguf_mixture granite_mixture =
    PLAIN_MIXTURE("GraniteMoeForCausalLM", "num_local_experts", GGUF_SCORE_SOFTMAX, 0);
static const struct gguf_mixture minimax_mixture =
    PLAIN_MIXTURE("MiniMaxM2ForCausalLM", "num_local_experts", GGUF_SCORE_SIGMOID, 0);
static const struct gguf_mixture mixtral_mixture =
    PLAIN_MIXTURE("MixtralForCausalLM", "num_local_experts", GGUF_SCORE_SOFTMAX, 0);
static const struct gguf_mixture olmoe_mixture =
    PLAIN_MIXTURE("OlmoeForCausalLM", "num_experts", GGUF_SCORE_SOFTMAX, MIXTURE_NORM_KEY);

static const struct gguf_mixture qwen2_mixture = {
    .generator = "Qwen2MoeForCausalLM",
    .count = "num_experts",
    .chosen = "num_experts_per_tok",
    .width = "moe_intermediate_size",
    .shared_width = "shared_expert_intermediate_size",
    .score = GGUF_SCORE_SOFTMAX,
    .flags = MIXTURE_NORM_KEY,
};

static const struct gguf_mixture qwen3_mixture = {
    .generator = "Qwen3MoeForCausalLM",
    .count = "num_experts",
    .chosen = "num_experts_per_tok",
    .width = "moe_intermediate_size",
    .score = GGUF_SCORE_SOFTMAX,
    .flags = MIXTURE_NORM_KEY | MIXTURE_NORM,
};

// A family whose files all have experts.
#define MIXTURE(family, published, more_flags, keys, of)                                           \
    {family, published, NULL, NULL, more_flags, 0, keys, &of}

// Sorted by name, because users read the names in the message about an unknown one.
static const struct gguf_family families[] = {
    {"bert", NULL, "BertModel", "RobertaForSequenceClassification", 0, 0, NULL, NULL},
    {"cohere2", "Cohere2ForCausalLM", NULL, NULL,
     GGUF_LAYER_NORM | GGUF_LOGIT_SCALE | GGUF_WINDOW | GGUF_ROPE_WINDOW, 4, "logit_scale", NULL},
    {"command-r", "CohereForCausalLM", NULL, NULL, GGUF_LAYER_NORM | GGUF_LOGIT_SCALE, 0,
     "logit_scale", NULL},
    {"ernie4_5", "Ernie4_5ForCausalLM", NULL, NULL, 0, 0, NULL, NULL},
    MIXTURE("ernie4_5-moe", "Ernie4_5_MoeForCausalLM", 0, NULL, ernie_mixture),
    {"exaone4", "Exaone4ForCausalLM", NULL, NULL, GGUF_WINDOW, 4, NULL, NULL},
    {"gemma", "GemmaForCausalLM", NULL, NULL, 0, 0, NULL, NULL},
    {"gemma3", "Gemma3ForCausalLM", NULL, NULL, GGUF_WINDOW | GGUF_WINDOW_ROPE | GGUF_QUERY_SCALAR,
     6, NULL, NULL},
    {"glm4", "Glm4ForCausalLM", NULL, NULL, 0, 0, NULL, NULL},
    MIXTURE("glm4moe", "Glm4MoeForCausalLM", GGUF_QK_NORM, NULL, glm4_mixture),
    {"gpt-oss", "GptOssForCausalLM", NULL, NULL, GGUF_WINDOW | GGUF_YARN_EXACT, 2, NULL,
     &gpt_oss_mixture},
    {"granite", "GraniteForCausalLM", NULL, NULL, GGUF_PAIRED | GGUF_MULTIPLIERS | GGUF_ROPE_SWITCH,
     0, GRANITE_KEYS, NULL},
    MIXTURE("granitemoe", "GraniteMoeForCausalLM",
            GGUF_PAIRED | GGUF_MULTIPLIERS | GGUF_ROPE_SWITCH, GRANITE_KEYS, granite_mixture),
    {"hunyuan-dense", "HunYuanDenseV1ForCausalLM", NULL, NULL, 0, 0, NULL, NULL},
    {"jina-bert-v2", NULL, "JinaBertModel", NULL, 0, 0, NULL, NULL},
    {"llama", "LlamaForCausalLM", "LlamaModel", NULL, GGUF_PAIRED, 0, NULL, &mixtral_mixture},
    MIXTURE("minimax-m2", "MiniMaxM2ForCausalLM", 0, NULL, minimax_mixture),
    {"mistral3", "MistralForCausalLM", "MistralModel", "Ministral3ForCausalLM",
     GGUF_PAIRED | GGUF_WINDOW | GGUF_TEMPERATURE, 0, NULL, NULL},
    {"modern-bert", NULL, "ModernBertModel", "ModernBertForSequenceClassification",
     GGUF_ROTARY | GGUF_WINDOW | GGUF_WINDOW_ROPE, 3, "local_attention", NULL},
    {"nomic-bert", NULL, "NomicBertModel", NULL, GGUF_ROTARY, 0, NULL, NULL},
    {"olmo2", "Olmo2ForCausalLM", NULL, "Olmo3ForCausalLM", GGUF_WINDOW, 4, NULL, NULL},
    MIXTURE("olmoe", "OlmoeForCausalLM", 0, NULL, olmoe_mixture),
    {"phi3", "Phi3ForCausalLM", NULL, NULL, GGUF_WINDOW, 0, NULL, NULL},
    {"qwen2", "Qwen2ForCausalLM", "Qwen2Model", NULL, 0, 0, NULL, NULL},
    MIXTURE("qwen2moe", "Qwen2MoeForCausalLM", 0, NULL, qwen2_mixture),
    {"qwen3", "Qwen3ForCausalLM", "Qwen3Model", NULL, GGUF_RANKS, 0, NULL, NULL},
    MIXTURE("qwen3moe", "Qwen3MoeForCausalLM", 0, NULL, qwen3_mixture),
    {"seed_oss", "SeedOssForCausalLM", NULL, NULL, 0, 0, NULL, NULL},
    {"smollm3", "SmolLM3ForCausalLM", NULL, NULL, GGUF_PAIRED, 0, NULL, NULL},
};

enum { FAMILIES = sizeof families / sizeof families[0] };

const struct gguf_family *gguf_family_find(struct text name)
{
    for (size_t i = 0; name.at && i < FAMILIES; i++)
        if (text_is(name, families[i].name))
            return &families[i];
    return NULL;
}

void gguf_family_list(char *out, size_t bytes)
{
    size_t used = 0;
    for (size_t i = 0; i < FAMILIES && used < bytes; i++)
        used += (size_t)snprintf(out + used, bytes - used, "%s%s",
                                 i == 0              ? ""
                                 : i == FAMILIES - 1 ? " and "
                                                     : ", ",
                                 families[i].name);
}

const char *gguf_family(const char *architecture)
{
    for (size_t i = 0; i < FAMILIES; i++) {
        const struct gguf_mixture *mixture = families[i].mixture;
        const char *const names[] = {families[i].generator, families[i].embedder,
                                     families[i].variant, mixture ? mixture->generator : NULL};
        for (int k = 0; k < 4; k++)
            if (names[k] && strcmp(names[k], architecture) == 0)
                return families[i].name;
    }
    return NULL;
}
