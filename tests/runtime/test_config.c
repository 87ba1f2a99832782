// SPDX-License-Identifier: Apache-2.0
// Reading of config.json and the files next to it: kinds of models, defaults of each family,
// windows, end ids, pooling. Refusals are in test_hostile.c.
#include "base/json.h"
#include "runtime/model/config.h"
#include "runtime/model/model.h"
#include "tests/runtime/golden.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char decoder[] =
    "{\"architectures\":[\"%s\"],\"vocab_size\":1000,\"hidden_size\":256,\"num_hidden_layers\":4,"
    "\"num_attention_heads\":8,\"intermediate_size\":512,\"max_position_embeddings\":4096%s}";

static struct model_config config; // 10 KB: too large for the stack

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

static void parse(const char *architecture, const char *more)
{
    struct error err;
    json_t *json = json_sprintf(decoder, architecture, more);
    json_t *object = json_loads(json_string_value(json), 0, NULL);
    assert_non_null(object);
    enum status status = model_config_parse(&config, object, &err);
    if (status != STATUS_OK)
        fail_msg("%s", err.text);
    json_decref(object);
    json_decref(json);
}

static void test_kinds_follow_the_architecture(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum model_kind kind;
        enum rerank_form form;
    } known[] = {
        {"LlamaForCausalLM", MODEL_GENERATOR, RERANK_PAIR},
        {"MistralModel", MODEL_EMBEDDER, RERANK_PAIR},
        {"BertModel", MODEL_EMBEDDER, RERANK_PAIR},
        {"CamembertModel", MODEL_EMBEDDER, RERANK_PAIR},
        {"XLMRobertaForMaskedLM", MODEL_EMBEDDER, RERANK_PAIR},
        {"BertForSequenceClassification", MODEL_RERANKER, RERANK_PAIR},
        {"Qwen2ForSequenceClassification", MODEL_RERANKER, RERANK_PAIR},
        {"Qwen3ForSequenceClassification", MODEL_RERANKER, RERANK_PAIR},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        parse(known[i].name, "");
        assert_int_equal(config.kind, known[i].kind);
        assert_int_equal(config.rerank, known[i].form);
    }
}

static void test_defaults_depend_on_the_family(void **state)
{
    (void)state;
    parse("LlamaForCausalLM", "");
    assert_int_equal(config.kv_heads, 8);
    assert_int_equal(config.head_dim, 32);
    assert_int_equal(config.ropes[0].dim, 32);
    assert_true(config.ropes[0].theta == 10000.0 && config.epsilon == 1e-6);
    assert_false(config.tied || config.tied_given || config.qkv_bias);
    assert_int_equal(config.kinds[0].activation, ACTIVATE_SILU);
    assert_int_equal(config.dtype, -1);
    parse("MistralForCausalLM", "");
    assert_int_equal(window_widest(), 4096);
    parse("MistralForCausalLM", ",\"sliding_window\":null");
    assert_int_equal(window_widest(), 0);
    parse("Qwen2ForCausalLM", ",\"dtype\":\"bfloat16\"");
    assert_true(config.qkv_bias && !config.o_bias);
    assert_int_equal(config.dtype, DTYPE_BF16);
    parse("Qwen2ForCausalLM", ",\"attention_bias\":true"); // Qwen2's output projection has no bias
    assert_true(config.qkv_bias && !config.o_bias);
    parse("Qwen3ForCausalLM", ",\"attention_bias\":true");
    assert_true(config.qkv_bias && config.o_bias);
    parse("BertModel", ",\"torch_dtype\":\"float16\"");
    assert_int_equal(config.kinds[0].activation, ACTIVATE_GELU);
    assert_int_equal(config.dtype, DTYPE_F16);
    assert_int_equal(config.pooling, POOL_CLS);
    assert_int_equal(config.length_max, 4096);
    parse("RobertaModel", "");
    assert_int_equal(config.position_offset, 2);
    assert_int_equal(config.length_max, 4094);
    assert_int_equal(config.types, 2);
    parse("BertModel", ",\"hidden_act\":\"gelu_python\"");
    assert_int_equal(config.kinds[0].activation, ACTIVATE_GELU);
    parse("BertModel", ",\"type_vocab_size\":0");
    assert_int_equal(config.types, 0);
    parse("Qwen3Model", "");
    assert_int_equal(config.pooling, POOL_LAST);
    assert_int_equal(config.head_dim, 128);
    parse("Qwen3ForCausalLM", ",\"head_dim\":null");
    assert_int_equal(config.head_dim, 32);
}

