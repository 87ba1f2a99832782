// SPDX-License-Identifier: Apache-2.0
// Conversion of single keys of a GGUF file to the documents of a Hugging Face folder, and the
// messages that refuse them. Each case is a small file: the keys of a model, with the lines of the
// case added or replacing them.
#include "runtime/source/gguf_documents.h"
#include "tests/runtime/document_cases.h"
#include "tests/runtime/gguf_rig.h"

#include "base/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CONFIG "config.json"
#define YARN "llama.rope.scaling.type text yarn\nllama.rope.scaling.factor f32 4"

#define HEAD "\ncls.weight tensor 0 64 64\ncls.output.weight tensor 0 64 1"

static void test_keys_of_the_model(void **state)
{
    (void)state;
    static const struct document_case cases[] = {
        {"llama", CONFIG, "",
         "={\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":64,\"num_hidden_layers\":2,"
         "\"num_attention_heads\":4,\"num_key_value_heads\":4,\"intermediate_size\":96,"
         "\"vocab_size\":3,\"max_position_embeddings\":128,\"rms_norm_eps\":0.5,\"head_dim\":16,"
         "\"rope_theta\":10000.0,\"partial_rotary_factor\":1.0,\"tie_word_embeddings\":true,"
         "\"stored_biases\":{\"qkv\":false,\"o\":false,\"ffn\":false},\"eos_token_id\":[]}"},
        {"llama", CONFIG, "llama.pooling_type u32 1", "[\"LlamaModel\"]"},
        {"llama", CONFIG, "llama.pooling_type u32 3", "[\"LlamaModel\"]"},
        {"llama", CONFIG, "llama.pooling_type u32 4", "!llama.pooling_type is 4, a reranker"},
        {"bert", CONFIG, "bert.pooling_type u32 4\ntokenizer.ggml.model text bert" HEAD,
         "!bert.pooling_type is 4, a reranker whose head is not completely in the file"},
        {"bert", CONFIG, "bert.pooling_type u32 4\ntokenizer.ggml.model text t5",
         "!a reranker whose head is not completely in the file"},
        {"bert", CONFIG, "bert.pooling_type u32 4\ntokenizer.ggml.model text t5" HEAD,
         "[\"RobertaForSequenceClassification\"]"},
        {"jina-bert-v2", CONFIG, "jina-bert-v2.pooling_type u32 4" HEAD,
         "!jina-bert-v2.pooling_type is 4, a reranker: of GGUF files those of bert, modern-bert"},
        {"nomic-bert", CONFIG,
         "nomic-bert.attention.layer_norm_epsilon f32 0.5\n"
         "nomic-bert.rope.scaling.type text yarn\nnomic-bert.rope.scaling.factor f32 4",
         "\"beta_slow\":1.0}"},
        {"qwen2", CONFIG, "", "[\"Qwen2ForCausalLM\"]"},
        {"qwen2", CONFIG, "qwen2.pooling_type u32 2", "[\"Qwen2Model\"]"},
        {"qwen3", CONFIG, "qwen3.pooling_type u32 3", "[\"Qwen3Model\"]"},
        {"qwen3", CONFIG, "qwen3.pooling_type u32 4",
         "[\"Qwen3ForCausalLM\"],\"is_original_qwen3_reranker\":true"},
        {"llama", CONFIG, "llama.attention.head_count_kv u32 2", "\"num_key_value_heads\":2"},
        {"llama", CONFIG, "llama.attention.key_length u32 32", "\"head_dim\":32"},
        {"llama", CONFIG, "llama.attention.value_length u32 8",
         "!value_length is 8 and key_length 16"},
        {"llama", CONFIG, "llama.attention.value_length u32 32", "!value_length is 32 and"},
        {"llama", CONFIG, "llama.attention.sliding_window u32 128", "\"eos_token_id\""},
        {"llama", CONFIG, "llama.attention.sliding_window u32 127",
         "!sliding_window: which layers"},
        {"llama", CONFIG, "llama.final_logit_softcapping f32 0", "\"eos_token_id\""},
        {"llama", CONFIG, "llama.embedding_scale f32 1", "\"eos_token_id\""},
        {"llama", CONFIG, "llama.embedding_scale f32 12", "!embedding_scale is 12.0: a factor"},
        {"llama", CONFIG, "llama.expert_count u32 0", "\"eos_token_id\""},
        {"qwen2", CONFIG, "qwen2.expert_count u32 1", "!mixtures of experts of this family are"},
        {"llama", CONFIG, "llama.attention.causal bool 1", "\"eos_token_id\""},
        {"llama", CONFIG, "llama.attention.causal bool 0", "!decoders that look ahead"},
        {"llama", CONFIG, "llama.attention.x u32 1", "!the key llama.attention.x may change"},
        {"llama", CONFIG, "llama.rope.y u32 1", "!the key llama.rope.y may change"},
        {"llama", CONFIG, "llama.ropes u32 1", "\"eos_token_id\""},
        {"llama", CONFIG, "qwen2.rope.x u32 1", "\"eos_token_id\""},
        {"llama", CONFIG, "split.count u16 1", "\"eos_token_id\""},
        {"llama", CONFIG, "blk.0.attn_q.bias tensor 0 64",
         "{\"qkv\":true,\"o\":false,\"ffn\":false}"},
        {"llama", CONFIG, "blk.0.attn_qkv.bias tensor 0 64",
         "{\"qkv\":true,\"o\":false,\"ffn\":false}"},
        {"llama", CONFIG, "blk.0.attn_output.bias tensor 0 64",
         "{\"qkv\":false,\"o\":true,\"ffn\":false}"},
        {"llama", CONFIG, "output.weight tensor 0 64 3", "\"tie_word_embeddings\":false"},
        {"llama", CONFIG, "blk.0.ffn_up.bias tensor 0 96",
         "{\"qkv\":false,\"o\":false,\"ffn\":true}"},
        {"llama", CONFIG, "token_embd.weight tensor 0 64 5", "\"vocab_size\":5"},
        {"bert", CONFIG, "",
         "={\"architectures\":[\"BertModel\"],\"hidden_size\":64,\"num_hidden_layers\":2,"
         "\"num_attention_heads\":4,\"num_key_value_heads\":4,\"intermediate_size\":96,"
         "\"vocab_size\":3,\"layer_norm_eps\":0.5,\"max_position_embeddings\":128,"
         "\"type_vocab_size\":0,\"eos_token_id\":[]}"},
        {"bert", CONFIG, "position_embd.weight tensor 0 64 40\ntoken_types.weight tensor 0 64 2",
         "\"max_position_embeddings\":40,\"type_vocab_size\":2"},
        {"bert", CONFIG, "token_types.weight tensor 0 64", "\"type_vocab_size\":1"},
        {"llama", "modules.json", "llama.pooling_type u32 0", "!m has nothing for modules.json"},
        {"llama", "modules.json", "llama.pooling_type u32 3", "gguf.Pooling"},
        {"qwen3", "modules.json", "qwen3.pooling_type u32 4", "!m has nothing for modules.json"},
        {"bert", "1_Pooling/config.json", "bert.pooling_type u32 1",
         "={\"pooling_mode\":\"mean\"}"},
        {"bert", "1_Pooling/config.json", "bert.pooling_type u32 2", "={\"pooling_mode\":\"cls\"}"},
        {"llama", "1_Pooling/config.json", "llama.pooling_type u32 3",
         "={\"pooling_mode\":\"lasttoken\"}"},
        {"llama", "generation_config.json",
         "general.sampling.temp f32 0\ngeneral.sampling.top_p f32 0.5\ngeneral.sampling.top_k i32 "
         "7\ngeneral.sampling.min_p f32 0.25\ngeneral.sampling.penalty_repeat f32 1.5",
         "={\"from\":\"gguf\",\"temperature\":0.0,\"top_p\":0.5,\"top_k\":7.0,\"min_p\":0.25,"
         "\"repetition_penalty\":1.5}"},
        {"llama", "generation_config.json", "", "={\"from\":\"gguf\"}"},
    };
    CHECK(cases);
}

