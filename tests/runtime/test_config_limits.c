// SPDX-License-Identifier: Apache-2.0
// The ranges of all numbers of config.json, each at its ends and one step beyond, and the
// default of each missing number, flag or name, compared with tables that are independent of the
// code.
#include "base/json.h"
#include "base/log.h"
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

static struct model_config config; // 10 KB: too large for the stack
static struct error err;

// Returns the widest window of a layer; 0: no layer has one.
static uint32_t window_widest(void)
{
    uint32_t widest = 0;
    for (uint32_t i = 0; i < config.layers; i++) {
        uint32_t window = config.kinds[config.layer_kind[i]].window;
        widest = window > widest ? window : widest;
    }
    return widest;
}

// Returns true if a layer has no window.
static bool layer_full(uint32_t layer)
{
    return config.kinds[config.layer_kind[layer]].window == 0;
}

// Reads the small configuration with `patch` applied.
static enum status parse(const char *architecture, const char *patch)
{
    json_t *json = config_small(architecture);
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

static void refused(const char *architecture, const char *patch, enum status status,
                    const char *words)
{
    enum status got = parse(architecture, patch);
    if (got != status || !strstr(err.text, words))
        fail_msg("%s %s: %s, %s", architecture, patch, status_name(got), err.text);
}

// Returns true if a number is refused for its range; other refusals do not count.
static bool out_of_range(const char *architecture, const char *form, const char *key, double value)
{
    char patch[256], number[32], words[64];
    snprintf(number, sizeof number, "%.17g", value);
    const char *hole = strchr(form, '#');
    snprintf(patch, sizeof patch, "%.*s%s%s", (int)(hole - form), form, number, hole + 1);
    snprintf(words, sizeof words, "config.json: %s is ", key);
    return parse(architecture, patch) == STATUS_INVALID && strstr(err.text, words) &&
           strstr(err.text, ", allowed is ");
}

static void test_numbers_have_ranges(void **state)
{
    (void)state;
    static const char llama[] = "LlamaForCausalLM", bert[] = "BertModel";
    static const struct {
        const char *key, *architecture, *form;
        double low, high, step;
    } cases[] = {
        {"vocab_size", llama, "{\"vocab_size\":#}", 1, 16777216, 1},
        {"hidden_size", llama, "{\"hidden_size\":#}", 8, 65536, 1},
        {"num_hidden_layers", llama, "{\"num_hidden_layers\":#}", 1, 1024, 1},
        {"num_attention_heads", llama, "{\"num_attention_heads\":#}", 1, 1024, 1},
        {"num_key_value_heads", llama, "{\"num_key_value_heads\":#}", 1, 1024, 1},
        {"intermediate_size", llama, "{\"intermediate_size\":#}", 8, 1048576, 1},
        {"max_position_embeddings", llama, "{\"max_position_embeddings\":#}", 1, 16777216, 1},
        {"type_vocab_size", bert, "{\"type_vocab_size\":#}", 0, 1024, 1},
        {"head_dim", llama, "{\"head_dim\":#}", 8, 512, 1},
        {"rms_norm_eps", llama, "{\"rms_norm_eps\":#}", 0, 1, 0.001},
        {"layer_norm_eps", bert, "{\"layer_norm_eps\":#}", 0, 1, 0.001},
        {"num_labels", llama, "{\"num_labels\":#}", 1, 1048576, 1},
        {"pad_token_id", "RobertaModel", "{\"pad_token_id\":#}", 0, 1048576, 1},
        {"sliding_window", "MistralModel", "{\"sliding_window\":#}", 1, 16777216, 1},
        {"max_window_layers", "Qwen2Model", "{\"use_sliding_window\":true,\"max_window_layers\":#}",
         0, 1024, 1},
        {"rope_theta", llama, "{\"rope_theta\":#}", 1.0001, 1e12, 0.0001},
        {"rope_theta", llama, "{\"rope_parameters\":{\"rope_theta\":#}}", 1.0001, 1e12, 0.0001},
        {"partial_rotary_factor", llama, "{\"partial_rotary_factor\":#}", 0.01, 1, 0.001},
        {"partial_rotary_factor", llama, "{\"rope_scaling\":{\"partial_rotary_factor\":#}}", 0.01,
         1, 0.001},
        {"original_max_position_embeddings", llama, "{\"original_max_position_embeddings\":#}", 1,
         16777216, 1},
        {"original_max_position_embeddings", llama,
         "{\"rope_scaling\":{\"original_max_position_embeddings\":#}}", 1, 16777216, 1},
        {"factor", llama, "{\"rope_scaling\":{\"factor\":#}}", 1e-3, 1e6, 1e-4},
        {"attention_factor", llama, "{\"rope_scaling\":{\"attention_factor\":#}}", 1e-3, 1e3, 1e-4},
        {"beta_fast", llama, "{\"rope_scaling\":{\"beta_fast\":#}}", 1e-3, 1e6, 1e-4},
        {"beta_slow", llama, "{\"rope_scaling\":{\"beta_slow\":#}}", 1e-3, 1e6, 1e-4},
        {"mscale", llama, "{\"rope_scaling\":{\"mscale\":#}}", 0, 1e3, 1e-4},
        {"mscale_all_dim", llama, "{\"rope_scaling\":{\"mscale_all_dim\":#}}", 0, 1e3, 1e-4},
        {"low_freq_factor", llama, "{\"rope_scaling\":{\"low_freq_factor\":#}}", 1e-3, 1e6, 1e-4},
        {"high_freq_factor", llama, "{\"rope_scaling\":{\"high_freq_factor\":#}}", 1e-3, 1e6, 1e-4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const double values[] = {cases[i].low, cases[i].high, cases[i].low - cases[i].step,
                                 cases[i].high + cases[i].step};
        for (int k = 0; k < 4; k++)
            if (out_of_range(cases[i].architecture, cases[i].form, cases[i].key, values[k]) !=
                (k >= 2))
                fail_msg("%s at %.17g: %s", cases[i].form, values[k], err.text);
    }
}

static void test_heads_have_supported_widths(void **state)
{
    (void)state;
    static const char words[] = "are not supported: 16 to 256 in steps of 8 are";
    accepted("LlamaForCausalLM", "{\"head_dim\":16}");
    accepted("LlamaForCausalLM", "{\"head_dim\":256}");
    accepted("LlamaForCausalLM", "{\"head_dim\":24}");
    refused("LlamaForCausalLM", "{\"head_dim\":8}", STATUS_UNSUPPORTED, words);
    refused("LlamaForCausalLM", "{\"head_dim\":264}", STATUS_UNSUPPORTED, words);
    refused("LlamaForCausalLM", "{\"head_dim\":20}", STATUS_UNSUPPORTED, words);
    // An explicit head_dim does not require that the heads divide the hidden size; a derived one
    // does.
    accepted("LlamaForCausalLM", "{\"hidden_size\":250}");
    refused("LlamaForCausalLM", "{\"hidden_size\":250,\"head_dim\":null}", STATUS_INVALID,
            "num_attention_heads 8 does not divide hidden_size 250");
    accepted("LlamaForCausalLM", "{\"num_key_value_heads\":4}");
    assert_int_equal(config.kv_heads, 4);
    refused("LlamaForCausalLM", "{\"num_key_value_heads\":16}", STATUS_INVALID,
            "num_key_value_heads 16 does not divide num_attention_heads 8");
    // an encoder ignores both keys
    accepted("BertModel", "{\"num_key_value_heads\":4,\"head_dim\":32}");
    assert_int_equal(config.kv_heads, 8);
    accepted("MistralModel", "{\"num_attention_heads\":32}");
    assert_int_equal(config.kv_heads, 8); // the default of transformers for Mistral
    accepted("MistralModel", "{\"num_attention_heads\":32,\"num_key_value_heads\":null}");
    assert_int_equal(config.kv_heads, 32);
    accepted("Qwen2Model", "{\"num_attention_heads\":32}");
    assert_int_equal(config.kv_heads, 32);
}

static void test_names_of_dtypes_and_activations(void **state)
{
    (void)state;
    static const struct {
        const char *patch;
        int dtype;
    } dtypes[] = {{"{\"torch_dtype\":\"float32\"}", DTYPE_F32},
                  {"{\"dtype\":\"float16\"}", DTYPE_F16},
                  {"{\"torch_dtype\":\"bfloat16\",\"dtype\":\"float32\"}", DTYPE_BF16},
                  {"{\"torch_dtype\":null,\"dtype\":\"bfloat16\"}", DTYPE_BF16},
                  {"{\"torch_dtype\":\"int8\"}", -1},
                  {"{\"torch_dtype\":\"float64\"}", -1},
                  {"{}", -1}};
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        accepted("LlamaModel", dtypes[i].patch);
        assert_int_equal(config.dtype, dtypes[i].dtype);
    }
    static const struct {
        const char *name;
        enum activation kind;
    } known[] = {{"gelu", ACTIVATE_GELU},           {"gelu_python", ACTIVATE_GELU},
                 {"gelu_new", ACTIVATE_GELU_TANH},  {"gelu_pytorch_tanh", ACTIVATE_GELU_TANH},
                 {"gelu_fast", ACTIVATE_GELU_TANH}, {"gelu_accurate", ACTIVATE_GELU_TANH},
                 {"relu", ACTIVATE_RELU},           {"silu", ACTIVATE_SILU},
                 {"swish", ACTIVATE_SILU}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        char patch[64];
        snprintf(patch, sizeof patch, "{\"hidden_act\":\"%s\"}", known[i].name);
        accepted("BertModel", patch);
        assert_int_equal(config.kinds[0].activation, known[i].kind);
        if (known[i].kind == ACTIVATE_SILU)
            accepted("LlamaModel", patch);
        else
            refused("LlamaModel", patch, STATUS_UNSUPPORTED, "is not supported for LlamaModel");
    }
    refused("BertModel", "{\"hidden_act\":\"mish\"}", STATUS_UNSUPPORTED,
            "hidden_act mish is not supported for BertModel");
}

static void test_windows_of_layers(void **state)
{
    (void)state;
    accepted("MistralModel", "{\"sliding_window\":64,\"max_window_layers\":2}");
    assert_int_equal(window_widest(), 64);
    for (uint32_t i = 0; i < 4; i++) // that key belongs to Qwen
        assert_false(layer_full(i));
    accepted("MistralModel", "{\"sliding_window\":64,\"use_sliding_window\":false}");
    assert_int_equal(window_widest(), 64);             // so does the flag
    accepted("Qwen2Model", "{\"sliding_window\":64}"); // off without the flag
    assert_int_equal(window_widest(), 0);
    accepted("Qwen2Model", "{\"use_sliding_window\":true,\"max_window_layers\":0}");
    assert_int_equal(window_widest(), 4096);
    accepted("Qwen2Model", "{\"use_sliding_window\":true,\"sliding_window\":null}");
    assert_int_equal(window_widest(), 0);
    refused("LlamaModel", "{\"sliding_window\":64}", STATUS_UNSUPPORTED,
            "sliding_window is 64: an attention window is not served with LlamaModel");
    accepted("LlamaModel", "{\"use_sliding_window\":false,\"sliding_window\":64}");
    accepted("LlamaModel", "{\"sliding_window\":4096}"); // as long as the model's positions
    refused("Qwen2Model", "{\"use_sliding_window\":1}", STATUS_INVALID,
            "use_sliding_window is neither true nor false");
    accepted("Qwen2Model",
             "{\"num_hidden_layers\":30,\"use_sliding_window\":true,\"sliding_window\":9}");
    for (uint32_t i = 0; i < 30; i++)
        assert_int_equal(layer_full(i), i < 28);
    // A list names every layer, and contains only these two types.
    refused("Qwen2Model",
            "{\"num_hidden_layers\":2,\"use_sliding_window\":true,\"sliding_window\":9,"
            "\"layer_types\":[\"sliding_attention\"]}",
            STATUS_UNSUPPORTED,
            "layer_types[1] must be full_attention or sliding_attention, got none");
    refused("Qwen2Model",
            "{\"num_hidden_layers\":1,\"use_sliding_window\":true,\"sliding_window\":9,"
            "\"layer_types\":[\"chunked_attention\"]}",
            STATUS_UNSUPPORTED,
            "layer_types[0] must be full_attention or sliding_attention, got chunked_attention");
    accepted("Qwen2Model", "{\"num_hidden_layers\":1,\"use_sliding_window\":true,"
                           "\"sliding_window\":9,\"layer_types\":null}");
}

static void test_biases_follow_the_family(void **state)
{
    (void)state;
    accepted("LlamaModel", "{}");
    assert_false(config.qkv_bias || config.o_bias || config.ffn_bias);
    accepted("LlamaModel", "{\"attention_bias\":true}");
    assert_true(config.qkv_bias && config.o_bias && !config.ffn_bias);
    accepted("LlamaModel", "{\"mlp_bias\":true}");
    assert_true(config.ffn_bias && !config.qkv_bias && !config.o_bias);
    refused("LlamaModel", "{\"attention_bias\":0}", STATUS_INVALID,
            "attention_bias is neither true nor false");
    accepted("BertModel", "{\"head_dim\":32}");
    assert_true(config.qkv_bias && config.o_bias && config.ffn_bias);
}

static void test_unsupported_models_are_refused(void **state)
{
    (void)state;
    json_t *list = json_array();
    assert_int_equal(model_config_parse(&config, list, &err), STATUS_INVALID);
    assert_string_equal(err.text, "config.json is not a JSON object");
    json_decref(list);
    accepted("LlamaModel", "{\"quantization_config\":null}");
    accepted("LlamaModel", "{\"is_decoder\":true,\"position_embedding_type\":\"rotary\"}");
    accepted("BertModel", "{\"is_decoder\":false,\"position_embedding_type\":\"absolute\"}");
    accepted("BertModel", "{\"position_embedding_type\":null}");
    accepted("LlamaModel", "{\"is_causal\":true,\"use_bidirectional_attention\":false}");
    accepted("BertModel", "{\"is_causal\":false}");
    assert_false(config.kinds[0].causal);
    refused("Qwen2ForCausalLM", "{\"use_bidirectional_attention\":true}", STATUS_UNSUPPORTED,
            "attention to later tokens is not served with Qwen2ForCausalLM");
    accepted("Qwen2Model", "{\"is_causal\":false}");
    assert_false(config.kinds[0].causal || config.kinds[0].paged);
    refused("Qwen2Model", "{\"is_causal\":false,\"use_sliding_window\":true}", STATUS_UNSUPPORTED,
            "a window with is_causal false is not served with Qwen2Model");
    accepted("Gemma3TextModel", "{\"use_bidirectional_attention\":true,\"sliding_window\":512}");
    assert_true(config.kinds[0].window == 257 && config.kinds[0].ahead == 256);
    refused("LlamaBidirectionalModel", "{\"pooling\":\"last\"}", STATUS_UNSUPPORTED,
            "pooling is last; LlamaBidirectionalModel is served with avg only");
    accepted("BertForSequenceClassification", "{\"num_labels\":1}");
    assert_int_equal(config.labels, 1);
    accepted("BertForSequenceClassification", "{\"num_labels\":2,\"id2label\":{\"0\":\"a\"}}");
    assert_int_equal(config.labels, 1);
    accepted("BertForSequenceClassification", "{\"id2label\":[]}");
    assert_int_equal(config.labels, 0);
    static const char *const classifiers[] = {
        "BertForSequenceClassification", "RobertaForSequenceClassification",
        "CamembertForSequenceClassification", "LlamaForSequenceClassification",
        "Qwen3ForSequenceClassification"};
    for (size_t i = 0; i < sizeof classifiers / sizeof classifiers[0]; i++)
        refused(classifiers[i], "{\"num_labels\":2}", STATUS_UNSUPPORTED, "has 2 labels");
    accepted("LlamaForCausalLM", "{\"num_labels\":2}"); // a Llama model has no classification head
    accepted("BertModel", "{\"num_labels\":2}");
}

static void test_kinds_pooling_and_ties(void **state)
{
    (void)state;
    accepted("LlamaForCausalLM", "{\"tie_word_embeddings\":true}");
    assert_true(config.tied && config.tied_given && config.normalize);
    assert_int_equal(config.pooling, POOL_LAST);
    accepted("LlamaForCausalLM", "{\"tie_word_embeddings\":false}");
    assert_true(!config.tied && config.tied_given);
    accepted("LlamaForCausalLM", "{\"tie_word_embeddings\":null}");
    assert_false(config.tied || config.tied_given);
    assert_true(config.yes_id == -1 && config.no_id == -1 && config.end_count == 0);
    assert_true(isnan(config.defaults.top_k));
    assert_true(isnan(config.defaults.temperature) && isnan(config.defaults.top_p));
    accepted("BertModel", "{}");
    assert_int_equal(config.pooling, POOL_CLS);
    assert_true(config.normalize && config.epsilon == 1e-12);
    assert_int_equal(config.position_offset, 0);
    assert_int_equal(config.length_default, 4096);
    accepted("RobertaModel", "{\"pad_token_id\":4094}");
    assert_int_equal(config.length_max, 1);
    refused("RobertaModel", "{\"pad_token_id\":4095}", STATUS_INVALID, "leaves no position");
    accepted("LlamaModel", "{\"rms_norm_eps\":0.5,\"layer_norm_eps\":0.25}");
    assert_true(config.epsilon == 0.5);
    accepted("BertModel", "{\"rms_norm_eps\":0.5,\"layer_norm_eps\":0.25}");
    assert_true(config.epsilon == 0.25);
}

static void test_rotary_settings(void **state)
{
    (void)state;
    const struct rope_config *rope = &config.ropes[0];
    accepted("LlamaModel", "{}");
    assert_int_equal(rope->kind, ROPE_DEFAULT);
    assert_true(rope->theta == 10000 && rope->dim == 64 && rope->original == 4096);
    assert_true(rope->factor == 0 && isnan(rope->attention_factor) && rope->truncate);
    assert_true(rope->beta_fast == 32 && rope->beta_slow == 1);
    assert_true(rope->mscale == 0 && rope->mscale_all_dim == 0);
    assert_true(rope->low_freq_factor == 1 && rope->high_freq_factor == 4);
    // The inner value has precedence over the outer one; the newer object is read, which the older
    // must not contradict.
    accepted("LlamaModel", "{\"rope_theta\":5,\"rope_scaling\":{\"rope_theta\":6}}");
    assert_true(rope->theta == 6);
    accepted("LlamaModel", "{\"rope_theta\":5,\"rope_scaling\":null}");
    assert_true(rope->theta == 5);
    accepted("LlamaModel", "{\"rope_parameters\":{\"rope_theta\":7,\"rope_type\":\"linear\","
                           "\"factor\":2},\"rope_scaling\":{\"rope_theta\":7}}");
    assert_true(rope->theta == 7 && rope->kind == ROPE_LINEAR);
    assert_int_equal(config.length_max, 8192);
    assert_int_equal(config.length_default, 8192);
    accepted("LlamaModel", "{\"rope_scaling\":{\"rope_type\":\"default\",\"type\":\"linear\"}}");
    assert_int_equal(rope->kind, ROPE_DEFAULT);
    accepted("LlamaModel", "{\"partial_rotary_factor\":0.5}");
    assert_int_equal(rope->dim, 32);
    accepted("LlamaModel",
             "{\"partial_rotary_factor\":0.5,\"rope_scaling\":{\"partial_rotary_factor\":0.25}}");
    assert_int_equal(rope->dim, 16);
    accepted("LlamaModel", "{\"partial_rotary_factor\":0.0625}");
    assert_int_equal(rope->dim, 4);
    refused("LlamaModel", "{\"partial_rotary_factor\":0.03125}", STATUS_UNSUPPORTED,
            "2 rotary columns of a head are not supported");
    refused("LlamaModel", "{\"head_dim\":40,\"partial_rotary_factor\":0.125}", STATUS_UNSUPPORTED,
            "5 rotary columns of a head are not supported");
    accepted("LlamaModel", "{\"rope_scaling\":{\"type\":\"linear\",\"factor\":0.5}}");
    assert_int_equal(config.length_max, 4096); // a length is never reduced
    accepted("LlamaModel", "{\"max_position_embeddings\":16777216,"
                           "\"rope_scaling\":{\"type\":\"linear\",\"factor\":4}}");
    assert_int_equal(config.length_max, 1 << 24);
    accepted("LlamaModel", "{\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}}");
    assert_true(config.length_default == 4096 && config.length_max == 8192);
}

static void test_yarn_and_longrope_settings(void **state)
{
    (void)state;
    const struct rope_config *rope = &config.ropes[0];
    accepted("LlamaModel", "{\"rope_scaling\":{\"type\":\"yarn\","
                           "\"original_max_position_embeddings\":1024}}");
    assert_true(rope->factor == 4 && rope->original == 1024); // the ratio of the lengths
    assert_int_equal(config.length_max, 4096);
    accepted("LlamaModel", "{\"original_max_position_embeddings\":512,"
                           "\"rope_scaling\":{\"type\":\"yarn\",\"truncate\":false,"
                           "\"attention_factor\":1.5,\"factor\":16}}");
    assert_true(rope->factor == 16 && rope->original == 512 && !rope->truncate);
    assert_true(rope->attention_factor == 1.5 && config.length_max == 8192);
    refused("LlamaModel", "{\"rope_scaling\":{\"type\":\"yarn\",\"truncate\":\"no\"}}",
            STATUS_INVALID, "truncate is neither true nor false");
    static const char *const kinds[] = {"linear", "dynamic", "llama3"};
    for (size_t i = 0; i < 3; i++) {
        char patch[64];
        snprintf(patch, sizeof patch, "{\"rope_scaling\":{\"type\":\"%s\"}}", kinds[i]);
        refused("LlamaModel", patch, STATUS_INVALID, "factor is missing");
    }
    accepted("LlamaModel",
             // only llama3 has this key
             "{\"rope_scaling\":{\"type\":\"yarn\",\"low_freq_factor\":4}}");
    static const char longrope[] =
        "{\"head_dim\":16,\"original_max_position_embeddings\":1024,\"rope_scaling\":{\"type\":"
        "\"%s\",\"short_factor\":[1,2,3,4,5,6,7,%s],\"long_factor\":[2,3,4,5,6,7,8%s]}}";
    char patch[256];
    for (int i = 0; i < 2; i++) {
        snprintf(patch, sizeof patch, longrope, i ? "su" : "longrope", "8", ",9.5");
        accepted("LlamaModel", patch);
        assert_true(rope->kind == ROPE_LONG && rope->factor == 4 && config.length_max == 4096);
        assert_true(rope->short_factor[0] == 1 && rope->short_factor[7] == 8);
        assert_true(rope->long_factor[0] == 2 && rope->long_factor[7] == 9.5);
    }
    static const char *const wrong[][3] = {
        {"8", "", "long_factor of longrope is not a list of 8 numbers"},
        {"8", ",9,10", "long_factor of longrope is not a list of 8 numbers"},
        {"8", ",\"9\"", "long_factor of longrope holds something that is not a positive number"},
        {"-1", ",9", "short_factor of longrope holds something that is not a positive number"},
        {"null", ",9", "short_factor of longrope holds something that is not a positive number"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(patch, sizeof patch, longrope, "longrope", wrong[i][0], wrong[i][1]);
        refused("LlamaModel", patch, STATUS_INVALID, wrong[i][2]);
    }
}

// One row per architecture: what transformers does with a config.json that sets nothing else.
static void test_every_architecture_has_its_defaults(void **state)
{
    (void)state;
    enum { BIASED = 1, NORMED = 2, YES_NO = 4, PROMPT = 8 };
    static const char windows[] = "{\"use_sliding_window\":true, \"max_window_layers\":0}";
    static const struct {
        const char *name;
        enum model_kind kind;
        uint32_t kv_heads, head_dim, window, offset, types;
        int flags;
        double epsilon;
    } rows[] = {
        {"BertForMaskedLM", MODEL_EMBEDDER, 32, 16, 0, 0, 2, BIASED, 1e-12},
        {"BertForSequenceClassification", MODEL_RERANKER, 32, 16, 0, 0, 2, BIASED, 1e-12},
        {"BertModel", MODEL_EMBEDDER, 32, 16, 0, 0, 2, BIASED, 1e-12},
        {"CamembertForMaskedLM", MODEL_EMBEDDER, 32, 16, 0, 2, 2, BIASED, 1e-12},
        {"CamembertForSequenceClassification", MODEL_RERANKER, 32, 16, 0, 2, 2, BIASED, 1e-12},
        {"CamembertModel", MODEL_EMBEDDER, 32, 16, 0, 2, 2, BIASED, 1e-12},
        {"Cohere2ForCausalLM", MODEL_GENERATOR, 32, 16, 4096, 0, 0, 0, 1e-5},
        {"CohereForCausalLM", MODEL_GENERATOR, 32, 16, 0, 0, 0, 0, 1e-5},
        {"DistilBertForMaskedLM", MODEL_EMBEDDER, 32, 16, 0, 0, 0, BIASED, 1e-12},
        {"DistilBertForSequenceClassification", MODEL_RERANKER, 32, 16, 0, 0, 0, BIASED, 1e-12},
        {"DistilBertModel", MODEL_EMBEDDER, 32, 16, 0, 0, 0, BIASED, 1e-12},
        {"Ernie4_5ForCausalLM", MODEL_GENERATOR, 2, 128, 0, 0, 0, 0, 1e-5},
        {"Ernie4_5_MoeForCausalLM", MODEL_GENERATOR, 4, 16, 0, 0, 0, 0, 1e-5},
        {"Exaone4ForCausalLM", MODEL_GENERATOR, 32, 16, 4096, 0, 0, NORMED, 1e-5},
        {"Gemma3ForCausalLM", MODEL_GENERATOR, 4, 256, 4096, 0, 0, NORMED, 1e-6},
        {"Gemma3TextModel", MODEL_EMBEDDER, 4, 256, 4096, 0, 0, NORMED, 1e-6},
        {"GemmaForCausalLM", MODEL_GENERATOR, 16, 256, 0, 0, 0, YES_NO, 1e-6},
        {"Glm4ForCausalLM", MODEL_GENERATOR, 2, 128, 0, 0, 0, BIASED, 1.5625e-7},
        {"Glm4MoeForCausalLM", MODEL_GENERATOR, 8, 16, 0, 0, 0, 0, 1e-5},
        {"GptOssForCausalLM", MODEL_GENERATOR, 8, 64, 128, 0, 0, BIASED, 1e-5},
        {"GraniteForCausalLM", MODEL_GENERATOR, 32, 16, 0, 0, 0, 0, 1e-6},
        {"GraniteMoeForCausalLM", MODEL_GENERATOR, 32, 16, 0, 0, 0, 0, 1e-6},
        {"GteForSequenceClassification", MODEL_RERANKER, 32, 16, 0, 0, 1, BIASED, 1e-12},
        {"GteModel", MODEL_EMBEDDER, 32, 16, 0, 0, 1, BIASED, 1e-12},
        {"HeliumForCausalLM", MODEL_GENERATOR, 20, 128, 0, 0, 0, 0, 1e-8},
        {"HunYuanDenseV1ForCausalLM", MODEL_GENERATOR, 32, 16, 0, 0, 0, 0, 1e-5},
        {"JinaBertForMaskedLM", MODEL_EMBEDDER, 32, 16, 0, 0, 2, BIASED, 1e-12},
        {"JinaBertForSequenceClassification", MODEL_RERANKER, 32, 16, 0, 0, 2, BIASED, 1e-12},
        {"JinaBertModel", MODEL_EMBEDDER, 32, 16, 0, 0, 2, BIASED, 1e-12},
        {"LlamaBidirectionalModel", MODEL_EMBEDDER, 32, 16, 0, 0, 0, 0, 1e-6},
        {"LlamaForCausalLM", MODEL_GENERATOR, 32, 16, 0, 0, 0, 0, 1e-6},
        {"LlamaForSequenceClassification", MODEL_RERANKER, 32, 16, 0, 0, 0, 0, 1e-6},
        {"LlamaModel", MODEL_EMBEDDER, 32, 16, 0, 0, 0, 0, 1e-6},
        {"MiniMaxM2ForCausalLM", MODEL_GENERATOR, 8, 128, 0, 0, 0, 0, 1e-6},
        {"MPNetForMaskedLM", MODEL_EMBEDDER, 32, 16, 0, 2, 0, BIASED, 1e-12},
        {"MPNetModel", MODEL_EMBEDDER, 32, 16, 0, 2, 0, BIASED, 1e-12},
        {"Ministral3ForCausalLM", MODEL_GENERATOR, 8, 128, 0, 0, 0, 0, 1e-5},
        {"MistralForCausalLM", MODEL_GENERATOR, 8, 16, 4096, 0, 0, 0, 1e-6},
        {"MistralForSequenceClassification", MODEL_RERANKER, 8, 16, 4096, 0, 0, 0, 1e-6},
        {"MistralModel", MODEL_EMBEDDER, 8, 16, 4096, 0, 0, 0, 1e-6},
        {"MixtralForCausalLM", MODEL_GENERATOR, 8, 16, 0, 0, 0, 0, 1e-5},
        {"ModernBertForMaskedLM", MODEL_EMBEDDER, 32, 16, 65, 0, 0, 0, 1e-5},
        {"ModernBertForSequenceClassification", MODEL_RERANKER, 32, 16, 65, 0, 0, 0, 1e-5},
        {"ModernBertModel", MODEL_EMBEDDER, 32, 16, 65, 0, 0, 0, 1e-5},
        {"NewForSequenceClassification", MODEL_RERANKER, 32, 16, 0, 0, 1, BIASED, 1e-12},
        {"NewModel", MODEL_EMBEDDER, 32, 16, 0, 0, 1, BIASED, 1e-12},
        {"NomicBertModel", MODEL_EMBEDDER, 32, 16, 0, 0, 2, 0, 1e-12},
        {"Olmo2ForCausalLM", MODEL_GENERATOR, 32, 16, 0, 0, 0, 0, 1e-5},
        {"Olmo3ForCausalLM", MODEL_GENERATOR, 32, 16, 4096, 0, 0, 0, 1e-5},
        {"OlmoeForCausalLM", MODEL_GENERATOR, 32, 16, 0, 0, 0, 0, 1e-5},
        {"Phi3ForCausalLM", MODEL_GENERATOR, 32, 16, 0, 0, 0, 0, 1e-5},
        {"Qwen2ForCausalLM", MODEL_GENERATOR, 32, 16, 4096, 0, 0, BIASED | YES_NO, 1e-6},
        {"Qwen2ForSequenceClassification", MODEL_RERANKER, 32, 16, 4096, 0, 0, BIASED, 1e-6},
        {"Qwen2Model", MODEL_EMBEDDER, 32, 16, 4096, 0, 0, BIASED, 1e-6},
        {"Qwen2MoeForCausalLM", MODEL_GENERATOR, 16, 16, 4096, 0, 0, BIASED, 1e-6},
        {"Qwen3ForCausalLM", MODEL_GENERATOR, 32, 128, 4096, 0, 0, NORMED | YES_NO, 1e-6},
        {"Qwen3ForSequenceClassification", MODEL_RERANKER, 32, 128, 4096, 0, 0, NORMED | PROMPT,
         1e-6},
        {"Qwen3Model", MODEL_EMBEDDER, 32, 128, 4096, 0, 0, NORMED, 1e-6},
        {"Qwen3MoeForCausalLM", MODEL_GENERATOR, 4, 16, 4096, 0, 0, NORMED, 1e-6},
        {"RobertaForMaskedLM", MODEL_EMBEDDER, 32, 16, 0, 2, 2, BIASED, 1e-12},
        {"RobertaForSequenceClassification", MODEL_RERANKER, 32, 16, 0, 2, 2, BIASED, 1e-12},
        {"RobertaModel", MODEL_EMBEDDER, 32, 16, 0, 2, 2, BIASED, 1e-12},
        {"SeedOssForCausalLM", MODEL_GENERATOR, 8, 128, 0, 0, 0, BIASED, 1e-6},
        {"SmolLM3ForCausalLM", MODEL_GENERATOR, 4, 16, 0, 0, 0, 0, 1e-6},
        {"XLMRobertaForMaskedLM", MODEL_EMBEDDER, 32, 16, 0, 2, 2, BIASED, 1e-12},
        {"XLMRobertaForSequenceClassification", MODEL_RERANKER, 32, 16, 0, 2, 2, BIASED, 1e-12},
        {"XLMRobertaModel", MODEL_EMBEDDER, 32, 16, 0, 2, 2, BIASED, 1e-12},
    };
    assert_ptr_equal(architecture_find("Ernie4_5_ForCausalLM"),
                     architecture_find("Ernie4_5ForCausalLM"));
    for (uint32_t i = 0; architecture_at(i); i++)
        if (i >= sizeof rows / sizeof rows[0] || strcmp(architecture_at(i)->name, rows[i].name))
            fail_msg("row %u of this table must be that of %s", i, architecture_at(i)->name);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        json_t *json = config_small(rows[i].name);
        int heads = 32 % rows[i].kv_heads == 0 ? 32 : 2 * (int)rows[i].kv_heads;
        json_object_del(json, "head_dim");
        json_object_set_new(json, "num_attention_heads", json_integer(heads));
        json_object_set_new(json, "hidden_size", json_integer(heads * 16));
        config_patch(json, windows);
        if (model_config_parse(&config, json, &err) != STATUS_OK)
            fail_msg("%s: %s", rows[i].name, err.text);
        json_decref(json);
        uint32_t flags = config.arch->flags;
        int got = (config.qkv_bias ? BIASED : 0) | (flags & ARCH_QK_NORM ? NORMED : 0) |
                  (flags & ARCH_YES_NO ? YES_NO : 0) | (flags & ARCH_YES_NO_PROMPT ? PROMPT : 0);
        bool sized = config.kv_heads == rows[i].kv_heads && config.head_dim == rows[i].head_dim &&
                     config.position_offset == rows[i].offset && config.types == rows[i].types;
        if (!sized || config.kind != rows[i].kind || window_widest() != rows[i].window ||
            got != rows[i].flags || config.epsilon != rows[i].epsilon)
            fail_msg("%s: kind %d, %u KV heads of %u, window %u, offset %u, %u types, flags %d, %g",
                     rows[i].name, (int)config.kind, config.kv_heads, config.head_dim,
                     window_widest(), config.position_offset, config.types, got, config.epsilon);
    }
    refused(
        "BartModel", "{}", STATUS_UNSUPPORTED,
        "the architecture BartModel is not served; served are those of Bert, Camembert, Cohere2");
    assert_non_null(strstr(err.text, ", XLMRoberta, and the text parts of Gemma3, "));
}

int main(void)
{
    log_level_set(LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_have_ranges),
        cmocka_unit_test(test_heads_have_supported_widths),
        cmocka_unit_test(test_names_of_dtypes_and_activations),
        cmocka_unit_test(test_windows_of_layers),
        cmocka_unit_test(test_biases_follow_the_family),
        cmocka_unit_test(test_unsupported_models_are_refused),
        cmocka_unit_test(test_kinds_pooling_and_ties),
        cmocka_unit_test(test_rotary_settings),
        cmocka_unit_test(test_yarn_and_longrope_settings),
        cmocka_unit_test(test_every_architecture_has_its_defaults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