static void test_windows_follow_their_flags(void **state)
{
    (void)state;
    parse("Qwen2ForCausalLM", ",\"sliding_window\":64,\"use_sliding_window\":false");
    assert_int_equal(window_widest(), 0);
    parse("Qwen2ForCausalLM",
          ",\"sliding_window\":64,\"use_sliding_window\":true,\"max_window_layers\":2");
    assert_int_equal(window_widest(), 64);
    assert_true(layer_full(0) && layer_full(1));
    assert_false(layer_full(2) || layer_full(3));
    parse("Qwen2ForCausalLM",
          ",\"sliding_window\":64,\"use_sliding_window\":true"); // from layer 28
    assert_int_equal(config.kind_count, 1);
    assert_true(layer_full(0) && layer_full(3));
    parse("Qwen3ForCausalLM",
          ",\"sliding_window\":64,\"use_sliding_window\":true,\"layer_types\":[\"full_attention\","
          "\"sliding_attention\",\"full_attention\",\"sliding_attention\"]");
    assert_true(layer_full(0) && layer_full(2));
    assert_false(layer_full(1) || layer_full(3));
}

static void test_lengths_follow_the_scaling(void **state)
{
    (void)state;
    parse("LlamaForCausalLM", ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":4}");
    assert_int_equal(config.length_default, 16384);
    parse("LlamaForCausalLM", ",\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":4}");
    assert_int_equal(config.length_default, 4096);
    assert_int_equal(config.length_max, 16384);
    parse("Qwen2ForCausalLM", ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,"
                              "\"original_max_position_embeddings\":2048}");
    assert_int_equal(config.length_max, 8192);
    parse("LlamaForCausalLM", ",\"rope_parameters\":{\"rope_type\":\"llama3\",\"factor\":8,"
                              "\"rope_theta\":500000,\"low_freq_factor\":1,\"high_freq_factor\":4,"
                              "\"original_max_position_embeddings\":1024}");
    assert_int_equal(config.length_max, 4096);
    assert_true(config.ropes[0].theta == 500000.0);
    assert_int_equal(config.ropes[0].kind, ROPE_LLAMA3);
}

struct place {
    char folder[64];
};

static void put(const struct place *place, const char *name, const char *text)
{
    file_write(place->folder, name, text, strlen(text));
}

static void put_config(const struct place *place, const char *name, const char *architecture,
                       const char *more)
{
    json_t *json = json_sprintf(decoder, architecture, more);
    put(place, name, json_string_value(json));
    json_decref(json);
}

static void read(const struct place *place)
{
    struct error err;
    if (model_config_read(&config, place->folder, &err) != STATUS_OK)
        fail_msg("%s", err.text);
}

static int place_make(void **state)
{
    static struct place place;
    folder_make(place.folder);
    *state = &place;
    return 0;
}

static int place_end(void **state)
{
    folder_remove(((struct place *)*state)->folder);
    return 0;
}

static void test_end_ids_of_both_files(void **state)
{
    const struct place *place = *state;
    put_config(place, "config.json", "LlamaForCausalLM", ",\"eos_token_id\":7");
    read(place);
    assert_int_equal(config.end_count, 1);
    assert_int_equal(config.end_ids[0], 7);
    assert_true(isnan(config.defaults.temperature));
    put(place, "generation_config.json",
        "{\"eos_token_id\":[3,4],\"temperature\":0.6,\"top_p\":0.9,\"top_k\":20,\"min_p\":0.1,"
        "\"repetition_penalty\":1.05,\"max_new_tokens\":2048}");
    read(place);
    assert_int_equal(config.end_count, 3); // of both files
    assert_int_equal(config.end_ids[1], 4);
    assert_int_equal(config.end_ids[2], 7);
    const struct model_defaults wanted = {0.6, 0.9, 20, 0.1, 1.05, 2048};
    assert_memory_equal(&config.defaults, &wanted, sizeof wanted);
    put(place, "generation_config.json", "{\"bos_token_id\":1}");
    read(place);
    assert_int_equal(config.end_ids[0], 7);
    put(place, "generation_config.json", "{\"eos_token_id\":[7,7]}");
    read(place);
    assert_int_equal(config.end_count, 1); // each id once
}

