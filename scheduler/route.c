// SPDX-License-Identifier: Apache-2.0
// See route.h. A fingerprint consists of bits of the block's hash that do not select the line.
#include "scheduler/route.h"

#include "base/number.h"

#include <stdatomic.h>

uint32_t route_lines(uint32_t blocks)
{
    return power_of_two(blocks / (ROUTE_WAYS / 2) + 1);
}

static uint32_t fingerprint_of(const struct hash *key)
{
    uint32_t fingerprint = (uint32_t)key->high;
    return fingerprint > 0 ? fingerprint : 1;
}

static struct route_line *line_of(const struct route_table *table, const struct hash *key)
{
    return &table->line[key->low & table->mask];
}

// Returns the index of a fingerprint in its line, or ROUTE_WAYS. Relaxed: each fingerprint is one
// word, and a stale value only costs a cache miss.
static uint32_t way_of(const struct route_line *line, uint32_t fingerprint)
{
    uint32_t way = 0;
    while (way < ROUTE_WAYS &&
           atomic_load_explicit(&line->way[way], memory_order_relaxed) != fingerprint)
        way++;
    return way;
}

void route_put(struct route_table *table, const struct hash *key)
{
    struct route_line *line = line_of(table, key);
    uint32_t way = way_of(line, 0);
    if (way == ROUTE_WAYS)
        way = (uint32_t)(key->high >> 32) % ROUTE_WAYS;
    atomic_store_explicit(&line->way[way], fingerprint_of(key), memory_order_relaxed);
}

void route_drop(struct route_table *table, const struct hash *key)
{
    struct route_line *line = line_of(table, key);
    uint32_t way = way_of(line, fingerprint_of(key));
    if (way < ROUTE_WAYS)
        atomic_store_explicit(&line->way[way], 0, memory_order_relaxed);
}

bool route_has(const struct route_table *table, const struct hash *key)
{
    return way_of(line_of(table, key), fingerprint_of(key)) < ROUTE_WAYS;
}

static uint64_t cost_of(const struct route_copy *copy, uint64_t tokens)
{
    uint64_t cached = copy->cached < tokens ? copy->cached : tokens;
    return ROUTE_UNCACHED * (tokens - cached) + copy->queued;
}

static bool is_better(const struct route_copy *a, const struct route_copy *b, uint64_t tokens)
{
    if (a->closed != b->closed)
        return b->closed;
    return cost_of(a, tokens) < cost_of(b, tokens);
}

uint32_t route_choose(const struct route_copy *copies, uint32_t count, uint64_t tokens,
                      uint32_t after)
{
    uint32_t best = after % count;
    for (uint32_t i = 1; i < count; i++) {
        uint32_t at = (after % count + i) % count;
        if (is_better(&copies[at], &copies[best], tokens))
            best = at;
    }
    return best;
}
