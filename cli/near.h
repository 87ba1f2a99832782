// SPDX-License-Identifier: Apache-2.0
// "did you mean": finds the known name that is most similar to an unknown one. Used in error
// messages only.
#pragma once

#include <stdint.h>

struct near { // zeroed by the caller, except for given
    const char *given, *name;
    uint32_t edits;
};
// Stores the name (borrowed) if it is more similar than those before. It must differ by at most two
// inserted, removed or replaced bytes, and by fewer than the given name has; names of over 63 bytes
// are never similar.
void near_offer(struct near *near, const char *name);

// Returns ", did you mean '--NAME'?" with these dashes, or an empty text. The struct can be an
// argument of printf.
struct near_text {
    char at[128];
};
struct near_text near_text(const struct near *near, const char *dashes);