static void test_pooling_without_modules(void **state)
{
    const struct place *place = *state;
    put_config(place, "config.json", "BertModel", "");
    read(place);
    assert_int_equal(config.pooling, POOL_MEAN);
    put_config(place, "config.json", "BertForSequenceClassification", "");
    read(place);
    assert_int_equal(config.pooling, POOL_CLS);
}

// An answer ends at the tokenizer's eos_token too, if the vocabulary has it.
static void test_end_ids_can_be_added(void **state)
{
    (void)state;
    struct model_facts facts = {.vocab = 10, .end_count = 1, .end_ids = {3}};
    assert_true(model_facts_add_end(&facts, 3) && facts.end_count == 1);
    assert_true(model_facts_add_end(&facts, 9) && facts.end_count == 2 && facts.end_ids[1] == 9);
    assert_false(model_facts_add_end(&facts, 10) || model_facts_add_end(&facts, -1));
    facts.end_count = MODEL_END_IDS_MAX;
    assert_false(model_facts_add_end(&facts, 8));
}

static void test_sampling_defaults_of_a_file(void **state)
{
    static const char *const refused[][2] = {
        {"[1]", "is not a JSON object"},
        {"{", "invalid JSON"},
        {"{\"temperature\":9}", "defaults.json: 'temperature' is not a number from 0 to 2"},
        {"{\"top_p\":\"1\"}", "'top_p'"},
        {"{\"top_k\":-5}", "'top_k'"},
        {"{\"top_k\":1.5}", "'top_k' is not a whole number from -1 to 16777216"},
        {"{\"min_p\":1.5}", "defaults.json: 'min_p' is not a number from 0 to 1"},
        {"{\"repetition_penalty\":0}", "'repetition_penalty' is not a number above 0 to 2"},
        {"{\"max_new_tokens\":0}", "'max_new_tokens' is not a whole number from 1 to 4294967295"}};
    const struct place *place = *state;
    struct model_defaults defaults = {.top_p = 1, .top_k = 5};
    struct error err;
    char path[512];
    snprintf(path, sizeof path, "%s/defaults.json", place->folder);
    assert_int_equal(model_defaults_read(&defaults, path, &err), STATUS_NOT_FOUND);
    put(place, "defaults.json", "{\"temperature\":0.25}");
    assert_int_equal(model_defaults_read(&defaults, path, &err), STATUS_OK);
    assert_true(defaults.temperature == 0.25 && isnan(defaults.top_p) && isnan(defaults.top_k));
    assert_true(isnan(defaults.min_p) && isnan(defaults.repetition_penalty));
    assert_true(isnan(defaults.max_tokens));
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        put(place, "defaults.json", refused[i][0]);
        assert_int_equal(model_defaults_read(&defaults, path, &err), STATUS_INVALID);
        assert_non_null(strstr(err.text, refused[i][1]));
    }
}

static const char modules[] =
    "[{\"type\":\"sentence_transformers.models.Transformer\",\"path\":\"0_Transformer\"},"
    "{\"type\":\"sentence_transformers.models.Pooling\",\"path\":\"1_Pooling\"}]";

static void test_sentence_folders_are_embedders(void **state)
{
    const struct place *place = *state;
    put_config(place, "0_Transformer/config.json", "Qwen3ForCausalLM", "");
    put(place, "modules.json", modules);
    put(place, "1_Pooling/config.json", "{\"pooling_mode_lasttoken\":true}");
    read(place);
    assert_int_equal(config.kind, MODEL_EMBEDDER);
    assert_int_equal(config.pooling, POOL_LAST);
    assert_non_null(strstr(config.weights_folder, "/0_Transformer"));
    put(place, "1_Pooling/config.json", "{\"pooling_mode\":\"mean\"}");
    read(place);
    assert_int_equal(config.pooling, POOL_MEAN);
    put(place, "1_Pooling/config.json", "{\"pooling_mode_mean_sqrt_len_tokens\":true}");
    put(place, "0_Transformer/sentence_bert_config.json", "{\"max_seq_length\":256}");
    read(place);
    assert_int_equal(config.pooling, POOL_MEAN_SQRT);
    assert_int_equal(config.length_default, 256);
    put(place, "0_Transformer/sentence_bert_config.json", "{\"max_seq_length\":");
    struct error err;
    assert_int_equal(model_config_read(&config, place->folder, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "sentence_bert_config.json"));
}

