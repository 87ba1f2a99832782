// SPDX-License-Identifier: Apache-2.0
// Text workers run jobs that take more than about a millisecond, so that these do not block the h2o
// threads. All but the grammar worker run at a lower priority than the h2o threads and the engines
// (base/priority.h). Each (h2o thread, worker) pair has a pair of rings, single producer and single
// consumer; only the h2o thread submits, and every exchange that it submits returns to it.
//
// Bodies are sorted into sizes, each up to twice as large as the one before. Each size has its own
// workers, which prepare one body after another. The gate (gate.h) lets as many workers run at a
// time as there are workers for small bodies, of which at most one less may have large bodies. A
// large body is prepared in slices; after each slice the waiting workers run first, so that no job
// waits for the whole of a larger body. Large answers that are written or measured have their own
// workers, so that a finished request does not wait for another request's body; otherwise they are
// treated as large bodies.
//
// One more worker compiles grammars, which takes up to a second and has no slices. It does not pass
// the gate, so that no text waits for it, and it has a larger stack, because a schema may be nested
// deeply.
#pragma once

#include "base/slice.h"
#include "base/waker.h"

#include <stdbool.h>
#include <stdint.h>

struct exchange;
struct work_pool;
struct work_side; // one h2o thread's part of the pool

enum {
    WORK_SMALL_BYTES = 1 << 20, // limit of small bodies; anything larger is large
    WORK_SIZES_MAX = 12,
    WORK_COMPILE = WORK_SIZES_MAX, // used in place of a size: the grammar worker
    WORK_ANSWER,                   // used in place of a size: the workers for large answers
    WORK_CLASSES,                  // number of sizes and of what is used in place of one
    WORK_COMPILE_STACK_BYTES = 16 << 20,
    WORK_SLICE = 1 << 18, // units of struct slice per slice: about 1.5 ms
};

// Returns the size index of a body: 0 is small, each further index is twice as large.
static inline uint32_t work_size(uint64_t bytes)
{
    uint32_t size = 0;
    while (size < WORK_SIZES_MAX - 1 && bytes > (uint64_t)WORK_SMALL_BYTES << size)
        size++;
    return size;
}

// Returns how many workers may have a large body at a time, out of `workers`. Each large size has
// this many workers, and so have answers.
static inline uint32_t work_large_count(uint32_t workers)
{
    return workers > 1 ? workers - 1 : 1;
}

// Returns the number of workers for small bodies on a machine with this many processors: 2 to 4. At
// least two, because one is reserved for small bodies.
static inline uint32_t work_count(uint32_t cores)
{
    enum { LEAST = 2, MOST = 4 };
    return cores < LEAST ? LEAST : cores > MOST ? MOST : cores;
}

struct work_options {
    uint32_t workers;            // number of workers for small bodies; as many may run at a time
    uint32_t sizes;              // number of body sizes
    uint32_t sides;              // number of h2o threads
    struct waker *const *wakers; // [sides] raised when finished exchanges wait for that side
    // Called on a worker for each submitted exchange. slice: not NULL for large bodies and answers.
    void (*run)(struct exchange *x, struct slice *slice);
};

enum status work_open(struct work_pool **out, const struct work_options *options,
                      struct error *err) MUST_USE;
void work_close(struct work_pool *pool); // every submitted exchange must have been returned
struct work_side *work_side(struct work_pool *pool, uint32_t index);
uint32_t work_waiting(struct work_pool *pool); // workers that have a job and wait at the gate

// Most exchanges that one (h2o thread, worker) pair may hold at a time; further ones wait in the
// h2o thread.
enum { WORK_SMALL_MAX = 4, WORK_LARGE_MAX = 1 };

// Functions for the h2o thread.
// Returns the worker to submit to. size: the result of work_size, WORK_COMPILE or WORK_ANSWER. -1:
// no worker of that class has space now; call again after work_pop has returned an exchange.
int work_choose(const struct work_side *side, uint32_t size);
void work_submit(struct work_side *side, int worker, struct exchange *x);
struct exchange *work_pop(struct work_side *side); // returns a finished exchange, or NULL
uint32_t work_out(const struct work_side *side);   // exchanges submitted and not yet returned
