// SPDX-License-Identifier: Apache-2.0
// Malformed and hostile model folders: each is refused with a status and one sentence, without a
// crash or a leak (the sanitizer presets run this test as well). A good folder is written, one
// thing in it is broken, and model_plan_open must refuse it with the message of the case. At the
// end the good folder must still open.
#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "runtime/model/safetensors.h"
#include "tests/runtime/golden.h"
#include "tests/runtime/model_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct ground { // a good folder and its parts
    const struct device_api *api;
    struct device *device;
    json_t *golden;
    char folder[64];
    char *weights; // contents of model.safetensors
    size_t bytes, header;
    uint32_t refused;
};

static void ground_reset(struct ground *g)
{
    if (g->folder[0])
        folder_remove(g->folder);
    folder_make(g->folder);
    golden_folder_write(g->folder, g->golden, DTYPE_F32, 1);
}

static int setup(void **state)
{
    struct ground *g = heap_alloc_zeroed(1, sizeof *g);
    struct error err;
    struct device_options options = {.threads = 1, .exact = true};
    g->api = device_cpu();
    assert_int_equal(g->api->open(&g->device, &options, &err), STATUS_OK);
    assert_int_equal(
        json_file_parse(&g->golden, WEFT_SOURCE_DIR "/tests/golden/llama.json", 1 << 20, &err),
        STATUS_OK);
    ground_reset(g);
    struct arena *arena = arena_create(0, 0);
    struct text all;
    char path[128];
    snprintf(path, sizeof path, "%s/model.safetensors", g->folder);
    assert_int_equal(file_read(&all, arena, path, 1 << 24, &err), STATUS_OK);
    g->bytes = all.bytes;
    g->weights = heap_alloc(all.bytes);
    memcpy(g->weights, all.at, all.bytes);
    uint64_t header;
    memcpy(&header, g->weights, 8);
    g->header = header;
    arena_destroy(arena);
    *state = g;
    return 0;
}

static int teardown(void **state)
{
    struct ground *g = *state;
    printf("%u hostile folders refused\n", g->refused);
    folder_remove(g->folder);
    json_decref(g->golden);
    heap_free(g->weights);
    g->api->close(g->device);
    heap_free(g);
    return 0;
}

static void refuse_with(struct ground *g, const char *label, const char *words,
                        const struct model_options *options)
{
    struct error err = {.status = STATUS_OK};
    struct model_plan *plan = NULL;
    enum status status = model_plan_open(&plan, g->folder, g->api, g->device, options, &err);
    if (status == STATUS_OK)
        fail_msg("%s: was accepted", label);
    assert_int_equal(status, err.status);
    assert_null(plan);
    if (!strstr(err.text, words) || strchr(err.text, '\n'))
        fail_msg("%s: the sentence is \"%s\", not of \"%s\"", label, err.text, words);
    g->refused++;
}

static void refuse(struct ground *g, const char *label, const char *words)
{
    struct model_options options = rig_options();
    refuse_with(g, label, words, &options);
}

static void accept(struct ground *g)
{
    struct error err;
    struct model_plan *plan = NULL;
    struct model_options options = rig_options();
    enum status status = model_plan_open(&plan, g->folder, g->api, g->device, &options, &err);
    if (status != STATUS_OK)
        fail_msg("a good folder was refused: %s", err.text);
    model_plan_close(plan);
}

