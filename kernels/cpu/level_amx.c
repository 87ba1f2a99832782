// SPDX-License-Identifier: Apache-2.0
// The AMX level: the AVX-512 kernels, but tiles for products of bf16 and int8 (attention over bf16
// is in attn_amx.c, products of codes are in codes_amx.c). Compiled with the flags of the ISA
// level; runs only if cpu_isa_find allowed it.
//
// A tile register holds 16 rows of 64 bytes. Weights are packed so that a tile is one contiguous
// kilobyte; activations are packed the same way, once per product, with rows padded with zeros to
// 16. A slab of 32 columns is 2 tiles wide; 32 rows are 2 tiles high.
//
// K is summed in one order, block by block, for every number of rows. If a walk over K ends early,
// its sums are stored and loaded again unchanged. So a row's bits depend neither on where K is cut
// nor on other rows.
#include "kernels/cpu/amx.h"
#include "kernels/cpu/internal.h"
#include "kernels/cpu/lanes_avx512.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/rotate.inc"
#include "kernels/cpu/slab_end.inc"

struct amx_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

void amx_begin(void)
{
    // a static constant: gcc 12 drops the stores to a local variable, and the first tile faults
    static const struct amx_config config = {
        .palette = 1,
        .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
        .rows = {16, 16, 16, 16, 16, 16, 16, 16},
    };
    _tile_loadconfig(&config);
}

void amx_begin_groups(void)
{
    static const struct amx_config config = {
        .palette = 1,
        .row_bytes = {64, 64, 64, 64, 32, 32, 64, 64},
        .rows = {16, 16, 16, 16, 16, 16, 8, 8},
    };
    _tile_loadconfig(&config);
}

static uint32_t depth_blocks(const struct product *p) // K blocks of 64 bytes
{
    return p->dtype == DTYPE_I8 ? (p->k + 63) / 64 : (p->k + 31) / 32;
}

enum { GROUP_BLOCKS = BYTE_GROUP / BYTE_BLOCK };

enum { FEW_ROWS = 32 }; // up to this many rows one walk covers all of K

// Returns the K blocks of the part that begins with block `first`. With many rows, as many as keep
// the activations of 32 rows and a slab's weights (8 KB each) in L1, even if two threads share it;
// otherwise all of K.
static uint32_t part_blocks(const struct product *p, uint32_t first)
{
    enum { NEAR_BLOCKS = 4 };
    uint32_t left = depth_blocks(p) - first;
    return p->rows > FEW_ROWS && left > NEAR_BLOCKS ? NEAR_BLOCKS : left;
}

// Returns the packed activations of a row tile in the part that begins with block `first`. Layout:
// [part of K][row tile][K block][16][64 B]. A part is contiguous: at the stride of complete rows,
// often a power of two, it would use few sets of L2.
static char *panel_at(const struct product *p, uint32_t tile, uint32_t first)
{
    size_t tiles = (p->rows + 15) / 16;
    return (char *)p->panel + (first * tiles + (size_t)tile * part_blocks(p, first)) * 1024;
}

// Loads columns [i, i + 16) of a row of k elements; columns past k are zero.
static inline __m512 row_columns(const float *x, uint32_t i, uint32_t k)
{
    uint32_t left = i < k ? k - i : 0;
    __mmask16 mask = left >= 16 ? 0xFFFF : (__mmask16)((1u << left) - 1);
    return _mm512_maskz_loadu_ps(mask, x + i);
}

static inline __m512i block_bf16(const float *x, uint32_t i, uint32_t k) // nearest even
{
    return (__m512i)_mm512_cvtne2ps_pbh(row_columns(x, i + 16, k), row_columns(x, i, k));
}

