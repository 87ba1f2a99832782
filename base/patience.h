// SPDX-License-Identifier: Apache-2.0
// A time limit that counts only time in which the process ran. Between two readings of the clock at
// most PATIENCE_GAP_NS (patience_pause: gap_ns) is counted, so a pause of the machine (a VM,
// SIGSTOP) uses up almost nothing. The waiting thread must read the clock at least that often.
#pragma once

#include "base/clock.h"
#include "base/number.h"

#include <stdbool.h>

#define PATIENCE_GAP_NS 100000000u

struct patience {
    uint64_t seen_ns; // clock_ns at the last reading
    uint64_t left_ns; // time left; 0: the limit is used up
};

// Returns a limit of `ns` nanoseconds from now.
static inline struct patience patience_of(uint64_t ns)
{
    return (struct patience){clock_ns(), ns};
}

// Returns a limit that ends when CLOCK_MONOTONIC reaches until_ns, or later by the pauses that are
// not counted.
static inline struct patience patience_until(uint64_t until_ns)
{
    uint64_t now = clock_ns();
    return (struct patience){now, until_ns > now ? until_ns - now : 0};
}

// Returns the part of the time since the last reading, *seen_ns, that exceeds gap_ns: in it the
// process did not run. Sets *seen_ns to `now`, which the caller read with clock_ns.
static inline uint64_t patience_pause(uint64_t *seen_ns, uint64_t now, uint64_t gap_ns)
{
    uint64_t passed = now - *seen_ns;
    *seen_ns = now;
    return passed - smaller(passed, gap_ns);
}

// Reads the clock and counts the time. Returns true if the limit is used up.
static inline bool patience_ends(struct patience *p)
{
    uint64_t now = clock_ns(), passed = now - p->seen_ns;
    passed -= patience_pause(&p->seen_ns, now, PATIENCE_GAP_NS);
    p->left_ns -= smaller(passed, p->left_ns);
    return p->left_ns == 0;
}

// Returns the latest time (CLOCK_MONOTONIC, ns) at which patience_ends must be called again.
static inline uint64_t patience_next(const struct patience *p)
{
    return p->seen_ns + smaller(p->left_ns, (uint64_t)PATIENCE_GAP_NS);
}
