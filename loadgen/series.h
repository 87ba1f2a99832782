// SPDX-License-Identifier: Apache-2.0
// Several runs: repetitions, sweeps, the search for the highest rate, and pairs of runs of two
// servers. One thread.
#pragma once

#include "loadgen/fetch.h"
#include "loadgen/figures.h"

enum bench_series_kind { BENCH_REPEATED, BENCH_SWEEP, BENCH_SEARCH, BENCH_PAIRS };
enum bench_swept { BENCH_SWEEP_RATE, BENCH_SWEEP_CONCURRENCY };

struct bench_point {
    struct bench_options options; // those of the plan with this run's seed, rate or concurrency
    struct bench_run run;
    uint32_t side; // BENCH_PAIRS: 0: server A, 1: server B
    bool good;     // BENCH_SEARCH: true if at least good_share of the requests were good
};

struct bench_series {
    enum bench_series_kind kind;
    enum bench_swept swept;
    struct bench_point *points; // [count] in the order in which they ran
    uint32_t count;
    size_t allocated;
    uint64_t prompts_next; // number of prompts of the data set that have been sent
    double best_rate;      // BENCH_SEARCH: highest rate that kept the limits; 0: none was found
    bool limited;          // BENCH_SEARCH: true if the client was the limit, so there is no result
};

struct bench_plan {
    enum bench_series_kind kind;
    uint32_t runs; // BENCH_REPEATED: number of runs; BENCH_PAIRS: number of pairs
    enum bench_swept swept;
    const double *values; // BENCH_SWEEP: [value_count] rates or concurrencies
    uint32_t value_count;
    uint32_t warmup;   // number of unmeasured requests to each server before its first run
    double good_share; // BENCH_SEARCH: share (0 to 1) of the requests that must keep the limits
    const struct bench_options *other; // BENCH_PAIRS: options of server B
    struct bench_run_args args;        // options: those of server A
    // Called before each run with its number, from 0, and its point, whose run is empty; may be
    // NULL.
    void (*begin)(void *context, uint32_t number, const struct bench_point *point);
    // Called after each successful run; may be NULL.
    void (*end)(void *context, uint32_t number, const struct bench_point *point);
};

// Runs the plan until its end or the first error (bench_run). The caller frees the series, also
// after an error.
enum status bench_series_run(struct bench_series *out, const struct bench_plan *plan,
                             struct error *err) MUST_USE;
void bench_series_free(struct bench_series *series);

// Joins the runs of one side into one run, as if each began when the one before ended: copies the
// records and bins after the ramps; adds up all histograms. The caller frees it.
void bench_series_join(struct bench_run *out, const struct bench_series *series, uint32_t side);
// Writes the result of the series as one JSON object.
void bench_series_json(struct json_buffer *out, const struct bench_series *series);