static void pack_pairs(const struct product *p, uint32_t tile)
{
    uint32_t blocks = depth_blocks(p);
    for (uint32_t r = 0; r < 16; r++) {
        uint32_t row = tile * 16 + r;
        const float *x = product_row(p, row < p->rows ? row : 0);
        uint32_t k = row < p->rows ? p->k : 0; // rows past the last are zeros; nothing is read
        for (uint32_t first = 0, end; first < blocks; first = end) {
            end = first + part_blocks(p, first);
            char *out = panel_at(p, tile, first) + r * 64;
            for (uint32_t b = first; b < end; b++, out += 1024)
                _mm512_store_si512(out, block_bf16(x, b * 32, k));
        }
    }
}

// Packs 16 rows as bytes. A group never spans two parts: all parts but the last consist of complete
// groups.
static void pack_bytes(const struct product *p, uint32_t tile)
{
    uint32_t blocks = depth_blocks(p);
    struct byte_scales *scales = byte_scales_of(p, tile);
    for (uint32_t r = 0; r < 16; r++) {
        uint32_t row = tile * 16 + r;
        const float *x = product_row(p, row < p->rows ? row : 0);
        uint32_t k = row < p->rows ? p->k : 0;
        for (uint32_t first = 0, end; first < blocks; first = end) {
            end = first + part_blocks(p, first);
            char *out = panel_at(p, tile, first) + r * 64;
            for (uint32_t b = first; b < end; b += GROUP_BLOCKS, out += GROUP_BLOCKS * 1024) {
                _Alignas(64) int8_t group[BYTE_GROUP];
                struct byte_scales *s = &scales[b / GROUP_BLOCKS];
                group_to_bytes(group, &s->scale[r], &s->offset[r], x, b * BYTE_BLOCK, k);
                for (uint32_t i = 0; i < GROUP_BLOCKS && b + i < end; i++)
                    memcpy(out + i * 1024, group + i * BYTE_BLOCK, BYTE_BLOCK);
            }
        }
    }
}

static void pack_tile(const struct product *p, uint32_t tile)
{
    if (p->dtype == DTYPE_BF16)
        pack_pairs(p, tile);
    else if (p->dtype == DTYPE_I8)
        pack_bytes(p, tile);
    else
        cpu_kernels_avx512().pack(p, tile);
}

static inline void prefetch_block(const char *at)
{
    for (int i = 0; i < 2048; i += 64)
        _mm_prefetch(at + i, _MM_HINT_T0);
}

enum { AHEAD = 4 * 2048 }; // bytes of weights prefetched ahead of their use

// One walk: some K blocks of one slab for up to 32 rows. The sums so far are loaded and stored
// unchanged, so that bits do not depend on where K is cut.
struct walk {
    float *sum; // [32][32]
    const char *a, *w;
    size_t a_step; // bytes from one tile of rows to the next
    uint32_t blocks, rows;
    bool fresh;                          // true if `sum` contains nothing yet
    const struct byte_scales *scales[2]; // int8: scales of both row tiles, [groups]
    const float *columns;                // int8: scales of the weights, [groups][32]
    // Weights to prefetch for later walks while this one computes: a share of those that follow.
    // NULL: this walk's weights come from memory, and they are prefetched a short distance ahead.
    const char *ahead;
    uint32_t ahead_lines; // lines to prefetch per K block
};

static inline void walk_fetch(const struct walk *walk, uint32_t block, const char *w)
{
    if (!walk->ahead) {
        prefetch_block(w + AHEAD);
        return;
    }
    const char *ahead = walk->ahead + (size_t)block * walk->ahead_lines * 64;
    for (uint32_t i = 0; i < walk->ahead_lines; i++)
        _mm_prefetch(ahead + i * 64, _MM_HINT_T1);
}