// Each patch is merged into config.json; a null removes the key.
static const struct {
    const char *patch, *words;
} config_patches[] = {
    {"{\"architectures\": [\"GPTNeoXForCausalLM\"]}",
     "the architecture GPTNeoXForCausalLM is not served"},
    {"{\"architectures\": []}", "\"architectures\" names nothing"},
    {"{\"architectures\": 5}", "\"architectures\" names nothing"},
    {"{\"architectures\": null}", "\"architectures\" names nothing"},
    {"{\"architectures\": [7]}", "\"architectures\" names nothing"},
    {"{\"hidden_size\": null}", "hidden_size is missing"},
    {"{\"hidden_size\": 0}", "hidden_size is 0, allowed is 8 to 65536"},
    {"{\"hidden_size\": -64}", "hidden_size is -64, allowed is 8 to 65536"},
    {"{\"hidden_size\": 1e300}", "hidden_size is 1e+300, allowed is 8 to 65536"},
    {"{\"hidden_size\": \"64\"}", "hidden_size is not a number"},
    {"{\"hidden_size\": 64.5}", "hidden_size is 64.5, not a whole number"},
    {"{\"hidden_size\": 128}",
     "the tensor model.embed_tokens.weight has shape [96, 64], config.json"},
    {"{\"num_hidden_layers\": 100000}", "num_hidden_layers is 100000, allowed is 1 to 1024"},
    {"{\"num_hidden_layers\": 3}",
     "the tensor model.layers.2.self_attn.q_proj.weight, which LlamaForCausalLM"},
    {"{\"num_attention_heads\": 0}", "num_attention_heads is 0, allowed is 1 to 1024"},
    {"{\"num_attention_heads\": 7}", "num_key_value_heads 2 does not divide num_attention_heads 7"},
    {"{\"num_key_value_heads\": 3}", "num_key_value_heads 3 does not divide num_attention_heads 4"},
    {"{\"num_key_value_heads\": 8}", "num_key_value_heads 8 does not divide num_attention_heads 4"},
    {"{\"head_dim\": 4}", "head_dim is 4, allowed is 8 to 512"},
    {"{\"head_dim\": 1000}", "head_dim is 1000, allowed is 8 to 512"},
    {"{\"head_dim\": 17}", "heads of 17 columns are not supported: 16 to 256 in steps of 8 are"},
    {"{\"head_dim\": 32}", "the tensor model.layers.0.self_attn.q_proj.weight has shape [64, 64],"},
    {"{\"vocab_size\": 1099511627776}", "vocab_size is 1.0995116e+12, allowed is 1 to 16777216"},
    {"{\"vocab_size\": 97}",
     "the tensor model.embed_tokens.weight has shape [96, 64], config.json"},
    {"{\"vocab_size\": 0}", "vocab_size is 0, allowed is 1 to 16777216"},
    {"{\"intermediate_size\": 100}",
     "the tensor model.layers.0.mlp.gate_proj.weight has shape [96, 64],"},
    {"{\"intermediate_size\": [96]}", "intermediate_size is not a number"},
    {"{\"hidden_act\": \"quick_gelu\"}",
     "hidden_act quick_gelu is not supported for LlamaForCausalLM"},
    {"{\"hidden_act\": 3}", "hidden_act (not a string) is not supported for LlamaForCausalLM"},
    {"{\"rope_scaling\": \"linear\"}", "rope_scaling is not an object"},
    {"{\"rope_scaling\": {\"type\": \"strange\", \"factor\": 2}}",
     "the rope type strange is not known"},
    {"{\"rope_scaling\": {\"type\": 4}}", "the rope type (not a string) is not known"},
    {"{\"rope_scaling\": {\"type\": \"linear\"}}", "factor is missing"},
    {"{\"rope_scaling\": {\"type\": \"linear\", \"factor\": -1}}",
     "factor is -1, allowed is 0.001 to 1000000"},
    {"{\"rope_scaling\": {\"type\": \"longrope\"}}",
     "short_factor of longrope is not a list of 8 numbers"},
    {"{\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1], \"long_factor\": [1]}}",
     "short_factor of longrope is not a list of 8 numbers"},
    {"{\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1,1,1,1,1,1,1,0],"
     " \"long_factor\": [1,1,1,1,1,1,1,1]}}",
     "short_factor of longrope holds something that is not a positive number"},
    {"{\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 2,"
     " \"high_freq_factor\": 2}}",
     "low_freq_factor and high_freq_factor of llama3 are equal"},
    {"{\"rope_theta\": 0}", "rope_theta is 0, allowed is 1.0001 to 1e+12"},
    {"{\"partial_rotary_factor\": 0.001}", "partial_rotary_factor is 0.001, allowed is 0.01 to 1"},
    {"{\"partial_rotary_factor\": 0.1}",
     "1 rotary columns of a head are not supported: an even number of at least"},
    {"{\"quantization_config\": {\"bits\": 4}}",
     "the checkpoint is quantized (quantization_config: 4 bits), a format that is not read; FP8, "
     "AWQ "
     "(gemm), GPTQ, AutoRound, compressed-tensors, ModelOpt and bitsandbytes are"},
    {"{\"max_position_embeddings\": 0}", "max_position_embeddings is 0, allowed is 1 to 16777216"},
    {"{\"max_position_embeddings\": 1e18}",
     "max_position_embeddings is 1e+18, allowed is 1 to 16777216"},
    {"{\"rms_norm_eps\": \"small\"}", "rms_norm_eps is not a number"},
    {"{\"rms_norm_eps\": -1}", "rms_norm_eps is -1, allowed is 0 to 1"},
    {"{\"eos_token_id\": 5000}", "eos_token_id is not a token of a vocabulary of 96"},
    {"{\"eos_token_id\": -2}", "eos_token_id is not a token of a vocabulary of 96"},
    {"{\"eos_token_id\": \"</s>\"}", "eos_token_id is not a token of a vocabulary of 96"},
    {"{\"eos_token_id\": [1, {}]}", "eos_token_id is not a token of a vocabulary of 96"},
    {"{\"eos_token_id\": "
     "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,"
     "29,30,31,32,33]}",
     "over 32 end-of-sequence ids"},
    {"{\"tie_word_embeddings\": \"yes\"}", "tie_word_embeddings is neither true nor false"},
    {"{\"attention_bias\": true}",
     "the tensor model.layers.0.self_attn.q_proj.bias, which LlamaForCausalLM"},
    {"{\"mlp_bias\": 3}", "mlp_bias is neither true nor false"},
    {"{\"architectures\": [\"MistralForCausalLM\"], \"sliding_window\": -1}",
     "sliding_window is -1, allowed is 1 to 16777216"},
    {"{\"architectures\": [\"MistralForCausalLM\"], \"sliding_window\": \"all\"}",
     "sliding_window is not a number"},
    {"{\"architectures\": [\"Qwen3ForCausalLM\"]}",
     "the tensor model.layers.0.self_attn.q_proj.weight has shape [64, 64],"},
    {"{\"architectures\": [\"BertModel\"]}",
     "the tensor bert.embeddings.word_embeddings.weight, which BertModel needs,"},
    {"{\"architectures\": [\"LlamaForSequenceClassification\"], \"id2label\": {\"0\":\"a\","
     " \"1\":\"b\"}}",
     "LlamaForSequenceClassification has 2 labels; a reranker has one,"},
    {"{\"architectures\": [\"RobertaModel\"], \"pad_token_id\": 64}",
     "max_position_embeddings 64 leaves no position above the padding id"},
    {"{\"architectures\": [\"BertModel\"], \"position_embedding_type\": \"relative_key\"}",
     "config.json: position_embedding_type is \"relative_key\": another form of positions is not "
     "served with BertModel; take another model"},
    {"{\"architectures\": [\"BertModel\"], \"hidden_act\": \"gelu\", \"is_decoder\": true}",
     "config.json: is_decoder is true: causal attention is not served with BertModel"},
    {"{\"architectures\": [\"Qwen3ForCausalLM\"], \"classifier_from_token\": [\"no\", \"yes\"]}",
     "the tensor model.layers.0.self_attn.q_proj.weight has shape [64, 64],"},
};

