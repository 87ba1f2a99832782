// SPDX-License-Identifier: Apache-2.0
// Finds tensors of a checkpoint that no weight uses; see unused.h. Loading thread only.
#include "runtime/model/unused.h"

#include "base/arena.h"
#include "base/log.h"
#include "base/safe.h"
#include "runtime/model/dequantise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool starts_with(const char *name, const char *start)
{
    return strncmp(name, start, strlen(start)) == 0;
}

static bool ends_with(const char *name, const char *end)
{
    size_t bytes = strlen(name), tail = strlen(end);
    return bytes >= tail && strcmp(name + bytes - tail, end) == 0;
}

// Returns true for a tensor of a GGUF file that may be unused: config.json contains the factors of
// frequencies; embedders and rerankers may keep the generator's head.
static bool gguf_spare(const char *name, const struct model_config *config)
{
    return strcmp(name, "rope_freqs.weight") == 0 ||
           strcmp(name, "rope_factors_long.weight") == 0 ||
           strcmp(name, "rope_factors_short.weight") == 0 ||
           (config->kind != MODEL_GENERATOR && strcmp(name, "lm_head.weight") == 0);
}

// Returns true for a layer after the model's last one that only predicts further tokens.
static bool further_layer(const char *name, const struct model_config *config)
{
    static const char start[] = "layers.";
    if (!starts_with(name, start))
        return false;
    unsigned long layer = strtoul(name + sizeof start - 1, NULL, 10);
    return layer >= config->layers && layer - config->layers < config->further_layers;
}

// Returns true for a tensor of a folder that may be unused. name: the tensor's name after the
// prefix.
static bool folder_spare(const char *name, const struct model_config *config)
{
    // Constants that older versions of transformers saved, and scales of queries, keys, values,
    // inputs and outputs in 8 bits.
    static const char *const buffers[] = {"rotary_emb.inv_freq",
                                          "rotary_emb.cos_cached",
                                          "rotary_emb.sin_cached",
                                          "embeddings.position_ids",
                                          "embeddings.token_type_ids",
                                          ".k_scale",
                                          ".v_scale",
                                          ".kv_scale",
                                          ".q_scale",
                                          ".output_scale",
                                          ".input_scale",
                                          ".input_global_scale"};
    // Heads of other tasks, which read the hidden states and change nothing in them.
    static const char *const heads[] = {
        "score.",  "classifier.",     "qa_outputs.",  "cls.",          "pooler.",
        "v_head.", "value_head.",     "mtp.",         "mtp_",          "vocab_",
        "head.",   "pre_classifier.", "decoder.bias", "decoder.weight"};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        if (ends_with(name, buffers[i]))
            return true;
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++)
        if (starts_with(name, heads[i]))
            return true;
    // A generator with a tied head ignores a stored one, but not its bias.
    bool weight = strcmp(name, "lm_head.weight") == 0;
    if (starts_with(name, "lm_head.") &&
        (config->kind != MODEL_GENERATOR || (weight && config->tied)))
        return true;
    return further_layer(name, config);
}

// Returns true for a bias of zeros next to codes: GPTQ's tools write one for every product.
static bool zero_bias(const struct tensors *tensors, const struct tensor *bias)
{
    char name[TENSOR_NAME_MAX + 8];
    if (!ends_with(bias->name.at, ".bias"))
        return false;
    snprintf(name, sizeof name, "%.*s.weight", (int)(bias->name.bytes - strlen(".bias")),
             bias->name.at);
    const struct tensor *weight = tensors_find(tensors, name);
    bool zeros = weight && weight->packed;
    for (uint64_t i = 0; zeros && i < bias->bytes; i++)
        zeros = ((const char *)bias->map)[i] == 0;
    return zeros;
}

// Returns true for a tensor of a multimodal checkpoint that may be unused. name: the tensor's name
// with the prefix.
static bool wrapper_spare(const char *name, const struct model_config *config)
{
    const struct wrapper *wrapper = config->wrapper;
    return wrapper &&
           (wrapper_other(wrapper, name) || (config->tied && wrapper_head(wrapper, name)));
}

