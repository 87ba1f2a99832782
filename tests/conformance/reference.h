// SPDX-License-Identifier: Apache-2.0
// Reference implementations of the ops, in double: the specification that tests compare devices
// with. They take the args of the op with every pointer in host memory, activations of type F32,
// and weights whose data are row-major floats [n][k] with the values that the device holds
// (rounded, or bytes times scale). The references of collectives take an array: the args of all
// ranks.
//
// Linked by tests only. One thread; only the sampler and the product of e4m3 codes allocate memory.
#pragma once

#include "kernels/ops.h"

#define REFERENCE_DECLARE(name) void reference_##name(const struct name##_args *);
OP_LIST(REFERENCE_DECLARE)
#undef REFERENCE_DECLARE

// As reference_sample, and sets gap[i] to the distance of row i to another choice, in logits or as
// a share of the probability mass, whichever is less. A device may choose another token if the gap
// is below its rounding error.
void reference_sample_gap(const struct sample_args *args, double *gap);

// FP8 e4m3 by its definition: the code that is nearest to a number (of two the even one; 448 beyond
// it; 0x7F for NaN), the value of a code, and the byte of an element in a row of the KV blocks.
uint32_t reference_e4m3(double x);
double reference_e4m3_value(uint32_t code);
uint32_t reference_e4m3_place(uint32_t element);

// An int8 product as the cpu device defines it (kernels/cpu/bytes.h). The weight's data are the
// rotated rows, bytes times scale, [n][byte_depth(k)].
void reference_gemm_i8(const struct gemm_args *args);

// A product with weights held as codes (kernels/cpu/codes.h): activations are rounded in groups of
// 32. The weight's data are its elements, [n][k].
void reference_gemm_codes(const struct gemm_args *args);

// A product of the cuda device's default mode with a weight held as FP8 codes: x is rounded to e4m3
// with the scale max|x| / 448 of each row, or if blocks is true of each 128 columns of a row.
// Scales, their inverses and x times an inverse are float32.
void reference_gemm_e4m3(const struct gemm_args *args, bool blocks);

// gemm_experts with reference_gemm_i8 or reference_gemm_codes in place of reference_gemm. depth:
// elements from one row of the weight's data to the next.
typedef void reference_product(const struct gemm_args *args);
void reference_gemm_experts_by(const struct gemm_experts_args *args, reference_product *product,
                               uint32_t depth);
