// The kernels in AVX-512 with VNNI. This file and what it includes are compiled with the flags
// of the level (CMakeLists.txt); nothing here runs before cpu_level_find has chosen the level.
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/lanes_avx512.h"
#include "kernels/philox.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/lanes_math.inc"
#include "kernels/cpu/rows.inc"
#include "kernels/cpu/product.inc"
#include "kernels/cpu/attn.inc"
#include "kernels/cpu/attn_floats.inc"
#include "kernels/cpu/sample.inc"

// int8 goes in quads. Activations are rounded to bytes and kept with 128 added, for one operand of
// the instruction is unsigned; 128 times the sum of the weights is taken away at the end.
enum { DOTS_BYTES = 1 };

LANES_INLINE __m512i dots_step(__m512i sum, __m512i w, __m512i x)
{
    return _mm512_dpbusd_epi32(sum, x, w);
}

LANES_INLINE __m512i dots_join(__m512i sum, __m512i part)
{
    return _mm512_add_epi32(sum, part);
}

// The inverse of the row's scale, which is kept.
static __m512 dots_row(const struct product *p, uint32_t row)
{
    float scale = row_scale_of(p->x + (size_t)row * p->x_stride, p->k);
    p->row_scale[row] = scale;
    return _mm512_set1_ps(scale > 0 && scale <= 0x1p120f ? 1.0f / scale : 0.0f);
}

// 64 elements, zeros (128) past `left`.
static __m512i dots_words(const float *x, uint32_t left, __m512 inverse)
{
    _Alignas(64) int8_t bytes[64];
    for (uint32_t i = 0; i < 64; i += 16) {
        __m512 v = left > i ? load_up_to(x + i, left - i) : lanes_zero();
        __m512i whole = _mm512_cvtps_epi32(_mm512_mul_ps(v, inverse));
        _mm_store_si128((__m128i *)(void *)(bytes + i), _mm512_cvtsepi32_epi8(whole));
    }
    return _mm512_xor_si512(_mm512_load_si512(bytes), _mm512_set1_epi8((char)-128));
}

LANES_INLINE __m512 dots_value(const struct product *p, uint32_t row, __m512i sum, __m512 scale,
                               __m512i weight_sum)
{
    __m512 v = _mm512_cvtepi32_ps(_mm512_sub_epi32(sum, weight_sum));
    return _mm512_mul_ps(_mm512_mul_ps(v, _mm512_set1_ps(p->row_scale[row])), scale);
}

#include "kernels/cpu/dots.inc"

static void pack_rows(const struct product *p, uint32_t tile)
{
    if (p->dtype == DTYPE_I8)
        pack_dots(p, tile);
}

static void product_slabs(const struct product *p, uint32_t first, uint32_t end, uint32_t worker)
{
    if (p->dtype == DTYPE_I8)
        product_dots(p, first, end, worker);
    else
        product_floats(p, first, end, worker);
}

struct cpu_kernels cpu_kernels_avx512(void)
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
