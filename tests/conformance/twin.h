// The plain twins of the ops, in double: what each op means, for tests. They take the args of the
// op with every pointer in host memory, activations of F32, and weights whose data are plain
// row-major floats [n][k] (as the device holds them: rounded, or bytes times scale). Those of
// collectives take an array: the args of all ranks.
//
// Not part of the device; linked by tests only. One thread, no allocation but the sampler's.
#pragma once

#include "kernels/ops.h"

#define TWIN_DECLARE(name) void twin_##name(const struct name##_args *);
OP_LIST(TWIN_DECLARE)
#undef TWIN_DECLARE

// twin_sample, and gap[i]: how far row i is from another choice, in logits or as a share of the
// mass, whichever is less; a device may choose otherwise where the gap is below rounding.
void twin_sample_gap(const struct sample_args *args, double *gap);

// An int8 product as the cpu device defines it (kernels/cpu/bytes.h): the weight's data are the
// rotated rows, bytes times scale, [n][byte_depth(k)].
void twin_gemm_i8(const struct gemm_args *args);
