// SPDX-License-Identifier: Apache-2.0
// Attention for the head dim 96: six instances of attn.h (two types; four warps, in two sizes for
// cards with much or little shared memory, and one warp).
#include "kernels/cuda/attn_launch.h"

const struct attn_kernels attn_d96 = kernels_of<96, 128>();
const struct attn_kernels attn_d96_small = kernels_of<96, 64>();