static void test_configs_are_refused(void **state)
{
    struct ground *g = *state;
    for (size_t i = 0; i < sizeof config_patches / sizeof config_patches[0]; i++) {
        json_t *config = json_deep_copy(json_object_get(g->golden, "config"));
        json_t *patch = json_loads(config_patches[i].patch, 0, NULL);
        assert_non_null(patch);
        json_object_update(config, patch);
        file_write_json(g->folder, "config.json", config);
        refuse(g, config_patches[i].patch, config_patches[i].words);
        json_decref(config);
        json_decref(patch);
    }
    ground_reset(g);
    accept(g);
}

static void test_files_are_refused(void **state)
{
    struct ground *g = *state;
    char *deep = heap_alloc(4001);
    memset(deep, '[', 4000);
    deep[4000] = '\0';
    static const char pooled[] =
        "[{\"type\":\"x.Transformer\",\"path\":\"\"},{\"type\":\"x.Pooling\",\"path\":\"p\"}]";
    const struct {
        const char *name, *text;
        const char *other_name, *other_text;
        const char *words;
    } cases[] = {
        {"config.json", "", NULL, NULL, "invalid JSON at byte 0: "},
        {"config.json", "{", NULL, NULL, "invalid JSON at byte 1: "},
        {"config.json", "[1, 2]", NULL, NULL, "config.json is not a JSON object"},
        {"config.json", "{\"architectures\": [\"Llama\xff\"]}", NULL, NULL,
         "invalid JSON at byte 25: "},
        {"config.json", "{\"hidden_size\": nan}", NULL, NULL, "invalid JSON at byte "},
        {"config.json", "{\"architectures\": [\"LlamaModel\"], \"vocab_size\": NaN}", NULL, NULL,
         "config.json: vocab_size is missing"},
        {"config.json", "{\"architectures\": [\"LlamaModel\"], \"vocab_size\": -Infinity}", NULL,
         NULL, "config.json: vocab_size is -1.7976931e+308, allowed is 1 to"},
        {"config.json", deep, NULL, NULL, "invalid JSON at byte 128: nested over 128 levels"},
        {"generation_config.json", "{\"eos_token_id\": }", NULL, NULL, "invalid JSON at byte 18: "},
        {"generation_config.json", "{\"eos_token_id\": [\"a\"]}", NULL, NULL,
         "eos_token_id is not a token of a vocabulary of 96"},
        {"modules.json",
         "[{\"type\":\"x.Transformer\",\"path\":\"\"},"
         "{\"type\":\"x.CNN\",\"path\":\"2_CNN\"}]",
         NULL, NULL, "the module CNN is not supported; Transformer, Pooling, Dense, LayerNorm,"},
        {"modules.json", "[{\"type\":\"x.Transformer\",\"path\":\"../../etc\"}]", NULL, NULL,
         "the path ../../etc leads out of the folder"},
        {"modules.json", "[{\"type\":\"x.Transformer\",\"path\":\"/etc\"}]", NULL, NULL,
         "the path /etc leads out of the folder"},
        {"modules.json", "[1, 2, 3]", NULL, NULL, "an entry lacks its type or its path"},
        {"modules.json", "\"modules\"", NULL, NULL,
         "modules.json holds neither an object nor a list"},
        {"modules.json", "[{\"type\":\"x.Transformer\",\"path\":\"\"}]", NULL, NULL,
         "modules.json has no Pooling module"},
        {"modules.json", pooled, NULL, NULL, "/p/config.json is missing: download the model again"},
        {"modules.json", pooled, "p/config.json",
         "{\"pooling_mode_cls_token\": true, \"pooling_mode_mean_tokens\": true}",
         "p/config.json names 2 pooling modes; exactly one is supported"},
        {"modules.json", pooled, "p/config.json", "{}",
         "p/config.json names 0 pooling modes; exactly one is supported"},
        {"modules.json", pooled, "p/config.json", "3",
         "p/config.json holds neither an object nor a list"},
        {"modules.json",
         "[{\"type\":\"x.Transformer\",\"path\":\"\"},"
         "{\"type\":\"x.LogitScore\",\"path\":\"s\"}]",
         "s/config.json", "{\"true_token_id\": 1}",
         "LogitScore over LlamaForCausalLM is not supported"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        file_write(g->folder, cases[i].name, cases[i].text, strlen(cases[i].text));
        if (cases[i].other_name)
            file_write(g->folder, cases[i].other_name, cases[i].other_text,
                       strlen(cases[i].other_text));
        refuse(g, cases[i].text, cases[i].words);
        ground_reset(g);
    }
    heap_free(deep);
    char path[128];
    snprintf(path, sizeof path, "%s/config.json", g->folder);
    unlink(path);
    refuse(g, "no config.json",
           "has no config.json: give a folder with config.json, *.safetensors and tokenizer.json");
    mkdir(path, 0700);
    refuse(g, "config.json is a folder", "config.json is not a regular file");
    ground_reset(g);
    accept(g);
}

static void weights_write(struct ground *g, const void *bytes, size_t count)
{
    file_write(g->folder, "model.safetensors", bytes, count);
}

// Writes the good data after another header.
static void header_write(struct ground *g, const char *header, uint64_t length)
{
    size_t text = strlen(header);
    size_t data = g->bytes - 8 - g->header;
    char *all = heap_alloc(8 + text + data);
    memcpy(all, &length, 8);
    memcpy(all + 8, header, text);
    memcpy(all + 8 + text, g->weights + 8 + g->header, data);
    weights_write(g, all, 8 + text + data);
    heap_free(all);
}

static void test_headers_are_refused(void **state)
{
    struct ground *g = *state;
    static const struct {
        const char *header, *words;
    } headers[] = {
        {"", "the header is not JSON: invalid JSON at byte 0: "},
        {"not json", "the header is not JSON: invalid JSON at byte 3: "},
        {"[]", "the header is not a JSON object"},
        {"{}", "the tensor model.embed_tokens.weight, which LlamaForCausalLM needs, is"},
        {"{\"a\": 5}", "the entry of tensor a is not an object"},
        {"{\"a\": {}}", "tensor a has the unknown dtype (none)"},
        {"{\"a\": {\"dtype\": \"F31\", \"shape\": [1], \"data_offsets\": [0, 4]}}",
         "tensor a has the unknown dtype F31"},
        {"{\"a\": {\"dtype\": 32, \"shape\": [1], \"data_offsets\": [0, 4]}}",
         "tensor a has the unknown dtype (none)"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": 1, \"data_offsets\": [0, 4]}}",
         "the shape of tensor a is not a list of at most 8 sizes"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [-1], \"data_offsets\": [0, 4]}}",
         "the shape of tensor a holds something that is not a"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1.5], \"data_offsets\": [0, 6]}}",
         "the shape of tensor a holds something that is not a"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [\"1\"], \"data_offsets\": [0, 4]}}",
         "the shape of tensor a holds something that is not a"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [4294967296, 4294967296],"
         " \"data_offsets\": [0, 0]}}",
         "the shape of tensor a overflows"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [4611686018427387904],"
         " \"data_offsets\": [0, 0]}}",
         "the shape of tensor a overflows"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1,1,1,1,1,1,1,1,1], \"data_offsets\": [0, 4]}}",
         "the shape of tensor a is not a list of at most 8 sizes"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0]}}",
         "data_offsets of tensor a are not two offsets"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4, 8]}}",
         "data_offsets of tensor a are not two offsets"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [4, 0]}}",
         "tensor a lies at bytes 4 to 0 of 296192; the file is"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 8]}}",
         "tensor a has 8 bytes, its shape and dtype need 4"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0.0, 4.0]}}",
         "data_offsets of tensor a are not two offsets"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [-4, 0]}}",
         "data_offsets of tensor a are not two offsets"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1],"
         " \"data_offsets\": [9223372036854775803, 9223372036854775807]}}",
         "tensor a lies at bytes 9223372036854775803 to 9223372036854775807 of"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [99999996, 100000000]}}",
         "tensor a lies at bytes 99999996 to 100000000 of"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 8]},"
         " \"b\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [4, 12]}}",
         "tensors a and b overlap"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 8]},"
         " \"b\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 8]}}",
         "tensors a and b overlap"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4]},"
         " \"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [4, 8]}}",
         "a tensor name occurs twice in the header"},
        {"{\"model.layers.0.input_layernorm.weight\": {\"dtype\": \"F32\", \"shape\": [1],"
         " \"data_offsets\": [0, 4]}}",
         "the tensor model.embed_tokens.weight, which LlamaForCausalLM needs, is"},
    };
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        header_write(g, headers[i].header, strlen(headers[i].header));
        refuse(g, headers[i].header, headers[i].words);
    }
    static const struct {
        uint64_t length;
        const char *words;
    } lengths[] = {
        {UINT64_MAX, "the header length is 18446744073709551615 bytes"},
        {INT64_MAX, "the header length is 9223372036854775807 bytes"},
        {1ull << 40, "the header length is 1099511627776 bytes"},
        {1000000, "the header length is 1000000 bytes, but the file has "},
        {3, "the header is not JSON: invalid JSON at byte 3"},
        {0, "the header is not JSON: invalid JSON at byte 0"},
    };
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        header_write(g, headers[4].header, lengths[i].length);
        refuse(g, "a wrong header length", lengths[i].words);
    }
    char *name = heap_alloc(2000);
    memset(name, 'n', 2000);
    char *header = heap_alloc(2200);
    snprintf(header, 2200,
             "{\"%.*s\": {\"dtype\": \"F32\", \"shape\": [1],"
             " \"data_offsets\": [0, 4]}}",
             1900, name);
    header_write(g, header, strlen(header));
    refuse(g, "a name of 1900 bytes", "a tensor name has over 512 bytes");
    heap_free(header);
    heap_free(name);
    ground_reset(g);
    accept(g);
}

