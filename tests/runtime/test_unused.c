// SPDX-License-Identifier: Apache-2.0
// Folders with tensors that no weight of the model uses, and quantised folders: each is refused
// with the tensor's name or with the reason, except for harmless tensors.
#include "base/arena.h"
#include "base/json.h"
#include "runtime/model/model.h"
#include "tests/runtime/golden.h"
#include "tests/runtime/model_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct device *device;
static struct error err;
static char folder[64];
static int value_kind = 8; // values of the additional tensor; -1: around 1 (golden.h)

// Writes the folder of a golden model. config: patch of config.json. tensor: name of one more
// tensor, or NULL; rows, cols: its shape.
static void put(const char *model, const char *config, const char *tensor, int rows, int cols)
{
    json_t *golden = golden_read(model), *more = json_loads(config, 0, NULL);
    assert_non_null(more);
    json_object_update(json_object_get(golden, "config"), more);
    if (tensor)
        json_array_append_new(json_object_get(golden, "tensors"),
                              json_pack("[s, [i, i], i]", tensor, rows, cols, value_kind));
    if (folder[0])
        folder_remove(folder);
    folder_make(folder);
    golden_folder_write(folder, golden, DTYPE_F32, 1);
    json_decref(more);
    json_decref(golden);
}

static enum status open_plan(void)
{
    struct model_plan *plan = NULL;
    struct model_options options = rig_options();
    enum status status = model_plan_open(&plan, folder, device_cpu(), device, &options, &err);
    model_plan_close(plan);
    return status;
}

static void accepted(const char *label)
{
    if (open_plan() != STATUS_OK)
        fail_msg("%s: %s", label, err.text);
}

static void refused(const char *label, const char *words)
{
    enum status status = open_plan();
    if (status != STATUS_UNSUPPORTED || !strstr(err.text, words) || strchr(err.text, '\n'))
        fail_msg("%s: %s, %s", label, status_name(status), err.text);
}

static void test_unused_tensors_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *model, *config, *tensor;
    } cases[] = {
        {"llama", "{}", "model.layers.0.self_attn.q_proj.bias"},
        {"llama", "{}", "model.layers.1.self_attn.sinks"},
        {"llama", "{}", "model.layers.0.self_attn.q_norm.weight"},
        {"llama", "{}", "model.layers.0.mlp.experts.0.up_proj.weight"},
        {"llama", "{}", "model.layers.2.input_layernorm.weight"},
        {"llama", "{\"num_nextn_predict_layers\":1}", "model.layers.3.input_layernorm.weight"},
        {"llama", "{}", "model.norm.bias"},
        {"llama", "{}", "lm_head.bias"},
        {"llama", "{}", "visual.patch_embed.weight"},
        {"llama-tied", "{}", "lm_head.bias"},
        {"qwen3", "{}", "model.layers.0.self_attn.q_proj.bias"},
        {"bert-mean", "{}", "encoder.layer.0.attention.self.distance_embedding.weight"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char words[160];
        put(cases[i].model, cases[i].config, cases[i].tensor, 4, 4);
        snprintf(words, sizeof words, "the tensor %s is not used by ", cases[i].tensor);
        refused(cases[i].tensor, words);
        assert_non_null(strstr(err.text, "the checkpoint is of a variant that is not served"));
    }
}

