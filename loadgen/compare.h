// SPDX-License-Identifier: Apache-2.0
// Comparison of two series of runs: confidence intervals of the differences within pairs, and the
// verdicts. A sample is a run, because tokens and requests of one run are not independent. Pure
// functions.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BENCH_PAIRS_MAX = 4096, BENCH_BOOTSTRAP_PAIRS = 10 };

enum bench_verdict {
    BENCH_NO_DIFFERENCE, // the interval contains zero, or Holm's correction keeps the hypothesis
    BENCH_HIGHER,        // B is higher than A
    BENCH_LOWER,         // B is lower than A
    BENCH_NO_VERDICT,    // fewer than two pairs, or the comparison is refused (verdict.h)
};

// Difference of B from A for one figure, as a share of A: 0.05 means that B is 5 % higher.
struct bench_difference {
    double mean, low, high; // geometric mean of the ratios B / A less 1; its 95 % interval
    double p;               // two-sided p value for "no difference", by the same method
    uint32_t pairs;         // number of pairs
    enum bench_verdict verdict;
};

// Compares the pairs (a[i], b[i]), all above zero. The interval is Student's t over the logarithms
// of the ratios. If `bootstrap` is set and there are at least BENCH_BOOTSTRAP_PAIRS pairs, it is
// the bias-corrected bootstrap of the same mean, drawn with `seed`. The verdict is not corrected.
struct bench_difference bench_compare(const double *a, const double *b, uint32_t pairs,
                                      bool bootstrap, uint64_t seed);
// Applies Holm's correction with a family-wise error rate of 5 %: sets the verdict of each
// difference whose hypothesis is kept to BENCH_NO_DIFFERENCE.
void bench_compare_holm(struct bench_difference *differences, uint32_t count);

// Returns the quantile of Student's t distribution. share: 0.5 to 1; degrees: degrees of freedom,
// at least 1.
double bench_student_quantile(double share, uint32_t degrees);
// Returns the two-sided p value of a t statistic with this number of degrees of freedom.
double bench_student_p(double t, uint32_t degrees);