static void test_numbers_of_each_type(void **state)
{
    (void)state;
    static const struct document_case cases[] = {
        {"llama", CONFIG, "llama.block_count u8 200", "\"num_hidden_layers\":200"},
        {"llama", CONFIG, "llama.block_count i8 100", "\"num_hidden_layers\":100"},
        {"llama", CONFIG, "llama.block_count i8 -1", "!is -1, allowed is 1 to 1024"},
        {"llama", CONFIG, "llama.block_count u16 1024", "\"num_hidden_layers\":1024"},
        {"llama", CONFIG, "llama.block_count i16 -2", "!is -2, allowed is 1 to 1024"},
        {"llama", CONFIG, "llama.block_count u32 1025", "!is 1025, allowed is 1 to 1024"},
        {"llama", CONFIG, "llama.block_count i32 -3", "!is -3, allowed is 1 to 1024"},
        {"llama", CONFIG, "llama.block_count u64 1", "\"num_hidden_layers\":1,"},
        {"llama", CONFIG, "llama.block_count i64 -4", "!is -4, allowed is 1 to 1024"},
        {"llama", CONFIG, "llama.block_count f32 3", "\"num_hidden_layers\":3,"},
        {"llama", CONFIG, "llama.block_count f64 3", "\"num_hidden_layers\":3,"},
        {"llama", CONFIG, "llama.block_count f32 2.5", "!is 2.5, not a whole number"},
        {"llama", CONFIG, "llama.block_count bool 1", "!llama.block_count is not a number"},
        {"llama", CONFIG, "llama.block_count text 2", "!llama.block_count is not a number"},
        {"llama", CONFIG, "llama.attention.causal bool 2", "!causal is neither true nor false"},
        {"llama", CONFIG, "llama.attention.causal u8 1", "!causal is neither true nor false"},
        {"llama", "tokenizer.json", "tokenizer.ggml.model text a\xff",
         "!is not UTF-8 at its byte 1"},
        {"llama", CONFIG, "a u32 1\na u32 1", "!the key a occurs twice"},
        {"llama", CONFIG, "zz u32 1\nzz u32 1", "!the key zz occurs twice"},
        {"llama", CONFIG, "a tensor 0 8\na tensor 0 8", "!the tensor a occurs twice"},
        {"llama", CONFIG, "a tensor 0 8\nb tensor 0 8\nb tensor 0 8", "!the tensor b occurs twice"},
    };
    CHECK(cases);
}

