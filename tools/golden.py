#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates tests/golden/*.json: the outputs of transformers for tiny models of each family.

No weights are stored. Element i of the tensor number t of a model is a whole number v from -64 to
63, taken from the top bits of splitmix64(seed + t * 2^32 + i), times a power of two (or 1 + v / 128
for norm weights); tests/runtime/golden.c generates the same bytes. All values are exact in float32,
bfloat16 and float16, so that every precision starts from the same model.

A file contains: config (config.json as published, old and new forms), files (other files of the
folder), tensors (name, shape, kind), inputs, expected (float32 run), bf16_error (relative Frobenius
error of transformers' bfloat16 run), greedy ids with the gap between the two largest logits.

Usage: python tools/golden.py [NAME...]   (needs torch and transformers; run from the root)
"""
import copy
import json
import math
import os
import sys
import tempfile

import numpy as np
import safetensors.torch
import torch
import transformers

import golden_jina

VOCAB, HIDDEN, LAYERS, HEADS, KV, INNER = 96, 64, 2, 4, 2, 96
OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden")
MASK = (1 << 64) - 1


def splitmix(seed, tensor, count):
    """Returns splitmix64(seed + tensor * 2^32 + i) for i below count."""
    z = np.arange(count, dtype=np.uint64) + np.uint64((seed + (tensor << 32)) & MASK)
    with np.errstate(over="ignore"):
        z = (z + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def noise(seed, tensor, count):
    """Returns `count` integers from -64 to 63: the top 7 bits of splitmix."""
    return (splitmix(seed, tensor, count) >> np.uint64(57)).astype(np.int64) - 64


def kind_of(name, shape):
    """Returns -1 for a norm weight, otherwise the exponent of the power of two that v is divided by."""
    if len(shape) == 1:
        return -1 if name.endswith("weight") else 5 if name.endswith("sinks") else 9
    if name.endswith("_bias"):
        return 7
    if "embed" in name:
        return 6
    if "e_score_correction_bias" in name:
        return 9
    if name.endswith(("mlp.gate.weight", "block_sparse_moe.gate.weight", "router.layer.weight", "mlp.router.weight")):
        return 6  # logits far apart, so that rounding changes few choices
    if len(shape) == 3:  # experts; those without ".weight" are [columns, rows]
        shape = shape[1:] if name.endswith(".weight") else shape[:0:-1]
    return 6 + max(0, round(math.log2(math.sqrt(shape[1]) / 2.5)))


def fill(seed, index, kind, shape):
    v = noise(seed, index, int(np.prod(shape))).astype(np.float64)
    values = 1 + v / 128 if kind < 0 else v / 2.0**kind
    return torch.tensor(values.reshape(shape), dtype=torch.float32)


def decoder(**more):
    config = dict(vocab_size=VOCAB, hidden_size=HIDDEN, num_hidden_layers=LAYERS,
                  num_attention_heads=HEADS, num_key_value_heads=KV, intermediate_size=INNER,
                  max_position_embeddings=64, rms_norm_eps=1e-6, hidden_act="silu",
                  bos_token_id=1, eos_token_id=2, rope_theta=10000.0, tie_word_embeddings=False)
    config.update(more)
    return {key: value for key, value in config.items() if key != "rope_theta" or value}


def encoder(**more):
    config = dict(vocab_size=VOCAB, hidden_size=HIDDEN, num_hidden_layers=LAYERS,
                  num_attention_heads=HEADS, intermediate_size=INNER, max_position_embeddings=64,
                  layer_norm_eps=1e-12, hidden_act="gelu", type_vocab_size=2, pad_token_id=0,
                  position_embedding_type="absolute")
    config.update(more)
    return config


def roberta(**more):
    return encoder(**{**dict(max_position_embeddings=66, type_vocab_size=1, pad_token_id=1,
                             bos_token_id=0, eos_token_id=2, layer_norm_eps=1e-5), **more})


def distilbert(**more):
    return {**dict(vocab_size=VOCAB, dim=HIDDEN, n_layers=LAYERS, n_heads=HEADS, hidden_dim=INNER,
                   max_position_embeddings=64, activation="gelu", pad_token_id=0), **more}


def modernbert(**more):
    return {**dict(vocab_size=VOCAB, hidden_size=HIDDEN, num_hidden_layers=4,
                   num_attention_heads=HEADS, intermediate_size=INNER, max_position_embeddings=64,
                   norm_eps=1e-5, hidden_activation="gelu", local_attention=16,
                   global_attn_every_n_layers=3, global_rope_theta=160000.0,
                   local_rope_theta=10000.0, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                   cls_token_id=1, sep_token_id=2), **more}


ONE_LABEL = dict(id2label={"0": "LABEL_0"}, label2id={"LABEL_0": 0})
NOMIC_SIZES = dict(vocab_size=VOCAB, hidden_size=HIDDEN, num_hidden_layers=LAYERS,
                   num_attention_heads=HEADS, intermediate_size=INNER, max_position_embeddings=64,
                   type_vocab_size=2, pad_token_id=0)


def pooling(mode, width=HIDDEN, after=()):
    """Files of a folder of sentence-transformers. after: modules after pooling, ("Dense", out, bias, activation), ("LayerNorm",) or ("Dropout",)."""
    files = pooling_only(mode, width)
    kinds = "sentence_transformers.models."
    for i, (kind, *more) in enumerate(after):
        path = f"{i + 2}_{kind}"
        files["modules.json"].insert(-1, {"idx": i + 2, "name": str(i + 2), "path": path, "type": kinds + kind})
        config = {"dimension": width} if kind == "LayerNorm" else {"dropout": 0.1}
        if kind == "Dense":
            config = {"in_features": width, "out_features": more[0], "bias": more[1], "activation_function": more[2]}
            width = more[0]
        files[path + "/config.json"] = config
    return files


def pooling_only(mode, width):
    return {
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling",
             "type": "sentence_transformers.models.Pooling"},
            {"idx": 2, "name": "2", "path": "2_Normalize",
             "type": "sentence_transformers.models.Normalize"}],
        "1_Pooling/config.json": {"word_embedding_dimension": width,
                                  "pooling_mode_cls_token": mode == "cls",
                                  "pooling_mode_mean_tokens": mode == "mean",
                                  "pooling_mode_max_tokens": mode == "max",
                                  "pooling_mode_weightedmean_tokens": mode == "weightedmean",
                                  "pooling_mode_lasttoken": mode == "last"},
    }


PUBLISHED = ("nomic_bert", "new", "gte")  # model types whose folders have other names than the modules
TANH, IDENTITY = "torch.nn.modules.activation.Tanh", "torch.nn.modules.linear.Identity"
LENGTHS = [1, 2, 7, 16, 33, 47]
LLAMA = "LlamaForCausalLM"
LONG = dict(short_factor=[1.0 + 0.1 * i for i in range(8)],
            long_factor=[1.5 + 0.5 * i for i in range(8)])


PAD = dict(pad_token_id=0)  # the classes' own may lie outside of the vocabulary
PHI_LONG = dict(partial_rotary_factor=0.75, original_max_position_embeddings=32, rope_scaling={
    "type": "longrope", "short_factor": LONG["short_factor"][:6],
    "long_factor": LONG["long_factor"][:6]}, **PAD)


def llama_scaled(scaling, **more):
    return dict(arch=LLAMA, type="llama", config=decoder(rope_scaling=scaling, **more))


MODELS = {
    "llama": dict(arch=LLAMA, type="llama", config=decoder(rope_scaling=None)),
    "llama-tied": dict(arch=LLAMA, type="llama",
                       config=decoder(tie_word_embeddings=True, num_key_value_heads=4)),
    "llama-lone-head": dict(arch=LLAMA, type="llama", lone_head=True,
                            config=decoder(tie_word_embeddings=True)),
    "llama-bias": dict(arch=LLAMA, type="llama",
                       config=decoder(attention_bias=True, mlp_bias=True)),
    "llama-linear": llama_scaled({"type": "linear", "factor": 2.0}),
    "llama-dynamic": llama_scaled({"type": "dynamic", "factor": 2.0}),
    "llama-dynamic-long": dict(
        **llama_scaled({"rope_type": "dynamic", "factor": 2.0}, max_position_embeddings=32),
        lengths=[48, 48, 48, 48], max_model_len=48, greedy=0),
    "llama-llama3": llama_scaled({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                  "high_freq_factor": 4.0,
                                  "original_max_position_embeddings": 16}),
    "llama-yarn": llama_scaled({"rope_type": "yarn", "factor": 4.0,
                                "original_max_position_embeddings": 16}),
    "llama-yarn-mscale": dict(arch=LLAMA, type="llama", config=decoder(rope_parameters={
        "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "beta_fast": 16.0,
        "beta_slow": 2.0, "mscale": 0.8, "mscale_all_dim": 0.5, "truncate": False,
        "original_max_position_embeddings": 16})),
    "llama-longrope-short": dict(
        **llama_scaled({"rope_type": "longrope", "original_max_position_embeddings": 32, **LONG}),
        lengths=[1, 5, 12, 16], max_model_len=32),
    "llama-longrope-long": dict(
        **llama_scaled({"rope_type": "longrope", "original_max_position_embeddings": 32, **LONG}),
        lengths=[33, 40, 44, 47]),
    "ministral3": dict(arch="Ministral3ForCausalLM", type="ministral3", config=decoder(
        head_dim=24, rope_parameters={
            "type": "yarn", "rope_theta": 1000000.0, "factor": 4.0, "beta_fast": 32.0,
            "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.4,
            "original_max_position_embeddings": 16, "max_position_embeddings": 64}, **PAD)),
    "ministral3-default": dict(arch="Ministral3ForCausalLM", type="ministral3", lengths=[1, 16, 47],
                               config=decoder(head_dim=24, rope_theta=None, **PAD)),
    "mistral": dict(arch="MistralForCausalLM", type="mistral",
                    config=decoder(sliding_window=8, head_dim=32)),
    "mistral-no-window": dict(arch="MistralForCausalLM", type="mistral",
                              config=decoder(sliding_window=None)),
    "mistral-small3": dict(arch="MistralForCausalLM", type="mistral", lengths=[1, 16, 47],
                           config=decoder(sliding_window=None, head_dim=32, rope_theta=None,
                                          rope_parameters={"rope_theta": 1e9,
                                                           "rope_type": "default"})),
    "qwen2": dict(arch="Qwen2ForCausalLM", type="qwen2",
                  config=decoder(tie_word_embeddings=True, use_sliding_window=False,
                                 sliding_window=4, max_window_layers=1)),
    "qwen2-window": dict(arch="Qwen2ForCausalLM", type="qwen2",
                         config=decoder(use_sliding_window=True, sliding_window=8,
                                        max_window_layers=1, num_hidden_layers=3)),
    "qwen3": dict(arch="Qwen3ForCausalLM", type="qwen3",
                  config=decoder(head_dim=24, rope_theta=1000000.0, attention_bias=False)),
    "bert-cls": dict(arch="BertModel", type="bert", config=encoder(), files=pooling("cls")),
    "bert-mean": dict(arch="BertModel", type="bert", config=encoder(), files=pooling("mean"),
                      prefix="bert.", types=True),
    "roberta-mean": dict(arch="RobertaModel", type="roberta", config=roberta(),
                         files=pooling("mean"), prefix="roberta."),
    "xlm-roberta-cls": dict(arch="XLMRobertaModel", type="xlm-roberta", config=roberta(),
                            files=pooling("cls")),
    "bert-rerank": dict(arch="BertForSequenceClassification", type="bert", types=True,
                        config=encoder(id2label={"0": "LABEL_0"}, label2id={"LABEL_0": 0})),
    "roberta-rerank": dict(arch="RobertaForSequenceClassification", type="roberta",
                           config=roberta(id2label={"0": "LABEL_0"}, label2id={"LABEL_0": 0})),
    "xlm-roberta-rerank": dict(arch="XLMRobertaForSequenceClassification", type="xlm-roberta",
                               config=roberta(id2label={"0": "LABEL_0"},
                                              label2id={"LABEL_0": 0})),
    "camembert-mean": dict(arch="CamembertModel", type="camembert", config=roberta(),
                           files=pooling("mean")),
    "camembert-rerank": dict(arch="CamembertForSequenceClassification", type="camembert",
                             config=roberta(id2label={"0": "LABEL_0"}, label2id={"LABEL_0": 0})),
    "qwen3-embedding": dict(arch="Qwen3ForCausalLM", type="qwen3", pool="last",
                            config=decoder(head_dim=24, tie_word_embeddings=True),
                            files=pooling("last")),
    "qwen3-model": dict(arch="Qwen3Model", type="qwen3", pool="last", config=decoder(head_dim=24)),
    "mistral-model": dict(arch="MistralModel", type="mistral", pool="last",
                          config=decoder(sliding_window=8)),
    "llama-mean": dict(arch="LlamaModel", type="llama", pool="mean", config=decoder(),
                       files=pooling("mean")),
    "qwen3-reranker": dict(arch="Qwen3ForCausalLM", type="qwen3", answers=(17, 5),
                           config=decoder(head_dim=24, tie_word_embeddings=True,
                                          is_original_qwen3_reranker=True)),
    "qwen3-reranker-score": dict(arch="Qwen3ForCausalLM", type="qwen3", answers=(9, 40),
                                 config=decoder(head_dim=24), files={
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "name": "1", "path": "1_LogitScore",
             "type": "sentence_transformers.cross_encoder.models.LogitScore"}],
        "1_LogitScore/config.json": {"true_token_id": 9, "false_token_id": 40}}),
    "qwen2-reranker": dict(arch="Qwen2ForCausalLM", type="qwen2", answers=(16, 15),
                           config=decoder(classifier_from_token=["0", "1"])),
    "gemma-reranker": dict(arch="GemmaForCausalLM", type="gemma", answers=(35, -1), config=decoder(
        head_dim=32, hidden_act="gelu", tie_word_embeddings=True, classifier_from_token=["Yes"], **PAD)),
    "qwen2-classifier": dict(arch="Qwen2ForSequenceClassification", type="qwen2",
                             config=decoder(id2label={"0": "LABEL_0"}, label2id={"LABEL_0": 0},
                                            pad_token_id=0)),
    "gemma": dict(arch="GemmaForCausalLM", type="gemma",
                  config=decoder(head_dim=32, hidden_act="gelu", tie_word_embeddings=True, **PAD)),
    "gemma3": dict(arch="Gemma3ForCausalLM", type="gemma3_text", config=decoder(
        head_dim=24, hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=20,
        tie_word_embeddings=True, num_hidden_layers=3, sliding_window=8, sliding_window_pattern=3,
        rope_theta=1000000.0, rope_local_base_freq=10000.0,
        rope_scaling={"rope_type": "linear", "factor": 8.0}, **PAD)),
    "gemma3-nested": dict(arch="Gemma3ForCausalLM", type="gemma3_text", config=decoder(
        head_dim=24, hidden_activation="gelu_pytorch_tanh", tie_word_embeddings=True,
        num_hidden_layers=3, sliding_window=8,
        layer_types=["full_attention", "sliding_attention", "sliding_attention"],
        rope_parameters={
            "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 500000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 5000.0}}, **PAD)),
    "phi3": dict(arch="Phi3ForCausalLM", type="phi3", config=decoder(sliding_window=8, **PAD)),
    "phi3-longrope-short": dict(arch="Phi3ForCausalLM", type="phi3", config=decoder(**PHI_LONG),
                                lengths=[1, 5, 12, 16], max_model_len=32),
    "phi3-longrope-long": dict(arch="Phi3ForCausalLM", type="phi3", config=decoder(**PHI_LONG),
                               lengths=[33, 40, 44, 47]),
    "olmo2": dict(arch="Olmo2ForCausalLM", type="olmo2", config=decoder(**PAD)),
    "olmo3": dict(arch="Olmo3ForCausalLM", type="olmo3", config=decoder(
        num_hidden_layers=4, sliding_window=8, rope_theta=500000.0, rope_scaling={
            "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16,
            "attention_factor": 1.2, "beta_fast": 32.0, "beta_slow": 1.0}, **PAD)),
    "granite": dict(arch="GraniteForCausalLM", type="granite", config=decoder(
        embedding_multiplier=12.0, residual_multiplier=0.22, attention_multiplier=0.0625,
        logits_scaling=8.0, tie_word_embeddings=True, **PAD)),
    "granite-bias": dict(arch="GraniteForCausalLM", type="granite", config=decoder(
        attention_bias=True, mlp_bias=True, attention_multiplier=0.3, **PAD)),
    "smollm3": dict(arch="SmolLM3ForCausalLM", type="smollm3", config=decoder(
        num_hidden_layers=4, no_rope_layers=[1, 0, 1, 1], rope_theta=2000000.0,
        tie_word_embeddings=True, **PAD)),
    "smollm3-interval": dict(arch="SmolLM3ForCausalLM", type="smollm3", config=decoder(
        num_hidden_layers=4, no_rope_layer_interval=2, **PAD)),
    "exaone4": dict(arch="Exaone4ForCausalLM", type="exaone4", config=decoder(
        num_hidden_layers=4, sliding_window=8, sliding_window_pattern=2, rope_theta=1000000.0,
        **PAD)),
    "exaone4-no-window": dict(arch="Exaone4ForCausalLM", type="exaone4", config=decoder(
        sliding_window=None, sliding_window_pattern=None, layer_types=["full_attention"] * 2,
        rope_scaling={"rope_type": "llama3", "factor": 16.0, "low_freq_factor": 1.0,
                      "high_freq_factor": 4.0, "original_max_position_embeddings": 16},
        tie_word_embeddings=True, **PAD)),
    "hunyuan": dict(arch="HunYuanDenseV1ForCausalLM", type="hunyuan_v1_dense", config=decoder(
        head_dim=24, use_qk_norm=True, tie_word_embeddings=True, rope_scaling={
            "type": "dynamic", "alpha": 1000.0, "beta_fast": 32, "beta_slow": 1, "factor": 1.0,
            "mscale": 1.0, "mscale_all_dim": 1.0}, **PAD)),
    "hunyuan-bias": dict(arch="HunYuanDenseV1ForCausalLM", type="hunyuan_v1_dense",
                         lengths=[1, 16, 47],
                         config=decoder(head_dim=16, attention_bias=True, **PAD)),
    "cohere": dict(arch="CohereForCausalLM", type="cohere", config=decoder(
        head_dim=16, logit_scale=0.25, layer_norm_eps=1e-5, position_embedding_type="rope_gptj",
        tie_word_embeddings=True, rope_theta=8000000.0, **PAD)),
    "cohere-bias": dict(arch="CohereForCausalLM", type="cohere", lengths=[1, 16, 47],
                        config=decoder(attention_bias=True, rope_theta=None, **PAD)),
    "cohere2": dict(arch="Cohere2ForCausalLM", type="cohere2", config=decoder(
        num_hidden_layers=4, sliding_window=8, sliding_window_pattern=3, logit_scale=0.3,
        tie_word_embeddings=True, rope_theta=50000.0, **PAD)),
    "seed-oss": dict(arch="SeedOssForCausalLM", type="seed_oss",
                     config=decoder(head_dim=24, attention_bias=True, **PAD)),
    "seed-oss-bias": dict(arch="SeedOssForCausalLM", type="seed_oss", config=decoder(
        head_dim=24, attention_bias=False, attention_out_bias=True, mlp_bias=True, **PAD)),
    "glm4": dict(arch="Glm4ForCausalLM", type="glm4", config=decoder(
        head_dim=32, partial_rotary_factor=0.5, attention_bias=True, **PAD)),
    "qwen3-moe": dict(arch="Qwen3MoeForCausalLM", type="qwen3_moe", experts=True, config=decoder(
        num_hidden_layers=3, num_experts=8, num_experts_per_tok=3, moe_intermediate_size=32,
        head_dim=24, norm_topk_prob=True, mlp_only_layers=[1], **PAD)),
    "qwen2-moe": dict(arch="Qwen2MoeForCausalLM", type="qwen2_moe", experts=True, config=decoder(
        num_experts=6, num_experts_per_tok=2, moe_intermediate_size=48,
        shared_expert_intermediate_size=80, **PAD)),
    "mixtral": dict(arch="MixtralForCausalLM", type="mixtral", experts=True, config=decoder(
        num_local_experts=6, num_experts_per_tok=4, head_dim=24, **PAD)),
    "olmoe": dict(arch="OlmoeForCausalLM", type="olmoe", experts=True, config=decoder(
        num_experts=8, num_experts_per_tok=3, **PAD)),
    "granite-moe": dict(arch="GraniteMoeForCausalLM", type="granitemoe", experts=True, config=decoder(
        num_local_experts=6, num_experts_per_tok=2, embedding_multiplier=12.0,
        residual_multiplier=0.22, attention_multiplier=0.0625, logits_scaling=3.0, **PAD)),
    "glm4-moe": dict(arch="Glm4MoeForCausalLM", type="glm4_moe", experts=True, config=decoder(
        num_hidden_layers=2, n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=32,
        n_shared_experts=2, n_group=4, topk_group=2, routed_scaling_factor=1.5,
        first_k_dense_replace=1, norm_topk_prob=True, use_qk_norm=True, attention_bias=True,
        head_dim=16, partial_rotary_factor=0.5, num_nextn_predict_layers=0, **PAD)),
    "ernie4-5-moe": dict(arch="Ernie4_5_MoeForCausalLM", type="ernie4_5_moe", experts=True,
                         config=decoder(
        moe_num_experts=6, moe_k=2, moe_intermediate_size=32, moe_num_shared_experts=2,
        moe_layer_start_index=1, moe_layer_end_index=1, moe_layer_interval=1, use_bias=False,
        **PAD)),
    "minimax-m2": dict(arch="MiniMaxM2ForCausalLM", type="minimax_m2", experts=True, config=decoder(
        num_local_experts=8, num_experts_per_tok=3, head_dim=16, rotary_dim=8, **PAD)),
    "gpt-oss": dict(arch="GptOssForCausalLM", type="gpt_oss", experts=True, config=decoder(
        num_local_experts=6, num_experts_per_tok=3, intermediate_size=48, head_dim=16, sliding_window=8,
        rope_theta=150000.0, swiglu_limit=1.0, rope_scaling={
            "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 32.0,
            "beta_slow": 1.0, "truncate": False}, **PAD)),
    "distilbert-mean": dict(arch="DistilBertModel", type="distilbert", config=distilbert(),
                            files=pooling("mean")),
    "distilbert-rerank": dict(arch="DistilBertForSequenceClassification", type="distilbert",
                              config=distilbert(**ONE_LABEL)),
    "mpnet-mean": dict(arch="MPNetModel", type="mpnet", files=pooling("mean"),
                       config=roberta(relative_attention_num_buckets=32)),
    "modernbert-cls": dict(arch="ModernBertModel", type="modernbert", config=modernbert(),
                           files=pooling("cls")),
    "modernbert-rerank": dict(arch="ModernBertForSequenceClassification", type="modernbert",
                              config=modernbert(classifier_pooling="cls", **ONE_LABEL)),
    "modernbert-rerank-mean": dict(
        arch="ModernBertForSequenceClassification", type="modernbert", config=modernbert(
            classifier_pooling="mean", classifier_bias=True, norm_bias=True, attention_bias=True,
            mlp_bias=True, layer_types=["sliding_attention", "full_attention"] * 2,
            rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 40000.0},
                             "sliding_attention": {"rope_type": "default", "rope_theta": 900.0}},
            **ONE_LABEL)),
    # The names of keys before and since transformers 5.
    "nomic-v1": dict(arch="NomicBertModel", type="nomic_bert", types=True, files=pooling("mean"),
                     config=dict(vocab_size=VOCAB, n_embd=HIDDEN, n_layer=LAYERS, n_head=HEADS,
                                 n_inner=INNER, n_positions=64, max_trained_positions=48,
                                 activation_function="swiglu", layer_norm_epsilon=1e-12,
                                 rotary_emb_base=1000, rotary_emb_fraction=1.0,
                                 rotary_emb_interleaved=False, rotary_scaling_factor=None,
                                 qkv_proj_bias=False, mlp_fc1_bias=False, mlp_fc2_bias=False,
                                 prenorm=False, parallel_block=False, use_rms_norm=False,
                                 causal=False, type_vocab_size=2),
                     reference=dict(rope_parameters={"rope_type": "default",
                                                     "rope_theta": 1000.0}, hidden_act="silu",
                                    layer_norm_eps=1e-12, **NOMIC_SIZES)),
    "nomic": dict(arch="NomicBertModel", type="nomic_bert", files=pooling("mean"),
                  config=dict(rope_parameters={"rope_type": "default", "rope_theta": 500.0},
                              hidden_act="silu", layer_norm_eps=1e-5, **NOMIC_SIZES)),
    "new-ntk": dict(arch="NewModel", type="new", cls="GteModel", files=pooling("cls"), ntk=2.0,
                    config=encoder(position_embedding_type="rope", type_vocab_size=0,
                                   rope_theta=5000.0, layer_norm_type="layer_norm",
                                   rope_scaling={"type": "ntk", "factor": 2.0},
                                   logn_attention_scale=False),
                    reference=encoder(type_vocab_size=0, rope_parameters={
                        "rope_type": "default", "rope_theta": 10000.0})),
    "new-rerank": dict(arch="NewForSequenceClassification", type="new",
                       cls="GteForSequenceClassification",
                       config=encoder(position_embedding_type="rope", type_vocab_size=1,
                                      rope_theta=20000.0, **ONE_LABEL),
                       reference=encoder(type_vocab_size=1, rope_parameters={
                           "rope_type": "default", "rope_theta": 20000.0}, **ONE_LABEL)),
    "gte": dict(arch="GteModel", type="gte", files=pooling("cls"), types=True,
                config=dict(encoder(rope_parameters={"rope_type": "default",
                                                     "rope_theta": 160000.0}),
                            position_embedding_type=None)),
    "bert-max": dict(arch="BertModel", type="bert", config=encoder(), files=pooling("max", after=[
        ("LayerNorm",), ("Dropout",), ("Dense", 40, True, TANH)])),
    "bert-weighted": dict(arch="BertModel", type="bert", config=encoder(), files=pooling("weightedmean")),
    "embeddinggemma": dict(
        arch="Gemma3TextModel", type="gemma3_text", config=decoder(
            head_dim=24, hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=24,
            num_hidden_layers=3, sliding_window=8, use_bidirectional_attention=True,
            layer_types=["sliding_attention", "sliding_attention", "full_attention"],
            rope_theta=1000000.0, rope_local_base_freq=10000.0, **PAD),
        files=pooling("mean", after=[("Dense", 96, False, IDENTITY), ("Dense", 64, False, IDENTITY)])),
    "llama-both": dict(arch="LlamaBidirectionalModel", type="llama_bidirec", cls="LlamaModel", pool="mean",
                       config=decoder(pooling="avg"), reference=decoder(is_causal=False)),
    "qwen2-both": dict(arch="Qwen2ForCausalLM", type="qwen2", pool="last", files=pooling("last"),
                       config=decoder(is_causal=False)),
    "qwen3-both": dict(arch="Qwen3Model", type="qwen3", pool="mean", files=pooling("mean"),
                       config=decoder(head_dim=24, is_causal=False)),
    # Published under BERT's name; the heads are no power of two.
    "jina-mean": dict(arch="BertModel", type="bert", cls="JinaBert", types=True, files=pooling("mean"),
                      config=encoder(num_attention_heads=6, hidden_size=96, intermediate_size=64,
                                     position_embedding_type="alibi", feed_forward_type="geglu")),
    "jina-model": dict(arch="JinaBertForMaskedLM", type="bert", cls="JinaBert", files=pooling("mean"),
                       config=encoder(num_attention_heads=1, position_embedding_type="alibi",
                                      feed_forward_type="geglu")),
    "helium": dict(arch="HeliumForCausalLM", type="helium", config=decoder(
        head_dim=16, rms_norm_eps=1e-8, rope_theta=None)),
    "helium-bias": dict(arch="HeliumForCausalLM", type="helium", lengths=[1, 16, 47], config=decoder(
        head_dim=16, attention_bias=True, mlp_bias=True, tie_word_embeddings=True)),
    "ernie4-5": dict(arch="Ernie4_5ForCausalLM", type="ernie4_5", config=decoder(
        head_dim=24, use_bias=True, tie_word_embeddings=True, **PAD)),
}


def load(folder, arch, dtype):
    return getattr(transformers, arch).from_pretrained(folder, dtype=dtype,
                                                       attn_implementation="eager").eval()


def pooled(hidden, mode, modules):
    from sentence_transformers.models import Pooling
    kind = {"last": "lasttoken"}.get(mode, mode)
    features = {"token_embeddings": hidden[None].float(), "attention_mask": torch.ones(1, len(hidden))}
    x = Pooling(hidden.shape[-1], pooling_mode=kind)(features)["sentence_embedding"]
    for module in modules:
        x = module({"sentence_embedding": x.to(hidden.dtype)})["sentence_embedding"]
    x = x[0].float()
    return (x / x.norm().clamp(min=1e-12)).tolist()


def modules_make(spec, seed, index):
    """Returns the modules after pooling with their values, and their tensors by folder; index: of the first tensor."""
    from sentence_transformers import models
    made, tensors = [], {}
    for entry in spec.get("files", {}).get("modules.json", []):
        kind = entry["type"].split(".")[-1]
        if kind not in ("Dense", "LayerNorm"):
            continue
        config = dict(spec["files"][entry["path"] + "/config.json"])
        if kind == "Dense":
            config["activation_function"] = getattr(torch.nn, config["activation_function"].split(".")[-1])()
        module = getattr(models, kind)(**config)
        values = {}
        for key in sorted(module.state_dict()):
            shape = list(module.state_dict()[key].shape)
            values[key] = fill(seed, index, kind_of(key, shape), shape)
            tensors.setdefault(entry["path"], []).append([key, shape, kind_of(key, shape)])
            index += 1
        module.load_state_dict(values)
        made.append(module.eval())
    return made, tensors


@torch.no_grad()
def outputs(model, spec, inputs, types, modules):
    result = []
    for ids, type_from in zip(inputs, types):
        more = {}
        if type_from is not None:
            more["token_type_ids"] = torch.tensor([[int(i >= type_from) for i in range(len(ids))]])
        out = model(input_ids=torch.tensor([ids]), **more)
        if "ForCausalLM" in spec["arch"] and "pool" not in spec:
            last = out.logits[0, -1].float()
            if "answers" in spec:
                yes, no = spec["answers"]
                result.append([(last[yes] - (last[no] if no >= 0 else 0)).item()])
            else:
                result.append(last.tolist())
        elif "Classification" in spec["arch"]:
            result.append(out.logits[0].float().tolist())
        else:
            mode = spec.get("pool")
            for name, value in spec.get("files", {}).get("1_Pooling/config.json", {}).items():
                if value is True:
                    mode = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean",
                            "pooling_mode_lasttoken": "last", "pooling_mode_max_tokens": "max",
                            "pooling_mode_weightedmean_tokens": "weightedmean"}[name]
            result.append(pooled(out.last_hidden_state[0], mode, modules))
    return result


@torch.no_grad()
def greedy(model, ids, count):
    ids, gaps, drawn = list(ids), [], []
    for _ in range(count):
        best = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].float().topk(2)
        drawn.append(best.indices[0].item())
        gaps.append(round((best.values[0] - best.values[1]).item(), 6))
        ids.append(drawn[-1])
    return drawn, gaps


def published_load(folder, values, cls, dtype, spec):
    """Loads values under published names; the folder has the reference's config.json."""
    safetensors.torch.save_file(values, os.path.join(folder, "model.safetensors"), {"format": "pt"})
    model, info = getattr(transformers, cls).from_pretrained(
        folder, dtype=dtype, attn_implementation="eager", output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"], info
    if "ntk" in spec:  # the fixed NTK scaling of NewModel's remote code: theta x factor, then / factor^(2 / dim)
        dim = model.config.hidden_size // model.config.num_attention_heads
        model.rotary_emb.inv_freq /= spec["ntk"] ** (2 / dim)
    return model.eval()


def make(name, spec):
    seed = sum(ord(c) << (i % 24) for i, c in enumerate(name)) + 1
    config = {"architectures": [spec["arch"]], "model_type": spec["type"],
              "torch_dtype": "float32", **spec["config"]}
    generator = np.random.default_rng(seed)
    scored = "Classification" in spec["arch"] or "answers" in spec
    lengths = spec.get("lengths", LENGTHS * (4 if scored else 1))
    inputs = [generator.integers(3, VOCAB, n).tolist() for n in lengths]
    types = [n // 2 if spec.get("types") else None for n in lengths]
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(config, file)
        # A checkpoint whose ForCausalLM is pooled: hidden states come from its base.
        cls = spec.get("cls", spec["arch"])
        if "reference" in spec:
            kind = {"new": "gte", "llama_bidirec": "llama"}.get(spec["type"], spec["type"])
            with open(os.path.join(folder, "config.json"), "w") as file:
                json.dump({"model_type": kind, "torch_dtype": "float32", **spec["reference"]}, file)
        if "pool" in spec:
            cls = cls.replace("ForCausalLM", "Model")
        own = golden_jina.JinaBert(config) if cls == "JinaBert" else None
        model = own or getattr(transformers, cls)(getattr(transformers, "AutoConfig").from_pretrained(folder))
        published = spec["type"] in PUBLISHED
        state = model.state_dict()
        if published or spec.get("experts"):  # the files have other names than the modules
            model.save_pretrained(folder)
            state = safetensors.torch.load_file(os.path.join(folder, "model.safetensors"))
        tied = config.get("tie_word_embeddings") and "lm_head.weight" in state
        tensors, values = [], {}
        for key in sorted(state):
            if state[key].dtype != torch.float32 or (tied and key == "lm_head.weight"):
                continue
            shape = list(state[key].shape)
            kind = kind_of(key, shape)
            values[key] = fill(seed, len(tensors), kind, shape)
            stored = key.replace("gte.", "new.", 1) if spec["type"] == "new" else key
            stored = "lm_head.weight" if spec.get("lone_head") and "embed_tokens" in key else stored
            if cls != spec["arch"] and not own and not published:
                stored = "model." + key
            tensors.append([spec.get("prefix", "") + stored, shape, kind])
        if tied:
            values["lm_head.weight"] = values["model.embed_tokens.weight"]
        if published:
            full = published_load(folder, values, cls, torch.float32, spec)
            half = published_load(folder, values, cls, torch.bfloat16, spec)
        elif own:
            model.load_state_dict(values)
            full, half = copy.deepcopy(model).double(), model.bfloat16()
        else:
            if spec.get("experts"):
                safetensors.torch.save_file(values, os.path.join(folder, "model.safetensors"),
                                            metadata={"format": "pt"})
            else:
                model.load_state_dict(values, strict=False)
                model.save_pretrained(folder)
            full = load(folder, cls, torch.float32)
            half = load(folder, cls, torch.bfloat16)
        modules, module_tensors = modules_make(spec, seed, len(tensors))
        expected = outputs(full, spec, inputs, types, modules)
        rough = outputs(half, spec, inputs, types, [copy.deepcopy(m).bfloat16() for m in modules])
    e, r = np.array(expected), np.array(rough)
    golden = {"config": config, "files": spec.get("files", {}), "seed": seed, "tensors": tensors,
              "max_model_len": spec.get("max_model_len", 0), "inputs": inputs, "types_from": types,
              "answers": spec.get("answers", [-1, -1]),
              "bf16_error": float(np.linalg.norm(r - e) / np.linalg.norm(e)),
              **({"module_tensors": module_tensors} if module_tensors else {}),
              "expected": [[float(f"{x:.7g}") for x in row] for row in expected]}
    if "ForCausalLM" in spec["arch"] and "pool" not in spec and "answers" not in spec:
        golden["greedy"], golden["gaps"] = [], []
        for ids in inputs:
            drawn, gaps = greedy(full, ids, spec.get("greedy", min(16, 64 - len(ids))))
            golden["greedy"].append(drawn)
            golden["gaps"].append(gaps)
    path = os.path.join(OUT, name + ".json")
    with open(path, "w") as file:
        file.write(json.dumps(golden, separators=(",", ":"), sort_keys=True) + "\n")
    print(f"{name}: {len(tensors)} tensors, bf16 error {golden['bf16_error']:.2e}, "
          f"{os.path.getsize(path)} bytes")


def rope_cases():
    """Returns rotary frequencies as transformers computes them, for shapes of published models."""
    big = dict(hidden_size=4096, num_attention_heads=32, num_key_value_heads=8,
               max_position_embeddings=131072)
    phi = dict(hidden_size=3072, num_attention_heads=32, num_key_value_heads=32,
               max_position_embeddings=131072)
    factors = dict(short_factor=[1.0 + 0.05 * i for i in range(48)],
                   long_factor=[1.0 + 0.75 * i for i in range(48)])
    return [
        (dict(rope_theta=500000.0, **big), None),
        (dict(rope_theta=500000.0, rope_scaling=dict(
            rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
            original_max_position_embeddings=8192), **big), None),
        (dict(rope_scaling=dict(type="linear", factor=4.0), **big), None),
        (dict(rope_scaling=dict(type="dynamic", factor=4.0), **big), 262144),
        (dict(rope_theta=1000000.0, rope_scaling=dict(
            rope_type="yarn", factor=4.0, original_max_position_embeddings=32768), **big), None),
        (dict(rope_scaling=dict(
            rope_type="yarn", factor=40.0, mscale=1.0, mscale_all_dim=0.7, beta_fast=32,
            beta_slow=1, original_max_position_embeddings=4096), **big), None),
        (dict(rope_scaling=dict(
            rope_type="yarn", factor=4.0, attention_factor=1.25,
            original_max_position_embeddings=32768), **big), None),
        (dict(rope_scaling=dict(rope_type="linear", factor=2.0), partial_rotary_factor=0.5, **big),
         None),
        (dict(rope_scaling=dict(type="longrope", original_max_position_embeddings=4096, **factors),
              **phi), 4096),
        (dict(rope_scaling=dict(type="longrope", original_max_position_embeddings=4096, **factors),
              **phi), 131072),
        # transformers ignores attn_factor (DeepSeek-R1-0528-Qwen3-8B).
        (dict(rope_scaling=dict(
            rope_type="yarn", factor=4.0, attn_factor=0.8782488562869419,
            original_max_position_embeddings=32768), **big), None),
        # The ramp ends between half of the columns and all of them.
        (dict(rope_scaling=dict(
            rope_type="yarn", factor=4.0, original_max_position_embeddings=131072), **big), None),
    ]


def rope_make():
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
    cases = []
    for given, length in rope_cases():
        config = transformers.LlamaConfig(**json.loads(json.dumps(given)))
        kind = config.rope_parameters["rope_type"]
        of = ROPE_INIT_FUNCTIONS.get(kind, LlamaRotaryEmbedding.compute_default_rope_parameters)
        frequencies, scale = of(config, seq_len=length) if kind != "default" else of(config)
        whole = {"architectures": [LLAMA], "vocab_size": 1000, "num_hidden_layers": 1,
                 "intermediate_size": 128, **given}
        cases.append({"config": whole, "length": length or given["max_position_embeddings"],
                      "scale": scale, "frequencies": [float(f"{x:.8g}") for x in frequencies]})
    os.makedirs(os.path.join(OUT, "rope"), exist_ok=True)
    with open(os.path.join(OUT, "rope", "cases.json"), "w") as file:
        file.write(json.dumps(cases, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    if not sys.argv[1:] or "rope" in sys.argv[1:]:
        rope_make()
        sys.argv = [name for name in sys.argv if name != "rope"]
    for model_name in sys.argv[1:] or MODELS:
        make(model_name, MODELS[model_name])
