// SPDX-License-Identifier: Apache-2.0
// The table of keys that change what a model computes: each value that would be ignored is refused
// with the key and the value, each other value is accepted; the rotary positions of transformers 5,
// which may depend on the kind of layer; kinds of layers.
#include "base/json.h"
#include "runtime/model/config.h"
#include "tests/runtime/config_rig.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct model_config config; // 6 KB: too large for the stack
static struct error err;

static json_t *base_config(const char *architecture)
{
    // heads of 64 columns
    return json_pack("{s:[s], s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "architectures",
                     architecture, "vocab_size", 1000, "hidden_size", 256, "num_hidden_layers", 4,
                     "num_attention_heads", 4, "num_key_value_heads", 4, "head_dim", 64,
                     "intermediate_size", 512, "max_position_embeddings", 4096);
}

static enum status parse(const char *architecture, const char *patch)
{
    json_t *json = base_config(architecture);
    config_patch(json, patch);
    enum status status = model_config_parse(&config, json, &err);
    json_decref(json);
    return status;
}

static void accepted(const char *architecture, const char *patch)
{
    if (parse(architecture, patch) != STATUS_OK)
        fail_msg("%s %s: %s", architecture, patch, err.text);
}

static void refused(const char *architecture, const char *patch, const char *words)
{
    enum status got = parse(architecture, patch);
    if (got != STATUS_UNSUPPORTED || !strstr(err.text, words) || strchr(err.text, '\n'))
        fail_msg("%s %s: %s, %s", architecture, patch, status_name(got), err.text);
}

