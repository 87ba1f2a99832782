// AMX: the AVX-512 kernels, and tiles for products of bf16 and int8 (attention over bf16 is in
// attn_amx.c). Compiled with the flags of the level; runs only where cpu_level_find allowed it.
//
// A tile register holds 16 rows of 64 bytes. Weights lie packed so that a tile is one contiguous
// kilobyte; activations are packed likewise, once for each product: [row tile][K block][16][64 B],
// rows padded with zeros to 32. One slab of 32 columns is 2 tiles wide; 32 rows are 2 tiles high.
//
// bf16: K is cut at PRODUCT_PART, each part is summed by tiles from zero, parts are added in order
// in fp32: the same for every number of rows, and a row of a tile never meets another row.
// int8: the same walk in 32-bit integers, which are exact however K is cut.
#include "kernels/cpu/amx.h"
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <string.h>

struct amx_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

void amx_begin(void)
{
    // a constant in memory: gcc 12 drops the stores to a local one, and the first tile faults
    static const struct amx_config config = {
        .palette = 1,
        .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
        .rows = {16, 16, 16, 16, 16, 16, 16, 16},
    };
    _tile_loadconfig(&config);
}

static uint32_t depth_blocks(const struct product *p) // K blocks of 64 bytes
{
    return p->dtype == DTYPE_I8 ? (p->k + 63) / 64 : (p->k + 31) / 32;
}

// 16 floats to bf16, nearest even; columns past `left` are zero.
static inline __m256i to_bf16(const float *x, uint32_t left)
{
    __mmask16 mask = left >= 16 ? 0xFFFF : (__mmask16)((1u << left) - 1);
    return (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, x));
}

static void pack_bf16(const struct product *p, uint32_t tile)
{
    uint32_t blocks = depth_blocks(p);
    char *panel = (char *)p->panel + (size_t)tile * blocks * 1024;
    for (uint32_t r = 0; r < 16; r++) {
        uint32_t row = tile * 16 + r;
        if (row >= p->rows) {
            for (uint32_t b = 0; b < blocks; b++)
                memset(panel + (size_t)b * 1024 + r * 64, 0, 64);
            continue;
        }
        const float *x = p->x + (size_t)row * p->x_stride;
        for (uint32_t b = 0; b < blocks; b++) {
            uint32_t left = p->k - b * 32;
            __m256i *out = (__m256i *)(void *)(panel + (size_t)b * 1024 + r * 64);
            _mm256_store_si256(out, to_bf16(x + b * 32, left));
            _mm256_store_si256(out + 1, left > 16 ? to_bf16(x + b * 32 + 16, left - 16)
                                                  : _mm256_setzero_si256());
        }
    }
}

// As pack_bytes of the other levels, but into tiles.
static float row_scale_of(const float *x, uint32_t k)
{
    __m512 top = _mm512_setzero_ps();
    __m512 poison = _mm512_setzero_ps();
    for (uint32_t i = 0; i < k; i += 16) {
        __mmask16 mask = k - i >= 16 ? 0xFFFF : (__mmask16)((1u << (k - i)) - 1);
        __m512 v = _mm512_maskz_loadu_ps(mask, x + i);
        top = _mm512_max_ps(_mm512_abs_ps(v), top);
        poison = _mm512_fmadd_ps(v, _mm512_setzero_ps(), poison);
    }
    return _mm512_reduce_max_ps(top) / 127.0f + _mm512_reduce_add_ps(poison);
}

static void pack_i8(const struct product *p, uint32_t tile)
{
    uint32_t blocks = depth_blocks(p);
    char *panel = (char *)p->panel + (size_t)tile * blocks * 1024;
    for (uint32_t r = 0; r < 16; r++) {
        uint32_t row = tile * 16 + r;
        const float *x = p->x + (size_t)row * p->x_stride;
        float scale = row < p->rows ? row_scale_of(x, p->k) : 0;
        if (row < p->rows)
            p->row_scale[row] = scale;
        __m512 inverse = _mm512_set1_ps(scale > 0 && scale <= 0x1p120f ? 1.0f / scale : 0.0f);
        for (uint32_t i = 0; i < blocks * 64; i += 16) {
            uint32_t left = row < p->rows && i < p->k ? p->k - i : 0;
            __mmask16 mask = left >= 16 ? 0xFFFF : (__mmask16)((1u << left) - 1);
            __m512 v = left > 0 ? _mm512_maskz_loadu_ps(mask, x + i) : _mm512_setzero_ps();
            __m512i whole = _mm512_cvtps_epi32(_mm512_mul_ps(v, inverse));
            char *out = panel + (size_t)(i / 64) * 1024 + r * 64 + i % 64;
            _mm_storeu_si128((__m128i *)(void *)out, _mm512_cvtsepi32_epi8(whole));
        }
    }
}