static void test_harmless_tensors_are_accepted(void **state)
{
    (void)state;
    static const struct {
        const char *model, *config, *tensor;
    } cases[] = {
        {"llama", "{}", "model.layers.0.self_attn.rotary_emb.inv_freq"},
        {"llama", "{}", "model.rotary_emb.inv_freq"},
        {"llama", "{}", "model.layers.1.self_attn.k_proj.k_scale"},
        {"llama", "{}", "model.layers.1.self_attn.kv_scale"},
        {"llama", "{}", "model.layers.1.self_attn.q_scale"},
        {"llama", "{}", "score.weight"},
        {"llama", "{\"num_nextn_predict_layers\":1}", "model.layers.2.input_layernorm.weight"},
        {"ernie4-5-moe", "{}", "model.mtp_block.0.mlp.up_proj.weight"}, // predicts further tokens
        {"llama-tied", "{}", "lm_head.weight"},
        {"qwen3-model", "{}", "lm_head.weight"},
        {"bert-mean", "{}", "embeddings.position_ids"},
        {"bert-mean", "{}", "pooler.dense.weight"},
        {"bert-mean", "{}", "cls.predictions.transform.dense.weight"},
        {"bert-rerank", "{}", "bert.embeddings.position_ids"},
        {"roberta-mean", "{}", "lm_head.dense.weight"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put(cases[i].model, cases[i].config, NULL, 0, 0);
        accepted(cases[i].model);
        put(cases[i].model, cases[i].config, cases[i].tensor, 4, 4);
        accepted(cases[i].tensor);
    }
}

// Scales of keys and values are not used. The log has one line about it, a warning if a scale is
// above 1.
static void test_scales_of_keys_are_named(void **state)
{
    (void)state;
    static const char *const tensors[] = {NULL, "model.layers.1.self_attn.k_proj.output_scale",
                                          "model.layers.1.self_attn.v_proj.v_scale"};
    for (int i = 0; i < 3; i++) {
        char text[4096] = "";
        FILE *caught = tmpfile();
        int err_fd = dup(STDERR_FILENO);
        assert_true(caught && err_fd >= 0);
        value_kind = i == 2 ? -1 : 8;
        put("llama", "{}", tensors[i], 4, 4);
        value_kind = 8;
        dup2(fileno(caught), STDERR_FILENO);
        accepted("scales of values");
        dup2(err_fd, STDERR_FILENO);
        close(err_fd);
        rewind(caught);
        text[fread(text, 1, sizeof text - 1, caught)] = '\0';
        fclose(caught);
        const char *line =
            strstr(text, "the scales of keys and values in 8 bits (k_scale, v_scale and");
        assert_int_equal(line != NULL, i > 0);
        assert_int_equal(line && strstr(line, " would cut keys or values of this model"), i == 2);
        assert_int_equal(strstr(text, "warning") != NULL, i == 2);
    }
}

static void test_quantised_folders_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *file, *text, *words;
    } cases[] = {
        {"hf_quant_config.json",
         "{\"producer\":{\"name\":\"modelopt\"},\"quantization\":{\"quant_algo\":\"W4A8_AWQ\","
         "\"kv_cache_quant_algo\":\"FP8\"}}",
         "the checkpoint is quantized (hf_quant_config.json: modelopt W4A8_AWQ), a format that is"},
        {"quantize_config.json", "{\"bits\":4,\"group_size\":128,\"checkpoint_format\":\"marlin\"}",
         "the checkpoint is quantized (quantize_config.json: gptq marlin 4 bits)"},
        {"quant_config.json", "{\"w_bit\":4,\"q_group_size\":128,\"version\":\"GEMV\"}",
         "the checkpoint is quantized (quant_config.json: awq GEMV 4 bits)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put("llama", "{}", NULL, 0, 0);
        file_write(folder, cases[i].file, cases[i].text, strlen(cases[i].text));
        refused(cases[i].file, cases[i].words);
    }
    // Keys and values alone are quantised.
    static const char keys[] = "{\"quantization\":{\"quant_algo\":null,"
                               "\"kv_cache_quant_algo\":\"FP8\"}}";
    put("llama", "{}", NULL, 0, 0);
    file_write(folder, "hf_quant_config.json", keys, strlen(keys));
    accepted("quantized keys and values");
}

// Writes a folder whose first output projection is the tensors of a quantised one.
static void put_quantised(const char *keep, const char *more)
{
    json_t *golden = golden_read("llama"), *tensors = json_object_get(golden, "tensors"), *tensor;
    static const char o[] = "model.layers.0.self_attn.o_proj.weight";
    char name[128];
    size_t i;
    json_array_foreach(
        tensors, i, tensor) if (strcmp(json_string_value(json_array_get(tensor, 0)), o) == 0) break;
    assert_true(i < json_array_size(tensors));
    json_array_remove(tensors, i);
    snprintf(name, sizeof name, "model.layers.0.self_attn.o_proj.%s", more);
    json_array_append_new(tensors, json_pack("[s, [i, i], i]", name, 64, 4, 8));
    if (keep)
        json_array_append_new(tensors, json_pack("[s, [i, i], i]", o, 64, 32, 8));
    if (folder[0])
        folder_remove(folder);
    folder_make(folder);
    golden_folder_write(folder, golden, DTYPE_F32, 1);
    json_decref(golden);
}

static void test_quantised_tensors_are_the_reason(void **state)
{
    (void)state;
    put_quantised(NULL, "qweight");
    assert_int_equal(open_plan(), STATUS_INVALID);
    assert_non_null(strstr(err.text,
                           "o_proj.qweight has codes, but model.layers.0.self_attn.o_proj."
                           "qzeros is not in the checkpoint"));
    put_quantised("weight", "weight_scale");
    refused("weight_scale",
            "the checkpoint is quantized (model.layers.0.self_attn.o_proj.weight_scale: F32)");
    put_quantised("weight", "strange");
    assert_int_equal(open_plan(), STATUS_INVALID);
    assert_non_null(strstr(err.text, "has shape [64, 32], config.json wants [64, 64]"));
}

// JSON as Python writes it: Infinity in a list that nothing reads.
static void test_numbers_that_are_not_finite_are_read(void **state)
{
    (void)state;
    put("llama", "{}", NULL, 0, 0);
    json_t *golden = golden_read("llama");
    char *text = json_dumps(json_object_get(golden, "config"), 0);
    static const char more[] =
        ", \"limit\": [0.0, Infinity, -Infinity, NaN], \"\\\"NaN\": \"NaN\"}";
    char *all = heap_alloc(strlen(text) + sizeof more);
    strcpy(all, text);
    strcpy(all + strlen(text) - 1, more);
    file_write(folder, "config.json", all, strlen(all));
    accepted("Infinity");
    heap_free(all);
    free(text);
    json_decref(golden);
}

static int setup(void **state)
{
    (void)state;
    struct device_options options = {.threads = 1, .exact = true};
    return device_cpu()->open(&device, &options, &err) == STATUS_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    folder_remove(folder);
    device_cpu()->close(device);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unused_tensors_are_refused),
        cmocka_unit_test(test_harmless_tensors_are_accepted),
        cmocka_unit_test(test_scales_of_keys_are_named),
        cmocka_unit_test(test_quantised_folders_are_named),
        cmocka_unit_test(test_quantised_tensors_are_the_reason),
        cmocka_unit_test(test_numbers_that_are_not_finite_are_read),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
