// SPDX-License-Identifier: Apache-2.0
// Log probabilities: see answer.h.
#include "http/api/answer.h"

#include "base/number.h"
#include "base/utf8.h"

#include <math.h>
#include <string.h>

enum { ENTRIES_MIN = 16, ENTRIES_TOGETHER = 8 };

static const struct token_top *tops_of(const struct logprobs *l, uint32_t at)
{
    return l->top_max > 0 ? l->tops + (size_t)at * l->top_max : NULL;
}

// Moves the entries to the start of their memory, over those that were written.
static void dropped_use(struct logprobs *l)
{
    size_t tops = (size_t)l->top_max * sizeof *l->tops;
    memmove(l->entries - l->dropped, l->entries, l->count * sizeof *l->entries);
    l->entries -= l->dropped;
    if (tops > 0) {
        struct token_top *first = l->tops - (size_t)l->dropped * l->top_max;
        memmove(first, l->tops, l->count * tops);
        l->tops = first;
    }
    l->max += l->dropped;
    l->dropped = 0;
}

static bool entries_grow(struct logprobs *l)
{
    if (l->dropped > 0 && l->dropped >= l->count) {
        dropped_use(l);
        return true;
    }
    uint32_t max = l->max == 0 ? ENTRIES_MIN : 2 * l->max;
    size_t tops = (size_t)l->top_max * sizeof *l->tops;
    struct logprob *entries =
        arena_grow(l->arena, l->entries, l->max * sizeof *entries, max * sizeof *entries);
    struct token_top *top =
        tops == 0 ? NULL : arena_grow(l->arena, l->tops, l->max * tops, max * tops);
    l->arena_full = !entries || (tops > 0 && !top);
    if (l->arena_full)
        return false;
    l->entries = entries;
    l->tops = top;
    l->max = max;
    l->dropped = 0;
    return true;
}

void logprobs_add(struct logprobs *l, const struct logprob *entry, const struct token_top *tops)
{
    if (l->arena_full || (l->count == l->max && !entries_grow(l)))
        return;
    check(entry->top_count <= l->top_max, "%u alternatives of %u", entry->top_count, l->top_max);
    l->entries[l->count] = *entry;
    if (entry->top_count > 0)
        memcpy(l->tops + (size_t)l->count * l->top_max, tops, entry->top_count * sizeof *tops);
    l->count++;
}

void logprobs_text(struct logprobs *l, uint64_t from, size_t bytes, uint64_t text_before)
{
    for (uint32_t i = l->visible; i < l->count && l->entries[i].from < from + bytes; i++) {
        struct logprob *e = &l->entries[i];
        uint64_t end = e->end < from + bytes ? e->end : from + bytes;
        if (end > from)
            e->text_end = text_before + (end - from);
    }
}

// Moves the entries [from, from + count) to an earlier position.
static void entries_move(struct logprobs *l, uint32_t to, uint32_t from, uint32_t count)
{
    size_t each = l->top_max;
    if (to == from || count == 0)
        return;
    memmove(l->entries + to, l->entries + from, count * sizeof *l->entries);
    if (each > 0)
        memmove(l->tops + to * each, l->tops + from * each, count * each * sizeof *l->tops);
}

void logprobs_show(struct logprobs *l, uint64_t visible_bytes, uint64_t settled)
{
    uint32_t at = l->visible;
    for (; at < l->count && l->entries[at].end <= settled; at++) {
        if (l->entries[at].text_end > visible_bytes)
            break;
        if (l->entries[at].text_end > 0)
            entries_move(l, l->visible++, at, 1);
    }
    entries_move(l, l->visible, at, l->count - at);
    l->count -= at - l->visible;
}

// Does not move the remaining entries: a complete answer is written eight entries at a time, so
// that moving would take quadratic time.
void logprobs_advance(struct logprobs *l, uint32_t count)
{
    if (count == 0)
        return;
    l->entries += count;
    if (l->top_max > 0)
        l->tops += (size_t)count * l->top_max;
    l->dropped += count;
    l->max -= count;
    l->count -= count;
    l->visible -= count;
}

