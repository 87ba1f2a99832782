// The indices of a ring with one producer and one consumer; the owner keeps the entries. The
// indices only grow and wrap at 2^32: equal ones mean empty, and a ring may be full to its last
// entry. tests/scheduler/test_interleave.c runs these functions as steps, in every order.
#pragma once

#include "base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { CACHE_LINE = 64 };

struct ring {
    uint32_t mask;          // entries - 1; their number is a power of two
    _Atomic uint32_t head;  // written by the producer alone
    char apart[CACHE_LINE]; // the two indices never share a cache line
    _Atomic uint32_t tail;  // written by the consumer alone
    char apart_too[CACHE_LINE];
};

// Producer: entries that are free now. Acquire: the consumer has read the entries it gave back.
static inline uint32_t ring_free(const struct ring *ring)
{
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
    return ring->mask + 1 - (head - tail);
}

// Producer: place of the next entry, to be filled before ring_publish.
static inline uint32_t ring_place(const struct ring *ring)
{
    check(ring_free(ring) > 0, "a ring of %u is full", ring->mask + 1);
    return atomic_load_explicit(&ring->head, memory_order_relaxed) & ring->mask;
}

// Producer: shows the entry. Release: all that was written before it is seen with it.
static inline void ring_publish(struct ring *ring)
{
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
}

// Consumer: place of the oldest entry; false: there is none. Acquire pairs with ring_publish.
static inline bool ring_peek(const struct ring *ring, uint32_t *place)
{
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    *place = tail & ring->mask;
    return head != tail;
}

// Consumer: gives the oldest entry back. Release: it was copied before.
static inline void ring_take(struct ring *ring)
{
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
}
