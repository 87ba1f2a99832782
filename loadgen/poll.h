// SPDX-License-Identifier: Apache-2.0
// Event loop of libcurl's multi interface: epoll, a timer of nanosecond resolution, and the times
// at which the kernel received bytes. Times are seconds of clock_s. One thread. Private to the load
// generator.
#pragma once

#include "loadgen/samples.h"

#include "base/status.h"

#include <curl/curl.h>
#include <stdint.h>

struct bench_poll {
    CURLM *multi;
    int epoll, timer;
    double timer_at; // time at which libcurl wants to be called; negative: none
    double ready_at; // time at which the last wait returned
    double read_at;  // time that is recorded for the bytes being read: their arrival in the kernel
    double idle_s;   // total time spent waiting
    double batch_s;  // time that handling the sockets of the last wait took
    int64_t wall_ns; // CLOCK_REALTIME less CLOCK_MONOTONIC when the last wait returned
    uint64_t stamped, unstamped; // numbers of reads with and without the kernel's time of arrival
    struct bench_histogram *lag; // times from arrival to reading; NULL: not recorded
};

// connections: number of idle connections that libcurl keeps. NO_MEMORY; close it also after an
// error.
enum status bench_poll_open(struct bench_poll *p, long connections, struct error *err) MUST_USE;
void bench_poll_close(struct bench_poll *p);
// Makes the kernel stamp the packets of a socket (SO_TIMESTAMPNS). Without stamps, the time of
// bytes is the end of the wait that returned their socket.
void bench_poll_stamp(int socket);
// Waits for sockets at most until `until`, and at most 100 ms, then lets libcurl read and write
// those that are ready: it calls the callbacks of their requests.
void bench_poll_wait(struct bench_poll *p, double until);
// Calls libcurl if its timer has expired; this sends requests that were just added.
void bench_poll_kick(struct bench_poll *p);
