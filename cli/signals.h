// The signals of a serving process: SIGTERM and SIGINT stop it, SIGHUP reloads. A thread of its own
// waits for them and tells main, which may be busy loading or draining.
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

// Called before any other thread starts, so that all inherit the blocked signals. Until
// signals_serving a stop ends the process at once with 0. Between signals_serving and
// signals_closing a second stop calls `lost` on the signals' thread, which logs what is lost, and
// ends the process.
enum status signals_open(struct signals **out, void (*lost)(void *context), void *context,
                         struct error *err) MUST_USE;
void signals_serving(struct signals *signals);              // from now on a stop is news for main
void signals_closing(struct signals *signals);              // nothing can be lost any more
void signals_post(struct signals *signals, enum news news); // from any thread
uint32_t signals_wait(struct signals *signals);             // what has come since the last call

enum { LAST_LINES_MS = 1000 }; // how long the end waits for a stalled reader of stderr

// Writes the last lines of the log and ends the process without cleaning up.
_Noreturn void process_end(int code);

// The same after one sentence, where threads may be running or hang.
_Noreturn void start_failed(const struct error *err);
