// Malformed and hostile model folders: every one is refused with a status and one sentence, nothing
// crashes, nothing leaks (the sanitizer presets run this too). A good folder is written, one thing
// in it is broken, model_plan_open must refuse; at the end the good folder must still open.
#include "runtime/base/arena.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
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
    char *weights; // of model.safetensors
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
    struct ground *g = heap_take_zeroed(1, sizeof *g);
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
    g->weights = heap_take(all.bytes);
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
    heap_give(g->weights);
    g->api->close(g->device);
    heap_give(g);
    return 0;
}

static void refuse_with(struct ground *g, const char *label, const struct model_options *options)
{
    struct error err = {.status = STATUS_OK};
    struct model_plan *plan = NULL;
    enum status status = model_plan_open(&plan, g->folder, g->api, g->device, options, &err);
    if (status == STATUS_OK)
        fail_msg("%s: was accepted", label);
    assert_int_equal(status, err.status);
    assert_null(plan);
    if (strlen(err.text) < 20 || strchr(err.text, '\n') != NULL)
        fail_msg("%s: no sentence: %s", label, err.text);
    g->refused++;
}

static void refuse(struct ground *g, const char *label)
{
    struct model_options options = rig_options();
    refuse_with(g, label, &options);
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
static const char *const config_patches[] = {
    "{\"architectures\": [\"GPTNeoXForCausalLM\"]}",
    "{\"architectures\": []}",
    "{\"architectures\": 5}",
    "{\"architectures\": null}",
    "{\"architectures\": [7]}",
    "{\"hidden_size\": null}",
    "{\"hidden_size\": 0}",
    "{\"hidden_size\": -64}",
    "{\"hidden_size\": 1e300}",
    "{\"hidden_size\": \"64\"}",
    "{\"hidden_size\": 64.5}",
    "{\"hidden_size\": 128}",
    "{\"num_hidden_layers\": 100000}",
    "{\"num_hidden_layers\": 3}",
    "{\"num_attention_heads\": 0}",
    "{\"num_attention_heads\": 7}",
    "{\"num_key_value_heads\": 3}",
    "{\"num_key_value_heads\": 8}",
    "{\"head_dim\": 4}",
    "{\"head_dim\": 1000}",
    "{\"head_dim\": 17}",
    "{\"head_dim\": 32}",
    "{\"vocab_size\": 1099511627776}",
    "{\"vocab_size\": 97}",
    "{\"vocab_size\": 0}",
    "{\"intermediate_size\": 100}",
    "{\"intermediate_size\": [96]}",
    "{\"hidden_act\": \"quick_gelu\"}",
    "{\"hidden_act\": 3}",
    "{\"rope_scaling\": \"linear\"}",
    "{\"rope_scaling\": {\"type\": \"strange\", \"factor\": 2}}",
    "{\"rope_scaling\": {\"type\": 4}}",
    "{\"rope_scaling\": {\"type\": \"linear\"}}",
    "{\"rope_scaling\": {\"type\": \"linear\", \"factor\": -1}}",
    "{\"rope_scaling\": {\"type\": \"longrope\"}}",
    "{\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1], \"long_factor\": [1]}}",
    "{\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1,1,1,1,1,1,1,0],"
    " \"long_factor\": [1,1,1,1,1,1,1,1]}}",
    "{\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 2,"
    " \"high_freq_factor\": 2}}",
    "{\"rope_theta\": 0}",
    "{\"partial_rotary_factor\": 0.001}",
    "{\"partial_rotary_factor\": 0.1}",
    "{\"quantization_config\": {\"bits\": 4}}",
    "{\"max_position_embeddings\": 0}",
    "{\"max_position_embeddings\": 1e18}",
    "{\"rms_norm_eps\": \"small\"}",
    "{\"rms_norm_eps\": -1}",
    "{\"eos_token_id\": 5000}",
    "{\"eos_token_id\": -2}",
    "{\"eos_token_id\": \"</s>\"}",
    "{\"eos_token_id\": [1, {}]}",
    "{\"eos_token_id\": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}",
    "{\"tie_word_embeddings\": \"yes\"}",
    "{\"attention_bias\": true}",
    "{\"mlp_bias\": 3}",
    "{\"architectures\": [\"MistralForCausalLM\"], \"sliding_window\": -1}",
    "{\"architectures\": [\"MistralForCausalLM\"], \"sliding_window\": \"all\"}",
    "{\"architectures\": [\"Qwen3ForCausalLM\"]}",
    "{\"architectures\": [\"BertModel\"]}",
    "{\"architectures\": [\"LlamaForSequenceClassification\"], \"id2label\": {\"0\":\"a\","
    " \"1\":\"b\"}}",
    "{\"architectures\": [\"RobertaModel\"], \"pad_token_id\": 64}",
    "{\"architectures\": [\"BertModel\"], \"position_embedding_type\": \"relative_key\"}",
    "{\"architectures\": [\"BertModel\"], \"hidden_act\": \"gelu\", \"is_decoder\": true}",
    "{\"architectures\": [\"Qwen3ForCausalLM\"], \"classifier_from_token\": [\"no\", \"yes\"]}",
};

static void configs_are_refused(void **state)
{
    struct ground *g = *state;
    for (size_t i = 0; i < sizeof config_patches / sizeof config_patches[0]; i++) {
        json_t *config = json_deep_copy(json_object_get(g->golden, "config"));
        json_t *patch = json_loads(config_patches[i], 0, NULL);
        assert_non_null(patch);
        json_object_update(config, patch);
        file_write_json(g->folder, "config.json", config);
        refuse(g, config_patches[i]);
        json_decref(config);
        json_decref(patch);
    }
    ground_reset(g);
    accept(g);
}

static void files_are_refused(void **state)
{
    struct ground *g = *state;
    char *deep = heap_take(4001);
    memset(deep, '[', 4000);
    deep[4000] = '\0';
    static const char pooled[] =
        "[{\"type\":\"x.Transformer\",\"path\":\"\"},{\"type\":\"x.Pooling\",\"path\":\"p\"}]";
    const struct {
        const char *name, *text;
        const char *other_name, *other_text;
    } cases[] = {
        {"config.json", "", NULL, NULL},
        {"config.json", "{", NULL, NULL},
        {"config.json", "[1, 2]", NULL, NULL},
        {"config.json", "{\"architectures\": [\"Llama\xff\"]}", NULL, NULL},
        {"config.json", "{\"hidden_size\": NaN}", NULL, NULL},
        {"config.json", deep, NULL, NULL},
        {"generation_config.json", "{\"eos_token_id\": }", NULL, NULL},
        {"generation_config.json", "{\"eos_token_id\": [\"a\"]}", NULL, NULL},
        {"modules.json",
         "[{\"type\":\"x.Transformer\",\"path\":\"\"},"
         "{\"type\":\"x.Dense\",\"path\":\"2_Dense\"}]",
         NULL, NULL},
        {"modules.json", "[{\"type\":\"x.Transformer\",\"path\":\"../../etc\"}]", NULL, NULL},
        {"modules.json", "[{\"type\":\"x.Transformer\",\"path\":\"/etc\"}]", NULL, NULL},
        {"modules.json", "[1, 2, 3]", NULL, NULL},
        {"modules.json", "\"modules\"", NULL, NULL},
        {"modules.json", "[{\"type\":\"x.Transformer\",\"path\":\"\"}]", NULL, NULL},
        {"modules.json", pooled, NULL, NULL},
        {"modules.json", pooled, "p/config.json", "{\"pooling_mode_max_tokens\": true}"},
        {"modules.json", pooled, "p/config.json",
         "{\"pooling_mode_cls_token\": true, \"pooling_mode_mean_tokens\": true}"},
        {"modules.json", pooled, "p/config.json", "{}"},
        {"modules.json", pooled, "p/config.json", "3"},
        {"modules.json",
         "[{\"type\":\"x.Transformer\",\"path\":\"\"},"
         "{\"type\":\"x.LogitScore\",\"path\":\"s\"}]",
         "s/config.json", "{\"true_token_id\": 1}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        file_write(g->folder, cases[i].name, cases[i].text, strlen(cases[i].text));
        if (cases[i].other_name)
            file_write(g->folder, cases[i].other_name, cases[i].other_text,
                       strlen(cases[i].other_text));
        refuse(g, cases[i].text);
        ground_reset(g);
    }
    heap_give(deep);
    char path[128];
    snprintf(path, sizeof path, "%s/config.json", g->folder);
    unlink(path);
    refuse(g, "no config.json");
    mkdir(path, 0700);
    refuse(g, "config.json is a folder");
    ground_reset(g);
    accept(g);
}

static void weights_write(struct ground *g, const void *bytes, size_t count)
{
    file_write(g->folder, "model.safetensors", bytes, count);
}

// The good data behind another header.
static void header_write(struct ground *g, const char *header, uint64_t length)
{
    size_t text = strlen(header);
    size_t data = g->bytes - 8 - g->header;
    char *all = heap_take(8 + text + data);
    memcpy(all, &length, 8);
    memcpy(all + 8, header, text);
    memcpy(all + 8 + text, g->weights + 8 + g->header, data);
    weights_write(g, all, 8 + text + data);
    heap_give(all);
}

static void headers_are_refused(void **state)
{
    struct ground *g = *state;
    static const char *const headers[] = {
        "",
        "not json",
        "[]",
        "{}",
        "{\"a\": 5}",
        "{\"a\": {}}",
        "{\"a\": {\"dtype\": \"F31\", \"shape\": [1], \"data_offsets\": [0, 4]}}",
        "{\"a\": {\"dtype\": 32, \"shape\": [1], \"data_offsets\": [0, 4]}}",
        "{\"a\": {\"dtype\": \"F32\", \"shape\": 1, \"data_offsets\": [0, 4]}}",
        "{\"a\": {\"dtype\": \"F32\", \"shape\": [-1], \"data_offsets\": [0, 4]}}",
        "{\"a\": {\"dtype\": \"F32\", \"shape\": [1.5], \"data_offsets\": [0, 6]}}",
        "{\"a\": {\"dtype\": \"F32\", \"shape\": [\"1\"], \"data_offsets\": [0, 4]}}",
        "{\"a\": {\"dtype\": \"F32\", \"shape\": [4294967296, 4294967296],"
        " \"data_offsets\": [0, 0]}}",
        "{\"a\": {\"dtype\": \"F32\", \"shape\": [4611686018427387904],"
        " \"data_offsets\": [0, 0]}}",
        "{\"a\": {\"dtype\": \"F32\", \"shape\": [1,1,1,1,1,1,1,1,1], \"data_offsets\": [0, 4]}}",
        "{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0]}}",
        "{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4, 8]}}",
        "{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [4, 0]}}",
        "{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 8]}}",
        "{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0.0, 4.0]}}",
        "{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [-4, 0]}}",
        "{\"a\": {\"dtype\": \"F32\", \"shape\": [1],"
        " \"data_offsets\": [9223372036854775804, 9223372036854775808]}}",
        "{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [99999996, 100000000]}}",
        "{\"a\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 8]},"
        " \"b\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [4, 12]}}",
        "{\"a\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 8]},"
        " \"b\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 8]}}",
        "{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4]},"
        " \"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [4, 8]}}",
        "{\"model.layers.0.input_layernorm.weight\": {\"dtype\": \"F32\", \"shape\": [1],"
        " \"data_offsets\": [0, 4]}}",
    };
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        header_write(g, headers[i], strlen(headers[i]));
        refuse(g, headers[i]);
    }
    static const uint64_t lengths[] = {UINT64_MAX, INT64_MAX, 1ull << 40, 1000000, 3, 0};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        header_write(g, headers[4], lengths[i]);
        refuse(g, "a wrong header length");
    }
    char *name = heap_take(2000);
    memset(name, 'n', 2000);
    char *header = heap_take(2200);
    snprintf(header, 2200,
             "{\"%.*s\": {\"dtype\": \"F32\", \"shape\": [1],"
             " \"data_offsets\": [0, 4]}}",
             1900, name);
    header_write(g, header, strlen(header));
    refuse(g, "a name of 1900 bytes");
    heap_give(header);
    heap_give(name);
    ground_reset(g);
    accept(g);
}

