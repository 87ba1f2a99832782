// SPDX-License-Identifier: Apache-2.0
// Measurement of the load generator itself: if its thread used all of its core, waited for a core,
// or read bytes late, the figures describe the client and not the server. One thread.
#pragma once

#include "loadgen/samples.h"

#include <stdbool.h>
#include <stdint.h>

// Counters of the calling thread.
struct bench_client_clock {
    double cpu_s;    // CPU time
    double queued_s; // time for which the thread was runnable and waited for a core
    uint64_t slices; // number of times that the thread got a core
    bool has_queue;  // true if the kernel counts queued_s and slices
};
struct bench_client_clock bench_client_clock_read(void);

// State during a run. Times are seconds of clock_s.
struct bench_client {
    struct bench_client_clock start;
    double window_start, window_idle; // window of 100 ms: its start; total idle time at its start
    uint64_t windows;                 // number of complete windows
    uint64_t windows_full;            // number of windows with less than 2 % idle time
    struct bench_histogram *lag;      // age of bytes when read; the event loop adds to it
    struct bench_histogram *late;     // open loop: delay from arrival to sending
};

// Reads the clocks of the calling thread and allocates the histograms, which bench_client_free
// frees. idle_s: total time spent waiting up to now.
void bench_client_begin(struct bench_client *c, double now, double idle_s);
void bench_client_free(struct bench_client *c);
// Counts an iteration of the event loop. idle_s: total time spent waiting up to now.
void bench_client_step(struct bench_client *c, double now, double idle_s);

// Median latencies of a run, with which the client's errors are compared.
struct bench_client_scale {
    double gap_ms;   // median time between events of a stream; 0: there are none
    double whole_ms; // median latency of complete requests
    bool stamped;    // true if times of events are those of the kernel, not those of reading
};

// Result of a run.
struct bench_client_report {
    double cpu_share;  // CPU time of the client's thread, divided by the wall time
    double full_share; // share of the windows of 100 ms with less than 2 % idle time
    double queue_ms;   // mean wait for a core each time the thread was runnable; -1: unknown
    double lag_p99_ms; // 99 % of the reads were at most this long after the bytes' arrival
    bool stamped;      // true if times of events are those of the kernel
    double late_p50_ms, late_p99_ms; // open loop: delay from arrival to sending
    bool limited;                    // true if the client was the limit
    char why[256];                   // reason, one clause; empty if not limited
};
// Computes the report; seconds: wall time of the run. The client is the limit if full_share exceeds
// 5 %, or if queue_ms, lag_p99_ms or late_p99_ms exceeds 1 ms and a twentieth of gap_ms (without
// gaps: of whole_ms). If times of events are the kernel's, queue_ms and lag_p99_ms may be up to
// half of gap_ms and a twentieth of whole_ms: they then delay the next request of a client, and
// only later reads merge two events of a stream.
struct bench_client_report bench_client_end(const struct bench_client *c, double seconds,
                                            const struct bench_client_scale *scale);