// A folder states whether pooling excludes the prompt, which only mean pooling does, and to which
// lengths vectors may be cut.
static void test_declarations_of_embedders(void **state)
{
    const struct place *place = *state;
    put_config(place, "config.json", "BertModel",
               ",\"matryoshka_dimensions\":[16,8],\"truncate_dim\":null");
    put(place, "modules.json",
        "[{\"type\":\"Transformer\",\"path\":\"\"},{\"type\":\"Pooling\",\"path\":\"1_Pooling\"}]");
    put(place, "1_Pooling/config.json", "{\"pooling_mode\":\"mean\",\"include_prompt\":true}");
    read(place);
    assert_false(config.prompt_unpooled || config.dimensions_free);
    assert_int_equal(config.dimension_count, 2);
    assert_int_equal(config.dimensions[0], 16);
    assert_int_equal(config.dimensions[1], 8);
    put(place, "config_sentence_transformers.json", "{\"truncate_dim\":4,\"is_matryoshka\":true}");
    put(place, "1_Pooling/config.json", "{\"pooling_mode\":\"mean\",\"include_prompt\":false}");
    read(place);
    assert_true(config.prompt_unpooled && config.dimensions_free);
    assert_int_equal(config.dimension_count, 3);
    assert_int_equal(config.dimensions[2], 4);
    put(place, "1_Pooling/config.json", "{\"pooling_mode\":\"cls\",\"include_prompt\":false}");
    read(place);
    assert_false(config.prompt_unpooled);
    static const char *const wrong[] = {"[0]", "[100000]", "[\"8\"]", "[8.5]"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct error err;
        char more[64];
        snprintf(more, sizeof more, ",\"matryoshka_dimensions\":%s", wrong[i]);
        put_config(place, "config.json", "BertModel", more);
        assert_int_equal(model_config_read(&config, place->folder, &err), STATUS_INVALID);
        assert_non_null(strstr(err.text, "matryoshka_dimensions"));
    }
}

static void test_old_length_files_are_read(void **state)
{
    const struct place *place = *state;
    put_config(place, "config.json", "RobertaModel", "");
    put(place, "sentence_roberta_config.json", "{\"max_seq_length\":128}");
    read(place);
    assert_int_equal(config.length_default, 128);
}

static void test_yes_no_rerankers_are_recognised(void **state)
{
    const struct place *place = *state;
    put_config(place, "config.json", "Qwen3ForCausalLM", "");
    read(place);
    assert_int_equal(config.kind, MODEL_GENERATOR);
    put(place, "config_sentence_transformers.json", "{\"model_type\":\"CrossEncoder\"}");
    read(place);
    assert_int_equal(config.kind, MODEL_RERANKER);
    assert_int_equal(config.rerank, RERANK_YES_NO);
    put_config(place, "config.json", "Qwen3ForCausalLM", ",\"is_original_qwen3_reranker\":true");
    put(place, "config_sentence_transformers.json", "{}");
    read(place);
    assert_int_equal(config.kind, MODEL_RERANKER);
    put_config(place, "Qwen3-Reranker-tiny/config.json", "Qwen3ForCausalLM", "");
    struct place inside;
    assert_true(strlen(place->folder) + 22 < sizeof inside.folder);
    strcpy(inside.folder, place->folder);
    strcat(inside.folder, "/Qwen3-Reranker-tiny/");
    read(&inside);
    assert_int_equal(config.kind, MODEL_RERANKER);
}

// With a score head only Qwen3-Reranker's own checkpoints use its prompt; a fine-tuned model does
// not.
static void test_prompts_of_score_heads(void **state)
{
    const struct place *place = *state;
    static const struct {
        const char *name, *more;
        enum rerank_form form;
    } cases[] = {
        {"my-fine-tune", "", RERANK_PAIR},
        {"my-reranker", "", RERANK_PAIR},
        {"my-reranker", ",\"is_original_qwen3_reranker\":true", RERANK_YES_NO},
        {"Qwen3-Reranker-0.6B-seq-cls", "", RERANK_YES_NO},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char folder[160], name[160];
        struct error err;
        snprintf(name, sizeof name, "%s/config.json", cases[i].name);
        put_config(place, name, "Qwen3ForSequenceClassification", cases[i].more);
        snprintf(name, sizeof name, "%s/config_sentence_transformers.json", cases[i].name);
        put(place, name, "{\"model_type\":\"CrossEncoder\"}");
        snprintf(folder, sizeof folder, "%s/%s", place->folder, cases[i].name);
        assert_int_equal(model_config_read(&config, folder, &err), STATUS_OK);
        assert_int_equal(config.kind, MODEL_RERANKER);
        assert_int_equal(config.rerank, cases[i].form);
    }
}

