// Sharing of full blocks: a sequence takes those that are computed, waits for the one that another
// sequence is just computing, and names its own as it goes. Between plan and settle a block is in
// the table but not ready; only settled tokens enter the cache. Engine thread only.
#include "scheduler/core.h"

enum { BLOCK_TOKENS_MAX = 64 };

// The name of the sequence's index-th block; its tokens are put into `tokens`.
static struct prefix_name share_name(struct engine *engine, struct sequence *s, uint32_t index,
                                     int32_t *tokens)
{
    uint32_t each = engine->blocks.tokens;
    for (; s->key_count <= index; s->key_count++) {
        const struct hash *parent = s->key_count > 0 ? &s->keys[s->key_count - 1] : &s->root;
        sequence_tokens(s, s->key_count * each, each, tokens);
        s->keys[s->key_count] = prefix_key(engine->options.hash_key, parent, tokens, each);
    }
    sequence_tokens(s, index * each, each, tokens);
    return (struct prefix_name){.key = s->keys[index],
                                .parent = index > 0 ? s->keys[index - 1] : s->root,
                                .tokens = tokens,
                                .lasting = s->lasting};
}

// At least one token is always computed: its state gives the next one.
static bool may_share(const struct engine *engine, const struct sequence *s, uint32_t index)
{
    return (index + 1) * engine->blocks.tokens < sequence_known(s);
}

enum share share_attach(struct engine *engine, struct sequence *s)
{
    struct blocks *blocks = &engine->blocks;
    int32_t tokens[BLOCK_TOKENS_MAX];
    if (!engine->sharing || s->planned_len % blocks->tokens != 0)
        return SHARE_NONE;
    uint32_t index = s->planned_len / blocks->tokens;
    for (; may_share(engine, s, index); index++) {
        struct prefix_name name = share_name(engine, s, index, tokens);
        uint32_t id = prefix_find(blocks, &name);
        if (id == BLOCK_NONE)
            return SHARE_NONE;
        if (!blocks->block[id].ready)
            return SHARE_COMPUTING;
        check(s->block_count == index, "%u blocks at block %u", s->block_count, index);
        block_share(blocks, id);
        s->blocks[s->block_count++] = id;
        s->planned_len += blocks->tokens;
    }
    return SHARE_NONE;
}

// A chunk ends where a later block is already there or being computed: the next plan takes it.
uint32_t share_cut(struct engine *engine, struct sequence *s, uint32_t q_len)
{
    uint32_t each = engine->blocks.tokens;
    int32_t tokens[BLOCK_TOKENS_MAX];
    if (!engine->sharing)
        return q_len;
    // For the first one share_attach has looked, if the chunk begins a row.
    bool looked = s->planned_stamp != engine->plan.stamp || s->planned_len % each > 0;
    uint32_t index = s->planned_len / each + looked;
    for (; (index + 1) * each <= s->planned_len + q_len && may_share(engine, s, index); index++) {
        struct prefix_name name = share_name(engine, s, index, tokens);
        if (prefix_find(&engine->blocks, &name) != BLOCK_NONE)
            return index * each - s->planned_len;
    }
    return q_len;
}

// Names the blocks that the chunk just planned, which ends at planned_len, will fill.
void share_announce(struct engine *engine, struct sequence *s, uint32_t from)
{
    struct blocks *blocks = &engine->blocks;
    int32_t tokens[BLOCK_TOKENS_MAX];
    if (!engine->sharing)
        return;
    for (uint32_t i = from / blocks->tokens; (i + 1) * blocks->tokens <= s->planned_len; i++) {
        struct prefix_name name = share_name(engine, s, i, tokens);
        if (prefix_find(blocks, &name) == BLOCK_NONE)
            prefix_put(blocks, s->blocks[i], &name, false);
    }
}

void share_settle(struct engine *engine, struct sequence *s, uint32_t kv_len)
{
    struct blocks *blocks = &engine->blocks;
    int32_t tokens[BLOCK_TOKENS_MAX];
    if (!engine->sharing)
        return;
    for (; (s->blocks_settled + 1) * blocks->tokens <= kv_len; s->blocks_settled++) {
        uint32_t id = s->blocks[s->blocks_settled];
        if (blocks->block[id].keyed) {
            blocks->block[id].ready = true;
            continue;
        }
        if (s->state == SEQUENCE_ENDING || !engine->options.prefix_cache)
            continue; // its last token was dropped, or nobody could look for the block
        struct prefix_name name = share_name(engine, s, s->blocks_settled, tokens);
        if (prefix_find(blocks, &name) == BLOCK_NONE)
            prefix_put(blocks, id, &name, true);
    }
}

// All it holds, those that it took from the cache among them: which one is bad cannot be told.
void share_bar(struct engine *engine, struct sequence *s)
{
    if (!engine->sharing)
        return;
    for (uint32_t i = 0; i < s->block_count; i++)
        prefix_bar(&engine->blocks, s->blocks[i]);
}
