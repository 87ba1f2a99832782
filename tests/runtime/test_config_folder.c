// SPDX-License-Identifier: Apache-2.0
// What the other files of a model folder add to config.json: ranges and defaults of their numbers,
// the marks of yes/no rerankers, modules of sentence-transformers.
#include "base/json.h"
#include "base/log.h"
#include "runtime/model/config.h"
#include "tests/runtime/config_rig.h"
#include "tests/runtime/golden.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct model_config config; // 20 KB: too large for the stack
static struct error err;
static char folder[64];

static int folder_begin(void **state)
{
    (void)state;
    folder_make(folder);
    return 0;
}

static int folder_end(void **state)
{
    (void)state;
    folder_remove(folder);
    return 0;
}

static void put(const char *name, const char *text)
{
    file_write(folder, name, text, strlen(text));
}

static void put_config(const char *name, const char *architecture, const char *patch)
{
    json_t *json = config_small(architecture);
    config_patch(json, patch);
    file_write_json(folder, name, json);
    json_decref(json);
}

static void read_ok(void)
{
    if (model_config_read(&config, folder, &err) != STATUS_OK)
        fail_msg("%s", err.text);
}

static void read_refused(enum status status, const char *words)
{
    enum status got = model_config_read(&config, folder, &err);
    if (got != status || !strstr(err.text, words))
        fail_msg("%s, %s, not %s", status_name(got), err.text, words);
}

static void test_sampling_defaults_have_ranges(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        struct model_defaults want;
    } cases[] = {
        {"{\"temperature\":0,\"top_p\":0,\"top_k\":0,\"min_p\":0,\"repetition_penalty\":0.001,"
         "\"max_new_tokens\":1}",
         {0, 0, 0, 0, 0.001, 1}},
        {"{\"temperature\":2,\"top_p\":1,\"top_k\":16777216,\"min_p\":1,\"repetition_penalty\":2,"
         "\"max_new_tokens\":4294967295}",
         {2, 1, 16777216, 1, 2, 4294967295}},
        {"{\"temperature\":2.01,\"top_p\":1.01,\"top_k\":16777217,\"min_p\":1.01,"
         "\"repetition_penalty\":2.01,\"max_new_tokens\":4294967296}",
         {NAN, NAN, NAN, NAN, NAN, NAN}},
        {"{\"temperature\":-0.5,\"top_p\":-0.01,\"top_k\":-2,\"min_p\":-0.01,"
         "\"repetition_penalty\":0,\"max_new_tokens\":0}",
         {NAN, NAN, NAN, NAN, NAN, NAN}},
        {"{\"temperature\":\"1\",\"top_p\":null,\"top_k\":[],\"min_p\":{},"
         "\"repetition_penalty\":true,\"max_new_tokens\":\"9\"}",
         {NAN, NAN, NAN, NAN, NAN, NAN}},
        {"{\"top_k\":1.5,\"max_new_tokens\":1.5}", {NAN, NAN, NAN, NAN, NAN, NAN}},
        {"{\"top_p\":0.5}", {NAN, 0.5, NAN, NAN, NAN, NAN}},
    };
    put_config("config.json", "LlamaForCausalLM", "{}");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put("generation_config.json", cases[i].text);
        read_ok();
        const double *got = (const double *)&config.defaults;
        const double *want = (const double *)&cases[i].want;
        for (size_t k = 0; k < sizeof(struct model_defaults) / sizeof(double); k++)
            if (isnan(want[k]) ? !isnan(got[k]) : got[k] != want[k])
                fail_msg("case %zu, default %zu: %g, not %g", i, k, got[k], want[k]);
    }
}