// Mixtures of experts have over 65,536 tensors. Here all but those of the good file are unused.
static void test_many_tensors_are_accepted(void **state)
{
    struct ground *g = *state;
    enum { ENTRIES = 70022, ENTRY_BYTES = 96 };
    char *header = heap_alloc(g->header + ENTRIES * ENTRY_BYTES);
    size_t bytes = g->header;
    memcpy(header, g->weights + 8, bytes);
    while (header[bytes - 1] != '}')
        bytes--;
    bytes--;
    for (int i = 0; i < ENTRIES; i++)
        bytes += (size_t)snprintf(header + bytes, ENTRY_BYTES,
                                  ",\"%d.rotary_emb.inv_freq\":{\"dtype\":\"F32\",\"shape\":[0],"
                                  "\"data_offsets\":[0,0]}",
                                  i);
    memcpy(header + bytes, "}", 2);
    header_write(g, header, bytes + 1);
    accept(g);
    heap_free(header);
    ground_reset(g);
}

// Headers that would take seconds and gigabytes to parse as JSON.
static void test_long_headers_are_refused(void **state)
{
    struct ground *g = *state;
    enum { ENTRIES = TENSORS_MAX + 2, ENTRY_BYTES = 80, SIZES = TENSOR_VALUES_MAX };
    char *header = heap_alloc(ENTRIES * ENTRY_BYTES);
    size_t bytes = 0;
    for (int i = 0; i < ENTRIES; i++)
        bytes += (size_t)snprintf(header + bytes, ENTRY_BYTES,
                                  "%c\"t%d\":{\"dtype\":\"F32\",\"shape\":[0],"
                                  "\"data_offsets\":[0,0]}",
                                  i > 0 ? ',' : '{', i);
    header[bytes++] = '}';
    header_write(g, header, bytes);
    refuse(g, "524,290 tensors", "the header has 524290 entries and ");
    bytes = (size_t)snprintf(header, ENTRY_BYTES, "{\"t\":{\"dtype\":\"F32\",\"shape\":[0");
    for (int i = 0; i < SIZES; i++, bytes += 2)
        memcpy(header + bytes, ",1", 2);
    memcpy(header + bytes, "]}}", 3);
    header_write(g, header, bytes + 3);
    refuse(g, "a shape of 8 million sizes", "at most 524288 tensors and 8388608 values are read");
    heap_free(header);
    ground_reset(g);
    accept(g);
}

