// Attention for head dims up to 64: four instances of attn.h (two types, four warps and one).
#include "kernels/cuda/attn.h"

enum status attn_d64(struct stream *stream, const struct attn_args *args)
{
    return attn_of<64>(stream, args);
}
