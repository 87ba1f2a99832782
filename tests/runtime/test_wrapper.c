// SPDX-License-Identifier: Apache-2.0
// Multimodal checkpoints of which the text part is served: which configuration its decoder gets,
// which tensors are left out, and what is refused. The results of such models are in test_golden.
#include "base/arena.h"
#include "base/json.h"
#include "runtime/model/config.h"
#include "runtime/model/internal.h"
#include "runtime/model/outline.h"
#include "tests/runtime/golden.h"
#include "tests/runtime/model_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct model_config config; // 10 KB: too large for the stack
static struct error err;
static char folder[64];

#define SIZES                                                                                      \
    "\"vocab_size\":100,\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":4,"     \
    "\"num_key_value_heads\":2,\"intermediate_size\":96,\"max_position_embeddings\":4096"

// Parses a config.json with these members next to the name of the architecture.
static enum status parse(const char *name, const char *members)
{
    char text[2048];
    snprintf(text, sizeof text, "{\"architectures\":[\"%s\"]%s%s}", name,
             members[0] != '\0' ? "," : "", members);
    json_t *json = json_loads(text, 0, NULL);
    if (!json)
        fail_msg("no JSON: %s", text);
    enum status status = model_config_parse(&config, json, &err);
    json_decref(json);
    return status;
}

static void parsed(const char *name, const char *members)
{
    if (parse(name, members) != STATUS_OK)
        fail_msg("%s {%s}: %s", name, members, err.text);
}

static void refused(const char *name, const char *members, const char *words)
{
    enum status status = parse(name, members);
    if (status == STATUS_OK || !strstr(err.text, words) || strchr(err.text, '\n'))
        fail_msg("%s {%s}: %s", name, members, status == STATUS_OK ? "accepted" : err.text);
}

// Defaults of the reference's classes, which published files rely on.
static void test_sparse_text_configs_get_the_defaults_of_their_class(void **state)
{
    (void)state;
    static const struct {
        const char *name, *members, *arch;
        uint32_t vocab, hidden, layers, heads, kv_heads, head_dim, intermediate, positions;
        double theta, epsilon;
    } rows[] = {
        {"Gemma3ForConditionalGeneration", "\"text_config\":{}", "Gemma3ForCausalLM", 262208, 2304,
         26, 8, 4, 256, 9216, 131072, 1e6, 1e-6},
        {"LlavaForConditionalGeneration", "\"text_config\":{}", "LlamaForCausalLM", 32000, 4096, 32,
         32, 32, 128, 11008, 2048, 1e4, 1e-6},
        {"LlavaNextForConditionalGeneration", "\"text_config\":{\"model_type\":\"mistral\"}",
         "MistralForCausalLM", 32000, 4096, 32, 32, 8, 128, 14336, 131072, 1e4, 1e-6},
        {"LlavaNextForConditionalGeneration", "\"text_config\":{\"model_type\":\"granite\"}",
         "GraniteForCausalLM", 32000, 4096, 32, 32, 32, 128, 11008, 2048, 1e4, 1e-6},
        {"LlavaOnevisionForConditionalGeneration", "\"text_config\":{}", "Qwen2ForCausalLM", 151936,
         4096, 32, 32, 32, 128, 22016, 32768, 1e4, 1e-6},
        {"InternVLForConditionalGeneration", "\"text_config\":{\"model_type\":\"qwen3\"}",
         "Qwen3ForCausalLM", 151936, 4096, 32, 32, 32, 128, 22016, 32768, 1e4, 1e-6},
        {"Qwen2VLForConditionalGeneration", "\"text_config\":{}", "Qwen2ForCausalLM", 152064, 8192,
         80, 64, 8, 128, 29568, 32768, 1e6, 1e-5},
        {"Qwen2_5_VLForConditionalGeneration", "\"text_config\":{}", "Qwen2ForCausalLM", 152064,
         8192, 80, 64, 8, 128, 29568, 32768, 1e6, 1e-5},
        {"Qwen3VLForConditionalGeneration", "\"text_config\":{}", "Qwen3ForCausalLM", 151936, 4096,
         32, 32, 32, 128, 22016, 128000, 5e5, 1e-6},
        {"Qwen3VLMoeForConditionalGeneration", "\"text_config\":{}", "Qwen3MoeForCausalLM", 151936,
         2048, 24, 16, 16, 128, 5632, 128000, 5e5, 1e-6},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        parsed(rows[i].name, rows[i].members);
        assert_string_equal(config.name, rows[i].name);
        assert_string_equal(config.arch->name, rows[i].arch);
        assert_int_equal(config.kind, MODEL_GENERATOR);
        assert_int_equal(config.vocab, rows[i].vocab);
        assert_int_equal(config.hidden, rows[i].hidden);
        assert_int_equal(config.layers, rows[i].layers);
        assert_int_equal(config.heads, rows[i].heads);
        assert_int_equal(config.kv_heads, rows[i].kv_heads);
        assert_int_equal(config.head_dim, rows[i].head_dim);
        assert_int_equal(config.intermediate, rows[i].intermediate);
        assert_int_equal(config.positions, rows[i].positions);
        assert_true(config.ropes[0].theta == rows[i].theta);
        assert_true(config.epsilon == rows[i].epsilon);
    }
}