// Writes the good file with one piece of its header replaced by one of equal length.
static void header_edit(struct ground *g, const char *from, const char *to, const char *words)
{
    char *copy = heap_alloc(g->bytes + 1);
    memcpy(copy, g->weights, g->bytes);
    copy[g->bytes] = '\0';
    char saved = copy[8 + g->header];
    copy[8 + g->header] = '\0';
    char *at = strstr(copy + 8, from);
    assert_non_null(at);
    assert_int_equal(strlen(from), strlen(to));
    memcpy(at, to, strlen(to));
    copy[8 + g->header] = saved;
    weights_write(g, copy, g->bytes);
    heap_free(copy);
    refuse(g, to, words);
}

static void test_cut_files_are_refused(void **state)
{
    struct ground *g = *state;
    const struct {
        size_t bytes;
        const char *words;
    } cuts[] = {
        {0, "has 0 bytes, fewer than any file of its kind"},
        {1, "has 1 bytes, fewer than any file of its kind"},
        {7, "has 7 bytes, fewer than any file of its kind"},
        {8, "bytes, but the file has 8; it is cut or not a safetensors file"},
        {9, "bytes, but the file has 9; it is cut or not a safetensors file"},
        {8 + g->header - 1, "it is cut or not a safetensors file"},
        {8 + g->header, "lies at bytes 0 to 24576 of 0; the file is cut or damaged"},
        {g->bytes - 1, "tensor model.norm.weight lies at bytes "},
    };
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        weights_write(g, g->weights, cuts[i].bytes);
        refuse(g, "a cut file", cuts[i].words);
    }
    header_edit(g, "F32", "I32",
                "has the dtype I32; F32, BF16 and F16 are supported; download the folder "
                "again or take another checkpoint of the model");
    header_edit(
        g, "lm_head.weight", "lm_tail.weight",
        "lm_head.weight, which LlamaForCausalLM needs, is not in the checkpoint: download the "
        "model again, or take a folder of the architecture that config.json names");
    header_edit(g, "model.norm.weight", "model.form.weight",
                "model.norm.weight, which LlamaForCausalLM needs, is not in the checkpoint");
    header_edit(g, "[96,64]", "[64,96]",
                "lm_head.weight has shape [64, 96], config.json wants [96, 64]");
    ground_reset(g);
    char path[128];
    snprintf(path, sizeof path, "%s/model.safetensors", g->folder);
    unlink(path);
    refuse(g, "no weights", "has no model.safetensors, no pytorch_model.bin and no index of one");
    mkdir(path, 0700);
    refuse(g, "model.safetensors is a folder", "model.safetensors is not a regular file");
    ground_reset(g);
    accept(g);
}

