// SPDX-License-Identifier: Apache-2.0
// Edge cases of the cpu device's kernels, at every ISA level: elements after the last key are never
// used, values half way between two bfloat16 values are rounded to even, ties among top
// log-probabilities, and a top_p of nearly 1. Seeds are fixed.
#include "tests/conformance/trial.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
// cmocka.h needs some of the headers above
#include <cmocka.h>

static void with_levels(void (*run)(struct trial *))
{
    for (int level = 0; level < CPU_ISA_COUNT; level++) {
        struct trial t;
        if (!trial_open_cpu(&t, (enum cpu_isa)level, 2))
            continue;
        run(&t);
        trial_close(&t);
        assert_int_equal(t.failures, 0);
    }
}

enum { DIM = 40, HEADS = 4, BLOCK = 64, VOCAB_MAX = 5000 };

static void element_put(void *to, enum dtype kv, size_t at, float x)
{
    if (kv == DTYPE_F32)
        ((float *)to)[at] = x;
    else
        ((uint16_t *)to)[at] = kv == DTYPE_BF16 ? f32_to_bf16(x) : f32_to_f16(x);
}

// Fills one block of one KV head: keys, then values. Tokens from `known` on are `junk`.
static void block_fill(struct trial *t, void *cache, enum dtype kv, uint32_t known, float junk)
{
    for (uint32_t i = 0; i < 2 * BLOCK * DIM; i++) {
        float x = trial_normal(t);
        element_put(cache, kv, i, i / DIM % BLOCK < known ? x : junk);
    }
}

// Computes attention of the last `queries` tokens of a sequence of `known` tokens; keys after them
// must not affect the result.
static void keys_end(struct trial *t, enum dtype kv, uint32_t known, uint32_t queries)
{
    struct attn_shape shape = {
        .heads = HEADS, .kv_heads = 1, .dim = DIM, .scale = 0.15f, .causal = 1, .paged = 1};
    trial_shape(t, &shape);
    struct step_layout layout;
    step_layout_init(&layout, &t->limits.step, t->api->step_private_bytes(t->device, &t->limits));
    float *out[2];
    for (int junk = 0; junk < 2; junk++) {
        trial_begin(t, 100 + (uint64_t)kv); // both runs use the same numbers
        size_t width = (size_t)(HEADS + 2) * DIM;
        float *qkv = trial_floats(t, queries * width, DTYPE_F32, 1);
        size_t bytes = (size_t)2 * BLOCK * DIM * dtype_bytes(kv);
        void *cache = trial_heap(t, bytes);
        block_fill(t, cache, kv, known, junk != 0 ? NAN : 1);
        uint32_t *table = trial_heap(t, t->limits.step.blocks_max * sizeof *table);
        struct step *step = trial_heap(t, layout.bytes);
        step->layout = layout;
        step->row_count = 1;
        step->token_count = queries;
        *(struct step_row *)step_section(step, layout.rows) =
            (struct step_row){.q_len = queries, .kv_len = known};
        out[junk] = trial_heap(t, queries * HEADS * DIM * sizeof(float));
        struct attn_args args = {
            .act = DTYPE_F32,
            .kv = kv,
            .qkv = qkv,
            .out = out[junk],
            .step = step,
            .step_host = step,
            .block_table = table,
            .kv_base = cache,
            .value_offset = bytes / 2,
            .head_bytes = bytes / 2,
            .token_bytes = bytes / 2 / BLOCK,
            .shape = shape,
            .blocks_max = t->limits.step.blocks_max,
            .block_shift = 6,
            .row_count = 1,
            .token_count = queries,
        };
        t->api->step_plan(t->stream, step);
        assert_int_equal(t->api->ops->attn(t->stream, &args), STATUS_OK);
        static float first[BLOCK * HEADS * DIM];
        if (junk == 0)
            memcpy(first, out[0], queries * HEADS * DIM * sizeof(float));
        else
            assert_memory_equal(first, out[1], queries * HEADS * DIM * sizeof(float));
    }
}

static void keys_end_all(struct trial *t)
{
    static const uint32_t counts[] = {1, 2, 8, 30};
    for (int kv = 0; kv < DTYPE_I8; kv++)
        for (uint32_t known = 30; known < BLOCK; known += 11)
            for (uint32_t i = 0; i < 4; i++)
                keys_end(t, (enum dtype)kv, known, counts[i]);
}

static void test_keys_end(void **state)
{
    (void)state;
    with_levels(keys_end_all);
}

