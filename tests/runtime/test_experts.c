// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts: sizes, routing and layers that config.json gives each family; what is
// refused, with its sentence; the weights of a rank; the refusal of a device without these ops.
// The results of the families are tested by test_golden, the ops by conformance.
#include "base/json.h"
#include "runtime/model/config.h"
#include "runtime/model/internal.h"
#include "tests/runtime/golden.h"
#include "tests/runtime/model_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char base[] =
    "{\"architectures\":[\"%s\"],\"vocab_size\":1000,\"hidden_size\":256,\"num_hidden_layers\":4,"
    "\"num_attention_heads\":8,\"intermediate_size\":512,\"max_position_embeddings\":4096%s}";

static struct model_config config;
static struct error err;

static enum status parse(const char *architecture, const char *more)
{
    json_t *text = json_sprintf(base, architecture, more);
    json_t *object = json_loads(json_string_value(text), 0, NULL);
    assert_non_null(object);
    enum status status = model_config_parse(&config, object, &err);
    json_decref(object);
    json_decref(text);
    return status;
}

static void test_every_family_has_its_routing(void **state)
{
    (void)state;
    static const struct {
        const char *name, *more;
        struct experts_config want;
        const char *layers; // one letter for each layer: e experts, d dense
    } rows[] = {
        {"Qwen3MoeForCausalLM", "", {128, 8, 768, 0, ROUTE_SOFTMAX_ALL, 0, 0, false, 1}, "eeee"},
        {"Qwen3MoeForCausalLM",
         ",\"norm_topk_prob\":true,\"decoder_sparse_step\":2,\"mlp_only_layers\":[3]",
         {128, 8, 768, 0, ROUTE_SOFTMAX_ALL, 0, 0, true, 1},
         "dedd"},
        {"Qwen3MoeForCausalLM", // as transformers 5 saves it; with a key of Qwen3-Coder
         ",\"num_local_experts\":160,\"use_qk_norm\":true,\"mlp_only_layers\":null",
         {160, 8, 768, 0, ROUTE_SOFTMAX_ALL, 0, 0, false, 1},
         "eeee"},
        {"Qwen2MoeForCausalLM",
         ",\"num_key_value_heads\":8",
         {60, 4, 1408, 5632, ROUTE_SOFTMAX_ALL, 0, 0, false, 1},
         "eeee"},
        {"MixtralForCausalLM", "", {8, 2, 512, 0, ROUTE_SOFTMAX_CHOSEN, 0, 0, false, 1}, "eeee"},
        {"OlmoeForCausalLM", "", {64, 8, 512, 0, ROUTE_SOFTMAX_ALL, 0, 0, false, 1}, "eeee"},
        {"GraniteMoeForCausalLM", "", {8, 2, 512, 0, ROUTE_SOFTMAX_CHOSEN, 0, 0, false, 1}, "eeee"},
        {"GptOssForCausalLM", "", {128, 4, 512, 0, ROUTE_SOFTMAX_CHOSEN, 0, 0, false, 1}, "eeee"},
        {"Glm4MoeForCausalLM", "", {128, 8, 1408, 1408, ROUTE_SIGMOID, 0, 0, true, 1}, "deee"},
        {"Glm4MoeForCausalLM",
         ",\"n_group\":8,\"topk_group\":4,\"routed_scaling_factor\":2.5,"
         "\"first_k_dense_replace\":3,\"n_shared_experts\":2",
         {128, 8, 1408, 2816, ROUTE_SIGMOID, 8, 4, true, 2.5},
         "ddde"},
        {"Ernie4_5_MoeForCausalLM",
         ",\"moe_layer_end_index\":2",
         {64, 6, 1536, 3072, ROUTE_SOFTMAX_ALL, 0, 0, true, 1},
         "deed"},
        {"MiniMaxM2ForCausalLM",
         ",\"scoring_func\":\"sigmoid\",\"use_routing_bias\":true",
         {256, 8, 512, 0, ROUTE_SIGMOID, 0, 0, true, 1},
         "eeee"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (parse(rows[i].name, rows[i].more) != STATUS_OK)
            fail_msg("%s: %s", rows[i].name, err.text);
        const struct experts_config *got = &config.experts, *want = &rows[i].want;
        if (got->count != want->count || got->chosen != want->chosen || got->width != want->width ||
            got->shared_width != want->shared_width || got->score != want->score ||
            got->groups != want->groups || got->groups_kept != want->groups_kept ||
            got->renormalise != want->renormalise || got->factor != want->factor)
            fail_msg("%s: %u experts, %u chosen, %u columns, %u shared, groups %u of %u",
                     rows[i].name, got->count, got->chosen, got->width, got->shared_width,
                     got->groups_kept, got->groups);
        for (uint32_t layer = 0; layer < 4; layer++)
            assert_int_equal(config.kinds[config.layer_kind[layer]].experts,
                             rows[i].layers[layer] == 'e');
    }
}

static void test_what_would_be_misread_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name, *more, *words;
    } rows[] = {
        {"Qwen3MoeForCausalLM", ",\"num_experts_per_tok\":129", "allowed is 1 to 32"},
        {"MixtralForCausalLM", ",\"num_experts_per_tok\":9", "num_experts_per_tok is 9, but there"},
        {"Qwen3MoeForCausalLM", ",\"num_experts\":513", "num_experts is 513, allowed is 1 to 512"},
        {"Qwen3MoeForCausalLM", ",\"moe_intermediate_size\":40", "experts of 40 columns"},
        {"Glm4MoeForCausalLM", ",\"n_group\":3,\"topk_group\":1", "3 groups of experts"},
        {"Glm4MoeForCausalLM", ",\"n_group\":4,\"topk_group\":5", "4 groups of experts"},
        {"Qwen3MoeForCausalLM", ",\"n_shared_experts\":1", "n_shared_experts is 1: shared experts"},
        {"MixtralForCausalLM", ",\"scoring_func\":\"sigmoid\"", "another score of experts"},
        {"LlamaForCausalLM", ",\"num_local_experts\":8", "a mixture of experts is not served"},
        {"Qwen3ForCausalLM", ",\"num_experts\":8", "a mixture of experts is not served"},
        {"Glm4MoeForCausalLM", ",\"mlp_layer_types\":[\"dense\"]", "layers without experts"},
        {"Glm4MoeForCausalLM", ",\"scoring_func\":\"softmax\"", "scoring_func is softmax; "},
        {"MiniMaxM2ForCausalLM", ",\"scoring_func\":\"softmax\"", "scoring_func is softmax; "},
        {"MiniMaxM2ForCausalLM", ",\"use_routing_bias\":false", "use_routing_bias is false: "},
        {"Qwen3MoeForCausalLM", ",\"num_experts\":8,\"num_local_experts\":4",
         "num_local_experts is 4, but num_experts is 8"},
        {"Qwen2MoeForCausalLM", ",\"num_key_value_heads\":8,\"num_local_experts\":4",
         "num_local_experts is 4, but num_experts is 60"},
        {"Qwen3MoeForCausalLM", ",\"mlp_only_layers\":\"1\"", "mlp_only_layers is not a list"},
        {"Qwen3MoeForCausalLM", ",\"mlp_only_layers\":[1.0]", "mlp_only_layers is not a list"},
        {"Qwen3MoeForCausalLM", ",\"use_sliding_window\":true,\"sliding_window\":64",
         "use_sliding_window is true: versions of transformers do not agree"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_not_equal(parse(rows[i].name, rows[i].more), STATUS_OK);
        if (!strstr(err.text, rows[i].words))
            fail_msg("%s%s: %s", rows[i].name, rows[i].more, err.text);
    }
}