static void test_indexes_are_refused(void **state)
{
    struct ground *g = *state;
    static const struct {
        const char *index, *words;
    } indexes[] = {
        {"{", "invalid JSON at byte 1: "},
        {"[]", "model.safetensors.index.json has no weight_map"},
        {"{}", "model.safetensors.index.json has no weight_map"},
        {"{\"weight_map\": {}}", "model.safetensors.index.json has no weight_map"},
        {"{\"weight_map\": []}", "model.safetensors.index.json has no weight_map"},
        {"{\"weight_map\": {\"a\": 5}}", "tensor a names no file of the folder"},
        {"{\"weight_map\": {\"a\": \"\"}}", "tensor a names no file of the folder"},
        {"{\"weight_map\": {\"a\": \"absent.safetensors\"}}",
         "model.safetensors.index.json names absent.safetensors, which the folder"},
        {"{\"weight_map\": {\"a\": \"../part.safetensors\"}}",
         "tensor a names no file of the folder"},
        {"{\"weight_map\": {\"a\": \"/etc/passwd\"}}", "tensor a names no file of the folder"},
        {"{\"weight_map\": {\"a\": \".\"}}", "tensor a names no file of the folder"},
        {"{\"weight_map\": {\"a\": \"part.safetensors\"}}", "tensor a is not in part.safetensors"},
        {"{\"weight_map\": {\"lm_head.weight\": \"config.json\"}}",
         "the header length is 8388350557284278907 bytes, but the file has 398;"},
    };
    char path[128];
    snprintf(path, sizeof path, "%s/model.safetensors", g->folder);
    unlink(path); // a single file would take precedence
    file_write(g->folder, "part.safetensors", g->weights, g->bytes);
    for (size_t i = 0; i < sizeof indexes / sizeof indexes[0]; i++) {
        file_write(g->folder, "model.safetensors.index.json", indexes[i].index,
                   strlen(indexes[i].index));
        refuse(g, indexes[i].index, indexes[i].words);
    }
    static const char twice[] = "{\"weight_map\": {\"lm_head.weight\": \"part.safetensors\","
                                " \"model.norm.weight\": \"copy.safetensors\"}}";
    file_write(g->folder, "model.safetensors.index.json", twice, strlen(twice));
    file_write(g->folder, "copy.safetensors", g->weights, g->bytes);
    refuse(g, "every tensor in two files",
           "tensor lm_head.weight is in both part.safetensors and copy.safetensors");
    ground_reset(g);
    accept(g);
}

