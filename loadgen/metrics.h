// SPDX-License-Identifier: Apache-2.0
// The server's own metrics (Prometheus text of /metrics) before and after a run.
#pragma once

#include "loadgen/options.h"

struct bench_sample {
    char *name; // name with its labels, owned
    double value;
};

struct bench_scrape {
    struct bench_sample *samples; // [count] sorted by name
    size_t count, allocated;
};

// Fills *out with the counters of a page: samples whose name ends in _total, _sum or _count before
// its labels. Skips other lines, and counters after the first 4,096.
void bench_scrape_read(struct bench_scrape *out, struct text page);
void bench_scrape_free(struct bench_scrape *scrape);
// Writes an object with the rise of each counter that rose, at most 400 of them. A counter that is
// missing in `before` began at 0.
void bench_scrape_json(struct json_buffer *out, const struct bench_scrape *before,
                       const struct bench_scrape *after);
// Adds the members of an object of bench_scrape_json to those of another one; a buffer without
// bytes is an object without members.
void bench_rises_add(struct json_buffer *to, const struct json_buffer *more);
// Returns the mean of the values that a histogram counted between two scrapes, over all its labels
// and in its own unit; NAN if it counted none. suffix: end of the histogram's name, such as
// "time_to_first_token_seconds".
double bench_scrape_mean(const struct bench_scrape *before, const struct bench_scrape *after,
                         const char *suffix);