static void test_scalings(void **state)
{
    (void)state;
    static const struct document_case cases[] = {
        {"llama", CONFIG, "llama.rope.freq_base f32 500000", "\"rope_theta\":500000.0"},
        {"llama", CONFIG, YARN,
         "\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4.0,\"beta_fast\":32.0,"
         "\"beta_slow\":1.0}"},
        {"llama", CONFIG,
         YARN "\nllama.rope.scaling.yarn_beta_fast f32 16\nllama.rope.scaling.yarn_beta_slow f32 2"
              "\nllama.rope.scaling.original_context_length u32 64",
         "\"factor\":4.0,\"original_max_position_embeddings\":64,\"beta_fast\":16.0,"
         "\"beta_slow\":2.0}"},
        {"llama", CONFIG, "llama.rope.scaling.type text linear\nllama.rope.scaling.factor f32 2",
         "{\"rope_type\":\"linear\",\"factor\":2.0,"},
        {"llama", CONFIG, "llama.rope.scale_linear f32 8",
         "{\"rope_type\":\"linear\",\"factor\":8.0,"},
        {"llama", CONFIG, "llama.rope.scaling.type text none\nllama.rope.scaling.factor f32 2",
         "\"rope_theta\":10000.0,\"partial_rotary_factor\":1.0,\"tie_word_embeddings\""},
        {"llama", CONFIG, "llama.rope.scaling.type text linear", "!rope.scaling.factor is missing"},
        {"llama", CONFIG, "llama.rope.scaling.type text longrope",
         "!rope_factors_short.weight is missing or not 8 factors"},
        {"llama", CONFIG, "llama.rope.scaling.type text ntk", "!is ntk; none, linear, yarn and"},
        {"llama", CONFIG,
         "rope_factors_short.weight tensor 2 8\nrope_factors_long.weight tensor 3 8\n"
         "llama.rope.scaling.original_context_length u32 32\n"
         "llama.rope.scaling.attn_factor f32 1.5",
         "{\"rope_type\":\"longrope\",\"attention_factor\":1.5,"
         "\"original_max_position_embeddings\":32,\"short_factor\":[2.0,2.0,2.0,2.0,2.0,2.0,2.0,2."
         "0],"
         "\"long_factor\":[3.0,3.0,"},
        {"llama", CONFIG, "rope_factors_long.weight tensor 3 8", "!rope_factors_short.weight is"},
        {"llama", CONFIG, "rope_factors_long.weight tensor 3 8\nrope_freqs.weight tensor 3 8",
         "!rope_freqs.weight and rope_factors_long.weight both scale positions"},
        {"llama", CONFIG, YARN "\nllama.rope.scaling.yarn_attn_factor f32 1.5",
         "\"factor\":4.0,\"attention_factor\":1.5,\"beta_fast\""},
        {"llama", CONFIG,
         "llama.rope.scaling.type text linear\nllama.rope.scaling.factor f32 2\n"
         "llama.rope.scaling.attn_factor f32 2",
         "!attn_factor is served with yarn and longrope alone"},
        {"llama", CONFIG, "llama.rope.dimension_count u32 16", "\"eos_token_id\""},
        {"llama", CONFIG, "llama.rope.dimension_count u32 8", "!rotating some of them"},
        {"llama", CONFIG, "llama.rope.dimension_count u32 32", "!rotating these is not"},
        {"qwen2", CONFIG, "qwen2.rope.dimension_count u32 12",
         "\"partial_rotary_factor\":0.765625,"},
        {"qwen2", CONFIG, "qwen2.rope.dimension_count u32 7", "!rotating some of them"},
        {"llama", CONFIG, "rope_freqs.weight tensor 1000000 8",
         "\"attention_factor\":1.0,\"short_factor\":[1000000.0,1000000.0,"},
        {"llama", CONFIG, "rope_freqs.weight tensor 2000000 8", "!a factor that is not 0.001 to"},
        {"llama", CONFIG, "rope_freqs.weight tensor 1 7",
         "!rope_freqs.weight is missing or not 8 factors"},
        {"llama", CONFIG, "rope_freqs.weight tensor 1 9",
         "!rope_freqs.weight is missing or not 8 factors"},
        {"llama", CONFIG, YARN "\nrope_freqs.weight tensor 1 8", "!both scale positions"},
    };
    CHECK(cases);
}

#define WINDOW(family) #family ".attention.sliding_window u32 8\n" #family ".block_count u32 4\n"
#define COHERE(family)                                                                             \
    family ".attention.layer_norm_epsilon f32 0.125\n" family ".logit_scale f32 0.25\n"
#define FULL "\"full_attention\""
#define SLIDING "\"sliding_attention\""

