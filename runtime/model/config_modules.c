// SPDX-License-Identifier: Apache-2.0
// The modules of sentence-transformers between pooling and normalisation. Loading thread only.
#include "runtime/model/config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { VECTOR_WIDTH_MAX = 1 << 16 };

// Refuses settings of a Dense module that would be ignored.
static enum status dense_check(const struct module *module, const json_t *json, struct error *err)
{
    static const char *const names[] = {"module_input_name", "module_output_name"};
    if (json_is_true(json_object_get(json, "use_residual")))
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s/config.json: use_residual is true, which is not supported",
                         module->folder);
    for (int i = 0; i < 2; i++) {
        const char *name = json_string_value(json_object_get(json, names[i]));
        if (name && strcmp(name, "sentence_embedding") != 0)
            return error_set(err, STATUS_UNSUPPORTED,
                             "%s/config.json: %s is %.64s; sentence_embedding is supported",
                             module->folder, names[i], name);
    }
    return STATUS_OK;
}

static enum status dense_read(struct vector_module *out, const struct module *module,
                              const json_t *json, struct error *err)
{
    static const char tanh_name[] = "torch.nn.modules.activation.Tanh";
    static const char identity[] = "torch.nn.modules.linear.Identity";
    struct config_number columns = {"out_features", 1, VECTOR_WIDTH_MAX, NAN};
    enum status status = dense_check(module, json, err);
    if (status == STATUS_OK)
        status = config_count(&out->out, json, &columns, err);
    if (status == STATUS_OK)
        status = config_bool(&out->bias, json, "bias", true, err);
    const json_t *value = json_object_get(json, "activation_function");
    const char *name = value && !json_is_null(value) ? json_string_value(value) : tanh_name;
    out->tanh = name && strcmp(name, tanh_name) == 0;
    if (status == STATUS_OK && !out->tanh && (!name || strcmp(name, identity) != 0))
        status = error_set(err, STATUS_UNSUPPORTED,
                           "%s/config.json: the activation_function %.64s is not supported; %s "
                           "and %s are",
                           module->folder, name ? name : "(not a string)", tanh_name, identity);
    return status;
}

static enum status vector_module_read(struct model_config *config, const struct module *module,
                                      struct error *err)
{
    bool norm = strcmp(module->kind, "LayerNorm") == 0;
    if (!norm && strcmp(module->kind, "Dense") != 0)
        return STATUS_OK;
    if (config->module_count == CONFIG_MODULES_MAX)
        return error_set(err, STATUS_TOO_LARGE, "%s: over %d Dense and LayerNorm modules",
                         module->folder, CONFIG_MODULES_MAX);
    struct vector_module *out = &config->modules[config->module_count++];
    json_t *json;
    enum status status = folder_json(&json, module->folder, "config.json", true, err);
    if (status != STATUS_OK)
        return status;
    *out = (struct vector_module){.norm = norm, .bias = true};
    snprintf(out->folder, sizeof out->folder, "%s", module->folder);
    struct config_number columns = {norm ? "dimension" : "in_features", 1, VECTOR_WIDTH_MAX, NAN};
    status = config_count(&out->in, json, &columns, err);
    out->out = out->in;
    if (status == STATUS_OK && !norm)
        status = dense_read(out, module, json, err);
    json_decref(json);
    if (status != STATUS_OK)
        return strncmp(err->text, "config.json", 11) == 0 ? error_prefix(err, "%s", module->folder)
                                                          : status;
    if (out->in != config->vector_width)
        return error_set(err, STATUS_INVALID,
                         "%s/config.json: %s is %u, but the vectors have %u columns here",
                         module->folder, columns.name, out->in, config->vector_width);
    config->vector_width = out->out;
    return STATUS_OK;
}

enum status vector_modules_read(struct model_config *config, const struct modules *modules,
                                const char *folder, struct error *err)
{
    bool pooled = false, normalised = false;
    for (uint32_t i = 0; i < modules->count; i++) {
        const struct module *module = &modules->at[i];
        bool changes = strcmp(module->kind, "Dense") == 0 || strcmp(module->kind, "LayerNorm") == 0;
        if (changes && (!pooled || normalised))
            return error_set(err, STATUS_UNSUPPORTED,
                             "%s/modules.json: %s is supported after Pooling and before Normalize",
                             folder, module->kind);
        pooled = pooled || strcmp(module->kind, "Pooling") == 0;
        normalised = normalised || strcmp(module->kind, "Normalize") == 0;
        enum status status = vector_module_read(config, module, err);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}