static void pack_tile(const struct product *p, uint32_t tile)
{
    if (p->dtype == DTYPE_BF16)
        pack_bf16(p, tile);
    else if (p->dtype == DTYPE_I8)
        pack_i8(p, tile);
}

static inline void prefetch_block(const char *at)
{
    for (int i = 0; i < 2048; i += 64)
        _mm_prefetch(at + i, _MM_HINT_T0);
}

// One part of K for one block of 32 rows and one slab.
struct block_place {
    const char *a, *w;
    size_t a_step;
    uint32_t blocks, rows;
    bool first_walk; // over these weights: they come from memory
};

enum { AHEAD = 4 * 2048 }; // bytes of weights fetched before they are wanted

// 16 rows x 32 columns over K blocks: bound by the reading of weights, which is told ahead.
static void tiles_low(float *out, const char *a, const char *w, uint32_t blocks)
{
    _tile_zero(0);
    _tile_zero(1);
    for (uint32_t b = 0; b < blocks; b++, a += 1024, w += 2048) {
        prefetch_block(w + AHEAD);
        _tile_loadd(4, a, 64);
        _tile_loadd(6, w, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, w + 1024, 64);
        _tile_dpbf16ps(1, 4, 7);
    }
    _tile_stored(0, out, 128);
    _tile_stored(1, out + 16, 128);
}

// What a walk over K blocks fetches into the core's cache for later walks, so that memory works
// while tiles compute: a share of the weights that come after these.
struct ahead {
    const char *w;  // NULL: these weights themselves come from memory, a little ahead
    uint32_t lines; // a K block
};

static inline void prefetch_ahead(const struct ahead *ahead, uint32_t block)
{
    const char *w = ahead->w + (size_t)block * ahead->lines * 64;
    for (uint32_t i = 0; i < ahead->lines; i++)
        _mm_prefetch(w + i * 64, _MM_HINT_T1);
}

// 32 rows x 32 columns. Activations pass through with a hint that they are not wanted again soon:
// the weights of a part (32 KB) are, by the next 32 rows, and both do not fit the first cache.
static inline __attribute__((always_inline)) void
tiles_high(float *out, const struct block_place *at, const struct ahead *ahead)
{
    const char *a = at->a;
    const char *w = at->w;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (uint32_t b = 0; b < at->blocks; b++, a += 1024, w += 2048) {
        if (ahead->w != NULL)
            prefetch_ahead(ahead, b);
        else
            prefetch_block(w + AHEAD);
        _tile_stream_loadd(4, a, 64);
        _tile_loadd(6, w, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, w + 1024, 64);
        _tile_dpbf16ps(1, 4, 7);
        _tile_stream_loadd(5, a + at->a_step, 64);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, out, 128);
    _tile_stored(1, out + 16, 128);
    _tile_stored(2, out + 16 * 32, 128);
    _tile_stored(3, out + 16 * 32 + 16, 128);
}

static void bytes_low(int32_t *out, const char *a, const char *w, uint32_t blocks)
{
    _tile_zero(0);
    _tile_zero(1);
    for (uint32_t b = 0; b < blocks; b++, a += 1024, w += 2048) {
        prefetch_block(w + AHEAD);
        _tile_loadd(4, a, 64);
        _tile_loadd(6, w, 64);
        _tile_dpbssd(0, 4, 6);
        _tile_loadd(7, w + 1024, 64);
        _tile_dpbssd(1, 4, 7);
    }
    _tile_stored(0, out, 128);
    _tile_stored(1, out + 16, 128);
}

static inline __attribute__((always_inline)) void
bytes_high(int32_t *out, const struct block_place *at, const struct ahead *ahead)
{
    const char *a = at->a;
    const char *w = at->w;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (uint32_t b = 0; b < at->blocks; b++, a += 1024, w += 2048) {
        if (ahead->w != NULL)
            prefetch_ahead(ahead, b);
        else
            prefetch_block(w + AHEAD);
        _tile_stream_loadd(4, a, 64);
        _tile_loadd(6, w, 64);
        _tile_dpbssd(0, 4, 6);
        _tile_loadd(7, w + 1024, 64);
        _tile_dpbssd(1, 4, 7);
        _tile_stream_loadd(5, a + at->a_step, 64);
        _tile_dpbssd(2, 5, 6);
        _tile_dpbssd(3, 5, 7);
    }
    _tile_stored(0, out, 128);
    _tile_stored(1, out + 16, 128);
    _tile_stored(2, out + 16 * 32, 128);
    _tile_stored(3, out + 16 * 32 + 16, 128);
}

