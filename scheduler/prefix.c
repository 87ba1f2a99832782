// Table of keyed blocks; see prefix.h. The chains run through the blocks themselves.
#include "scheduler/prefix.h"

#include "kernels/status.h"

#include <string.h>

enum { PREFIX_TOKENS_MAX = 64 };

struct hash prefix_key(const uint64_t secret[2], const struct hash *parent, const int32_t *tokens,
                       uint32_t count)
{
    struct {
        struct hash parent;
        int32_t tokens[PREFIX_TOKENS_MAX];
    } text;
    check(count <= PREFIX_TOKENS_MAX, "%u tokens in a block", count);
    text.parent = *parent;
    memcpy(text.tokens, tokens, count * sizeof *tokens);
    return hash_bytes(secret, &text, sizeof text.parent + count * sizeof *tokens);
}

static uint32_t *bucket_of(const struct blocks *blocks, const struct hash *key)
{
    return &blocks->bucket[key->low & blocks->bucket_mask];
}

static bool hash_equal(const struct hash *a, const struct hash *b)
{
    return a->low == b->low && a->high == b->high;
}

uint32_t prefix_find(const struct blocks *blocks, const struct prefix_name *name)
{
    uint32_t id = *bucket_of(blocks, &name->key);
    for (; id != BLOCK_NONE; id = blocks->block[id].next) {
        const struct block *b = &blocks->block[id];
        if (!hash_equal(&b->key, &name->key) || !hash_equal(&b->parent, &name->parent))
            continue;
        const int32_t *tokens = &blocks->token[(size_t)id * blocks->tokens];
        if (memcmp(tokens, name->tokens, blocks->tokens * sizeof *tokens) == 0)
            return id;
    }
    return BLOCK_NONE;
}

void prefix_put(struct blocks *blocks, uint32_t id, const struct prefix_name *name, bool ready)
{
    struct block *b = &blocks->block[id];
    check(!b->keyed, "block %u is keyed twice", id);
    check(b->refs > 0, "block %u is keyed and nobody holds it", id);
    if (b->barred)
        return;
    b->key = name->key;
    b->parent = name->parent;
    b->keyed = true;
    b->ready = ready;
    b->lasting = name->lasting;
    memcpy(&blocks->token[(size_t)id * blocks->tokens], name->tokens,
           blocks->tokens * sizeof *name->tokens);
    uint32_t *head = bucket_of(blocks, &b->key);
    b->next = *head;
    *head = id;
}

void prefix_drop(struct blocks *blocks, uint32_t id)
{
    struct block *b = &blocks->block[id];
    uint32_t *link = bucket_of(blocks, &b->key);
    while (*link != id) {
        check(*link != BLOCK_NONE, "block %u is not in its bucket", id);
        link = &blocks->block[*link].next;
    }
    *link = b->next;
    b->keyed = false;
    b->ready = false;
}

void prefix_bar(struct blocks *blocks, uint32_t id)
{
    check(blocks->block[id].refs > 0, "block %u is barred and nobody holds it", id);
    if (blocks->block[id].keyed)
        prefix_drop(blocks, id);
    blocks->block[id].barred = true;
}
