// SPDX-License-Identifier: Apache-2.0
// Random bytes from the kernel, buffered per thread. Any thread. Must not be used after a fork,
// because parent and child would return the same bytes. A failure of the kernel ends the process.
#pragma once

#include <stddef.h>
#include <stdint.h>

// Writes `bytes` random bytes to out. bytes: at most 256, else the process ends.
void random_fill(void *out, size_t bytes);
uint64_t random_seed(void); // returns 64 random bits
