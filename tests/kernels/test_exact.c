// SPDX-License-Identifier: Apache-2.0
// Exact mode of the cpu device, at every ISA level: the bits of a row's product do not depend on
// the number of rows, on the other rows or on the number of threads, and the bits of a query's
// attention do not depend on how its prompt was cut, on neighbours or on threads. Compared with
// memcmp. Seeds are fixed.
#include "tests/conformance/trial.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
// cmocka.h needs the four headers above
#include <cmocka.h>

static void gemm_bits(struct trial *t, const struct weight *w, const float *x, float *y,
                      uint32_t rows)
{
    struct gemm_args args = {DTYPE_F32, DTYPE_F32, x, w, NULL, y, rows, w->shape.k, w->shape.n};
    assert_int_equal(t->api->ops->gemm(t->stream, &args), STATUS_OK);
}

// Compares products of 1 to 40, 64, 130 and 520 rows with the products of the single rows; then
// replaces all rows but one.
static void product_rows(struct trial *t, enum dtype dtype)
{
    enum { K = 1100, N = 70, MOST = 520 };
    trial_begin(t, 100 + (uint64_t)dtype);
    struct weight_shape shape = {.use = WEIGHT_PRODUCT, .dtype = dtype, .n = N, .k = K};
    struct trial_weight w = trial_weight_make(t, &shape, 0.05f, 0);
    float *x = trial_floats(t, (size_t)MOST * K, DTYPE_F32, 1);
    float *other = trial_floats(t, (size_t)MOST * K, DTYPE_F32, 30);
    float *mixed = trial_heap(t, (size_t)MOST * K * sizeof(float));
    float *alone = trial_heap(t, (size_t)MOST * N * sizeof(float));
    float *y = trial_heap(t, (size_t)MOST * N * sizeof(float));
    for (uint32_t r = 0; r < MOST; r++)
        gemm_bits(t, &w.device, x + (size_t)r * K, alone + (size_t)r * N, 1);
    uint32_t counts[43] = {64, 130, MOST};
    for (uint32_t m = 1; m <= 40; m++)
        counts[2 + m] = m;
    for (uint32_t c = 0; c < 43; c++) {
        uint32_t rows = counts[c];
        gemm_bits(t, &w.device, x, y, rows);
        assert_memory_equal(y, alone, (size_t)rows * N * sizeof(float));
        uint32_t kept = trial_below(t, rows); // all rows but this one are replaced
        memcpy(mixed, other, (size_t)rows * K * sizeof(float));
        memcpy(mixed + (size_t)kept * K, x + (size_t)kept * K, K * sizeof(float));
        gemm_bits(t, &w.device, mixed, y, rows);
        assert_memory_equal(y + (size_t)kept * N, alone + (size_t)kept * N, N * sizeof(float));
    }
}

static void with_levels(void (*run)(struct trial *))
{
    for (int level = 0; level < CPU_ISA_COUNT; level++) {
        struct trial t;
        if (!trial_open_cpu(&t, (enum cpu_isa)level, 3))
            continue;
        run(&t);
        trial_close(&t);
        assert_int_equal(t.failures, 0);
    }
}

static void products(struct trial *t)
{
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++)
        product_rows(t, (enum dtype)dtype);
}

static void test_products(void **state)
{
    (void)state;
    with_levels(products);
}

// A product so wide that the stream's panel holds fewer than its rows: it is computed in pieces.
static void products_wide(struct trial *t)
{
    enum { K = 1024, N = 8, M = 64 };
    t->api->stream_close(t->stream);
    t->limits.width_max = K;
    t->limits.step.tokens_max = M / 2;
    assert_int_equal(t->api->stream_open(t->device, &t->stream, &t->limits, NULL), STATUS_OK);
    assert_int_equal(t->stream->panel_bytes, M / 2 * K * sizeof(uint16_t));
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        trial_begin(t, 300 + (uint64_t)dtype);
        struct weight_shape shape = {
            .use = WEIGHT_PRODUCT, .dtype = (enum dtype)dtype, .n = N, .k = K};
        struct trial_weight w = trial_weight_make(t, &shape, 0.05f, 0);
        float *x = trial_heap(t, (size_t)M * K * sizeof *x);
        for (uint32_t i = 0; i < M * K; i++)
            x[i] = (float)(i * 2654435761u >> 24) - 127;
        float together[M * N], alone[N];
        gemm_bits(t, &w.device, x, together, M);
        for (uint32_t r = 0; r < M; r += 21) {
            gemm_bits(t, &w.device, x + (size_t)r * K, alone, 1);
            assert_memory_equal(together + (size_t)r * N, alone, sizeof alone);
        }
    }
}

