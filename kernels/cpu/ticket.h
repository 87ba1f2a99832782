// SPDX-License-Identifier: Apache-2.0
// The protocol by which threads share the chunks of a job, as single steps: threads.c uses them,
// and tests/kernels/test_ticket.c runs them in every order.
//
//   ticket = (job number << 32) | chunks not taken yet
//
// A thread takes a chunk by lowering the ticket with compare-and-swap. The job's fields are written
// only while the ticket counts 0 chunks, and a swap succeeds only if the job number is unchanged,
// so fields read before a successful swap belong to that job. Without the job number a late worker
// could run an old function on a new job.
#pragma once

#include "kernels/cpu/threads.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct ticket_box {
    _Alignas(64) _Atomic uint64_t ticket;
    _Atomic(threads_work *) work;
    _Atomic(void *) job;
    _Atomic uint32_t chunks;
    _Alignas(64) _Atomic uint32_t unfinished; // chunks of the job that have not returned
};

struct ticket_seen { // what one thread has read of the box
    uint64_t ticket;
    threads_work *work;
    void *job;
    uint32_t chunks;
};

// Called by the caller of threads_run once the previous job has no unfinished chunk.
static inline void ticket_fill(struct ticket_box *box, threads_work *work, void *job,
                               uint32_t chunks)
{
    atomic_store_explicit(&box->work, work, memory_order_relaxed);
    atomic_store_explicit(&box->job, job, memory_order_relaxed);
    atomic_store_explicit(&box->chunks, chunks, memory_order_relaxed);
    atomic_store_explicit(&box->unfinished, chunks, memory_order_relaxed);
}

// Offers the chunks of a filled job to all threads. number: the job's number, another one for each
// job.
static inline void ticket_publish(struct ticket_box *box, uint32_t number, uint32_t chunks)
{
    atomic_store(&box->ticket, (uint64_t)number << 32 | chunks);
}

// Reads the ticket. Returns false if no chunk is left.
static inline bool ticket_load(struct ticket_box *box, struct ticket_seen *seen)
{
    // acquire: the fields were written before this ticket
    seen->ticket = atomic_load_explicit(&box->ticket, memory_order_acquire);
    return (uint32_t)seen->ticket != 0;
}

// Reads the job's fields. They belong to the ticket only if ticket_claim succeeds afterwards.
static inline void ticket_read(struct ticket_box *box, struct ticket_seen *seen)
{
    seen->work = atomic_load_explicit(&box->work, memory_order_relaxed);
    seen->job = atomic_load_explicit(&box->job, memory_order_relaxed);
    seen->chunks = atomic_load_explicit(&box->chunks, memory_order_relaxed);
}

// Tries to take a chunk. Returns true if chunk ticket_chunk() is the calling thread's; false, also
// without a reason: begin again with ticket_load.
static inline bool ticket_claim(struct ticket_box *box, struct ticket_seen *seen)
{
    uint64_t ticket = seen->ticket;
    return atomic_compare_exchange_weak_explicit(&box->ticket, &ticket, ticket - 1,
                                                 memory_order_acquire, memory_order_relaxed);
}

static inline uint32_t ticket_chunk(const struct ticket_seen *seen)
{
    return seen->chunks - (uint32_t)seen->ticket;
}

// Counts a chunk as returned. Returns true if it was the last one of the job.
static inline bool ticket_finish(struct ticket_box *box)
{
    // Sequentially consistent: the caller must see what the chunk wrote, and either the caller sees
    // this count or the finishing thread sees caller_sleeps (threads.c).
    return atomic_fetch_sub(&box->unfinished, 1) == 1;
}