// The good file with one piece of its header replaced by one of equal length.
static void header_edit(struct ground *g, const char *from, const char *to)
{
    char *copy = heap_take(g->bytes + 1);
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
    heap_give(copy);
    refuse(g, to);
}

static void cut_files_are_refused(void **state)
{
    struct ground *g = *state;
    const size_t cuts[] = {0, 1, 7, 8, 9, 8 + g->header - 1, 8 + g->header, g->bytes - 1};
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        weights_write(g, g->weights, cuts[i]);
        refuse(g, "a cut file");
    }
    header_edit(g, "F32", "I32");
    header_edit(g, "lm_head.weight", "lm_tail.weight");
    header_edit(g, "model.norm.weight", "model.form.weight");
    header_edit(g, "[96,64]", "[64,96]");
    ground_reset(g);
    char path[128];
    snprintf(path, sizeof path, "%s/model.safetensors", g->folder);
    unlink(path);
    refuse(g, "no weights");
    mkdir(path, 0700);
    refuse(g, "model.safetensors is a folder");
    ground_reset(g);
    accept(g);
}

static void indexes_are_refused(void **state)
{
    struct ground *g = *state;
    static const char *const indexes[] = {
        "{",
        "[]",
        "{}",
        "{\"weight_map\": {}}",
        "{\"weight_map\": []}",
        "{\"weight_map\": {\"a\": 5}}",
        "{\"weight_map\": {\"a\": \"\"}}",
        "{\"weight_map\": {\"a\": \"absent.safetensors\"}}",
        "{\"weight_map\": {\"a\": \"../part.safetensors\"}}",
        "{\"weight_map\": {\"a\": \"/etc/passwd\"}}",
        "{\"weight_map\": {\"a\": \".\"}}",
        "{\"weight_map\": {\"a\": \"part.safetensors\"}}",
        "{\"weight_map\": {\"lm_head.weight\": \"config.json\"}}",
    };
    char path[128];
    snprintf(path, sizeof path, "%s/model.safetensors", g->folder);
    unlink(path); // a whole file would be taken first
    file_write(g->folder, "part.safetensors", g->weights, g->bytes);
    for (size_t i = 0; i < sizeof indexes / sizeof indexes[0]; i++) {
        file_write(g->folder, "model.safetensors.index.json", indexes[i], strlen(indexes[i]));
        refuse(g, indexes[i]);
    }
    static const char twice[] = "{\"weight_map\": {\"lm_head.weight\": \"part.safetensors\","
                                " \"model.norm.weight\": \"copy.safetensors\"}}";
    file_write(g->folder, "model.safetensors.index.json", twice, strlen(twice));
    file_write(g->folder, "copy.safetensors", g->weights, g->bytes);
    refuse(g, "every tensor in two files");
    ground_reset(g);
    accept(g);
}

