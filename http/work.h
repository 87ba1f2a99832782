// Text workers: work over about a millisecond leaves the h2o loops. One ring pair per (h2o thread,
// worker), each single-producer single-consumer; the h2o thread alone submits, and gets back every
// exchange it gave.
//
// Bodies are sorted by size, each up to twice as large as the one before; each size has workers of
// its own, whose bodies go one after another. So many workers run at once as there are for small
// bodies (gate.h), and one less at most that have large ones. A large body is prepared in slices:
// after each the others get their turn. So nothing waits for the whole of a larger body, and no
// more bodies of a size are prepared at once than may run.
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

// Of so many workers, how many may have a large body at a time, and how many each size has.
static inline uint32_t work_large_count(uint32_t workers)
{
    return workers > 1 ? workers - 1 : 1;
}

struct work_options {
    uint32_t workers;            // for small bodies, and that run at once
    uint32_t sizes;              // up to that of the largest body
    uint32_t sides;              // h2o threads
    struct waker *const *wakers; // [sides] raised when a side has news
    // Called on a worker for each exchange submitted. slice: of a large one, else NULL.
    void (*run)(struct exchange *x, struct slice *slice);
};

enum status work_open(struct work_pool **out, const struct work_options *options,
                      struct error *err) MUST_USE;
void work_close(struct work_pool *pool); // nothing may be out
struct work_side *work_side(struct work_pool *pool, uint32_t index);
uint32_t work_waiting(struct work_pool *pool); // workers that have work and wait for their turn

// What one (h2o thread, worker) pair may hold at a time; the rest waits on the h2o thread's side.
enum { WORK_SMALL_MAX = 4, WORK_LARGE_MAX = 1 };

// h2o thread only. The worker to submit to; -1: none now, ask again when work_take has given
// something back.
int work_choose(const struct work_side *side, uint32_t size);
void work_submit(struct work_side *side, int worker, struct exchange *x);
struct exchange *work_take(struct work_side *side); // finished; NULL: none
uint32_t work_out(const struct work_side *side);    // submitted and not taken back