// The last part of a slab goes to y: sum of parts, scales, bias.
struct slab_end {
    const struct product *p;
    __m512 bias[2], scale[2];
    __mmask16 mask[2];
    uint32_t column;
};

static struct slab_end slab_end_make(const struct product *p, uint32_t slab)
{
    struct slab_end e = {.p = p, .column = slab * SLAB_COLUMNS};
    for (uint32_t c = 0; c < 2; c++) {
        uint32_t at = e.column + 16 * c;
        uint32_t left = p->n > at ? p->n - at : 0;
        e.mask[c] = left >= 16 ? 0xFFFF : (__mmask16)((1u << left) - 1);
        e.bias[c] = p->bias != NULL ? _mm512_maskz_loadu_ps(e.mask[c], p->bias + at)
                                    : _mm512_setzero_ps();
        e.scale[c] = p->scale != NULL ? _mm512_loadu_ps(p->scale + at) : _mm512_set1_ps(1);
    }
    return e;
}

static void rows_write(const struct slab_end *e, const float *sums, uint32_t first, uint32_t rows)
{
    const struct product *p = e->p;
    for (uint32_t r = 0; r < rows; r++) {
        float *y = p->y + (size_t)(first + r) * p->y_stride + e->column;
        for (uint32_t c = 0; c < 2; c++) {
            __m512 v = _mm512_load_ps(sums + r * 32 + 16 * c);
            if (p->bias != NULL)
                v = _mm512_add_ps(v, e->bias[c]);
            _mm512_mask_storeu_ps(y + 16 * c, e->mask[c], v);
        }
    }
}

static void rows_write_i8(const struct slab_end *e, const int32_t *sums, uint32_t first,
                          uint32_t rows)
{
    const struct product *p = e->p;
    for (uint32_t r = 0; r < rows; r++) {
        float *y = p->y + (size_t)(first + r) * p->y_stride + e->column;
        __m512 scale = _mm512_set1_ps(p->row_scale[first + r]);
        for (uint32_t c = 0; c < 2; c++) {
            __m512 v = _mm512_cvtepi32_ps(_mm512_load_si512(sums + r * 32 + 16 * c));
            v = _mm512_mul_ps(_mm512_mul_ps(v, scale), e->scale[c]);
            if (p->bias != NULL)
                v = _mm512_add_ps(v, e->bias[c]);
            _mm512_mask_storeu_ps(y + 16 * c, e->mask[c], v);
        }
    }
}

static void sums_add(float *sums, const float *part, uint32_t rows)
{
    for (uint32_t i = 0; i < rows * 32; i += 16)
        _mm512_store_ps(sums + i,
                        _mm512_add_ps(_mm512_load_ps(sums + i), _mm512_load_ps(part + i)));
}

static void sums_add_i8(int32_t *sums, const int32_t *part, uint32_t rows)
{
    for (uint32_t i = 0; i < rows * 32; i += 16)
        _mm512_store_si512(sums + i, _mm512_add_epi32(_mm512_load_si512(sums + i),
                                                      _mm512_load_si512(part + i)));
}

// One group of slabs over all rows, and what its walks fetch.
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

// The share of the walk of 32 rows from r. next: the weights that follow these in the slab's
// place, or NULL.
static struct ahead ahead_make(const struct group *g, const struct block_place *at, uint32_t r,
                               const char *next)
{
    uint32_t walks = (g->p->rows + 31) / 32;
    uint32_t lines = (32 + walks - 1) / walks;
    if (at->first_walk && r == 0)
        return (struct ahead){NULL, 0};
    if (next == NULL)
        return (struct ahead){at->w, 0};
    return (struct ahead){next + (size_t)(r / 32) * lines * 64 * at->blocks, lines};
}

static void block_sum(float *into, const struct block_place *at, const struct ahead *ahead,
                      enum dtype dtype)
{
    int32_t *whole = (int32_t *)(void *)into;
    if (dtype == DTYPE_I8 && at->rows <= 16)
        bytes_low(whole, at->a, at->w, at->blocks);
    else if (dtype == DTYPE_I8)
        bytes_high(whole, at, ahead);
    else if (at->rows <= 16)
        tiles_low(into, at->a, at->w, at->blocks);
    else
        tiles_high(into, at, ahead);
}

// Asks for the lines of y that rows_write will fill a thousand cycles later.
static void rows_ask(const struct slab_end *e, uint32_t first, uint32_t rows)
{
    const struct product *p = e->p;
    for (uint32_t r = 0; r < rows; r++) {
        const float *y = p->y + (size_t)(first + r) * p->y_stride + e->column;
        __builtin_prefetch(y, 1, 2);
        __builtin_prefetch(y + 16, 1, 2);
    }
}

