// SPDX-License-Identifier: Apache-2.0
// Allocates the memory of KV blocks; see kv_memory.h.
#include "runtime/model/kv_memory.h"

#include "kernels/attn_tiles.h"

enum status kv_memory_open(struct kv_memory *kv, const struct device_api *api,
                           struct device *device, uint64_t block_bytes, uint32_t block_count,
                           struct error *err)
{
    check(block_bytes % TABLE_UNIT_BYTES == 0, "a block of %llu bytes",
          (unsigned long long)block_bytes);
    *kv = (struct kv_memory){.api = api, .device = device, .block_count = block_count};
    kv->bytes = block_bytes * block_count;
    kv->block_units = (uint32_t)(block_bytes / TABLE_UNIT_BYTES);
    if (kv->bytes / TABLE_UNIT_BYTES > UINT32_MAX)
        return error_set(err, STATUS_TOO_LARGE,
                         "%llu bytes of KV memory are more than block tables can address: give "
                         "less with --kv-cache-memory",
                         (unsigned long long)kv->bytes);
    enum status status = api->memory_alloc(device, &kv->base, kv->bytes, err);
    if (status != STATUS_OK)
        return error_prefix(err, "KV cache");
    return STATUS_OK;
}

void kv_memory_close(struct kv_memory *kv)
{
    if (kv->base)
        kv->api->memory_free(kv->device, kv->base, kv->bytes);
    *kv = (struct kv_memory){.base = NULL};
}