static void test_ignored_values_are_refused(void **state)
{
    (void)state;
    static const char llama[] = "LlamaForCausalLM", qwen2[] = "Qwen2ForCausalLM";
    static const struct {
        const char *architecture, *patch, *words;
    } cases[] = {
        {llama, "{\"attn_logit_softcapping\":50.0}",
         "config.json: attn_logit_softcapping is 50.0: a cap on the scores of attention is not "
         "served with LlamaForCausalLM; take another model, or remove the key if the model does "
         "not use it"},
        {llama, "{\"final_logit_softcapping\":30}", "final_logit_softcapping is 30: a cap on the"},
        {llama, "{\"embedding_multiplier\":12.0}", "embedding_multiplier is 12.0: a factor of"},
        {llama, "{\"residual_multiplier\":0.22}", "residual_multiplier is 0.22: a factor of each"},
        {llama, "{\"attention_multiplier\":0.015625}", "attention_multiplier is 0.015625: a scale"},
        {llama, "{\"logits_scaling\":8}", "logits_scaling is 8: a divisor of the logits"},
        {llama, "{\"query_pre_attn_scalar\":256}", "query_pre_attn_scalar is 256: a scale of"},
        {llama, "{\"no_rope_layers\":[1,1,1,0]}", "no_rope_layers is [1,1,1,0]: layers without"},
        {llama, "{\"num_local_experts\":8}", "num_local_experts is 8: a mixture of experts"},
        {qwen2, "{\"num_experts\":60}", "num_experts is 60: a mixture of experts"},
        {"CohereForCausalLM", "{\"use_qk_norm\":true}", "use_qk_norm is true: a norm of q and k"},
        {llama, "{\"use_qk_norm\":true}", "use_qk_norm is true: a norm of q and k"},
        {llama, "{\"hidden_activation\":\"gelu_pytorch_tanh\"}",
         "hidden_activation is \"gelu_pytorch_tanh\": an activation in place of hidden_act"},
        {qwen2, "{\"dual_chunk_attention_config\":{\"chunk_size\":262144}}",
         "dual_chunk_attention_config is {\"chunk_size\":262144}: dual chunk attention"},
        {qwen2,
         "{\"dual_chunk_attention_config\":{\"chunk_size\":262144,\"local_size\":8192,"
         "\"original_max_position_embeddings\":262144}}",
         "...: dual chunk attention is not served with Qwen2ForCausalLM"},
        {"MistralForCausalLM",
         "{\"rope_parameters\":{\"rope_type\":\"default\",\"llama_4_scaling_beta\":0.1}}",
         "rope_parameters.llama_4_scaling_beta is 0.1: a scale of queries by position"},
        {llama, "{\"rope_scaling\":{\"type\":\"linear\",\"factor\":2,\"strange\":[1]}}",
         "rope_scaling.strange is [1]: an unknown parameter of positions"},
        {"BertModel", "{\"position_embedding_type\":\"alibi\"}", "position_embedding_type is"},
        {"BertModel", "{\"feed_forward_type\":\"geglu\"}", "feed_forward_type is \"geglu\""},
        {"NomicBertModel", "{\"moe_every_n_layers\":2,\"num_experts\":8}",
         "num_experts is 8: a mixture of experts is not served with NomicBertModel"},
        {"NomicBertModel", "{\"activation_function\":\"gelu\"}",
         "activation_function gelu is not supported"},
        {"NomicBertModel", "{\"rotary_scaling_factor\":2}", "rotary_scaling_factor is 2: the"},
        {"NomicBertModel", "{\"prenorm\":true}", "prenorm is true: norms before the blocks"},
        {"NewModel", "{\"logn_attention_scale\":true}", "logn_attention_scale is true: a scale"},
        {"NewModel", "{\"position_embedding_type\":\"absolute\"}",
         "position_embedding_type is absolute; NewModel is served with rope only"},
        {"NewModel", "{\"rope_scaling\":{\"type\":\"ntk\",\"factor\":2,\"mixed_b\":0.5}}",
         "rope_scaling.mixed_b is 0.5: an unknown parameter of positions"},
        {llama, "{\"rope_scaling\":{\"type\":\"ntk\",\"factor\":2}}",
         "the rope type ntk is not known"},
        {"ModernBertForSequenceClassification", "{\"classifier_pooling\":\"max\"}",
         "classifier_pooling is max; cls and mean are served"},
        {"ModernBertForSequenceClassification", "{\"classifier_activation\":\"relu\"}",
         "classifier_activation is relu;"},
        {"BertModel", "{\"embedding_size\":128}", "embedding_size is 128: an embedding table"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refused(cases[i].architecture, cases[i].patch, cases[i].words);
    static const char *const harmless[] = {
        "{\"attn_logit_softcapping\":null,\"final_logit_softcapping\":0.0}",
        "{\"embedding_multiplier\":1,\"residual_multiplier\":1.0,\"logits_scaling\":1}",
        "{\"attention_multiplier\":0.125,\"query_pre_attn_scalar\":64}",
        "{\"no_rope_layers\":[1,1,1,1]}",
        "{\"no_rope_layers\":[]}",
        "{\"num_local_experts\":1,\"num_experts\":0}",
        "{\"use_qk_norm\":false,\"hidden_activation\":\"silu\",\"hidden_act\":\"silu\"}",
        "{\"dual_chunk_attention_config\":null}",
        "{\"dual_chunk_attention_config\":{}}",
        "{\"rope_parameters\":{\"rope_type\":\"default\",\"llama_4_scaling_beta\":0}}",
        "{\"attention_chunk_size\":8192,\"rotary_pct\":1.0}",
        "{\"final_logit_softcapping_of_another_program\":30}",
    };
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++)
        accepted(llama, harmless[i]);
}

// Returns a value of the key that changes the model.
static json_t *harmful(const struct config_key *key)
{
    switch (key->neutral) {
    case NEUTRAL_NUMBER:
        return json_real(key->value + 7);
    case NEUTRAL_NOT_ZERO:
        return json_pack("[i, i]", 3, 0);
    case NEUTRAL_AT_MOST:
        return json_real(key->value + 1);
    case NEUTRAL_WORD:
        return json_string("silu swish"); // two words are no word of a list
    case NEUTRAL_HEAD_SCALE:
        return json_real(0.126);
    default:
        return json_integer(63);
    }
}

// Returns a value of the key that does not change the model.
static json_t *harmless(const struct config_key *key)
{
    char word[64];
    switch (key->neutral) {
    case NEUTRAL_NUMBER:
    case NEUTRAL_AT_MOST:
        return json_real(key->value);
    case NEUTRAL_NOT_ZERO:
        return json_true();
    case NEUTRAL_WORD:
        snprintf(word, sizeof word, "%.*s", (int)strcspn(key->words, " "), key->words);
        return json_string(word);
    case NEUTRAL_HEAD_DIM:
        return json_integer(64);
    case NEUTRAL_HEAD_SCALE:
        return json_real(0.125);
    case NEUTRAL_HIDDEN:
        return json_integer(256);
    case NEUTRAL_LENGTH:
    case NEUTRAL_WINDOW:
        return json_integer(4096);
    default:
        return json_null();
    }
}

static void test_every_row_is_judged(void **state)
{
    (void)state;
    const struct config_key *key;
    uint32_t judged = 0;
    for (uint32_t i = 0; (key = config_key_at(i)); i++) {
        bool member = strncmp(key->name, "rope.", 5) == 0;
        const char *name = member ? key->name + 5 : key->name;
        struct config_facts facts = {
            .name = "NetModel", .head_dim = 64, .hidden = 256, .positions = 4096};
        assert_true(key->meaning && key->families != 0);
        for (int bad = 0; bad <= 1; bad++) {
            json_t *json = json_object();
            json_object_set_new(json, name, bad ? harmful(key) : harmless(key));
            facts.family = key->families & KEY_DECODERS ? KEY_DECODERS : KEY_ENCODERS;
            facts.reads = "another_key other.key";
            enum status status = member ? config_rope_check(json, "rope_parameters", &facts, &err)
                                        : config_keys_check(json, &facts, &err);
            bool wanted = bad && key->neutral != NEUTRAL_ANY;
            if ((status == STATUS_UNSUPPORTED) != wanted)
                fail_msg("%s, %s: %s", key->name, bad ? "harmful" : "harmless", err.text);
            if (wanted)
                assert_true(strstr(err.text, name) && strstr(err.text, key->meaning));
            judged += wanted;
            facts.reads = key->name; // the architecture reads it
            assert_int_equal(member ? config_rope_check(json, "rope_parameters", &facts, &err)
                                    : config_keys_check(json, &facts, &err),
                             STATUS_OK);
            json_decref(json);
        }
    }
    assert_true(judged > 60);
}

static void test_rows_are_found_for_gguf(void **state)
{
    (void)state;
    assert_string_equal(config_key_of_gguf("final_logit_softcapping", KEY_DECODERS)->name,
                        "final_logit_softcapping");
    assert_string_equal(config_key_of_gguf("attention.scale", KEY_DECODERS)->name,
                        "attention_multiplier");
    assert_null(config_key_of_gguf("attention.scale", KEY_ENCODERS));
    assert_null(config_key_of_gguf("context_length", KEY_DECODERS));
}

#define FULL "\"full_attention\":{\"rope_type\":\"default\",\"rope_theta\":1000000}"
#define SLIDING "\"sliding_attention\":{\"rope_type\":\"linear\",\"factor\":8,\"rope_theta\":5000}"
#define ALL(type)                                                                                  \
    "\"layer_types\":[\"" type "\",\"" type "\",\"" type "\",\"" type "\"],\"rope_parameters\":{"

static void test_rotary_positions_by_kind_of_layer(void **state)
{
    (void)state;
    accepted("LlamaForCausalLM", "{\"rope_parameters\":{" FULL "}}");
    assert_true(config.ropes[0].theta == 1e6);
    accepted("Qwen3ForCausalLM", "{" ALL("full_attention") FULL "," SLIDING "}}");
    assert_true(config.ropes[0].theta == 1e6 && config.ropes[0].kind == ROPE_DEFAULT);
    accepted("MistralForCausalLM",
             "{\"sliding_window\":64," ALL("sliding_attention") FULL "," SLIDING "}}");
    assert_true(config.ropes[0].theta == 5000 && config.ropes[0].kind == ROPE_LINEAR);
    accepted("MistralForCausalLM",
             "{\"sliding_window\":64,\"layer_types\":[\"sliding_attention\",\"full_attention\","
             "\"full_attention\",\"full_attention\"],\"rope_parameters\":{" FULL "," SLIDING "}}");
    assert_true(config.rope_count == 2 && config.kind_count == 2);
    assert_true(config.kinds[0].rope == 1 && config.kinds[1].rope == 0);
    assert_true(config.ropes[0].theta == 1e6 && config.ropes[1].theta == 5000);
    assert_int_equal(parse("LlamaForCausalLM", "{" ALL("full_attention") SLIDING "}}"),
                     STATUS_INVALID);
    assert_non_null(strstr(err.text, "rope_parameters has no member full_attention"));
    refused("LlamaForCausalLM",
            "{\"rope_parameters\":{\"full_attention\":{\"llama_4_scaling_beta\":0.1}}}",
            "rope_parameters.llama_4_scaling_beta is 0.1");
}

// A message has the key of the file, also if the family has another name for it.
static void test_messages_have_the_keys_of_the_file(void **state)
{
    (void)state;
    refused("DistilBertModel", "{\"activation\":\"selu\"}", "config.json: activation selu is not");
    json_t *json = base_config("DistilBertModel");
    json_object_set_new(json, "num_attention_heads", json_null());
    json_object_set_new(json, "n_heads", json_integer(0));
    assert_int_equal(model_config_parse(&config, json, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "config.json: n_heads is 0, allowed is 1 to 1024"));
    json_decref(json);
}

// A file may have both forms if they are equal.
static void test_both_forms_of_rotary_positions(void **state)
{
    (void)state;
    static const char llama[] = "LlamaForCausalLM";
#define YARN "{\"rope_type\":\"yarn\",\"factor\":4.0,\"original_max_position_embeddings\":32"
    accepted(llama, "{\"rope_parameters\":" YARN ",\"rope_theta\":7},\"rope_scaling\":" YARN "}}");
    assert_true(config.ropes[0].kind == ROPE_YARN && config.ropes[0].theta == 7);
    accepted(llama, "{\"rope_parameters\":" YARN "},\"rope_scaling\":{\"type\":\"yarn\","
                    "\"factor\":4,\"beta_fast\":null}}");
    accepted(llama, "{\"rope_parameters\":" YARN "},\"rope_scaling\":{}}");
    accepted(llama, "{\"rope_parameters\":" YARN "},\"rope_scaling\":null}");
    // The published default of the family is no second form.
    accepted("Ministral3ForCausalLM", "{\"rope_parameters\":{\"rope_type\":\"default\"}}");
    refused(
        llama, "{\"rope_parameters\":{\"rope_theta\":7},\"rope_scaling\":{\"type\":\"yarn\"}}",
        "config.json: rope_scaling and rope_parameters differ in type, and only one of them can "
        "apply: put the values that you want into rope_parameters and remove rope_scaling");
    refused(llama,
            "{\"rope_parameters\":" YARN "},\"rope_scaling\":{\"type\":\"yarn\","
            "\"factor\":2}}",
            "differ in factor,");
    refused(llama, "{\"rope_parameters\":{" FULL "},\"rope_scaling\":" YARN "}}", "differ in ");
}

// Early files of Phi-3 call longrope "yarn".
static void test_factors_belong_to_longrope(void **state)
{
    (void)state;
    refused("Phi3ForCausalLM", "{\"rope_scaling\":{\"type\":\"yarn\",\"short_factor\":[1,2]}}",
            "config.json: short_factor belongs to the rope type longrope, and the type is another; "
            "set it to longrope if the model was trained with these factors");
    refused("LlamaForCausalLM",
            "{\"rope_scaling\":{\"type\":\"linear\",\"factor\":2,\"long_factor\":[1,2]}}",
            "config.json: long_factor belongs to the rope type longrope");
    refused("Phi3ForCausalLM", "{\"rope_parameters\":{\"long_factor\":[1,2]}}",
            "config.json: long_factor belongs to the rope type longrope");
    accepted("Phi3ForCausalLM",
             "{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2,\"short_factor\":null}}");
}

static void test_kinds_of_layers_are_judged_without_a_window(void **state)
{
    (void)state;
    refused("LlamaForCausalLM",
            "{\"layer_types\":[\"full_attention\",\"linear_attention\",\"full_attention\","
            "\"full_attention\"]}",
            "config.json: layer_types[1] is linear_attention; without an attention window "
            "full_attention is served only");
    refused("LlamaForCausalLM", "{\"layer_types\":[\"full_attention\"]}",
            "layer_types[1] is missing");
    refused("Qwen3ForCausalLM",
            "{\"layer_types\":[\"full_attention\",\"full_attention\",\"full_attention\","
            "\"sliding_attention\"]}",
            "layer_types[3] is sliding_attention; without an attention window full_attention is");
    accepted("Qwen3ForCausalLM",
             "{\"layer_types\":[\"full_attention\",\"full_attention\",\"full_attention\","
             "\"full_attention\"]}");
}

static void test_the_architecture_is_judged_first(void **state)
{
    (void)state;
    refused("DeepseekV3ForCausalLM",
            "{\"vocab_size\":null,\"quantization_config\":{\"quant_method\":\"fp8\"}}",
            "the architecture DeepseekV3ForCausalLM is not served");
    refused("LlamaForCausalLM",
            "{\"vocab_size\":null,\"quantization_config\":{\"quant_method\":\"hqq\"}}",
            "the checkpoint is quantized (quantization_config: hqq)");
    refused("LlamaForCausalLM", "{\"compression_config\":{\"quant_method\":\"sparseml\"}}",
            "(compression_config: sparseml)");
    refused("LlamaForCausalLM", "{\"quantization\":{\"group_size\":64,\"bits\":4}}",
            "(quantization: mlx 4 bits)");
    refused("LlamaForCausalLM",
            "{\"quantization\":{\"group_size\":64,\"bits\":4},"
            "\"quantization_config\":{\"group_size\":64,\"bits\":4}}",
            "(quantization_config: mlx 4 bits)");
}

// Methods and variants of them that are read, and those whose tensors would be misread.
static void test_quantised_checkpoints_are_judged(void **state)
{
    (void)state;
    static const char *const read[] = {
        "\"quant_method\":\"fp8\"",
        "\"quant_algo\":\"NVFP4\"",
        "\"quant_method\":\"modelopt\",\"quant_algo\":\"MIXED_PRECISION\"",
        "\"quant_method\":\"awq\",\"version\":\"gemm\",\"bits\":4",
        "\"quant_method\":\"gptq\",\"checkpoint_format\":\"gptq_v2\",\"bits\":4",
        "\"quant_method\":\"auto-round\",\"packing_format\":\"auto_round:auto_awq\"",
        "\"quant_method\":\"compressed-tensors\",\"format\":\"pack-quantized\"",
        "\"quant_method\":\"bitsandbytes\",\"load_in_4bit\":true",
    };
    static const char *const unread[][2] = {
        {"\"quant_method\":\"awq\",\"version\":\"gemv\",\"bits\":4",
         "(quantization_config: awq gemv 4 bits)"},
        {"\"quant_method\":\"gptq\",\"checkpoint_format\":\"marlin\"",
         "(quantization_config: gptq marlin)"},
        {"\"quant_method\":\"compressed-tensors\",\"format\":\"marlin-24\"",
         "(quantization_config: compressed-tensors marlin-24)"},
        {"\"quant_method\":\"compressed-tensors\",\"format\":\"pack-quantized\","
         "\"transform_config\":{\"config_groups\":{\"u\":{}}}",
         "(quantization_config: compressed-tensors pack-quantized transform_config)"},
        {"\"quant_method\":\"modelopt\",\"quant_algo\":\"W4A8_AWQ\"",
         "(quantization_config: modelopt W4A8_AWQ)"},
        {"\"quant_method\":\"auto-round\",\"packing_format\":\"auto_round:marlin\"",
         "(quantization_config: auto-round auto_round:marlin)"},
        {"\"quant_method\":\"aqlm\"", "(quantization_config: aqlm)"},
    };
    char patch[256];
    for (size_t i = 0; i < sizeof read / sizeof read[0]; i++) {
        snprintf(patch, sizeof patch, "{\"quantization_config\":{%s}}", read[i]);
        accepted("LlamaForCausalLM", patch);
    }
    for (size_t i = 0; i < sizeof unread / sizeof unread[0]; i++) {
        snprintf(patch, sizeof patch, "{\"quantization_config\":{%s}}", unread[i][0]);
        refused("LlamaForCausalLM", patch, unread[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ignored_values_are_refused),
        cmocka_unit_test(test_every_row_is_judged),
        cmocka_unit_test(test_rows_are_found_for_gguf),
        cmocka_unit_test(test_rotary_positions_by_kind_of_layer),
        cmocka_unit_test(test_messages_have_the_keys_of_the_file),
        cmocka_unit_test(test_both_forms_of_rotary_positions),
        cmocka_unit_test(test_factors_belong_to_longrope),
        cmocka_unit_test(test_kinds_of_layers_are_judged_without_a_window),
        cmocka_unit_test(test_the_architecture_is_judged_first),
        cmocka_unit_test(test_quantised_checkpoints_are_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
