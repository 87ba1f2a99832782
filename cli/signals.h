// The signals of a serving process and what they ask of main. A thread of its own waits for them,
// so that main may be busy loading or draining. SIGTERM, SIGINT: stop; SIGHUP: reload.
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

// Before any other thread starts: they inherit the blocked signals. Until signals_serving a stop
// ends the process at once with 0. `lost` says in the log what an end at once loses; it is called
// on the thread of the signals between signals_serving and signals_closing.
enum status signals_open(struct signals **out, void (*lost)(void *context), void *context,
                         struct error *err) MUST_USE;
void signals_serving(struct signals *signals);              // from now on a stop is news for main
void signals_closing(struct signals *signals);              // nothing can be lost any more
void signals_post(struct signals *signals, enum news news); // from any thread
uint32_t signals_wait(struct signals *signals);             // what has come since the last call

enum { LAST_LINES_MS = 1000 }; // where the reader of stderr has stalled

// The last lines come out, then the process ends; threads and memory are left as they are.
_Noreturn void process_end(int code);
