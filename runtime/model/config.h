// The checked contents of config.json and the other JSON files of a model folder. Weights are not
// opened here. Loading thread only; nothing in the struct has to be freed.
#pragma once

#include "kernels/dtype.h"
#include "kernels/ops.h"
#include "base/status.h"
#include "runtime/model/arch.h"
#include "runtime/model/model.h"
#include "runtime/source/modules.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    CONFIG_LAYERS_MAX = 1024,
    CONFIG_ROPE_FACTORS_MAX = 128, // longrope: half of the largest head
};

enum rope_kind {
    ROPE_DEFAULT,
    ROPE_LINEAR,
    ROPE_DYNAMIC,
    ROPE_LLAMA3,
    ROPE_YARN,
    ROPE_LONG,
};

struct rope_config {
    enum rope_kind kind;
    uint32_t dim;      // rotary columns of a head, even
    uint32_t original; // positions the model was trained on
    double theta, factor;
    double attention_factor;                             // NAN: as the kind's formula says
    double beta_fast, beta_slow, mscale, mscale_all_dim; // yarn
    bool truncate;                                       // yarn: round the ramp's ends
    double low_freq_factor, high_freq_factor;            // llama3
    double short_factor[CONFIG_ROPE_FACTORS_MAX], long_factor[CONFIG_ROPE_FACTORS_MAX];
};

struct model_config {
    const struct architecture *arch;
    enum model_kind kind;
    enum rerank_form rerank;
    enum pooling pooling;
    bool normalize;
    bool prompt_unpooled; // means leave the prompt's tokens out
    bool dimensions_free; // vectors may be cut to any length
    uint32_t dimension_count;
    uint32_t dimensions[MODEL_DIMENSIONS_MAX]; // likewise, to these
    bool tied;                                 // the head is the embedding table
    bool tied_given; // config.json has the field; otherwise tied where the checkpoint has no head
    bool qkv_bias, o_bias, ffn_bias;
    enum activation activation; // decoders: SILU, gated
    int dtype;                  // "torch_dtype" or "dtype"; -1 where absent
    uint32_t vocab, hidden, layers, heads, kv_heads, head_dim, intermediate;
    uint32_t positions;       // max_position_embeddings
    uint32_t position_offset; // RoBERTa
    uint32_t types;           // token types; 0: no such table
    uint32_t labels;          // outputs of a classification head; 0: not given
    uint32_t length_max;      // longest sequence that the rope scaling allows
    uint32_t length_default;  // the length served without --max-model-len
    bool length_said;         // from max_seq_length, which overrides the tokenizer's limit
    uint32_t window;          // keys a query sees; 0: all
    uint32_t window_from;     // layers before this one have no window (Qwen2's max_window_layers)
    uint8_t full_layers[CONFIG_LAYERS_MAX]; // 1: no window there ("layer_types")
    double epsilon;
    struct rope_config rope;
    int32_t yes_id, no_id; // -1: not given
    uint32_t end_count;
    int32_t end_ids[MODEL_END_IDS_MAX];
    struct model_defaults defaults;
    char weights_folder[MODULE_FOLDER_MAX]; // where config.json and the weights lie
};

extern const struct model_defaults model_defaults_none;

// Reads the whole folder's JSON: modules.json and pooling first, then config.json, then
// generation_config.json.
enum status model_config_read(struct model_config *out, const char *folder,
                              struct error *err) MUST_USE;

// config.json alone, already parsed; its kind is the architecture's own. For the fuzzer and tests.
enum status model_config_parse(struct model_config *out, const json_t *json,
                               struct error *err) MUST_USE;

// rope_parameters or rope_scaling with rope_theta (config_rope.c); config.positions is known.
enum status rope_config_parse(struct model_config *config, const json_t *json,
                              struct error *err) MUST_USE;

// Checked reading of single fields.
struct config_number {
    const char *name;
    double low, high;
    double fallback; // NAN: the field must be there
};
enum status config_number(double *out, const json_t *json, const struct config_number *wanted,
                          struct error *err) MUST_USE;
enum status config_count(uint32_t *out, const json_t *json, const struct config_number *wanted,
                         struct error *err) MUST_USE;
enum status config_bool(bool *out, const json_t *json, const char *name, bool fallback,
                        struct error *err) MUST_USE;
