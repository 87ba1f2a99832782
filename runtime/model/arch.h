// The one table of architectures: published name -> flags, tensor names, defaults. A new
// architecture of a known kind is a new row. Flags are for config.c and weights.c; the forward
// passes see weights that are there or not, and the configuration. Constant data.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum arch_family { ARCH_DECODER, ARCH_ENCODER };

enum arch_head {
    HEAD_NONE,       // hidden states (an embedder)
    HEAD_VOCABULARY, // logits of the next token
    HEAD_SCORE,      // decoders: one linear row over the last token ("score")
    HEAD_POOLER,     // BERT: tanh(pooler) of the first token, then "classifier"
    HEAD_CLASSIFIER, // RoBERTa: "classifier.dense", tanh, "classifier.out_proj"
};

enum arch_flag {
    ARCH_QKV_BIAS = 1,         // q, k and v have biases whatever the config says (Qwen2)
    ARCH_QK_NORM = 2,          // RMS norm over each head of q and k (Qwen3)
    ARCH_WINDOW_BY_FLAG = 4,   // sliding_window counts only with use_sliding_window (Qwen)
    ARCH_WINDOW = 8,           // sliding_window counts where it is not null (Mistral)
    ARCH_POSITION_OFFSET = 16, // positions begin at padding id + 1 (RoBERTa)
    ARCH_YES_NO = 32,          // can be a reranker that compares two tokens (Qwen3-Reranker)
    ARCH_YES_NO_PROMPT = 64,   // its score head may take the prompt of such a reranker
};

// How several ranks share a tensor (share.h). Of one whose columns are cut, the products of all
// ranks are added, and one of them adds the bias.
enum shard_axis { SHARD_NONE, SHARD_ROWS, SHARD_COLUMNS };

// NULL: the family has no such tensor.
struct arch_tensor {
    const char *name;
    enum shard_axis axis;
};

// Tensor names after the prefix; %u is the layer. Those without an axis are whole on every rank.
struct arch_names {
    const char *prefixes[4];        // tried in this order, up to a NULL
    const char *anchor;             // the tensor that tells which prefix a checkpoint has
    struct arch_tensor embed, head; // head: without a prefix
    const char *final_norm;
    const char *position, *type, *embed_norm; // encoders; norms without ".weight"
    struct arch_tensor q, k, v, o;            // without ".weight" and ".bias"
    const char *q_norm, *k_norm;
    const char *norm_attn, *norm_ffn;  // decoders: before; encoders: after
    struct arch_tensor gate, up, down; // encoders: up and down only
};

struct architecture {
    const char *name; // as published in config.json "architectures"
    enum arch_family family;
    enum arch_head head;
    uint32_t flags;
    const struct arch_names *names;
    double norm_epsilon; // where config.json does not say
    uint32_t kv_heads;   // where config.json does not say; 0: as many as heads
    uint32_t window;     // where config.json does not say (Mistral: 4096)
    uint32_t head_dim;   // where config.json does not say; 0: hidden / heads (Qwen3: 128)
    uint32_t types;      // where config.json does not say; 0: no token types
};

// NULL where the name is unknown.
const struct architecture *architecture_find(const char *name);

// "BertModel, LlamaForCausalLM, ..." into out.
void architecture_list(char *out, size_t bytes);
