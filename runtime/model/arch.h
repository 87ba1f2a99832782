// SPDX-License-Identifier: Apache-2.0
// The table of architectures: published name -> flags, tensor names, defaults. A new architecture
// of a known kind is a new row. config.c and weights.c use the flags; the forward passes only look
// at the configuration and at which weights exist. Constant data.
#pragma once

#include "kernels/experts.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum arch_family { ARCH_DECODER, ARCH_ENCODER };

enum arch_head {
    HEAD_NONE,           // no head: the hidden states are the output (embedder)
    HEAD_VOCABULARY,     // logits of the next token
    HEAD_SCORE,          // decoders: linear layer with one output, on the last token ("score")
    HEAD_POOLER,         // BERT: tanh("pooler") of the first token, then "classifier"
    HEAD_CLASSIFIER,     // RoBERTa: "classifier.dense", tanh, "classifier.out_proj"
    HEAD_PRE_CLASSIFIER, // DistilBERT: relu("pre_classifier") of the first token, "classifier"
    HEAD_DENSE_NORM,     // ModernBERT: "head.dense", activation, "head.norm", "classifier"
};

enum arch_flag {
    ARCH_QKV_BIAS = 1,            // q, k and v have biases, whatever config.json specifies (Qwen2)
    ARCH_QK_NORM = 2,             // RMS norm on each head of q and k (Qwen3)
    ARCH_WINDOW_BY_FLAG = 4,      // sliding_window applies only with use_sliding_window (Qwen)
    ARCH_WINDOW = 8,              // sliding_window applies if it is not null (Mistral)
    ARCH_POSITION_OFFSET = 16,    // positions start at padding id + 1 (RoBERTa)
    ARCH_YES_NO = 32,             // may be a reranker that compares logits (Qwen3-Reranker)
    ARCH_YES_NO_PROMPT = 64,      // with a score head, may use the prompt of such a reranker
    ARCH_QK_NORM_ALL = 128,       // RMS norm on all heads of q together, and on those of k (OLMo 2)
    ARCH_NORM_AFTER = 256,        // norms also on the outputs of attention and of the ffn (Gemma 3)
    ARCH_NORM_ONLY_AFTER = 512,   // norms only on the outputs of attention and of the ffn (OLMo 2)
    ARCH_NORM_LESS_ONE = 1 << 10, // checkpoints store norm weights less one (Gemma)
    ARCH_EMBED_ROOT = 1 << 11,    // embeddings are multiplied by sqrt(hidden) (Gemma)
    ARCH_GEGLU = 1 << 12,         // the gate is the tanh form of GELU (Gemma)
    ARCH_QUERY_SCALAR = 1 << 13,  // query_pre_attn_scalar sets the scale (Gemma 3)
    ARCH_WINDOW_PATTERN = 1 << 14,   // every sliding_window_pattern-th layer has no window
    ARCH_WINDOW_ROPE = 1 << 15,      // layers with a window have a rotary table without scaling
    ARCH_WINDOW_ROPE_ONLY = 1 << 16, // with windows, only their layers have rotary (EXAONE 4)
    ARCH_NO_ROPE_LAYERS = 1 << 17,   // no_rope_layers lists layers without rotary (SmolLM3)
    ARCH_PAIRED = 1 << 18,           // the two rows of a rotary pair are neighbours (GLM-4)
    ARCH_MULTIPLIERS = 1 << 19,      // factors of embeddings, residual, scores, logits (Granite)
    ARCH_OUT_BIAS = 1 << 20,         // attention_out_bias, not attention_bias, is that of o
    ARCH_USE_BIAS = 1 << 21,         // use_bias specifies the biases of all products (ERNIE 4.5)
    ARCH_QK_NORM_LAST = 1 << 22,     // RMS norm on each head of q and k after rotary (Hunyuan)
    ARCH_ROPE_ALPHA = 1 << 23,       // dynamic rotary scaling with alpha is static (Hunyuan)
    ARCH_LAYER_NORM = 1 << 24,       // norms are LayerNorm without bias (Cohere)
    ARCH_PARALLEL = 1 << 25,         // attention and the ffn read the same norm (Cohere)
    ARCH_LOGIT_SCALE = 1 << 26,      // logits are multiplied by logit_scale (Cohere)
    ARCH_ROPE_WINDOW = 1 << 27,      // only layers with a window have rotary (Cohere 2)
    ARCH_QK_NORM_BY_FLAG = 1 << 28,  // RMS norm on each head of q and k with use_qk_norm (GLM-4.5)
    ARCH_BOTH_KEY = 1 << 29,         // use_bidirectional_attention: tokens see later ones (Gemma 3)
    ARCH_BOTH_WAYS = 1 << 30,        // tokens always see later ones
};

