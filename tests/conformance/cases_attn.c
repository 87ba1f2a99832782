// SPDX-License-Identifier: Apache-2.0
// Conformance of qkv_post and attention: paged (causal, windows, groups of heads, blocks of 16 to
// 64 tokens in any order) and ragged (complete rows), with decode and prefill rows in one step.
#include "tests/conformance/trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct scene {
    struct attn_shape shape;
    enum dtype kv;
    uint32_t rows, tokens, block_shift, blocks_max, blocks;
    uint64_t token_bytes, head_bytes, value_offset, layer_bytes, block_bytes;
    struct step *step; // step record in host memory
    uint32_t *table;   // [rows][blocks_max] block table
    char *cache;       // host copy of the KV blocks
    size_t cache_bytes, step_bytes;
};

static void scene_strides(struct scene *s)
{
    uint32_t block = 1u << s->block_shift;
    s->token_bytes = kv_token_bytes(s->kv, s->shape.dim);
    s->head_bytes = block * s->token_bytes;
    s->value_offset = s->shape.kv_heads * s->head_bytes;
    s->layer_bytes = 2 * s->value_offset;
    s->block_bytes = (2 * s->layer_bytes + 255) / 256 * 256; // of two layers
}

// More keys than in the 32 parts that a merge handles at a time.
enum { MANY_KEYS = 32 * ATTN_PART_TOKENS };

// Makes the rows of a step with random lengths and random KV blocks. With more than MANY_KEYS keys
// there is one row of one query, to keep the test short.
static struct scene scene_make(struct trial *t, const struct attn_shape *shape, enum dtype kv,
                               uint32_t longest)
{
    struct scene s = {.shape = *shape, .kv = kv, .rows = trial_range(t, 1, 5)};
    struct step_limits limits = t->limits.step;
    if (longest > MANY_KEYS)
        s.rows = 1;
    s.block_shift = 4 + trial_below(t, 3);
    s.blocks_max = shape->paged ? (longest >> s.block_shift) + 1 : 0;
    scene_strides(&s);
    struct step_layout layout;
    step_layout_init(&layout, &limits,
                     t->api->step_private_bytes ? t->api->step_private_bytes(t->device, &t->limits)
                                                : 0);
    s.step_bytes = layout.bytes;
    s.step = trial_host(t, layout.bytes);
    memset(s.step, 0, layout.bytes);
    struct step_row *row = step_section(s.step, layout.rows);
    for (uint32_t i = 0; i < s.rows; i++) {
        uint32_t kv_len = trial_range(t, 1, longest);
        if (i == 0 && longest > 2 * ATTN_PART_TOKENS)
            kv_len = longest; // three parts
        uint32_t q_len = kv_len;
        if (shape->paged)
            q_len = trial_below(t, 2) || kv_len == 1 ? 1 : trial_range(t, 1, kv_len);
        if (q_len > 90)
            q_len = shape->paged ? 90 : q_len;
        if (longest > MANY_KEYS)
            q_len = 1;
        if (shape->paged && i > 0 &&
            trial_below(t, 6) == 0) { // padding row of a recorded graph: the output is zeros
            q_len = 1;
            kv_len = 0;
        }
        row[i] = (struct step_row){.slot = s.rows - 1 - i,
                                   .q_start = s.tokens,
                                   .q_len = q_len,
                                   .kv_len = kv_len,
                                   .sample = STEP_NO_ROW};
        s.tokens += q_len;
        s.step->q_len_max = q_len > s.step->q_len_max ? q_len : s.step->q_len_max;
        s.step->kv_len_max = kv_len > s.step->kv_len_max ? kv_len : s.step->kv_len_max;
    }
    s.step->row_count = s.rows;
    s.step->token_count = s.tokens;
    s.step->layout = layout;
    if (t->api->step_plan)
        t->api->step_plan(t->stream, s.step);
    if (!shape->paged)
        return s;
    s.blocks = s.rows * s.blocks_max;
    s.table = trial_heap(t, s.blocks * sizeof *s.table);
    uint32_t step = s.blocks > 1 ? s.blocks / 2 + 1 : 1; // permutes the blocks
    while (s.blocks % step == 0 && step > 1)
        step--;
    for (uint32_t i = 0; i < s.blocks; i++)
        s.table[i] = (uint32_t)((uint64_t)i * step % s.blocks * s.block_bytes / TABLE_UNIT_BYTES);
    s.cache_bytes = s.blocks * s.block_bytes;
    s.cache = trial_heap(t, s.cache_bytes);
    return s;
}

