// SPDX-License-Identifier: Apache-2.0
// The start of a model on the CUDA sources under the emulator, with the stand-in for cuBLASLt: each
// bucket of rows is tuned once, in graphs, before the first step, and a second start reads all of
// it from the cache. While a graph is recorded, or in a step that serves requests, no code is
// loaded and nothing is timed. With and without exact mode, for each kind of model.
#include "tests/runtime/golden.h"
#include "tests/runtime/model_rig.h"
#include "tests/runtime/simt_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 6, TOKENS = 200, CANDIDATES = 2, PROMPT = 50, VOCAB = 96 };

static char cache[64];

static struct simt_device_counts start(struct rig *rig, const char *model, bool exact)
{
    struct simt_device_switches switches = {
        .exact = exact, .graphs = true, .blas_candidates = CANDIDATES, .cache_folder = cache};
    struct model_options options = rig_options();
    char folder[64];
    golden_folder(folder, model, DTYPE_BF16);
    options.max_num_seqs = ROWS;
    options.max_num_batched_tokens = TOKENS;
    options.block_size = 16;
    rig_open_on(rig, simt_device(&switches), folder, &options);
    folder_remove(folder);
    struct simt_device_counts counts = simt_device_read();
    assert_string_equal(simt_device_report(), "");
    assert_true(counts.loads > 0);
    assert_int_equal(counts.loads_captured, 0);
    return counts;
}

static const int32_t *tokens(void)
{
    static int32_t out[PROMPT];
    for (uint32_t i = 0; i < PROMPT; i++)
        out[i] = (int32_t)(3 + i * 11 % (VOCAB - 3));
    return out;
}

static void prefill(struct rig *rig, struct rig_sequence *s, uint32_t chunk)
{
    static const enum batch_want wants[] = {WANT_TOKEN, WANT_VECTOR, WANT_SCORE};
    _Static_assert(MODEL_GENERATOR == 0 && MODEL_EMBEDDER == 1 && MODEL_RERANKER == 2, "in order");
    rig_prefill(rig, s, chunk, wants[rig->facts->kind]);
}

// Sets a different sampler for each row: greedy, plain, filtered, with penalties, with logprobs.
static void sampler_put(struct rig *rig, uint32_t row)
{
    if (rig->batch->new_sequence_count == 0)
        return;
    struct batch_new_sequence *new =
        &batch_new_sequences(rig->batch)[rig->batch->new_sequence_count - 1];
    struct sample_params *params = &new->params;
    params->temperature = row == 0 ? 0 : 0.9f;
    params->top_k = row == 2 ? 20 : 0;
    params->top_p = row == 2 ? 0.8f : 1;
    params->top_logprobs = row == 4 ? 20 : 0;
    if (row == 3) {
        params->repetition = 1.2f;
        params->flags = SAMPLE_PENALTY;
        params->penalty_row = 0;
    }
}

// Runs steps of one row and of many, of each length, then decode steps with graphs.
static void serve(struct rig *rig)
{
    struct rig_sequence s[ROWS];
    bool whole = rig->facts->block_tokens == 0; // encoders compute a complete input per step
    for (uint32_t r = 0; r < ROWS; r++) {
        s[r] = (struct rig_sequence){r, tokens(), PROMPT - 7 * r, 0, STEP_NO_TYPE};
        for (bool first = true; s[r].computed < s[r].count; first = false) {
            rig_begin(rig);
            prefill(rig, &s[r], whole ? PROMPT : 1 + 9 * r);
            if (first)
                sampler_put(rig, r);
            rig_step(rig, NULL);
        }
    }
    rig_begin(rig);
    for (uint32_t r = 0; r < ROWS; r++) {
        s[r].computed = 0;
        prefill(rig, &s[r], PROMPT);
        sampler_put(rig, r);
    }
    rig_step(rig, NULL);
    for (uint32_t rows = 1; rig->facts->kind == MODEL_GENERATOR && rows <= ROWS; rows++) {
        rig_begin(rig);
        for (uint32_t r = 0; r < rows; r++)
            rig_decode(rig, &s[r]);
        rig_step(rig, NULL);
    }
}

// Returns the counts of a start, and checks that later steps do not increase them.
static struct simt_device_counts started(const char *model, bool exact)
{
    struct rig rig;
    struct simt_device_counts before = start(&rig, model, exact);
    serve(&rig);
    struct simt_device_counts after = simt_device_read();
    assert_string_equal(simt_device_report(), "");
    assert_int_equal(after.loads, before.loads);
    assert_int_equal(after.blas_heuristics, before.blas_heuristics);
    bool graphs = rig.facts->kind == MODEL_GENERATOR;
    assert_int_equal(after.replays, graphs ? ROWS : 0);
    // A graph includes a product when it is recorded; later steps do not add any.
    assert_int_equal(after.blas_recorded, before.blas_recorded);
    assert_int_equal(after.graphs, before.graphs);
    rig_close(&rig);
    return before;
}

// The products of a layer at each of 13 buckets up to 200 rows, and those of the head at the four
// buckets up to six rows; in each of the four graphs, two layers of four products and a head.
static void test_each_bucket_once(void **state)
{
    (void)state;
    enum { PRODUCTS = 4 * 13 + 4, RUNS = 8, IN_GRAPHS = 4 * (2 * 4 + 1) };
    folder_make(cache);
    struct simt_device_counts first = started("llama", false);
    assert_int_equal(first.blas_heuristics, PRODUCTS);
    assert_int_equal(first.blas_recorded, PRODUCTS * CANDIDATES * RUNS + IN_GRAPHS);
    assert_int_equal(first.graphs, 4);
    struct simt_device_counts second = started("llama", false);
    assert_int_equal(second.blas_heuristics, 0);
    assert_int_equal(second.blas_recorded, IN_GRAPHS);
    assert_int_equal(second.blas_calls, PRODUCTS + IN_GRAPHS + 2 * (2 * 4 + 1));
    folder_remove(cache);
}

static void kind_starts(const char *model)
{
    folder_make(cache);
    assert_true(started(model, false).blas_heuristics > 0);
    assert_int_equal(started(model, false).blas_heuristics, 0);
    assert_int_equal(started(model, true).blas_calls, 0);
    folder_remove(cache);
}

static void test_one_kind(void **state)
{
    (void)state;
    kind_starts("bert-mean");
}

static void test_every_kind(void **state)
{
    (void)state;
    static const char *const models[] = {"qwen3", "bert-mean", "bert-rerank", "qwen3-embedding",
                                         "qwen2-classifier"};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
        kind_starts(models[i]);
}

// With the argument `small`: only test_one_kind.
int main(int argc, char **argv)
{
    if (!simt_device_usable())
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_bucket_once),
        cmocka_unit_test(test_every_kind),
    };
    const struct CMUnitTest few[] = {cmocka_unit_test(test_one_kind)};
    if (argc > 1 && strcmp(argv[1], "small") == 0)
        return cmocka_run_group_tests(few, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
