// SPDX-License-Identifier: Apache-2.0
// The share of a split model that one rank holds: the weights of all ranks together are those of
// the complete model, element by element as the device packs them. A rank reads only its part. A
// model that cannot be split is refused.
#include "base/arena.h"
#include "base/json.h"
#include "kernels/cpu/internal.h"
#include "runtime/model/internal.h"
#include "tests/runtime/golden.h"
#include "tests/runtime/model_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *const families[] = {
    "llama",   "llama-tied",       "llama-bias",     "llama-lone-head", "llama-mean",
    "qwen2",   "qwen2-classifier", "qwen3",          "qwen3-reranker",  "qwen3-reranker-score",
    "mistral", "mistral-model",    "qwen3-embedding"};

// Bytes of files that the device below was given.
static uint64_t bytes_read;

static enum status counting_put(struct device *device, struct weight *weight, uint32_t first_row,
                                const struct weight_source *source, struct error *err)
{
    if (source->map)
        bytes_read += (uint64_t)source->rows * source->cols * dtype_bytes(source->dtype);
    return device_cpu()->weight_put(device, weight, first_row, source, err);
}

static const struct device_api *counting_device(void)
{
    static struct device_api api;
    api = *device_cpu();
    api.weight_put = counting_put;
    bytes_read = 0;
    return &api;
}

static struct model_options options_of(uint32_t rank, uint32_t ranks)
{
    struct model_options options = rig_options();
    options.max_num_seqs = 2;
    options.max_num_batched_tokens = 64;
    options.max_model_len = 64;
    options.answer_ids[RERANK_YES_NO][0] = 4;
    options.answer_ids[RERANK_YES_NO][1] = 5;
    options.share.tp_rank = rank;
    options.share.tp_size = ranks;
    return options;
}

// Returns the bits of one element as the device stores it, with those of its scale for int8.
static uint64_t element(const struct weight *w, uint32_t row, uint32_t col)
{
    const struct weight_shape *shape = &w->shape;
    size_t at = packed_index(shape, row, col);
    if (shape->use == WEIGHT_VECTOR || (shape->use == WEIGHT_ROWS && shape->dtype != DTYPE_I8))
        at = (size_t)row * shape->k + col;
    uint64_t bits = 0;
    enum dtype dtype = shape->use == WEIGHT_VECTOR ? DTYPE_F32 : shape->dtype;
    memcpy(&bits, (const char *)w->data + at * dtype_bytes(dtype), dtype_bytes(dtype));
    if (dtype != DTYPE_I8)
        return bits;
    uint32_t scale;
    size_t scale_at =
        ((size_t)(row / SLAB_COLUMNS) * byte_groups(shape->k) + col / BYTE_GROUP) * SLAB_COLUMNS +
        row % SLAB_COLUMNS;
    memcpy(&scale, (const char *)w->data + packed_bytes(shape) + scale_at * sizeof scale,
           sizeof scale);
    return bits << 32 | scale;
}

struct shape_of { // sizes of the complete model, according to config.json
    uint32_t heads, kv_heads, dim, intermediate, vocab, ranks;
};

// Returns the row of the complete weight that the rank's row `row` holds.
static uint32_t whole_row(const struct shape_of *s, uint32_t index, uint32_t rank, uint32_t row)
{
    uint32_t q = s->heads / s->ranks * s->dim;
    uint32_t kv = (s->kv_heads > s->ranks ? s->kv_heads / s->ranks : 1) * s->dim;
    uint32_t kv_first = rank * s->kv_heads / s->ranks * s->dim;
    uint32_t ffn_first = s->intermediate * rank / s->ranks;
    uint32_t ffn = s->intermediate * (rank + 1) / s->ranks - ffn_first;
    if (index == MODEL_EMBED || index == MODEL_HEAD)
        return s->vocab * rank / s->ranks + row;
    if (index < MODEL_WEIGHT_COUNT)
        return row;
    switch ((index - MODEL_WEIGHT_COUNT) % LAYER_WEIGHT_COUNT) {
    case LAYER_QKV:
    case LAYER_QKV_BIAS:
        if (row < q)
            return rank * q + row;
        if (row < q + kv)
            return s->heads * s->dim + kv_first + row - q;
        return (s->heads + s->kv_heads) * s->dim + kv_first + row - q - kv;
    case LAYER_UP:
    case LAYER_UP_BIAS:
        return ffn_first + (row < ffn ? row : s->intermediate + row - ffn);
    default:
        return row;
    }
}