// Differences of an encoder from BERT.
enum arch_form {
    FORM_ROPE = 1,       // a rotary embedding instead of a table of positions
    FORM_BEFORE = 2,     // norms before attention and ffn, none before the first attention
    FORM_UP_FIRST = 4,   // the tensor with both halves of a gated ffn has the gate second
    FORM_UP_PLAIN = 8,   // the first product of the ffn has no bias
    FORM_BIAS_KEYS = 16, // attention_bias and mlp_bias specify the biases
    FORM_ALIBI = 32,     // scores get a bias that falls with the distance
    FORM_BUCKETS = 64,   // scores get a bias by the distance's bucket
    FORM_WINDOW = 128,   // local_attention is a window on both sides
    FORM_SILU = 256,     // the activation of the gate must be SiLU
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
// every rank. Neighbours of q, k and v, or of gate and up, with the same name are parts of one
// tensor, in this order.
struct arch_names {
    const char *prefixes[4];        // tried in this order; ends with NULL
    const char *anchor;             // tensor whose name shows which prefix a checkpoint uses
    struct arch_tensor embed, head; // the head's name has no prefix
    const char *final_norm;
    const char *position, *type, *embed_norm; // encoders; names of norms lack ".weight"
    const char *distance;                     // FORM_BUCKETS: [buckets][heads]
    struct arch_tensor q, k, v, o;            // names lack ".weight" and ".bias"
    const char *q_norm, *k_norm;
    const char *sinks; // [heads], see struct attn_args; without ".weight"
    // Norms before the block (decoders) or after it (encoders); norm_ffn NULL: the ffn reads
    // norm_attn.
    const char *norm_attn, *norm_ffn;
    const char *post_attn, *post_ffn;  // norm of the output of attention and of the ffn
    struct arch_tensor gate, up, down; // not gated: up and down only
    // If gate and up are one tensor: name of the gate in checkpoints whose tensor `up` has only the
    // rows of up; NULL: there are none.
    struct arch_tensor gate_apart;
};

// Mixtures of experts: keys of config.json and tensor names of their layers. In names the first %u
// is the layer, the second the expert; keys and names that a family lacks are NULL.
struct arch_experts {
    enum route_score score;
    bool renormalises;  // true: weights are always divided by their sum; false: by norm_topk_prob
    const char *count;  // key: number of experts
    const char *chosen; // key: number of experts that a token chooses
    const char *width;  // key: inner columns of an expert
    const char *shared_width; // key: inner columns of the shared expert
    const char *shared_count; // key: inner columns of the shared expert, in units of `width`
    // Tensor names without ".weight", except that of the correction.
    const char *router;           // [experts][hidden]
    const char *correction;       // [experts]; complete name
    const char *gate, *up, *down; // tensors of one expert
    // Tensors of all experts, [experts][rows][columns], which are used if the checkpoint has them.
    // If gate_stack and up_stack are equal, each expert has the rows of its gate before those of
    // up.
    const char *gate_stack, *up_stack, *down_stack;
    bool complete; // true if names of stacks have no ".weight", and biases end with "_bias"
    bool turned;   // true if stacks are [experts][columns][rows], unless they hold codes
    bool either;   // true if stacks that are `turned` may also be [experts][rows][columns]
    bool paired;   // true if rows of gate and up alternate
    bool biases;   // true if the router and the stacks have biases
    bool clamped;  // true if the gate is GATE_CLAMPED, with swiglu_limit and swiglu_alpha
    struct arch_tensor shared_gate, shared_up, shared_down;
    const char *shared_factor; // [1][hidden]: gate of the shared expert's output
};

struct architecture {
    const char *name; // as published in config.json "architectures"
    enum arch_family family;
    enum arch_head head;
    uint32_t flags;
    uint32_t form; // encoders: enum arch_form
    const struct arch_names *names;
    double norm_epsilon; // default for config.json
    uint32_t kv_heads;   // default for config.json; 0: equal to heads
    uint32_t window;     // default for config.json (Mistral: 4096)
    uint32_t head_dim;   // default for config.json; 0: hidden / heads (Qwen3: 128)
    uint32_t types;      // default for config.json; 0: no token types
    // Keys of source/config_keys.h that this architecture reads in addition to those that its
    // family reads, separated by spaces; NULL: none.
    const char *reads;
    const struct arch_experts *experts; // NULL: the family has no mixtures of experts
    // Keys that checkpoints of this architecture may have under another name: "key:other",
    // separated by spaces; NULL: none.
    const char *renames;
    const char *defaults; // more defaults: JSON whose members config.json overrides; NULL: none
};

// Returns the architecture of this published name, or NULL.
const struct architecture *architecture_find(const char *name);

// Returns row i of the table, or NULL after the last one.
const struct architecture *architecture_at(uint32_t i);

// Takes the next pair of names from `renames`. Returns false after the last one.
bool architecture_rename_next(const char **renames, char key[128], const char **other);

// Gives values of config.json that are under other names (renames) their own key.
void architecture_rename(const struct architecture *arch, json_t *config);

// Writes the names of the families of architectures ("Llama, Mistral"), each once, to `out`, and
// truncates at `bytes`.
void architecture_list(char *out, size_t bytes);

// Appends the family of a published name to a list ("Llama, Mistral"), and truncates at `bytes`.
void architecture_list_add(char *out, size_t bytes, const char *name);
