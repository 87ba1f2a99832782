// The lock-free steps between an h2o thread and an engine thread: rings of request numbers, rings
// of token events, and flags that one side raises and the other lowers. Every function is one step
// of the protocol; tests/scheduler/test_interleave.c calls these same functions in every order.
// Rings do not own their entries. Indices run free (they wrap at 2^32), so empty is head == tail
// and a ring may be full to its last entry.
#pragma once

#include "base/status.h"
#include "scheduler/port.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { CACHE_LINE = 64 };

struct number_ring {
    uint32_t *entry; // [mask + 1]
    uint32_t mask;
    _Alignas(CACHE_LINE) _Atomic uint32_t head; // written by the producer alone
    _Alignas(CACHE_LINE) _Atomic uint32_t tail; // written by the consumer alone
};

// A number is in a ring at most once and the ring has an entry for each number: never full.
static inline void number_push(struct number_ring *ring, uint32_t number)
{
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed); // our own index
    // Acquire: the consumer has read the entry that we overwrite. Without it our store could be
    // seen by a consumer that still reads the old number.
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
    check(head - tail <= ring->mask, "ring of %u is full", ring->mask + 1);
    ring->entry[head & ring->mask] = number;
    // Release: the number, and all that was written for it, is visible before the index.
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
}

static inline bool number_pop(struct number_ring *ring, uint32_t *out)
{
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed); // our own index
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_acquire); // pairs with push
    if (head == tail)
        return false;
    *out = ring->entry[tail & ring->mask];
    // Release: the entry was read before it is offered again.
    atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
    return true;
}

// Raises a flag; true: it was down, so the raiser owes the other side the news (a ring entry or a
// write to an eventfd). Both sides use read-modify-writes, which are totally ordered: either the
// raiser reads 0 and tells, or it reads 1 and the lowerer, whose exchange comes later, sees all
// that was written before the raise. A plain store on either side would lose news.
static inline bool flag_raise(_Atomic uint32_t *flag)
{
    return atomic_exchange_explicit(flag, 1, memory_order_acq_rel) == 0;
}

// Lowers a flag; true: it was up. To be called before looking for the news it announces.
static inline bool flag_lower(_Atomic uint32_t *flag)
{
    return atomic_exchange_explicit(flag, 0, memory_order_acq_rel) == 1;
}

// Events of one request. The indices belong to the port and outlive a life of the request; the
// mask is chosen for each life while the ring is empty.
struct event_ring {
    struct token_event *event; // [mask + 1]
    struct sample_top *top;    // [mask + 1][SAMPLE_TOP_MAX], touched only where asked
    uint32_t mask;
    _Alignas(CACHE_LINE) _Atomic uint32_t head;     // written by the engine alone
    _Alignas(CACHE_LINE) _Atomic uint32_t tail;     // written by the reader alone
    _Alignas(CACHE_LINE) _Atomic uint32_t in_ready; // the number is on its way to the reader
    _Atomic uint32_t paused;                        // the engine waits for the reader to free room
};

// Engine: entries that are free now. Acquire: the reader is done with the entries it freed.
static inline uint32_t events_free(struct event_ring *ring)
{
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
    return ring->mask + 1 - (head - tail);
}

// Engine: the place of the next event, to be filled before events_publish.
static inline uint32_t events_place(struct event_ring *ring)
{
    check(events_free(ring) > 0, "an event ring of %u is over-full", ring->mask + 1);
    return atomic_load_explicit(&ring->head, memory_order_relaxed) & ring->mask;
}

// Engine: shows the event. Release: with it everything written before, the facts and results of
// the request among them. After a last event the request is the reader's.
static inline void events_publish(struct event_ring *ring)
{
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
}

// Reader: place of the oldest event, or false.
static inline bool events_peek(struct event_ring *ring, uint32_t *place)
{
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_acquire); // pairs with publish
    *place = tail & ring->mask;
    return head != tail;
}

// Reader: gives the entry back. Release: it was copied before.
static inline void events_take(struct event_ring *ring)
{
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
}
