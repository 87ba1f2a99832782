// SPDX-License-Identifier: Apache-2.0
// Memory of the cpu device; see memory.c. Memory is zeroed and 256-byte aligned, and is freed with
// the same `bytes` (at NULL is allowed). NO_MEMORY if the system has none.
#pragma once

#include "kernels/device.h"

enum status cpu_memory_alloc(struct device *device, void **out, size_t bytes, struct error *err);
void cpu_memory_free(struct device *device, void *at, size_t bytes);
uint64_t cpu_memory_available(void); // bytes that can be allocated now
