// SPDX-License-Identifier: Apache-2.0
// Priority of threads whose work may take long while others compute tokens: they use a processor
// that no other thread of the program needs, and otherwise get about a tenth of its time (decision
// 0050).
#pragma once

#include <sys/resource.h>

enum { PRIORITY_STEPS = 10 }; // steps of nice; the kernel limits the sum to 19

// Lowers the priority of the calling thread permanently (Linux has a nice value per thread). Cannot
// fail.
static inline void priority_lower(void)
{
    (void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + PRIORITY_STEPS);
}
