// SPDX-License-Identifier: Apache-2.0
// Comparison of two series of runs: confidence intervals of the differences within pairs, and the
// verdicts. Runs are the samples; tokens and requests of one run are not independent. Pure
// functions.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BENCH_PAIRS_MAX = 4096, BENCH_BOOTSTRAP_PAIRS = 10 };

enum bench_verdict {
    BENCH_NO_DIFFERENCE, // the interval contains zero, or Holm's correction keeps the hypothesis
    BENCH_HIGHER,        // B is higher than A
    BENCH_LOWER,
    BENCH_NO_VERDICT, // fewer than two pairs
};

// Difference of B from A for one figure, as a share of A: 0.05 is 5 % more.
struct bench_difference {
    double mean, low, high; // mean of the pairs and its 95 % interval
    double p;               // two-sided p value of no difference
    uint32_t pairs;
    enum bench_verdict verdict;
};

// Compares the pairs (a[i], b[i]), all above zero. The interval is Student's t over the logarithms
// of the ratios; with at least BENCH_BOOTSTRAP_PAIRS pairs and `bootstrap`, the bias-corrected
// bootstrap of the same mean.
struct bench_difference bench_compare(const double *a, const double *b, uint32_t pairs,
                                      bool bootstrap, uint64_t seed);
// Applies Holm's correction to the verdicts of `count` differences with a family error of 5 %.
void bench_compare_holm(struct bench_difference *differences, uint32_t count);

// Returns the quantile of Student's t distribution; degrees: at least 1; share: 0.5 to 1.
double bench_student_quantile(double share, uint32_t degrees);
// Returns the two-sided p value of a t statistic.
double bench_student_p(double t, uint32_t degrees);
