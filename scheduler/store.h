// SPDX-License-Identifier: Apache-2.0
// Chunked memory. An owner (a request, or the history of a sequence) holds as many chunks as it
// needs and finds them through its row of a table. The memory is mapped for the worst case, and
// pages are used only when touched; the chunk freed last is reused first, and an empty store begins
// at its first chunk again. One thread allocates and frees; another thread may access the contents
// while it owns the request.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct store {
    char *memory;    // [chunk_count][chunk_bytes]
    uint32_t *free;  // [chunk_count] stack of free chunks that were used before
    uint32_t *table; // [owners][table_stride] chunks of each owner, in order
    uint32_t chunk_count, table_stride;
    uint32_t free_count;
    uint32_t fresh;      // this chunk and all after it are free and not in `free`
    uint32_t touched;    // this chunk and all after it have no pages
    uint32_t items_each; // items per chunk
    uint32_t item_bytes;
};

// Returns the number of chunks for `items` items.
static inline uint32_t store_chunks(const struct store *store, uint64_t items)
{
    return (uint32_t)((items + store->items_each - 1) / store->items_each);
}

// Extends an owner from `held` items to `items` items. The caller ensures that enough chunks are
// free.
void store_extend(struct store *store, uint32_t owner, uint64_t held, uint64_t items);

// Allocates the chunks for `items` items of an owner that has none.
static inline void store_alloc(struct store *store, uint32_t owner, uint64_t items)
{
    store_extend(store, owner, 0, items);
}

// Frees the chunks of an owner that holds `items` items.
void store_free(struct store *store, uint32_t owner, uint64_t items);

// Gives the pages of free chunks at the end of the store back to the system: at most `bytes` bytes
// per call, and none of the first `kept` bytes of the store. Call it on the thread that allocates.
void store_pages_return(struct store *store, size_t kept, size_t bytes);

// Returns the address of an item. The items after it in the same chunk follow in memory.
static inline void *store_item(const struct store *store, uint32_t owner, uint64_t index)
{
    uint32_t chunk = store->table[(size_t)owner * store->table_stride + index / store->items_each];
    size_t at = (size_t)chunk * store->items_each + index % store->items_each;
    return store->memory + at * store->item_bytes;
}

// Copy `count` items of an owner, starting at item `from` or `at`, out of or into its chunks.
void store_read(const struct store *store, uint32_t owner, uint64_t from, uint64_t count,
                void *out);
void store_write(struct store *store, uint32_t owner, uint64_t at, uint64_t count, const void *in);
