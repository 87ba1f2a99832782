// SPDX-License-Identifier: Apache-2.0
// Figures of a run, computed from its records, and their output: JSON with the field names of vllm
// bench serve, one JSON line per request, a table.
#pragma once

#include "loadgen/run.h"

#include <stdio.h>

enum { BENCH_STATUS_CODES = 1000 };

// Counts and samples of the requests after the ramp; itl and max_output_per_s are of the events
// after it.
struct bench_figures {
    double seconds; // measured time
    uint64_t sent, outcomes[BENCH_OUTCOME_COUNT];
    uint64_t differing;     // number of answers that --check found to differ
    uint64_t refused_early; // number of replies of 429, 503 or 529 without Retry-After
    uint32_t statuses[BENCH_STATUS_CODES]; // number of replies by HTTP status; [0]: none
    // sums over complete replies
    uint64_t inputs, input_tokens, cached_tokens, output_tokens, reasoning_tokens, events;
    uint64_t without_usage; // number of complete replies without usage: each event is a token
    uint64_t good;          // number of complete replies within the limits of --goodput
    struct bench_metric ttft, tpot, itl, e2el;
    struct bench_metric late; // open loop: delay from the intended arrival to the sending
    double max_output_per_s;  // most events of all targets within one second
};

// Computes the figures of one target, or of all targets if `target` is negative.
void bench_figures_compute(struct bench_figures *out, const struct bench_run *run,
                           const struct bench_options *o, int target);
// Returns the value of a figure by its name in results, such as "output_throughput" or
// "median_ttft_ms"; NAN if no figure has this name or there are no samples.
double bench_figure(const struct bench_figures *f, const char *name);

// Writes the members of a result object, each after a comma.
void bench_figures_json(struct json_buffer *out, const struct bench_figures *f);
// Writes the members that describe the options: the server, the targets and the load.
void bench_options_json(struct json_buffer *out, const struct bench_options *o);
// Writes the complete object of a run: options, figures, the client, the timeline and the targets.
void bench_run_json(struct json_buffer *out, const struct bench_run *run,
                    const struct bench_options *o);
// Writes one line of JSON per request of the run, the ramp included.
void bench_records_write(FILE *to, const struct bench_run *run, const struct bench_options *o);
// Prints the table.
void bench_table_print(FILE *to, const struct bench_run *run, const struct bench_options *o);
