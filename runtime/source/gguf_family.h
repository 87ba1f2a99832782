// SPDX-License-Identifier: Apache-2.0
// The table of the values of general.architecture that are served, and what the files have in
// common that write config.json. Loading thread only.
#pragma once

#include "base/json.h"
#include "runtime/source/gguf.h"

enum { GGUF_KEY_BYTES = 160 };

enum gguf_family_flag {
    GGUF_RANKS = 1,          // rerankers compare the tokens yes and no
    GGUF_PAIRED = 2,         // converters store the two rows of a rotary pair as neighbours
    GGUF_WINDOW = 4,         // attention.sliding_window is read
    GGUF_WINDOW_ROPE = 8,    // layers with a window have a rotary base of their own
    GGUF_QUERY_SCALAR = 16,  // the scale of attention follows from the number of layers
    GGUF_MULTIPLIERS = 32,   // factors of embeddings, residual, scores and logits are read
    GGUF_ROPE_SWITCH = 64,   // rope.scaling.finetuned false means no rotary embedding
    GGUF_TEMPERATURE = 128,  // attention.temperature_scale is read
    GGUF_LAYER_NORM = 256,   // norms are LayerNorm; norms of q and k are refused
    GGUF_LOGIT_SCALE = 512,  // logits are multiplied by logit_scale
    GGUF_ROPE_WINDOW = 1024, // only layers with a window have rotary embeddings
    GGUF_QK_NORM = 2048,     // use_qk_norm is written: true if q and k have norms
    GGUF_YARN_EXACT = 4096,  // the limits of yarn are not rounded; yarn is the default scaling
    GGUF_ROTARY = 8192,      // an encoder with a rotary embedding in place of a table of positions
};

// Values of expert_gating_func.
enum gguf_score { GGUF_SCORE_SOFTMAX = 1, GGUF_SCORE_SIGMOID = 2, GGUF_SCORE_CHOSEN = 3 };

enum gguf_mixture_flag {
    MIXTURE_NORM_KEY = 1, // config.json has norm_topk_prob; else weights always add up to 1
    MIXTURE_NORM = 2,     // weights add up to 1 if the file does not specify it
    MIXTURE_FACTOR = 4,   // expert_weights_scale is read
    MIXTURE_GROUPS = 8,   // expert_group_count and expert_group_used_count are read
};

// The mixture of experts of a family: the keys of config.json for it, and what is served.
struct gguf_mixture {
    const char *generator;                   // name in config.json of a file with experts
    const char *count, *chosen;              // keys: number of experts; experts of a token
    const char *width;                       // key: inner columns of an expert
    const char *shared_width, *shared_count; // keys of the shared expert; NULL: the family has none
    const char *dense, *interval; // keys: layers before the first with experts; interval of these
    enum gguf_score score;        // score that is served; other values are refused
    uint32_t flags;               // enum gguf_mixture_flag
};

struct gguf_family {
    const char *name;                 // value of general.architecture
    const char *generator, *embedder; // names in config.json; NULL: not served as such
    // Name in config.json of a generator whose queries are scaled by position (if the family has
    // GGUF_TEMPERATURE) or whose layers have a window (if not), and of an encoder with a head
    // (cls); NULL: the same name, and no such encoder.
    const char *variant;
    uint32_t flags; // enum gguf_family_flag
    // If attention.sliding_window_pattern is absent, each layer whose number, from 1 on, is a
    // multiple of `pattern` has no window; 0: all layers have one.
    uint32_t pattern;
    // keys of config_keys.h, named as in config.json, that gguf_config.c reads for the family;
    // NULL: none
    const char *reads;
    const struct gguf_mixture *mixture; // NULL: files with experts are refused
};

// Returns the family of this name, or NULL.
const struct gguf_family *gguf_family_find(struct text name);
// Writes the names of all families: "bert, llama and qwen2". Truncates at `bytes`.
void gguf_family_list(char *out, size_t bytes);

// Reads keys of a file and writes them as members of config.json.
struct config_writer {
    struct json_buffer *out; // NULL if keys are only read
    struct arena *scratch;
    const struct gguf *file;
    const struct gguf_family *family;
    struct error *err;
    enum status status; // the first failure; later calls do nothing
    uint32_t pooling;
    uint32_t heads, hidden, head_dim, layers, positions;
};

// Writes the full key: "llama.block_count" for "block_count".
void config_key_make(char out[GGUF_KEY_BYTES], const struct config_writer *w, const char *rest);
// Return the number of the key that ends with `rest`, the fallback if it is absent (NAN: it is
// required), or 0 after a failure. A count is a whole number.
uint32_t config_count_get(struct config_writer *w, const char *rest, double low, double high,
                          double fallback);
double config_number_get(struct config_writer *w, const char *rest, double low, double high,
                         double fallback);
// Write a member of config.json, with a comma before it; a number that is not finite becomes 0.
void config_put_count(struct config_writer *w, const char *field, uint32_t value);
void config_put_number(struct config_writer *w, const char *field, double value);

// Returns true if the file has a mixture of experts.
bool config_has_experts(struct config_writer *w);
// Writes the members about a mixture of experts (gguf_experts.c). The shape must have been read.
void config_put_experts(struct config_writer *w);
// Returns true for a key about experts that config_put_experts reads. rest: see config_key_make.
bool config_expert_key(const char *rest);

// Writes the members about rotary embeddings and scaling of positions (gguf_rope.c). The shape must
// have been read.
void config_put_rope(struct config_writer *w);