// The window and its layers, as llama.cpp fixes them for each family.
static void test_windows(void **state)
{
    (void)state;
    static const struct document_case cases[] = {
        {"gemma3", CONFIG, "", "\"sliding_window\":null,\"query_pre_attn_scalar\":16"},
        {"gemma3", CONFIG, "gemma3.attention.sliding_window u32 8\ngemma3.block_count u32 7",
         "\"sliding_window\":8,\"layer_types\":[" SLIDING "," SLIDING "," SLIDING "," SLIDING
         "," SLIDING "," FULL "," SLIDING "]"},
        {"gemma3", CONFIG,
         "gemma3.attention.sliding_window u32 8\ngemma3.attention.sliding_window_pattern u32 2",
         "[" SLIDING "," FULL "]"},
        {"gemma3", CONFIG,
         "gemma3.attention.sliding_window u32 8\ngemma3.attention.sliding_window_pattern bools 0 1",
         "[" FULL "," SLIDING "]"},
        {"gemma3", CONFIG,
         "gemma3.attention.sliding_window u32 8\ngemma3.attention.sliding_window_pattern bools 1",
         "!sliding_window_pattern is not a list of 2 flags"},
        {"gemma3", CONFIG,
         "gemma3.attention.sliding_window u32 8\n"
         "gemma3.attention.sliding_window_pattern texts a b",
         "!sliding_window_pattern is not a list of 2 flags"},
        {"gemma3", CONFIG, "", "\"rope_local_base_freq\":10000.0"},
        {"gemma3", CONFIG, "gemma3.rope.freq_base_swa f32 5000", "\"rope_local_base_freq\":5000.0"},
        {"gemma3", CONFIG, "gemma3.block_count u32 62\ngemma3.attention.key_length u32 32",
         "\"query_pre_attn_scalar\":16"},
        {"gemma3", CONFIG, "gemma3.final_logit_softcapping f32 30", "!a cap on the logits is not"},
        {"gemma3", CONFIG, "gemma3.pooling_type u32 1", "!pooling_type is 1, an embedder"},
        {"olmo2", CONFIG, "", "[\"Olmo2ForCausalLM\"]"},
        {"olmo2", CONFIG, WINDOW(olmo2), "[\"Olmo3ForCausalLM\"]"},
        {"olmo2", CONFIG, WINDOW(olmo2), "[" SLIDING "," SLIDING "," SLIDING "," FULL "]"},
        {"olmo2", CONFIG, WINDOW(olmo2) "olmo2.rope.freq_base_swa f32 10000",
         "[\"Olmo3ForCausalLM\"]"},
        {"olmo2", CONFIG, WINDOW(olmo2) "olmo2.rope.freq_base_swa f32 5000",
         "!rope.freq_base_swa is 5000 and rope.freq_base 10000: two bases"},
        {"exaone4", CONFIG, WINDOW(exaone4), "[" SLIDING "," SLIDING "," SLIDING "," FULL "]"},
        {"exaone4", CONFIG, "exaone4.block_count u32 64", "\"sliding_window\":4096"},
        {"phi3", CONFIG, WINDOW(phi3), "[" SLIDING "," SLIDING "," SLIDING "," SLIDING "]"},
        {"mistral3", CONFIG, "", "[\"MistralForCausalLM\"]"},
        {"mistral3", CONFIG, "", "\"sliding_window\":null"},
        {"mistral3", CONFIG, "mistral3.attention.temperature_scale f32 0.5",
         "!temperature_scale is served with yarn alone"},
        {"mistral3", CONFIG,
         "mistral3.attention.temperature_scale f32 0.5\nmistral3.rope.scaling.type text yarn\n"
         "mistral3.rope.scaling.factor f32 16\nmistral3.rope.scaling.yarn_log_multiplier f32 1",
         "\"beta_slow\":1.0,\"mscale\":1.0,\"mscale_all_dim\":1.0,\"llama_4_scaling_beta\":0.5}"},
        {"mistral3", CONFIG,
         "mistral3.attention.temperature_scale f32 0.5\nmistral3.rope.scaling.type text yarn\n"
         "mistral3.rope.scaling.factor f32 16",
         "[\"Ministral3ForCausalLM\"]"},
        {"llama", CONFIG, "llama.attention.temperature_scale f32 0.5",
         "!temperature_scale is 0.5: a scale of queries by position is not served"},
        {"llama", CONFIG, "llama.rope.scaling.yarn_log_multiplier f32 1",
         "!yarn_log_multiplier may change"},
        {"cohere2", CONFIG, COHERE("cohere2") WINDOW(cohere2),
         "\"layer_types\":[" SLIDING "," SLIDING "," SLIDING "," FULL "],\"logit_scale\":0.25"},
        {"cohere2", CONFIG, COHERE("cohere2"), "!cohere2.attention.sliding_window is missing"},
        {"command-r", CONFIG, COHERE("command-r"), "\"layer_norm_eps\":0.125,"},
        {"command-r", CONFIG, "", "!command-r.attention.layer_norm_epsilon is missing"},
        {"command-r", CONFIG, "command-r.attention.layer_norm_epsilon f32 0.125",
         "!command-r.logit_scale is missing"},
        {"command-r", CONFIG, COHERE("command-r") "blk.0.attn_q_norm.weight tensor 1 16 4",
         "!blk.0.attn_q_norm.weight: norms of q and k are not served"},
        {"granite", CONFIG, "", "!granite.logit_scale is missing"},
        {"granite", CONFIG, "granite.logit_scale f32 8\ngranite.embedding_scale f32 12",
         "\"embedding_multiplier\":12.0,\"residual_multiplier\":1.0,"
         "\"attention_multiplier\":0.25,\"logits_scaling\":8.0"},
        {"granite", CONFIG, "granite.logit_scale f32 8\ngranite.rope.scaling.finetuned bool 0",
         "!granite without rotary embeddings"},
        {"llama", CONFIG, "llama.logit_scale f32 8", "!a factor of the logits is not served"},
        {"glm4", CONFIG, "glm4.rope.dimension_sections u32s 8 8 0 0", "!may change what the model"},
        {"glm4", CONFIG, "glm4.nextn_predict_layers u32 1", "\"num_hidden_layers\":1"},
        {"glm4", CONFIG, "glm4.nextn_predict_layers u32 2", "!nextn_predict_layers is 2, allowed"},
        {"clip", CONFIG, "", "!the image or audio encoder of a model"},
        {"llama", CONFIG, "general.type text mmproj", "!the image or audio encoder of a model"},
        {"llama", CONFIG, "general.type text adapter", "!is an adapter"},
        {"llama", CONFIG, "general.type text imatrix", "!the file is not a model"},
        {"llama", CONFIG, "general.type text model", "\"eos_token_id\""},
    };
    CHECK(cases);
}