// transformers 5 saves the number of experts as num_local_experts.
static void test_experts_may_have_the_newer_name(void **state)
{
    (void)state;
    parsed("Qwen3VLMoeForConditionalGeneration", "\"text_config\":{\"num_local_experts\":128}");
    assert_int_equal(config.experts.count, 128);
    refused("Qwen3VLMoeForConditionalGeneration",
            "\"text_config\":{\"num_local_experts\":128,\"num_experts\":64}",
            "num_local_experts is 128, but num_experts is 64");
}

// The field of either level ties the head, as in the reference; absent: the checkpoint decides.
static void test_head_is_tied_by_the_right_level(void **state)
{
    (void)state;
    static const struct {
        const char *name, *outer, *inner;
        bool tied, given;
    } rows[] = {
        {"Qwen2VLForConditionalGeneration", "false", "true", true, true},
        {"Qwen2_5_VLForConditionalGeneration", "null", "true", true, true},
        {"LlavaForConditionalGeneration", "null", "true", true, true},
        {"LlavaForConditionalGeneration", "null", "false", false, false},
        {"Qwen3VLForConditionalGeneration", "false", "true", false, true},
        {"Qwen3VLForConditionalGeneration", "null", "true", false, false},
        {"Qwen3VLForConditionalGeneration", "true", "false", true, true},
        {"Mistral3ForConditionalGeneration", "null", "null", false, false},
        {"Gemma3ForConditionalGeneration", "null", "null", false, false},
        {"Gemma3ForConditionalGeneration", "true", "null", true, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char members[512];
        snprintf(members, sizeof members,
                 "\"tie_word_embeddings\":%s,\"text_config\":{" SIZES
                 ",\"tie_word_embeddings\":%s}",
                 rows[i].outer, rows[i].inner);
        parsed(rows[i].name, members);
        assert_int_equal(config.tied, rows[i].tied);
        assert_int_equal(config.tied_given, rows[i].given);
    }
}

static void test_positions_in_three_dimensions_are_plain_for_text(void **state)
{
    (void)state;
    static const char qwen[] = "Qwen2VLForConditionalGeneration";
    parsed(qwen, "\"text_config\":{" SIZES ",\"rope_scaling\":{\"type\":\"mrope\","
                 "\"mrope_section\":[2,3,3]}}");
    assert_int_equal(config.ropes[0].kind, ROPE_DEFAULT);
    // Older files have no text_config.
    parsed(qwen, SIZES ",\"rope_scaling\":{\"rope_type\":\"mrope\",\"mrope_section\":[2,3,3]},"
                       "\"vision_config\":{\"hidden_size\":5}");
    assert_int_equal(config.ropes[0].kind, ROPE_DEFAULT);
    assert_int_equal(config.hidden, 64);
    parsed("Qwen2_5_VLForConditionalGeneration",
           "\"text_config\":{" SIZES ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4.0,"
           "\"mrope_section\":[2,3,3],\"original_max_position_embeddings\":64}}");
    assert_int_equal(config.ropes[0].kind, ROPE_YARN);
    parsed("Qwen3VLForConditionalGeneration",
           "\"text_config\":{" SIZES ",\"rope_parameters\":{\"rope_type\":\"default\","
           "\"rope_theta\":5000000,\"mrope_section\":[24,20,20],\"mrope_interleaved\":true}}");
    assert_true(config.ropes[0].theta == 5e6);
    // Classes that do not know this type.
    refused("Qwen3VLForConditionalGeneration",
            "\"text_config\":{" SIZES ",\"rope_scaling\":{\"type\":\"mrope\"}}",
            "mrope is not known");
    refused("LlamaForCausalLM", SIZES ",\"rope_scaling\":{\"type\":\"mrope\"}",
            "mrope is not known");
    refused(qwen, "\"text_config\":{" SIZES ",\"rope_scaling\":{\"type\":\"mrope\",\"odd\":2}}",
            "rope_scaling.odd");
}

static void test_windows_follow_the_class(void **state)
{
    (void)state;
    static const char window[] = "\"text_config\":{" SIZES ",\"use_sliding_window\":true,"
                                 "\"sliding_window\":8,\"max_window_layers\":1}";
    parsed("Qwen2_5_VLForConditionalGeneration", window);
    assert_int_equal(config.kind_count, 2);
    parsed("Qwen3VLForConditionalGeneration", window); // the class reads no window
    assert_int_equal(config.kind_count, 1);
    assert_int_equal(config.kinds[0].window, 0);
}

static void test_unfit_configs_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name, *members, *words;
    } rows[] = {
        {"LlavaForConditionalGeneration", SIZES, "text_config of LlavaForConditionalGeneration"},
        {"Qwen3VLForConditionalGeneration", SIZES, "is not an object"},
        {"Qwen2VLForConditionalGeneration", "\"text_config\":[]", "is not an object"},
        {"LlavaForConditionalGeneration", "\"text_config\":{\"model_type\":\"opt\"}",
         "is of the type opt (text_config.model_type), which is not served"},
        {"LlavaForConditionalGeneration", "\"text_config\":{\"model_type\":\"llama\\n\"}",
         "is of the type llama\\n"},
        {"LlavaForConditionalGeneration", "\"text_config\":{\"model_type\":7}", "(not a string)"},
        {"Gemma3ForConditionalGeneration",
         "\"text_config\":{" SIZES ",\"final_logit_softcapping\":30.0}",
         "is not served with Gemma3ForConditionalGeneration"},
        {"Qwen2VLForConditionalGeneration",
         "\"text_config\":{" SIZES "},\"quantization_config\":{"
         "\"quant_method\":\"odd\"}",
         "quantized (quantization_config: odd)"},
        {"PaliGemmaForConditionalGeneration", "\"text_config\":{" SIZES "}",
         "the architecture PaliGemmaForConditionalGeneration is not served; served are those of"},
        {"Qwen3_5ForConditionalGeneration", "\"text_config\":{" SIZES "}",
         "and the text parts of Gemma3, Idefics3, InternVL"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        refused(rows[i].name, rows[i].members, rows[i].words);
}

// Writes the folder of a golden model, with one more tensor (NULL: none) and another file.
static void put(const char *model, const char *tensor, const char *file, const char *text)
{
    json_t *golden = golden_read(model);
    if (tensor)
        json_array_append_new(json_object_get(golden, "tensors"),
                              json_pack("[s, [i, i], i]", tensor, 4, 4, 8));
    if (folder[0])
        folder_remove(folder);
    folder_make(folder);
    golden_folder_write(folder, golden, DTYPE_F32, 1);
    if (file)
        file_write(folder, file, text, strlen(text));
    json_decref(golden);
}

static enum status plan_open(struct model_plan **plan, struct device *device)
{
    struct model_options options = rig_options();
    options.max_model_len = 64;
    return model_plan_open(plan, folder, device_cpu(), device, &options, &err);
}

// Without weights the head is tied as the class has it by default, and not counted twice.
static void test_head_of_a_folder_without_weights(void **state)
{
    struct device *device = *state;
    static const char *const models[] = {"gemma3-vision", "mistral3-ministral3", "qwen3-vl"};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        struct model_plan *plan = NULL, *alone = NULL;
        struct model_options options = rig_options();
        put(models[i], NULL, NULL, NULL);
        assert_int_equal(plan_open(&plan, device), STATUS_OK);
        options.load_dummy = true;
        assert_int_equal(model_plan_open(&alone, folder, device_cpu(), device, &options, &err),
                         STATUS_OK);
        assert_int_equal(plan->facts.parameter_count, alone->facts.parameter_count);
        model_plan_close(plan);
        model_plan_close(alone);
    }
}

