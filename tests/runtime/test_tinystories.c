// SPDX-License-Identifier: Apache-2.0
// A trained model (assets/decoder/tinystories-656k) compared with golden.json, from an independent
// float64 implementation: the top logits and log-probabilities of each prompt, and ten complete
// greedy continuations. Also exact mode: chunk sizes and neighbours change no bit.
#include "base/arena.h"
#include "base/json.h"
#include "tests/runtime/model_rig.h"
#include "tests/assets.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { CASES = 10, TOKENS_MAX = 512, GREEDY_MAX = 48 };

static const char *folder; // of the model

struct fixture {
    json_t *golden;
    struct rig rig;
    int32_t prompts[CASES][TOKENS_MAX];
    uint32_t lengths[CASES];
    const json_t *cases[CASES];
};

static uint32_t ids_read(int32_t *out, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        out[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return (uint32_t)json_array_size(list);
}

static int setup(void **state)
{
    struct fixture *f = heap_alloc_zeroed(1, sizeof *f);
    struct error err;
    assert_int_equal(json_file_parse(&f->golden,
                                     assets_path("decoder/tinystories-656k/golden.json"), 1 << 20,
                                     &err),
                     STATUS_OK);
    const json_t *cases = json_object_get(f->golden, "cases");
    assert_int_equal(json_array_size(cases), CASES);
    for (size_t i = 0; i < CASES; i++) {
        f->cases[i] = json_array_get(cases, i);
        f->lengths[i] = ids_read(f->prompts[i], json_object_get(f->cases[i], "input_ids"));
    }
    struct model_options options = rig_options();
    rig_open(&f->rig, folder, &options);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    rig_close(&f->rig);
    json_decref(f->golden);
    heap_free(f);
    return 0;
}

static struct rig_sequence sequence(const struct fixture *f, uint32_t row, uint32_t which)
{
    return (struct rig_sequence){row, f->prompts[which], f->lengths[which], 0, STEP_NO_TYPE};
}

static void test_facts_are_read(void **state)
{
    const struct model_facts *facts = ((struct fixture *)*state)->rig.facts;
    assert_int_equal(facts->kind, MODEL_GENERATOR);
    assert_string_equal(facts->architecture, "LlamaForCausalLM");
    assert_int_equal(facts->dtype, DTYPE_F32);
    assert_int_equal(facts->vocab, 2048);
    assert_int_equal(facts->max_model_len, 512);
    assert_int_equal(facts->end_count, 1);
    assert_int_equal(facts->end_ids[0], 2);
    assert_int_equal(facts->parameter_count, 656000); // as in the model's name
}

static void test_top_logits_match(void **state)
{
    struct fixture *f = *state;
    float logits[2048];
    for (uint32_t i = 0; i < CASES; i++) {
        struct rig_sequence s = sequence(f, i, i);
        rig_prompt_logits(&f->rig, &s, TOKENS_MAX, logits);
        const json_t *top = json_object_get(f->cases[i], "last_logits_top5");
        double largest = 0;
        for (size_t k = 0; k < 5; k++)
            largest =
                fmax(largest, fabs(json_number_value(json_array_get(json_array_get(top, k), 1))));
        for (size_t k = 0; k < 5; k++) {
            const json_t *pair = json_array_get(top, k);
            json_int_t id = json_integer_value(json_array_get(pair, 0));
            double want = json_number_value(json_array_get(pair, 1));
            assert_true(fabs(logits[id] - want) <= 1e-4 * largest);
        }
    }
}

static double logprob(const float *logits, uint32_t vocab, int32_t token)
{
    double most = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < vocab; i++)
        most = fmax(most, logits[i]);
    for (uint32_t i = 0; i < vocab; i++)
        sum += exp(logits[i] - most);
    return logits[token] - most - log(sum);
}

// A prompt of n tokens gives n - 1 log-probabilities, at the last positions of its n - 1 prefixes.
static void test_prompt_logprobs_match(void **state)
{
    struct fixture *f = *state;
    float logits[2048];
    for (uint32_t i = 0; i < CASES; i++) {
        const json_t *want = json_object_get(f->cases[i], "prompt_logprobs");
        for (uint32_t n = 1; n < f->lengths[i]; n++) {
            struct rig_sequence s = {0, f->prompts[i], n, 0, STEP_NO_TYPE};
            rig_prompt_logits(&f->rig, &s, TOKENS_MAX, logits);
            double value = logprob(logits, 2048, f->prompts[i][n]);
            assert_true(fabs(value - json_number_value(json_array_get(want, n))) <= 1e-3);
        }
    }
}

struct continuation {
    int32_t tokens[GREEDY_MAX];
    uint32_t count;
    bool ended;
};

