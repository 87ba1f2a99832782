// SPDX-License-Identifier: Apache-2.0
// Attention with keys and values in fp8 for the head dims 64 and 128: four instances of attn.h each
// (two types; four warps and one warp). Their tiles of keys need half the shared memory of those in
// 16 bits, so two wide blocks fit an SM of every card.
#include "kernels/cuda/attn_launch.h"

const struct attn_kernels attn_fp8_d64 = kernels_fp8<64, 128>();
const struct attn_kernels attn_fp8_d128 = kernels_fp8<128, 128>();
