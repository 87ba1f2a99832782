// SPDX-License-Identifier: Apache-2.0
// The checked contents of config.json and the other JSON files of a model folder. Weights are not
// opened here. Loading thread only; the struct holds no memory that must be freed.
#pragma once

#include "kernels/dtype.h"
#include "kernels/ops.h"
#include "base/status.h"
#include "runtime/model/arch.h"
#include "runtime/model/config_parts.h"
#include "runtime/model/model.h"
#include "runtime/model/quantised.h"
#include "runtime/model/wrapper.h"
#include "runtime/source/config_keys.h"
#include "runtime/source/modules.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    CONFIG_LAYERS_MAX = 1024,
    CONFIG_KINDS_MAX = 4,    // kinds of layers of a model
    CONFIG_ROPES_MAX = 2,    // rotary tables of a model
    CONFIG_MODULES_MAX = 4,  // modules after pooling
    ARCH_NAME_MAX = 128,     // bytes of an architecture's name
    DISTANCES_MAX = 1 << 26, // biases by distance of all heads
};

// Positions of a layer's norms.
enum norm_place {
    NORM_BEFORE = 1, // on the input of attention and of the feed-forward part
    NORM_SUM = 2,    // on the sum of the residual and each output (encoders)
    NORM_AFTER = 4,  // on each output, before it is added to the residual
};

// Norms of queries and keys.
enum qk_norm {
    QK_PLAIN,
    QK_NORM_EACH, // each head on its own
    QK_NORM_LAST, // each head on its own, after the rotary embedding
    QK_NORM_ALL,  // all heads together
};

// A kind of layer. Layers of one kind have the same ops and sizes; heads and their columns are
// equal in all kinds.
struct layer_kind {
    uint32_t window; // keys that a query sees up to its own, including it; 0: all
    uint32_t ahead;  // if not causal: keys after its own that a query sees; 0: all
    uint32_t rope;   // index of its rotary settings in model_config.ropes
    bool rotates;    // true if it has a rotary embedding
    float scale;     // factor of the attention scores
    uint32_t norms;  // enum norm_place
    bool parallel;   // true if attention and the feed-forward part read the same norm
    bool centred;    // true if norms are LayerNorms; false: RMS norms
    bool bare;       // true if no norm precedes attention, though norms has NORM_BEFORE
    enum qk_norm qk_norm;
    bool causal;  // true if a query sees no later key
    bool paged;   // true if keys and values are kept in KV blocks
    bool gated;   // true if the feed-forward part multiplies act(x W1) by x W2
    bool experts; // true if the feed-forward part is the model's mixture of experts
    enum activation activation;
    float gate_limit, gate_alpha; // parameters of GATE_CLAMPED; 0: the gate is the activation
};

struct model_config {
    const char *name; // published name of the architecture, or of the wrapper
    const struct architecture *arch;
    const struct wrapper *wrapper; // NULL: the model is no part of a multimodal checkpoint
    enum model_kind kind;
    enum rerank_form rerank;
    enum pooling pooling;
    bool normalize;
    bool prompt_unpooled; // true if mean pooling leaves out the tokens of the prompt
    bool dimensions_free; // true if vectors may be cut to any length
    uint32_t dimension_count;
    uint32_t dimensions[MODEL_DIMENSIONS_MAX]; // lengths to which vectors may be cut
    bool tied;                                 // true if the head is the embedding table
    // tied_given: true if config.json has the field. Otherwise the head is tied if the checkpoint
    // has none or, without a checkpoint, if tied_usually: the default of the text part is true.
    bool tied_given, tied_usually;
    bool qkv_bias, o_bias, ffn_bias; // true if these products have a bias
    bool up_plain;                   // true if the ffn's first product has no bias
    bool norm_bias;                  // true if norms have a bias; RMS norms have none
    int dtype;                       // "torch_dtype" or "dtype", else BF16 if quantised; -1: absent
    uint32_t vocab, hidden, layers, heads, kv_heads, head_dim, intermediate;
    struct experts_config experts;
    uint32_t further_layers;  // number of unused layers after the last (multi-token prediction)
    uint32_t positions;       // max_position_embeddings
    uint32_t position_offset; // RoBERTa: position of the first token
    uint32_t types;           // number of token types; 0: no such table
    enum distance_kind distance;
    uint32_t buckets; // rows of the tensor of DISTANCE_BUCKETS
    uint32_t reach;   // largest distance of the table; greater ones have its bias
    // Encoders with a score: pooling before its dense layer; bias and activation of this layer.
    enum pooling score_pooling;
    bool score_bias;
    enum activation score_activation;
    uint32_t labels;         // outputs of a classification head; 0: not given
    uint32_t length_max;     // longest sequence that positions or rope scaling allow
    uint32_t length_default; // max_model_len if no option sets it
    bool length_given;       // true if max_seq_length is given; it overrides the tokenizer's limit
    struct layer_kind kinds[CONFIG_KINDS_MAX];
    uint32_t kind_count;
    uint8_t layer_kind[CONFIG_LAYERS_MAX]; // index of each layer's kind, in the order of first use
    struct rope_config ropes[CONFIG_ROPES_MAX];
    uint32_t rope_count; // 0: no rotary embedding
    // Epsilon of norms. Factors of embeddings, outputs added to the residual and logits; 0: none.
    // embed_root: true if the first factor is sqrt(hidden), rounded to the checkpoint's type.
    double epsilon, embed_factor, residual_factor, logit_factor;
    bool embed_root;
    // Rerankers without a score head. Tokens whose logits make the score: the ids of LogitScore
    // (-1: none), else those of the form `answers`; if it is RERANK_PAIR, of the form `rerank`.
    int32_t yes_id, no_id;
    bool lone_answer; // true if LogitScore has no false_token_id: the score is one logit
    enum rerank_form answers;
    uint32_t end_count;
    int32_t end_ids[MODEL_END_IDS_MAX];
    struct model_defaults defaults;
    char weights_folder[MODULE_FOLDER_MAX]; // folder of config.json and the weights
    uint32_t module_count;
    struct vector_module modules[CONFIG_MODULES_MAX];
    uint32_t vector_width; // columns of a pooled vector
};

