// SPDX-License-Identifier: Apache-2.0
// Recognises quantised checkpoints by what their folder declares; see quantised.h. Methods are
// listed, because tensors of an unknown one may have the names of a known one and other meanings.
// Loading thread only.
#include "runtime/model/quantised.h"

#include "base/safe.h"
#include "runtime/source/modules.h"

#include <stdio.h>
#include <string.h>

// Appends a word to the method.
static void method_add(struct quantised *q, const char *word)
{
    size_t used = strlen(q->method);
    if (word && used < sizeof q->method - 1)
        snprintf(q->method + used, sizeof q->method - used, "%s%.40s", used > 0 ? " " : "",
                 safe_of(text_of(word)).at);
}

// A method, the key that names its variant (NULL: it has none), and the variants that are read. A
// declaration without the key is read.
struct method {
    const char *name, *key;
    const char *const *read;
};

static const struct method *method_find(const char *name)
{
    static const char *const any[] = {NULL};
    static const char *const modelopt[] = {
        "FP8",   "FP8_PB_WO",   "FP8_PER_CHANNEL_PER_TOKEN", "MXFP8",
        "NVFP4", "W4A16_NVFP4", "MIXED_PRECISION",           NULL};
    static const char *const arrays[] = {"dense",
                                         "float-quantized",
                                         "naive-quantized",
                                         "int-quantized",
                                         "pack-quantized",
                                         "nvfp4-pack-quantized",
                                         "mxfp4-pack-quantized",
                                         "mxfp8-quantized",
                                         "mixed-precision",
                                         NULL};
    static const char *const awq[] = {"gemm", "GEMM", NULL};
    static const char *const gptq[] = {"gptq", "gptq_v2", NULL};
    static const char *const round[] = {"auto_round:auto_gptq",
                                        "auto_round",
                                        "auto_round:gptqmodel",
                                        "auto_round:auto_awq",
                                        "auto_gptq",
                                        "auto_awq",
                                        NULL};
    static const struct method methods[] = {
        {"fp8", NULL, any},
        {"fbgemm_fp8", NULL, any},
        {"modelopt", "quant_algo", modelopt},
        {"compressed-tensors", "format", arrays},
        {"awq", "version", awq},
        {"gptq", "checkpoint_format", gptq},
        {"auto-round", "packing_format", round},
        {"intel/auto-round", "packing_format", round},
        {"bitsandbytes", NULL, any},
        {"mxfp4", NULL, any},
    };
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        if (strcmp(name, methods[i].name) == 0)
            return &methods[i];
    return NULL;
}

// Decides whether a declaration is of a method and variant that is read.
static void variant_judge(struct quantised *q, const json_t *object, const char *name)
{
    const struct method *method = method_find(name);
    const char *variant = NULL;
    if (method && method->key)
        variant = json_string_value(json_object_get(object, method->key));
    q->read = method && (!variant || !method->read[0]);
    for (size_t i = 0; variant && method->read[i]; i++)
        q->read = q->read || strcmp(variant, method->read[i]) == 0;
    // AutoRound stores zero points less one only in the format of AutoGPTQ.
    q->zeros_full =
        variant && (strcmp(variant, "gptq_v2") == 0 || strcmp(variant, "auto_round") == 0 ||
                    strcmp(variant, "auto_round:gptqmodel") == 0);
    if (json_object_size(json_object_get(object, "transform_config")) > 0)
        q->read = false;
}

// Returns whether the groups of columns are listed in a tensor of each module: "desc_act" of GPTQ,
// "actorder" of compressed-tensors ("weight" and "static" keep groups of neighbours).
static bool order_declared(const json_t *object)
{
    const char *key;
    json_t *group;
    json_object_foreach(json_object_get(object, "config_groups"), key, group)
    {
        const json_t *order = json_object_get(json_object_get(group, "weights"), "actorder");
        const char *name = json_string_value(order);
        if (json_is_true(order) || (name && (!strcmp(name, "group") || !strcmp(name, "dynamic"))))
            return true;
    }
    return json_is_true(json_object_get(object, "desc_act"));
}

