// SPDX-License-Identifier: Apache-2.0
// The monotonic clock that all modules use (CLOCK_MONOTONIC). Any thread.
#pragma once

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline double clock_s(void)
{
    return (double)clock_ns() * 1e-9;
}