// Opening a pipe without a writer would block forever; a dangling link is what an interrupted
// download leaves.
static void test_odd_files_are_refused(void **state)
{
    struct ground *g = *state;
    static const char *const names[] = {
        "config.json",  "generation_config.json",       "model.safetensors",
        "modules.json", "sentence_bert_config.json",    "config_sentence_transformers.json",
        "config.json",  "model.safetensors.index.json",
    };
    for (size_t i = 0; i < 2 * sizeof names / sizeof names[0]; i++) {
        char path[128];
        const char *name = names[i / 2];
        if (strstr(name, "index")) { // a single file would take precedence
            snprintf(path, sizeof path, "%s/model.safetensors", g->folder);
            unlink(path);
        }
        snprintf(path, sizeof path, "%s/%s", g->folder, name);
        unlink(path);
        assert_int_equal(i % 2 ? symlink("nowhere", path) : mkfifo(path, 0600), 0);
        alarm(20);
        char words[96];
        snprintf(words, sizeof words,
                 i % 2 ? "%s: No such file or directory" : "%s is not a regular file", name);
        refuse(g, name, words);
        alarm(0);
        ground_reset(g);
    }
    accept(g);
}

// The cut part within the last page of a file reads as zeros.
static void test_a_file_that_loses_its_last_bytes_is_refused(void **state)
{
    struct ground *g = *state;
    struct error err;
    struct stat about;
    struct model_plan *plan;
    struct model *model = NULL;
    struct model_options options = rig_options();
    char path[128];
    snprintf(path, sizeof path, "%s/model.safetensors", g->folder);
    assert_int_equal(model_plan_open(&plan, g->folder, g->api, g->device, &options, &err),
                     STATUS_OK);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(truncate(path, about.st_size - 1), 0);
    assert_int_equal(model_open(&model, plan, plan->kv_bytes_min, NULL, NULL, &err), STATUS_IO);
    assert_null(model);
    assert_non_null(strstr(err.text, "model.safetensors was truncated while it was loaded"));
    model_plan_close(plan);
    ground_reset(g);
}

// The file is complete when its header is read, and is cut before its tensors are read: the model
// is refused and the process goes on (runtime/source/mapping.h).
static void test_a_file_that_shrinks_is_refused(void **state)
{
    struct ground *g = *state;
    struct error err;
    struct model_plan *plan;
    struct model *model = NULL;
    struct model_options options = rig_options();
    char path[128];
    snprintf(path, sizeof path, "%s/model.safetensors", g->folder);
    assert_int_equal(model_plan_open(&plan, g->folder, g->api, g->device, &options, &err),
                     STATUS_OK);
    assert_int_equal(truncate(path, 4096), 0);
    assert_int_equal(model_open(&model, plan, plan->kv_bytes_min, NULL, NULL, &err), STATUS_IO);
    assert_null(model);
    assert_non_null(strstr(err.text, "model.safetensors was truncated while it was loaded"));
    model_plan_close(plan);
    ground_reset(g);
    accept(g);
}

