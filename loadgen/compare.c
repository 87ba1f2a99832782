// SPDX-License-Identifier: Apache-2.0
// Statistics of comparisons; see compare.h. Pure functions.
#include "loadgen/compare.h"

#include "loadgen/options.h"
#include "loadgen/samples.h"

#include "base/arena.h"

#include <math.h>

static const double ALPHA = 0.05;

// Returns the continued fraction of the regularized incomplete beta function (Lentz's method).
static double beta_fraction(double x, double a, double b)
{
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double h = d;
    for (int m = 1; m < 500; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        d = 1 + even * d;
        c = 1 + even / c;
        d = 1 / (fabs(d) < tiny ? tiny : d);
        c = fabs(c) < tiny ? tiny : c;
        h *= d * c;
        d = 1 + odd * d;
        c = 1 + odd / c;
        d = 1 / (fabs(d) < tiny ? tiny : d);
        c = fabs(c) < tiny ? tiny : c;
        h *= d * c;
        if (fabs(d * c - 1) < 1e-14)
            break;
    }
    return h;
}

// Returns the regularized incomplete beta function I_x(a, b).
static double beta_share(double x, double a, double b)
{
    if (x <= 0 || x >= 1)
        return x <= 0 ? 0 : 1;
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1) / (a + b + 2))
        return front * beta_fraction(x, a, b) / a;
    return 1 - front * beta_fraction(1 - x, b, a) / b;
}

double bench_student_p(double t, uint32_t degrees)
{
    double n = degrees;
    return beta_share(n / (n + t * t), n / 2, 0.5);
}

double bench_student_quantile(double share, uint32_t degrees)
{
    double low = 0, high = 1;
    double outside = 2 * (1 - share); // two-sided
    while (bench_student_p(high, degrees) > outside && high < 1e9)
        high *= 2;
    for (int i = 0; i < 200 && high - low > 1e-12 * high; i++) {
        double middle = (low + high) / 2;
        if (bench_student_p(middle, degrees) > outside)
            low = middle;
        else
            high = middle;
    }
    return (low + high) / 2;
}

// Returns the share below x of the standard normal distribution, and its inverse by bisection.
static double normal_share(double x)
{
    return 0.5 * erfc(-x / sqrt(2));
}

static double normal_quantile(double share)
{
    double low = -40, high = 40;
    for (int i = 0; i < 200; i++) {
        double middle = (low + high) / 2;
        if (normal_share(middle) < share)
            low = middle;
        else
            high = middle;
    }
    return (low + high) / 2;
}

// Computes the bias-corrected bootstrap interval of the mean of the logarithms, and its p value.
static void bootstrap_interval(struct bench_difference *d, const double *logs, double mean,
                               uint64_t seed)
{
    enum { DRAWS = 10000 };
    double *means = heap_alloc(DRAWS * sizeof *means);
    uint32_t below = 0, negative = 0;
    uint64_t state = seed;
    for (int i = 0; i < DRAWS; i++) {
        double sum = 0;
        for (uint32_t k = 0; k < d->pairs; k++)
            sum += logs[bench_random(state++) % d->pairs];
        means[i] = sum / d->pairs;
        below += means[i] < mean;
        negative += means[i] < 0;
    }
    bench_sort(means, DRAWS);
    double bias = normal_quantile(((double)below + 0.5) / (DRAWS + 1.0));
    double reach = normal_quantile(1 - ALPHA / 2);
    d->low = expm1(bench_quantile(means, DRAWS, normal_share(2 * bias - reach)));
    d->high = expm1(bench_quantile(means, DRAWS, normal_share(2 * bias + reach)));
    // the p value at which an end of the interval is zero
    double share = normal_share(normal_quantile((negative + 0.5) / (DRAWS + 1.0)) - 2 * bias);
    d->p = 2 * (share < 0.5 ? share : 1 - share);
    heap_free(means);
}

static enum bench_verdict verdict_of(const struct bench_difference *d)
{
    return d->low > 0 ? BENCH_HIGHER : d->high < 0 ? BENCH_LOWER : BENCH_NO_DIFFERENCE;
}

struct bench_difference bench_compare(const double *a, const double *b, uint32_t pairs,
                                      bool bootstrap, uint64_t seed)
{
    struct bench_difference d = {.pairs = pairs, .p = 1, .verdict = BENCH_NO_VERDICT};
    double mean = 0, squares = 0;
    double *logs = heap_alloc((pairs + 1) * sizeof *logs);
    for (uint32_t i = 0; i < pairs; i++) {
        logs[i] = log(b[i] / a[i]);
        mean += logs[i] / pairs;
    }
    d.mean = d.low = d.high = expm1(mean);
    if (pairs >= 2) {
        for (uint32_t i = 0; i < pairs; i++)
            squares += (logs[i] - mean) * (logs[i] - mean);
        double error = sqrt(squares / (pairs - 1.0) / pairs);
        double reach = error * bench_student_quantile(1 - ALPHA / 2, pairs - 1);
        d.low = expm1(mean - reach);
        d.high = expm1(mean + reach);
        d.p = error > 0 ? bench_student_p(mean / error, pairs - 1) : mean == 0 ? 1 : 0;
        if (bootstrap && pairs >= BENCH_BOOTSTRAP_PAIRS)
            bootstrap_interval(&d, logs, mean, seed);
        d.verdict = verdict_of(&d);
    }
    heap_free(logs);
    return d;
}

void bench_compare_holm(struct bench_difference *differences, uint32_t count)
{
    uint32_t left = count;
    bool *done = heap_alloc_zeroed(count + 1, sizeof *done);
    bool keeps = false; // true once a hypothesis of no difference is kept: so are all later ones
    for (; left > 0; left--) {
        uint32_t least = count;
        for (uint32_t i = 0; i < count; i++)
            if (!done[i] && (least == count || differences[i].p < differences[least].p))
                least = i;
        done[least] = true;
        keeps |= differences[least].p > ALPHA / left;
        if (keeps && differences[least].verdict != BENCH_NO_VERDICT)
            differences[least].verdict = BENCH_NO_DIFFERENCE;
    }
    heap_free(done);
}
