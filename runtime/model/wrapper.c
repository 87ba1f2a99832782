// SPDX-License-Identifier: Apache-2.0
// The table of multimodal checkpoints and of the types of their text parts; see wrapper.h.
#include "runtime/model/wrapper.h"

#include "base/safe.h"
#include "base/status.h"

#include <stdio.h>
#include <string.h>

// A type of text part: text_config.model_type.
struct text_type {
    const char *type;
    const char *arch;     // architecture with the same decoder
    const char *defaults; // JSON of the reference's configuration class; NULL: those of `arch`
    // Keys that the reference's class does not read although those of `arch` do, separated by
    // spaces; NULL: none.
    const char *unread;
    // True if positions of the type "mrope" are read as plain rotary positions: they have three
    // dimensions, which are equal for text.
    bool mrope;
};

// Defaults of the reference's configuration classes: wrappers often lack these fields.
#define QWEN_VL_DEFAULTS                                                                           \
    "{\"vocab_size\":152064,\"hidden_size\":8192,\"intermediate_size\":29568,"                     \
    "\"num_hidden_layers\":80,\"num_attention_heads\":64,\"num_key_value_heads\":8,"               \
    "\"max_position_embeddings\":32768,\"rms_norm_eps\":1e-05,\"rope_theta\":1000000.0,"           \
    "\"max_window_layers\":80}"
#define QWEN_DEFAULTS                                                                              \
    "{\"vocab_size\":151936,\"hidden_size\":4096,\"intermediate_size\":22016,"                     \
    "\"num_hidden_layers\":32,\"num_attention_heads\":32,\"num_key_value_heads\":32,"              \
    "\"max_position_embeddings\":32768}"
#define QWEN3_VL_DEFAULTS                                                                          \
    "{\"vocab_size\":151936,\"hidden_size\":4096,\"intermediate_size\":22016,"                     \
    "\"num_hidden_layers\":32,\"num_attention_heads\":32,\"num_key_value_heads\":32,"              \
    "\"max_position_embeddings\":128000,\"rope_theta\":500000.0}"
// The class always divides the weights of experts by their sum.
#define QWEN3_VL_MOE_DEFAULTS                                                                      \
    "{\"vocab_size\":151936,\"hidden_size\":2048,\"intermediate_size\":5632,"                      \
    "\"num_hidden_layers\":24,\"num_attention_heads\":16,\"num_key_value_heads\":16,"              \
    "\"max_position_embeddings\":128000,\"rope_theta\":500000.0,\"num_experts\":60,"               \
    "\"num_experts_per_tok\":4,\"moe_intermediate_size\":1408,\"norm_topk_prob\":true}"
#define LLAMA_DEFAULTS                                                                             \
    "{\"vocab_size\":32000,\"hidden_size\":4096,\"intermediate_size\":11008,"                      \
    "\"num_hidden_layers\":32,\"num_attention_heads\":32,\"max_position_embeddings\":2048}"
#define MISTRAL_DEFAULTS                                                                           \
    "{\"vocab_size\":32000,\"hidden_size\":4096,\"intermediate_size\":14336,"                      \
    "\"num_hidden_layers\":32,\"num_attention_heads\":32,\"max_position_embeddings\":131072}"
#define MINISTRAL3_DEFAULTS                                                                        \
    "{\"vocab_size\":131072,\"hidden_size\":4096,\"intermediate_size\":14336,"                     \
    "\"num_hidden_layers\":34,\"num_attention_heads\":32,\"num_key_value_heads\":8,"               \
    "\"head_dim\":128,\"max_position_embeddings\":262144,\"rms_norm_eps\":1e-05,"                  \
    "\"sliding_window\":null}"
#define GRANITE_DEFAULTS                                                                           \
    "{\"vocab_size\":32000,\"hidden_size\":4096,\"intermediate_size\":11008,"                      \
    "\"num_hidden_layers\":32,\"num_attention_heads\":32,\"max_position_embeddings\":2048}"

static const struct text_type text_types[] = {
    {"gemma3_text", "Gemma3ForCausalLM", NULL, NULL, false},
    // The heads of wrappers do not divide the logits.
    {"granite", "GraniteForCausalLM", GRANITE_DEFAULTS, "logits_scaling", false},
    {"llama", "LlamaForCausalLM", LLAMA_DEFAULTS, NULL, false},
    {"ministral3", "Ministral3ForCausalLM", MINISTRAL3_DEFAULTS, NULL, false},
    {"mistral", "MistralForCausalLM", MISTRAL_DEFAULTS, NULL, false},
    {"qwen2", "Qwen2ForCausalLM", QWEN_DEFAULTS, NULL, false},
    {"qwen2_5_vl_text", "Qwen2ForCausalLM", QWEN_VL_DEFAULTS, NULL, true},
    {"qwen2_vl_text", "Qwen2ForCausalLM", QWEN_VL_DEFAULTS, NULL, true},
    {"qwen3", "Qwen3ForCausalLM", QWEN_DEFAULTS, NULL, false},
    {"qwen3_vl_moe_text", "Qwen3MoeForCausalLM", QWEN3_VL_MOE_DEFAULTS,
     "use_sliding_window sliding_window layer_types norm_topk_prob", false},
    {"qwen3_vl_text", "Qwen3ForCausalLM", QWEN3_VL_DEFAULTS,
     "use_sliding_window sliding_window layer_types", false},
};

