// SPDX-License-Identifier: Apache-2.0
// Private to runtime/model: the state of a forward pass and the functions that op lists (lists.h)
// consist of. Engine thread.
#pragma once

#include "runtime/model/internal.h"

struct forward { // state of a forward pass
    struct model *model;
    const struct step *host;      // the step's record in host memory; NULL in forward_products
    const struct weight *weights; // weights of the layer, or of the model
    uint32_t layer;
    uint32_t rows;                  // rows of the current op: T, or the rows after a gather
    uint32_t kind;                  // index of the kind of the layer
    const struct forward_op *fresh; // in the first layer: its first op, which has no earlier
                                    // output to add; else NULL
};

// Runs an op. Invalid arguments are a bug in the forward pass: the process ends with a message.
#define MODEL_OP(name)                                                                             \
    static inline enum status op_##name(const struct model *m, const struct name##_args *args)     \
    {                                                                                              \
        enum status status = m->api->ops->name(m->stream, args);                                   \
        const char *wrong = status == STATUS_INVALID ? name##_check(args) : "";                    \
        check(status != STATUS_INVALID, "%s",                                                      \
              wrong[0] != '\0' ? wrong : #name ": more than the stream was opened for");           \
        return status;                                                                             \
    }
OP_LIST(MODEL_OP)
#undef MODEL_OP

enum status forward_prep(struct model *model, const struct step *host) MUST_USE; // enqueues op prep
// After forward_prep: enqueues the pass, whose results go to BUFFER_LOGITS or BUFFER_VALUES.
enum status forward_run(struct model *model, const struct step *host) MUST_USE;
// Enqueues only products, those of one layer of each kind and of the head with this number of
// tokens, so that the device tunes them.
enum status forward_products(struct model *model, uint32_t tokens) MUST_USE;
// Returns true for an op that multiplies by its weight with the op gemm.
bool forward_is_product(const struct forward_op *op);

// A function of a list.
#define FORWARD_OP(name) enum status name(struct forward *f, const struct forward_op *op) MUST_USE

FORWARD_OP(forward_gemm); // a product with output in the activation type
FORWARD_OP(forward_head); // a product with output in f32
// Products whose weight is split over the ranks: by columns (results summed); by rows (gathered).
FORWARD_OP(forward_sum);
FORWARD_OP(forward_logits);
FORWARD_OP(forward_part);           // a product split by columns, whose results are not summed yet
FORWARD_OP(forward_gather);         // the last token of each wanted row
FORWARD_OP(forward_gather_first);   // the first token of each wanted row
FORWARD_OP(forward_pool);           // wanted rows to vectors
FORWARD_OP(forward_pool_score);     // wanted rows by score_pooling, in the activation type
FORWARD_OP(forward_pool_act);       // wanted rows to vectors in the activation type
FORWARD_OP(forward_vector_norm);    // LayerNorm of a module
FORWARD_OP(forward_vector_tanh);    // tanh of a module's output, in place
FORWARD_OP(forward_vectors);        // vectors of the activation type to f32, normalised
FORWARD_OP(forward_score_activate); // activation of a score's dense layer, in place
// out = sum of the parts of all ranks (model.parts_apart), [T][hidden]; does nothing with one rank.
enum status forward_ranks_sum(const struct forward *f, enum model_buffer out) MUST_USE;

// Ops of layers.
FORWARD_OP(layer_norm_one);     // residual += add; out = norm of it, RMS norm or LayerNorm
FORWARD_OP(layer_add);          // residual += add
FORWARD_OP(layer_norm_heads);   // RMS norms of q and of k, over all heads
FORWARD_OP(layer_qkv_post);     // norms and rotary embedding of q and k; writes KV blocks
FORWARD_OP(layer_attend_paged); // attention over KV blocks
FORWARD_OP(layer_attend_rows);  // attention within the step's rows
FORWARD_OP(layer_norm_sum);     // out = LayerNorm(in + add)
FORWARD_OP(layer_gate);         // activation of the gate times the other half
FORWARD_OP(layer_activate);     // activation in place
FORWARD_OP(layer_route);        // experts of each token; rows sorted by expert
FORWARD_OP(layer_experts);      // each row times the matrix of its expert
FORWARD_OP(layer_combine);      // sum of the results of a token's experts and the shared one
#undef FORWARD_OP
