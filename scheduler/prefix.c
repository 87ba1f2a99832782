// SPDX-License-Identifier: Apache-2.0
// The hash table of prefix.h. The chains of its buckets are linked through the blocks.
#include "scheduler/prefix.h"

#include "base/status.h"
#include "scheduler/kv_events.h"

#include <string.h>

struct hash prefix_root(const uint64_t secret[2], const struct prefix_apart *apart)
{
    return hash_bytes(secret, apart, sizeof *apart);
}

struct hash prefix_hash(const uint64_t secret[2], const struct hash *parent, const int32_t *tokens,
                        uint32_t count)
{
    struct {
        struct hash parent;
        int32_t tokens[BLOCK_TOKENS_MAX];
    } text;
    check(count <= BLOCK_TOKENS_MAX, "%u tokens in a block", count);
    text.parent = *parent;
    memcpy(text.tokens, tokens, count * sizeof *tokens);
    return hash_bytes(secret, &text, sizeof text.parent + count * sizeof *tokens);
}

static uint32_t *bucket_of(const struct blocks *blocks, const struct hash *hash)
{
    return &blocks->bucket[hash->low & blocks->bucket_mask];
}

static bool hash_equal(const struct hash *a, const struct hash *b)
{
    return a->low == b->low && a->high == b->high;
}

uint32_t prefix_find(const struct blocks *blocks, const struct prefix_key *key)
{
    uint32_t id = *bucket_of(blocks, &key->hash);
    for (; id != BLOCK_NONE; id = blocks->block[id].next) {
        const struct block *b = &blocks->block[id];
        if (!hash_equal(&b->hash, &key->hash) || !hash_equal(&b->parent, &key->parent))
            continue;
        const int32_t *tokens = &blocks->token[(size_t)id * blocks->tokens];
        if (memcmp(tokens, key->tokens, blocks->tokens * sizeof *tokens) == 0)
            return id;
    }
    return BLOCK_NONE;
}

void prefix_put(struct blocks *blocks, uint32_t id, const struct prefix_key *key, bool ready)
{
    struct block *b = &blocks->block[id];
    check(!b->in_table, "block %u enters the table twice", id);
    check(b->refs > 0, "block %u enters the table without a holder", id);
    if (b->excluded)
        return;
    b->hash = key->hash;
    b->parent = key->parent;
    b->in_table = true;
    b->ready = ready;
    b->serial = ++blocks->serials;
    b->children = 0;
    b->parent_serial = 0;
    memcpy(&blocks->token[(size_t)id * blocks->tokens], key->tokens,
           blocks->tokens * sizeof *key->tokens);
    uint32_t *head = bucket_of(blocks, &b->hash);
    b->next = *head;
    *head = id;
    if (blocks->route.line)
        route_put(&blocks->route, &b->hash);
}

void prefix_settle(struct blocks *blocks, uint32_t id, bool first)
{
    struct block *b = &blocks->block[id];
    check(b->in_table, "block %u is settled and not in the table", id);
    if (b->ready)
        return;
    b->ready = true;
    if (blocks->events)
        kv_event_stored(blocks->events, &b->hash, first ? NULL : &b->parent,
                        &blocks->token[(size_t)id * blocks->tokens]);
}

void prefix_link(struct blocks *blocks, uint32_t id, uint32_t parent)
{
    struct block *b = &blocks->block[id], *p = &blocks->block[parent];
    if (!p->in_table || !hash_equal(&p->hash, &b->parent))
        return; // this parent is a duplicate that is not in the table
    if (b->parent_id == parent && b->parent_serial == p->serial)
        return;
    b->parent_id = parent; // an earlier parent has left the table, because keys are unique
    b->parent_serial = p->serial;
    p->children++;
    p->child = id;
}

uint32_t prefix_follow(const struct blocks *blocks, uint32_t parent, const int32_t *tokens)
{
    const struct block *p = &blocks->block[parent];
    const struct block *b = &blocks->block[p->child];
    if (!p->in_table || p->children == 0 || !b->in_table || b->parent_id != parent ||
        b->parent_serial != p->serial)
        return BLOCK_NONE;
    const int32_t *own = &blocks->token[(size_t)p->child * blocks->tokens];
    return memcmp(own, tokens, blocks->tokens * sizeof *own) == 0 ? p->child : BLOCK_NONE;
}

static void links_drop(struct blocks *blocks, struct block *b)
{
    struct block *parent = &blocks->block[b->parent_id];
    if (b->parent_serial != 0 && parent->serial == b->parent_serial)
        parent->children--;
    blocks->breaks += b->children > 0;
    b->serial = 0;
}

void prefix_drop(struct blocks *blocks, uint32_t id)
{
    struct block *b = &blocks->block[id];
    links_drop(blocks, b);
    if (b->ready && blocks->events)
        kv_event_removed(blocks->events, &b->hash);
    if (blocks->route.line)
        route_drop(&blocks->route, &b->hash);
    uint32_t *link = bucket_of(blocks, &b->hash);
    while (*link != id) {
        check(*link != BLOCK_NONE, "block %u is not in its bucket", id);
        link = &blocks->block[*link].next;
    }
    *link = b->next;
    b->in_table = false;
    b->ready = false;
}

void prefix_exclude(struct blocks *blocks, uint32_t id)
{
    check(blocks->block[id].refs > 0, "block %u is excluded without a holder", id);
    if (blocks->block[id].in_table)
        prefix_drop(blocks, id);
    blocks->block[id].excluded = true;
}
