// SPDX-License-Identifier: Apache-2.0
// Recognises quantised checkpoints by what their folder declares; see quantised.h. Methods are
// listed, because tensors of an unknown one may have the names of a known one and other meanings.
// Loading thread only.
#include "runtime/model/quantised.h"

#include "base/safe.h"
#include "runtime/model/packed.h"
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

// Returns an integer of a declaration, or NULL. older: its key in older AWQ files.
static const json_t *integer_of(const json_t *object, const char *key, const char *older)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value))
        value = json_object_get(object, older);
    return json_is_integer(value) ? value : NULL;
}

static const json_t *bits_of(const json_t *object)
{
    return integer_of(object, "bits", "w_bit");
}

const char *quantised_method(const json_t *object, const char *usual)
{
    const char *method = json_string_value(json_object_get(object, "quant_method"));
    bool algorithm = json_is_string(json_object_get(object, "quant_algo"));
    return method ? method : algorithm ? "modelopt" : usual ? usual : "";
}

// Sets the groups of 4-bit integers. size: number of columns, -1: one group a row.
static void integers_plan(struct declared_format *out, json_int_t bits, json_int_t size, bool zeros)
{
    bool valid = bits == 4 && size > 0 && size < UINT32_MAX;
    out->group = valid ? (uint32_t)size : bits == 4 && size == -1 ? UINT32_MAX : 0;
    out->zeros = zeros;
}

static bool member_is(const json_t *object, const char *key, const char *wanted)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text && strcmp(text, wanted) == 0;
}

static void fp8_plan(struct declared_format *out, const json_t *object)
{
    const json_t *blocks = json_object_get(object, "weight_block_size");
    const json_t *fmt = json_object_get(object, "fmt");
    bool square = json_array_size(blocks) == 2;
    for (size_t i = 0; i < 2; i++)
        square = square && json_integer_value(json_array_get(blocks, i)) == 128;
    if (fmt && !member_is(object, "fmt", "e4m3"))
        return;
    if (!blocks || json_is_null(blocks))
        out->format = WEIGHT_FP8;
    else if (square)
        out->format = WEIGHT_FP8_128;
}

static void modelopt_plan(struct declared_format *out, const json_t *object)
{
    const char *algorithm = json_string_value(json_object_get(object, "quant_algo"));
    if (algorithm && strncmp(algorithm, "FP8", 3) == 0)
        out->format = strcmp(algorithm, "FP8_PB_WO") == 0 ? WEIGHT_FP8_128 : WEIGHT_FP8;
}

// compressed-tensors: one group of modules.
static void group_plan(struct declared_format *out, const json_t *weights)
{
    json_int_t bits = json_integer_value(json_object_get(weights, "num_bits"));
    json_int_t size = json_integer_value(json_object_get(weights, "group_size"));
    bool rows = member_is(weights, "strategy", "channel");
    bool groups = member_is(weights, "strategy", "group") ||
                  json_is_null(json_object_get(weights, "strategy")) ||
                  !json_object_get(weights, "strategy");
    if (member_is(weights, "type", "int") && (rows || groups))
        integers_plan(out, bits, rows ? -1 : size,
                      json_is_false(json_object_get(weights, "symmetric")));
    else if (member_is(weights, "type", "float") && bits == 8)
        out->format = member_is(weights, "strategy", "block") ? WEIGHT_FP8_128 : WEIGHT_FP8;
    else if (member_is(weights, "type", "float") && bits == 4 && size == 32)
        out->format = WEIGHT_MXFP4;
}

static void awq_plan(struct declared_format *out, const json_t *object)
{
    const json_t *size = integer_of(object, "group_size", "q_group_size");
    integers_plan(out, json_integer_value(bits_of(object)), json_integer_value(size),
                  !json_is_false(json_object_get(object, "zero_point")));
}

static void gptq_plan(struct declared_format *out, const json_t *object)
{
    json_int_t size = json_integer_value(json_object_get(object, "group_size"));
    integers_plan(out, json_integer_value(bits_of(object)), size,
                  json_is_false(json_object_get(object, "sym")));
}