// However many sequences decode, a quarter of each step is left for prompts.
static void test_a_step_without_room_for_prompts_is_refused(void **state)
{
    struct ground *g = *state;
    struct error err;
    struct model_plan *plan;
    static const struct {
        uint32_t sequences, tokens, most; // most: expected tokens_max; 0: refused
    } cases[] = {{0, 341, 0},     {0, 342, 342},   {2048, 2730, 0}, {2048, 2731, 2731},
                 {3072, 0, 4096}, {4096, 0, 5462}, {1, 1, 0},       {1, 2, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model_options options = rig_options();
        options.max_num_seqs = cases[i].sequences;
        options.max_num_batched_tokens = cases[i].tokens;
        enum status status = model_plan_open(&plan, g->folder, g->api, g->device, &options, &err);
        assert_int_equal(status, cases[i].most == 0 ? STATUS_INVALID : STATUS_OK);
        if (status == STATUS_OK) {
            assert_int_equal(plan->facts.limits.tokens_max, cases[i].most);
            model_plan_close(plan);
            continue;
        }
        assert_non_null(strstr(err.text, "max-num-batched-tokens is "));
        assert_non_null(strstr(err.text, "max-num-seqs "));
        assert_non_null(strstr(err.text, "or lower the second"));
    }
}

static void test_options_are_refused(void **state)
{
    struct ground *g = *state;
    struct model_options options = rig_options();
    options.max_model_len = 65;
    refuse_with(g, "longer than the model",
                "--max-model-len 65 is more than the 64 tokens that the model allows", &options);
    options = rig_options();
    options.dtype = 99;
    refuse_with(g, "an unknown dtype", "dtype 99 is not known", &options);
    options = rig_options();
    options.kv_dtype = DTYPE_KV_COUNT;
    refuse_with(g, "an unknown KV cache", "the KV cache can be float32, bfloat16, float16, int8",
                &options);
    options = rig_options();
    options.block_size = 17;
    refuse_with(g, "blocks of 17", "block-size is 17; 16, 32 and 64 are possible", &options);
    options = rig_options();
    options.max_num_seqs = 1u << 30;
    refuse_with(g, "a billion sequences", "max-num-seqs is 1073741824; at most 65536 are possible",
                &options);
    options = rig_options();
    options.max_num_batched_tokens = 1u << 30;
    refuse_with(g, "a billion tokens",
                "max-num-batched-tokens is 1073741824; at most 1048576 are possible", &options);
}

static void test_an_unknown_architecture_names_the_known(void **state)
{
    struct ground *g = *state;
    struct error err;
    struct model_plan *plan;
    struct model_options options = rig_options();
    json_t *config = json_deep_copy(json_object_get(g->golden, "config"));
    json_object_set_new(config, "architectures", json_pack("[s]", "PhiForCausalLM"));
    file_write_json(g->folder, "config.json", config);
    json_decref(config);
    assert_int_equal(model_plan_open(&plan, g->folder, g->api, g->device, &options, &err),
                     STATUS_UNSUPPORTED);
    assert_non_null(strstr(err.text, "PhiForCausalLM"));
    assert_non_null(strstr(err.text, "served are those of Bert, Camembert, Cohere2, "));
    assert_non_null(strstr(err.text, ", XLMRoberta"));
    ground_reset(g);
}

static void test_too_little_kv_names_a_length(void **state)
{
    struct ground *g = *state;
    struct error err;
    struct model_plan *plan;
    struct model *model = NULL;
    struct model_options options = rig_options();
    assert_int_equal(model_plan_open(&plan, g->folder, g->api, g->device, &options, &err),
                     STATUS_OK);
    uint64_t two = plan->facts.block_bytes * 2;
    assert_int_equal(model_open(&model, plan, two, NULL, NULL, &err), STATUS_TOO_LARGE);
    assert_null(model);
    assert_non_null(strstr(err.text, "--max-model-len 32 would fit"));
    assert_int_equal(model_open(&model, plan, 1, NULL, NULL, &err), STATUS_TOO_LARGE);
    model_plan_close(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_configs_are_refused),
        cmocka_unit_test(test_files_are_refused),
        cmocka_unit_test(test_headers_are_refused),
        cmocka_unit_test(test_many_tensors_are_accepted),
        cmocka_unit_test(test_long_headers_are_refused),
        cmocka_unit_test(test_cut_files_are_refused),
        cmocka_unit_test(test_indexes_are_refused),
        cmocka_unit_test(test_odd_files_are_refused),
        cmocka_unit_test(test_a_file_that_loses_its_last_bytes_is_refused),
        cmocka_unit_test(test_a_file_that_shrinks_is_refused),
        cmocka_unit_test(test_a_step_without_room_for_prompts_is_refused),
        cmocka_unit_test(test_options_are_refused),
        cmocka_unit_test(test_an_unknown_architecture_names_the_known),
        cmocka_unit_test(test_too_little_kv_names_a_length),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