static void test_ends(void **state)
{
    (void)state;
    static const struct document_case cases[] = {
        {"llama", CONFIG,
         "tokenizer.ggml.tokens texts <|eot_id|> <|im_end|> <|end|> <|return|> <|call|> "
         "<end_of_turn> <|endoftext|> <|end_of_text|> <|eom_id|> <EOT> _<EOT> <end_of_utterance> "
         "<|im_start|> <|eom|>",
         "\"eos_token_id\":[0,1,2,3,4,5,6,7,8,9,10,11]}"},
        {"llama", CONFIG,
         "tokenizer.ggml.tokens texts a <EOT> b <|end|>\ntokenizer.ggml.eos_token_id u32 1",
         "\"eos_token_id\":[1,3]}"},
        {"llama", CONFIG,
         "tokenizer.ggml.tokens texts a b <EOT> <|end|>\ntoken_embd.weight tensor 0 64 3",
         "\"eos_token_id\":[2]}"},
        {"llama", CONFIG, "tokenizer.ggml.eos_token_id u32 2", "\"eos_token_id\":[2]}"},
        {"llama", CONFIG, "tokenizer.ggml.eos_token_id u32 3",
         "!eos_token_id is 3, allowed is 0 to 2"},
        {"bert", CONFIG, "tokenizer.ggml.tokens texts a <EOT>", "\"eos_token_id\":[]}"},
    };
    CHECK(cases);
}

#define TOKENIZER "tokenizer.json"
#define GPT2                                                                                       \
    "tokenizer.ggml.model text gpt2\ntokenizer.ggml.merges texts a\ntokenizer.ggml.pre text "      \
    "gpt-2\n"
#define BOTH "tokenizer.ggml.bos_token_id u32 1\ntokenizer.ggml.eos_token_id u32 0\n"
#define SCORED "tokenizer.ggml.model text llama\ntokenizer.ggml.scores f32s 0 0 0\n"
#define BERT "tokenizer.ggml.model text bert\ntokenizer.ggml.token_type i32s 3 1 1\n"

