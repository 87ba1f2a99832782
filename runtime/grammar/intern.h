// Values of one size, numbered: equal values have one number. Used by builders (which grow it) and
// automata (whose memory is fixed). Never shared between threads.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INTERN_NONE UINT32_MAX

struct intern {
    uint32_t *at;    // [capacity][words]
    uint32_t *slots; // [slot_count] number + 1, 0: free; a power of two, more than capacity
    uint32_t words, count, capacity, slot_count;
    uint32_t slot_max; // slot_count may double up to here, so that few values touch few pages
};

// 64 bits of so many words.
static inline uint64_t intern_hash(const uint32_t *value, uint32_t words)
{
    uint64_t h = 0x9E3779B97F4A7C15u;
    for (uint32_t i = 0; i < words; i++) {
        h = (h ^ value[i]) * 0xD6E8FEB86659FD93u;
        h ^= h >> 32;
    }
    return h;
}

// The number of the value, which joins where it is new; INTERN_NONE: the table is full.
uint32_t intern_put(struct intern *t, const uint32_t *value);
// Memory from heap_take for so many values; what was there stays.
void intern_grow(struct intern *t, uint32_t capacity);
void intern_free(struct intern *t);
size_t intern_bytes(const struct intern *t);
