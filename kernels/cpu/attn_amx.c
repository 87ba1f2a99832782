// SPDX-License-Identifier: Apache-2.0
// Attention over bf16 keys and values with AMX tiles; the float32 keys and values of a ragged row
// are rounded. As in attn.inc, tiles of 64 keys ascend, parts have ATTN_PART_TOKENS keys, and each
// query is computed independently.
//
//   scores   S[64 keys x 16 queries] = K Q^T    keys are rows of the first operand, as stored
//   softmax  in base 2, one query per lane, in 64 steps over the keys; P is rounded to bf16
//   output   O[16 queries x dim] += P V         V as pairs of keys, P transposed 16 x 16
//
// Interleaving two keys changes the order of the columns of V within 32 (column_of); the output is
// put back in order when it is written. A column of S and a row of O belong to one query, so its
// bits do not depend on the other queries of the tile.
#include "kernels/cpu/amx.h"
#include "kernels/cpu/internal.h"

#include <math.h>
#include <string.h>

struct amx_tile {         // 16 queries
    char *q;              // [dim blocks][16 pairs][16 queries][2] bf16
    float *out, *out_sum; // [16][wide] output of the current part; of all earlier parts
    float low[16], high[16];
    float top[16], mass[16], top_sum[16], mass_sum[16];
    uint32_t low_least, low_most, high_least, high_most;
    uint32_t position[16]; // positions of the queries
    const float *bias[16]; // attn_bias_of of their heads
};

struct amx_walk {
    const struct attn_job *job;
    struct amx_tile tile[ATTN_GROUP];
    char *k;      // [dim blocks][64 keys][64 B] bf16
    char *v;      // [2][wide / 16][16 pairs][16][2] bf16
    float *score; // [64][16]; later P as two tiles
    float *delta; // [16][wide] P V of one key tile
    uint32_t tiles, dim, wide, blocks, group;
    float scale; // weights are 2^(scale * score); 1 if scores_bias has scaled the scores
};

#define LOG2_E 1.44269504f

static const float top_none = -1e9f; // below any score: no key seen yet

static uint32_t column_of(uint32_t d) // index of column d after two rows of 32 are interleaved
{
    return d / 32 * 32 + (d / 4 % 2) * 16 + d % 32 / 8 * 4 + d % 4;
}

