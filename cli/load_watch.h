// Ends the process where the load of a model stands still: whoever hangs in a device, its driver or
// a disk cannot be waited for.
#pragma once

#include "cli/load.h"

#include <pthread.h>

struct load_watch {
    const struct loaded_model *model;
    uint64_t patience_ns;
    pthread_t thread;
    bool running;
    _Atomic uint32_t signs; // that the load goes on
    _Atomic uint32_t over, over_sleepers;
};

// start_ns: as that of the model's options; nothing may be heard of the load for five times that.
void load_watch_begin(struct load_watch *watch, const struct loaded_model *model,
                      uint64_t start_ns);
void load_watch_sign(struct load_watch *watch); // the load goes on
void load_watch_end(struct load_watch *watch);
