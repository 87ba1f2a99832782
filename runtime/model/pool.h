// KV memory of a device, lent to models in slabs of at least 16 blocks. A slab map turns a block id
// (the scheduler's word) into the offset that the device's block table holds. Engine thread, after
// opening; owns the device memory. Lending between models comes later: now a model gets its slabs
// at start and keeps them.
#pragma once

#include "kernels/device.h"

#include <stdint.h>

enum { KV_SLAB_BLOCKS = 16 };

struct kv_pool {
    const struct device_api *api;
    struct device *device;
    void *base; // device memory of all slabs
    uint64_t bytes;
    uint32_t block_units; // bytes of a block in TABLE_UNIT_BYTES
    uint32_t block_count;
    uint32_t slab_count;
    uint32_t *slab_base; // [slab_count] in TABLE_UNIT_BYTES from base
};

// block_bytes is a multiple of TABLE_UNIT_BYTES.
enum status kv_pool_open(struct kv_pool *pool, const struct device_api *api, struct device *device,
                         uint64_t block_bytes, uint32_t block_count, struct error *err) MUST_USE;
void kv_pool_close(struct kv_pool *pool);

static inline uint32_t kv_pool_units(const struct kv_pool *pool, uint32_t block)
{
    return pool->slab_base[block / KV_SLAB_BLOCKS] + block % KV_SLAB_BLOCKS * pool->block_units;
}