static void test_keys_of_the_tokenizer(void **state)
{
    (void)state;
    static const struct document_case cases[] = {
        {"llama", TOKENIZER, GPT2 BOTH, "\"use_regex\":false}]},\"decoder\""}, // no post-processor
        {"llama", TOKENIZER,
         GPT2 BOTH "tokenizer.ggml.add_bos_token bool 1\ntokenizer.ggml.add_eos_token bool 1",
         "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":["
         "{\"SpecialToken\":{\"id\":\"bos\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_"
         "id\":0}},"
         "{\"SpecialToken\":{\"id\":\"eos\",\"type_id\":0}}],\"pair\":["
         "{\"SpecialToken\":{\"id\":\"bos\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_"
         "id\":0}},"
         "{\"SpecialToken\":{\"id\":\"eos\",\"type_id\":0}},"
         "{\"SpecialToken\":{\"id\":\"bos\",\"type_id\":1}},{\"Sequence\":{\"id\":\"B\",\"type_"
         "id\":1}},"
         "{\"SpecialToken\":{\"id\":\"eos\",\"type_id\":1}}],\"special_tokens\":{"
         "\"bos\":{\"id\":\"bos\",\"ids\":[1],\"tokens\":[]},\"eos\":{\"id\":\"eos\",\"ids\":[0],"
         "\"tokens\":[]}}},"},
        {"llama", TOKENIZER, GPT2 "tokenizer.ggml.token_type i32s 2 4 3",
         "\"added_tokens\":[{\"id\":0,\"content\":\"a\",\"special\":true,\"normalized\":false,"
         "\"single_word\":false,\"lstrip\":false,\"rstrip\":false},{\"id\":1,\"content\":\"b\","
         "\"special\":false"},
        {"llama", TOKENIZER, "tokenizer.ggml.model text gpt2", "!tokenizer.ggml.merges is missing"},
        {"llama", TOKENIZER, "tokenizer.ggml.model text t5",
         "!the keys of the tokenizer t5: tokenizer.ggml.scores and unknown_token_id are needed"},
        {"llama", TOKENIZER, GPT2 "tokenizer.ggml.token_type i32s 2 4",
         "!has 2 items and tokenizer.ggml.tokens 3"},
        {"llama", TOKENIZER, SCORED BOTH,
         "\"ids\":[1],\"tokens\":[]},\"eos\":{\"id\":\"eos\",\"ids\":[0],\"tokens\":[]}}},"
         "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":"
         "\"\u2581\"},"
         "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\u2581\"}]},"
         "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{"
         "\"String\":\"\u2581\"},"
         "\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},"
         "{\"type\":\"Strip\",\"content\":\" "
         "\",\"start\":1,\"stop\":0}]},\"model\":{\"type\":\"BPE\","
         "\"fuse_unk\":true,\"byte_fallback\":true,\"unk_token\":\"<unk>\","},
        {"llama", TOKENIZER, SCORED "tokenizer.ggml.add_space_prefix bool 0",
         "{\"type\":\"Fuse\"}]}"},
        {"llama", TOKENIZER, SCORED "tokenizer.ggml.unknown_token_id u32 0", "\"unk_token\":\"a\""},
        // equal scores: the longer left part in characters first, then the lower id
        {"llama", TOKENIZER,
         "tokenizer.ggml.model text llama\n"
         "tokenizer.ggml.tokens texts a b aa ab aab \u00e9 \u00e9b aaab\n"
         "tokenizer.ggml.scores f32s 0 0 -1 -1 -1 0 -1 -1",
         "\"merges\":[[\"aa\",\"ab\"],[\"aa\",\"b\"],[\"a\",\"aab\"],[\"a\",\"ab\"],[\"a\",\"a\"],"
         "[\"a\",\"b\"],[\"\u00e9\",\"b\"]]"},
        {"bert", TOKENIZER, BERT BOTH, "\"sep\":[\"a\",0],\"cls\":[\"##b\",1]}"},
        {"bert", TOKENIZER, BERT BOTH, "\"lowercase\":true"},
        {"bert", TOKENIZER, BERT BOTH "tokenizer.ggml.normalizer.lowercase bool 0",
         "\"lowercase\":false"},
        {"bert", TOKENIZER,
         BERT BOTH "tokenizer.ggml.cls_token_id u32 2\ntokenizer.ggml.seperator_token_id u32 1",
         "\"sep\":[\"##b\",1],\"cls\":[\"##c\",2]},\"model\":{\"type\":\"WordPiece\",\"continuing_"
         "subword_prefix\":\"##\","
         "\"max_input_chars_per_word\":100,\"unk_token\":\"[UNK]\","},
        {"bert", TOKENIZER, BERT "tokenizer.ggml.cls_token_id u32 1",
         "!cls_token_id and seperator_token_id are"},
        {"bert", TOKENIZER, BERT BOTH "tokenizer.ggml.tokens texts [x] [y] \u2581z",
         "\"vocab\":{\"[x]\":0,\"[y]\":1,\"z\":2}"},
        {"bert", "tokenizer_config.json",
         BERT BOTH
         "tokenizer.ggml.unknown_token_id u32 2\ntokenizer.ggml.seperator_token_id u32 0\n"
         "tokenizer.ggml.padding_token_id u32 1\ntokenizer.ggml.cls_token_id u32 2\n"
         "tokenizer.ggml.mask_token_id u32 1",
         "={\"from\":\"gguf\",\"bos_token\":\"##b\",\"eos_token\":\"a\",\"unk_token\":\"##c\","
         "\"sep_token\":\"a\","
         "\"pad_token\":\"##b\",\"cls_token\":\"##c\",\"mask_token\":\"##b\",\"chat_template\":[]"
         "}"},
        {"llama", "tokenizer_config.json",
         GPT2 "tokenizer.chat_template text x\ntokenizer.chat_template.rag text "
              "y\ntokenizer.chat_templates text z",
         "\"chat_template\":[{\"name\":\"default\",\"template\":\"x\"},{\"name\":\"rag\","
         "\"template\":\"y\"}]}"},
    };
    CHECK(cases);
}

// The pre-tokenizers that the names stand for, as their models publish them, and whether a word
// that is a token needs no merges.
static const struct {
    const char *names;
    bool whole_words;
    const char *wanted;
} sets[] = {
    {"gpt-2 phi-2 olmo jais mpt exaone4", false,
     "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\""
     "pattern\":{\"Regex\":\"'s|'t|'re|'ve|'m|'ll|'d| ?\\\\p{L}+| ?\\\\p{N}+| ?[^\\\\s"
     "\\\\p{L}\\\\p{N}]+|\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior\":\"Isolated\",\"invert\":false"
     "},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"us"
     "e_regex\":false}]},"},
    {"smollm starcoder refact codeshell minerva-7b", false,
     "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\","
     "\"individual_digits\":true},{\"type\":\"Split\",\"pattern\":{\"Regex\":\"'s|'t|'r"
     "e|'ve|'m|'ll|'d| ?\\\\p{L}+| ?\\\\p{N}+| ?[^\\\\s\\\\p{L}\\\\p{N}]+|\\\\s+(?!\\\\S)|"
     "\\\\s+\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\",\"add_"
     "prefix_space\":false,\"trim_offsets\":true,\"use_regex\":false}]},"},
    {"command-r", false,
     "{\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":\"Sequence\",\"preto"
     "kenizers\":[{\"type\":\"Digits\",\"individual_digits\":true},{\"type\":\"Split\",\""
     "pattern\":{\"Regex\":\"'s|'t|'re|'ve|'m|'ll|'d| ?\\\\p{L}+| ?\\\\p{N}+| "
     "?[^\\\\s\\\\p{L}\\\\p{N}]+|\\\\s+(?!\\\\S)|"
     "\\\\s+\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\",\"add_"
     "prefix_space\":false,\"trim_offsets\":true,\"use_regex\":false}]},"},
    {"llama-bpe llama3 llama-v3 falcon3 pixtral midm-2.0 lfm2", true,
     "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\""
     "pattern\":{\"Regex\":\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?"
     "\\\\p{L}+|\\\\p{N}{1,3}| "
     "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+("
     "?!\\\\S)|\\\\s+\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel"
     "\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":false}]},"},
    {"dbrx smaug-bpe chatglm-bpe", false,
     "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\""
     "pattern\":{\"Regex\":\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?"
     "\\\\p{L}+|\\\\p{N}{1,3}| "
     "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+("
     "?!\\\\S)|\\\\s+\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel"
     "\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":false}]},"},
    {"glm4", true,
     "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\""
     "pattern\":{\"Regex\":\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?"
     "\\\\p{L}+|\\\\p{N}{1,3}| "
     "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+("
     "?!\\\\S)|\\\\s+\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel"
     "\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":false}]},"},
    {"seed-coder", false,
     "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":"
     "{\"Regex\":\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1}"
     "|"
     " ?[^\\\\s\\\\p{L}\\\\p{N}\\\\r\\\\n]+|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"},"
     "\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\",\"add_prefix_space\":"
     "false,\"trim_offsets\":true,\"use_regex\":false}]},"},
    {"deepseek-v3 hunyuan-dense", false,
     "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":"
     "{\"Regex\":\"\\\\p{N}{1,3}\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":"
     "\"Split\","
     "\"pattern\":{\"Regex\":\"[一-龥぀-ゟ゠-ヿ]+\"},\"behavior\":\"Isolated\",\"invert\":"
     "false}"
     ","
     "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[!\\\"#$%&'()*+,\\\\-./:;<=>?@\\\\[\\\\\\\\\\\\]"
     "^_`{|}~][A-Za-z]+|[^\\\\r\\\\n\\\\p{L}\\\\p{P}\\\\p{S}]?[\\\\p{L}\\\\p{M}]+| "
     "?[\\\\p{P}\\\\p{S}]+"
     "[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior\":\"Isolated\","
     "\"invert\":false},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,"
     "\"use_regex\":false}]},"},
    {"qwen2 deepseek-r1-qwen megrez", false,
     "{\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":\"Sequence\",\"preto"
     "kenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?i:'s|'t|'re|'ve|'m|'l"
     "l|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| "
     "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\"
     "n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior\":\"Isolated\",\"invert\":fa"
     "lse},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,"
     "\"use_regex\":false}]},"},
    {"stablelm2 hunyuan", false,
     "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\""
     "pattern\":{\"Regex\":\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?"
     "\\\\p{L}+|\\\\p{N}| "
     "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S"
     ")|\\\\s+\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\",\"ad"
     "d_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":false}]},"},
    {"tekken", true,
     "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\""
     "pattern\":{\"Regex\":\"[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{"
     "Lo}"
     "\\\\p{M}]*[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}"
     "\\"
     "\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*|\\\\p{N}| ?[^"
     "\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/"
     "]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior"
     "\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\",\"add_prefix_space\":fa"
     "lse,\"trim_offsets\":true,\"use_regex\":false}]},"},
    {"gpt-4o llama4", false,
     "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\""
     "pattern\":{\"Regex\":\"[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{"
     "Lo}"
     "\\\\p{M}]*[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^"
     "\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+[\\\\p{Ll}"
     "\\\\p{L"
     "m}\\\\p{Lo}\\\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\\\p{N}{1,3}| ?[^\\\\s\\\\p{"
     "L}\\\\p{N}]+[\\\\r\\\\n/"
     "]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior\":\"Isol"
     "ated\",\"invert\":false},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"tr"
     "im_offsets\":true,\"use_regex\":false}]},"},
    {"deepseek-coder", false,
     "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\""
     "pattern\":{\"Regex\":\"[\\\\r\\\\n]\"},\"behavior\":\"Isolated\",\"invert\":false},{\""
     "type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\s?\\\\p{L}+\"},\"behavior\":\"Isolated\","
     "\"invert\":false},{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\s?\\\\p{P}+\"},\"beh"
     "avior\":\"Isolated\",\"invert\":false},{\"type\":\"Split\",\"pattern\":{\"Regex\":\""
     "[一-龥ࠀ-一가-퟿]+\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":"
     "\"Digits\","
     "\"individual_digits\":true},{\"type\":\"ByteLevel\",\"add_prefix_space\":false"
     ",\"trim_offsets\":true,\"use_regex\":false}]},"},
    {"deepseek-llm", false,
     "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\""
     "pattern\":{\"Regex\":\"[\\\\r\\\\n]\"},\"behavior\":\"Isolated\",\"invert\":false},{\""
     "type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\s?[\\\\p{Lu}\\\\p{Ll}\\\\p{Lt}]+\"},\"beha"
     "vior\":\"Isolated\",\"invert\":false},{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\"
     "\\s?[!-/:-~！-／：-～‘-‟　-。]+\"},\"behavior\":\"Isolated\",\"invert\":false},{\"typ"
     "e\":\"Split\",\"pattern\":{\"Regex\":\"\\\\s+$\"},\"behavior\":\"Isolated\",\"invert\":"
     "false},{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[一-龥ࠀ-一가-퟿]+\"},\"behavior\":"
     "\""
     "Isolated\",\"invert\":false},{\"type\":\"Digits\",\"individual_digits\":false},"
     "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_"
     "regex\":false}]},"},
    {"falcon", false,
     "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Punctuat"
     "ion\",\"behavior\":\"Contiguous\"},{\"type\":\"Split\",\"pattern\":{\"Regex\":\"'s|'"
     "t|'re|'ve|'m|'ll|'d| ?\\\\p{L}+| ?\\\\p{N}+| ?[^\\\\s\\\\p{L}\\\\p{N}]+|\\\\s+(?!\\"
     "\\S)|\\\\s+\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"Split\",\"patt"
     "ern\":{\"Regex\":\"[0-9]+\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":"
     "\"Split\",\"pattern\":{\"Regex\":\"[0-9][0-9][0-9]\"},\"behavior\":\"Isolated\",\"i"
     "nvert\":false},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offse"
     "ts\":true,\"use_regex\":false}]},"},
    {"default", false,
     "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\""
     "pattern\":{\"Regex\":\"[\\\\p{P}\\\\$\\\\+<=>\\\\^~\\\\|]+\"},\"behavior\":\"Isolated\","
     "\""
     "invert\":false},{\"type\":\"Split\",\"pattern\":{\"Regex\":\"'s|'t|'re|'ve|'m|'l"
     "l|'d| ?\\\\p{L}+| ?\\\\p{N}+| ?[^\\\\s\\\\p{L}\\\\p{N}]+|\\\\s+(?!\\\\S)|\\\\s+\"},\"beh"
     "avior\":\"Isolated\",\"invert\":false},{\"type\":\"Split\",\"pattern\":{\"Regex\":\""
     "\\\\p{N}+\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"Split\",\"patte"
     "rn\":{\"Regex\":\"[0-9][0-9][0-9]\"},\"behavior\":\"Isolated\",\"invert\":false},"
     "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_"
     "regex\":false}]},"},
};