// Returns 2^t; 0 if t < -126 (also for -infinity).
static inline __m512 exp2_lanes(__m512 t)
{
    __mmask16 alive = _mm512_cmp_ps_mask(t, _mm512_set1_ps(-126), _CMP_GE_OQ);
    __m512 n = _mm512_roundscale_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512 f = _mm512_sub_ps(t, n);
    __m512 p = _mm512_set1_ps(1.3333558e-3f);
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(9.6181291e-3f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(5.5504109e-2f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(2.4022651e-1f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(6.9314718e-1f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f));
    return _mm512_maskz_scalef_ps(alive, p, n);
}

// Loads the first 32 of `left` elements as bf16; elements past `left` are zero.
static inline __m512i rounded_piece(const float *x, uint32_t left)
{
    __mmask16 low = left >= 16 ? 0xFFFF : (__mmask16)((1u << left) - 1);
    __mmask16 high = left >= 32 ? 0xFFFF : left > 16 ? (__mmask16)((1u << (left - 16)) - 1) : 0;
    __m512 a = _mm512_maskz_loadu_ps(low, x);
    __m512 b = _mm512_maskz_loadu_ps(high, x + 16);
    return (__m512i)_mm512_cvtne2ps_pbh(b, a);
}

// Stores one query as bf16 pairs in its column of the tiles.
static void query_put(struct amx_walk *w, struct amx_tile *tile, uint32_t lane, const float *q)
{
    _Alignas(64) uint32_t pairs[128];
    for (uint32_t d = 0; d < w->wide; d += 32)
        _mm512_store_si512(pairs + d / 2, rounded_piece(q + d, w->dim - d));
    uint32_t *to = (uint32_t *)(void *)tile->q + lane;
    for (uint32_t i = 0; i < w->wide / 2; i++)
        to[i * 16] = pairs[i];
}

static void tile_open(struct amx_walk *w, struct amx_tile *tile, uint32_t first)
{
    const struct attn_job *job = w->job;
    const struct attn_shape *s = &job->args->shape;
    uint32_t before = job->row->kv_len - job->row->q_len;
    size_t width = (size_t)(s->heads + 2 * s->kv_heads) * s->dim;
    tile->low_least = tile->high_least = UINT32_MAX;
    tile->low_most = tile->high_most = 0;
    if (first + 16 > job->end)
        memset(tile->q, 0, (size_t)w->wide * 32);
    for (uint32_t i = 0; i < 16; i++) {
        // lanes without a query get the limits of the last query and zeros; their results are not
        // used
        uint32_t packed = first + i < job->end ? first + i : job->end - 1;
        uint32_t token = job->row->q_start + packed / w->group;
        uint32_t head = job->kv_head * w->group + packed % w->group;
        if (first + i < job->end)
            query_put(w, tile, i, (const float *)job->args->qkv + token * width + head * s->dim);
        uint32_t position = before + packed / w->group;
        uint32_t high = attn_high(s, position, job->row->kv_len);
        uint32_t low = attn_low(s, position);
        tile->position[i] = position;
        tile->bias[i] = attn_bias_of(job->args, head);
        tile->low[i] = (float)low;
        tile->high[i] = (float)high;
        tile->low_least = low < tile->low_least ? low : tile->low_least;
        tile->low_most = low > tile->low_most ? low : tile->low_most;
        tile->high_least = high < tile->high_least ? high : tile->high_least;
        tile->high_most = high > tile->high_most ? high : tile->high_most;
        tile->top_sum[i] = tile->mass_sum[i] = 0;
    }
}

static void walk_shape(struct amx_walk *w, const struct attn_job *job)
{
    const struct attn_shape *s = &job->args->shape;
    w->job = job;
    w->dim = s->dim;
    w->wide = (s->dim + 31) / 32 * 32;
    w->blocks = w->wide / 32;
    w->group = s->heads / s->kv_heads;
    w->scale = job->args->bias ? 1 : s->scale * LOG2_E;
}

static void walk_open(struct amx_walk *w, const struct attn_job *job)
{
    walk_shape(w, job);
    char *at = (char *)(((uintptr_t)job->scratch + 63) & ~(uintptr_t)63);
    w->k = at;
    w->v = at += (size_t)w->wide * 128;
    w->score = (float *)(void *)(at += (size_t)w->wide * 128);
    w->delta = (float *)(void *)(at += 64 * 16 * sizeof(float));
    at += (size_t)w->wide * 16 * sizeof(float);
    w->tiles = (job->end - job->first + 15) / 16;
    for (uint32_t i = 0; i < w->tiles; i++) {
        w->tile[i].q = at;
        w->tile[i].out = (float *)(void *)(at += (size_t)w->wide * 32);
        if (job->state)
            w->tile[i].out = job->state;
        w->tile[i].out_sum = (float *)(void *)(at += (size_t)w->wide * 16 * sizeof(float));
        at += (size_t)w->wide * 16 * sizeof(float);
        tile_open(w, &w->tile[i], job->first + i * 16);
    }
}

static void part_open(const struct amx_walk *w, struct amx_tile *tile)
{
    memset(tile->out, 0, (size_t)w->wide * 16 * sizeof(float));
    _mm512_storeu_ps(tile->top, _mm512_set1_ps(top_none));
    _mm512_storeu_ps(tile->mass, _mm512_setzero_ps());
}

// Returns the key at a position, in the KV blocks or in the activations.
static const char *key_at(const struct amx_walk *w, uint32_t position)
{
    const struct attn_args *a = w->job->args;
    if (!a->shape.paged) {
        size_t width = (size_t)(a->shape.heads + 2 * a->shape.kv_heads) * w->dim;
        size_t token = w->job->row->q_start + position;
        size_t column = (size_t)(a->shape.heads + w->job->kv_head) * w->dim;
        return (const char *)((const float *)a->qkv + token * width + column);
    }
    uint64_t place = (uint64_t)w->job->blocks[position >> a->block_shift] * TABLE_UNIT_BYTES;
    place += (position & ((1u << a->block_shift) - 1)) * a->token_bytes;
    place += a->layer_offset + w->job->kv_head * a->head_bytes;
    return (const char *)a->kv_base + place;
}

// Loads 32 columns of a key or value from column `at` on; columns past the head are zero.
static inline __m512i row_piece(const struct amx_walk *w, const char *row, uint32_t at)
{
    uint32_t left = w->dim - at;
    if (!w->job->args->shape.paged)
        return rounded_piece((const float *)(const void *)row + at, left);
    __mmask32 mask = left >= 32 ? 0xFFFFFFFFu : (1u << left) - 1;
    return _mm512_maskz_loadu_epi16(mask, row + (size_t)at * 2);
}

// Loads keys as rows of tiles and values as pairs of keys; past `count` both are zero.
static void keys_load(const struct amx_walk *w, uint32_t first, uint32_t count)
{
    const struct attn_args *a = w->job->args;
    size_t value = a->shape.paged ? a->value_offset : a->shape.kv_heads * w->dim * sizeof(float);
    for (uint32_t j = 0; j < ATTN_TILE_KEYS; j += 2) {
        const char *k0 = j < count ? key_at(w, first + j) : NULL;
        const char *k1 = j + 1 < count ? key_at(w, first + j + 1) : NULL;
        char *v = w->v + (size_t)(j / 32) * w->wide * 64 + j % 32 / 2 * 64;
        for (uint32_t b = 0; b < w->blocks; b++) {
            __m512i zero = _mm512_setzero_si512();
            __m512i a0 = k0 ? row_piece(w, k0, b * 32) : zero;
            __m512i a1 = k1 ? row_piece(w, k1, b * 32) : zero;
            __m512i v0 = k0 ? row_piece(w, k0 + value, b * 32) : zero;
            __m512i v1 = k1 ? row_piece(w, k1 + value, b * 32) : zero;
            char *k = w->k + (size_t)b * 4096 + (size_t)j * 64;
            _mm512_store_si512(k, a0);
            _mm512_store_si512(k + 64, a1);
            _mm512_store_si512(v + (size_t)b * 2048, _mm512_unpacklo_epi16(v0, v1));
            _mm512_store_si512(v + (size_t)b * 2048 + 1024, _mm512_unpackhi_epi16(v0, v1));
        }
    }
}

static void amx_scores(const struct amx_walk *w, const struct amx_tile *tile)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (uint32_t b = 0; b < w->blocks; b++) {
        const char *k = w->k + (size_t)b * 4096;
        _tile_loadd(4, tile->q + (size_t)b * 1024, 64);
        _tile_loadd(5, k, 64);
        _tile_dpbf16ps(0, 5, 4);
        _tile_loadd(6, k + 1024, 64);
        _tile_dpbf16ps(1, 6, 4);
        _tile_loadd(5, k + 2048, 64);
        _tile_dpbf16ps(2, 5, 4);
        _tile_loadd(6, k + 3072, 64);
        _tile_dpbf16ps(3, 6, 4);
    }
    _tile_stored(0, w->score, 64);
    _tile_stored(1, w->score + 256, 64);
    _tile_stored(2, w->score + 512, 64);
    _tile_stored(3, w->score + 768, 64);
}

// Scales the scores and adds the bias of each query.
static void scores_bias(const struct amx_walk *w, const struct amx_tile *tile, uint32_t first)
{
    const struct attn_args *a = w->job->args;
    __m512 scale = _mm512_set1_ps(a->shape.scale * LOG2_E), unit = _mm512_set1_ps(LOG2_E);
    for (uint32_t j = 0; j < ATTN_TILE_KEYS; j++) {
        float copies[16];
        const float *from =
            attn_bias_row(copies, a, tile->position, tile->bias, w->group == 1, first + j);
        __m512 bias = _mm512_mul_ps(_mm512_loadu_ps(from), unit);
        float *score = w->score + j * 16;
        _mm512_store_ps(score, _mm512_fmadd_ps(_mm512_load_ps(score), scale, bias));
    }
}

static void scores_mask(const struct amx_walk *w, const struct amx_tile *tile, uint32_t first)
{
    __m512 low = _mm512_loadu_ps(tile->low);
    __m512 high = _mm512_loadu_ps(tile->high);
    for (uint32_t j = 0; j < ATTN_TILE_KEYS; j++) {
        __m512 position = _mm512_set1_ps((float)(first + j));
        __mmask16 seen = _mm512_cmp_ps_mask(position, low, _CMP_GE_OQ) &
                         _mm512_cmp_ps_mask(position, high, _CMP_LE_OQ);
        __m512 s = _mm512_load_ps(w->score + j * 16);
        _mm512_store_ps(w->score + j * 16,
                        _mm512_mask_blend_ps(seen, _mm512_set1_ps(-INFINITY), s));
    }
}

// Packs the weights of two keys as bf16 in one word. All are positive, so rounding is an addition.
static inline __m512i pair_up(__m512 p0, __m512 p1)
{
    __m512i half = _mm512_set1_epi32(0x8000);
    __m512i a = _mm512_srli_epi32(_mm512_add_epi32(_mm512_castps_si512(p0), half), 16);
    __m512i b = _mm512_add_epi32(_mm512_castps_si512(p1), half);
    return _mm512_or_si512(a, _mm512_and_si512(b, _mm512_set1_epi32((int)0xFFFF0000u)));
}

// Transposes 16 x 16 words.
static void amx_transpose(char *to, const __m512i in[16])
{
    __m512i a[16], b[16];
    for (int i = 0; i < 16; i += 2) {
        a[i] = _mm512_unpacklo_epi32(in[i], in[i + 1]);
        a[i + 1] = _mm512_unpackhi_epi32(in[i], in[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        b[i] = _mm512_unpacklo_epi64(a[i], a[i + 2]);
        b[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 2]);
        b[i + 2] = _mm512_unpacklo_epi64(a[i + 1], a[i + 3]);
        b[i + 3] = _mm512_unpackhi_epi64(a[i + 1], a[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        __m512i c0 = _mm512_shuffle_i32x4(b[i], b[i + 4], 0x88);
        __m512i c1 = _mm512_shuffle_i32x4(b[i + 8], b[i + 12], 0x88);
        __m512i d0 = _mm512_shuffle_i32x4(b[i], b[i + 4], 0xDD);
        __m512i d1 = _mm512_shuffle_i32x4(b[i + 8], b[i + 12], 0xDD);
        _mm512_store_si512(to + i * 64, _mm512_shuffle_i32x4(c0, c1, 0x88));
        _mm512_store_si512(to + (i + 8) * 64, _mm512_shuffle_i32x4(c0, c1, 0xDD));
        _mm512_store_si512(to + (i + 4) * 64, _mm512_shuffle_i32x4(d0, d1, 0x88));
        _mm512_store_si512(to + (i + 12) * 64, _mm512_shuffle_i32x4(d0, d1, 0xDD));
    }
}

// Softmax of a tile: turns `score` into P [2][16 queries][32 keys] bf16; returns the factor that
// rescales the earlier sums.
static __m512 amx_weights(const struct amx_walk *w, struct amx_tile *tile)
{
    __m512 scale = _mm512_set1_ps(w->scale);
    __m512 most[4];
    for (int i = 0; i < 4; i++)
        most[i] = _mm512_load_ps(w->score + i * 16);
    for (uint32_t j = 4; j < ATTN_TILE_KEYS; j += 4)
        for (uint32_t i = 0; i < 4; i++)
            most[i] = _mm512_max_ps(most[i], _mm512_load_ps(w->score + (j + i) * 16));
    __m512 best = _mm512_max_ps(_mm512_max_ps(most[0], most[1]), _mm512_max_ps(most[2], most[3]));
    __m512 old = _mm512_loadu_ps(tile->top);
    __m512 top = _mm512_max_ps(old, _mm512_mul_ps(best, scale));
    __m512 factor = exp2_lanes(_mm512_sub_ps(old, top));
    __m512 sum[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    __m512i pairs[2][16];
    for (uint32_t j = 0; j < ATTN_TILE_KEYS; j += 2) {
        __m512 s0 = _mm512_load_ps(w->score + j * 16);
        __m512 s1 = _mm512_load_ps(w->score + j * 16 + 16);
        __m512 p0 = exp2_lanes(_mm512_fmsub_ps(s0, scale, top));
        __m512 p1 = exp2_lanes(_mm512_fmsub_ps(s1, scale, top));
        sum[0] = _mm512_add_ps(sum[0], p0);
        sum[1] = _mm512_add_ps(sum[1], p1);
        pairs[j / 32][j % 32 / 2] = pair_up(p0, p1);
    }
    _mm512_storeu_ps(tile->top, top);
    _mm512_storeu_ps(tile->mass, _mm512_fmadd_ps(_mm512_loadu_ps(tile->mass), factor,
                                                 _mm512_add_ps(sum[0], sum[1])));
    amx_transpose((char *)w->score, pairs[0]);
    amx_transpose((char *)w->score + 1024, pairs[1]);
    return factor;
}

static void amx_values(const struct amx_walk *w, struct amx_tile *tile, const float factor[16])
{
    const char *p = (const char *)w->score;
    _tile_loadd(4, p, 64);
    _tile_loadd(5, p + 1024, 64);
    for (uint32_t c = 0; c < w->wide / 16; c += 2) {
        const char *v = w->v + (size_t)c * 1024;
        const char *v2 = v + (size_t)w->wide * 64;
        _tile_zero(0);
        _tile_zero(1);
        _tile_loadd(6, v, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, v + 1024, 64);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(6, v2, 64);
        _tile_dpbf16ps(0, 5, 6);
        _tile_loadd(7, v2 + 1024, 64);
        _tile_dpbf16ps(1, 5, 7);
        _tile_stored(0, w->delta + c * 16, w->wide * sizeof(float));
        _tile_stored(1, w->delta + c * 16 + 16, w->wide * sizeof(float));
    }
    for (uint32_t i = 0; i < 16; i++) {
        __m512 f = _mm512_set1_ps(factor[i]);
        float *out = tile->out + (size_t)i * w->wide;
        const float *delta = w->delta + (size_t)i * w->wide;
        for (uint32_t c = 0; c < w->wide; c += 16)
            _mm512_store_ps(out + c,
                            _mm512_fmadd_ps(_mm512_load_ps(out + c), f, _mm512_load_ps(delta + c)));
    }
}

static void tile_step(const struct amx_walk *w, struct amx_tile *tile, uint32_t first)
{
    float factor[16];
    amx_scores(w, tile);
    if (w->job->args->bias)
        scores_bias(w, tile, first);
    if (first < tile->low_most || first + ATTN_TILE_KEYS - 1 > tile->high_least)
        scores_mask(w, tile, first);
    _mm512_storeu_ps(factor, amx_weights(w, tile));
    amx_values(w, tile, factor);
}

// Merges the current part into the earlier ones. If a query has no key in one of the two, it takes
// the other unchanged.
static void tile_merge(const struct amx_walk *w, struct amx_tile *tile)
{
    float a[16], b[16];
    __m512 m0 = _mm512_loadu_ps(tile->top_sum);
    __m512 m1 = _mm512_loadu_ps(tile->top);
    __m512 top = _mm512_max_ps(m0, m1);
    _mm512_storeu_ps(a, exp2_lanes(_mm512_sub_ps(m0, top)));
    _mm512_storeu_ps(b, exp2_lanes(_mm512_sub_ps(m1, top)));
    float both[16];
    _mm512_storeu_ps(both, top);
    size_t bytes = w->wide * sizeof(float);
    for (uint32_t i = 0; i < 16; i++) {
        float *sum = tile->out_sum + (size_t)i * w->wide;
        const float *part = tile->out + (size_t)i * w->wide;
        if (!(tile->mass[i] > 0))
            continue;
        if (!(tile->mass_sum[i] > 0)) {
            memcpy(sum, part, bytes);
            tile->mass_sum[i] = tile->mass[i];
            tile->top_sum[i] = tile->top[i];
            continue;
        }
        for (uint32_t c = 0; c < w->wide; c += 16) {
            __m512 right = _mm512_mul_ps(_mm512_load_ps(part + c), _mm512_set1_ps(b[i]));
            _mm512_store_ps(sum + c,
                            _mm512_fmadd_ps(_mm512_load_ps(sum + c), _mm512_set1_ps(a[i]), right));
        }
        tile->mass_sum[i] = fmaf(tile->mass_sum[i], a[i], tile->mass[i] * b[i]);
        tile->top_sum[i] = both[i];
    }
}

static void tile_write(const struct amx_walk *w, const struct amx_tile *tile, uint32_t first)
{
    const struct attn_job *job = w->job;
    const struct attn_args *a = job->args;
    uint32_t count = job->end - first < 16 ? job->end - first : 16;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t token = job->row->q_start + (first + i) / w->group;
        uint32_t head = job->kv_head * w->group + (first + i) % w->group;
        float *out = (float *)a->out + ((size_t)token * a->shape.heads + head) * w->dim;
        const float *sum = tile->out_sum + (size_t)i * w->wide;
        float mass = tile->mass_sum[i];
        if (a->sinks)
            mass += exp2f(attn_sink_of(a, head) * LOG2_E - tile->top_sum[i]);
        float scale = mass > 0 ? 1.0f / mass : 0.0f;
        for (uint32_t d = 0; d < w->dim; d += 4) { // dim is a multiple of 8
            const float *from = sum + column_of(d);
            for (uint32_t j = 0; j < 4; j++)
                out[d + j] = scale > 0 ? from[j] * scale : 0.0f;
        }
    }
}

// Merges a finished part into the earlier ones, or stores its state for attn_amx_merge.
static void part_close(const struct amx_walk *w, struct amx_tile *tile)
{
    if (!w->job->state) {
        tile_merge(w, tile);
        return;
    }
    float *kept = w->job->state + (size_t)w->wide * 16;
    memcpy(kept, tile->top, sizeof tile->top);
    memcpy(kept + 16, tile->mass, sizeof tile->mass);
}

void attn_amx(const struct attn_job *job)
{
    struct amx_walk w;
    walk_open(&w, job);
    amx_begin();
    uint32_t at = job->key_first;
    while (at < job->key_end) {
        uint32_t part_end = attn_part_end(job, at);
        for (uint32_t i = 0; i < w.tiles; i++)
            part_open(&w, &w.tile[i]);
        for (; at < part_end; at += ATTN_TILE_KEYS) {
            uint32_t left = job->key_end - at;
            keys_load(&w, at, left < ATTN_TILE_KEYS ? left : ATTN_TILE_KEYS);
            for (uint32_t i = 0; i < w.tiles; i++)
                if (at <= w.tile[i].high_most && at + ATTN_TILE_KEYS > w.tile[i].low_least)
                    tile_step(&w, &w.tile[i], at);
        }
        for (uint32_t i = 0; i < w.tiles; i++)
            part_close(&w, &w.tile[i]);
    }
    amx_end();
    for (uint32_t i = 0; !job->state && i < w.tiles; i++)
        tile_write(&w, &w.tile[i], job->first + i * 16);
}

void attn_amx_merge(const struct attn_job *job)
{
    struct amx_walk w = {0};
    walk_shape(&w, job);
    struct amx_tile *tile = &w.tile[0];
    tile->out_sum = (float *)(void *)(((uintptr_t)job->scratch + 63) & ~(uintptr_t)63);
    size_t floats = (size_t)w.wide * 16;
    for (uint32_t i = 0; i < job->parts; i++) {
        tile->out = job->state + i * attn_state_floats(w.dim);
        memcpy(tile->top, tile->out + floats, sizeof tile->top);
        memcpy(tile->mass, tile->out + floats + 16, sizeof tile->mass);
        tile_merge(&w, tile);
    }
    tile_write(&w, tile, job->first);
}
