// SPDX-License-Identifier: Apache-2.0
// Core dumps: the file that the kernel writes when a process crashes contains its memory.
#pragma once

#include <sys/prctl.h>
#include <sys/resource.h>

// Turns core dumps of the process off permanently. A process that is not dumpable also hides its
// memory, environment and descriptors in /proc from other processes of the same user, debuggers
// included. RLIMIT_CORE is set too, for core dump handlers that check only this limit. Neither call
// can fail.
static inline void dumps_forbid(void)
{
    (void)setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}
