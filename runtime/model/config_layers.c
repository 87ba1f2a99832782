// SPDX-License-Identifier: Apache-2.0
// The kinds of a model's layers: which layers have a window, a rotary embedding, experts. Loading
// thread only.
#include "runtime/model/config.h"

#include <math.h>
#include <string.h>

// Window of the layers that have one, and the layers without.
struct windows {
    uint32_t keys;  // 0: no layer has a window
    uint32_t from;  // layers before this one have no window (Qwen2's max_window_layers)
    uint32_t each;  // each layer whose number, from 1 on, is a multiple has none; 0: no such rule
    uint32_t ahead; // number of later keys that a query sees; 0: none
    bool leading;   // true if the first of each `each` layers has no window; false: the last
};

// ModernBERT: a query sees local_attention / 2 keys on each side.
static enum status both_sides_read(struct windows *out, const json_t *json, struct error *err)
{
    uint32_t keys = 0;
    struct config_number window = {"local_attention", 2, 1 << 24, NAN};
    struct config_number each = {"global_attn_every_n_layers", 1, CONFIG_LAYERS_MAX, NAN};
    enum status status = config_count(&keys, json, &window, err);
    if (status == STATUS_OK)
        status = config_count(&out->each, json, &each, err);
    out->ahead = keys / 2;
    out->keys = keys / 2 + 1;
    out->leading = true;
    return status;
}

// Mistral uses sliding_window if it is a number; Qwen only with use_sliding_window, from layer
// max_window_layers on.
static enum status window_read(struct windows *out, const struct model_config *config,
                               const json_t *json, struct error *err)
{
    uint32_t flags = config->arch->flags;
    if (config->arch->form & FORM_WINDOW)
        return both_sides_read(out, json, err);
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
    if (status == STATUS_OK && config->arch->experts && (flags & ARCH_WINDOW_BY_FLAG) &&
        out->keys < config->positions)
        return error_set(err, STATUS_UNSUPPORTED,
                         "config.json: use_sliding_window is true: versions of transformers do not "
                         "agree on which layers of %s have the window, so it is not served; take "
                         "another model",
                         config->arch->name);
    if (out->keys == 0 || !(flags & ARCH_WINDOW_PATTERN) || status != STATUS_OK ||
        json_is_array(json_object_get(json, "layer_types")))
        return status;
    struct config_number each = {"sliding_window_pattern", 1, CONFIG_LAYERS_MAX, NAN};
    return config_count(&out->each, json, &each, err);
}