static void cache_fill(struct trial *t, const struct scene *s)
{
    for (size_t at = 0; s->kv == DTYPE_E4M3 && at < s->cache_bytes; at++)
        s->cache[at] = (char)reference_e4m3((double)trial_normal(t));
    if (s->kv == DTYPE_E4M3)
        return;
    size_t each = dtype_bytes(s->kv);
    for (size_t at = 0; s->kv == DTYPE_I8 && at < s->cache_bytes; at++)
        s->cache[at] = (char)trial_below(t, 256);
    // each block is tokens of one size, and a rest that is not read
    for (size_t b = 0; s->kv == DTYPE_I8 && b < s->blocks; b++)
        for (size_t at = 0; at + s->token_bytes <= s->block_bytes; at += s->token_bytes) {
            float scale = fabsf(trial_normal(t)) / 64;
            memcpy(s->cache + b * s->block_bytes + at + s->shape.dim, &scale, sizeof scale);
        }
    for (size_t i = 0; s->kv != DTYPE_I8 && i < s->cache_bytes / each; i++) {
        float x = trial_normal(t);
        uint16_t bits = s->kv == DTYPE_BF16 ? f32_to_bf16(x) : f32_to_f16(x);
        if (s->kv == DTYPE_F32)
            memcpy(s->cache + i * each, &x, sizeof x);
        else
            memcpy(s->cache + i * each, &bits, sizeof bits);
    }
}

// Doubles the keys of the first row's second part, so that its scores are greater than those of the
// parts before and after.
static void second_part_raise(const struct scene *s)
{
    const struct step_row *row = step_section(s->step, s->step->layout.rows);
    const uint32_t *table = s->table + (size_t)row->slot * s->blocks_max;
    for (uint32_t at = ATTN_PART_TOKENS; at < 2 * ATTN_PART_TOKENS; at++)
        for (uint32_t head = 0; head < s->shape.kv_heads; head++) {
            char *key = s->cache + (size_t)table[at >> s->block_shift] * TABLE_UNIT_BYTES +
                        s->layer_bytes + head * s->head_bytes +
                        (at & ((1u << s->block_shift) - 1)) * s->token_bytes;
            if (s->kv == DTYPE_I8)
                ((float *)(void *)(key + s->shape.dim))[0] *= 2;
            for (uint32_t d = 0; s->kv == DTYPE_E4M3 && d < s->shape.dim; d++)
                key[d] = (char)reference_e4m3(2 * reference_e4m3_value((uint8_t)key[d]));
            for (uint32_t d = 0; dtype_bytes(s->kv) > 1 && d < s->shape.dim; d++) {
                uint16_t *half = (uint16_t *)(void *)key + d;
                if (s->kv == DTYPE_F32)
                    ((float *)(void *)key)[d] *= 2;
                else if (s->kv == DTYPE_BF16)
                    *half = f32_to_bf16(2 * bf16_to_f32(*half));
                else
                    *half = f32_to_f16(2 * f16_to_f32(*half));
            }
        }
}

static double attn_bound(const struct trial *t, enum dtype act, enum dtype kv)
{
    if (act != DTYPE_F32)
        return trial_bound(act);
    bool rounds = t->level == CPU_AVX512BF16 || t->level == CPU_AMX;
    return kv == DTYPE_BF16 && rounds ? 5e-3 : 8e-6;
}

static struct attn_shape shape_pick(struct trial *t, uint64_t i)
{
    static const uint16_t dims[] = {16, 24, 32, 64, 72, 80, 96, 128, 256};
    static const uint8_t groups[] = {1, 2, 3, 4, 7, 8};
    struct attn_shape shape = {.kv_heads = trial_range(t, 1, 2), .dim = dims[i % 9]};
    shape.heads = shape.kv_heads * groups[trial_below(t, 6)];
    shape.scale = 1.0f / sqrtf((float)shape.dim);
    shape.paged = i % 3 != 2;
    shape.causal = shape.paged || i % 2;
    shape.window = shape.paged && i % 4 == 0 ? trial_range(t, 1, 130) : 0;
    if (!shape.causal && i % 4 == 2) { // windows on both sides
        shape.window = trial_range(t, 1, 70);
        shape.ahead = trial_range(t, 1, 70);
    }
    return shape;
}

enum { ATTN_CASES = 37 };

