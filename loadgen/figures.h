// SPDX-License-Identifier: Apache-2.0
// Figures of one or several runs, computed from their records, and their forms: JSON with the field
// names of vllm bench serve, JSON lines per request, a table.
#pragma once

#include "loadgen/run.h"

#include <stdio.h>

enum { BENCH_STATUS_CODES = 1000 };

struct bench_figures {
    double seconds; // measured time
    uint64_t sent, outcomes[BENCH_OUTCOME_COUNT], differing, refused_early;
    uint32_t statuses[BENCH_STATUS_CODES];
    // sums over complete replies
    uint64_t inputs, input_tokens, cached_tokens, output_tokens, reasoning_tokens, events;
    uint64_t without_usage; // complete replies whose tokens are counted as events
    uint64_t good;          // complete replies within the limits of --goodput
    struct bench_metric ttft, tpot, itl, e2el, late;
    double max_output_per_s; // most events in one second
};

// Computes the figures of the records of one target, or of all (target < 0).
void bench_figures_compute(struct bench_figures *out, const struct bench_run *run,
                           const struct bench_options *o, int target);
// Returns the value of a figure by its name in results, such as "output_throughput" or
// "median_ttft_ms"; NAN if there is none of this name.
double bench_figure(const struct bench_figures *f, const char *name);

// Writes the members of a result object, each after a comma.
void bench_figures_json(struct json_buffer *out, const struct bench_figures *f);
// Writes the members that describe the options: the server, the targets and the load.
void bench_options_json(struct json_buffer *out, const struct bench_options *o);
// Writes the complete object of a run: options, figures, the client, the timeline and the targets.
void bench_run_json(struct json_buffer *out, const struct bench_run *run,
                    const struct bench_options *o);
// Writes a line of JSON per request.
void bench_records_write(FILE *to, const struct bench_run *run, const struct bench_options *o);
// Prints the table.
void bench_table_print(FILE *to, const struct bench_run *run, const struct bench_options *o);