// Computes 16 rows x 32 columns; bound by reading the weights, which are prefetched.
static void walk_low(const struct walk *walk)
{
    const char *a = walk->a;
    const char *w = walk->w;
    _tile_zero(0);
    _tile_zero(1);
    if (!walk->fresh) {
        _tile_loadd(0, walk->sum, 128);
        _tile_loadd(1, walk->sum + 16, 128);
    }
    for (uint32_t b = 0; b < walk->blocks; b++, a += 1024, w += 2048) {
        prefetch_block(w + AHEAD);
        _tile_loadd(4, a, 64);
        _tile_loadd(6, w, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, w + 1024, 64);
        _tile_dpbf16ps(1, 4, 7);
    }
    _tile_stored(0, walk->sum, 128);
    _tile_stored(1, walk->sum + 16, 128);
}

// Computes 32 rows x 32 columns. Activations are loaded with a non-temporal hint.
static void walk_high(const struct walk *walk)
{
    const char *a = walk->a;
    const char *w = walk->w;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    if (!walk->fresh) {
        _tile_loadd(0, walk->sum, 128);
        _tile_loadd(1, walk->sum + 16, 128);
        _tile_loadd(2, walk->sum + 16 * 32, 128);
        _tile_loadd(3, walk->sum + 16 * 32 + 16, 128);
    }
    for (uint32_t b = 0; b < walk->blocks; b++, a += 1024, w += 2048) {
        walk_fetch(walk, b, w);
        _tile_stream_loadd(4, a, 64);
        _tile_loadd(6, w, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, w + 1024, 64);
        _tile_dpbf16ps(1, 4, 7);
        _tile_stream_loadd(5, a + walk->a_step, 64);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, walk->sum, 128);
    _tile_stored(1, walk->sum + 16, 128);
    _tile_stored(2, walk->sum + 16 * 32, 128);
    _tile_stored(3, walk->sum + 16 * 32 + 16, 128);
}

// Adds the integer sums of a group of K, [rows][32], to the float sums.
static inline __attribute__((always_inline)) void group_add(const struct walk *walk, uint32_t g,
                                                            const int32_t *integers, uint32_t rows)
{
    bool fresh = walk->fresh && g == 0;
    __m512 left = _mm512_loadu_ps(walk->columns + g * 32);
    __m512 right = _mm512_loadu_ps(walk->columns + g * 32 + 16);
    for (uint32_t r = 0; r < rows; r++) {
        const struct byte_scales *s = walk->scales[r / 16] + g;
        __m512i offset = _mm512_set1_epi32(s->offset[r % 16]);
        __m512 scale = _mm512_set1_ps(s->scale[r % 16]);
        __m512i low = _mm512_add_epi32(_mm512_load_si512(integers + r * 32), offset);
        __m512i high = _mm512_add_epi32(_mm512_load_si512(integers + r * 32 + 16), offset);
        float *to = walk->sum + r * 32;
        __m512 one = fresh ? _mm512_setzero_ps() : _mm512_load_ps(to);
        __m512 two = fresh ? _mm512_setzero_ps() : _mm512_load_ps(to + 16);
        one = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(low), scale), left, one);
        two = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(high), scale), right, two);
        _mm512_store_ps(to, one);
        _mm512_store_ps(to + 16, two);
    }
}

static inline uint32_t group_end(const struct walk *walk, uint32_t b)
{
    return walk->blocks - b < GROUP_BLOCKS ? walk->blocks : b + GROUP_BLOCKS;
}

// As walk_low, for int8: a group's integer sums are stored, and added to the float sums while the
// next group's tiles compute.
static void bytes_low(const struct walk *walk)
{
    _Alignas(64) int32_t integers[2][16 * 32];
    const char *a = walk->a;
    const char *w = walk->w;
    uint32_t g = 0;
    for (uint32_t b = 0; b < walk->blocks; g++) {
        int32_t *to = integers[g % 2];
        _tile_zero(0);
        _tile_zero(1);
        for (uint32_t end = group_end(walk, b); b < end; b++, a += 1024, w += 2048) {
            prefetch_block(w + AHEAD);
            _tile_loadd(4, a, 64);
            _tile_loadd(6, w, 64);
            _tile_dpbsud(0, 4, 6);
            _tile_loadd(7, w + 1024, 64);
            _tile_dpbsud(1, 4, 7);
        }
        _tile_stored(0, to, 128);
        _tile_stored(1, to + 16, 128);
        if (g > 0)
            group_add(walk, g - 1, integers[(g - 1) % 2], 16);
    }
    group_add(walk, g - 1, integers[(g - 1) % 2], 16);
}