// Writes floats with every upper half, and a lower half below, at and above the middle, to the KV
// cache.
static void ties(struct trial *t)
{
    enum { WIDE = 256, TOKENS = 256 }; // 65,536 keys and 65,536 values
    static const uint32_t lower[] = {0x8000, 0x7FFF, 0x8001};
    struct attn_shape shape = {
        .heads = 1, .kv_heads = 1, .dim = WIDE, .scale = 1, .causal = 1, .paged = 1};
    for (uint32_t l = 0; l < 3; l++) {
        trial_begin(t, 200);
        float *qkv = trial_heap(t, (size_t)TOKENS * 3 * WIDE * sizeof *qkv);
        uint64_t *place = trial_heap(t, TOKENS * sizeof *place);
        size_t bytes = (size_t)TOKENS * WIDE * sizeof(uint16_t);
        uint16_t *cache = trial_heap(t, 2 * bytes);
        for (uint32_t i = 0; i < TOKENS * WIDE; i++) {
            uint32_t bits = i << 16 | lower[l];
            float *token = qkv + (size_t)(i / WIDE) * 3 * WIDE;
            memcpy(token + WIDE + i % WIDE, &bits, sizeof bits);
            bits ^= 1u << 31;
            memcpy(token + 2 * WIDE + i % WIDE, &bits, sizeof bits);
            place[i / WIDE] = (uint64_t)(i / WIDE) * WIDE * sizeof(uint16_t);
        }
        struct qkv_post_args args = {
            .act = DTYPE_F32,
            .kv = DTYPE_BF16,
            .qkv = qkv,
            .kv_write_offset = place,
            .kv_base = cache,
            .value_offset = bytes,
            .head_bytes = WIDE * sizeof(uint16_t),
            .shape = shape,
            .token_count = TOKENS,
            .epsilon = 1e-6f,
        };
        assert_int_equal(t->api->ops->qkv_post(t->stream, &args), STATUS_OK);
        for (uint32_t i = 0; i < TOKENS * WIDE; i++) {
            float x;
            uint32_t bits = i << 16 | lower[l];
            memcpy(&x, &bits, sizeof x);
            assert_int_equal(cache[i], f32_to_bf16(x));
            assert_int_equal(cache[TOKENS * WIDE + i], f32_to_bf16(x) ^ 0x8000);
        }
    }
}

static void test_ties(void **state)
{
    (void)state;
    with_levels(ties);
}

// A step's plan is valid for the shape it was made for and for narrower windows. Other layers are
// refused, and so is a vocabulary larger than the stream's.
static void unplanned(struct trial *t)
{
    trial_begin(t, 250);
    struct attn_shape shape = {
        .heads = 4, .kv_heads = 2, .dim = DIM, .window = 64, .scale = 1, .causal = 1, .paged = 1};
    trial_shape(t, &shape);
    struct step_layout layout;
    step_layout_init(&layout, &t->limits.step, t->api->step_private_bytes(t->device, &t->limits));
    struct step *step = trial_heap(t, layout.bytes);
    step->layout = layout;
    t->api->step_plan(t->stream, step); // the step has no rows
    struct attn_args valid = {.act = DTYPE_F32,
                              .kv = DTYPE_F32,
                              .step = step,
                              .step_host = step,
                              .block_table = trial_heap(t, 4),
                              .kv_base = trial_heap(t, 4),
                              .token_bytes = DIM * 4,
                              .shape = shape,
                              .blocks_max = 1,
                              .block_shift = 6};
    static const struct {
        uint32_t window, dim, heads, kv_heads;
        uint8_t paged;
        enum status status;
    } cases[] = {{64, DIM, 4, 2, 1, STATUS_OK},      {63, DIM, 4, 2, 1, STATUS_OK},
                 {65, DIM, 4, 2, 1, STATUS_INVALID}, {0, DIM, 4, 2, 1, STATUS_INVALID},
                 {64, 48, 4, 2, 1, STATUS_INVALID},  {64, DIM, 8, 2, 1, STATUS_INVALID},
                 {64, DIM, 4, 1, 1, STATUS_INVALID}, {64, DIM, 4, 2, 0, STATUS_INVALID}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct attn_args args = valid;
        args.shape.window = cases[i].window;
        args.shape.dim = cases[i].dim;
        args.shape.heads = cases[i].heads;
        args.shape.kv_heads = cases[i].kv_heads;
        args.shape.paged = cases[i].paged;
        args.token_bytes = cases[i].dim * 4;
        assert_int_equal(t->api->ops->attn(t->stream, &args), cases[i].status);
    }
    struct sample_args sample = {.limits = {.vocab = t->limits.step.vocab}};
    sample.stride = sample.limits.vocab;
    assert_int_equal(t->api->ops->sample(t->stream, &sample), STATUS_OK);
    sample.stride = ++sample.limits.vocab;
    assert_int_equal(t->api->ops->sample(t->stream, &sample), STATUS_INVALID);
}