// A stream with the smallest limits: one token, products slightly wider than one slab.
static void products_narrow(struct trial *t)
{
    enum { K = 33, N = 7, M = 40 };
    t->api->stream_close(t->stream);
    t->limits.width_max = K;
    t->limits.step.tokens_max = 1;
    assert_int_equal(t->api->stream_open(t->device, &t->stream, &t->limits, NULL), STATUS_OK);
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        trial_begin(t, 350 + (uint64_t)dtype);
        struct weight_shape shape = {
            .use = WEIGHT_PRODUCT, .dtype = (enum dtype)dtype, .n = N, .k = K};
        struct trial_weight w = trial_weight_make(t, &shape, 0.05f, 0);
        float *x = trial_floats(t, (size_t)M * K, DTYPE_F32, 1);
        float together[M * N], alone[N];
        gemm_bits(t, &w.device, x, together, M);
        for (uint32_t r = 0; r < M; r += 13) {
            gemm_bits(t, &w.device, x + (size_t)r * K, alone, 1);
            assert_memory_equal(together + (size_t)r * N, alone, sizeof alone);
        }
    }
}

static void test_products_narrow(void **state)
{
    (void)state;
    with_levels(products_narrow);
}

static void test_products_wide(void **state)
{
    (void)state;
    with_levels(products_wide);
}

static void test_products_threads(void **state)
{
    (void)state;
    enum { K = 600, N = 300, M = 20 };
    for (int level = 0; level < CPU_ISA_COUNT; level++)
        for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
            float first[M * N];
            for (uint32_t threads = 1; threads <= 4; threads++) {
                struct trial t;
                if (!trial_open_cpu(&t, (enum cpu_isa)level, threads))
                    break;
                trial_begin(&t, 200);
                struct weight_shape shape = {
                    .use = WEIGHT_PRODUCT, .dtype = (enum dtype)dtype, .n = N, .k = K};
                struct trial_weight w = trial_weight_make(&t, &shape, 0.05f, 0);
                float *x = trial_floats(&t, (size_t)M * K, DTYPE_F32, 1);
                float y[M * N];
                gemm_bits(&t, &w.device, x, y, M);
                if (threads == 1)
                    memcpy(first, y, sizeof y);
                assert_memory_equal(y, first, sizeof y);
                trial_close(&t);
            }
        }
}

// A sequence of `total` tokens whose keys are stored; steps query ranges of it as rows.
struct prompt {
    struct attn_shape shape;
    enum dtype kv;
    uint32_t total;
    float *qkv;  // [total][width]
    char *cache; // KV blocks of 64 tokens of one layer
    uint32_t *table;
    uint64_t token_bytes, head_bytes;
    struct step *step;
    float *input, *out; // qkv input and output of the step
};

enum { TABLE_MAX = 40 };

