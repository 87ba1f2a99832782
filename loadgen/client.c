// SPDX-License-Identifier: Apache-2.0
// Measures the load generator's own thread; see client.h.
#include "loadgen/client.h"

#include "base/arena.h"
#include "base/clock.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const double WINDOW_S = 0.1;
static const double WINDOW_IDLE_MIN = 0.02; // share of a window; below it the thread has no reserve
static const double FULL_SHARE_MAX = 0.05;  // share of windows without reserve
static const double ERROR_SHARE_MAX = 0.05; // share of a median
static const double MERGE_SHARE_MAX = 0.5;  // share of the time between events; above it two merge
static const double ERROR_MS_MIN = 1;       // errors below 1 ms are never the limit

struct bench_client_clock bench_client_clock_read(void)
{
    struct bench_client_clock clock = {0};
    struct timespec cpu;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    clock.cpu_s = (double)cpu.tv_sec + (double)cpu.tv_nsec * 1e-9;
    char text[128];
    int file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    ssize_t bytes = file >= 0 ? read(file, text, sizeof text - 1) : -1;
    if (file >= 0)
        close(file);
    text[bytes > 0 ? bytes : 0] = '\0';
    unsigned long long ran, queued, slices;
    clock.has_queue = sscanf(text, "%llu %llu %llu", &ran, &queued, &slices) == 3;
    if (clock.has_queue) {
        clock.queued_s = (double)queued * 1e-9;
        clock.slices = slices;
    }
    return clock;
}

void bench_client_begin(struct bench_client *c, double now, double idle_s)
{
    *c = (struct bench_client){.start = bench_client_clock_read(),
                               .window_start = now,
                               .window_idle = idle_s,
                               .lag = heap_alloc_zeroed(1, sizeof *c->lag),
                               .late = heap_alloc_zeroed(1, sizeof *c->late)};
}

void bench_client_free(struct bench_client *c)
{
    heap_free(c->lag);
    heap_free(c->late);
    c->lag = c->late = NULL;
}

void bench_client_step(struct bench_client *c, double now, double idle_s)
{
    if (now - c->window_start < WINDOW_S)
        return;
    c->windows++;
    c->windows_full += idle_s - c->window_idle < WINDOW_IDLE_MIN * (now - c->window_start);
    c->window_start = now;
    c->window_idle = idle_s;
}

struct bench_client_report bench_client_end(const struct bench_client *c, double seconds,
                                            const struct bench_client_scale *scale)
{
    struct bench_client_clock end = bench_client_clock_read();
    struct bench_client_report r = {.queue_ms = -1, .stamped = scale->stamped};
    uint64_t slices = end.slices - c->start.slices;
    r.cpu_share = seconds > 0 ? (end.cpu_s - c->start.cpu_s) / seconds : 0;
    r.full_share = c->windows > 0 ? (double)c->windows_full / (double)c->windows : 0;
    if (end.has_queue)
        r.queue_ms = (end.queued_s - c->start.queued_s) * 1e3 / (double)(slices > 0 ? slices : 1);
    r.lag_p99_ms = bench_histogram_at(c->lag, 0.99) * 1e3;
    r.late_p50_ms = bench_histogram_at(c->late, 0.5) * 1e3;
    r.late_p99_ms = bench_histogram_at(c->late, 0.99) * 1e3;
    double reference = scale->gap_ms > 0 ? scale->gap_ms : scale->whole_ms;
    double error_max = fmax(reference * ERROR_SHARE_MAX, ERROR_MS_MIN), lag_max = error_max;
    if (scale->stamped && scale->gap_ms > 0)
        lag_max = fmax(fmin(scale->gap_ms * MERGE_SHARE_MAX, scale->whole_ms * ERROR_SHARE_MAX),
                       ERROR_MS_MIN);
    r.limited = true;
    if (r.full_share > FULL_SHARE_MAX)
        snprintf(r.why, sizeof r.why,
                 "its thread had no idle time in %.0f %% of the run: the server may be faster than "
                 "the figures",
                 r.full_share * 100);
    else if (r.late_p99_ms > error_max)
        snprintf(r.why, sizeof r.why,
                 "1 %% of the requests were sent over %.1f ms after their arrival", r.late_p99_ms);
    else if (r.lag_p99_ms > lag_max)
        snprintf(r.why, sizeof r.why, "1 %% of the events were read over %.1f ms late",
                 r.lag_p99_ms);
    else if (r.queue_ms > lag_max)
        snprintf(r.why, sizeof r.why,
                 "it waited %.1f ms for a core each time bytes arrived: other processes use the "
                 "cores",
                 r.queue_ms);
    else
        r.limited = false;
    return r;
}
