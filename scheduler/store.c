// SPDX-License-Identifier: Apache-2.0
// See store.h. Needs no atomics: the transfer of the request's ownership orders the two threads.
#include "scheduler/store.h"

#include "base/number.h"
#include "base/status.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void store_extend(struct store *store, uint32_t owner, uint64_t held, uint64_t items)
{
    uint32_t count = store_chunks(store, items);
    check(count <= store->table_stride, "%u chunks, a request has at most %u", count,
          store->table_stride);
    uint32_t *table = &store->table[(size_t)owner * store->table_stride];
    for (uint32_t i = store_chunks(store, held); i < count; i++) {
        if (store->free_count > 0) {
            table[i] = store->free[--store->free_count];
            continue;
        }
        check(store->fresh < store->chunk_count, "all %u chunks are allocated", store->chunk_count);
        table[i] = store->fresh++;
    }
    if (store->touched < store->fresh)
        store->touched = store->fresh;
}

void store_free(struct store *store, uint32_t owner, uint64_t items)
{
    uint32_t count = store_chunks(store, items);
    const uint32_t *table = &store->table[(size_t)owner * store->table_stride];
    for (uint32_t i = count; i-- > 0;)
        store->free[store->free_count++] = table[i];
    check(store->free_count <= store->fresh, "%u chunks freed, %u were allocated",
          store->free_count, store->fresh);
    if (store->free_count == store->fresh)
        store->free_count = store->fresh = 0;
}

void store_pages_return(struct store *store, size_t kept, size_t bytes)
{
    size_t each = (size_t)store->items_each * store->item_bytes, page = (size_t)getpagesize();
    size_t from = store->fresh * each, to = store->touched * each;
    from = from < kept ? kept : from;
    if (to <= from)
        return;
    if (to - from > bytes)
        from = to - bytes;
    uint32_t first = (uint32_t)((from + each - 1) / each);
    // the pages at both ends may contain other data
    uintptr_t begin = round_up((uintptr_t)store->memory + first * each, page);
    uintptr_t end = ((uintptr_t)store->memory + to) / page * page;
    if (begin < end)
        madvise((void *)begin, end - begin, MADV_DONTNEED);
    store->touched = first;
}

// Returns how many of `count` items from `from` on lie in the same chunk.
static uint64_t run_length(const struct store *store, uint64_t from, uint64_t count)
{
    uint64_t left = store->items_each - from % store->items_each;
    return left < count ? left : count;
}

void store_read(const struct store *store, uint32_t owner, uint64_t from, uint64_t count, void *out)
{
    char *to = out;
    while (count > 0) {
        uint64_t run = run_length(store, from, count);
        memcpy(to, store_item(store, owner, from), run * store->item_bytes);
        to += run * store->item_bytes;
        from += run;
        count -= run;
    }
}

void store_write(struct store *store, uint32_t owner, uint64_t at, uint64_t count, const void *in)
{
    const char *from = in;
    while (count > 0) {
        uint64_t run = run_length(store, at, count);
        memcpy(store_item(store, owner, at), from, run * store->item_bytes);
        from += run * store->item_bytes;
        at += run;
        count -= run;
    }
}
