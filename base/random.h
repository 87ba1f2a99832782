// Random bytes of the system. Any thread; not after a fork.
#pragma once

#include <stddef.h>
#include <stdint.h>

void random_fill(void *out, size_t bytes); // at most 256 bytes
uint64_t random_seed(void);