static void continuation_add(struct continuation *c, int32_t token)
{
    if (c->ended || c->count == GREEDY_MAX)
        return;
    c->tokens[c->count++] = token;
    c->ended = token == 2;
}

static void continuation_compare(const struct fixture *f, uint32_t which,
                                 const struct continuation *c)
{
    int32_t want[GREEDY_MAX];
    uint32_t count = ids_read(want, json_object_get(f->cases[which], "greedy_ids"));
    assert_int_equal(c->count, count);
    assert_memory_equal(c->tokens, want, count * sizeof want[0]);
}

static void test_greedy_matches_alone(void **state)
{
    struct fixture *f = *state;
    for (uint32_t i = 0; i < CASES; i++) {
        struct continuation c = {.count = 0};
        struct rig_sequence s = sequence(f, 3, i);
        rig_begin(&f->rig);
        rig_prefill(&f->rig, &s, TOKENS_MAX, WANT_TOKEN);
        continuation_add(&c, rig_step(&f->rig, NULL).results[0].token);
        while (!c.ended && c.count < GREEDY_MAX) {
            rig_begin(&f->rig);
            rig_decode(&f->rig, &s);
            continuation_add(&c, rig_step(&f->rig, NULL).results[0].token);
        }
        continuation_compare(f, i, &c);
    }
}

// All ten together, started one step apart, so that decode rows and prefill rows are mixed.
static void test_greedy_matches_batched(void **state)
{
    struct fixture *f = *state;
    struct continuation c[CASES] = {{.count = 0}};
    struct rig_sequence s[CASES];
    for (uint32_t i = 0; i < CASES; i++)
        s[i] = sequence(f, CASES - i, i);
    for (uint32_t step = 0; step < CASES + GREEDY_MAX; step++) {
        uint32_t order[CASES], rows = 0;
        rig_begin(&f->rig);
        for (uint32_t i = 0; i < CASES && i < step; i++) {
            if (s[i].computed + 1 >= TOKENS_MAX || c[i].ended || c[i].count == GREEDY_MAX)
                continue;
            rig_decode(&f->rig, &s[i]);
            order[rows++] = i;
        }
        if (step < CASES) {
            rig_prefill(&f->rig, &s[step], TOKENS_MAX, WANT_TOKEN);
            order[rows++] = step;
        }
        if (rows == 0)
            break;
        struct model_output out = rig_step(&f->rig, NULL);
        assert_int_equal(out.count, rows);
        for (uint32_t r = 0; r < rows; r++)
            continuation_add(&c[order[r]], out.results[r].token);
    }
    for (uint32_t i = 0; i < CASES; i++)
        continuation_compare(f, i, &c[i]);
}

static void test_chunks_change_no_bit(void **state)
{
    if (!rig_exact())
        skip();
    struct fixture *f = *state;
    static float whole[2048], cut[2048];
    int32_t longest[160];
    for (uint32_t i = 0; i < 160; i++)
        longest[i] = f->prompts[i % CASES][i / CASES % f->lengths[i % CASES]];
    struct rig_sequence all = {0, longest, 160, 0, STEP_NO_TYPE};
    rig_prompt_logits(&f->rig, &all, TOKENS_MAX, whole);
    for (uint32_t chunk = 1; chunk <= 64; chunk++) {
        struct rig_sequence s = {chunk % 7, longest, 160, 0, STEP_NO_TYPE};
        rig_prompt_logits(&f->rig, &s, chunk, cut);
        assert_memory_equal(whole, cut, sizeof whole);
    }
}

// A prompt whose tail is computed in decode rows has the bits of one computed in one step.
static void test_decode_changes_no_bit(void **state)
{
    if (!rig_exact())
        skip();
    struct fixture *f = *state;
    static float fed[2048], whole[2048];
    struct rig_sequence s = sequence(f, 5, 0);
    int32_t tokens[64];
    memcpy(tokens, f->prompts[0], f->lengths[0] * sizeof tokens[0]);
    rig_begin(&f->rig);
    rig_prefill(&f->rig, &s, TOKENS_MAX, WANT_TOKEN);
    tokens[s.count] = rig_step(&f->rig, NULL).results[0].token;
    for (uint32_t n = s.count + 1; n < s.count + 20; n++) {
        rig_begin(&f->rig);
        rig_decode(&f->rig, &s);
        tokens[n] = rig_step(&f->rig, fed).results[0].token;
        struct rig_sequence again = {6, tokens, n, 0, STEP_NO_TYPE};
        rig_prompt_logits(&f->rig, &again, TOKENS_MAX, whole);
        assert_memory_equal(whole, fed, sizeof whole);
    }
}

