// SPDX-License-Identifier: Apache-2.0
// The kinds of a model's layers: which layers have a window. Loading thread only.
#include "runtime/model/config.h"

#include <math.h>
#include <string.h>

// Window of the layers that have one, and the layers without.
struct windows {
    uint32_t keys; // 0: no layer has a window
    uint32_t from; // layers before this one have no window (Qwen2's max_window_layers)
};

// Mistral uses sliding_window if it is a number; Qwen only with use_sliding_window, from layer
// max_window_layers on.
static enum status window_read(struct windows *out, const struct model_config *config,
                               const json_t *json, struct error *err)
{
    uint32_t flags = config->arch->flags;
    if (!(flags & (ARCH_WINDOW | ARCH_WINDOW_BY_FLAG)))
        return STATUS_OK;
    bool used;
    enum status status =
        config_bool(&used, json, "use_sliding_window", (flags & ARCH_WINDOW) != 0, err);
    if (status != STATUS_OK || ((flags & ARCH_WINDOW_BY_FLAG) && !used))
        return status;
    const json_t *given = json_object_get(json, "sliding_window");
    if (given && json_is_null(given))
        return STATUS_OK;
    struct config_number window = {"sliding_window", 1, 1 << 24, config->arch->window};
    status = config_count(&out->keys, json, &window, err);
    struct config_number from = {"max_window_layers", 0, CONFIG_LAYERS_MAX,
                                 (flags & ARCH_WINDOW_BY_FLAG) ? 28 : 0};
    if (status == STATUS_OK)
        status = config_count(&out->from, json, &from, err);
    if (flags & ARCH_WINDOW)
        out->from = 0;
    return status;
}

// Sets `full` to whether a layer has no window. Newer files name the layers with a window in
// "layer_types".
static enum status layer_read(bool *full, const struct windows *windows, const json_t *types,
                              uint32_t layer, struct error *err)
{
    const char *type = json_string_value(json_array_get(types, layer));
    *full = windows->keys == 0 || (!type && layer < windows->from);
    if (!json_is_array(types))
        return STATUS_OK;
    *full = type && strcmp(type, "full_attention") == 0;
    bool sliding = type && strcmp(type, "sliding_attention") == 0;
    if (*full || (sliding && windows->keys > 0))
        return STATUS_OK;
    if (windows->keys == 0)
        return error_set(err, STATUS_UNSUPPORTED,
                         "config.json: layer_types[%u] is %.32s; without an attention window "
                         "full_attention is served only",
                         layer, type ? type : "missing");
    return error_set(err, STATUS_UNSUPPORTED,
                     "config.json: layer_types[%u] must be full_attention or sliding_attention, "
                     "got %.32s",
                     layer, type ? type : "none");
}

// Returns the index of a kind, which is added if there is none like it. Kinds differ in windows and
// rotary embeddings only.
static uint32_t kind_find(struct model_config *config, const struct layer_kind *kind)
{
    for (uint32_t i = 0; i < config->kind_count; i++) {
        const struct layer_kind *other = &config->kinds[i];
        if (other->window == kind->window && other->rope == kind->rope &&
            other->rotary_dim == kind->rotary_dim)
            return i;
    }
    check(config->kind_count < CONFIG_KINDS_MAX, "more than %d kinds", CONFIG_KINDS_MAX);
    config->kinds[config->kind_count] = *kind;
    return config->kind_count++;
}

enum status layers_config_parse(struct model_config *config, const json_t *json, struct error *err)
{
    bool decoder = config->arch->family == ARCH_DECODER;
    struct windows windows = {0};
    enum status status = window_read(&windows, config, json, err);
    struct layer_kind common = config->kinds[0];
    common.scale = (float)(1.0 / sqrt((double)config->head_dim));
    common.norms = decoder ? NORM_BEFORE : NORM_SUM;
    common.paged = common.gated = decoder;
    common.rotary_dim = config->rope_count > 0 ? config->ropes[0].dim : 0;
    const json_t *types = json_object_get(json, "layer_types");
    for (uint32_t i = 0; i < config->layers && status == STATUS_OK; i++) {
        struct layer_kind kind = common;
        bool full = true;
        status = layer_read(&full, &windows, types, i, err);
        kind.window = full ? 0 : windows.keys;
        config->layer_kind[i] = (uint8_t)kind_find(config, &kind);
    }
    return status;
}
