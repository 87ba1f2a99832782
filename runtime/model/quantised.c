// SPDX-License-Identifier: Apache-2.0
// Recognises quantised checkpoints by what their folder declares; see quantised.h. Loading thread
// only.
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
    if (json_is_integer(bits)) {
        char count[32];
        snprintf(count, sizeof count, "%lld bits", (long long)json_integer_value(bits));
        method_add(q, count);
    }
    if (q->method[0] == '\0')
        method_add(q, "unnamed method");
}

struct quantised quantised_by_config(const json_t *config)
{
    // Early files of compressed-tensors have the second key.
    static const char *const keys[] = {"quantization_config", "compression_config"};
    const json_t *const levels[] = {config, json_object_get(config, "text_config")};
    struct quantised q = {.where = NULL};
    for (size_t level = 0; level < 2; level++)
        for (size_t i = 0; i < sizeof keys / sizeof keys[0] && !q.where; i++) {
            const json_t *value = json_object_get(levels[level], keys[i]);
            if (!value || json_is_null(value))
                continue;
            q.where = keys[i];
            method_set(&q, value, NULL);
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
    if (!q->where)
        return STATUS_OK;
    return error_set(err, STATUS_UNSUPPORTED,
                     "the checkpoint is quantised (%s: %s); of folders only float32, bfloat16 and "
                     "float16 weights are read, which --dtype int8 quantises while loading: take "
                     "an unquantised checkpoint or a GGUF file of the model, if there is one",
                     q->where, q->method);
}
