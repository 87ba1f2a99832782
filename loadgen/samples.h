// SPDX-License-Identifier: Apache-2.0
// Samples of durations: a histogram of constant size whose buckets are at most 0.1 % wide (1 ns
// below 1 us), and the figures of a set of samples. Pure functions.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BENCH_BUCKET_BITS = 10, // log2 of the number of buckets per power of two
    BENCH_BUCKETS = 34 << BENCH_BUCKET_BITS,
    BENCH_PERCENTILES = 101,
};

// Durations from a nanosecond to 73 minutes (2^42 ns); longer ones share the last bucket. Zeroed:
// empty.
struct bench_histogram {
    uint64_t bucket[BENCH_BUCKETS];
    uint64_t count;
    double sum, squares, max; // sum of the samples (s) and of their squares (s^2); largest (s)
};

void bench_histogram_add(struct bench_histogram *h, double seconds);
// Adds all samples of `more` to h.
void bench_histogram_merge(struct bench_histogram *h, const struct bench_histogram *more);
// Returns the quantile of this share (0 to 1) in seconds: the middle of its bucket, at most the
// largest sample; 0 if the histogram is empty.
double bench_histogram_at(const struct bench_histogram *h, double share);

// Figures of a set of durations, in milliseconds; all 0 if there are none.
struct bench_metric {
    uint64_t count;
    double mean, std, p25, median, p75, p90, p95, p99, max; // std: of the population (/ count)
    double at[BENCH_PERCENTILES];                           // percentiles 0 to 100
};

// Sorts the samples, in seconds, and returns their figures.
struct bench_metric bench_metric_of(double *samples, size_t count);
struct bench_metric bench_metric_of_histogram(const struct bench_histogram *h);

// Returns a quantile of sorted samples with linear interpolation, as numpy.percentile does; 0 if
// there are none. share: 0 to 1.
double bench_quantile(const double *sorted, size_t count, double share);
// Sorts in ascending order.
void bench_sort(double *samples, size_t count);
