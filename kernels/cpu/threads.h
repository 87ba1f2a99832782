// SPDX-License-Identifier: Apache-2.0
// The threads of a CPU device. threads_run cuts a job into chunks; the calling thread and the
// workers take chunks from one shared counter, so a worker that the operating system has
// descheduled takes none and delays no other thread. After a job workers spin for tens of
// microseconds, then sleep on a futex.
//
// Threads: any thread may call threads_run, except from inside a job. Jobs of several callers run
// one after the other; a job of one chunk, and every job if there is one thread, runs immediately
// on its caller.
#pragma once

#include "base/status.h"

#include <stdint.h>

struct threads;

// Runs one chunk of a job. worker: index below threads_count(); 0 is the caller of threads_run.
typedef void threads_work(void *job, uint32_t chunk, uint32_t worker);

// Starts count - 1 workers: count includes the caller. 0: as many as the cores that this process
// may use. INVALID for over 1024 threads, NO_MEMORY if one cannot be started.
enum status threads_open(struct threads **out, uint32_t count, struct error *err) MUST_USE;
void threads_close(struct threads *threads); // no job may run; NULL is allowed

uint32_t threads_count(const struct threads *threads);
// For tests: returns the number of jobs so far that ran on more than one thread.
uint32_t threads_jobs(const struct threads *threads);

// Runs work(job, i, worker) for each i below chunks; returns when all have returned.
void threads_run(struct threads *threads, threads_work *work, void *job, uint32_t chunks);
