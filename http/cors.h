// Which web pages may read answers in a browser (CORS): a list of origins, none by default. Pure;
// any thread after open.
#pragma once

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

struct cors {
    struct text *origins; // [count] in lower case
    uint32_t count;
    bool any; // "*" is one of them
};

// origins: "scheme://host[:port]" or "*", each also a list with commas between; copied. An error
// names the first that is neither.
enum status cors_open(struct cors *out, const char *const *origins, uint32_t count,
                      struct error *err) MUST_USE;
void cors_close(struct cors *cors); // also of zeros

// What access-control-allow-origin says to a page of this origin, valid until close; at == NULL:
// nothing.
struct text cors_origin(const struct cors *cors, struct text origin);

// Whether the value of access-control-request-headers may be echoed: names and commas.
bool cors_names_are_fine(struct text names);
