// The thread pool of a CPU device. pool_run cuts a job into chunks; the calling thread and the
// workers take chunks from one shared counter, so a worker that the system keeps off its core
// takes none and nobody waits for it. Workers spin for tens of microseconds after a job, then
// sleep on a futex.
//
// Threads: any thread may call pool_run; jobs of several callers run one after the other.
#pragma once

#include "base/status.h"

#include <stdint.h>

struct pool;

// One chunk of a job. worker: 0 is the caller, below pool_threads().
typedef void pool_work(void *job, uint32_t chunk, uint32_t worker);

// threads counts the caller; 0: all cores this process may use.
enum status pool_open(struct pool **out, uint32_t threads, struct error *err) MUST_USE;
void pool_close(struct pool *pool);

uint32_t pool_threads(const struct pool *pool);

// Runs work(job, i, worker) for each i below chunks; returns when all have returned.
void pool_run(struct pool *pool, pool_work *work, void *job, uint32_t chunks);
