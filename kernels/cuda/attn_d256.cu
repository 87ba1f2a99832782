// SPDX-License-Identifier: Apache-2.0
// Attention for the head dim 256: four instances of attn.h (two types; four warps and one warp).
#include "kernels/cuda/attn_launch.h"

const struct attn_kernels attn_d256 = kernels_of<256, 64>();