static uint32_t whole_col(const struct shape_of *s, uint32_t index, uint32_t rank, uint32_t col)
{
    uint32_t kind =
        index < MODEL_WEIGHT_COUNT ? 0 : (index - MODEL_WEIGHT_COUNT) % LAYER_WEIGHT_COUNT;
    if (index >= MODEL_WEIGHT_COUNT && kind == LAYER_O)
        return s->heads / s->ranks * s->dim * rank + col;
    if (index >= MODEL_WEIGHT_COUNT && kind == LAYER_DOWN)
        return s->intermediate * rank / s->ranks + col;
    return col;
}

// Checks that every element of the rank's weight equals the complete weight's. Counts the elements
// in `seen`.
static void weight_compare(const struct shape_of *s, const struct weight *whole,
                           const struct weight *part, uint32_t index, uint32_t rank, uint8_t *seen)
{
    assert_int_equal(part->shape.use, whole->shape.use);
    assert_int_equal(part->shape.dtype, whole->shape.dtype);
    for (uint32_t r = 0; r < part->shape.n; r++)
        for (uint32_t c = 0; c < part->shape.k; c++) {
            uint32_t row = whole_row(s, index, rank, r), col = whole_col(s, index, rank, c);
            assert_true(row < whole->shape.n && col < whole->shape.k);
            if (element(part, r, c) != element(whole, row, col))
                fail_msg("weight %u, rank %u of %u, row %u, column %u", index, rank, s->ranks, r,
                         c);
            seen[(size_t)row * whole->shape.k + col]++;
        }
}

// Returns the number of ranks that hold an element of the row.
static uint32_t copies_of(const struct shape_of *s, uint32_t index, uint32_t row)
{
    if (index == MODEL_EMBED || index == MODEL_HEAD)
        return 1;
    if (index < MODEL_WEIGHT_COUNT)
        return s->ranks;
    switch ((index - MODEL_WEIGHT_COUNT) % LAYER_WEIGHT_COUNT) {
    case LAYER_QKV:
    case LAYER_QKV_BIAS:
        return row < s->heads * s->dim || s->kv_heads >= s->ranks ? 1 : s->ranks / s->kv_heads;
    case LAYER_UP:
    case LAYER_UP_BIAS:
    case LAYER_O:
    case LAYER_DOWN:
    case LAYER_O_BIAS:
    case LAYER_DOWN_BIAS: // only on one rank, otherwise the sum would contain it once per rank
        return 1;
    default:
        return s->ranks;
    }
}

static void table_compare(const struct shape_of *s, const struct rig *whole, struct rig *ranks)
{
    uint32_t count = whole->plan->parts->weights.table_count;
    uint32_t compared = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct weight *w = &whole->model->weights[i];
        uint8_t *seen = heap_alloc_zeroed((size_t)w->shape.n * w->shape.k + 1, 1);
        for (uint32_t r = 0; r < s->ranks; r++)
            if (ranks[r].model->weights[i].shape.n > 0)
                weight_compare(s, w, &ranks[r].model->weights[i], i, r, seen);
        for (uint32_t at = 0; at < w->shape.n * w->shape.k; at++)
            if (seen[at] != copies_of(s, i, at / w->shape.k))
                fail_msg("weight %u, element %u: on %u of %u ranks", i, at, seen[at], s->ranks);
        compared += w->shape.n > 0;
        heap_free(seen);
    }
    assert_true(compared >= 8);
}

static void ranks_compare(const char *folder, struct model_options options, uint32_t ranks)
{
    struct rig whole, rank[RANKS_MAX];
    const struct device_api *api = counting_device();
    rig_open_on(&whole, api, folder, &options);
    const struct model_config *c = &whole.plan->parts->config;
    struct shape_of s = {c->heads, c->kv_heads, c->head_dim, c->intermediate, c->vocab, ranks};
    for (uint32_t i = 0; i < ranks; i++) {
        options.share = (struct model_share){.tp_rank = i, .tp_size = ranks};
        rig_open_on(&rank[i], api, folder, &options);
        assert_int_equal(rank[i].facts->vocab, whole.facts->vocab);
        assert_int_equal(rank[i].facts->parameter_count, whole.facts->parameter_count);
        uint32_t kv = c->kv_heads > ranks ? c->kv_heads / ranks : 1;
        assert_int_equal(rank[i].facts->block_bytes, whole.facts->block_bytes / c->kv_heads * kv);
    }
    table_compare(&s, &whole, rank);
    for (uint32_t i = 0; i < ranks; i++)
        rig_close(&rank[i]);
    rig_close(&whole);
}