extern const struct model_defaults model_defaults_none; // all fields NAN

// Reads all JSON files of a model folder: modules.json and pooling first, then config.json, then
// generation_config.json. Errors name the file and the field.
enum status model_config_read(struct model_config *out, const char *folder,
                              struct error *err) MUST_USE;

// config.json of a model folder and the files that determine how it is read.
struct config_files {
    struct modules modules;
    char weights_folder[MODULE_FOLDER_MAX]; // folder of config.json
    json_t *json;                           // config.json, freed by the caller; NULL: not read
    struct quantised quantised;             // declared by files next to config.json
};
// Reads config.json of a model folder and the files that declare how the weights are stored.
enum status config_files_read(struct config_files *files, const char *folder,
                              struct error *err) MUST_USE;
// Checks these files, first the architecture, then how the weights are stored, then each key, and
// fills the configuration.
enum status config_files_parse(struct model_config *out, const struct config_files *files,
                               const char *folder, struct error *err) MUST_USE;

// Reads config.json only, already parsed; the kind is that of the architecture. For tests.
enum status model_config_parse(struct model_config *out, const json_t *json,
                               struct error *err) MUST_USE;

// Reads the rotary settings of all kinds of layers: rope_parameters, or rope_scaling and rope_theta
// (config_rope.c). The kinds must be set.
enum status rope_config_parse(struct model_config *config, const json_t *json,
                              struct error *err) MUST_USE;

// Reads the modules after pooling (config_modules.c): Dense and LayerNorm; Dropout changes nothing.
// config.json must have been read, which sets vector_width; Dense modules change it.
enum status vector_modules_read(struct model_config *config, const struct modules *modules,
                                const char *folder, struct error *err) MUST_USE;

// Returns true if rope_parameters has members by kind of layer.
bool rope_config_nested(const json_t *json);

// Sets the kinds of all layers (config_layers.c). The counts of config.json must have been read,
// and kinds[0] must hold the activation.
enum status layers_config_parse(struct model_config *config, const json_t *json,
                                struct error *err) MUST_USE;

// Reads the sizes and the routing of a mixture of experts (config_experts.c).
enum status experts_config_parse(struct model_config *, const json_t *, struct error *) MUST_USE;
// Sets `out` to whether a layer has the mixture of experts.
enum status experts_config_layer(bool *out, const struct model_config *, const json_t *,
                                 uint32_t layer, struct error *) MUST_USE;

// Returns the facts with which the table of keys checks this configuration. Its counts must have
// been read.
struct config_facts config_facts_of(const struct model_config *config);

// Range and default of a number in config.json. The functions below read a field, check it and
// return INVALID with the field's name if it does not fit; a field that is absent or null gets the
// fallback.
struct config_number {
    const char *name;
    double low, high;
    double fallback; // value of an absent field; NAN: the field is required
};
enum status config_number(double *out, const json_t *json, const struct config_number *wanted,
                          struct error *err) MUST_USE;
enum status config_count(uint32_t *out, const json_t *json, const struct config_number *wanted,
                         struct error *err) MUST_USE;
struct config_field {
    uint32_t *out;
    struct config_number wanted;
};
enum status config_counts(const struct config_field *fields, size_t count, const json_t *json,
                          struct error *err) MUST_USE;
enum status config_bool(bool *out, const json_t *json, const char *name, bool fallback,
                        struct error *err) MUST_USE;
