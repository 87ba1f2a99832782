// SPDX-License-Identifier: Apache-2.0
// Sharing of full blocks. A sequence uses blocks that are ready, waits for a block that another
// sequence is computing, and enters its own blocks into the prefix cache. Between plan and settle a
// block is in the table and not ready. Engine thread only.
#include "scheduler/internal.h"

// Returns the key of the sequence's index-th block. `tokens` receives its tokens.
static struct prefix_key share_key(struct engine *engine, struct sequence *s, uint32_t index,
                                   int32_t *tokens)
{
    uint32_t each = engine->blocks.tokens;
    for (; s->hash_count <= index; s->hash_count++) {
        const struct hash *parent = s->hash_count > 0 ? &s->hashes[s->hash_count - 1] : &s->root;
        sequence_tokens(s, s->hash_count * each, each, tokens);
        s->hashes[s->hash_count] = prefix_hash(engine->options.hash_key, parent, tokens, each);
    }
    sequence_tokens(s, index * each, each, tokens);
    return (struct prefix_key){.hash = s->hashes[index],
                               .parent = index > 0 ? s->hashes[index - 1] : s->root,
                               .tokens = tokens};
}

// Returns true if the index-th block may be a shared one. At least one token is always computed,
// because the next token is sampled from it.
static bool may_share(const struct engine *engine, const struct sequence *s, uint32_t index)
{
    return (index + 1) * engine->blocks.tokens < sequence_known(s);
}

bool share_valid(const struct engine *engine, const struct sequence *s)
{
    const struct blocks *blocks = &engine->blocks;
    return s->match_count == 0 ||
           (s->match_breaks == blocks->breaks &&
            blocks->block[s->blocks[s->match_count - 1]].serial == s->match_serial);
}

// Looks the index-th block up and, if it is ready, puts it into s->blocks. The number of lookups in
// a plan is limited: after that many it returns SHARE_COMPUTING, and later plans continue the
// match. A plan without a row has no limit, because it would wait for nothing.
static enum share block_find(struct engine *engine, struct sequence *s, uint32_t index)
{
    struct plan *plan = &engine->plan;
    struct blocks *blocks = &engine->blocks;
    int32_t tokens[BLOCK_TOKENS_MAX];
    if (plan->lookups_left == 0 && plan->decode_count + plan->prefill_count > 0)
        return SHARE_COMPUTING;
    plan->lookups_left -= plan->lookups_left > 0;
    uint32_t id = BLOCK_NONE;
    if (index > 0) {
        sequence_tokens(s, index * blocks->tokens, blocks->tokens, tokens);
        id = prefix_follow(blocks, s->blocks[index - 1], tokens);
    }
    if (id != BLOCK_NONE && s->hash_count <= index) {
        s->hashes[index] = blocks->block[id].hash;
        s->hash_count = index + 1;
    } else if (id == BLOCK_NONE) {
        struct prefix_key key = share_key(engine, s, index, tokens);
        id = prefix_find(blocks, &key);
    }
    if (id == BLOCK_NONE)
        return SHARE_NONE;
    if (!blocks->block[id].ready)
        return SHARE_COMPUTING;
    if (index > 0)
        prefix_link(blocks, id, s->blocks[index - 1]);
    s->blocks[index] = id;
    return SHARE_READY;
}

// Makes a running sequence a holder of the following blocks that others have computed.
static enum share share_attach(struct engine *engine, struct sequence *s)
{
    enum share share = SHARE_NONE;
    while (may_share(engine, s, s->block_count)) {
        share = block_find(engine, s, s->block_count);
        if (share != SHARE_READY)
            return share;
        block_ref(&engine->blocks, s->blocks[s->block_count++]);
        s->planned_len += engine->blocks.tokens;
    }
    return SHARE_NONE;
}

// Records the blocks as the match of a waiting sequence; valid until one of them is evicted.
static enum share share_match(struct engine *engine, struct sequence *s)
{
    struct blocks *blocks = &engine->blocks;
    enum share share = SHARE_READY;
    if (!share_valid(engine, s))
        s->match_count = 0;
    while (share == SHARE_READY && may_share(engine, s, s->match_count)) {
        share = block_find(engine, s, s->match_count);
        if (share != SHARE_READY)
            break;
        uint32_t id = s->blocks[s->match_count++];
        s->match_serial = blocks->block[id].serial;
        s->match_breaks = blocks->breaks;
    }
    return share == SHARE_READY ? SHARE_NONE : share;
}

