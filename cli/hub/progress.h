// SPDX-License-Identifier: Apache-2.0
// The line that shows how far a download is: one line that moves on a terminal, else a line every
// ten seconds. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct hub_progress {
    const char *verb, *what;     // "fetching" or "checking"; name of the model
    uint64_t bytes_all, bytes;   // sum of the sizes, and how much of it is there
    uint64_t bytes_first;        // bytes that were there at the start
    uint64_t begun_ns, shown_ns; // CLOCK_MONOTONIC
    bool terminal, open;         // open: true if the terminal shows the line
};

void hub_progress_begin(struct hub_progress *p, const char *verb, const char *what);
void hub_progress_show(struct hub_progress *p);
void hub_progress_end(struct hub_progress *p); // clears the line
