// SPDX-License-Identifier: Apache-2.0
// Comparisons of runs: Student's t against published quantiles, Holm's correction, and simulated
// pairs of runs with noise and drift: equal servers differ in at most 10 of 100 seeds, a slowdown
// of 5 % is found in at least 90.
#include "loadgen/compare.h"
#include "loadgen/options.h"
#include "loadgen/samples.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { PAIRS = 10, REQUESTS = 500, SEEDS = 100 };

static void test_student(void **state)
{
    (void)state;
    // quantiles of 0.975 as printed in statistical tables
    static const struct {
        uint32_t degrees;
        double quantile;
    } table[] = {{1, 12.7062}, {2, 4.3027}, {4, 2.7764}, {9, 2.2622}, {29, 2.0452}, {1000, 1.9623}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        double got = bench_student_quantile(0.975, table[i].degrees);
        assert_true(fabs(got - table[i].quantile) < 5e-5 * got);
        assert_true(fabs(bench_student_p(got, table[i].degrees) - 0.05) < 1e-9);
        assert_true(fabs(bench_student_p(-got, table[i].degrees) - 0.05) < 1e-9);
    }
    assert_true(fabs(bench_student_p(0, 5) - 1) < 1e-12);
}

// Returns the mean latency of run number `index` of the series: lognormal latencies, and a drift of
// 10 % over all runs.
static double run_mean(uint64_t seed, uint32_t index, double slowdown)
{
    double sum = 0;
    for (uint32_t i = 0; i < REQUESTS; i++)
        sum += exp(0.3 * bench_random_normal(bench_random(seed << 24 | index << 16 | i)));
    return sum / REQUESTS * (1 + 0.1 * index / (2 * PAIRS - 1)) * slowdown;
}

// Returns the number of the first `seeds` seeds with this verdict. The order within a pair
// alternates, as in series.c.
static uint32_t verdicts(uint32_t seeds, enum bench_verdict verdict, double slowdown,
                         bool bootstrap)
{
    uint32_t found = 0;
    for (uint64_t seed = 0; seed < seeds; seed++) {
        double sides[2][PAIRS];
        for (uint32_t i = 0; i < 2 * PAIRS; i++) {
            uint32_t pair = i / 2, side = (i + pair) % 2;
            sides[side][pair] = run_mean(seed, i, side == 1 ? slowdown : 1);
        }
        struct bench_difference d = bench_compare(sides[0], sides[1], PAIRS, bootstrap, seed);
        assert_true(d.low <= d.mean && d.mean <= d.high && d.pairs == PAIRS);
        found += d.verdict == verdict;
    }
    printf("%u of %u seeds: verdict %d at a slowdown of %.0f %%%s\n", found, seeds, verdict,
           (slowdown - 1) * 100, bootstrap ? ", bootstrap" : "");
    return found;
}

static void test_equal_servers(void **state)
{
    (void)state;
    assert_true(verdicts(SEEDS, BENCH_NO_DIFFERENCE, 1, false) >= 90);
}

static void test_slowdown(void **state)
{
    (void)state;
    assert_true(verdicts(SEEDS, BENCH_HIGHER, 1.05, false) >= 90);
    assert_true(verdicts(SEEDS, BENCH_LOWER, 1 / 1.05, false) >= 90);
    assert_true(verdicts(20, BENCH_HIGHER, 1.05, true) >= 18);
}

static void test_interval(void **state)
{
    (void)state;
    // logarithms 0.1, 0.2, 0.3: mean 0.2, standard error 0.1 / sqrt(3), t 4.3027
    const double a[] = {1, 2, 4}, b[] = {exp(0.1), 2 * exp(0.2), 4 * exp(0.3)};
    struct bench_difference d = bench_compare(a, b, 3, false, 1);
    double reach = 4.302652729911275 * 0.1 / sqrt(3);
    assert_true(fabs(d.mean - expm1(0.2)) < 1e-12);
    assert_true(fabs(d.low - expm1(0.2 - reach)) < 1e-9);
    assert_true(fabs(d.high - expm1(0.2 + reach)) < 1e-9);
    assert_int_equal(d.verdict, BENCH_NO_DIFFERENCE);
    assert_int_equal(bench_compare(a, b, 1, false, 1).verdict, BENCH_NO_VERDICT);
    assert_int_equal(bench_compare(a, a, 3, false, 1).verdict, BENCH_NO_DIFFERENCE);
    const double twice[] = {2, 4, 8};
    assert_int_equal(bench_compare(a, twice, 3, false, 1).verdict, BENCH_HIGHER);
}

static void test_holm(void **state)
{
    (void)state;
    // p values 0.01, 0.04, 0.03, 0.005 against 0.05/4, /3, /2, /1: only 0.005 and 0.01 pass
    const double p[] = {0.01, 0.04, 0.03, 0.005};
    struct bench_difference d[4];
    for (int i = 0; i < 4; i++)
        d[i] = (struct bench_difference){.p = p[i], .verdict = BENCH_LOWER};
    bench_compare_holm(d, 4);
    assert_int_equal(d[0].verdict, BENCH_LOWER);
    assert_int_equal(d[1].verdict, BENCH_NO_DIFFERENCE);
    assert_int_equal(d[2].verdict, BENCH_NO_DIFFERENCE);
    assert_int_equal(d[3].verdict, BENCH_LOWER);
}

static void test_quantiles(void **state)
{
    (void)state;
    double samples[] = {0.004, 0.001, 0.003, 0.002};
    struct bench_metric m = bench_metric_of(samples, 4);
    assert_true(fabs(m.median - 2.5) < 1e-9 && fabs(m.mean - 2.5) < 1e-9);
    assert_true(fabs(m.p99 - 3.97) < 1e-9 && fabs(m.max - 4) < 1e-9); // numpy.percentile
    assert_true(fabs(m.std - sqrt(1.25)) < 1e-9);
    struct bench_histogram *h = calloc(1, sizeof *h);
    for (int i = 1; i <= 100000; i++)
        bench_histogram_add(h, i * 1e-6);
    static const double shares[] = {0.01, 0.25, 0.5, 0.9, 0.99, 0.999};
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
        assert_true(fabs(bench_histogram_at(h, shares[i]) / (shares[i] * 0.1) - 1) < 0.001);
    bench_histogram_add(h, 1e9); // above the range
    bench_histogram_add(h, -1);
    bench_histogram_add(h, NAN);
    assert_int_equal(h->count, 100003);
    free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_student),  cmocka_unit_test(test_equal_servers),
        cmocka_unit_test(test_slowdown), cmocka_unit_test(test_interval),
        cmocka_unit_test(test_holm),     cmocka_unit_test(test_quantiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