// Returns true for a scale of keys or values in 8 bits. Some tools store that of keys as the scale
// of the outputs of k_proj, and likewise for values.
static bool kv_scale(const char *name)
{
    static const char *const ends[] = {".k_scale", ".v_scale", ".kv_scale", ".k_proj.output_scale",
                                       ".v_proj.output_scale"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (ends_with(name, ends[i]))
            return true;
    return false;
}

// Logs that scales of keys and values in 8 bits are not used. With a scale above 1 the checkpoint
// expects numbers beyond the range of e4m3, which --kv-cache-dtype fp8 would cut.
static void kv_scales_note(const struct tensors *tensors, const char *folder)
{
    uint32_t found = 0;
    float largest = 0;
    for (uint32_t i = 0; i < tensors_count(tensors); i++) {
        const struct tensor *tensor = tensors_at(tensors, i);
        bool number = tensor->dtype >= 0 && tensor->dtype <= DTYPE_F16;
        if (!number || !kv_scale(tensor->name.at))
            continue;
        found++;
        uint64_t count = tensor->bytes / dtype_bytes((enum dtype)tensor->dtype);
        for (uint64_t k = 0; k < count; k++) {
            float scale;
            struct tensor_place place = {.rows = 1, .first_col = (uint32_t)k, .cols = 1};
            tensor_rows_read(&scale, tensor, &place);
            largest = scale > largest ? scale : largest;
        }
    }
    if (found > 0)
        log_line(largest > 1 ? LOG_WARNING : LOG_INFO,
                 "%s: the scales of keys and values in 8 bits (k_scale, v_scale and others; the "
                 "largest is %g) are not used: --kv-cache-dtype fp8 has the scale 1%s",
                 folder, (double)largest,
                 largest > 1 ? " and would cut keys or values of this model; do not use it" : "");
}

enum status unused_check(const struct weight_list *list, const struct weight_list_args *args,
                         const char *prefix, struct error *err)
{
    const struct tensors *tensors = args->tensors;
    const struct model_config *config = args->config;
    enum status status = STATUS_OK;
    if (!tensors || args->sizes->rank > 0) // only rank 0 lists all tensors: it adds the biases
        return status;
    bool gguf = tensors_are_gguf(tensors);
    uint32_t count = tensors_count(tensors);
    const struct tensor *first = tensors_at(tensors, 0);
    bool *used = heap_alloc_zeroed(count, sizeof *used);
    for (uint32_t i = 0; i < list->count; i++) {
        const struct weight_entry *entry = &list->entries[i];
        if (entry->index >= MODEL_MODULE && entry->index < MODEL_MODULE_END)
            continue; // its tensors are in another folder
        for (uint32_t k = 0; k < entry->part_count; k++)
            used[entry->parts[k].tensor - first] = true;
        for (uint32_t k = 0; k < entry->other_count; k++)
            used[entry->others[k] - first] = true;
    }
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++) {
        const char *name = tensors_at(tensors, i)->name.at;
        char in_file[TENSOR_NAME_MAX];
        const char *rest = starts_with(name, prefix) ? name + strlen(prefix) : name;
        if (used[i] || zero_bias(tensors, tensors_at(tensors, i)) ||
            (gguf ? gguf_spare(name, config) : folder_spare(rest, config)) ||
            wrapper_spare(name, config))
            continue;
        status = error_set(err, STATUS_UNSUPPORTED,
                           "the tensor %s is not used by %s of %u layers: the %s is of a variant "
                           "that is not served, take %s",
                           safe_of(text_of(tensors_name_in_file(tensors, name, in_file))).at,
                           config->name, config->layers, gguf ? "file" : "checkpoint",
                           gguf ? "the model's Hugging Face folder" : "another model");
    }
    heap_free(used);
    if (status == STATUS_OK)
        kv_scales_note(tensors, config->weights_folder);
    return status;
}
