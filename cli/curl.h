// The lines that `weft serve` prints at its start: a request with curl for each endpoint that has a
// model, ready to paste into a shell.
#pragma once

#include "cli/keys.h"
#include "http/server.h"

struct curl_args {
    const struct serve_settings *settings;
    const struct keys *keys;
    const struct served *served;
    uint32_t port;
};

void curl_print(const struct curl_args *args);
