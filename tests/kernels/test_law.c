// Compares each sampling method with its definition: 100,000 draws with fixed seeds from known
// distributions, by chi-square. A token that a method excludes must never be drawn.
#include "tests/kernels/law.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
// cmocka.h needs some of the headers above
#include <cmocka.h>

enum { DRAWS = 100000, VOCAB = 23 };

static struct law plain(struct trial *t)
{
    struct law law = {.vocab = VOCAB, .temperature = 1, .top_p = 1, .repetition = 1, .seed = 77};
    for (uint32_t i = 0; i < VOCAB; i++)
        law.logits[i] = trial_normal(t);
    return law;
}

static void judge(struct trial *t, const struct law *law, enum law_draws kind)
{
    double p[LAW_VOCAB_MAX];
    uint32_t counts[LAW_VOCAB_MAX];
    law_probabilities(law, p);
    law_draw(t, law, kind, DRAWS, counts);
    double excess = law_excess(p, counts, law->vocab);
    if (excess < 5)
        return;
    for (uint32_t i = 0; i < law->vocab; i++)
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

static void numbers(struct trial *t)
{
    struct law law = plain(t);
    judge(t, &law, LAW_OUTPUTS);
    judge(t, &law, LAW_SEEDS);
    judge(t, &law, LAW_CHOICES);
}

static void temperatures(struct trial *t)
{
    static const float values[] = {0.3f, 0.7f, 2};
    for (uint32_t i = 0; i < 3; i++) {
        struct law law = plain(t);
        law.temperature = values[i];
        judge(t, &law, LAW_OUTPUTS);
    }
}

static void top_ks(struct trial *t)
{
    static const uint32_t values[] = {2, 5, VOCAB - 1};
    for (uint32_t i = 0; i < 3; i++) {
        struct law law = plain(t);
        law.top_k = values[i];
        law.temperature = 1.5f;
        judge(t, &law, LAW_OUTPUTS);
    }
}

static void top_ps(struct trial *t)
{
    static const float values[] = {0.35f, 0.8f, 0.97f};
    for (uint32_t i = 0; i < 3; i++) {
        struct law law = plain(t);
        law.top_p = values[i];
        judge(t, &law, LAW_OUTPUTS);
    }
}

static void min_ps(struct trial *t)
{
    static const float values[] = {0.05f, 0.2f, 0.6f};
    for (uint32_t i = 0; i < 3; i++) {
        struct law law = plain(t);
        law.min_p = values[i];
        judge(t, &law, LAW_OUTPUTS);
    }
}

// All methods together: each works on the tokens that the previous one kept.
static void together(struct trial *t)
{
    for (uint32_t i = 0; i < 3; i++) {
        struct law law = plain(t);
        law.temperature = 1.4f;
        law.min_p = 0.08f;
        law.top_k = 9;
        law.top_p = 0.85f;
        judge(t, &law, LAW_OUTPUTS);
    }
}

static void penalties(struct trial *t)
{
    static const float values[][3] = {{1.3f, 0, 0}, {0.6f, 0, 0},      {1, 0.4f, 0},
                                      {1, 0, 0.9f}, {1, -0.3f, -0.5f}, {1.2f, 0.2f, 0.3f}};
    for (uint32_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct law law = plain(t);
        law.repetition = values[i][0];
        law.frequency = values[i][1];
        law.presence = values[i][2];
        for (uint32_t token = 0; token < VOCAB;
             token += 2) // seen in the prompt, in the outputs, or in both
            law.seen[token] = (uint16_t)((token % 3 == 0) << 15 | token % 5);
        judge(t, &law, LAW_OUTPUTS);
    }
}

static void biases(struct trial *t)
{
    struct law law = plain(t);
    law.bias_count = 4;
    const struct step_bias bias[] = {{0, 1.5f}, {3, -2}, {7, -100}, {22, 0.5f}};
    memcpy(law.bias, bias, sizeof bias);
    judge(t, &law, LAW_OUTPUTS);
    law.bias_count = 1;
    law.bias[0] = (struct step_bias){11, 100}; // practically certain
    judge(t, &law, LAW_OUTPUTS);
}

// The mask of a grammar, or of a list of allowed ids, applies before all other methods.
static void masks(struct trial *t)
{
    static const uint64_t values[] = {0x2A5F13, 0x400001, 0x7FFFFE};
    for (uint32_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct law law = plain(t);
        law.allowed = values[i];
        judge(t, &law, LAW_OUTPUTS);
        judge(t, &law, LAW_CHOICES);
        law.min_p = 0.1f;
        law.top_k = 6;
        law.top_p = 0.9f;
        law.temperature = 1.3f;
        judge(t, &law, LAW_OUTPUTS);
    }
}

// Stop ids are sampled like other tokens, and never before min_tokens.
static void stop_ids(struct trial *t)
{
    struct law law = plain(t);
    law.stop_count = 3;
    memcpy(law.stop_ids, (const int32_t[]){2, 9, 22}, 3 * sizeof(int32_t));
    judge(t, &law, LAW_OUTPUTS);
    law.output_min = UINT32_MAX;
    judge(t, &law, LAW_OUTPUTS);
    law.top_k = 4;
    law.allowed = 0x7FF0FF;
    judge(t, &law, LAW_OUTPUTS);
}

// Two choices of a request, and two outputs of a choice, are independent.
static void pairs(struct trial *t)
{
    static const enum law_draws kinds[] = {LAW_PAIRS_OF_CHOICES, LAW_PAIRS_OF_OUTPUTS};
    for (uint32_t k = 0; k < 2; k++) {
        struct law law = plain(t);
        law.vocab = 8;
        double p[LAW_VOCAB_MAX], each[LAW_VOCAB_MAX];
        uint32_t counts[LAW_VOCAB_MAX];
        law_probabilities(&law, each);
        for (uint32_t i = 0; i < law.vocab * law.vocab; i++)
            p[i] = each[i / law.vocab] * each[i % law.vocab];
        law_draw(t, &law, kinds[k], 2 * DRAWS, counts);
        double excess = law_excess(p, counts, law.vocab * law.vocab);
        if (excess >= 5)
            fail_msg("%.1f standard deviations off", excess);
    }
}

// The comparison detects small errors: a temperature that is 6 % off, a method that keeps one token
// too many.
static void judgement(struct trial *t)
{
    double p[LAW_VOCAB_MAX];
    uint32_t counts[LAW_VOCAB_MAX];
    struct law law = plain(t);
    law_draw(t, &law, LAW_OUTPUTS, DRAWS, counts);
    law.temperature = 1.06f;
    law_probabilities(&law, p);
    assert_true(law_excess(p, counts, VOCAB) > 5);
    law.temperature = 1;
    law.top_k = VOCAB - 1;
    law_probabilities(&law, p);
    assert_true(isinf(law_excess(p, counts, VOCAB)));
}

#define LAW_TEST(name)                                                                             \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        with_trial(name);                                                                          \
    }
LAW_TEST(numbers)
LAW_TEST(temperatures)
LAW_TEST(top_ks)
LAW_TEST(top_ps)
LAW_TEST(min_ps)
LAW_TEST(together)
LAW_TEST(penalties)
LAW_TEST(biases)
LAW_TEST(masks)
LAW_TEST(stop_ids)
LAW_TEST(pairs)
LAW_TEST(judgement)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),   cmocka_unit_test(test_temperatures),
        cmocka_unit_test(test_top_ks),    cmocka_unit_test(test_top_ps),
        cmocka_unit_test(test_min_ps),    cmocka_unit_test(test_together),
        cmocka_unit_test(test_penalties), cmocka_unit_test(test_biases),
        cmocka_unit_test(test_masks),     cmocka_unit_test(test_stop_ids),
        cmocka_unit_test(test_pairs),     cmocka_unit_test(test_judgement),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