static void test_ranks_together_hold_each_family(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        char folder[64];
        golden_folder(folder, families[i], i % 2 ? DTYPE_BF16 : DTYPE_F32);
        ranks_compare(folder, options_of(0, 1), 2);
        ranks_compare(folder, options_of(0, 1), 4);
        folder_remove(folder);
    }
}

// For int8 also the scales, if a cut is between groups; for a dummy load the same random numbers.
// The vocabulary is cut into unequal parts.
static void test_ranks_together_hold_every_type(void **state)
{
    (void)state;
    char folder[64];
    folder_make(folder);
    json_t *golden = golden_read("qwen2");
    json_t *config = json_object_get(golden, "config");
    json_object_set_new(config, "hidden_size", json_integer(128));
    json_object_set_new(config, "num_attention_heads", json_integer(8));
    json_object_set_new(config, "num_key_value_heads", json_integer(2));
    json_object_set_new(config, "head_dim", json_integer(64));
    json_object_set_new(config, "intermediate_size", json_integer(512));
    json_object_set_new(config, "vocab_size", json_integer(101));
    file_write_json(folder, "config.json", config);
    json_decref(golden);
    struct model_options options = options_of(0, 1);
    options.load_dummy = true;
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        options.dtype = dtype;
        ranks_compare(folder, options, 2);
        ranks_compare(folder, options, 4);
    }
    folder_remove(folder);
}

// A rank reads the tensors that it holds, and all ranks together read each split tensor once.
static void test_a_rank_reads_its_part(void **state)
{
    (void)state;
    char folder[64];
    golden_folder(folder, "llama-bias", DTYPE_BF16);
    struct rig rig;
    struct model_options options = options_of(0, 1);
    rig_open_on(&rig, counting_device(), folder, &options);
    uint64_t whole = bytes_read;
    uint64_t norms = (2 * rig.facts->layers + 1) * rig.facts->hidden * 2ull;
    uint64_t kv = 2ull * rig.facts->layers * 2 * 16 * (rig.facts->hidden + 1) * 2; // 2 heads of 16
    uint64_t once = rig.facts->layers * 2 * rig.facts->hidden * 2ull; // o, down: rank 0
    assert_int_equal(whole, rig.facts->parameter_count * 2);
    rig_close(&rig);
    for (uint32_t ranks = 2; ranks <= 4; ranks *= 2)
        for (uint32_t i = 0; i < ranks; i++) {
            options = options_of(i, ranks);
            rig_open_on(&rig, counting_device(), folder, &options);
            uint64_t split = (whole - norms - kv - once) / ranks;
            assert_int_equal(bytes_read, norms + kv / 2 + (i == 0 ? once : 0) + split);
            rig_close(&rig);
        }
    folder_remove(folder);
}

// The buffer of partial sums has space for a rank's part of the logits if that is larger than a
// sum.
static void test_parts_of_logits_fit_the_buffer(void **state)
{
    (void)state;
    char folder[64];
    json_t *golden = golden_read("llama");
    json_object_set_new(json_object_get(golden, "config"), "vocab_size", json_integer(8192));
    folder_make(folder);
    golden_folder_write(folder, golden, DTYPE_F32, 1);
    json_decref(golden);
    struct model_options options = options_of(1, 2);
    options.load_dummy = true;
    options.max_num_seqs = 32;
    options.max_num_batched_tokens = 64;
    struct rig rig;
    rig_open_on(&rig, counting_device(), folder, &options);
    const size_t *buffer = rig.plan->parts->layout.buffer;
    size_t part = (size_t)rig.facts->limits.rows_max * 8192 / 2 * sizeof(float);
    assert_true(buffer[BUFFER_QKV] - buffer[BUFFER_PARTIAL] >= part);
    rig_close(&rig);
    folder_remove(folder);
}

static void refused(const char *folder, uint32_t ranks, const char *words)
{
    struct error err = {.text = ""};
    struct device *device;
    struct model_plan *plan;
    struct device_options threads = {.threads = 1, .exact = true};
    struct model_options options = options_of(0, ranks);
    assert_int_equal(device_cpu()->open(&device, &threads, &err), STATUS_OK);
    assert_int_equal(model_plan_open(&plan, folder, device_cpu(), device, &options, &err),
                     STATUS_UNSUPPORTED);
    if (!strstr(err.text, words))
        fail_msg("'%s' does not say '%s'", err.text, words);
    device_cpu()->close(device);
}

