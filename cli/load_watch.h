// SPDX-License-Identifier: Apache-2.0
// Ends the process if loading a model makes no progress, because a thread that hangs in a device,
// its driver or a disk cannot be cancelled.
#pragma once

#include "cli/load.h"

#include <pthread.h>

struct load_watch {
    const struct loaded_model *model;
    uint64_t patience_ns; // time without progress after which the process ends
    pthread_t thread;
    bool running; // true if the thread was started; if it could not be, nothing is watched
    _Atomic uint32_t signs;               // counts signs of progress
    _Atomic uint32_t over, over_sleepers; // 1: loading has ended; see futex.h
};

// Starts the watching thread. start_ns: as in struct loaded; the process ends after five times that
// without progress.
void load_watch_begin(struct load_watch *watch, const struct loaded_model *model,
                      uint64_t start_ns);
void load_watch_sign(struct load_watch *watch); // reports progress; any thread
void load_watch_end(struct load_watch *watch);  // ends the watching thread
