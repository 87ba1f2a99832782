// SPDX-License-Identifier: Apache-2.0
// Runs libcurl's multi interface with epoll, and a timer with nanoseconds. Private to the load
// generator.
#pragma once

#include "base/status.h"

#include <curl/curl.h>
#include <stdint.h>

struct bench_poll {
    CURLM *multi;
    int epoll, timer;
    double timer_at; // time at which libcurl requests a call; negative: none
    double ready_at; // time at which the last wait returned
    double read_at;  // time that the bytes get which are being read
    double idle_s;   // time spent waiting, in total
    uint32_t ready;  // sockets that the last wait returned
};

enum status bench_poll_open(struct bench_poll *p, long connections, struct error *err) MUST_USE;
void bench_poll_close(struct bench_poll *p);
void bench_poll_wait(struct bench_poll *p, double until); // waits at most until this time
void bench_poll_kick(struct bench_poll *p);               // sends requests that were just added