static void test_unsplittable_models_are_refused(void **state)
{
    (void)state;
    char folder[64];
    golden_folder(folder, "llama", DTYPE_F32);
    refused(folder, 3,
            "--tensor-parallel-size 3: 4 heads and 2 KV heads cannot be divided evenly; "
            "possible sizes: 1, 2, 4");
    refused(folder, 9, "--tensor-parallel-size is 9; at most 8 are possible");
    folder_remove(folder);
    golden_folder(folder, "bert-mean", DTYPE_F32);
    refused(folder, 2,
            "--tensor-parallel-size 2: a BertModel is an encoder and is not split; add "
            ",tensor-parallel-size=1 after its folder");
    folder_remove(folder);
}

// A model with 12 heads and 6 KV heads: four ranks cannot hold complete KV heads.
static void test_sizes_of_a_rank(void **state)
{
    (void)state;
    struct error err;
    struct model_sizes sizes;
    struct model_config config = {.name = "LlamaForCausalLM",
                                  .arch = architecture_find("LlamaForCausalLM"),
                                  .vocab = 1001,
                                  .hidden = 96,
                                  .layers = 3,
                                  .heads = 12,
                                  .kv_heads = 6,
                                  .head_dim = 8,
                                  .intermediate = 100,
                                  .kinds = {{.causal = true}}};
    struct model_share share = {.tp_rank = 2, .tp_size = 3};
    assert_int_equal(model_sizes_make(&sizes, &config, &share, &err), STATUS_OK);
    assert_int_equal(sizes.heads.first, 8);
    assert_int_equal(sizes.heads.count, 4);
    assert_int_equal(sizes.kv_heads.first, 4);
    assert_int_equal(sizes.kv_heads.count, 2);
    assert_int_equal(sizes.intermediate.first, 66);
    assert_int_equal(sizes.intermediate.count, 34);
    assert_int_equal(sizes.vocab.first, 667);
    assert_int_equal(sizes.vocab.count, 334);
    share.tp_size = 4;
    assert_int_equal(model_sizes_make(&sizes, &config, &share, &err), STATUS_UNSUPPORTED);
    assert_non_null(strstr(err.text, "12 heads and 6 KV heads"));
    assert_non_null(strstr(err.text, "possible sizes: 1, 2, 3, 6"));
    share.tp_size = 3;
    config.kinds[0].causal = false;
    assert_int_equal(model_sizes_make(&sizes, &config, &share, &err), STATUS_UNSUPPORTED);
    assert_non_null(strstr(err.text, "whose tokens see later tokens is not split"));
    share = (struct model_share){.tp_rank = 0, .tp_size = 0};
    assert_int_equal(model_sizes_make(&sizes, &config, &share, &err), STATUS_OK);
    assert_int_equal(sizes.ranks, 1);
    assert_int_equal(sizes.vocab.count, 1001);
}

// A refusal names the possible sizes: heads, KV heads, intermediate size and vocabulary each
// exclude some.
static void test_possible_sizes(void **state)
{
    (void)state;
    static const struct {
        uint32_t heads, kv_heads, intermediate, vocab, asked;
        const char *sizes;
    } cases[] = {{8, 8, 100, 1000, 3, "1, 2, 4, 8"}, {8, 8, 8, 8, 5, "1, 2, 4, 8"},
                 {8, 8, 7, 1000, 8, "1, 2, 4"},      {8, 2, 100, 3, 4, "1, 2"},
                 {7, 7, 100, 1000, 8, "1, 7"},       {12, 1, 100, 1000, 5, "1, 2, 3, 4, 6"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error err;
        char text[160];
        struct model_sizes sizes;
        struct model_config config = {.name = "LlamaForCausalLM",
                                      .arch = architecture_find("LlamaForCausalLM"),
                                      .vocab = cases[i].vocab,
                                      .heads = cases[i].heads,
                                      .kv_heads = cases[i].kv_heads,
                                      .intermediate = cases[i].intermediate,
                                      .kinds = {{.causal = true}}};
        struct model_share share = {.tp_size = cases[i].asked};
        assert_int_equal(model_sizes_make(&sizes, &config, &share, &err), STATUS_UNSUPPORTED);
        snprintf(text, sizeof text,
                 "--tensor-parallel-size %u: %u heads and %u KV heads cannot be divided evenly; "
                 "possible sizes: %s",
                 cases[i].asked, cases[i].heads, cases[i].kv_heads, cases[i].sizes);
        assert_string_equal(err.text, text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_together_hold_each_family),
        cmocka_unit_test(test_ranks_together_hold_every_type),
        cmocka_unit_test(test_a_rank_reads_its_part),
        cmocka_unit_test(test_unsplittable_models_are_refused),
        cmocka_unit_test(test_parts_of_logits_fit_the_buffer),
        cmocka_unit_test(test_sizes_of_a_rank),
        cmocka_unit_test(test_possible_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