static void value_put(struct json_buffer *out, float logprob)
{
    if (isfinite(logprob))
        json_put_float(out, logprob);
    else
        json_put_literal(out, "-9999.0");
}

static void token_put(struct json_buffer *out, struct text bytes, float logprob)
{
    json_put_literal(out, "{\"token\":\"");
    json_put_lossy(out, bytes);
    json_put_literal(out, "\",\"logprob\":");
    value_put(out, logprob);
    json_put_literal(out, ",\"bytes\":[");
    for (size_t i = 0; i < bytes.bytes; i++) {
        json_put_literal(out, i > 0 ? "," : "");
        json_put_unsigned(out, (unsigned char)bytes.at[i]);
    }
    json_put_literal(out, "]");
}

void logprobs_put_entries(const struct logprobs *l, const struct tokenizer *tokenizer,
                          uint32_t from, uint32_t to, struct json_buffer *out)
{
    for (uint32_t i = from; i < to; i++) {
        const struct logprob *e = &l->entries[i];
        json_put_literal(out, i > from ? "," : "");
        token_put(out, tokenizer_token_bytes(tokenizer, e->token), e->logprob);
        json_put_literal(out, ",\"top_logprobs\":[");
        for (uint32_t k = 0; k < e->top_count; k++) {
            const struct token_top *top = &tops_of(l, i)[k];
            json_put_literal(out, k > 0 ? "," : "");
            token_put(out, tokenizer_token_bytes(tokenizer, top->token), top->logprob);
            json_put_literal(out, "}");
        }
        json_put_literal(out, "]}");
    }
}

bool logprobs_keep(struct logprobs_kept *k, const struct logprobs *l, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        if (k->count == k->block_count * ENTRIES_MIN) {
            struct logprobs *blocks =
                arena_extend(l->arena, k->blocks, k->block_count, &k->block_max, sizeof *blocks);
            if (!blocks)
                return false;
            k->blocks = blocks;
            k->blocks[k->block_count++] =
                (struct logprobs){.arena = l->arena, .top_max = l->top_max};
        }
        struct logprobs *block = &k->blocks[k->block_count - 1];
        logprobs_add(block, &l->entries[i], tops_of(l, i));
        if (block->arena_full)
            return false;
        k->count++;
    }
    return true;
}

void logprobs_put_kept(const struct logprobs_kept *k, const struct tokenizer *tokenizer,
                       uint32_t from, uint32_t to, struct json_buffer *out)
{
    for (uint32_t i = from; i < to;) {
        uint32_t first = i % ENTRIES_MIN, count = smaller(to - i, (uint32_t)ENTRIES_MIN - first);
        json_put_literal(out, i > from ? "," : "");
        logprobs_put_entries(&k->blocks[i / ENTRIES_MIN], tokenizer, first, first + count, out);
        i += count;
    }
}

bool logprobs_part_chat(const struct logprobs *l, uint32_t count, const struct tokenizer *tokenizer,
                        struct logprobs_cursor *at, struct json_buffer *out)
{
    uint32_t from = at->entry, to = from + smaller(count - from, (uint32_t)ENTRIES_TOGETHER);
    json_put_literal(out, from == 0 ? "{\"content\":[" : ",");
    logprobs_put_entries(l, tokenizer, from, to, out);
    at->entry = to;
    if (to < count)
        return true;
    json_put_literal(out, "],\"refusal\":null}");
    return false;
}

// Writes a token as a JSON string: its text, or "bytes:\xe2\x80" if it is not valid UTF-8.
static void name_put(struct json_buffer *out, struct text bytes)
{
    if (utf8_valid_prefix(bytes) == bytes.bytes) {
        json_put_string(out, bytes);
        return;
    }
    json_put_literal(out, "\"bytes:");
    for (size_t i = 0; i < bytes.bytes; i++)
        json_put_format(out, "\\\\x%02x", (unsigned char)bytes.at[i]);
    json_put_literal(out, "\"");
}

