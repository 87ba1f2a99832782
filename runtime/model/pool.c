// The KV pool; see pool.h.
#include "runtime/model/pool.h"

#include "kernels/attn_tiles.h"
#include "base/arena.h"

enum status kv_pool_open(struct kv_pool *pool, const struct device_api *api, struct device *device,
                         uint64_t block_bytes, uint32_t block_count, struct error *err)
{
    check(block_bytes % TABLE_UNIT_BYTES == 0, "a block of %llu bytes",
          (unsigned long long)block_bytes);
    *pool = (struct kv_pool){.api = api, .device = device, .block_count = block_count};
    pool->bytes = block_bytes * block_count;
    pool->block_units = (uint32_t)(block_bytes / TABLE_UNIT_BYTES);
    if (pool->bytes / TABLE_UNIT_BYTES > UINT32_MAX)
        return error_set(err, STATUS_TOO_LARGE,
                         "%llu bytes of KV memory are more than block tables can address: give "
                         "less with --kv-cache-memory",
                         (unsigned long long)pool->bytes);
    enum status status = api->memory_take(device, &pool->base, pool->bytes, err);
    if (status != STATUS_OK)
        return error_prefix(err, "KV cache");
    pool->slab_count = (block_count + KV_SLAB_BLOCKS - 1) / KV_SLAB_BLOCKS;
    pool->slab_base = heap_take(pool->slab_count * sizeof *pool->slab_base);
    for (uint32_t i = 0; i < pool->slab_count; i++)
        pool->slab_base[i] = i * KV_SLAB_BLOCKS * pool->block_units;
    return STATUS_OK;
}

void kv_pool_close(struct kv_pool *pool)
{
    if (pool->base)
        pool->api->memory_give(pool->device, pool->base, pool->bytes);
    heap_give(pool->slab_base);
    *pool = (struct kv_pool){.base = NULL};
}
