// SPDX-License-Identifier: Apache-2.0
// The op lists of the forward pass: the ops before the layers, those of each kind of layer, and
// those after the layers. lists.c creates them from the configuration when a model is opened;
// forward.c executes them.
#pragma once

#include "base/status.h"
#include "runtime/model/config.h"

#include <stdint.h>

// Activations; T = tokens_max, n = rows_max; heads, kv_heads and intermediate are the rank's parts.
enum model_buffer {
    BUFFER_NONE,
    BUFFER_RESIDUAL, // [T][hidden] act
    BUFFER_DELTA,    // [T][hidden] act: added to the residual by the next norm
    BUFFER_NORMED,   // [T][hidden] act; empty if all norms are NORM_SUM
    BUFFER_QKV,      // [T][(heads + 2 kv_heads) * head_dim] act
    BUFFER_ATTN,     // [T][heads * head_dim] act
    BUFFER_UP,       // [T][intermediate] act, gated [T][2 intermediate]; overlaps QKV and ATTN
    BUFFER_FFN,      // [T][intermediate] act, gated layers
    // Mixtures of experts; P = T * chosen. These buffers overlap QKV and ATTN. The shared expert
    // uses UP and FFN.
    BUFFER_ROUTER,        // [T][experts] f32
    BUFFER_ROUTING,       // the arrays of struct routing
    BUFFER_SHARED_FACTOR, // [T] f32: gate of the shared expert's output
    BUFFER_EXPERT_UP,     // [P][2 expert width] act
    BUFFER_EXPERT_FFN,    // [P][expert width] act
    BUFFER_EXPERT_OUT,    // [P][hidden] act; overlaps EXPERT_UP
    BUFFER_LAST,          // [n][hidden] act: rows to be sampled or scored
    BUFFER_LAST_DELTA,    // [n][hidden] act
    BUFFER_LOGITS,        // [n][vocab] f32; overlaps QKV, ATTN, UP and FFN
    BUFFER_VALUES,        // [n][output_width] f32
    BUFFER_PARTIAL,       // several ranks: this rank's part of [T][hidden] or [n][vocab], f32
    BUFFER_COUNT
};

struct forward;

// One op of the forward pass. Each function reads only some of the fields.
struct forward_op {
    enum status (*run)(struct forward *, const struct forward_op *); // NULL ends a list
    enum model_buffer in, out;
    uint32_t weight, bias; // enum layer_weight in the list of a layer, else enum model_weight; bias
                           // 0: none
    enum model_buffer add; // norms: buffer that is first added to `in`; combine: shared result
    enum model_buffer also; // experts: further buffer that is read
};

enum {
    LAYER_OPS_MAX = 24, // most ops of a layer, the end of the list included
    ENDS_OPS_MAX = 16,  // most ops after the layers, the end of the list included
};

// The lists of one model.
struct forward_lists {
    const struct forward_op *first;                           // before the layers
    struct forward_op layer[CONFIG_KINDS_MAX][LAYER_OPS_MAX]; // by kind of layer
    struct forward_op ends[ENDS_OPS_MAX];   // memory of `last` if it depends on the model
    const struct forward_op *last;          // after the layers
    const struct forward_op *last_in_place; // generators: replaces `last` if rows need no gather
};

// The lists before and after the layers, equal for all decoders or all encoders.
struct forward_ends {
    const struct forward_op *first;
    const struct forward_op *last[MODEL_RERANKER + 1]; // by enum model_kind
    const struct forward_op *last_in_place;
};
extern const struct forward_ends decoder_ends, encoder_ends;

// Fills the lists of a model. The process ends with a message if a layer has too many ops.
void forward_lists_make(struct forward_lists *out, const struct model_config *config);