static void test_end_ids_have_a_range(void **state)
{
    (void)state;
    char list[256] = "{\"eos_token_id\":[0";
    put_config("config.json", "LlamaForCausalLM", "{\"eos_token_id\":999}");
    read_ok();
    assert_int_equal(config.end_ids[0], 999);
    put_config("config.json", "LlamaForCausalLM", "{\"eos_token_id\":null}");
    read_ok();
    assert_int_equal(config.end_count, 0);
    put_config("config.json", "LlamaForCausalLM", "{\"eos_token_id\":1000}");
    read_refused(STATUS_INVALID,
                 "config.json: eos_token_id is not a token of a vocabulary of 1000");
    put("generation_config.json", "{\"eos_token_id\":1000}");
    read_refused(STATUS_INVALID, "generation_config.json: eos_token_id is not a token");
    put("generation_config.json", "{\"eos_token_id\":2.0}");
    read_refused(STATUS_INVALID, "eos_token_id is not a token");
    // an empty list: those of config.json apply
    put("generation_config.json", "{\"eos_token_id\":[]}");
    read_refused(STATUS_INVALID,
                 "config.json: eos_token_id is not a token of a vocabulary of 1000");
    for (int i = 1; i < MODEL_END_IDS_MAX; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), ",%d", i);
    strcat(list, "]}");
    put("generation_config.json", list);
    read_ok();
    assert_int_equal(config.end_count, MODEL_END_IDS_MAX);
    assert_int_equal(config.end_ids[MODEL_END_IDS_MAX - 1], MODEL_END_IDS_MAX - 1);
    strcpy(strrchr(list, ']'), ",32]}");
    put("generation_config.json", list);
    read_refused(STATUS_TOO_LARGE, "generation_config.json: over 32 end-of-sequence ids");
}

static void test_lengths_of_sentence_files(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t length;
        bool said;
    } cases[] = {{"{\"max_seq_length\":1}", 1, true},
                 {"{\"max_seq_length\":0}", 4096, false},
                 {"{\"max_seq_length\":4095}", 4095, true},
                 {"{\"max_seq_length\":4096}", 4096, true},
                 {"{\"max_seq_length\":5000}", 4096, true},
                 {"{\"max_seq_length\":null}", 4096, false},
                 {"{}", 4096, false}};
    static const char *const names[] = {"sentence_xlm-roberta_config.json",
                                        "sentence_roberta_config.json",
                                        "sentence_bert_config.json"};
    put_config("config.json", "BertModel", "{}");
    read_ok();
    assert_false(config.length_given);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put(names[0], cases[i].text);
        read_ok();
        assert_int_equal(config.length_default, cases[i].length);
        assert_int_equal(config.length_given, cases[i].said);
        assert_int_equal(config.length_max, 4096);
    }
    for (uint32_t i = 1; i < 3; i++) { // the first name that exists applies
        char text[64];
        snprintf(text, sizeof text, "{\"max_seq_length\":%u}", 100 + i);
        put(names[i], text);
        read_ok();
        assert_int_equal(config.length_default, 100 + i);
    }
    put_config("config.json", "LlamaForCausalLM", "{}");
    read_ok();
    assert_int_equal(config.length_default, 4096); // a generator's length is not cut
}

static const char yes_no[] =
    "[{\"type\":\"Transformer\",\"path\":\"\"},"
    "{\"type\":\"sentence_transformers.cross_encoder.modules.LogitScore\",\"path\":\"1_Score\"}]";

