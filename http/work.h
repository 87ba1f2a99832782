// Text workers: work over about a millisecond leaves the h2o loops. One ring pair per (h2o thread,
// worker), each single-producer single-consumer; the h2o thread alone submits, and gets back every
// exchange it gave. The last of several workers takes no large work, so that small work never waits
// for large work, whatever is sent.
#pragma once

#include "base/waker.h"

#include <stdbool.h>
#include <stdint.h>

struct exchange;
struct work_pool;
struct work_side; // of one h2o thread

// run is called on a worker for each exchange submitted; wakers[i] is raised when side i has news.
enum status work_open(struct work_pool **out, uint32_t workers, uint32_t sides,
                      struct waker *const *wakers, void (*run)(struct exchange *x),
                      struct error *err) MUST_USE;
void work_close(struct work_pool *pool); // nothing may be out
struct work_side *work_side(struct work_pool *pool, uint32_t index);

// What one (h2o thread, worker) pair may hold at a time; the rest waits on the h2o thread's side.
enum { WORK_SMALL_MAX = 4, WORK_LARGE_MAX = 1 };

// h2o thread only. The worker to submit to; -1: none now, ask again when work_take has given
// something back.
int work_choose(const struct work_side *side, bool large);
void work_submit(struct work_side *side, int worker, struct exchange *x, bool large);
struct exchange *work_take(struct work_side *side); // finished; NULL: none
uint32_t work_out(const struct work_side *side);    // submitted and not taken back
