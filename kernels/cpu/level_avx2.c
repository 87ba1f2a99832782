// The kernels in AVX2, FMA and F16C. This file and what it includes are compiled with the flags
// of the level (CMakeLists.txt); nothing here runs before cpu_level_find has chosen the level.
#include "kernels/cpu/internal.h"
#include "kernels/cpu/lanes_avx2.h"
#include "kernels/philox.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/lanes_math.inc"
#include "kernels/cpu/rotate.inc"
#include "kernels/cpu/rows.inc"
#include "kernels/cpu/product.inc"
#include "kernels/cpu/bytes.inc"
#include "kernels/cpu/attn.inc"
#include "kernels/cpu/attn_floats.inc"
#include "kernels/cpu/sample.inc"

struct cpu_kernels cpu_kernels_avx2(void)
{
    return (struct cpu_kernels){
        .embed = embed_rows,
        .embed_bert = embed_bert_rows,
        .rms_norm = rms_norm_rows,
        .layer_norm = layer_norm_rows,
        .qkv_post = qkv_post_rows,
        .swiglu = swiglu_rows,
        .activate = activate_rows,
        .pool = pool_rows,
        .pack = pack_rows,
        .product = product_slabs,
        .attn = attn_run,
        .attn_merge = attn_merge_run,
        .sample = sample_run,
        .normal = normal_fill,
    };
}
