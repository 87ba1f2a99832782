// SPDX-License-Identifier: Apache-2.0
// Chooses which of several copies of a model receives a request: the copy with the least to compute
// for it, including the work already queued there. Each copy publishes what it has computed as a
// table of fingerprints, one for each block that is in its prefix cache or being computed for it.
//
// Integers only. The engine's thread writes its table; h2o threads read it with relaxed loads and
// may see it a step late. Then a request is computed twice or waits a little, but results do not
// change.
#pragma once

#include "base/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ROUTE_BLOCKS_MAX = 2048, // blocks of a prompt that are looked up: about 0.4 ms
    ROUTE_UNCACHED = 4, // cost of a token to compute, if a queued token costs 1 (decision 0043)
    ROUTE_WAYS = 16,    // fingerprints per line
};

struct route_line {
    _Alignas(64) _Atomic uint32_t way[ROUTE_WAYS]; // fingerprints; 0: unused
};

struct route_table {
    struct route_line *line; // [mask + 1]
    uint32_t mask;
};

// Returns the number of lines for `blocks` blocks: a power of two, about half full when all are
// in the prefix table.
uint32_t route_lines(uint32_t blocks);

// Engine's thread. Adds or removes the fingerprint of a block. If a line is full, the new
// fingerprint replaces another one.
void route_put(struct route_table *table, const struct hash *key);
void route_drop(struct route_table *table, const struct hash *key);
// Any thread. Returns true if a block of this hash is probably in the copy's cache.
bool route_has(const struct route_table *table, const struct hash *key);

struct route_copy {
    uint64_t cached; // prompt tokens of the request that the copy has in its cache
    uint64_t queued; // prompt tokens of its requests that are not freed
    bool closed;     // true if it accepts no requests: chosen only if all are closed
};

// Returns the index of the copy with the lowest cost: ROUTE_UNCACHED times the uncached tokens,
// plus the queued ones. Ties: the first index from `after` % count on, cyclically. count >= 1.
uint32_t route_choose(const struct route_copy *copies, uint32_t count, uint64_t tokens,
                      uint32_t after);
