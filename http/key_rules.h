// SPDX-License-Identifier: Apache-2.0
// The rules for API keys, and for addresses that only this machine can reach. Pure.
#pragma once

#include "base/status.h"

#include <stdbool.h>

// Returns STATUS_OK if the key is 1 to 512 printable ASCII characters without spaces, so that it
// can be sent in a header.
enum status key_check(const char *key, struct error *err) MUST_USE;

// Returns true for a loopback address or "localhost". On such an address the server may generate
// its own key, and HTTP/2 is on by default.
bool host_is_loopback(const char *host);