// Makes a prompt for a layer with window `window` in a model whose widest layer has window `widest`
// (0: no window).
static struct prompt prompt_make(struct trial *t, enum dtype kv, uint16_t heads, uint32_t window,
                                 uint32_t widest, uint32_t total)
{
    struct prompt p = {
        .shape = {.heads = heads,
                  .kv_heads = 2,
                  .dim = 40,
                  .window = window,
                  .scale = 0.15f,
                  .causal = 1,
                  .paged = 1},
        .kv = kv,
        .total = total,
    };
    size_t width = (size_t)(p.shape.heads + 2 * p.shape.kv_heads) * p.shape.dim;
    p.token_bytes = p.shape.dim * dtype_bytes(kv);
    p.head_bytes = 64 * p.token_bytes;
    size_t block = (size_t)2 * p.shape.kv_heads * p.head_bytes;
    block = (block + 255) / 256 * 256;
    size_t cache = TABLE_MAX * block;
    p.qkv = trial_floats(t, total * width, DTYPE_F32, 1);
    p.input = trial_heap(t, t->limits.step.tokens_max * width * sizeof(float));
    p.out = trial_heap(t, t->limits.step.tokens_max * width * sizeof(float));
    p.cache = trial_heap(t, cache);
    p.table = trial_heap(t, 64 * TABLE_MAX * sizeof *p.table);
    for (uint32_t i = 0; i < 64 * TABLE_MAX; i++)
        p.table[i] = (uint32_t)(i % TABLE_MAX * block / TABLE_UNIT_BYTES);
    for (size_t i = 0; i < cache / dtype_bytes(kv); i++) {
        float x = trial_normal(t);
        if (kv == DTYPE_F32)
            ((float *)(void *)p.cache)[i] = x;
        else
            ((uint16_t *)(void *)p.cache)[i] = kv == DTYPE_BF16 ? f32_to_bf16(x) : f32_to_f16(x);
    }
    p.shape.window = widest;
    trial_shape(t, &p.shape);
    p.shape.window = window;
    struct step_layout layout;
    step_layout_init(&layout, &t->limits.step, t->api->step_private_bytes(t->device, &t->limits));
    p.step = trial_heap(t, layout.bytes);
    p.step->layout = layout;
    return p;
}

// Changes the plan so that one item computes all parts of each row.
static void parts_join(struct prompt *p)
{
    struct attn_work *work = step_section(p->step, p->step->layout.private_part);
    struct attn_item *item = step_section(p->step, p->step->layout.private_part + work->narrow_at);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < work->narrow_count; i++)
        if (i == 0 || item[i].row != item[kept - 1].row)
            item[kept++] = (struct attn_item){.row = item[i].row, .merge = ATTN_ALL_PARTS};
    work->narrow_count = kept;
    work->merge_count = work->partial_count = 0;
}

// Appends tokens [first, first + count) of the prompt as a row of the step.
static void prompt_row(struct prompt *p, uint32_t first, uint32_t count)
{
    struct step_row *row = step_section(p->step, p->step->layout.rows);
    size_t width = (size_t)(p->shape.heads + 2 * p->shape.kv_heads) * p->shape.dim;
    row[p->step->row_count] = (struct step_row){.slot = p->step->row_count,
                                                .q_start = p->step->token_count,
                                                .q_len = count,
                                                .kv_len = first + count};
    memcpy(p->input + p->step->token_count * width, p->qkv + first * width,
           count * width * sizeof(float));
    p->step->row_count++;
    p->step->token_count += count;
}

enum planning { PLAN_USUAL, PLAN_WHOLE };

// Plans and runs the step. PLAN_WHOLE: no part of a row is a separate item.
static void prompt_run(struct trial *t, struct prompt *p, enum planning planning)
{
    t->api->step_plan(t->stream, p->step);
    if (planning == PLAN_WHOLE)
        parts_join(p);
    uint64_t block = 2 * p->shape.kv_heads * p->head_bytes;
    struct attn_args args = {
        .act = DTYPE_F32,
        .kv = p->kv,
        .qkv = p->input,
        .out = p->out,
        .step = p->step,
        .step_host = p->step,
        .block_table = p->table,
        .kv_base = p->cache,
        .value_offset = block / 2,
        .head_bytes = p->head_bytes,
        .token_bytes = p->token_bytes,
        .shape = p->shape,
        .blocks_max = TABLE_MAX,
        .block_shift = 6,
        .row_count = p->step->row_count,
        .token_count = p->step->token_count,
    };
    assert_int_equal(t->api->ops->attn(t->stream, &args), STATUS_OK);
    p->step->row_count = p->step->token_count = 0;
}

static bool few; // true: fewer chunk sizes, and fewer places near part boundaries

// Returns true if a chunk size is tested: with `few` 1, 3 and those next to multiples of a tile.
static bool chunk_chosen(uint32_t chunk)
{
    uint32_t rest = chunk % ATTN_TILE_ROWS;
    return !few || chunk == 3 || rest <= 1 || rest == ATTN_TILE_ROWS - 1;
}

