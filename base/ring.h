// SPDX-License-Identifier: Apache-2.0
// The indices of a ring with one producer thread and one consumer thread; the owner stores the
// entries. The indices only grow and wrap at 2^32: equal indices mean empty, and all mask + 1
// entries can be in use. tests/scheduler/test_interleave.c runs these functions as steps, in every
// order.
#pragma once

#include "base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { CACHE_LINE = 64 };

struct ring {
    uint32_t mask;            // number of entries - 1; that number is a power of two
    _Atomic uint32_t head;    // written by the producer only
    char padding[CACHE_LINE]; // the two indices never share a cache line
    _Atomic uint32_t tail;    // written by the consumer only
    char padding_end[CACHE_LINE];
};

// Producer: returns the number of free entries. Acquire, pairs with ring_pop: the consumer has
// read the entries that it freed.
static inline uint32_t ring_free(const struct ring *ring)
{
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
    return ring->mask + 1 - (head - tail);
}

// Producer: returns the index of the next entry, to be filled before ring_publish. The ring must
// have a free entry, else the process ends.
static inline uint32_t ring_place(const struct ring *ring)
{
    check(ring_free(ring) > 0, "a ring of %u is full", ring->mask + 1);
    return atomic_load_explicit(&ring->head, memory_order_relaxed) & ring->mask;
}

// Producer: publishes the entry of ring_place. Release: the consumer sees everything that was
// written before.
static inline void ring_publish(struct ring *ring)
{
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
}

// Consumer: stores the index of the oldest entry; returns false if there is none. Acquire: pairs
// with ring_publish.
static inline bool ring_peek(const struct ring *ring, uint32_t *place)
{
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    *place = tail & ring->mask;
    return head != tail;
}

// Consumer: frees the oldest entry; the ring must not be empty. Release: the entry was read before
// the producer may overwrite it.
static inline void ring_pop(struct ring *ring)
{
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
}