static void mxfp4_plan(struct declared_format *out, const json_t *object)
{
    (void)object;
    out->experts = true;
    out->format = WEIGHT_MXFP4;
}

// A method, the key that names its variant (NULL: it has none), and the variants that are read. A
// declaration without the key is read. plan: sets the format that a declaration has; NULL: no
// device holds the codes.
struct method {
    const char *name, *key;
    const char *const *read;
    void (*plan)(struct declared_format *out, const json_t *object);
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
        {"fp8", NULL, any, fp8_plan},
        {"fbgemm_fp8", NULL, any, fp8_plan},
        {"modelopt", "quant_algo", modelopt, modelopt_plan},
        {"compressed-tensors", "format", arrays, NULL}, // quantised_group_format
        {"awq", "version", awq, awq_plan},
        {"gptq", "checkpoint_format", gptq, gptq_plan},
        {"auto-round", "packing_format", round, gptq_plan},
        {"intel/auto-round", "packing_format", round, gptq_plan},
        {"bitsandbytes", NULL, any, NULL},
        {"mxfp4", NULL, any, mxfp4_plan},
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

// compressed-tensors: "actorder" of a group of modules ("weight" and "static" keep groups of
// neighbours).
static bool group_ordered(const json_t *weights)
{
    const json_t *order = json_object_get(weights, "actorder");
    const char *name = json_string_value(order);
    return json_is_true(order) || (name && (!strcmp(name, "group") || !strcmp(name, "dynamic")));
}

// Returns whether the groups of columns are listed in a tensor of each module: "desc_act" of GPTQ,
// or actorder.
static bool order_declared(const json_t *object)
{
    const char *key;
    json_t *group;
    json_object_foreach(json_object_get(object, "config_groups"), key, group)
    {
        if (group_ordered(json_object_get(group, "weights")))
            return true;
    }
    return json_is_true(json_object_get(object, "desc_act"));
}

// Returns the columns of a group by a declaration, or 0 if it has none, or several numbers.
static uint32_t group_declared(const json_t *object)
{
    const char *key;
    json_t *group;
    json_int_t size = json_integer_value(integer_of(object, "group_size", "q_group_size"));
    json_object_foreach(json_object_get(object, "config_groups"), key, group)
    {
        const json_t *weights = json_object_get(group, "weights");
        json_int_t own = json_integer_value(json_object_get(weights, "group_size"));
        if (own != 0)
            size = size == 0 || size == own ? own : -1;
    }
    return size > 0 && size <= INT32_MAX ? (uint32_t)size : 0;
}

// Writes the name of the method, and what distinguishes its variants. usual: its name if the object
// has none.
static void method_set(struct quantised *q, const json_t *object, const char *usual)
{
    const char *method = json_string_value(json_object_get(object, "quant_method"));
    const json_t *bits = bits_of(object);
    method_add(q, method ? method : usual);
    method_add(q, json_string_value(json_object_get(object, "quant_algo")));
    method_add(q, json_string_value(json_object_get(object, "format")));
    method_add(q, json_string_value(json_object_get(object, "version")));
    method_add(q, json_string_value(json_object_get(object, "checkpoint_format")));
    method_add(q, json_string_value(json_object_get(object, "packing_format")));
    if (json_object_size(json_object_get(object, "transform_config")) > 0)
        method_add(q, "transform_config"); // a rotation of activations while the model runs
    if (bits) {
        char count[32];
        snprintf(count, sizeof count, "%lld bits", (long long)json_integer_value(bits));
        method_add(q, count);
    }
    if (q->method[0] == '\0')
        method_add(q, "unnamed method");
    q->ordered = order_declared(object);
    q->group = group_declared(object);
    variant_judge(q, object, quantised_method(object, usual));
}

// Returns the declaration of config.json, or NULL; *where: its key, *level: the object that has it.
static const json_t *declaration_find(const json_t *config, const char **where,
                                      const json_t **level)
{
    // Early files of compressed-tensors have the second key. MLX writes the third key; its newer
    // versions also write the first, with the same members and without the name of a method.
    static const char *const keys[] = {"quantization_config", "compression_config", "quantization"};
    const json_t *const levels[] = {config, json_object_get(config, "text_config")};
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
            const json_t *value = json_object_get(levels[i], keys[k]);
            if (!value || json_is_null(value))
                continue;
            *where = keys[k];
            *level = levels[i];
            return value;
        }
    return NULL;
}

