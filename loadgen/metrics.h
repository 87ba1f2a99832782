// SPDX-License-Identifier: Apache-2.0
// The server's own metrics (Prometheus text of /metrics) before and after a run.
#pragma once

#include "loadgen/options.h"

struct bench_sample {
    char *name; // with its labels
    double value;
};

struct bench_scrape {
    struct bench_sample *samples; // [count] sorted by name
    size_t count, allocated;
};

// Reads the lines of counters: names that end in _total, _sum or _count. Others, and lines that are
// not samples, are skipped.
void bench_scrape_read(struct bench_scrape *out, struct text page);
void bench_scrape_free(struct bench_scrape *scrape);
// Writes an object with the counters that rose, and by how much.
void bench_scrape_json(struct json_buffer *out, const struct bench_scrape *before,
                       const struct bench_scrape *after);
// Returns the mean of a histogram between two scrapes, summed over its labels, in its own unit; NAN
// if nothing was counted. suffix: end of the histogram's name, such as
// "time_to_first_token_seconds".
double bench_scrape_mean(const struct bench_scrape *before, const struct bench_scrape *after,
                         const char *suffix);
