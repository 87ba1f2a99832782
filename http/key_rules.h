// What an API key may be, and which addresses only this machine reaches. Pure.
#pragma once

#include "base/status.h"

#include <stdbool.h>

// A key travels in a header: 1 to 512 printable ASCII characters without spaces.
enum status key_check(const char *key, struct error *err) MUST_USE;

// On such an address a server may generate its own key, and HTTP/2 is on by default.
bool host_is_loopback(const char *host);
