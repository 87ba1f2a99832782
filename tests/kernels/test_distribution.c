// SPDX-License-Identifier: Apache-2.0
// Compares each sampling method with its definition: 100,000 draws with fixed seeds from known
// distributions, by chi-square. A token that a method excludes must never be drawn.
#include "tests/kernels/distribution.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
// cmocka.h needs some of the headers above
#include <cmocka.h>

enum { DRAWS = 100000, VOCAB = 23 };

static struct distribution plain_distribution(struct trial *t)
{
    struct distribution d = {
        .vocab = VOCAB, .temperature = 1, .top_p = 1, .repetition = 1, .seed = 77};
    for (uint32_t i = 0; i < VOCAB; i++)
        d.logits[i] = trial_normal(t);
    return d;
}

static void draws_compare(struct trial *t, const struct distribution *d,
                          enum distribution_draws kind)
{
    double p[DISTRIBUTION_VOCAB_MAX];
    uint32_t counts[DISTRIBUTION_VOCAB_MAX];
    distribution_probabilities(d, p);
    distribution_draw(t, d, kind, DRAWS, counts);
    double excess = distribution_excess(p, counts, d->vocab);
    if (excess < 5)
        return;
    for (uint32_t i = 0; i < d->vocab; i++)
        print_error("token %u: %u drawn, %.1f expected\n", i, counts[i], p[i] * DRAWS);
    fail_msg("%.1f standard deviations off", excess);
}

// Runs a test at the processor's best ISA level; the conformance test shows that all levels draw
// the same tokens.
static void with_trial(void (*run)(struct trial *))
{
    struct trial t;
    for (int level = CPU_ISA_COUNT - 1; level >= 0; level--) {
        if (!trial_open_cpu(&t, (enum cpu_isa)level, 2))
            continue;
        trial_begin(&t, 5);
        run(&t);
        trial_close(&t);
        return;
    }
    fail_msg("no level at all");
}

static void try_numbers(struct trial *t)
{
    struct distribution d = plain_distribution(t);
    draws_compare(t, &d, DISTRIBUTION_OUTPUTS);
    draws_compare(t, &d, DISTRIBUTION_SEEDS);
    draws_compare(t, &d, DISTRIBUTION_CHOICES);
}

static void try_temperatures(struct trial *t)
{
    static const float values[] = {0.3f, 0.7f, 2};
    for (uint32_t i = 0; i < 3; i++) {
        struct distribution d = plain_distribution(t);
        d.temperature = values[i];
        draws_compare(t, &d, DISTRIBUTION_OUTPUTS);
    }
}

static void try_top_ks(struct trial *t)
{
    static const uint32_t values[] = {2, 5, VOCAB - 1};
    for (uint32_t i = 0; i < 3; i++) {
        struct distribution d = plain_distribution(t);
        d.top_k = values[i];
        d.temperature = 1.5f;
        draws_compare(t, &d, DISTRIBUTION_OUTPUTS);
    }
}

static void try_top_ps(struct trial *t)
{
    static const float values[] = {0.35f, 0.8f, 0.97f};
    for (uint32_t i = 0; i < 3; i++) {
        struct distribution d = plain_distribution(t);
        d.top_p = values[i];
        draws_compare(t, &d, DISTRIBUTION_OUTPUTS);
    }
}

static void try_min_ps(struct trial *t)
{
    static const float values[] = {0.05f, 0.2f, 0.6f};
    for (uint32_t i = 0; i < 3; i++) {
        struct distribution d = plain_distribution(t);
        d.min_p = values[i];
        draws_compare(t, &d, DISTRIBUTION_OUTPUTS);
    }
}

// All methods together: each works on the tokens that the previous one kept.
static void try_together(struct trial *t)
{
    for (uint32_t i = 0; i < 3; i++) {
        struct distribution d = plain_distribution(t);
        d.temperature = 1.4f;
        d.min_p = 0.08f;
        d.top_k = 9;
        d.top_p = 0.85f;
        draws_compare(t, &d, DISTRIBUTION_OUTPUTS);
    }
}

static void try_penalties(struct trial *t)
{
    static const float values[][3] = {{1.3f, 0, 0}, {0.6f, 0, 0},      {1, 0.4f, 0},
                                      {1, 0, 0.9f}, {1, -0.3f, -0.5f}, {1.2f, 0.2f, 0.3f}};
    for (uint32_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct distribution d = plain_distribution(t);
        d.repetition = values[i][0];
        d.frequency = values[i][1];
        d.presence = values[i][2];
        for (uint32_t token = 0; token < VOCAB; token += 2) // in the prompt, outputs, or both
            d.seen[token] = (uint16_t)((token % 3 == 0) << 15 | token % 5);
        draws_compare(t, &d, DISTRIBUTION_OUTPUTS);
    }
}