static void test_unplanned(void **state)
{
    (void)state;
    with_levels(unplanned);
}

struct draw {
    struct sample_params params;
    struct sample_result result;
    struct sample_top top[SAMPLE_TOP_MAX];
};

static void draw_run(struct trial *t, struct draw *d, const float *logits, uint32_t vocab)
{
    float copy[VOCAB_MAX];
    int32_t last = 0;
    uint32_t done = 0;
    struct step_sampled sampled = {.mask = STEP_NO_ROW};
    struct step_limits limits = {.rows_max = 1, .slots_max = 1, .vocab = vocab};
    memcpy(copy, logits, vocab * sizeof *copy);
    d->params.repetition = 1;
    d->params.penalty_row = STEP_NO_ROW;
    struct sample_args args = {
        .logits = copy,
        .sampled = &sampled,
        .state = {.last_token = &last, .params = &d->params, .done = &done},
        .result = &d->result,
        .top = d->top,
        .limits = limits,
        .count = 1,
        .stride = vocab,
        .max_top = d->params.top_logprobs,
    };
    assert_int_equal(t->api->ops->sample(t->stream, &args), STATUS_OK);
}

// Among equal log-probabilities the lowest ids are listed, also if greater values come later in the
// row.
static void tops(struct trial *t)
{
    enum { VOCAB = 333, WANTED = 7 };
    trial_begin(t, 300);
    for (uint32_t larger = 0; larger <= WANTED; larger++) {
        float logits[VOCAB];
        for (uint32_t i = 0; i < VOCAB; i++)
            logits[i] = 1;
        for (uint32_t i = 0; i < larger; i++)
            logits[VOCAB - 1 - 40 * i] = 2;
        struct draw d = {.params = {.top_p = 1, .top_logprobs = WANTED}};
        draw_run(t, &d, logits, VOCAB);
        assert_int_equal(d.result.top_count, WANTED);
        for (uint32_t i = 0; i < WANTED; i++)
            assert_int_equal(d.top[i].token,
                             i < larger ? VOCAB - 1 - 40 * (larger - 1 - i) : i - larger);
    }
}

static void test_tops(void **state)
{
    (void)state;
    with_levels(tops);
}

// A top_p just below 1 keeps all tokens of a flat row except perhaps the least likely one, also if
// rounding makes the sum of all bins smaller than the target. The row is so flat that one bin holds
// nearly all tokens.
static void nearly_all(struct trial *t)
{
    enum { VOCAB = 700 };
    uint32_t other = 0;
    for (uint64_t i = 0; i < 60; i++) {
        trial_begin(t, 400 + i);
        float *logits = trial_floats(t, VOCAB, DTYPE_F32, 0.003f);
        struct draw all = {.params = {.seed = i, .temperature = 1, .top_p = 1}};
        struct draw most = {.params = {.seed = i, .temperature = 1, .top_p = 0x1.fffffep-1f}};
        draw_run(t, &all, logits, VOCAB);
        draw_run(t, &most, logits, VOCAB);
        other += all.result.token != most.result.token;
    }
    assert_in_range(other, 0, 1);
}

static void test_nearly_all(void **state)
{
    (void)state;
    with_levels(nearly_all);
}

// top_k 2 over a row of negative logits whose last vector is incomplete: missing elements must not
// count as logits of 0.
static void negative_top_k(struct trial *t)
{
    enum { VOCAB = 3 * 64 + 5, FIRST = 10, SECOND = 11 };
    uint32_t seconds = 0;
    float logits[VOCAB];
    for (uint32_t i = 0; i < VOCAB; i++)
        logits[i] = -20;
    logits[FIRST] = -1;
    logits[SECOND] = -1.5f;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct draw d = {.params = {.seed = seed, .temperature = 1, .top_p = 1, .top_k = 2}};
        draw_run(t, &d, logits, VOCAB);
        assert_in_range(d.result.token, FIRST, SECOND);
        seconds += d.result.token == SECOND;
    }
    assert_in_range(seconds, 5, 25); // expected: 15
}

static void test_negative_top_k(void **state)
{
    (void)state;
    with_levels(negative_top_k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_end),       cmocka_unit_test(test_ties),
        cmocka_unit_test(test_tops),           cmocka_unit_test(test_nearly_all),
        cmocka_unit_test(test_negative_top_k), cmocka_unit_test(test_unplanned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
