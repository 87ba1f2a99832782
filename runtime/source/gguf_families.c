// SPDX-License-Identifier: Apache-2.0
// The table of families of GGUF files; see gguf_family.h. Names and keys are those of llama.cpp and
// of its converter. Constant data.
#include "runtime/source/gguf_family.h"

#include "runtime/source/gguf_documents.h"

#include <stdio.h>
#include <string.h>

#define GRANITE_KEYS "embedding_multiplier residual_multiplier attention_multiplier logit_scale"

// Sorted by name, because users read the names in the message about an unknown one.
static const struct gguf_family families[] = {
    {"bert", NULL, "BertModel", NULL, 0, 0, NULL},
    {"cohere2", "Cohere2ForCausalLM", NULL, NULL,
     GGUF_LAYER_NORM | GGUF_LOGIT_SCALE | GGUF_WINDOW | GGUF_ROPE_WINDOW, 4, "logit_scale"},
    {"command-r", "CohereForCausalLM", NULL, NULL, GGUF_LAYER_NORM | GGUF_LOGIT_SCALE, 0,
     "logit_scale"},
    {"ernie4_5", "Ernie4_5ForCausalLM", NULL, NULL, 0, 0, NULL},
    {"exaone4", "Exaone4ForCausalLM", NULL, NULL, GGUF_WINDOW, 4, NULL},
    {"gemma", "GemmaForCausalLM", NULL, NULL, 0, 0, NULL},
    {"gemma3", "Gemma3ForCausalLM", NULL, NULL, GGUF_WINDOW | GGUF_WINDOW_ROPE | GGUF_QUERY_SCALAR,
     6, NULL},
    {"glm4", "Glm4ForCausalLM", NULL, NULL, 0, 0, NULL},
    {"granite", "GraniteForCausalLM", NULL, NULL, GGUF_PAIRED | GGUF_MULTIPLIERS | GGUF_ROPE_SWITCH,
     0, GRANITE_KEYS},
    {"hunyuan-dense", "HunYuanDenseV1ForCausalLM", NULL, NULL, 0, 0, NULL},
    {"llama", "LlamaForCausalLM", "LlamaModel", NULL, GGUF_PAIRED, 0, NULL},
    {"mistral3", "MistralForCausalLM", "MistralModel", "Ministral3ForCausalLM",
     GGUF_PAIRED | GGUF_WINDOW | GGUF_TEMPERATURE, 0, NULL},
    {"olmo2", "Olmo2ForCausalLM", NULL, "Olmo3ForCausalLM", GGUF_WINDOW, 4, NULL},
    {"phi3", "Phi3ForCausalLM", NULL, NULL, GGUF_WINDOW, 0, NULL},
    {"qwen2", "Qwen2ForCausalLM", "Qwen2Model", NULL, 0, 0, NULL},
    {"qwen3", "Qwen3ForCausalLM", "Qwen3Model", NULL, GGUF_RANKS, 0, NULL},
    {"seed_oss", "SeedOssForCausalLM", NULL, NULL, 0, 0, NULL},
    {"smollm3", "SmolLM3ForCausalLM", NULL, NULL, GGUF_PAIRED, 0, NULL},
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
        const char *const names[] = {families[i].generator, families[i].embedder,
                                     families[i].variant};
        for (int k = 0; k < 3; k++)
            if (names[k] && strcmp(names[k], architecture) == 0)
                return families[i].name;
    }
    return NULL;
}
