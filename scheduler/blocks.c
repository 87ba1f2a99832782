// SPDX-License-Identifier: Apache-2.0
// States of KV blocks; see blocks.h.
#include "scheduler/blocks.h"

#include "base/status.h"
#include "scheduler/prefix.h"

#include <string.h>

void blocks_reset(struct blocks *blocks)
{
    if (blocks->count == 0)
        return;
    memset(blocks->block, 0, blocks->count * sizeof *blocks->block);
    memset(blocks->bucket, 0xFF, (blocks->bucket_mask + 1) * sizeof *blocks->bucket);
    blocks->cached_count = 0;
    blocks->releasing_count = 0;
    blocks->newest = blocks->oldest = BLOCK_NONE;
    blocks->free_count = blocks->count;
    for (uint32_t i = 0; i < blocks->count; i++)
        blocks->free[i] = blocks->count - 1 - i;
}

static void lru_remove(struct blocks *blocks, uint32_t id)
{
    struct block *b = &blocks->block[id];
    if (b->newer == BLOCK_NONE)
        blocks->newest = b->older;
    else
        blocks->block[b->newer].older = b->older;
    if (b->older == BLOCK_NONE)
        blocks->oldest = b->newer;
    else
        blocks->block[b->older].newer = b->newer;
    blocks->cached_count--;
}

static void lru_put(struct blocks *blocks, uint32_t id)
{
    struct block *b = &blocks->block[id];
    b->newer = BLOCK_NONE;
    b->older = blocks->newest;
    if (blocks->newest == BLOCK_NONE)
        blocks->oldest = id;
    else
        blocks->block[blocks->newest].newer = id;
    blocks->newest = id;
    blocks->cached_count++;
}

uint32_t block_alloc(struct blocks *blocks)
{
    check(blocks_available(blocks) > 0, "none of %u blocks is free", blocks->count);
    uint32_t id;
    if (blocks->free_count > 0) {
        id = blocks->free[--blocks->free_count];
    } else {
        id = blocks->oldest;
        lru_remove(blocks, id);
        prefix_drop(blocks, id);
    }
    struct block *b = &blocks->block[id];
    check(b->refs == 0, "block %u is allocated with %u holders", id, b->refs);
    check(!b->in_table, "free block %u is still in the table", id);
    b->refs = 1;
    b->leaving = 0;
    b->excluded = false;
    return id;
}

void block_ref(struct blocks *blocks, uint32_t id)
{
    struct block *b = &blocks->block[id];
    check(b->ready, "block %u is shared before it is computed", id);
    if (b->refs == 0)
        lru_remove(blocks, id);
    else if (b->leaving == b->refs)
        blocks->releasing_count--; // it now has a holder that stays
    b->refs++;
}

void block_unref_later(struct blocks *blocks, uint32_t id)
{
    struct block *b = &blocks->block[id];
    check(b->leaving < b->refs, "block %u: %u of %u holders are leaving", id, b->leaving, b->refs);
    b->leaving++;
    if (b->leaving == b->refs)
        blocks->releasing_count++;
}

void block_unref(struct blocks *blocks, uint32_t id, bool was_leaving)
{
    struct block *b = &blocks->block[id];
    check(b->refs > 0, "block %u is released without a holder", id);
    bool was_releasing = b->leaving == b->refs;
    b->refs--;
    if (was_leaving)
        b->leaving--;
    bool is_releasing = b->refs > 0 && b->leaving == b->refs;
    blocks->releasing_count += (uint32_t)is_releasing - (uint32_t)was_releasing;
    if (b->refs > 0)
        return;
    if (b->in_table && b->ready) {
        lru_put(blocks, id);
        return;
    }
    if (b->in_table)
        prefix_drop(blocks, id);
    blocks->free[blocks->free_count++] = id;
}
