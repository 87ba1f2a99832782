// SPDX-License-Identifier: Apache-2.0
// The ops of a mixture of experts: `route` chooses experts for each token and sorts, `gemm_experts`
// multiplies the rows of each expert with its matrix, `combine` adds a token's results.
//
// T = tokens, E = experts of the layer, J = experts that a token chooses, P = T * J. A pair is one
// choice of one token: pair t * J + j is choice j of token t, in rising expert id. Rows in order of
// experts are called sorted rows: sorted row i belongs to pair order[i]. Only the device knows how
// many rows an expert has; an expert without rows costs nothing. A layer takes one `route`, then
// gemm_experts over the tokens, an op over the P sorted rows, gemm_experts over these, `combine`.
//
// A rank of a split model holds some consecutive experts. It routes as all ranks do, and computes
// only sorted rows of its experts; the others are neither read nor written.
#pragma once

#include "kernels/dtype.h"
#include "kernels/weight.h"

enum {
    EXPERTS_MAX = 512,       // most experts of a layer
    EXPERTS_CHOSEN_MAX = 32, // most experts that a token chooses
    EXPERT_ROWS_UNIT = 32,   // an expert's matrix has a multiple of this number of rows
};

// The result of route; all arrays are in device memory.
struct routing {
    uint32_t *id;     // [T][J] chosen experts of a token, in rising order, all different
    float *weight;    // [T][J] factor of the result of each pair
    uint32_t *order;  // [P] pair of each sorted row: by expert, then by token
    uint32_t *place;  // [P] sorted row of each pair: order[place[p]] is p
    uint32_t *offset; // [E + 1] first sorted row of each expert; offset[E] is P
    uint32_t token_count, experts, chosen; // T, E, J
};

enum route_score {
    ROUTE_SOFTMAX_ALL,    // softmax of all logits of the token
    ROUTE_SOFTMAX_CHOSEN, // softmax of the logits of the chosen experts
    ROUTE_SIGMOID,        // sigmoid of each logit
};

// Chooses for each token the J experts with the largest values; of equal values, the lower id. An
// expert's value is its logit. If there is a correction or if there are groups, it is score +
// correction instead; with ROUTE_SOFTMAX_CHOSEN, logit + correction. The weight of a pair is the
// expert's score without correction. `renormalise` divides it by max(1e-20, sum over the token's
// pairs); then it is multiplied by `factor`. Every token gets J different ids below E, even if
// logits are not finite, and its result is a function of its logits only.
// A group is a set of consecutive ids; its value is the sum of its `group_top` largest values. Only
// experts of the `groups_kept` groups with the largest values can be chosen; of equal groups, the
// lower one is kept.
struct route_args {
    struct routing out;
    enum route_score score;
    const float *logits;             // [T][E] f32
    const struct weight *correction; // [E], or NULL
    uint32_t groups, groups_kept;    // 0: no groups
    uint32_t group_top;              // 1 or 2; read only if there are groups
    uint32_t renormalise;            // 1: weights of a token are divided by their sum
    float factor;                    // 1: none
};

// y[i] = x[row] W_e^T + bias_e for each sorted row i whose expert e is held, where W_e is matrix
// e - first of the weight. In exact mode an element is equal, bit by bit, to that of ops->gemm for
// this row and W_e alone, because the order of its summation depends on k only.
struct gemm_experts_args {
    enum dtype act;
    struct routing routing;
    const void *x;               // act: [T][k], row order[i] / J; if `sorted`: [P][k], row i
    const struct weight *weight; // WEIGHT_PRODUCT, `stack` matrices [n][k] (see weight_shape)
    const struct weight *bias;   // [stack * n] or NULL
    void *y;                     // [P][n] act, sorted rows
    uint32_t x_stride, y_stride; // elements from one row to the next
    uint32_t sorted;             // 1: x has sorted rows
    uint32_t first;              // first expert that the weight holds
};

// out[t] = the sum of weight[p] * y[place[p]] over the token's pairs p whose expert is held, plus
// shared[t], times sigmoid(gate[t]) if there is a gate. Pairs are added in rising expert id, then
// the shared result, in float32, with one rounding at the end.
struct combine_args {
    enum dtype act, out_dtype; // out_dtype: act or F32
    struct routing routing;
    const void *y;               // [P][width] act, sorted rows
    const void *shared;          // [T][width] out_dtype, or NULL
    const float *gate;           // [T] f32, or NULL: the shared result is added unchanged
    void *out;                   // [T][width] out_dtype; may be `shared`
    uint32_t width, first, held; // held: number of experts from `first` on whose rows are added
};