// A pipe without a writer would make an open wait for ever, a link to nothing is what an
// interrupted download leaves.
static void odd_files_are_refused(void **state)
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
        if (strstr(name, "index")) { // a whole file would be taken first
            snprintf(path, sizeof path, "%s/model.safetensors", g->folder);
            unlink(path);
        }
        snprintf(path, sizeof path, "%s/%s", g->folder, name);
        unlink(path);
        assert_int_equal(i % 2 ? symlink("nowhere", path) : mkfifo(path, 0600), 0);
        alarm(20);
        refuse(g, name);
        alarm(0);
        ground_reset(g);
    }
    accept(g);
}

// The file was whole when its header was read, and is cut before its tensors are.
static void a_file_that_shrinks_is_refused(void **state)
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
    uint64_t kv = plan->kv_bytes_min;
    assert_int_equal(model_open(&model, plan, kv, NULL, NULL, &err), STATUS_IO);
    assert_null(model);
    assert_non_null(strstr(err.text, "was cut while it was loaded"));
    model_plan_close(plan);
    ground_reset(g);
}

// However many decode, a quarter of each step is left for prompts.
static void a_step_without_room_for_prompts_is_refused(void **state)
{
    struct ground *g = *state;
    struct error err;
    struct model_plan *plan;
    static const struct {
        uint32_t sequences, tokens, most; // most 0: refused
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

static void options_are_refused(void **state)
{
    struct ground *g = *state;
    struct model_options options = rig_options();
    options.max_model_len = 65;
    refuse_with(g, "longer than the model", &options);
    options = rig_options();
    options.dtype = 99;
    refuse_with(g, "an unknown dtype", &options);
    options = rig_options();
    options.kv_dtype = DTYPE_I8;
    refuse_with(g, "an int8 KV cache", &options);
    options = rig_options();
    options.block_size = 17;
    refuse_with(g, "blocks of 17", &options);
    options = rig_options();
    options.max_num_seqs = 1u << 30;
    refuse_with(g, "a billion sequences", &options);
    options = rig_options();
    options.max_num_batched_tokens = 1u << 30;
    refuse_with(g, "a billion tokens", &options);
}

static void an_unknown_architecture_names_the_known(void **state)
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
    assert_non_null(strstr(err.text, "BertForSequenceClassification"));
    assert_non_null(strstr(err.text, "XLMRobertaModel"));
    ground_reset(g);
}

static void too_little_kv_names_a_length(void **state)
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
        cmocka_unit_test(configs_are_refused),
        cmocka_unit_test(files_are_refused),
        cmocka_unit_test(headers_are_refused),
        cmocka_unit_test(cut_files_are_refused),
        cmocka_unit_test(indexes_are_refused),
        cmocka_unit_test(odd_files_are_refused),
        cmocka_unit_test(a_file_that_shrinks_is_refused),
        cmocka_unit_test(a_step_without_room_for_prompts_is_refused),
        cmocka_unit_test(options_are_refused),
        cmocka_unit_test(an_unknown_architecture_names_the_known),
        cmocka_unit_test(too_little_kv_names_a_length),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