static void attn_case(struct trial *t, enum dtype act, enum dtype kv, uint64_t i)
{
    trial_begin(t, 20000 + i + 1000 * (uint64_t)kv);
    struct attn_shape shape = shape_pick(t, i);
    bool parts = i % 10 == 1 || i % 16 == 12; // long rows, without windows and with them
    bool many = i == ATTN_CASES - 1;          // more parts than a merge handles at a time
    uint32_t longest = many ? MANY_KEYS + 1500 : !shape.paged ? 100 : parts ? 2200 : 400;
    if (many)
        shape.window = 0;
    struct attn_shape widest = shape;
    if (i >= 20) // the model also has layers without a window
        widest.window = 0;
    uint32_t blocks_max = t->limits.step.blocks_max;
    if (many)
        t->limits.step.blocks_max = longest / KV_BLOCK_TOKENS + 1;
    t->limits.kv = kv;
    trial_shape(t, &widest);
    struct scene s = scene_make(t, &shape, kv, longest);
    t->limits.step.blocks_max = blocks_max;
    size_t width = (size_t)(shape.heads + 2 * shape.kv_heads) * shape.dim;
    size_t out_count =
        (size_t)(s.tokens + 1) * shape.heads * shape.dim; // the last token must stay zero
    float *qkv = trial_floats(t, s.tokens * width, act, 1);
    if (shape.paged)
        cache_fill(t, &s);
    bool biased = i % 12 == 2 || i % 7 == 3;
    uint32_t reach = trial_range(t, 1, 150);
    struct weight_shape table = {
        .use = WEIGHT_VECTOR, .dtype = DTYPE_F32, .n = shape.heads * (2 * reach + 1), .k = 1};
    struct trial_weight bias = trial_weight_make(t, &table, 1, 0);
    bool sinks = i % 5 == 3 || i == 21; // 21: in parts that are merged
    struct weight_shape heads = {
        .use = WEIGHT_VECTOR, .dtype = DTYPE_F32, .n = shape.heads, .k = 1};
    struct trial_weight sink = trial_weight_make(t, &heads, 2, 1);
    if (many || (shape.paged && i % 10 == 1))
        second_part_raise(&s);
    struct attn_args args = {
        .act = DTYPE_F32,
        .kv = kv,
        .qkv = qkv,
        .out = trial_heap(t, out_count * sizeof(float)),
        .step = s.step,
        .step_host = s.step,
        .block_table = s.table,
        .kv_base = s.cache,
        .layer_offset = s.layer_bytes,
        .value_offset = s.value_offset,
        .head_bytes = s.head_bytes,
        .token_bytes = s.token_bytes,
        .shape = shape,
        .blocks_max = s.blocks_max,
        .block_shift = s.block_shift,
        .row_count = s.rows,
        .token_count = s.tokens,
        .bias = biased ? &bias.reference : NULL,
        .reach = reach,
        .sinks = sinks ? &sink.reference : NULL,
    };
    reference_attn(&args);
    const float *want = args.out;
    args.act = act;
    args.qkv = trial_put_floats(t, qkv, s.tokens * width, act);
    args.out = trial_device(t, out_count * dtype_bytes(act));
    args.step = trial_put(t, s.step, s.step_bytes);
    args.bias = biased ? &bias.device : NULL;
    args.sinks = sinks ? &sink.device : NULL;
    if (shape.paged) {
        args.block_table = trial_put(t, s.table, s.blocks * sizeof *s.table);
        args.kv_base = trial_put(t, s.cache, s.cache_bytes);
    }
    trial_true(t, "attn runs", t->api->ops->attn(t->stream, &args) == STATUS_OK);
    trial_close_to(t, "attn", trial_fetch_floats(t, args.out, out_count, act), want, out_count,
                   attn_bound(t, act, kv));
    args.shape.dim = 12;
    trial_true(t, "attn refuses a shape",
               attn_check(&args)[0] != '\0' &&
                   t->api->ops->attn(t->stream, &args) == STATUS_INVALID);
}

// Returns one of the types that keys and values can have.
static enum dtype kv_type(const struct trial *t, enum dtype act, uint64_t i)
{
    uint64_t types = t->facts.kv_int8 ? DTYPE_I8 + 1 : DTYPE_I8;
    return act == DTYPE_F32 ? (enum dtype)(i % types) : act;
}

// Returns true if case i is tried. Nine cases have each head dim; of the head dims 64, 96 and 128
// the 16-bit kernels of long prompts are in later ones.
static bool attn_chosen(enum dtype act, uint64_t i)
{
    bool long_prompt = i == 12 || i == 15 || i == 16;
    return i < trial_cases(ATTN_CASES) || (trial_few >= 9 && act != DTYPE_F32 && long_prompt);
}

