// SPDX-License-Identifier: Apache-2.0
// Keys of GGUF files about mixtures of experts: their members of config.json, and the messages that
// refuse them. test_gguf.c compares such files with folders.
#include "tests/runtime/document_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define CONFIG "config.json"
#define EXPERTS(family) family ".expert_count u32 8\n" family ".expert_used_count u32 2\n"

static void test_mixtures_of_experts(void **state)
{
    (void)state;
    static const struct document_case cases[] = {
        {"llama", CONFIG, EXPERTS("llama"), "[\"MixtralForCausalLM\"]"},
        {"llama", CONFIG, EXPERTS("llama"), "\"num_local_experts\":8,\"num_experts_per_tok\":2"},
        {"llama", CONFIG, "llama.expert_count u32 8",
         "!the key llama.expert_used_count is missing"},
        {"qwen3moe", CONFIG, "", "!the key qwen3moe.expert_count is missing"},
        {"qwen3moe", CONFIG, EXPERTS("qwen3moe") "qwen3moe.expert_feed_forward_length u32 32",
         "\"num_experts\":8,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32,"
         "\"norm_topk_prob\":true"},
        {"qwen3moe", CONFIG, EXPERTS("qwen3moe") "qwen3moe.expert_weights_norm bool 0",
         "\"norm_topk_prob\":false"},
        {"qwen3moe", CONFIG, EXPERTS("qwen3moe") "qwen3moe.expert_gating_func u32 2",
         "!qwen3moe.expert_gating_func is 2; only 1 is served with qwen3moe"},
        {"qwen3moe", CONFIG, EXPERTS("qwen3moe") "qwen3moe.expert_weights_scale f32 2.5",
         "!expert_weights_scale is 2.5; only 1 is served"},
        {"qwen3moe", CONFIG, EXPERTS("qwen3moe") "qwen3moe.expert_shared_count u32 1",
         "!expert_shared_count is 1; only 0 is served"},
        {"qwen3moe", CONFIG, EXPERTS("qwen3moe") "qwen3moe.leading_dense_block_count u32 1",
         "!leading_dense_block_count is 1; only 0 is served"},
        {"qwen3moe", CONFIG, EXPERTS("qwen3moe") "qwen3moe.expert_x u32 1",
         "!the key qwen3moe.expert_x may change"},
        {"qwen2moe", CONFIG, EXPERTS("qwen2moe"),
         "\"shared_expert_intermediate_size\":96,\"norm_topk_prob\":false"},
        {"olmoe", CONFIG, EXPERTS("olmoe") "olmoe.expert_feed_forward_length u32 32",
         "!expert_feed_forward_length is 32; only 96 is served"},
        {"minimax-m2", CONFIG, EXPERTS("minimax-m2") "minimax-m2.expert_weights_norm bool 0",
         "!expert_weights_norm is 0; only 1 is served"},
        {"glm4moe", CONFIG,
         EXPERTS("glm4moe") "glm4moe.expert_group_count u32 4\n"
                            "glm4moe.expert_group_used_count u32 2\n"
                            "glm4moe.expert_weights_scale f32 2.5",
         "\"routed_scaling_factor\":2.5,\"n_group\":4,\"topk_group\":2"},
        {"gpt-oss", CONFIG, EXPERTS("gpt-oss"), "\"rope_scaling\":{\"rope_type\":\"default\"}"},
        {"gpt-oss", CONFIG,
         EXPERTS("gpt-oss") "gpt-oss.rope.scaling.type text yarn\n"
                            "gpt-oss.rope.scaling.factor f32 32",
         "\"beta_slow\":1.0,\"truncate\":false}"},
        {"gpt-oss", CONFIG, EXPERTS("gpt-oss") "gpt-oss.attention.sliding_window u32 64",
         "\"layer_types\":[\"sliding_attention\",\"full_attention\"]"},
        {"ernie4_5-moe", CONFIG,
         EXPERTS("ernie4_5-moe") "ernie4_5-moe.interleave_moe_layer_step u32 2\n"
                                 "ernie4_5-moe.leading_dense_block_count u32 1",
         "\"moe_layer_start_index\":1,\"moe_layer_interval\":2"},
    };
    CHECK(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mixtures_of_experts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
