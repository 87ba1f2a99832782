// SPDX-License-Identifier: Apache-2.0
// Cache of expressions per compilation; comparisons are cached by the builder.
#include "runtime/text/grammar/schema_parts.h"

static uint32_t slot_of(const struct schema *c, uint32_t kind, uint32_t a, uint32_t b)
{
    uint64_t hash = ((uint64_t)a << 32 | b) * 0x9E3779B97F4A7C15u + kind;
    hash = (hash ^ hash >> 29) * 0xBF58476D1CE4E5B9u;
    return (uint32_t)(hash >> 32) & (c->memo_size - 1);
}

// Returns the slot of the entry, or the free slot to put it in.
static struct memo *memo_place(const struct schema *c, uint32_t kind, uint32_t a, uint32_t b)
{
    uint32_t slot = slot_of(c, kind, a, b);
    for (;; slot = (slot + 1) & (c->memo_size - 1)) {
        struct memo *m = &c->memos[slot];
        if (m->kind == 0 || (m->kind == kind && m->a == a && m->b == b))
            return m;
    }
}

bool memo_find(const struct schema *c, uint32_t kind, uint32_t a, uint32_t b, uint32_t *expr)
{
    if (c->memo_size == 0)
        return false;
    const struct memo *m = memo_place(c, kind, a, b);
    *expr = m->expr;
    return m->kind != 0;
}

void memo_put(struct schema *c, uint32_t kind, uint32_t a, uint32_t b, uint32_t expr)
{
    if (2 * (c->memo_count + 1) >= c->memo_size) {
        struct memo *old = c->memos;
        uint32_t count = c->memo_size;
        c->memo_size = count == 0 ? 64 : 2 * count;
        c->memos = arena_alloc_zeroed(c->arena, c->memo_size, sizeof *c->memos);
        for (uint32_t i = 0; i < count; i++)
            if (old[i].kind != 0)
                *memo_place(c, old[i].kind, old[i].a, old[i].b) = old[i];
    }
    *memo_place(c, kind, a, b) = (struct memo){kind, a, b, expr};
    c->memo_count++;
}

uint32_t schema_both(struct schema *c, uint32_t one, uint32_t other, uint32_t site,
                     const char *keyword)
{
    uint32_t out;
    if (one == GRAMMAR_NOTHING || other == GRAMMAR_NOTHING || schema_failed(c))
        return GRAMMAR_NOTHING;
    if (one == other)
        return one;
    if (grammar_both(c->b, one, other, &out, c->err) != STATUS_OK)
        return schema_pass_error(c, site, keyword);
    return out;
}

uint32_t schema_except(struct schema *c, uint32_t one, uint32_t other, uint32_t site,
                       const char *keyword)
{
    uint32_t out;
    if (one == GRAMMAR_NOTHING || one == other || schema_failed(c))
        return GRAMMAR_NOTHING;
    if (other == GRAMMAR_NOTHING)
        return one;
    if (grammar_except(c->b, one, other, &out, c->err) != STATUS_OK)
        return schema_pass_error(c, site, keyword);
    return out;
}
