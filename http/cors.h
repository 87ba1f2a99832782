// SPDX-License-Identifier: Apache-2.0
// CORS: the list of web origins whose pages may read answers in a browser; empty by default.
// Read-only after cors_open, so any thread may then call the other functions.
#pragma once

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

struct cors {
    struct text *origins; // [count] in lower case
    uint32_t count;
    bool any; // true if "*" is in the list
};

// Fills `out` with the origins, each "scheme://host[:port]" or "*"; an entry may also be a
// comma-separated list. Copies the strings. On failure the error names the first entry that has
// neither form, and `out` must still be closed.
enum status cors_open(struct cors *out, const char *const *origins, uint32_t count,
                      struct error *err) MUST_USE;
void cors_close(struct cors *cors); // frees the list; a zeroed struct is allowed

// Returns the value of access-control-allow-origin for a page of this origin, valid until
// cors_close; at == NULL: send no such header.
struct text cors_origin(const struct cors *cors, struct text origin);

// Returns true if the value of access-control-request-headers may be echoed: 1 to 1,024 bytes, only
// header names, commas and blanks.
bool cors_names_are_fine(struct text names);
