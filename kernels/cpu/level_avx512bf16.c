// SPDX-License-Identifier: Apache-2.0
// The AVX512-BF16 level: the AVX-512 kernels, but bf16 pair instructions for bf16 products and for
// attention over bf16 (vdpbf16ps: two multiply-adds per float32 lane). Activations are rounded to
// bf16, as on the AMX level. Compiled with the flags of the ISA level; runs only if cpu_isa_find
// allowed it.
#include "kernels/cpu/internal.h"
#include "kernels/cpu/lanes_avx512.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/lanes_math.inc"

enum { DOTS_BYTES = 2, DOTS_PART = PRODUCT_PART / 32 };

LANES_INLINE __m512i pairs_step(__m512i sum, __m512i w, __m512i x)
{
    return (__m512i)_mm512_dpbf16_ps((__m512)sum, (__m512bh)w, (__m512bh)x);
}

LANES_INLINE __m512i dots_step(__m512i sum, __m512i w, const uint32_t *x)
{
    return pairs_step(sum, w, _mm512_set1_epi32((int)*x));
}

#include "kernels/cpu/dots.inc"

LANES_INLINE __m512i dots_start(const struct dots_piece *piece, uint32_t r)
{
    (void)piece;
    (void)r;
    return _mm512_setzero_si512();
}

LANES_INLINE __m512 dots_join(__m512 total, __m512i sum, const struct dots_piece *piece, uint32_t r,
                              uint32_t c)
{
    (void)piece;
    (void)r;
    (void)c;
    return _mm512_add_ps(total, (__m512)sum);
}

// Loads 32 elements as bf16; elements from `left` on are zeros.
static __m512i pairs_of(const float *x, uint32_t left)
{
    __mmask32 mask = left >= 32 ? 0xFFFFFFFFu : (1u << left) - 1;
    __m512 low = _mm512_maskz_loadu_ps((__mmask16)mask, x);
    __m512 high = _mm512_maskz_loadu_ps((__mmask16)(mask >> 16), x + 16);
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

static void dots_tile_pack(const struct product *p, uint32_t *out, uint32_t tile, uint32_t rows)
{
    uint32_t width = dots_width(p), blocks = dots_blocks(p);
    const float *x[DOTS_ROWS];
    __m512i words[DOTS_ROWS];
    for (uint32_t r = 0; r < DOTS_ROWS; r++)
        words[r] = _mm512_setzero_si512();
    for (uint32_t r = 0; r < rows; r++)
        x[r] = product_row(p, tile * DOTS_ROWS + r);
    for (uint32_t b = 0; b < blocks; b++, out += (size_t)16 * width) {
        for (uint32_t r = 0; r < rows; r++)
            words[r] = pairs_of(x[r] + b * 32, p->k - b * 32);
        dots_words_put(out, words, width);
    }
}

#include "kernels/cpu/attn.inc"
#include "kernels/cpu/attn_pairs.inc"
#include "kernels/cpu/attn_few.inc"

static void pack_pairs(const struct product *p, uint32_t tile)
{
    if (p->dtype == DTYPE_BF16)
        pack_dots(p, tile);
    else
        cpu_kernels_avx512().pack(p, tile);
}

static void product_pairs(const struct product *p, uint32_t first, uint32_t end, uint32_t worker)
{
    if (p->dtype == DTYPE_BF16)
        product_dots(p, first, end, worker);
    else
        cpu_kernels_avx512().product(p, first, end, worker); // float32 is never rounded to bf16
}

static void attn_pick(const struct attn_job *job)
{
    if (job->args->kv != DTYPE_BF16)
        cpu_kernels_avx512().attn(job);
    else if (job->end - job->first <= FEW_QUERIES && !job->args->bias)
        attn_few_run(job);
    else
        attn_run(job);
}

struct cpu_kernels cpu_kernels_avx512bf16(void)
{
    struct cpu_kernels kernels = cpu_kernels_avx512();
    kernels.pack = pack_pairs;
    kernels.product = product_pairs;
    kernels.attn = attn_pick;
    kernels.attn_merge = attn_merge_run;
    return kernels;
}