// Sets `full` to whether a layer has no window. Newer files name the layers with a window in
// "layer_types".
static enum status layer_read(bool *full, const struct windows *windows, const json_t *types,
                              uint32_t layer, struct error *err)
{
    const char *type = json_string_value(json_array_get(types, layer));
    uint32_t number = windows->leading ? layer : layer + 1;
    bool skipped = layer < windows->from || (windows->each > 0 && number % windows->each == 0);
    *full = windows->keys == 0 || (!type && skipped);
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

// Returns the index of a kind, which is added if there is none like it. Kinds differ in windows,
// rotary embeddings, experts and the first norm only.
static uint32_t kind_find(struct model_config *config, const struct layer_kind *kind)
{
    for (uint32_t i = 0; i < config->kind_count; i++) {
        const struct layer_kind *other = &config->kinds[i];
        if (other->window == kind->window && other->rope == kind->rope &&
            other->rotates == kind->rotates && other->experts == kind->experts &&
            other->bare == kind->bare)
            return i;
    }
    check(config->kind_count < CONFIG_KINDS_MAX, "more than %d kinds", CONFIG_KINDS_MAX);
    config->kinds[config->kind_count] = *kind;
    return config->kind_count++;
}

// Sets `rotates` to whether a layer has a rotary embedding. no_rope_layers has 0 for those without,
// in spite of its name.
static enum status rotates_read(bool *rotates, const struct model_config *config,
                                const json_t *json, uint32_t layer, struct error *err)
{
    const json_t *list = json_object_get(json, "no_rope_layers");
    *rotates = config->arch->family == ARCH_DECODER || (config->arch->form & FORM_ROPE);
    if (!(config->arch->flags & ARCH_NO_ROPE_LAYERS))
        return STATUS_OK;
    uint32_t each;
    struct config_number interval = {"no_rope_layer_interval", 1, CONFIG_LAYERS_MAX, 4};
    enum status status = config_count(&each, json, &interval, err);
    *rotates = (layer + 1) % each != 0;
    if (status != STATUS_OK || !json_is_array(list))
        return status;
    const json_t *value = json_array_get(list, layer);
    if (!json_is_integer(value))
        return error_set(err, STATUS_INVALID, "config.json: no_rope_layers[%u] is not a number",
                         layer);
    *rotates = json_integer_value(value) != 0;
    return STATUS_OK;
}

// Sets `causal` to whether a query sees no later key.
static enum status causal_read(bool *causal, const struct model_config *config, const json_t *json,
                               struct error *err)
{
    uint32_t flags = config->arch->flags;
    bool both = flags & ARCH_BOTH_WAYS;
    *causal = false;
    if (config->arch->family == ARCH_ENCODER)
        return STATUS_OK;
    enum status status = config_bool(causal, json, "is_causal", true, err);
    if (status == STATUS_OK && flags & ARCH_BOTH_KEY)
        status = config_bool(&both, json, "use_bidirectional_attention", false, err);
    *causal = *causal && !both;
    return status;
}

// Reads the numbers of a clamped gate.
static enum status clamp_read(struct layer_kind *kind, const struct model_config *config,
                              const json_t *json, struct error *err)
{
    double limit = 0, alpha = 0;
    struct config_number limits = {"swiglu_limit", 1e-3, 1e6, NAN};
    struct config_number alphas = {"swiglu_alpha", 1e-3, 1e3, NAN};
    if (!config->arch->experts || !config->arch->experts->clamped)
        return STATUS_OK;
    enum status status = config_number(&limit, json, &limits, err);
    if (status == STATUS_OK)
        status = config_number(&alpha, json, &alphas, err);
    kind->gate_limit = (float)limit;
    kind->gate_alpha = (float)alpha;
    return status;
}

// Sets what all layers have in common.
static enum status common_read(struct layer_kind *kind, const struct model_config *config,
                               const json_t *json, struct error *err)
{
    uint32_t flags = config->arch->flags;
    bool decoder = config->arch->family == ARCH_DECODER;
    kind->centred = !decoder || (flags & ARCH_LAYER_NORM);
    kind->norms = config->arch->form & FORM_BEFORE ? NORM_BEFORE
                  : !decoder                       ? NORM_SUM
                  : flags & ARCH_NORM_ONLY_AFTER   ? NORM_AFTER
                  : flags & ARCH_NORM_AFTER        ? NORM_BEFORE | NORM_AFTER
                                                   : NORM_BEFORE;
    kind->qk_norm = flags & ARCH_QK_NORM        ? QK_NORM_EACH
                    : flags & ARCH_QK_NORM_LAST ? QK_NORM_LAST
                    : flags & ARCH_QK_NORM_ALL  ? QK_NORM_ALL
                                                : QK_PLAIN;
    kind->parallel = flags & ARCH_PARALLEL;
    enum status status = causal_read(&kind->causal, config, json, err);
    kind->paged = kind->causal;
    kind->gated = config->arch->names->gate.name;
    kind->scale = (float)(1.0 / sqrt((double)config->head_dim));
    bool by_flag = false;
    double value = 0;
    struct config_number scalar = {"query_pre_attn_scalar", 1e-3, 1e6, config->head_dim};
    struct config_number factor = {"attention_multiplier", 1e-6, 1e6, 1};
    if (status == STATUS_OK && flags & ARCH_QK_NORM_BY_FLAG)
        status = config_bool(&by_flag, json, "use_qk_norm", false, err);
    if (by_flag)
        kind->qk_norm = QK_NORM_EACH;
    if (status != STATUS_OK)
        return status;
    if (flags & ARCH_QUERY_SCALAR) {
        status = config_number(&value, json, &scalar, err);
        kind->scale = (float)(1.0 / sqrt(value));
    } else if (flags & ARCH_MULTIPLIERS) {
        status = config_number(&value, json, &factor, err);
        kind->scale = (float)value;
    }
    return status;
}

enum status layers_config_parse(struct model_config *config, const json_t *json, struct error *err)
{
    uint32_t flags = config->arch->flags;
    struct windows windows = {0};
    enum status status = window_read(&windows, config, json, err);
    struct layer_kind common = config->kinds[0];
    if (status == STATUS_OK)
        status = common_read(&common, config, json, err);
    if (status == STATUS_OK)
        status = clamp_read(&common, config, json, err);
    if (status == STATUS_OK && !common.causal && windows.keys > 0 && !windows.leading) {
        if (!(flags & ARCH_BOTH_KEY))
            return error_set(err, STATUS_UNSUPPORTED,
                             "config.json: a window with is_causal false is not served with %s",
                             config->arch->name);
        windows.ahead = windows.keys / 2; // half on each side
        windows.keys = windows.keys / 2 + 1;
    }
    bool own_rope = (flags & ARCH_WINDOW_ROPE) || windows.leading || rope_config_nested(json);
    const json_t *types = json_object_get(json, "layer_types");
    for (uint32_t i = 0; i < config->layers && status == STATUS_OK; i++) {
        struct layer_kind kind = common;
        bool full = true;
        status = layer_read(&full, &windows, types, i, err);
        if (status == STATUS_OK)
            status = rotates_read(&kind.rotates, config, json, i, err);
        if (status == STATUS_OK)
            status = experts_config_layer(&kind.experts, config, json, i, err);
        kind.window = full ? 0 : windows.keys;
        kind.ahead = full ? 0 : windows.ahead;
        kind.bare = i == 0 && (config->arch->form & FORM_BEFORE);
        if (full &&
            ((windows.keys > 0 && (flags & ARCH_WINDOW_ROPE_ONLY)) || (flags & ARCH_ROPE_WINDOW)))
            kind.rotates = false;
        kind.rope = !full && own_rope;
        config->layer_kind[i] = (uint8_t)kind_find(config, &kind);
    }
    return status;
}