struct quantised quantised_by_config(const json_t *config)
{
    struct quantised q = {.where = NULL};
    const json_t *level = NULL, *value = declaration_find(config, &q.where, &level);
    if (value)
        method_set(&q, value, json_object_get(level, "quantization") ? "mlx" : NULL);
    return q;
}

struct declared_format quantised_format_of(const json_t *object, const char *usual)
{
    const struct method *method = method_find(quantised_method(object, usual));
    struct declared_format out = {.quantized = true, .ordered = order_declared(object)};
    if (method && method->plan)
        method->plan(&out, object);
    return out;
}

struct declared_format quantised_group_format(const json_t *weights)
{
    struct declared_format out = {.quantized = true, .ordered = group_ordered(weights)};
    group_plan(&out, weights);
    return out;
}

enum weight_format quantised_product_format(const struct declared_format *declared,
                                            uint32_t columns)
{
    uint32_t group = declared->group < columns ? declared->group : columns;
    if (declared->ordered && group < columns) // no device holds groups in any order
        return WEIGHT_FLOATS;
    if (group == 0)
        return declared->format;
    return packed_group_format(group | columns, declared->zeros); // as packed_format
}

// Reads the file in which another tool declares the quantisation, if there is one: *json is the
// file, owned by the caller, *object the declaration in it, *where the file's name.
static enum status file_find(json_t **json, const json_t **object, const char **where,
                             const char **usual, const char *folder, struct error *err)
{
    static const struct {
        const char *file, *usual;
    } files[] = {
        {"hf_quant_config.json", "modelopt"},
        {"quantize_config.json", "gptq"},
        {"quant_config.json", "awq"},
    };
    *object = NULL;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        enum status status = folder_json(json, folder, files[i].file, false, err);
        if (status != STATUS_OK)
            return status;
        // Only files of ModelOpt have this object; in them keys and values alone may be quantised.
        const json_t *inner = json_object_get(*json, "quantization");
        bool weights = !inner || json_is_string(json_object_get(inner, "quant_algo"));
        if (*json && weights) {
            *object = inner ? inner : *json;
            *where = files[i].file;
            *usual = files[i].usual;
            return STATUS_OK;
        }
        json_decref(*json);
        *json = NULL;
    }
    return STATUS_OK;
}

enum status quantised_by_files(struct quantised *out, const char *folder, struct error *err)
{
    json_t *json = NULL;
    const json_t *object;
    const char *where = NULL, *usual;
    enum status status = file_find(&json, &object, &where, &usual, folder, err);
    *out = (struct quantised){.where = where};
    if (status == STATUS_OK && object)
        method_set(out, object, usual);
    json_decref(json);
    return status;
}

enum status quantised_declaration(json_t **json, const json_t **object, const char **usual,
                                  const char *folder, struct error *err)
{
    const char *where;
    const json_t *level;
    *object = NULL;
    *usual = NULL;
    enum status status = folder_json(json, folder, "config.json", false, err);
    if (status == STATUS_OK)
        *object = declaration_find(*json, &where, &level);
    if (status != STATUS_OK || *object)
        return status;
    json_decref(*json);
    *json = NULL;
    return file_find(json, object, &where, usual, folder, err);
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
        .declared = q.where, .zeros_full = q.zeros_full, .ordered = q.ordered, .group = q.group};
    json_decref(json);
    return status;
}