// For int8 these are twice as many steps of K; integers are exact in any cut.
enum { PART_BLOCKS = PRODUCT_PART / 32 };

// What is left to do for a block whose tiles were stored: it is done after the next block's tiles
// have been started, for a load right behind a tile's store would wait for it.
struct pending {
    const struct slab_end *end;
    float *sum;        // [32][32] of the parts so far (int8: of integers)
    const float *part; // to be added to it, or NULL
    uint32_t r, rows;  // rows 0: nothing pending
    bool last;         // goes to y
};

static void pending_do(struct pending *job)
{
    if (job->rows == 0)
        return;
    bool bytes = job->end->p->dtype == DTYPE_I8;
    if (job->part != NULL && bytes)
        sums_add_i8((int32_t *)(void *)job->sum, (const int32_t *)(const void *)job->part,
                    job->rows);
    else if (job->part != NULL)
        sums_add(job->sum, job->part, job->rows);
    if (job->last && bytes)
        rows_write_i8(job->end, (const int32_t *)(const void *)job->sum, job->r, job->rows);
    else if (job->last)
        rows_write(job->end, job->sum, job->r, job->rows);
    job->rows = 0;
}

// One part of K from block b: each slab meets all rows, 32 at a time; the part's activations stay
// in the core's cache for all slabs of the group.
static void group_part(const struct group *g, uint32_t b, float *sums, bool fresh, bool more)
{
    _Alignas(64) float part[2][32 * 32];
    const struct product *p = g->p;
    uint32_t blocks = depth_blocks(p);
    struct block_place at = {.a_step = (size_t)blocks * 1024, .first_walk = fresh};
    at.blocks = blocks - b < PART_BLOCKS ? blocks - b : PART_BLOCKS;
    bool last = b + at.blocks == blocks;
    struct pending before = {.rows = 0};
    uint32_t turn = 0;
    for (uint32_t s = g->first; s < g->end; s++) {
        for (uint32_t r = 0; r < p->rows; r += 32) {
            at.rows = p->rows - r < 32 ? p->rows - r : 32;
            at.a = (const char *)p->panel + r / 16 * at.a_step + (size_t)b * 1024;
            float *sum = sums + ((size_t)(s - g->first) * PANEL_ROWS + r) * 32;
            at.w = (const char *)p->weight + ((size_t)s * blocks + b) * 2048;
            const char *next = last ? at.w + ((size_t)SLAB_GROUP * blocks - b) * 2048
                                    : at.w + (size_t)at.blocks * 2048;
            struct ahead ahead = ahead_make(g, &at, r, last && !more ? NULL : next);
            if (last)
                rows_ask(&g->ends[s - g->first], r, at.rows);
            float *into = b == 0 ? sum : part[turn++ % 2];
            block_sum(into, &at, &ahead, p->dtype);
            pending_do(&before);
            before = (struct pending){.end = &g->ends[s - g->first], .sum = sum,
                                      .part = b == 0 ? NULL : into, .r = r,
                                      .rows = at.rows, .last = last};
        }
    }
    pending_do(&before);
}

static void product_tiles(const struct product *p, uint32_t first, uint32_t end, uint32_t worker)
{
    if (p->dtype != DTYPE_BF16 && p->dtype != DTYPE_I8) {
        cpu_kernels_avx512().product(p, first, end, worker); // fp32 never goes through bf16
        return;
    }
    float *sums = p->scratch + (size_t)worker * SLAB_GROUP * PANEL_ROWS * SLAB_COLUMNS;
    uint32_t blocks = depth_blocks(p);
    amx_begin();
    for (uint32_t s = first; s < end; s += SLAB_GROUP) {
        struct group g = group_make(p, s, end - s < SLAB_GROUP ? end : s + SLAB_GROUP);
        for (uint32_t b = 0; b < blocks; b += PART_BLOCKS)
            group_part(&g, b, sums, s == first && b == 0, g.end < end);
    }
    amx_end();
}

static void attn_pick(const struct attn_item *item)
{
    if (item->args->shape.paged && item->args->kv == DTYPE_BF16)
        attn_amx(item);
    else
        cpu_kernels_avx512().attn(item);
}

struct cpu_kernels cpu_kernels_amx(void)
{
    struct cpu_kernels kernels = cpu_kernels_avx512();
    kernels.pack = pack_tile;
    kernels.product = product_tiles;
    kernels.attn = attn_pick;
    return kernels;
}