static void test_yes_no_ids_of_the_folder(void **state)
{
    (void)state;
    put_config("config.json", "Qwen3ForCausalLM", "{}");
    put("modules.json", yes_no);
    put("1_Score/config.json", "{\"true_token_id\":9693,\"false_token_id\":2152}");
    read_ok();
    assert_int_equal(config.kind, MODEL_RERANKER);
    assert_int_equal(config.rerank, RERANK_YES_NO);
    assert_int_equal(config.yes_id, 9693);
    assert_int_equal(config.no_id, 2152);
    put("1_Score/config.json", "{\"true_token_id\":0,\"false_token_id\":16777216}");
    read_ok();
    assert_int_equal(config.no_id, 16777216);
    put("1_Score/config.json", "{\"true_token_id\":-1,\"false_token_id\":2}");
    read_refused(STATUS_INVALID, "1_Score: config.json: true_token_id is -1, allowed is 0 to ");
    put("1_Score/config.json", "{\"true_token_id\":1,\"false_token_id\":16777217}");
    read_refused(STATUS_INVALID, "1_Score: config.json: false_token_id is 16777217, allowed");
    put("1_Score/config.json", "{\"true_token_id\":16777217,\"false_token_id\":1}");
    read_refused(STATUS_INVALID, "1_Score: config.json: true_token_id is 16777217, allowed");
    put("1_Score/config.json", "{\"true_token_id\":1}");
    read_ok();
    assert_true(config.yes_id == 1 && config.no_id == -1 && config.lone_answer);
    put("1_Score/config.json", "{\"false_token_id\":1}");
    read_refused(STATUS_INVALID, "1_Score: config.json: true_token_id is missing");
    put("modules.json", "[{\"type\":\"Transformer\",\"path\":\"\"},{\"type\":\"LogitScore\","
                        "\"path\":\"absent\"}]");
    read_refused(STATUS_NOT_FOUND, "absent/config.json is missing: download the model again");
    put_config("config.json", "LlamaForCausalLM", "{}");
    put("modules.json", yes_no);
    read_refused(STATUS_UNSUPPORTED, "LogitScore over LlamaForCausalLM is not supported");
}

static void test_marks_of_yes_no_rerankers(void **state)
{
    (void)state;
    put_config("config.json", "Qwen3ForCausalLM", "{\"classifier_from_token\":[\"no\",\"yes\"]}");
    read_ok();
    assert_int_equal(config.kind, MODEL_RERANKER);
    put_config("config.json", "Qwen3ForCausalLM",
               "{\"classifier_from_token\":true,\"is_original_qwen3_reranker\":false}");
    read_ok();
    assert_int_equal(config.kind, MODEL_GENERATOR);
    put("config_sentence_transformers.json", "{\"model_type\":\"SentenceTransformer\"}");
    read_ok();
    assert_int_equal(config.kind, MODEL_GENERATOR);
    put("config_sentence_transformers.json", "{\"model_type\":");
    read_refused(STATUS_INVALID, "config_sentence_transformers.json");
    put("config_sentence_transformers.json", "{}");
    put_config("config.json", "Qwen2ForCausalLM", "{\"is_original_qwen3_reranker\":true}");
    read_ok();
    // only Qwen3's rerankers are published in this form
    assert_int_equal(config.kind, MODEL_GENERATOR);
}

// Published folders whose names are the only sign, and names that are none.
static void test_names_of_rerankers(void **state)
{
    (void)state;
    static const struct {
        const char *folder, *architecture;
        enum rerank_form form; // RERANK_PAIR: a generator
    } named[] = {
        {"mxbai-rerank-base-v2", "Qwen2ForCausalLM", RERANK_MXBAI},
        {"bge-reranker-v2-gemma", "GemmaForCausalLM", RERANK_BGE_GEMMA},
        {"my-reranker", "Qwen2ForCausalLM", RERANK_PAIR},
        {"mxbai-rerank", "LlamaForCausalLM", RERANK_PAIR},
    };
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++) {
        char path[160], name[96];
        snprintf(name, sizeof name, "%s/config.json", named[i].folder);
        put_config(name, named[i].architecture, "{\"num_key_value_heads\":2}");
        snprintf(path, sizeof path, "%s/%s", folder, named[i].folder);
        assert_int_equal(model_config_read(&config, path, &err), STATUS_OK);
        assert_int_equal(config.kind,
                         named[i].form == RERANK_PAIR ? MODEL_GENERATOR : MODEL_RERANKER);
        assert_int_equal(config.rerank, named[i].form);
    }
}