static void test_neighbours_change_no_bit(void **state)
{
    if (!rig_exact())
        skip();
    struct fixture *f = *state;
    static float alone[CASES][2048], together[CASES][2048];
    for (uint32_t i = 0; i < CASES; i++) {
        struct rig_sequence s = sequence(f, 0, i);
        rig_prompt_logits(&f->rig, &s, TOKENS_MAX, alone[i]);
    }
    rig_begin(&f->rig);
    for (uint32_t i = 0; i < CASES; i++) {
        struct rig_sequence s = sequence(f, 10 + i, i);
        rig_prefill(&f->rig, &s, TOKENS_MAX, WANT_TOKEN);
    }
    rig_step(&f->rig, together[0]);
    assert_memory_equal(alone, together, sizeof alone);
}

// Bits do not depend on chunks or neighbours in the other precisions either.
static void test_lower_precisions_keep_their_bits(void **state)
{
    if (!rig_exact())
        skip();
    struct fixture *f = *state;
    static const int dtypes[] = {DTYPE_BF16, DTYPE_F16, DTYPE_I8, MODEL_INT4};
    static const uint32_t chunks[] = {1, 2, 3, 7, 16, 33, 64};
    static float whole[CASES][2048], cut[CASES][2048];
    for (size_t d = 0; d < 4; d++) {
        struct model_options options = rig_options();
        options.dtype = dtypes[d];
        struct rig rig;
        rig_open(&rig, folder, &options);
        rig_begin(&rig);
        for (uint32_t i = 0; i < CASES; i++) {
            struct rig_sequence s = sequence(f, i, i);
            rig_prefill(&rig, &s, TOKENS_MAX, WANT_TOKEN);
        }
        rig_step(&rig, whole[0]);
        for (size_t c = 0; c < sizeof chunks / sizeof chunks[0]; c++) {
            for (uint32_t i = 0; i < CASES; i++) {
                struct rig_sequence s = sequence(f, 11, i);
                rig_prompt_logits(&rig, &s, chunks[c], cut[i]);
            }
            assert_memory_equal(whole, cut, sizeof whole);
        }
        rig_close(&rig);
    }
}

// Returns the perplexity of the golden continuations, from their negative log-likelihood.
static double perplexity(const struct fixture *f, struct rig *rig)
{
    static float logits[2048];
    double sum = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < CASES; i++) {
        int32_t tokens[TOKENS_MAX];
        memcpy(tokens, f->prompts[i], f->lengths[i] * sizeof tokens[0]);
        uint32_t n = f->lengths[i] +
                     ids_read(tokens + f->lengths[i], json_object_get(f->cases[i], "greedy_ids"));
        for (uint32_t k = 2; k < n; k += 3) {
            struct rig_sequence s = {0, tokens, k, 0, STEP_NO_TYPE};
            rig_prompt_logits(rig, &s, TOKENS_MAX, logits);
            sum -= logprob(logits, 2048, tokens[k]);
            count++;
        }
    }
    return exp(sum / count);
}

static void test_lower_precisions_cost_little_perplexity(void **state)
{
    struct fixture *f = *state;
    double exact = perplexity(f, &f->rig);
    static const int dtypes[] = {DTYPE_BF16, DTYPE_I8, MODEL_INT4};
    double got[3];
    for (int d = 0; d < 3; d++) {
        struct model_options options = rig_options();
        options.dtype = dtypes[d];
        struct rig rig;
        rig_open(&rig, folder, &options);
        got[d] = perplexity(f, &rig);
        rig_close(&rig);
    }
    printf("perplexity: float32 %.4f, bfloat16 %.4f, int8 %.4f, int4 %.4f\n", exact, got[0], got[1],
           got[2]);
    assert_true(got[0] < exact * 1.005 && got[1] < exact * 1.005);
    assert_true(got[2] < exact * 1.1); // 4 bits of a model of 128 columns
}

int main(void)
{
    folder = strdup(assets_path("decoder/tinystories-656k"));
    if (access(assets_path("decoder/tinystories-656k/golden.json"), R_OK) != 0) {
        puts("skipped: WEFT_ASSETS is not set (the trained weights have no licence)");
        return 77;
    }
    if (!rig_device_usable())
        return 77;
    if (getenv("WEFT_TEST_ONLY"))
        cmocka_set_test_filter(getenv("WEFT_TEST_ONLY"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_facts_are_read),
        cmocka_unit_test(test_top_logits_match),
        cmocka_unit_test(test_prompt_logprobs_match),
        cmocka_unit_test(test_greedy_matches_alone),
        cmocka_unit_test(test_greedy_matches_batched),
        cmocka_unit_test(test_chunks_change_no_bit),
        cmocka_unit_test(test_lower_precisions_keep_their_bits),
        cmocka_unit_test(test_lower_precisions_cost_little_perplexity),
        cmocka_unit_test(test_decode_changes_no_bit),
        cmocka_unit_test(test_neighbours_change_no_bit),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
