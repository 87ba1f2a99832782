// SPDX-License-Identifier: Apache-2.0
// Random bytes from the kernel. Any thread; must not be used after a fork, because parent and child
// would return the same bytes.
#pragma once

#include <stddef.h>
#include <stdint.h>

// Fills out with random bytes, at most 256.
void random_fill(void *out, size_t bytes);
uint64_t random_seed(void);