static void test_pre_tokenizers_by_name(void **state)
{
    (void)state;
    uint32_t count = 0;
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        for (const char *at = sets[i].names; *at != '\0';) {
            char lines[256], name[32];
            size_t bytes = strcspn(at, " ");
            snprintf(name, sizeof name, "%.*s", (int)bytes, at);
            snprintf(lines, sizeof lines,
                     "tokenizer.ggml.model text gpt2\ntokenizer.ggml.merges texts a\n"
                     "tokenizer.ggml.pre text %s",
                     name);
            const struct document_case cases[] = {
                {"llama", TOKENIZER, lines, sets[i].wanted},
                {"llama", TOKENIZER, lines,
                 sets[i].whole_words ? "\"ignore_merges\":true" : "\"ignore_merges\":false"},
            };
            CHECK(cases);
            count++;
            at += bytes + (at[bytes] == ' ');
        }
    assert_int_equal(count, 38);
}

static void test_lengths_and_names(void **state)
{
    (void)state;
    static char lines[4][NAME_MAX_BYTES];
    static const struct {
        int bytes;
        const char *rest;
    } made[] = {{1024, " u32 1"}, {1025, " u32 1"}, {256, " tensor 0 8"}, {257, " tensor 0 8"}};
    for (int i = 0; i < 4; i++) {
        memset(lines[i], 'n', (size_t)made[i].bytes);
        strcpy(lines[i] + made[i].bytes, made[i].rest);
    }
    const struct document_case cases[] = {
        {"llama", CONFIG, lines[0], "\"eos_token_id\""},
        {"llama", CONFIG, lines[1], "!a key has 1025 bytes or a NUL among them"},
        {"llama", CONFIG, lines[2], "\"eos_token_id\""},
        {"llama", CONFIG, lines[3], "!a tensor's name has 257 bytes or a NUL among them"},
    };
    CHECK(cases);
}

