// Which of several copies of a model takes a request: the one that has the least to compute for it,
// what waits there already counted. What a copy has computed is told by a table of fingerprints,
// one of each block that is in its prefix cache or on its way there.
//
// Integers only. The engine's thread writes its table; h2o threads read it relaxed and may see it a
// step late: then a request is computed twice or waits a little, and no answer changes.
#pragma once

#include "base/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ROUTE_BLOCKS_MAX = 2048, // of a prompt that are looked up: about 0.4 ms
    ROUTE_UNCACHED = 4,      // what a token to compute weighs beside a queued one (decision 0043)
    ROUTE_WAYS = 16,         // fingerprints of a line
};

struct route_line {
    _Alignas(64) _Atomic uint32_t way[ROUTE_WAYS]; // 0: none
};

struct route_table {
    struct route_line *line; // [mask + 1]
    uint32_t mask;
};

// Lines for so many blocks: a power of two, half full when all blocks have a name.
uint32_t route_lines(uint32_t blocks);

// Engine's thread. A line that is full forgets one of its fingerprints.
void route_put(struct route_table *table, const struct hash *key);
void route_drop(struct route_table *table, const struct hash *key);
// Any thread.
bool route_has(const struct route_table *table, const struct hash *key);

struct route_copy {
    uint64_t cached; // tokens of the prompt that it has
    uint64_t queued; // prompt tokens of its requests that are not finished
    bool closed;     // it takes no requests: chosen only where all are closed
};

// The copy with the least sum of ROUTE_UNCACHED times the uncached tokens and the queued ones; of
// equals the first from place `after` on, going round. count >= 1.
uint32_t route_choose(const struct route_copy *copies, uint32_t count, uint64_t tokens,
                      uint32_t after);