static void bytes_high(const struct walk *walk)
{
    _Alignas(64) int32_t integers[2][32 * 32];
    const char *a = walk->a;
    const char *w = walk->w;
    uint32_t g = 0;
    for (uint32_t b = 0; b < walk->blocks; g++) {
        int32_t *to = integers[g % 2];
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        for (uint32_t end = group_end(walk, b); b < end; b++, a += 1024, w += 2048) {
            walk_fetch(walk, b, w);
            _tile_stream_loadd(4, a, 64);
            _tile_loadd(6, w, 64);
            _tile_dpbsud(0, 4, 6);
            _tile_loadd(7, w + 1024, 64);
            _tile_dpbsud(1, 4, 7);
            _tile_stream_loadd(5, a + walk->a_step, 64);
            _tile_dpbsud(2, 5, 6);
            _tile_dpbsud(3, 5, 7);
        }
        _tile_stored(0, to, 128);
        _tile_stored(1, to + 16, 128);
        _tile_stored(2, to + 16 * 32, 128);
        _tile_stored(3, to + 16 * 32 + 16, 128);
        if (g > 0)
            group_add(walk, g - 1, integers[(g - 1) % 2], 32);
    }
    group_add(walk, g - 1, integers[(g - 1) % 2], 32);
}

static void walk_run(const struct walk *walk, bool bytes)
{
    if (bytes && walk->rows <= 16)
        bytes_low(walk);
    else if (bytes)
        bytes_high(walk);
    else if (walk->rows <= 16)
        walk_low(walk);
    else
        walk_high(walk);
}

// A group of slabs, which is computed for all rows.
struct group {
    const struct product *p;
    uint32_t first, end;
    struct slab_end ends[SLAB_GROUP];
};

static struct group group_make(const struct product *p, uint32_t first, uint32_t end)
{
    struct group g = {.p = p, .first = first, .end = end};
    for (uint32_t s = first; s < end; s++)
        g.ends[s - first] = slab_end_make(p, s);
    return g;
}

// Prefetches the lines of y that slab_end_write will fill.
static void rows_prefetch(const struct slab_end *e, uint32_t first, uint32_t rows)
{
    const struct product *p = e->p;
    for (uint32_t r = 0; r < rows; r++) {
        const float *y = p->y + (size_t)(first + r) * p->y_stride + e->column;
        __builtin_prefetch(y, 1, 2);
        __builtin_prefetch(y + 16, 1, 2);
    }
}

// Sums that are written to y only after the next walk's tiles were started, because a load directly
// after a tile's store would wait for it.
struct pending {
    const struct slab_end *end;
    const float *sum;
    uint32_t r, rows; // rows 0: nothing is pending
};

static void pending_do(struct pending *job)
{
    if (job->rows > 0)
        slab_end_write(job->end, job->sum, job->r, job->rows);
    job->rows = 0;
}

// One part of K for a group of slabs.
struct part {
    const struct group *group;
    float *sums; // [slabs][PANEL_ROWS][32]
    uint32_t first, blocks;
    bool from_memory; // true if these weights were not prefetched
    bool last, more;  // true in the last part of K; true if another group follows
};