static void try_biases(struct trial *t)
{
    struct distribution d = plain_distribution(t);
    d.bias_count = 4;
    const struct step_bias bias[] = {{0, 1.5f}, {3, -2}, {7, -100}, {22, 0.5f}};
    memcpy(d.bias, bias, sizeof bias);
    draws_compare(t, &d, DISTRIBUTION_OUTPUTS);
    d.bias_count = 1;
    d.bias[0] = (struct step_bias){11, 100}; // practically certain
    draws_compare(t, &d, DISTRIBUTION_OUTPUTS);
}

// The mask of a grammar, or of a list of allowed ids, applies before all other methods.
static void try_masks(struct trial *t)
{
    static const uint64_t values[] = {0x2A5F13, 0x400001, 0x7FFFFE};
    for (uint32_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct distribution d = plain_distribution(t);
        d.allowed = values[i];
        draws_compare(t, &d, DISTRIBUTION_OUTPUTS);
        draws_compare(t, &d, DISTRIBUTION_CHOICES);
        d.min_p = 0.1f;
        d.top_k = 6;
        d.top_p = 0.9f;
        d.temperature = 1.3f;
        draws_compare(t, &d, DISTRIBUTION_OUTPUTS);
    }
}

// Stop ids are sampled like other tokens, and never before min_tokens.
static void try_stop_ids(struct trial *t)
{
    struct distribution d = plain_distribution(t);
    d.stop_count = 3;
    memcpy(d.stop_ids, (const int32_t[]){2, 9, 22}, 3 * sizeof(int32_t));
    draws_compare(t, &d, DISTRIBUTION_OUTPUTS);
    d.output_min = UINT32_MAX;
    draws_compare(t, &d, DISTRIBUTION_OUTPUTS);
    d.top_k = 4;
    d.allowed = 0x7FF0FF;
    draws_compare(t, &d, DISTRIBUTION_OUTPUTS);
}

// Two choices of a request, and two outputs of a choice, are independent.
static void try_pairs(struct trial *t)
{
    static const enum distribution_draws kinds[] = {DISTRIBUTION_PAIRS_OF_CHOICES,
                                                    DISTRIBUTION_PAIRS_OF_OUTPUTS};
    for (uint32_t k = 0; k < 2; k++) {
        struct distribution d = plain_distribution(t);
        d.vocab = 8;
        double p[DISTRIBUTION_VOCAB_MAX], each[DISTRIBUTION_VOCAB_MAX];
        uint32_t counts[DISTRIBUTION_VOCAB_MAX];
        distribution_probabilities(&d, each);
        for (uint32_t i = 0; i < d.vocab * d.vocab; i++)
            p[i] = each[i / d.vocab] * each[i % d.vocab];
        distribution_draw(t, &d, kinds[k], 2 * DRAWS, counts);
        double excess = distribution_excess(p, counts, d.vocab * d.vocab);
        if (excess >= 5)
            fail_msg("%.1f standard deviations off", excess);
    }
}

// The comparison detects small errors: a temperature that is 6 % off, a method that keeps one token
// too many.
static void try_comparison(struct trial *t)
{
    double p[DISTRIBUTION_VOCAB_MAX];
    uint32_t counts[DISTRIBUTION_VOCAB_MAX];
    struct distribution d = plain_distribution(t);
    distribution_draw(t, &d, DISTRIBUTION_OUTPUTS, DRAWS, counts);
    d.temperature = 1.06f;
    distribution_probabilities(&d, p);
    assert_true(distribution_excess(p, counts, VOCAB) > 5);
    d.temperature = 1;
    d.top_k = VOCAB - 1;
    distribution_probabilities(&d, p);
    assert_true(isinf(distribution_excess(p, counts, VOCAB)));
}

#define DISTRIBUTION_TEST(name)                                                                    \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        with_trial(try_##name);                                                                    \
    }
DISTRIBUTION_TEST(numbers)
DISTRIBUTION_TEST(temperatures)
DISTRIBUTION_TEST(top_ks)
DISTRIBUTION_TEST(top_ps)
DISTRIBUTION_TEST(min_ps)
DISTRIBUTION_TEST(together)
DISTRIBUTION_TEST(penalties)
DISTRIBUTION_TEST(biases)
DISTRIBUTION_TEST(masks)
DISTRIBUTION_TEST(stop_ids)
DISTRIBUTION_TEST(pairs)
DISTRIBUTION_TEST(comparison)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),   cmocka_unit_test(test_temperatures),
        cmocka_unit_test(test_top_ks),    cmocka_unit_test(test_top_ps),
        cmocka_unit_test(test_min_ps),    cmocka_unit_test(test_together),
        cmocka_unit_test(test_penalties), cmocka_unit_test(test_biases),
        cmocka_unit_test(test_masks),     cmocka_unit_test(test_stop_ids),
        cmocka_unit_test(test_pairs),     cmocka_unit_test(test_comparison),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
