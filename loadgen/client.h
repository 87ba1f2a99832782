// SPDX-License-Identifier: Apache-2.0
// The load generator measures itself: if it used up its core, waited for one, or read bytes late,
// the figures are the client's and not the server's. One thread.
#pragma once

#include "loadgen/samples.h"

#include <stdbool.h>
#include <stdint.h>

// Counters of the calling thread.
struct bench_client_clock {
    double cpu_s;    // CPU time
    double queued_s; // time in which the thread could run and had no core
    uint64_t slices; // number of times it got one
    bool has_queue;  // false if the kernel does not count the two above
};
struct bench_client_clock bench_client_clock_read(void);

// State while a run goes on.
struct bench_client {
    struct bench_client_clock start;
    double window_start, window_idle; // current window of 100 ms
    uint64_t windows, windows_full;   // number of them; those without idle time
    double batch_s;                   // time that reading the previous batch took
    struct bench_histogram *lag;      // how old events may have been when they were read
    struct bench_histogram *late;     // open loop: delay from arrival to sending
};

void bench_client_begin(struct bench_client *c, double now, double idle_s);
void bench_client_free(struct bench_client *c);
// Counts an iteration of the event loop. batch_s: time since the wait returned; events: sockets
// that the wait returned; idle_s: total time spent waiting.
void bench_client_step(struct bench_client *c, double now, double idle_s, double batch_s,
                       uint32_t events);

// Result of a run.
struct bench_client_report {
    double cpu_share;  // CPU time of the client's thread by wall time
    double full_share; // share of the windows of 100 ms without idle time
    double queue_ms;   // mean wait for a core each time the thread could run; -1: unknown
    double lag_p99_ms; // 99 % of the events were read at most this long after their arrival
    double late_p50_ms, late_p99_ms; // open loop: sending after arrival
    bool limited;                    // true if the client was the limit
    char why[256];                   // first reason, one sentence
};
// reference_ms: the smallest median that the run reports; errors above a twentieth of it, and above
// 1 ms, make the client the limit.
struct bench_client_report bench_client_end(const struct bench_client *c, double seconds,
                                            double reference_ms);
