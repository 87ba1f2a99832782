// Chunked memory. An owner (a request, or a sequence's history) takes as many chunks as it needs
// and reaches them through its part of a table. Mapped for the worst case and touched as used; the
// chunk given back last is used first. One thread takes and gives; another may use the contents
// while it owns the request.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct store {
    char *memory;    // [chunk_count][chunk_bytes]
    uint32_t *free;  // [chunk_count] stack of chunks given back
    uint32_t *table; // [owners][table_stride] chunk of each part of an owner
    uint32_t chunk_count, table_stride;
    uint32_t free_count;
    uint32_t fresh;      // chunks never used so far
    uint32_t items_each; // items a chunk holds
    uint32_t item_bytes;
};

// Chunks that hold `items`.
static inline uint32_t store_chunks(const struct store *store, uint64_t items)
{
    return (uint32_t)((items + store->items_each - 1) / store->items_each);
}

// Takes the chunks that `items` need beyond `held` ones.
void store_extend(struct store *store, uint32_t owner, uint64_t held, uint64_t items);

static inline void store_take(struct store *store, uint32_t owner, uint64_t items)
{
    store_extend(store, owner, 0, items);
}

void store_give(struct store *store, uint32_t owner, uint64_t items);

static inline void *store_item(const struct store *store, uint32_t owner, uint64_t index)
{
    uint32_t chunk = store->table[(size_t)owner * store->table_stride + index / store->items_each];
    size_t at = (size_t)chunk * store->items_each + index % store->items_each;
    return store->memory + at * store->item_bytes;
}

// Copies a run of items out of or into the chunks.
void store_read(const struct store *store, uint32_t owner, uint64_t from, uint64_t count,
                void *out);
void store_write(struct store *store, uint32_t owner, uint64_t at, uint64_t count, const void *in);