// The tokens that config.json names, and the prompt that goes with them.
static void test_tokens_of_rerankers(void **state)
{
    (void)state;
    static const struct {
        const char *architecture, *tokens;
        enum rerank_form prompt, answers;
    } cases[] = {
        {"Qwen3ForCausalLM", "[\"no\",\"yes\"]", RERANK_YES_NO, RERANK_YES_NO},
        {"Qwen2ForCausalLM", "[\"0\",\"1\"]", RERANK_MXBAI, RERANK_MXBAI},
        {"GemmaForCausalLM", "[\"Yes\"]", RERANK_BGE_GEMMA, RERANK_BGE_GEMMA},
        {"Qwen3ForCausalLM", "[\"0\",\"1\"]", RERANK_UNKNOWN, RERANK_MXBAI},
        {"Qwen2ForCausalLM", "[\"no\",\"yes\"]", RERANK_UNKNOWN, RERANK_YES_NO},
        {"LlamaForCausalLM", "[\"0\",\"1\"]", RERANK_PAIR, RERANK_PAIR}, // a generator
    };
    char text[96];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(text, sizeof text, "{\"num_key_value_heads\":2,\"classifier_from_token\":%s}",
                 cases[i].tokens);
        put_config("config.json", cases[i].architecture, text);
        read_ok();
        assert_int_equal(config.kind,
                         cases[i].answers == RERANK_PAIR ? MODEL_GENERATOR : MODEL_RERANKER);
        assert_int_equal(config.rerank, cases[i].prompt);
        assert_int_equal(config.answers, cases[i].answers);
    }
    static const char *const wrong[] = {"[]",      "[\"yes\",\"no\"]", "[\"yes\"]",
                                        "[\"1\"]", "[\"0\",1]",        "[\"0\",\"1\",\"1\"]"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(text, sizeof text, "{\"classifier_from_token\":%s}", wrong[i]);
        put_config("config.json", "Qwen2ForCausalLM", text);
        read_refused(STATUS_UNSUPPORTED, "classifier_from_token is neither [\"no\", \"yes\"] nor");
    }
}

// A chat template that renders a known prompt shows which one; an unknown one of a query and a
// document makes the prompt unknown, also for Qwen3.
static void test_templates_of_rerankers(void **state)
{
    (void)state;
    static const struct {
        const char *architecture, *text;
        enum rerank_form prompt;
    } cases[] = {
        {"Qwen2ForCausalLM", "{{ messages }}", RERANK_UNKNOWN},
        {"Qwen2ForCausalLM",
         "query: {{ q }} You are a search relevance expert who evaluates how well documents match "
         "search queries. For",
         RERANK_MXBAI},
        {"Qwen2ForCausalLM",
         "Judge whether the Document meets the requirements based on the Query and the Instruct "
         "provided. Note 'query'",
         RERANK_YES_NO},
        {"GemmaForCausalLM",
         "Given a query A and a passage B, determine whether the passage contains an answer to the "
         "query by",
         RERANK_BGE_GEMMA},
        {"Qwen3ForCausalLM", "{{ messages }}", RERANK_YES_NO},
        {"Qwen3ForCausalLM", "{{ messages | selectattr('role', 'eq', 'query') }}", RERANK_UNKNOWN},
    };
    put("modules.json", yes_no);
    put("1_Score/config.json", "{\"true_token_id\":16,\"false_token_id\":15}");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int form = 0; form < 3; form++) {
            char text[512];
            snprintf(text, sizeof text,
                     form == 1 ? "{\"chat_template\":\"%s\"}"
                               : "{\"chat_template\":[{\"name\":\"default\",\"template\":\"%s\"}]}",
                     cases[i].text);
            put("chat_template.jinja", form == 0 ? cases[i].text : "");
            put("tokenizer_config.json", form == 0 ? "{}" : text);
            put_config("config.json", cases[i].architecture, "{\"num_key_value_heads\":2}");
            read_ok();
            assert_int_equal(config.kind, MODEL_RERANKER);
            assert_int_equal(config.rerank, cases[i].prompt);
            assert_true(config.yes_id == 16 && config.no_id == 15 && !config.lone_answer);
        }
}

