// SPDX-License-Identifier: Apache-2.0
// Histograms and figures of samples; see samples.h. Pure functions.
#include "loadgen/samples.h"

#include <math.h>
#include <stdlib.h>

enum { BUCKETS_EACH = 1 << BENCH_BUCKET_BITS };

// Returns the bucket of a duration: below 1,024 ns one per nanosecond, then 1,024 per power of two.
static uint32_t bucket_of(double seconds)
{
    double ns = seconds * 1e9;
    if (!(ns >= 0))
        return 0;
    if (ns >= 0x1p42)
        return BENCH_BUCKETS - 1;
    uint64_t n = (uint64_t)ns;
    if (n < BUCKETS_EACH)
        return (uint32_t)n;
    uint32_t shift = 63 - (uint32_t)__builtin_clzll(n) - BENCH_BUCKET_BITS;
    return (shift << BENCH_BUCKET_BITS) + (uint32_t)(n >> shift);
}

// Returns the middle of a bucket in seconds.
static double bucket_middle(uint32_t i)
{
    if (i < 2 * BUCKETS_EACH)
        return ((double)i + 0.5) * 1e-9;
    uint32_t shift = (i >> BENCH_BUCKET_BITS) - 1;
    double low = (double)((i & (BUCKETS_EACH - 1)) + BUCKETS_EACH);
    return (low + 0.5) * (double)(UINT64_C(1) << shift) * 1e-9;
}

void bench_histogram_add(struct bench_histogram *h, double seconds)
{
    h->bucket[bucket_of(seconds)]++;
    h->count++;
    h->sum += seconds;
    h->squares += seconds * seconds;
    h->max = seconds > h->max ? seconds : h->max;
}

void bench_histogram_merge(struct bench_histogram *h, const struct bench_histogram *more)
{
    for (uint32_t i = 0; i < BENCH_BUCKETS; i++)
        h->bucket[i] += more->bucket[i];
    h->count += more->count;
    h->sum += more->sum;
    h->squares += more->squares;
    h->max = more->max > h->max ? more->max : h->max;
}

double bench_histogram_at(const struct bench_histogram *h, double share)
{
    uint64_t want = (uint64_t)ceil(share * (double)h->count), seen = 0;
    for (uint32_t i = 0; i < BENCH_BUCKETS && h->count > 0; i++) {
        seen += h->bucket[i];
        if (seen < want || seen == 0)
            continue;
        double middle = bucket_middle(i);
        return middle < h->max ? middle : h->max;
    }
    return h->max;
}

static int samples_order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void bench_sort(double *samples, size_t count)
{
    if (count > 1)
        qsort(samples, count, sizeof *samples, samples_order);
}

double bench_quantile(const double *sorted, size_t count, double share)
{
    if (count == 0)
        return 0;
    double place = share * (double)(count - 1);
    size_t below = (size_t)place;
    size_t above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (sorted[above] - sorted[below]) * (place - (double)below);
}

struct bench_metric bench_metric_of(double *samples, size_t count)
{
    struct bench_metric m = {.count = count};
    double sum = 0, squares = 0;
    if (count == 0)
        return m;
    bench_sort(samples, count);
    for (size_t i = 0; i < count; i++)
        sum += samples[i];
    double mean = sum / (double)count;
    for (size_t i = 0; i < count; i++)
        squares += (samples[i] - mean) * (samples[i] - mean);
    m.mean = mean * 1e3;
    m.std = sqrt(squares / (double)count) * 1e3;
    m.p25 = bench_quantile(samples, count, 0.25) * 1e3;
    m.median = bench_quantile(samples, count, 0.5) * 1e3;
    m.p75 = bench_quantile(samples, count, 0.75) * 1e3;
    m.p90 = bench_quantile(samples, count, 0.9) * 1e3;
    m.p95 = bench_quantile(samples, count, 0.95) * 1e3;
    m.p99 = bench_quantile(samples, count, 0.99) * 1e3;
    m.max = samples[count - 1] * 1e3;
    for (int i = 0; i < BENCH_PERCENTILES; i++)
        m.at[i] = bench_quantile(samples, count, i / 100.0) * 1e3;
    return m;
}

struct bench_metric bench_metric_of_histogram(const struct bench_histogram *h)
{
    struct bench_metric m = {.count = h->count};
    if (h->count == 0)
        return m;
    double mean = h->sum / (double)h->count;
    double variance = h->squares / (double)h->count - mean * mean;
    m.mean = mean * 1e3;
    m.std = variance > 0 ? sqrt(variance) * 1e3 : 0;
    m.p25 = bench_histogram_at(h, 0.25) * 1e3;
    m.median = bench_histogram_at(h, 0.5) * 1e3;
    m.p75 = bench_histogram_at(h, 0.75) * 1e3;
    m.p90 = bench_histogram_at(h, 0.9) * 1e3;
    m.p95 = bench_histogram_at(h, 0.95) * 1e3;
    m.p99 = bench_histogram_at(h, 0.99) * 1e3;
    m.max = h->max * 1e3;
    for (int i = 0; i < BENCH_PERCENTILES; i++)
        m.at[i] = bench_histogram_at(h, i / 100.0) * 1e3;
    return m;
}