static struct walk walk_make(const struct part *part, uint32_t slab, uint32_t r)
{
    const struct product *p = part->group->p;
    uint32_t depth = depth_blocks(p);
    struct walk walk = {
        .sum = part->sums + ((size_t)(slab - part->group->first) * PANEL_ROWS + r) * 32,
        .a = panel_at(p, r / 16, part->first),
        .w = (const char *)p->weight + ((size_t)slab * depth + part->first) * 2048,
        .a_step = (size_t)part->blocks * 1024,
        .blocks = part->blocks,
        .rows = p->rows - r < 32 ? p->rows - r : 32,
        .fresh = part->first == 0,
    };
    if (p->dtype == DTYPE_I8) {
        uint32_t group = part->first / GROUP_BLOCKS;
        walk.scales[0] = byte_scales_of(p, r / 16) + group;
        walk.scales[1] = byte_scales_of(p, r / 16 + (walk.rows > 16 ? 1 : 0)) + group;
        walk.columns = byte_columns_of(p, slab) + (size_t)group * SLAB_COLUMNS;
    }
    if (p->rows <= FEW_ROWS || (part->from_memory && r == 0))
        return walk;
    // prefetch the weights that come next for this slab position: the next part's, or the next
    // group's
    uint32_t walks = (p->rows + 31) / 32;
    walk.ahead =
        walk.w + (part->last ? (size_t)SLAB_GROUP * depth - part->first : part->blocks) * 2048;
    walk.ahead_lines = part->last && !part->more ? 0 : (32 + walks - 1) / walks;
    walk.ahead += (size_t)(r / 32) * walk.ahead_lines * 64 * part->blocks;
    return walk;
}

// Computes each slab for all rows, 32 at a time.
static void part_run(const struct part *part)
{
    const struct group *g = part->group;
    struct pending before = {.rows = 0};
    for (uint32_t s = g->first; s < g->end; s++)
        for (uint32_t r = 0; r < g->p->rows; r += 32) {
            const struct slab_end *end = &g->ends[s - g->first];
            struct walk walk = walk_make(part, s, r);
            if (part->last)
                rows_prefetch(end, r, walk.rows);
            walk_run(&walk, g->p->dtype == DTYPE_I8);
            pending_do(&before);
            if (part->last)
                before = (struct pending){end, walk.sum, r, walk.rows};
        }
    pending_do(&before);
}

static void product_tiles(const struct product *p, uint32_t first, uint32_t end, uint32_t worker)
{
    if (p->dtype != DTYPE_BF16 && p->dtype != DTYPE_I8) {
        cpu_kernels_avx512().product(p, first, end, worker); // float32 is never rounded to bf16
        return;
    }
    float *sums = p->scratch + (size_t)worker * SLAB_GROUP * PANEL_ROWS * SLAB_COLUMNS;
    uint32_t blocks = depth_blocks(p);
    amx_begin();
    for (uint32_t s = first; s < end; s += SLAB_GROUP) {
        struct group g = group_make(p, s, end - s < SLAB_GROUP ? end : s + SLAB_GROUP);
        struct part part = {.group = &g, .sums = sums, .more = g.end < end};
        for (; part.first < blocks; part.first += part.blocks) {
            part.blocks = part_blocks(p, part.first);
            part.from_memory = s == first && part.first == 0;
            part.last = part.first + part.blocks == blocks;
            part_run(&part);
        }
    }
    amx_end();
}

static void attn_pick(const struct attn_job *job)
{
    if (job->args->kv == DTYPE_BF16)
        attn_amx(job);
    else
        cpu_kernels_avx512().attn(job);
}

static void merge_pick(const struct attn_job *job)
{
    if (job->args->kv == DTYPE_BF16)
        attn_amx_merge(job);
    else
        cpu_kernels_avx512().attn_merge(job);
}

struct cpu_kernels cpu_kernels_amx(void)
{
    struct cpu_kernels kernels = cpu_kernels_avx512();
    kernels.pack = pack_tile;
    kernels.product = product_tiles;
    kernels.codes = codes_amx;
    kernels.attn = attn_pick;
    kernels.attn_merge = merge_pick;
    return kernels;
}