static void remove_file(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(remove(path), 0);
}

// Modules after pooling; the vectors have 256 columns before.
static void dense_modules_are_read(void)
{
    static const char start[] = "[{\"type\":\"Transformer\",\"path\":\"\"},"
                                "{\"type\":\"Pooling\",\"path\":\"p\"},";
    char text[512];
    snprintf(text, sizeof text,
             "%s{\"type\":\"x.Dropout\",\"path\":\"o\"},{\"type\":\"x.Dense\",\"path\":\"d\"},"
             "{\"type\":\"x.LayerNorm\",\"path\":\"l\"}]",
             start);
    put("modules.json", text);
    put("l/config.json", "{\"dimension\":48}");
    put("d/config.json", "{\"in_features\":256,\"out_features\":48}");
    read_ok();
    assert_true(config.module_count == 2 && config.vector_width == 48);
    assert_true(config.modules[0].bias && config.modules[0].tanh && config.modules[1].norm);
    static const char *const wrong[][2] = {
        {"\"out_features\":48,\"activation_function\":\"torch.nn.modules.activation.ReLU\"",
         "activation_function torch.nn.modules.activation.ReLU is not supported"},
        {"\"out_features\":48,\"use_residual\":true", "use_residual is true, which is not"},
        {"\"out_features\":48,\"module_input_name\":\"x\"", "module_input_name is x;"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(text, sizeof text, "{\"in_features\":256,%s}", wrong[i][0]);
        put("d/config.json", text);
        read_refused(STATUS_UNSUPPORTED, wrong[i][1]);
    }
    put("d/config.json", "{\"in_features\":256,\"out_features\":40}");
    read_refused(STATUS_INVALID, "l/config.json: dimension is 48, but the vectors have 40 columns");
    put("d/config.json", "{\"in_features\":256}");
    read_refused(STATUS_INVALID, "out_features is missing");
    snprintf(text, sizeof text,
             "%s{\"type\":\"x.Normalize\",\"path\":\"n\"},{\"type\":\"x.Dense\",\"path\":\"d\"}]",
             start);
    put("modules.json", text);
    read_refused(STATUS_UNSUPPORTED, "Dense is supported after Pooling and before Normalize");
}

static void test_modules_are_read(void **state)
{
    (void)state;
    put_config("config.json", "BertModel", "{}");
    put("modules.json", "[{\"type\":\"Transformer\",\"path\":\"\"},{\"type\":\"Pooling\",\"path\":"
                        "\"p\"},{\"type\":\"a.b.Normalize\",\"path\":\"n\"}]");
    static const struct {
        const char *text;
        enum pooling pooling;
    } modes[] = {{"{\"pooling_mode\":\"cls\"}", POOL_CLS},
                 {"{\"pooling_mode\":\"mean\",\"pooling_mode_max_tokens\":true}", POOL_MEAN},
                 {"{\"pooling_mode\":\"lasttoken\"}", POOL_LAST},
                 {"{\"pooling_mode\":\"mean_sqrt_len_tokens\"}", POOL_MEAN_SQRT},
                 {"{\"pooling_mode_cls_token\":true,\"pooling_mode_mean_tokens\":false}", POOL_CLS},
                 {"{\"pooling_mode\":\"max\"}", POOL_MAX},
                 {"{\"pooling_mode_weightedmean_tokens\":true}", POOL_WEIGHTED},
                 {"{\"pooling_mode_mean_tokens\":true}", POOL_MEAN}};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        put("p/config.json", modes[i].text);
        read_ok();
        assert_int_equal(config.pooling, modes[i].pooling);
        assert_int_equal(config.kind, MODEL_EMBEDDER);
        assert_true(config.normalize);
    }
    static const char *const wrong[][2] = {
        {"{\"pooling_mode\":\"median\"}", "names 0 pooling modes; exactly one is supported"},
        {"{\"pooling_mode_cls_token\":1}", "names 0 pooling modes; exactly one is supported"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        put("p/config.json", wrong[i][0]);
        read_refused(STATUS_UNSUPPORTED, wrong[i][1]);
    }
    put_config("config.json", "Qwen2ForCausalLM", "{\"is_causal\":false}");
    put("p/config.json", "{\"pooling_mode\":\"lasttoken\"}");
    read_ok();
    remove_file("modules.json");
    read_refused(STATUS_UNSUPPORTED, "with attention to later tokens is served for embeddings");
    put_config("config.json", "BertModel", "{}");
    dense_modules_are_read();
    // A reranker's head is part of its architecture: modules do not change it.
    put_config("config.json", "BertForSequenceClassification", "{\"num_labels\":1}");
    read_ok();
    assert_int_equal(config.kind, MODEL_RERANKER);
    put("modules.json", "[{\"type\":\"Transformer\"}]");
    read_refused(STATUS_INVALID, "modules.json: an entry lacks its type or its path");
    put("modules.json", "[{\"path\":\"a\"}]");
    read_refused(STATUS_INVALID, "modules.json: an entry lacks its type or its path");
    put("modules.json", "[{\"type\":\"Transformer\",\"path\":\"a/../b\"}]");
    read_refused(STATUS_INVALID, "the path a/../b leads out of the folder");
    put("modules.json", "[{\"type\":\"Transformer\",\"path\":\"0_T\"}]");
    read_refused(STATUS_NOT_FOUND, "0_T/config.json is missing: download the model again");
    put("modules.json", "[]"); // a list, so config.json must exist
    put_config("config.json", "BertModel", "{}");
    read_refused(STATUS_UNSUPPORTED, "modules.json has no Pooling module");
}

static void test_long_paths_are_refused(void **state)
{
    (void)state;
    char path[MODULE_FOLDER_MAX + 256], modules[MODULE_FOLDER_MAX + 512];
    put_config("config.json", "BertModel", "{}");
    memset(path, 'x', sizeof path);
    path[MODULE_FOLDER_MAX] = '\0';
    snprintf(modules, sizeof modules, "[{\"type\":\"Pooling\",\"path\":\"%s\"}]", path);
    put("modules.json", modules);
    read_refused(STATUS_TOO_LARGE, "has over 3071 bytes");
    path[0] = '\0'; // the folder's name many times over: the path exists, but is too long
    while (strlen(path) + strlen(folder) + 3 < MODULE_FOLDER_MAX - 8)
        strcat(strcat(path, path[0] ? "/../" : ""), path[0] ? strrchr(folder, '/') + 1 : folder);
    assert_int_equal(model_config_read(&config, path, &err), STATUS_INVALID);
    assert_string_equal(err.text, "the name of the model folder is too long");
}

int main(void)
{
    log_level_set(LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sampling_defaults_have_ranges, folder_begin,
                                        folder_end),
        cmocka_unit_test_setup_teardown(test_end_ids_have_a_range, folder_begin, folder_end),
        cmocka_unit_test_setup_teardown(test_lengths_of_sentence_files, folder_begin, folder_end),
        cmocka_unit_test_setup_teardown(test_yes_no_ids_of_the_folder, folder_begin, folder_end),
        cmocka_unit_test_setup_teardown(test_marks_of_yes_no_rerankers, folder_begin, folder_end),
        cmocka_unit_test_setup_teardown(test_names_of_rerankers, folder_begin, folder_end),
        cmocka_unit_test_setup_teardown(test_tokens_of_rerankers, folder_begin, folder_end),
        cmocka_unit_test_setup_teardown(test_templates_of_rerankers, folder_begin, folder_end),
        cmocka_unit_test_setup_teardown(test_modules_are_read, folder_begin, folder_end),
        cmocka_unit_test_setup_teardown(test_long_paths_are_refused, folder_begin, folder_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