// In the download cache of the hub the model's name is two folders above the files.
static void test_names_of_the_hub_cache_are_read(void **state)
{
    const struct place *place = *state;
    static const char *const folders[] = {"models--Q--Reranker/snapshots/0a1b",
                                          "models--Q--Qwen3/snapshots/0a1b", "reranker/other/0a1b"};
    static const enum model_kind kinds[] = {MODEL_RERANKER, MODEL_GENERATOR, MODEL_GENERATOR};
    for (size_t i = 0; i < 3; i++) {
        char folder[160], name[160];
        struct error err;
        snprintf(name, sizeof name, "%s/config.json", folders[i]);
        put_config(place, name, "Qwen3ForCausalLM", "");
        snprintf(folder, sizeof folder, "%s/%s", place->folder, folders[i]);
        assert_int_equal(model_config_read(&config, folder, &err), STATUS_OK);
        assert_int_equal(config.kind, kinds[i]);
    }
}

static const struct layer_kind *kind_of(uint32_t layer)
{
    return &config.kinds[config.layer_kind[layer]];
}

// A published Gemma 3 configuration may contain nothing but its name.
static void test_gemma3_has_the_defaults_of_its_class(void **state)
{
    (void)state;
    struct error err;
    json_t *json = json_pack("{s:[s]}", "architectures", "Gemma3ForCausalLM");
    if (model_config_parse(&config, json, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    json_decref(json);
    assert_true(config.vocab == 262208 && config.hidden == 2304 && config.layers == 26);
    assert_true(config.heads == 8 && config.kv_heads == 4 && config.head_dim == 256);
    assert_true(config.tied && config.embed_root && config.kind_count == 2);
    assert_true(kind_of(0)->window == 4096 && kind_of(4)->window == 4096);
    assert_true(kind_of(5)->window == 0 && kind_of(25)->window == 4096);
    assert_true(kind_of(0)->rope == 1 && kind_of(5)->rope == 0 && config.rope_count == 2);
    assert_true(config.ropes[0].theta == 1e6 && config.ropes[1].theta == 1e4);
    assert_true(kind_of(0)->scale == 0.0625f && kind_of(0)->qk_norm == QK_NORM_EACH);
    assert_int_equal(kind_of(0)->norms, NORM_BEFORE | NORM_AFTER);
    assert_int_equal(kind_of(0)->activation, ACTIVATE_GELU_TANH);
    parse("Gemma3ForCausalLM",
          ",\"query_pre_attn_scalar\":64,\"sliding_window_pattern\":2,\"rope_theta\":5000.0,"
          "\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":8}");
    assert_true(kind_of(0)->scale == 0.125f && config.ropes[0].kind == ROPE_LINEAR);
    assert_int_equal(config.length_default, config.positions);
    assert_true(config.ropes[0].theta == 5e3 && config.ropes[1].kind == ROPE_DEFAULT);
}

static void test_positions_of_families(void **state)
{
    (void)state;
    const struct rope_config *rope = &config.ropes[0];
    parse("Ministral3ForCausalLM", ",\"rope_scaling\":null");
    assert_true(rope->kind == ROPE_YARN && rope->theta == 1e6 && rope->factor == 16);
    assert_true(rope->original == 16384 && rope->query_beta == 0.1 && kind_of(0)->window == 0);
    parse("Ministral3ForCausalLM", ",\"rope_parameters\":{\"rope_theta\":5e4}");
    assert_true(rope->kind == ROPE_DEFAULT && rope->theta == 5e4 && rope->query_beta == 0);
    parse("HunYuanDenseV1ForCausalLM",
          ",\"rope_scaling\":{\"type\":\"dynamic\",\"alpha\":100,\"factor\":1}");
    assert_true(rope->kind == ROPE_ALPHA && rope->alpha == 100);
    assert_int_equal(config.length_max, config.positions);
    assert_int_equal(kind_of(0)->qk_norm, QK_NORM_LAST);
    parse("HunYuanDenseV1ForCausalLM", ",\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}");
    assert_int_equal(rope->kind, ROPE_DYNAMIC);
}

static void test_layers_without_rotary(void **state)
{
    (void)state;
    parse("SmolLM3ForCausalLM", "");
    assert_true(kind_of(0)->rotates && kind_of(2)->rotates && !kind_of(3)->rotates);
    parse("SmolLM3ForCausalLM", ",\"no_rope_layers\":[0,1,1,1]");
    assert_true(!kind_of(0)->rotates && kind_of(1)->rotates && kind_of(3)->rotates);
    parse("Exaone4ForCausalLM", ",\"num_key_value_heads\":4");
    assert_true(kind_of(0)->rotates && kind_of(0)->window == 4096);
    assert_true(!kind_of(3)->rotates && kind_of(3)->window == 0);
    parse("Exaone4ForCausalLM", ",\"num_key_value_heads\":4,\"sliding_window\":null");
    assert_true(kind_of(3)->rotates && config.kind_count == 1);
    parse("Cohere2ForCausalLM", ",\"sliding_window_pattern\":2");
    assert_true(kind_of(0)->rotates && kind_of(0)->window == 4096);
    assert_true(!kind_of(1)->rotates && kind_of(1)->window == 0);
    parse("Cohere2ForCausalLM", ",\"sliding_window\":null");
    assert_true(!kind_of(0)->rotates && config.kind_count == 1);
}

static void test_factors_and_biases_of_families(void **state)
{
    (void)state;
    parse("GraniteForCausalLM", ",\"embedding_multiplier\":12,\"residual_multiplier\":0.25,"
                                "\"attention_multiplier\":0.5,\"logits_scaling\":8");
    assert_true(config.embed_factor == 12 && config.residual_factor == 0.25);
    assert_true(config.logit_factor == 0.125 && kind_of(0)->scale == 0.5f);
    parse("CohereForCausalLM", ",\"layer_norm_eps\":1e-3,\"rms_norm_eps\":1e-2");
    assert_true(config.logit_factor == 0.0625 && kind_of(0)->centred && config.epsilon == 1e-3);
    assert_true(kind_of(0)->parallel && kind_of(0)->norms == NORM_BEFORE && config.tied);
    assert_true(config.ropes[0].theta == 5e5);
    parse("LlamaForCausalLM", "");
    assert_true(config.embed_factor == 0 && config.residual_factor == 0 && !config.embed_root);
    parse("SeedOssForCausalLM", "");
    assert_true(config.qkv_bias && !config.o_bias && !config.ffn_bias);
    parse("SeedOssForCausalLM", ",\"attention_bias\":false,\"attention_out_bias\":true");
    assert_true(!config.qkv_bias && config.o_bias && !config.ffn_bias);
    parse("Ernie4_5ForCausalLM", ",\"use_bias\":true");
    assert_true(config.qkv_bias && config.o_bias && config.ffn_bias);
    parse("Glm4ForCausalLM", "");
    assert_true(config.qkv_bias && !config.o_bias && config.ropes[0].dim == 64);
    parse("GemmaForCausalLM", ",\"num_key_value_heads\":8,\"hidden_act\":\"gelu\"");
    assert_int_equal(kind_of(0)->activation, ACTIVATE_GELU_TANH);
    parse("Olmo2ForCausalLM", "");
    assert_true(kind_of(0)->norms == NORM_AFTER && kind_of(0)->qk_norm == QK_NORM_ALL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds_follow_the_architecture),
        cmocka_unit_test(test_defaults_depend_on_the_family),
        cmocka_unit_test(test_gemma3_has_the_defaults_of_its_class),
        cmocka_unit_test(test_positions_of_families),
        cmocka_unit_test(test_layers_without_rotary),
        cmocka_unit_test(test_factors_and_biases_of_families),
        cmocka_unit_test(test_windows_follow_their_flags),
        cmocka_unit_test(test_lengths_follow_the_scaling),
        cmocka_unit_test(test_end_ids_can_be_added),
        cmocka_unit_test_setup_teardown(test_pooling_without_modules, place_make, place_end),
        cmocka_unit_test_setup_teardown(test_end_ids_of_both_files, place_make, place_end),
        cmocka_unit_test_setup_teardown(test_sampling_defaults_of_a_file, place_make, place_end),
        cmocka_unit_test_setup_teardown(test_sentence_folders_are_embedders, place_make, place_end),
        cmocka_unit_test_setup_teardown(test_declarations_of_embedders, place_make, place_end),
        cmocka_unit_test_setup_teardown(test_old_length_files_are_read, place_make, place_end),
        cmocka_unit_test_setup_teardown(test_yes_no_rerankers_are_recognised, place_make,
                                        place_end),
        cmocka_unit_test_setup_teardown(test_prompts_of_score_heads, place_make, place_end),
        cmocka_unit_test_setup_teardown(test_names_of_the_hub_cache_are_read, place_make,
                                        place_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