// Compares chunk sizes from 1 to 64 with the complete prompt; another row of varying length is in
// the same step.
static void chunks_agree(struct trial *t, enum dtype kv, uint16_t heads, uint32_t window)
{
    trial_begin(t, 300 + (uint64_t)kv + window + 1000 * (heads % 6u));
    enum { TOTAL = 150 };
    struct prompt p = prompt_make(t, kv, heads, window, window, TOTAL);
    size_t width = (size_t)p.shape.heads * p.shape.dim;
    float *whole = trial_heap(t, TOTAL * width * sizeof(float));
    prompt_row(&p, 0, TOTAL);
    prompt_run(t, &p, PLAN_USUAL);
    memcpy(whole, p.out, TOTAL * width * sizeof(float));
    for (uint32_t chunk = 1; chunk <= 64; chunk++)
        for (uint32_t at = 0; chunk_chosen(chunk) && at < TOTAL; at += chunk) {
            uint32_t count = TOTAL - at < chunk ? TOTAL - at : chunk;
            uint32_t neighbour = 0;
            if (chunk % 3 != 0) { // before the row, so that its queries move within tiles
                neighbour = trial_range(t, 1, 30);
                prompt_row(&p, trial_below(t, TOTAL - neighbour), neighbour);
            }
            prompt_row(&p, at, count);
            prompt_run(t, &p, PLAN_USUAL);
            assert_memory_equal(p.out + neighbour * width, whole + at * width,
                                count * width * sizeof(float));
        }
}

// Across part boundaries: compares one to eight queries, whose parts are separate items or one
// item, with the same queries in the middle of a long prompt.
static void parts_agree(struct trial *t, enum dtype kv, uint32_t window, uint32_t widest)
{
    trial_begin(t, 400 + (uint64_t)kv + window);
    enum { TOTAL = 2200, FIRST = 1700, COUNT = 500 };
    struct prompt p = prompt_make(t, kv, 6, window, widest, TOTAL);
    size_t width = (size_t)p.shape.heads * p.shape.dim;
    float *whole = trial_heap(t, COUNT * width * sizeof(float));
    prompt_row(&p, FIRST, COUNT);
    prompt_run(t, &p, PLAN_USUAL);
    memcpy(whole, p.out, COUNT * width * sizeof(float));
    uint32_t merged = 0;
    for (uint32_t at = FIRST; at + 8 <= TOTAL; at += 1 + trial_below(t, few ? 180 : 60))
        for (int planning = PLAN_USUAL; planning <= PLAN_WHOLE; planning++) {
            uint32_t count = trial_range(t, 1, 8);
            prompt_row(&p, trial_below(t, TOTAL), 1); // another row of any length
            prompt_row(&p, at, count);
            memset(p.out, 0xFF, (count + 1) * width * sizeof(float));
            prompt_run(t, &p, (enum planning)planning);
            assert_memory_equal(p.out + width, whole + (at - FIRST) * width,
                                count * width * sizeof(float));
            merged += attn_plan_of(p.step)->merge_count;
        }
    assert_true(merged > 0);
}

static void attention(struct trial *t)
{
    for (int kv = 0; kv < DTYPE_I8; kv++) {
        chunks_agree(t, (enum dtype)kv, 6, 0);
        chunks_agree(t, (enum dtype)kv, 6, 70);
        chunks_agree(t, (enum dtype)kv, 2,
                     0); // one query head per KV head: 1 to 64 queries per row
        parts_agree(t, (enum dtype)kv, 0, 0);
        parts_agree(t, (enum dtype)kv, 1500, 1500);
        parts_agree(t, (enum dtype)kv, 600, 0); // the first part is empty here
    }
}

static void test_attention(void **state)
{
    (void)state;
    with_levels(attention);
}

// usage: test_exact [the name of one ISA level; default: all] [few]
int main(int argc, char **argv)
{
    few = argc > 1 && strcmp(argv[argc - 1], "few") == 0;
    trial_only_level = argc > 1 + few ? argv[1] : NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),        cmocka_unit_test(test_products_wide),
        cmocka_unit_test(test_products_narrow), cmocka_unit_test(test_products_threads),
        cmocka_unit_test(test_attention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
