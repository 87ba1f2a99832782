// SPDX-License-Identifier: Apache-2.0
// The memory of a model's KV blocks, one allocation on the device. Opened by the loading thread,
// then read by the engine thread; owns the device memory.
#pragma once

#include "kernels/device.h"

#include <stdint.h>

struct kv_memory {
    const struct device_api *api;
    struct device *device;
    void *base;
    uint64_t bytes;
    uint32_t block_units; // size of a block in units of TABLE_UNIT_BYTES
    uint32_t block_count;
};

// Allocates the memory for block_count blocks. block_bytes must be a multiple of TABLE_UNIT_BYTES.
// TOO_LARGE if block tables cannot address it.
enum status kv_memory_open(struct kv_memory *kv, const struct device_api *api,
                           struct device *device, uint64_t block_bytes, uint32_t block_count,
                           struct error *err) MUST_USE;
// Frees the memory; a second call does nothing.
void kv_memory_close(struct kv_memory *kv);

// Returns the offset of a block as the device's block table stores it.
static inline uint32_t kv_memory_units(const struct kv_memory *kv, uint32_t block)
{
    return block * kv->block_units;
}
