// "did you mean": of the names that could have stood where a name is not known, the one that is
// nearest to it. For errors alone.
#pragma once

#include <stdint.h>

struct near { // all zero before, but for given
    const char *given, *name;
    uint32_t edits;
};
// Takes the name where it is nearer than those before: at most two letters inserted, removed or
// replaced, and not all of them.
void near_look(struct near *near, const char *name);

// ", did you mean '--NAME'?" with these dashes, or nothing. For an argument of printf.
struct near_text {
    char at[128];
};
struct near_text near_say(const struct near *near, const char *dashes);
