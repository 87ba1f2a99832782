// SPDX-License-Identifier: Apache-2.0
// Reads memory as fast as a thread can, at any ISA level; a file of its own, because peaks.c is
// compiled for AVX-512 and AMX.
#include "bench/peaks.h"

typedef uint64_t words __attribute__((vector_size(16)));

uint64_t peak_read(const void *at, size_t bytes)
{
    enum { AHEAD = 4096, EACH = 8 };
    const words *p = at;
    words sum[EACH] = {{0}};
    for (size_t i = 0; i + EACH <= bytes / sizeof *p; i += EACH) {
        __builtin_prefetch((const char *)(p + i) + AHEAD);
        __builtin_prefetch((const char *)(p + i) + AHEAD + 64);
        for (int j = 0; j < EACH; j++)
            sum[j] += p[i + j];
    }
    for (int j = 1; j < EACH; j++)
        sum[0] += sum[j];
    return sum[0][0] + sum[0][1];
}