// Tensor names that transformers writes from version 5 on, and names in older files.
#define LLAVA_NAMES                                                                                \
    .names = {{"model.language_model.", "lm_head.weight"},                                         \
              {"language_model.model.", "language_model.lm_head.weight"}}
#define LLAVA_OTHERS                                                                               \
    "model.vision_tower. model.multi_modal_projector. vision_tower. multi_modal_projector."
#define QWEN_NAMES                                                                                 \
    .names = {{"model.language_model.", "lm_head.weight"}, {"model.", "lm_head.weight"}},          \
    .others = "model.visual. visual."
#define IDEFICS_NAMES                                                                              \
    .names = {{"model.text_model.", "lm_head.weight"}},                                            \
    .others = "model.vision_model. model.connector."

// Sorted by name. PaliGemma is not served: its text part attends to later tokens of the prompt.
static const struct wrapper wrappers[] = {
    {.name = "Gemma3ForConditionalGeneration",
     .media = "images",
     .text_type = "gemma3_text",
     .fixed = true,
     LLAVA_NAMES,
     .others = LLAVA_OTHERS},
    {.name = "Idefics3ForConditionalGeneration",
     .media = "images",
     .text_type = "llama",
     IDEFICS_NAMES},
    {.name = "InternVLForConditionalGeneration",
     .media = "images and videos",
     .text_type = "qwen2",
     LLAVA_NAMES,
     .others = LLAVA_OTHERS},
    {.name = "LlavaForConditionalGeneration",
     .media = "images",
     .text_type = "llama",
     .text_ties = true,
     LLAVA_NAMES,
     .others = LLAVA_OTHERS},
    {.name = "LlavaNextForConditionalGeneration",
     .media = "images",
     .text_type = "llama",
     LLAVA_NAMES,
     .others = LLAVA_OTHERS " model.image_newline image_newline"},
    {.name = "LlavaOnevisionForConditionalGeneration",
     .media = "images and videos",
     .text_type = "qwen2",
     .text_ties = true,
     LLAVA_NAMES,
     .others = LLAVA_OTHERS " model.image_newline image_newline"},
    {.name = "Mistral3ForConditionalGeneration",
     .media = "images",
     .text_type = "mistral",
     LLAVA_NAMES,
     .others = LLAVA_OTHERS},
    {.name = "Qwen2VLForConditionalGeneration",
     .media = "images and videos",
     .text_type = "qwen2_vl_text",
     .fixed = true,
     .flat = true,
     .text_ties = true,
     QWEN_NAMES},
    {.name = "Qwen2_5_VLForConditionalGeneration",
     .media = "images and videos",
     .text_type = "qwen2_5_vl_text",
     .fixed = true,
     .flat = true,
     .text_ties = true,
     QWEN_NAMES},
    {.name = "Qwen3VLForConditionalGeneration",
     .media = "images and videos",
     .text_type = "qwen3_vl_text",
     .fixed = true,
     QWEN_NAMES},
    {.name = "Qwen3VLMoeForConditionalGeneration",
     .media = "images and videos",
     .text_type = "qwen3_vl_moe_text",
     .fixed = true,
     QWEN_NAMES},
    {.name = "SmolVLMForConditionalGeneration",
     .media = "images and videos",
     .text_type = "llama",
     IDEFICS_NAMES},
};

enum {
    TYPE_COUNT = sizeof text_types / sizeof text_types[0],
    WRAPPER_COUNT = sizeof wrappers / sizeof wrappers[0],
};

const struct wrapper *wrapper_find(const char *name)
{
    for (size_t i = 0; i < WRAPPER_COUNT; i++)
        if (strcmp(wrappers[i].name, name) == 0)
            return &wrappers[i];
    return NULL;
}

const struct wrapper *wrapper_at(uint32_t i)
{
    return i < WRAPPER_COUNT ? &wrappers[i] : NULL;
}

void wrapper_list(char *out, size_t bytes)
{
    out[0] = '\0';
    for (size_t i = 0; i < WRAPPER_COUNT; i++)
        architecture_list_add(out, bytes, wrappers[i].name);
}

