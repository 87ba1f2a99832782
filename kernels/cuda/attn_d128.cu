// Attention for head dims up to 128: four instances of attn.h (two types, four warps and one).
#include "kernels/cuda/attn.h"

enum status attn_d128(struct stream *stream, const struct attn_args *args)
{
    return attn_of<128>(stream, args);
}
