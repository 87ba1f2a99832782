// SPDX-License-Identifier: Apache-2.0
// Runs libcurl's multi interface with epoll. Private to the load generator.
#pragma once

#include "base/status.h"

#include <curl/curl.h>

struct load_poll {
    CURLM *multi;
    int epoll;
    double timer_at; // time at which libcurl wants to be called; negative: none
};

enum status load_poll_open(struct load_poll *p, long connections, struct error *err) MUST_USE;
void load_poll_close(struct load_poll *p);
void load_poll_wait(struct load_poll *p, double until); // waits at most until then
