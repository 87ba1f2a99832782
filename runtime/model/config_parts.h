// SPDX-License-Identifier: Apache-2.0
// Parts of struct model_config (config.h): rotary settings, modules after pooling, mixtures of
// experts, the bias by distance.
#pragma once

#include "kernels/experts.h"
#include "runtime/source/modules.h"

#include <stdbool.h>
#include <stdint.h>

enum { CONFIG_ROPE_FACTORS_MAX = 128 }; // longrope: half of the largest head_dim

enum rope_kind {
    ROPE_DEFAULT,
    ROPE_LINEAR,
    ROPE_DYNAMIC,
    ROPE_ALPHA, // Hunyuan: a base for all lengths, stretched by alpha
    ROPE_LLAMA3,
    ROPE_YARN,
    ROPE_LONG,
    ROPE_NTK, // theta times the factor, and frequencies divided by factor^(2 / dim), at any length
};

struct rope_config {
    enum rope_kind kind;
    uint32_t dim;      // rotary columns per head, even
    uint32_t original; // number of positions that the model was trained on before scaling
    double theta, factor;
    double attention_factor;                             // NAN: computed by the kind's formula
    double beta_fast, beta_slow, mscale, mscale_all_dim; // yarn
    bool truncate;                            // yarn: true if the ends of the ramp are rounded
    double low_freq_factor, high_freq_factor; // llama3
    double alpha;                             // ROPE_ALPHA
    // Factor of queries: 1 + query_beta * log(1 + floor(position / original)); 0: none.
    double query_beta;
    double short_factor[CONFIG_ROPE_FACTORS_MAX], long_factor[CONFIG_ROPE_FACTORS_MAX];
};

// A module of sentence-transformers that changes pooled vectors.
struct vector_module {
    bool norm;        // true: LayerNorm; false: a product (Dense)
    uint32_t in, out; // columns; equal for a norm
    bool bias;        // true if the product has a bias
    bool tanh;        // true if tanh follows the product
    char folder[MODULE_FOLDER_MAX];
};

// The mixture of experts of a model's layers. count 0: the model has none.
struct experts_config {
    uint32_t count, chosen;       // number of experts of a layer; number that a token chooses
    uint32_t width;               // inner columns of an expert
    uint32_t shared_width;        // inner columns of the shared expert; 0: none
    enum route_score score;       // this field and the next ones: see struct route_args
    uint32_t groups, groups_kept; // 0: no groups
    bool renormalise;
    double factor;
};

// Bias of the scores by the distance of query and key.
enum distance_kind {
    DISTANCE_NONE,
    DISTANCE_BUCKETS, // a tensor has a value for each bucket of distances (MPNet, T5)
    DISTANCE_SLOPES,  // the distance times a negative number of the head (ALiBi)
};
