// SPDX-License-Identifier: Apache-2.0
// Attention for the head dim 128: six instances of attn.h (two types; four warps, in two sizes for
// cards with much or little shared memory, and one warp).
#include "kernels/cuda/attn_launch.h"

const struct attn_kernels attn_d128 = kernels_of<128, 128>();
const struct attn_kernels attn_d128_small = kernels_of<128, 64>();
