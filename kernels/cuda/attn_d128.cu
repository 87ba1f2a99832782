// Attention for the head dim 128: four instances of attn.h (two types, four warps and one).
#include "kernels/cuda/attn.h"

const struct attn_kernels attn_d128 = kernels_of<128>();
