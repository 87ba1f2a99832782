// SPDX-License-Identifier: Apache-2.0
// Samples of durations: a histogram of bounded size whose buckets are 0.1 % wide, and the figures
// of a set of samples.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BENCH_BUCKET_BITS = 10, // buckets per power of two, as a power of two
    BENCH_BUCKETS = 34 << BENCH_BUCKET_BITS,
    BENCH_PERCENTILES = 101,
};

// Durations from a nanosecond to two hours.
struct bench_histogram {
    uint64_t bucket[BENCH_BUCKETS];
    uint64_t count;
    double sum, squares, max; // seconds
};

void bench_histogram_add(struct bench_histogram *h, double seconds);
void bench_histogram_merge(struct bench_histogram *h, const struct bench_histogram *more);
double bench_histogram_at(const struct bench_histogram *h, double share); // seconds; 0..1

// Figures of a set of durations, in milliseconds; all 0 if there are none.
struct bench_metric {
    uint64_t count;
    double mean, std, p25, median, p75, p90, p95, p99, max;
    double at[BENCH_PERCENTILES]; // percentiles 0 to 100
};

// Sorts the samples, in seconds, and returns their figures.
struct bench_metric bench_metric_of(double *samples, size_t count);
struct bench_metric bench_metric_of_histogram(const struct bench_histogram *h);

// Returns a quantile of sorted samples with linear interpolation, as numpy.percentile does.
double bench_quantile(const double *sorted, size_t count, double share);
// Sorts in ascending order.
void bench_sort(double *samples, size_t count);