// Opens the plan of a golden model with random weights.
static enum status plan_open(struct model_plan **out, const struct device_api *api,
                             struct device *device, const char *name, uint32_t rank, uint32_t ranks)
{
    char folder[64];
    struct model_options options = rig_options();
    options.load_dummy = true;
    options.share.tp_rank = rank;
    options.share.tp_size = ranks;
    golden_folder(folder, name, DTYPE_F32);
    enum status status = model_plan_open(out, folder, api, device, &options, &err);
    folder_remove(folder);
    return status;
}

// The ranks of a model hold all experts, each once; router and norms are complete on each.
static void test_ranks_hold_spans_of_experts(void **state)
{
    (void)state;
    struct device *device;
    struct device_options options = {.threads = 1, .exact = true};
    assert_int_equal(device_cpu()->open(&device, &options, &err), STATUS_OK);
    uint32_t next = 0;
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct model_plan *plan;
        if (plan_open(&plan, device_cpu(), device, "qwen2-moe", rank, 2) != STATUS_OK)
            fail_msg("%s", err.text);
        const struct model_parts *parts = plan->parts;
        assert_int_equal(parts->sizes.experts.first, next);
        next += parts->sizes.experts.count;
        for (uint32_t i = 0; i < parts->weights.count; i++) {
            const struct weight_entry *entry = &parts->weights.entries[i];
            if (entry->index == layer_weight_index(1, LAYER_EXPERT_UP))
                assert_int_equal(entry->shape.stack, parts->sizes.experts.count);
            if (entry->index == layer_weight_index(1, LAYER_ROUTER))
                assert_int_equal(entry->shape.n, parts->config.experts.count);
        }
        model_plan_close(plan);
    }
    assert_int_equal(next, 6);
    device_cpu()->close(device);
}

static const struct device_api *real;

static void facts_without(const struct device *device, struct device_facts *out)
{
    real->facts(device, out);
    out->experts = false;
}

static void test_a_device_without_the_ops_refuses_the_model(void **state)
{
    (void)state;
    real = device_cpu();
    struct device_api api = *real;
    api.facts = facts_without;
    struct device *device;
    struct device_options options = {.threads = 1, .exact = true};
    assert_int_equal(api.open(&device, &options, &err), STATUS_OK);
    struct model_plan *plan;
    assert_int_equal(plan_open(&plan, &api, device, "qwen3-moe", 0, 1), STATUS_UNSUPPORTED);
    assert_non_null(strstr(err.text, "Qwen3MoeForCausalLM is a mixture of experts, which this "
                                     "device does not compute: run it on the cpu device"));
    api.close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_family_has_its_routing),
        cmocka_unit_test(test_what_would_be_misread_is_refused),
        cmocka_unit_test(test_ranks_hold_spans_of_experts),
        cmocka_unit_test(test_a_device_without_the_ops_refuses_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