void try_attn(struct trial *t, enum dtype act)
{
    // i % 3 also selects paged or ragged, so each kind is tried with each dtype
    for (uint64_t i = 0; i < ATTN_CASES; i++)
        if (attn_chosen(act, i))
            attn_case(t, act, kv_type(t, act, i + i / 12), i);
    // heads of 128 and 64 columns, the second with a bias and sinks; 96; 64 in parts, with a window
    // and without one; many queries of 96 and 128; more parts than a merge handles at a time
    static const uint8_t fp8[] = {7, 3, 6, 16, 12, 21, 15, 25, 34, 36};
    uint64_t count = trial_few == 0 ? sizeof fp8 : trial_few < 9 ? 2 : 5;
    for (uint64_t i = 0; t->facts.kv_fp8 && i < count; i++)
        attn_case(t, act, DTYPE_E4M3, fp8[i]);
    t->limits.kv = act;
}

// Compares the keys and values of one token that are int8: elements may differ by one code.
static void bytes_compare(struct trial *t, const struct scene *s, const char *want, const char *got)
{
    for (uint32_t i = 0; i < 2 * s->shape.kv_heads; i++) {
        size_t at = s->layer_bytes + (i % 2) * s->value_offset + i / 2 * s->head_bytes;
        float scales[2];
        memcpy(&scales[0], want + at + s->shape.dim, sizeof scales[0]);
        memcpy(&scales[1], got + at + s->shape.dim, sizeof scales[1]);
        bool near = fabsf(scales[0] - scales[1]) <= 1e-5f * fabsf(scales[0]);
        for (uint32_t d = 0; d < s->shape.dim; d++)
            near = near && abs((int8_t)want[at + d] - (int8_t)got[at + d]) <= 1;
        trial_true(t, "qkv_post writes int8", near);
    }
}

// Compares the keys and values of all tokens in fp8. Values are the elements of the activations, so
// their codes are equal; one key in a hundred may be rounded to the code next to it, because it is
// computed in float32.
static void codes_compare(struct trial *t, const struct scene *s, const char *want, const char *got)
{
    size_t keys = 0, others = 0, wrong = 0;
    for (size_t at = 0; at < s->cache_bytes; at++) {
        bool value = at % s->block_bytes % s->layer_bytes >= s->value_offset;
        int codes[2] = {want[at] & 0x7F, got[at] & 0x7F};
        int delta =
            abs((want[at] < 0 ? -codes[0] : codes[0]) - (got[at] < 0 ? -codes[1] : codes[1]));
        keys += !value && want[at] != 0;
        others += !value && delta == 1;
        wrong += value ? delta != 0 : delta > 1;
    }
    trial_true(t, "qkv_post writes fp8", wrong == 0 && others * 100 <= keys);
}

// Returns the angles of 64 positions.
static float *angles_make(struct trial *t, uint32_t rotary)
{
    float *angle = trial_heap(t, (size_t)64 * 256 * sizeof *angle);
    for (uint32_t p = 0; p < 64; p++)
        for (uint32_t j = 0; j < rotary / 2; j++) {
            angle[(p * rotary / 2 + j) * 2] = cosf((float)p / (float)(1 + j));
            angle[(p * rotary / 2 + j) * 2 + 1] = sinf((float)p / (float)(1 + j));
        }
    return angle;
}

