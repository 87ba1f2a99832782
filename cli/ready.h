// SPDX-License-Identifier: Apache-2.0
// The start screen of `weft serve`, printed to stdout once it is ready, at most one screen for a
// few models: the page's address, where the key is, a line for each model, and one request to
// paste. Main thread.
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
