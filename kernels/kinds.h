// SPDX-License-Identifier: Apache-2.0
// Kinds and limits that the arguments of ops name (ops.h).
#pragma once

#include <stdint.h>

enum activation { ACTIVATE_GELU, ACTIVATE_GELU_TANH, ACTIVATE_TANH, ACTIVATE_RELU, ACTIVATE_SILU };
// GATE_GELU is the exact one (erf). GATE_CLAMPED (GPT-OSS): with g = min(gate, limit) and u = up
// limited to -limit .. limit, the result is g * sigmoid(alpha * g) * (u + 1).
enum gate { GATE_SILU, GATE_GELU_TANH, GATE_GELU, GATE_CLAMPED };

// MEAN_SQRT: sum / sqrt(count). WEIGHTED: mean weighted by the position plus 1. MAX: maximum of
// each column. GIVEN: in is [n][width], one row for each vector.
enum pooling {
    POOL_CLS,
    POOL_LAST,
    POOL_MEAN,
    POOL_MEAN_SQRT,
    POOL_WEIGHTED,
    POOL_MAX,
    POOL_GIVEN
};
// The sum of the weights from + 1 .. from + count of WEIGHTED. It is a macro because GPU kernels
// cannot call an inline function of C.
#define POOL_WEIGHTS(from, count) (0.5f * (float)(count) * (float)(2 * (from) + (count) + 1))

// Attention's bias by distance: element [h][d + reach] is added to the scaled score of head h,
// where d is the query's position less the key's, limited to -reach .. reach. This is the largest
// reach.
enum { BIAS_REACH_MAX = 1 << 20 };

// A sink of a head is a logit without a key and a value: the sum of the softmax has one more term,
// exp(sink), so the weights of the keys add up to less than 1.