// Writes the name of the method, and what distinguishes its variants. usual: its name if the object
// has none.
static void method_set(struct quantised *q, const json_t *object, const char *usual)
{
    const char *method = json_string_value(json_object_get(object, "quant_method"));
    const char *algorithm = json_string_value(json_object_get(object, "quant_algo"));
    const json_t *bits = json_object_get(object, "bits");
    if (!json_is_integer(bits))
        bits = json_object_get(object, "w_bit"); // older AWQ files
    method_add(q, method ? method : usual);
    method_add(q, algorithm);
    method_add(q, json_string_value(json_object_get(object, "format")));
    method_add(q, json_string_value(json_object_get(object, "version")));
    method_add(q, json_string_value(json_object_get(object, "checkpoint_format")));
    method_add(q, json_string_value(json_object_get(object, "packing_format")));
    if (json_object_size(json_object_get(object, "transform_config")) > 0)
        method_add(q, "transform_config"); // a rotation of activations while the model runs
    if (json_is_integer(bits)) {
        char count[32];
        snprintf(count, sizeof count, "%lld bits", (long long)json_integer_value(bits));
        method_add(q, count);
    }
    if (q->method[0] == '\0')
        method_add(q, "unnamed method");
    if (!method && algorithm)
        method = "modelopt";
    q->ordered = order_declared(object);
    variant_judge(q, object, method ? method : usual ? usual : "");
}

struct quantised quantised_by_config(const json_t *config)
{
    // Early files of compressed-tensors have the second key. MLX writes the third key; its newer
    // versions also write the first, with the same members and without the name of a method.
    static const char *const keys[] = {"quantization_config", "compression_config", "quantization"};
    const json_t *const levels[] = {config, json_object_get(config, "text_config")};
    struct quantised q = {.where = NULL};
    for (size_t level = 0; level < 2; level++)
        for (size_t i = 0; i < sizeof keys / sizeof keys[0] && !q.where; i++) {
            const json_t *value = json_object_get(levels[level], keys[i]);
            if (!value || json_is_null(value))
                continue;
            q.where = keys[i];
            method_set(&q, value, json_object_get(levels[level], "quantization") ? "mlx" : NULL);
        }
    return q;
}

enum status quantised_by_files(struct quantised *out, const char *folder, struct error *err)
{
    static const struct {
        const char *file, *usual;
    } files[] = {
        {"hf_quant_config.json", "modelopt"},
        {"quantize_config.json", "gptq"},
        {"quant_config.json", "awq"},
    };
    *out = (struct quantised){.where = NULL};
    for (size_t i = 0; i < sizeof files / sizeof files[0] && !out->where; i++) {
        json_t *json;
        enum status status = folder_json(&json, folder, files[i].file, false, err);
        if (status != STATUS_OK)
            return status;
        // Only files of ModelOpt have this object; in them keys and values alone may be quantised.
        const json_t *inner = json_object_get(json, "quantization");
        bool weights = !inner || json_is_string(json_object_get(inner, "quant_algo"));
        if (json && weights) {
            out->where = files[i].file;
            method_set(out, inner ? inner : json, files[i].usual);
        }
        json_decref(json);
    }
    return STATUS_OK;
}

enum status quantised_check(const struct quantised *q, struct error *err)
{
    if (!q->where || q->read)
        return STATUS_OK;
    return error_set(
        err, STATUS_UNSUPPORTED,
        "the checkpoint is quantized (%s: %s), a format that is not read; FP8, "
        "AWQ (gemm), GPTQ, AutoRound, compressed-tensors, ModelOpt and bitsandbytes "
        "are: take one of these, an unquantized checkpoint or a GGUF file of the model",
        q->where, q->method);
}

enum status quantised_rules_read(struct packed_rules *out, const char *folder, struct error *err)
{
    json_t *json;
    struct quantised q = {.where = NULL};
    enum status status = folder_json(&json, folder, "config.json", false, err);
    if (status == STATUS_OK && json)
        q = quantised_by_config(json);
    if (status == STATUS_OK && !q.where)
        status = quantised_by_files(&q, folder, err);
    *out = (struct packed_rules){
        .declared = q.where, .zeros_full = q.zeros_full, .ordered = q.ordered};
    json_decref(json);
    return status;
}
