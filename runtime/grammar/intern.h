// SPDX-License-Identifier: Apache-2.0
// Interned values of one size: equal values have the same number. Builders grow such a table,
// automata give it fixed memory. A table belongs to one thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INTERN_NONE UINT32_MAX

struct intern {
    uint32_t *at; // [capacity][words] values by number
    // [slot_count] hash table of number + 1, 0: free; a power of two, more than count
    uint32_t *slots;
    uint32_t words, count, capacity, slot_count;
    // limit up to which slot_count doubles, so that a small table touches few pages
    uint32_t slot_max;
};

// Returns a 64-bit hash of a value of `words` words.
static inline uint64_t intern_hash(const uint32_t *value, uint32_t words)
{
    uint64_t h = 0x9E3779B97F4A7C15u;
    for (uint32_t i = 0; i < words; i++) {
        h = (h ^ value[i]) * 0xD6E8FEB86659FD93u;
        h ^= h >> 32;
    }
    return h;
}

// Returns the number of the value and adds it if it is new; INTERN_NONE: the table is full.
uint32_t intern_put(struct intern *t, const uint32_t *value);
// Grows the table, on the heap, to `capacity` values; keeps the values it contains.
void intern_grow(struct intern *t, uint32_t capacity);
void intern_free(struct intern *t);
size_t intern_bytes(const struct intern *t);
