// SPDX-License-Identifier: Apache-2.0
// Arrivals of an open loop: drawn from a process, or recorded ones.
#pragma once

#include "loadgen/options.h"

struct bench_arrival {
    double at_s;                          // seconds since the start of the run
    uint32_t input_tokens, output_tokens; // lengths that the trace gives
    uint32_t hash_first, hash_count;      // range in bench_trace.hashes
};

// Recorded arrivals.
struct bench_trace {
    struct bench_arrival *at; // [count] ascending
    uint64_t count, allocated;
    uint32_t *hashes; // [hash_count]
    uint64_t hash_count, hash_allocated;
};

// Reads at most o->requests_max arrivals of an Azure table (time stamp, context and generated
// tokens) or of Mooncake lines (milliseconds, lengths, ids of prefix blocks), scaled and cut
// according to the options.
enum status bench_trace_open(struct bench_trace *out, const struct bench_options *o,
                             struct error *err) MUST_USE;
void bench_trace_close(struct bench_trace *trace);

// Arrival times that are computed one after the other, so that a run may be unlimited.
struct bench_arrivals {
    const struct bench_options *o;
    const struct bench_trace *trace; // NULL: drawn
    uint64_t index;
    double work; // expected number of arrivals up to the last one, without ramp
};

void bench_arrivals_init(struct bench_arrivals *a, const struct bench_options *o,
                         const struct bench_trace *trace);
// Writes the next arrival; returns false after the last.
bool bench_arrivals_next(struct bench_arrivals *a, struct bench_arrival *out);
