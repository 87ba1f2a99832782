// How long a wait may go on, in time in which the process ran. Between two looks at the clock at
// most PATIENCE_LOOK_NS (patience_pause: look_ns) is counted, so a pause of the machine (a VM,
// SIGSTOP) uses up next to nothing. Who waits looks at least that often.
#pragma once

#include "base/clock.h"
#include "base/number.h"

#include <stdbool.h>

#define PATIENCE_LOOK_NS 100000000u

struct patience {
    uint64_t seen_ns; // the clock at the last look
    uint64_t left_ns;
};

static inline struct patience patience_of(uint64_t ns)
{
    return (struct patience){clock_ns(), ns};
}

// Until CLOCK_MONOTONIC is so late.
static inline struct patience patience_until(uint64_t until_ns)
{
    uint64_t now = clock_ns();
    return (struct patience){now, until_ns > now ? until_ns - now : 0};
}

// A look: how much of the time since the last one goes beyond look_ns, in which the process did not
// run.
static inline uint64_t patience_pause(uint64_t *seen_ns, uint64_t now, uint64_t look_ns)
{
    uint64_t passed = now - *seen_ns;
    *seen_ns = now;
    return passed - smaller(passed, look_ns);
}

// A look; true: nothing is left.
static inline bool patience_ends(struct patience *p)
{
    uint64_t now = clock_ns(), passed = now - p->seen_ns;
    passed -= patience_pause(&p->seen_ns, now, PATIENCE_LOOK_NS);
    p->left_ns -= smaller(passed, p->left_ns);
    return p->left_ns == 0;
}

// When the next look is due.
static inline uint64_t patience_next(const struct patience *p)
{
    return p->seen_ns + smaller(p->left_ns, (uint64_t)PATIENCE_LOOK_NS);
}
