// SPDX-License-Identifier: Apache-2.0
// The kernels in AVX-512 with VNNI. This file and what it includes are compiled with the flags of
// the ISA level (CMakeLists.txt); its kernels run only after cpu_isa_find has checked the
// processor.
#include "kernels/cpu/internal.h"
#include "kernels/cpu/lanes_avx512.h"
#include "kernels/cpu/codes_avx512.h"
#include "kernels/cpu/level.inc"

// int8 elements are multiplied in quads, and a part is a group of K. Weight bytes are unsigned, so
// a sum begins with minus what BYTE_ZERO adds to it.
enum { DOTS_BYTES = 1, DOTS_PART = BYTE_GROUP / 64 };

LANES_INLINE __m512i dots_step(__m512i sum, __m512i w, const uint32_t *x)
{
#ifdef LANES_EMULATED // tests/kernels/lanes512.h
    return _mm512_dpbusd_epi32(sum, w, _mm512_set1_epi32((int)*x));
#else
    // asm, because gcc 12 copies every sum of the intrinsic twice
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(w), "m"(*x));
    return sum;
#endif
}

#include "kernels/cpu/dots.inc"

LANES_INLINE __m512i dots_start(const struct dots_piece *piece, uint32_t r)
{
    return _mm512_set1_epi32(piece->scales->offset[r]);
}

LANES_INLINE __m512 dots_join(__m512 total, __m512i sum, const struct dots_piece *piece, uint32_t r,
                              uint32_t c)
{
    __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_set1_ps(piece->scales->scale[r]));
    return _mm512_fmadd_ps(v, _mm512_loadu_ps(piece->columns + 16 * c), total);
}

static void dots_tile_pack(const struct product *p, uint32_t *out, uint32_t tile, uint32_t rows)
{
    uint32_t width = dots_width(p), blocks = dots_blocks(p);
    struct byte_scales *s = byte_scales_of(p, tile);
    __m512i words[DOTS_PART][DOTS_ROWS];
    memset(words, 0, sizeof words);
    for (uint32_t b = 0; b < blocks; b += DOTS_PART, s++) {
        for (uint32_t r = 0; r < rows; r++) {
            _Alignas(64) int8_t group[BYTE_GROUP];
            const float *x = product_row(p, tile * DOTS_ROWS + r);
            group_to_bytes(group, &s->scale[r], &s->offset[r], x, b * 64, p->k);
            for (uint32_t i = 0; i < DOTS_PART; i++)
                words[i][r] = _mm512_load_si512(group + 64 * i);
        }
        for (uint32_t i = 0; i < DOTS_PART && b + i < blocks; i++)
            dots_words_put(out + (size_t)(b + i) * 16 * width, words[i], width);
    }
}

static void pack_rows(const struct product *p, uint32_t tile)
{
    if (p->dtype == DTYPE_I8)
        pack_dots(p, tile);
    else
        pack_floats(p, tile);
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
    return level_kernels();
}
