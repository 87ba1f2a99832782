// SPDX-License-Identifier: Apache-2.0
// Attention with keys and values in fp8 for the other head dims up to 256: four instances of attn.h
// (two types; four warps and one warp) that get the dim at run time.
#include "kernels/cuda/attn_launch.h"

const struct attn_kernels attn_fp8_any = kernels_fp8<0, 64>();
