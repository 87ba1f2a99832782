// Attention for head dims that have no kernels of their own, up to 256: four instances of attn.h
// (two types, four warps and one) that take the dim at run time.
#include "kernels/cuda/attn.h"

const struct attn_kernels attn_any = kernels_of<0, 64>();
