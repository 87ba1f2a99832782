// Text workers do work that takes more than about a millisecond, so that it does not block the h2o
// loops; all but the grammar worker run at a lower priority than these and the engines
// (base/priority.h). One pair of rings per (h2o thread, worker), single-producer single-consumer;
// the h2o thread alone submits, and gets back every exchange it gave.
//
// Bodies are sorted by size, each size up to twice as large as the one before. Each size has
// workers of its own, which prepare one body after another. At most as many workers run at once as
// there are for small bodies (gate.h), at most one less with large ones. A large body is prepared
// in slices, and after each the other workers get their turn: nothing waits for the whole of a
// larger body. Large answers that are written or measured have workers of their own and are large
// bodies otherwise, so that a request that is computed does not wait for another's body.
//
// One more worker compiles grammars, which takes up to a second and has no slices. It is beside the
// gate, so that no text waits for it, and has a stack of its own size, because a schema may be
// nested deeply.
#pragma once

#include "base/slice.h"
#include "base/waker.h"

#include <stdbool.h>
#include <stdint.h>

struct exchange;
struct work_pool;
struct work_side; // of one h2o thread

enum {
    WORK_SMALL_BYTES = 1 << 20, // a larger body is a large one
    WORK_SIZES_MAX = 12,
    WORK_COMPILE = WORK_SIZES_MAX, // in place of a size: for the grammar thread
    WORK_ANSWER,                   // likewise: for large answers
    WORK_COMPILE_STACK_BYTES = 16 << 20,
    WORK_SLICE = 1 << 18, // of what struct slice counts: about a millisecond and a half
};

// The size of a body: 0 is small, each further one twice as large.
static inline uint32_t work_size(uint64_t bytes)
{
    uint32_t size = 0;
    while (size < WORK_SIZES_MAX - 1 && bytes > (uint64_t)WORK_SMALL_BYTES << size)
        size++;
    return size;
}

// How many of `workers` may have a large body at a time; also the number of workers of each large
// size, and of answers.
static inline uint32_t work_large_count(uint32_t workers)
{
    return workers > 1 ? workers - 1 : 1;
}

// How many workers so many processors are given: at least two, because one is reserved for small
// bodies.
static inline uint32_t work_count(uint32_t cores)
{
    enum { LEAST = 2, MOST = 4 };
    return cores < LEAST ? LEAST : cores > MOST ? MOST : cores;
}

struct work_options {
    uint32_t workers;            // for small bodies; as many run at once
    uint32_t sizes;              // number of body sizes
    uint32_t sides;              // h2o threads
    struct waker *const *wakers; // [sides] raised when a side has news
    // Called on a worker for each exchange submitted. slice: of a large one, else NULL.
    void (*run)(struct exchange *x, struct slice *slice);
};

enum status work_open(struct work_pool **out, const struct work_options *options,
                      struct error *err) MUST_USE;
void work_close(struct work_pool *pool); // nothing may be submitted and not taken back
struct work_side *work_side(struct work_pool *pool, uint32_t index);
uint32_t work_waiting(struct work_pool *pool); // workers that have work and wait for their turn

// What one (h2o thread, worker) pair may hold at a time; the rest waits in the h2o thread.
enum { WORK_SMALL_MAX = 4, WORK_LARGE_MAX = 1 };

// h2o thread only. The worker to submit to; -1: none now, ask again when work_take has given
// something back.
int work_choose(const struct work_side *side, uint32_t size);
void work_submit(struct work_side *side, int worker, struct exchange *x);
struct exchange *work_take(struct work_side *side); // finished; NULL: none
uint32_t work_out(const struct work_side *side);    // submitted and not taken back