// Returns true if an earlier alternative has the same text: a JSON object has each key once.
static bool top_is_repeated(const struct token_top *tops, uint32_t k,
                            const struct tokenizer *tokenizer)
{
    struct text own = tokenizer_token_bytes(tokenizer, tops[k].token);
    for (uint32_t i = 0; i < k; i++)
        if (text_equal(own, tokenizer_token_bytes(tokenizer, tops[i].token)))
            return true;
    return false;
}

// Writes the likeliest tokens, and the sampled one if it is not among them.
static void map_put(const struct logprobs *l, uint32_t at, const struct tokenizer *tokenizer,
                    struct json_buffer *out)
{
    const struct logprob *e = &l->entries[at];
    const struct token_top *tops = tops_of(l, at);
    struct text own = tokenizer_token_bytes(tokenizer, e->token);
    bool there = false, first = true;
    json_put_literal(out, "{");
    for (uint32_t k = 0; k < e->top_count; k++) {
        struct text bytes = tokenizer_token_bytes(tokenizer, tops[k].token);
        if (top_is_repeated(tops, k, tokenizer))
            continue;
        there = there || text_equal(bytes, own);
        json_put_literal(out, first ? "" : ",");
        name_put(out, bytes);
        json_put_literal(out, ":");
        value_put(out, tops[k].logprob);
        first = false;
    }
    if (!there) {
        json_put_literal(out, first ? "" : ",");
        name_put(out, own);
        json_put_literal(out, ":");
        value_put(out, e->logprob);
    }
    json_put_literal(out, "}");
}

enum legacy_member { LEGACY_TOKENS, LEGACY_VALUES, LEGACY_TOPS, LEGACY_OFFSETS, LEGACY_MEMBERS };

static void legacy_put(const struct logprobs *l, enum legacy_member member, uint32_t i,
                       const struct tokenizer *tokenizer, struct json_buffer *out)
{
    const struct logprob *e = &l->entries[i];
    switch (member) {
    case LEGACY_TOKENS:
        name_put(out, tokenizer_token_bytes(tokenizer, e->token));
        break;
    case LEGACY_VALUES:
        value_put(out, e->logprob);
        break;
    case LEGACY_TOPS:
        map_put(l, i, tokenizer, out);
        break;
    case LEGACY_OFFSETS:
        json_put_unsigned(out, e->chars);
        break;
    case LEGACY_MEMBERS:
        break;
    }
}

bool logprobs_part_legacy(const struct logprobs *l, uint32_t count,
                          const struct tokenizer *tokenizer, struct logprobs_cursor *at,
                          struct json_buffer *out)
{
    static const char *const names[LEGACY_MEMBERS] = {"tokens", "token_logprobs", "top_logprobs",
                                                      "text_offset"};
    bool is_null = at->member == LEGACY_TOPS && l->top_max == 0;
    uint32_t left = is_null ? 0 : count - at->entry;
    uint32_t to = at->entry + smaller(left, (uint32_t)ENTRIES_TOGETHER);
    if (at->entry == 0)
        json_put_format(out, "%s\"%s\":%s", at->member == 0 ? "{" : ",", names[at->member],
                        is_null ? "null" : "[");
    for (; at->entry < to; at->entry++) {
        json_put_literal(out, at->entry > 0 ? "," : "");
        legacy_put(l, (enum legacy_member)at->member, at->entry, tokenizer, out);
    }
    if (!is_null && at->entry < count)
        return true;
    json_put_literal(out, is_null ? "" : "]");
    *at = (struct logprobs_cursor){.member = at->member + 1};
    if (at->member < LEGACY_MEMBERS)
        return true;
    json_put_literal(out, "}");
    return false;
}