// Names that published checkpoints have.
static void test_tensors_of_other_parts_are_left_out(void **state)
{
    struct device *device = *state;
    static const struct {
        const char *model, *tensor;
        bool accepted;
    } rows[] = {
        {"qwen2-vl", "visual.patch_embed.proj.weight", true},
        {"qwen2-vl", "visualize.weight", false},
        {"qwen2-vl", "model.layers.0.self_attn.q_norm.weight", false},
        {"qwen2-vl", "audio_tower.conv1.weight", false},
        {"qwen3-vl", "model.visual.deepstack_merger_list.0.norm.weight", true},
        {"qwen3-vl", "model.language_model.layers.0.self_attn.q_proj.bias", false},
        {"qwen3-vl", "lm_head.weight", true}, // tied
        {"gemma3-vision", "vision_tower.vision_model.post_layernorm.weight", true},
        {"gemma3-vision", "multi_modal_projector.mm_input_projection_weight", true},
        {"llava", "language_model.model.layers.0.self_attn.rotary_emb.inv_freq", true},
        {"llava", "multi_modal_projector.linear_1.weight", true},
        {"llava", "image_newline", false},
        {"llava-next", "image_newline", true},
        {"llava-next", "image_newlines", false},
        {"smolvlm", "model.connector.modality_projection.proj.weight", true},
        {"smolvlm", "model.text_model.layers.2.input_layernorm.weight", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct model_plan *plan = NULL;
        put(rows[i].model, rows[i].tensor, NULL, NULL);
        enum status status = plan_open(&plan, device);
        if ((status == STATUS_OK) != rows[i].accepted ||
            (status != STATUS_OK && !strstr(err.text, rows[i].tensor)))
            fail_msg("%s, %s: %s", rows[i].model, rows[i].tensor,
                     status == STATUS_OK ? "accepted" : err.text);
        model_plan_close(plan);
    }
}

static void test_facts_name_the_text_part(void **state)
{
    struct device *device = *state;
    struct model_plan *plan = NULL;
    struct model_outline outline;
    put("gemma3-vision", NULL, NULL, NULL);
    assert_int_equal(plan_open(&plan, device), STATUS_OK);
    assert_string_equal(plan->facts.architecture, "Gemma3ForConditionalGeneration");
    assert_string_equal(plan->facts.text_part, "Gemma3ForCausalLM");
    assert_string_equal(plan->facts.media, "images");
    assert_int_equal(plan->facts.end_count, 2); // of the outer level
    model_plan_close(plan);
    assert_int_equal(model_outline_read(&outline, folder, &err), STATUS_OK);
    assert_string_equal(outline.text_part, "gemma3_text");
    put("llava", NULL, NULL, NULL);
    assert_int_equal(plan_open(&plan, device), STATUS_OK);
    assert_int_equal(plan->facts.end_count, 1); // of text_config
    assert_int_equal(plan->facts.end_ids[0], 2);
    model_plan_close(plan);
    put("llama", NULL, NULL, NULL);
    assert_int_equal(plan_open(&plan, device), STATUS_OK);
    assert_null(plan->facts.text_part);
    assert_null(plan->facts.media);
    model_plan_close(plan);
}

// Such models are published with prompts of their own, which weft does not know.
static void test_embedders_and_rerankers_are_refused(void **state)
{
    struct device *device = *state;
    struct model_plan *plan = NULL;
    static const char modules[] =
        "[{\"path\":\"\",\"type\":\"sentence_transformers.models.Transformer\"},"
        "{\"path\":\"1_Pooling\",\"type\":\"sentence_transformers.models.Pooling\"}]";
    put("qwen3-vl", NULL, "modules.json", modules);
    assert_int_equal(plan_open(&plan, device), STATUS_UNSUPPORTED);
    assert_non_null(strstr(err.text, "an embedder or reranker made of Qwen3VL"));
    put("qwen3-vl", NULL, "config_sentence_transformers.json", "{\"model_type\":\"CrossEncoder\"}");
    assert_int_equal(plan_open(&plan, device), STATUS_UNSUPPORTED);
    assert_non_null(strstr(err.text, "an embedder or reranker made of Qwen3VL"));
}

static int device_begin(void **state)
{
    struct device *device;
    struct device_options options = {.threads = 1, .exact = true};
    assert_int_equal(device_cpu()->open(&device, &options, &err), STATUS_OK);
    *state = device;
    return 0;
}

static int device_end(void **state)
{
    device_cpu()->close(*state);
    if (folder[0])
        folder_remove(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sparse_text_configs_get_the_defaults_of_their_class),
        cmocka_unit_test(test_experts_may_have_the_newer_name),
        cmocka_unit_test(test_head_is_tied_by_the_right_level),
        cmocka_unit_test(test_positions_in_three_dimensions_are_plain_for_text),
        cmocka_unit_test(test_windows_follow_the_class),
        cmocka_unit_test(test_unfit_configs_are_refused),
        cmocka_unit_test(test_head_of_a_folder_without_weights),
        cmocka_unit_test(test_tensors_of_other_parts_are_left_out),
        cmocka_unit_test(test_facts_name_the_text_part),
        cmocka_unit_test(test_embedders_and_rerankers_are_refused),
    };
    return cmocka_run_group_tests(tests, device_begin, device_end);
}
