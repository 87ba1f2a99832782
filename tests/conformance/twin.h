// Reference implementations of the ops, in double: the specification that tests compare devices
// with. They take the args of the op with every pointer in host memory, activations of type F32,
// and weights whose data are row-major floats [n][k] with the values that the device holds
// (rounded, or bytes times scale). The references of collectives take an array: the args of all
// ranks.
//
// Linked by tests only. One thread; only the sampler allocates memory.
#pragma once

#include "kernels/ops.h"

#define TWIN_DECLARE(name) void twin_##name(const struct name##_args *);
OP_LIST(TWIN_DECLARE)
#undef TWIN_DECLARE

// As twin_sample, and sets gap[i] to the distance of row i to another choice, in logits or as a
// share of the probability mass, whichever is less. A device may choose another token if the gap is
// below its rounding error.
void twin_sample_gap(const struct sample_args *args, double *gap);

// An int8 product as the cpu device defines it (kernels/cpu/bytes.h). The weight's data are the
// rotated rows, bytes times scale, [n][byte_depth(k)].
void twin_gemm_i8(const struct gemm_args *args);
