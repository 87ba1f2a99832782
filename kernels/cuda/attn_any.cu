// SPDX-License-Identifier: Apache-2.0
// Attention for head dims up to 256 without dedicated kernels: four instances of attn.h (two types;
// four warps and one warp) that get the dim at run time.
#include "kernels/cuda/attn_launch.h"

const struct attn_kernels attn_any = kernels_of<0, 64>();
