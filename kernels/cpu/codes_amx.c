// SPDX-License-Identifier: Apache-2.0
// Products of codes (codes.h) on AMX tiles, for several rows. Compiled with the flags of the ISA
// level; runs only if cpu_isa_find allowed it. No state.
//
// A part of K of a slab is unpacked once, into L1: the codes less their zero as int8, the scales as
// floats. Then it is multiplied with all rows, 16 at a time. A dot product of tiles covers one
// group of 32: A is 16 rows x 32 bytes, loaded from the activations as codes.inc packs them, B is 8
// quads x 16 columns. Its sums are exact integers, and they are joined in float32 in ascending K as
// in codes.inc, so the bits are those of the other ISA levels.
#include "kernels/cpu/amx.h"
#include "kernels/cpu/internal.h"
#include "kernels/cpu/lanes_avx512.h"

#include <string.h>

#include "kernels/cpu/codes_avx512.h"
#include "kernels/cpu/codes_join.inc"
#include "kernels/cpu/slab_end.inc"

enum {
    PART_GROUPS = 8,   // number of groups of K that are unpacked together: 8 KB of codes
    HALF_LINE = 4,     // index of the first line of zeros
    CODE_LINES = 12,   // number of lines with halves: 4 quads, 4 lines of zeros, 4 quads
    STEP_DOTS = 4,     // number of dot products whose sums are stored together
    SUM_INTS = 16 * 16 // number of integers in a tile of sums
};
_Static_assert(offsetof(struct code_x, q) == 0, "a tile of rows begins with the row's bytes");

// A part of K of a slab, unpacked.
struct code_part_amx {
    _Alignas(64) int8_t codes[PART_GROUPS][2][CODE_LINES][64]; // [group][panel]
    struct code_scale scale[PART_GROUPS][2];
    enum weight_format format;
    uint32_t first, count; // index of the first group, and number of groups, which is even
};

// Unpacks group `g` of a piece as group `to` of the part.
static void group_unpack(struct code_part_amx *part, uint32_t to, uint32_t panel, const char *piece,
                         uint32_t g)
{
    const struct weight_format_facts *f = weight_format_facts(part->format);
    const struct code_layout layout = code_layout_of(part->format);
    const char *codes = piece + layout.codes_at + g * layout.code_bytes;
    const __m512i zero = _mm512_set1_epi32(f->zero * 0x01010101);
    int8_t(*out)[64] = part->codes[to][panel];
    for (uint32_t at = 0; at < layout.code_bytes + 64; at += 64)
        __builtin_prefetch(codes + CODES_AHEAD + at);
    code_quads q = f->e2m1        ? code_unpack(codes, 4, true)
                   : f->bits == 4 ? code_unpack(codes, 4, false)
                   : f->bits == 8 ? code_unpack(codes, 8, false)
                                  : code_unpack(codes, 6, false);
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t line = f->halves && i >= HALF_LINE ? i + HALF_LINE : i;
        _mm512_store_si512(out[line], _mm512_sub_epi8(q.at[i], zero));
    }
    for (uint32_t i = HALF_LINE; f->halves && i < 2 * HALF_LINE; i++)
        _mm512_store_si512(out[i], _mm512_setzero_si512());
    part->scale[to][panel] = code_scale_read(piece, g, 0, part->format, layout);
}

// Computes four dot products of 16 rows with 16 columns each: two with the rows at x[0], two with
// those at x[1]. Memory of the panel follows the rows, so that 16 can be loaded; sums of rows that
// do not exist are not used.
static void step_dots(int32_t *sums, const struct code_x *const x[2],
                      const int8_t *const codes[STEP_DOTS])
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(4, x[0], sizeof **x);
    _tile_loadd(6, codes[0], 64);
    _tile_dpbssd(0, 4, 6);
    _tile_loadd(7, codes[1], 64);
    _tile_dpbssd(1, 4, 7);
    _tile_loadd(5, x[1], sizeof **x);
    _tile_loadd(6, codes[2], 64);
    _tile_dpbssd(2, 5, 6);
    _tile_loadd(7, codes[3], 64);
    _tile_dpbssd(3, 5, 7);
    _tile_stored(0, sums, 64);
    _tile_stored(1, sums + SUM_INTS, 64);
    _tile_stored(2, sums + 2 * SUM_INTS, 64);
    _tile_stored(3, sums + 3 * SUM_INTS, 64);
}

// A part for one tile of rows. A step is two groups, or one group of a format with halves.
struct code_walk_amx {
    const struct code_part_amx *part;
    const struct code_x *x; // first of the rows in the part's first group
    float *totals;          // [rows][SLAB_COLUMNS]
    uint32_t rows, width;
    bool halves, least;
};