enum share share_look_up(struct engine *engine, struct sequence *s)
{
    if (!s->shares)
        return SHARE_NONE;
    if (s->state == SEQUENCE_WAITING)
        return share_match(engine, s);
    return s->planned_len % engine->blocks.tokens == 0 ? share_attach(engine, s) : SHARE_NONE;
}

// A sequence that holds a block of a chain also holds the blocks before it, so the first block
// without holders is found by bisection. Duplicates computed at the same time are an exception; the
// result may then be off by a few.
uint32_t share_idle(const struct engine *engine, const struct sequence *s, bool settled)
{
    uint32_t low = 0, high = s->match_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct block *b = &engine->blocks.block[s->blocks[middle]];
        if (b->refs > (settled ? b->leaving : 0))
            low = middle + 1;
        else
            high = middle;
    }
    return s->match_count - low;
}

void share_ref(struct engine *engine, struct sequence *s)
{
    for (; s->block_count < s->match_count; s->block_count++)
        block_ref(&engine->blocks, s->blocks[s->block_count]);
    s->planned_len = s->block_count * engine->blocks.tokens;
    s->match_count = 0;
}

// The chunk ends before a block that is in the table; the next plan uses that block.
uint32_t share_cut(struct engine *engine, struct sequence *s, uint32_t q_len)
{
    uint32_t each = engine->blocks.tokens;
    int32_t tokens[BLOCK_TOKENS_MAX];
    if (!s->shares)
        return q_len;
    uint32_t index = s->planned_len / each + 1; // share_look_up has looked up the first block
    for (; (index + 1) * each <= s->planned_len + q_len && may_share(engine, s, index); index++) {
        struct prefix_key key = share_key(engine, s, index, tokens);
        if (prefix_find(&engine->blocks, &key) != BLOCK_NONE)
            return index * each - s->planned_len;
    }
    return q_len;
}

// Enters a block and links it to the previous block.
static void share_put(struct blocks *blocks, const struct sequence *s, uint32_t index,
                      const struct prefix_key *key, bool ready)
{
    prefix_put(blocks, s->blocks[index], key, false);
    if (ready && blocks->block[s->blocks[index]].in_table)
        prefix_settle(blocks, s->blocks[index], index == 0);
    if (index > 0 && blocks->block[s->blocks[index]].in_table)
        prefix_link(blocks, s->blocks[index], s->blocks[index - 1]);
}

// The chunk just planned ends at planned_len. The last token of a row that may get a mask may be
// computed more than once, and a block that others read must not be written, so its block is
// entered only when the row is settled.
void share_announce(struct engine *engine, struct sequence *s, uint32_t from)
{
    struct blocks *blocks = &engine->blocks;
    int32_t tokens[BLOCK_TOKENS_MAX];
    if (!s->shares)
        return;
    uint32_t until =
        s->planned_len - (s->planned_len == sequence_known(s) && sequence_constrained(s));
    for (uint32_t i = from / blocks->tokens; (i + 1) * blocks->tokens <= until; i++) {
        struct prefix_key key = share_key(engine, s, i, tokens);
        if (prefix_find(blocks, &key) == BLOCK_NONE)
            share_put(blocks, s, i, &key, false);
    }
}

void share_settle(struct engine *engine, struct sequence *s, uint32_t kv_len)
{
    struct blocks *blocks = &engine->blocks;
    int32_t tokens[BLOCK_TOKENS_MAX];
    if (!s->shares)
        return;
    for (; (s->blocks_settled + 1) * blocks->tokens <= kv_len; s->blocks_settled++) {
        uint32_t id = s->blocks[s->blocks_settled];
        if (blocks->block[id].in_table) {
            prefix_settle(blocks, id, s->blocks_settled == 0);
            continue;
        }
        if (s->state == SEQUENCE_ENDING || !engine->options.prefix_cache)
            continue; // its last token was discarded, or there is no cache
        struct prefix_key key = share_key(engine, s, s->blocks_settled, tokens);
        if (prefix_find(blocks, &key) == BLOCK_NONE)
            share_put(blocks, s, s->blocks_settled, &key, true);
    }
}

// All its blocks, including those from the cache, because any of them may hold the bad value.
void share_exclude(struct engine *engine, struct sequence *s)
{
    if (!s->shares)
        return;
    for (uint32_t i = 0; i < s->block_count; i++)
        prefix_exclude(&engine->blocks, s->blocks[i]);
}
