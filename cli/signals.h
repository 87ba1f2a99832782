// SPDX-License-Identifier: Apache-2.0
// The signals of a serving process: SIGTERM and SIGINT stop it, SIGHUP reloads. A separate thread
// waits for them and notifies main, which may be busy loading or draining.
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum news {
    NEWS_STOP = 1,
    NEWS_RELOAD = 2,
    NEWS_FAULT = 4, // an engine's device failed
};

struct signals;

// Starts the thread that waits for signals. Call it before any other thread starts, so that all
// inherit the blocked signals. Until signals_serving, a stop signal ends the process immediately
// with exit code 0. From signals_serving on, a second one ends it with exit code 1; until
// signals_closing it first calls `unanswered_log` on the signals' thread, to log what is lost. A
// stop signal within 100 ms of the first is ignored.
enum status signals_open(struct signals **out, void (*unanswered_log)(void *context), void *context,
                         struct error *err) MUST_USE;
void signals_serving(struct signals *signals); // from now on stop signals are reported to main
void signals_closing(struct signals *signals); // all requests are answered: nothing is lost
void signals_post(struct signals *signals, enum news news); // adds an event for main; any thread
// Blocks until there are events (enum news bits), at most `ms` milliseconds; returns and clears
// them. 0: none.
uint32_t signals_wait(struct signals *signals, uint32_t ms);

enum { LAST_LINES_MS = 1000 }; // how long process_end waits for a stalled reader of stderr

// Writes the last lines of the log and ends the process without cleaning up.
_Noreturn void process_end(int code);

// Logs the error, then ends the process like process_end, with exit code 1. Threads may be running
// or hang.
_Noreturn void start_failed(const struct error *err);
