// SPDX-License-Identifier: Apache-2.0
// The table of architectures: published name -> flags, tensor names, defaults. A new architecture
// of a known kind is a new row. config.c and weights.c use the flags; the forward passes only look
// at the configuration and at which weights exist. Constant data.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum arch_family { ARCH_DECODER, ARCH_ENCODER };

enum arch_head {
    HEAD_NONE,       // no head: the hidden states are the output (embedder)
    HEAD_VOCABULARY, // logits of the next token
    HEAD_SCORE,      // decoders: linear layer with one output, on the last token ("score")
    HEAD_POOLER,     // BERT: tanh("pooler") of the first token, then "classifier"
    HEAD_CLASSIFIER, // RoBERTa: "classifier.dense", tanh, "classifier.out_proj"
};

enum arch_flag {
    ARCH_QKV_BIAS = 1,         // q, k and v have biases, whatever config.json specifies (Qwen2)
    ARCH_QK_NORM = 2,          // RMS norm on each head of q and k (Qwen3)
    ARCH_WINDOW_BY_FLAG = 4,   // sliding_window applies only with use_sliding_window (Qwen)
    ARCH_WINDOW = 8,           // sliding_window applies if it is not null (Mistral)
    ARCH_POSITION_OFFSET = 16, // positions start at padding id + 1 (RoBERTa)
    ARCH_YES_NO = 32,          // may be a reranker that compares two logits (Qwen3-Reranker)
    ARCH_YES_NO_PROMPT = 64,   // with a score head, may use the prompt of such a reranker
};

// How several ranks share a tensor (share.h). For a tensor split by columns, the partial products
// of all ranks are summed, and rank 0 adds the bias.
enum shard_axis { SHARD_NONE, SHARD_ROWS, SHARD_COLUMNS };

// name NULL: the family has no such tensor.
struct arch_tensor {
    const char *name;
    enum shard_axis axis;
};

// Tensor names after the prefix; %u is the layer. Tensors without a shard axis are complete on
// every rank.
struct arch_names {
    const char *prefixes[4];        // tried in this order; ends with NULL
    const char *anchor;             // tensor whose name shows which prefix a checkpoint uses
    struct arch_tensor embed, head; // the head's name has no prefix
    const char *final_norm;
    const char *position, *type, *embed_norm; // encoders; names of norms lack ".weight"
    struct arch_tensor q, k, v, o;            // names lack ".weight" and ".bias"
    const char *q_norm, *k_norm;
    const char *norm_attn, *norm_ffn;  // norm before the block (decoders) or after it (encoders)
    struct arch_tensor gate, up, down; // encoders: up and down only
};

struct architecture {
    const char *name; // as published in config.json "architectures"
    enum arch_family family;
    enum arch_head head;
    uint32_t flags;
    const struct arch_names *names;
    double norm_epsilon; // default for config.json
    uint32_t kv_heads;   // default for config.json; 0: equal to heads
    uint32_t window;     // default for config.json (Mistral: 4096)
    uint32_t head_dim;   // default for config.json; 0: hidden / heads (Qwen3: 128)
    uint32_t types;      // default for config.json; 0: no token types
    // Keys of source/config_keys.h that this architecture reads in addition to those that its
    // family reads, separated by spaces; NULL: none.
    const char *reads;
};

// Returns the architecture of this published name, or NULL.
const struct architecture *architecture_find(const char *name);

// Returns row i of the table, or NULL after the last one.
const struct architecture *architecture_at(uint32_t i);

// Writes the names of the families of architectures ("Llama, Mistral"), each once, to `out`, and
// truncates at `bytes`.
void architecture_list(char *out, size_t bytes);