bool wrapper_other(const struct wrapper *wrapper, const char *name)
{
    const char *list = wrapper->others;
    for (struct text word; (word = text_word(&list)).bytes > 0;)
        if (strncmp(name, word.at, word.bytes) == 0 &&
            (word.at[word.bytes - 1] == '.' || name[word.bytes] == '\0'))
            return true;
    return false;
}

bool wrapper_head(const struct wrapper *wrapper, const char *name)
{
    for (int i = 0; i < WRAPPER_NAMES_MAX && wrapper->names[i].head; i++)
        if (strcmp(wrapper->names[i].head, name) == 0)
            return true;
    return false;
}

static const struct text_type *type_find(const char *type)
{
    for (size_t i = 0; type && i < TYPE_COUNT; i++)
        if (strcmp(text_types[i].type, type) == 0 && architecture_find(text_types[i].arch))
            return &text_types[i];
    return NULL;
}

const char *wrapper_text_at(const struct wrapper *wrapper, uint32_t i)
{
    for (size_t t = 0; t < TYPE_COUNT; t++) {
        const struct text_type *type = &text_types[t];
        bool possible = strcmp(type->type, wrapper->text_type) == 0 ||
                        (!wrapper->fixed && !strstr(type->type, "_text"));
        if (possible && architecture_find(type->arch) && i-- == 0)
            return type->arch;
    }
    return NULL;
}

// Removes the keys that the reference does not read, and gives positions in three dimensions the
// type of plain ones.
static void text_settle(json_t *text, const struct text_type *type)
{
    static const char *const objects[] = {"rope_scaling", "rope_parameters"};
    const char *unread = type->unread ? type->unread : "";
    for (struct text key; (key = text_word(&unread)).bytes > 0;)
        json_object_deln(text, key.at, key.bytes);
    for (size_t i = 0; type->mrope && i < sizeof objects / sizeof objects[0]; i++) {
        const json_t *given = json_object_get(text, objects[i]);
        const char *kind = json_string_value(json_object_get(given, "rope_type"));
        if (!kind)
            kind = json_string_value(json_object_get(given, "type"));
        if (!kind || strcmp(kind, "mrope") != 0)
            continue;
        json_t *rope = json_copy((json_t *)given);
        json_object_set_new(rope, "rope_type", json_string("default"));
        json_object_set_new(text, objects[i], rope);
    }
}

// Sets the fields that the wrapper's config.json determines.
static void outer_settle(json_t *text, const struct wrapper *wrapper, const json_t *config)
{
    static const char *const keys[] = {"torch_dtype", "dtype", "quantization_config",
                                       "compression_config"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        json_t *given = json_object_get(config, keys[i]);
        if (given && !json_is_null(given))
            json_object_set(text, keys[i], given);
    }
    // Null: the checkpoint determines it. Classes whose default is a tied head also use a head that
    // is in the checkpoint.
    const json_t *outer = json_object_get(config, "tie_word_embeddings");
    bool inner = json_is_true(json_object_get(text, "tie_word_embeddings"));
    json_t *tied = json_null();
    if (json_is_true(outer) || (wrapper->text_ties && inner))
        tied = json_true();
    else if (outer && !json_is_null(outer))
        tied = (json_t *)outer;
    if (json_object_get(text, "tie_word_embeddings"))
        json_object_set_new(text, "tied_usually", json_boolean(inner));
    json_object_set(text, "tie_word_embeddings", tied);
}

enum status wrapper_text(json_t **out, const struct architecture **arch,
                         const struct wrapper *wrapper, const json_t *config, struct error *err)
{
    const json_t *text = json_object_get(config, "text_config");
    *out = NULL;
    if ((!text || json_is_null(text)) && wrapper->flat)
        text = config;
    if (!json_is_object(text))
        return error_set(err, STATUS_INVALID, "config.json: text_config of %s is not an object",
                         wrapper->name);
    const json_t *named = json_object_get(text, "model_type");
    const char *name = wrapper->text_type;
    if (named && !wrapper->fixed)
        name = json_is_string(named) ? json_string_value(named) : "(not a string)";
    const struct text_type *type = type_find(name);
    if (!type)
        return error_set(err, STATUS_UNSUPPORTED,
                         "config.json: the text part of this %s is of the type %.64s (text_config."
                         "model_type), which is not served",
                         wrapper->name, safe_of(text_of(name)).at);
    *arch = architecture_find(type->arch);
    *out = json_copy((json_t *)text);
    text_settle(*out, type);
    outer_settle(*out, wrapper, config);
    architecture_rename(*arch, *out); // before the defaults of the same keys
    json_t *defaults = type->defaults ? json_loads(type->defaults, 0, NULL) : NULL;
    if (defaults)
        json_object_update_missing(*out, defaults);
    json_decref(defaults);
    return STATUS_OK;
}