// Refused types are named, and their tensors are measured nevertheless.
static void test_types_and_dimensions(void **state)
{
    (void)state;
    static const struct gguf_type types[] = {
        {"Q5_1", 7, 32, 24},      {"Q8_1", 9, 32, 36},    {"Q2_K", 10, 256, 84},
        {"Q3_K", 11, 256, 110},   {"Q8_K", 15, 256, 292}, {"IQ4_NL", 20, 32, 18},
        {"IQ4_XS", 23, 256, 136}, {"F64", 28, 1, 8},      {"BF16", 30, 1, 2},
        {"MXFP4", 39, 32, 17},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const struct gguf_type *type = gguf_type_of(types[i].id);
        assert_non_null(type);
        assert_string_equal(type->name, types[i].name);
        assert_true(type->elements == types[i].elements && type->bytes == types[i].bytes);
    }
    assert_null(gguf_type_of(4));
    for (uint32_t dims = 4; dims <= 5; dims++) {
        struct gguf_build b = {.key_count = 0};
        const uint64_t shape[5] = {2, 1, 1, 1, 1};
        gguf_key_count(&b, "a", 1);
        gguf_tensor_add(&b, "t", shape, dims, 0, (float[2]){0}, 8);
        struct gguf_bytes bytes = gguf_finish(&b);
        struct arena *arena = arena_create(0, 0);
        struct gguf file;
        struct error err;
        enum status status = gguf_parse(&file, arena, text_span(bytes.at, bytes.bytes), "m", &err);
        assert_true(dims == 4 ? status == STATUS_OK
                              : status != STATUS_OK && strstr(err.text, "has 5 dimensions"));
        arena_destroy(arena);
        heap_free(bytes.at);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_of_the_model),
        cmocka_unit_test(test_numbers_of_each_type),
        cmocka_unit_test(test_scalings),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_pre_tokenizers_by_name),
        cmocka_unit_test(test_keys_of_the_tokenizer),
        cmocka_unit_test(test_lengths_and_names),
        cmocka_unit_test(test_types_and_dimensions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