static void step_run(const struct code_walk_amx *w, uint32_t g, int32_t *sums)
{
    const struct code_x *x = w->x + (size_t)g * w->width;
    const int8_t(*left)[64] = w->part->codes[g][0], (*right)[64] = w->part->codes[g][1];
    if (w->halves)
        step_dots(sums, (const struct code_x *const[]){x, x},
                  (const int8_t *const[]){left[0], left[HALF_LINE], right[0], right[HALF_LINE]});
    else
        step_dots(sums, (const struct code_x *const[]){x, x + w->width},
                  (const int8_t *const[]){left[0], right[0], w->part->codes[g + 1][0][0],
                                          w->part->codes[g + 1][1][0]});
}

// Adds the sums of a step to the totals.
static void step_join(const struct code_walk_amx *w, uint32_t g, const int32_t *sums)
{
    const struct code_scale *s = w->part->scale[g];
    for (uint32_t r = 0; r < w->rows; r++)
        for (uint32_t c = 0; c < 2; c++) {
            const struct code_x *x = w->x + (size_t)g * w->width + r;
            const int32_t *at = sums + r * 16;
            float *to = w->totals + r * SLAB_COLUMNS + c * CODE_PANEL;
            code_floats total = code_load(to);
            if (w->halves) {
                code_ints first = _mm512_load_si512(at + 2 * c * SUM_INTS);
                code_ints second = _mm512_load_si512(at + (2 * c + 1) * SUM_INTS);
                first = _mm512_mullo_epi32(first, s[c].halves.first);
                second = _mm512_mullo_epi32(second, s[c].halves.second);
                total = code_join(total, _mm512_add_epi32(first, second), x, &s[c], false);
            } else {
                code_ints first = _mm512_load_si512(at + c * SUM_INTS);
                code_ints second = _mm512_load_si512(at + (2 + c) * SUM_INTS);
                total = code_join(total, first, x, &s[c], w->least);
                total = code_join(total, second, x + w->width, &s[2 + c], w->least);
            }
            code_store(to, total);
        }
}

// Multiplies a part with one tile of rows. The sums of a step are added while the tiles of the next
// one compute.
static void walk_run(const struct code_walk_amx *w)
{
    _Alignas(64) int32_t sums[2][STEP_DOTS * SUM_INTS];
    uint32_t step = w->halves ? 1 : 2;
    for (uint32_t g = 0; g < w->part->count; g += step) {
        step_run(w, g, sums[g / step % 2]);
        if (g > 0)
            step_join(w, g - step, sums[(g / step - 1) % 2]);
    }
    uint32_t last = w->part->count - step;
    step_join(w, last, sums[last / step % 2]);
}

static void slab_run(const struct product *p, uint32_t slab, float *sums)
{
    const struct weight_format_facts *f = weight_format_facts(p->format);
    const struct code_layout layout = code_layout_of(p->format);
    size_t bytes = code_panel_bytes(p->format, p->k);
    const char *panel = (const char *)p->weight + slab * 2 * bytes;
    // a slab of one panel computes it twice; columns from n on are not written
    size_t second = slab * SLAB_COLUMNS + CODE_PANEL < p->n ? bytes : 0;
    uint32_t each = layout.k / CODE_GROUP, groups = code_groups(p->k);
    struct code_part_amx part = {.format = p->format};
    memset(sums, 0, (size_t)p->rows * SLAB_COLUMNS * sizeof *sums);
    for (; part.first < groups; part.first += part.count) {
        part.count = groups - part.first < PART_GROUPS ? groups - part.first : PART_GROUPS;
        for (uint32_t g = part.first; g < part.first + part.count; g++)
            for (uint32_t c = 0; c < 2; c++)
                group_unpack(&part, g - part.first, c,
                             panel + c * second + (size_t)(g / each) * layout.bytes, g % each);
        __asm__ volatile("" ::: "memory"); // gcc 12's tile loads do not declare what they read
        for (uint32_t r = 0; r < p->rows; r += CODE_TILE) {
            uint32_t width = code_width(p);
            struct code_walk_amx w = {
                .part = &part,
                .x = code_tile(p, r / CODE_TILE) + (size_t)part.first * width,
                .totals = sums + (size_t)r * SLAB_COLUMNS,
                .rows = p->rows - r < CODE_TILE ? p->rows - r : CODE_TILE,
                .width = width,
                .halves = f->halves,
                .least = f->least,
            };
            walk_run(&w);
        }
    }
    struct slab_end end = slab_end_make(p, slab);
    slab_end_write(&end, sums, 0, p->rows);
}

void codes_amx(const struct product *p, uint32_t first, uint32_t end, uint32_t worker)
{
    enum { TILE_ROWS = 8 }; // least number of rows for which tiles pay (decision 0062)
    if (p->rows < TILE_ROWS) {
        cpu_kernels_avx512().codes(p, first, end, worker);
        return;
    }
    float *sums = p->scratch + (size_t)worker * SLAB_GROUP * PANEL_ROWS * SLAB_COLUMNS;
    amx_begin_groups();
    for (uint32_t slab = first; slab < end; slab++)
        slab_run(p, slab, sums);
    amx_end();
}
