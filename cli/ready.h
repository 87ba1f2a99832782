// What `weft serve` prints on stdout once it is ready, at most one screen for a few models: the
// address, a line for each model, where the key is, and a request to paste for each task.
#pragma once

#include "cli/keys.h"
#include "cli/load.h"

struct ready_args {
    const struct serve_settings *settings;
    const struct serve_keys *keys;
    const struct loaded *loaded;
    uint32_t port;
};

void ready_print(const struct ready_args *args);
