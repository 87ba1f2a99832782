// Attention for head dims up to 256: four instances of attn.h (two types, four warps and one).
#include "kernels/cuda/attn.h"

enum status attn_d256(struct stream *stream, const struct attn_args *args)
{
    return attn_of<256>(stream, args);
}