static void post_case(struct trial *t, enum dtype act, enum dtype kv, uint64_t i)
{
    trial_begin(t, 30000 + i);
    struct attn_shape shape = shape_pick(t, i);
    struct scene s = scene_make(t, &shape, kv, 60);
    size_t width = (size_t)(shape.heads + 2 * shape.kv_heads) * shape.dim;
    size_t size = (s.tokens + 1) * width; // the last token must stay unchanged
    // in fp8 some numbers are beyond 448, some below the smallest normal number
    float *qkv = trial_floats(t, size, act, kv == DTYPE_E4M3 ? (i % 2 ? 200 : 0.01f) : 1);
    if (kv == DTYPE_E4M3) // the first token's last value
        qkv[width - 1] = NAN;
    void *there = trial_put_floats(t, qkv, size, act);
    struct weight_shape vector = {.use = WEIGHT_VECTOR, .dtype = DTYPE_F32, .n = shape.dim, .k = 1};
    struct trial_weight q_norm = trial_weight_make(t, &vector, 0.2f, 1);
    struct trial_weight k_norm = trial_weight_make(t, &vector, 0.2f, 1);
    uint32_t rotary = i % 5 == 4 ? 0 : i % 2 ? shape.dim : shape.dim / 2;
    float *angle = angles_make(t, rotary), factor[64];
    for (uint32_t p = 0; p < 64; p++)
        factor[p] = 1 + 0.1f * (float)(p / 8);
    uint32_t *position = trial_heap(t, s.tokens * sizeof *position);
    uint64_t *place = trial_heap(t, s.tokens * sizeof *place);
    for (uint32_t j = 0; j < s.tokens; j++) {
        position[j] = trial_below(t, 60);
        uint32_t block = s.blocks > 0 ? j / (1u << s.block_shift) % s.blocks : 0;
        place[j] = UINT64_MAX; // one token in nine is not written
        if (shape.paged && j % 9 != 5 && j < s.blocks << s.block_shift)
            place[j] = (uint64_t)s.table[block] * TABLE_UNIT_BYTES +
                       j % (1u << s.block_shift) * s.token_bytes;
    }
    bool norm = i % 3 == 0;
    void *cache_there = shape.paged ? trial_put(t, s.cache, s.cache_bytes) : NULL;
    struct qkv_post_args args = {
        .act = DTYPE_F32,
        .kv = kv,
        .qkv = qkv,
        .q_norm = norm ? &q_norm.reference : NULL,
        .k_norm = norm ? &k_norm.reference : NULL,
        .cos_sin = angle,
        .q_factor = i % 4 == 1 ? factor : NULL,
        .position = position,
        .kv_write_offset = place,
        .kv_base = s.cache,
        .layer_offset = s.layer_bytes,
        .value_offset = s.value_offset,
        .head_bytes = s.head_bytes,
        .shape = shape,
        .token_count = s.tokens,
        .rotary_dim = rotary,
        .epsilon = i % 2 ? 0.5f : 1e-6f,
        .norm_last = i / 6 % 2,
    };
    reference_qkv_post(&args);
    args.act = act;
    args.qkv = there;
    args.q_norm = norm ? &q_norm.device : NULL;
    args.k_norm = norm ? &k_norm.device : NULL;
    args.cos_sin = trial_put(t, angle, (size_t)64 * 256 * sizeof *angle);
    args.q_factor = args.q_factor ? trial_put(t, factor, sizeof factor) : NULL;
    args.position = trial_put(t, position, s.tokens * sizeof *position);
    args.kv_write_offset = trial_put(t, place, s.tokens * sizeof *place);
    args.kv_base = cache_there;
    trial_true(t, "qkv_post runs", t->api->ops->qkv_post(t->stream, &args) == STATUS_OK);
    size_t q_width = (size_t)shape.heads * shape.dim; // the op may overwrite the k and v columns
    float *got = trial_fetch_floats(t, there, size, act);
    trial_close_to(t, "qkv_post past the end", got + s.tokens * width, qkv + s.tokens * width,
                   width, 0);
    for (uint32_t j = 0; j < s.tokens; j++)
        trial_close_to(t, "qkv_post", got + j * width, qkv + j * width,
                       shape.paged ? q_width : q_width + shape.kv_heads * shape.dim,
                       trial_bound(act));
    for (uint32_t j = 0; shape.paged && kv == DTYPE_I8 && j < s.tokens; j++)
        if (place[j] != UINT64_MAX)
            bytes_compare(t, &s, s.cache + place[j], (const char *)cache_there + place[j]);
    if (shape.paged && kv == DTYPE_E4M3) {
        char *codes = trial_heap(t, s.cache_bytes);
        trial_fetch(t, codes, cache_there, s.cache_bytes);
        codes_compare(t, &s, s.cache, codes);
    }
    if (shape.paged && dtype_bytes(kv) > 1) {
        size_t n = s.cache_bytes / dtype_bytes(kv);
        char *want_cache = trial_put(t, s.cache, s.cache_bytes);
        trial_close_to(t, "qkv_post KV", trial_fetch_floats(t, cache_there, n, kv),
                       trial_fetch_floats(t, want_cache, n, kv), n,
                       trial_bound(kv) > trial_bound(act) ? trial_bound(kv) : trial_bound(act));
    }
    args.rotary_dim = shape.dim + 2;
    trial_true(t, "qkv_post refuses",
               qkv_post_check(&args)[0] != '\0' &&
                   t->api->ops->qkv_post(t->stream, &args) == STATUS_INVALID);
}

void try_qkv_post(struct trial *t, enum dtype act)
{
    for (uint64_t i = 0; i < 27; i++)
        post_case(t, act, kv_type(t, act, i / 3 + i / 9), i);
    for (uint64_t i = 0; t->facts.kv_fp8 && i < 27; i++)
        if (i % 3 != 2 && (i % 9 < 1 || (i % 9 > 1 && i % 9 != 4))) // heads of 16 n columns
            post_case(t, act, DTYPE_E4M3, i);
}
