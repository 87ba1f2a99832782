// SPDX-License-Identifier: Apache-2.0
// Arrivals of an open loop: times drawn from a random process, or recorded arrivals.
#pragma once

#include "loadgen/options.h"

struct bench_arrival {
    double at_s;                          // seconds since the start of the run
    uint32_t input_tokens, output_tokens; // recorded lengths, at least 1; 0: drawn arrival
    uint32_t hash_first, hash_count;      // its ids in bench_trace.hashes: first index, number
};

// Recorded arrivals.
struct bench_trace {
    struct bench_arrival *at; // [count] in ascending order of at_s, the first at 0
    size_t count, allocated;
    uint32_t *hashes; // [hash_count] ids of prefix blocks
    size_t hash_count, hash_allocated;
};

// Reads at most o->requests_max arrivals from o->trace_path: an Azure table (time stamp, context
// tokens, generated tokens) or Mooncake's JSON lines (milliseconds, lengths, ids of prefix blocks).
// Divides the times by o->rate_scale, cuts the lengths to their limits and drops arrivals after
// o->seconds_max. NOT_FOUND or INVALID; the caller closes the trace also after an error.
enum status bench_trace_open(struct bench_trace *out, const struct bench_options *o,
                             struct error *err) MUST_USE;
void bench_trace_close(struct bench_trace *trace);

// Position in a sequence of arrivals. Times are computed one by one, so that a run may be endless.
struct bench_arrivals {
    const struct bench_options *o;
    const struct bench_trace *trace; // recorded arrivals; NULL: arrivals are drawn
    uint64_t index;                  // index of the next arrival
    double work; // expected number of arrivals before the next one, from which its time follows
};

// Keeps both pointers; trace may be NULL.
void bench_arrivals_init(struct bench_arrivals *a, const struct bench_options *o,
                         const struct bench_trace *trace);
// Writes the next arrival. Returns false after the last one, and *out is then undefined.
bool bench_arrivals_next(struct bench_arrivals *a, struct bench_arrival *out);
