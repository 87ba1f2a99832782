// SPDX-License-Identifier: Apache-2.0
// The threads of a CPU device; see threads.h. There is no barrier: the caller waits for the chunks
// of its job, not for threads. ticket.h describes how threads take chunks.
#include "kernels/cpu/threads.h"

#include "kernels/cpu/cgroups.h"
#include "kernels/cpu/ticket.h"
#include "base/clock.h"
#include "base/futex.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    THREADS_MAX = 1024,
    CALLER_LOOKS = 200, // times the caller polls before it sleeps
};

struct worker {
    struct threads *threads;
    pthread_t thread;
    uint32_t number;
};

struct threads {
    struct ticket_box box;
    _Alignas(64) _Atomic uint32_t caller_sleeps;
    _Alignas(64) _Atomic uint32_t epoch; // futex word of the workers; incremented by each job
    _Atomic uint32_t sleepers;
    _Atomic bool stop;
    pthread_mutex_t one_job; // held by the caller whose job runs
    uint32_t count;
    uint32_t started; // number of workers to join
    struct worker worker[];
};

// Takes and runs chunks until none is left.
static void threads_drain(struct threads *threads, uint32_t number)
{
    struct ticket_seen seen;
    while (ticket_load(&threads->box, &seen)) {
        ticket_read(&threads->box, &seen);
        if (!ticket_claim(&threads->box, &seen))
            continue;
        seen.work(seen.job, ticket_chunk(&seen), number);
        if (ticket_finish(&threads->box) && atomic_load(&threads->caller_sleeps) != 0)
            futex_wake(&threads->box.unfinished, 1);
    }
}

static bool threads_has_work(struct threads *threads)
{
    return (uint32_t)atomic_load(&threads->box.ticket) != 0 || atomic_load(&threads->stop);
}

static void worker_wait(struct threads *threads)
{
    uint64_t until = clock_ns() + SPIN_NS;
    do {
        for (int i = 0; i < SPIN_CHECKS; i++) {
            if (threads_has_work(threads))
                return;
            pause_some();
        }
    } while (clock_ns() < until);
    // A caller publishes its job and increments epoch, then reads sleepers; this worker increments
    // sleepers, then reads the ticket. Sequential consistency lets at least one of them see the
    // other.
    uint32_t seen = atomic_load(&threads->epoch);
    atomic_fetch_add(&threads->sleepers, 1);
    if (!threads_has_work(threads))
        futex_wait(&threads->epoch, seen);
    atomic_fetch_sub(&threads->sleepers, 1);
}

static void *worker_main(void *argument)
{
    struct worker *worker = argument;
    struct threads *threads = worker->threads;
    while (!atomic_load(&threads->stop)) {
        worker_wait(threads);
        threads_drain(threads, worker->number);
    }
    return NULL;
}

static void caller_wait(struct threads *threads)
{
    for (int i = 0; i < CALLER_LOOKS; i++) {
        if (atomic_load_explicit(&threads->box.unfinished, memory_order_acquire) == 0)
            return;
        pause_some();
    }
    // The last worker lowers unfinished, then reads caller_sleeps; this thread does the reverse.
    // Sequential consistency lets at least one of them see the other.
    atomic_store(&threads->caller_sleeps, 1);
    for (;;) {
        uint32_t left = atomic_load(&threads->box.unfinished);
        if (left == 0)
            break;
        futex_wait(&threads->box.unfinished, left);
    }
    atomic_store(&threads->caller_sleeps, 0);
}

void threads_run(struct threads *threads, threads_work *work, void *job, uint32_t chunks)
{
    if (chunks == 0)
        return;
    if (threads->count == 1 || chunks == 1) {
        // no lock needed: the scratch of worker 0 belongs to the calling stream
        for (uint32_t i = 0; i < chunks; i++)
            work(job, i, 0);
        return;
    }
    pthread_mutex_lock(&threads->one_job);
    ticket_fill(&threads->box, work, job, chunks);
    uint32_t number = atomic_load_explicit(&threads->epoch, memory_order_relaxed) + 1;
    ticket_publish(&threads->box, number, chunks);
    atomic_store(&threads->epoch, number);
    uint32_t sleepers = atomic_load(&threads->sleepers);
    if (sleepers > 0)
        futex_wake(&threads->epoch, (int)(chunks - 1 < sleepers ? chunks - 1 : sleepers));
    threads_drain(threads, 0);
    caller_wait(threads);
    pthread_mutex_unlock(&threads->one_job);
}

uint32_t threads_count(const struct threads *threads)
{
    return threads->count;
}

uint32_t threads_jobs(const struct threads *threads)
{
    return atomic_load(&threads->epoch);
}

enum status threads_open(struct threads **out, uint32_t count, struct error *err)
{
    *out = NULL;
    if (count == 0)
        count = cgroups_cores_usable(&cgroups_system);
    if (count > THREADS_MAX)
        return error_set(err, STATUS_INVALID, "--threads %u: at most %u are possible", count,
                         (unsigned)THREADS_MAX);
    size_t bytes = sizeof(struct threads) + count * sizeof(struct worker);
    struct threads *threads = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
    if (!threads)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %u threads", count);
    memset(threads, 0, bytes);
    threads->count = count;
    pthread_mutex_init(&threads->one_job, NULL);
    for (uint32_t i = 1; i < count; i++) {
        struct worker *worker = &threads->worker[i];
        worker->threads = threads;
        worker->number = i;
        int failed = pthread_create(&worker->thread, NULL, worker_main, worker);
        if (failed != 0) {
            threads_close(threads);
            return error_thread(err, failed, "thread %u of %u of the cpu device", i, count);
        }
        threads->started = i;
        char name[16];
        snprintf(name, sizeof name, "weft-cpu-%u", i % 100000);
        pthread_setname_np(worker->thread, name);
    }
    *out = threads;
    return STATUS_OK;
}

void threads_close(struct threads *threads)
{
    if (!threads)
        return;
    atomic_store(&threads->stop, true);
    atomic_fetch_add(&threads->epoch, 1);
    futex_wake(&threads->epoch, THREADS_MAX);
    for (uint32_t i = 1; i <= threads->started; i++)
        pthread_join(threads->worker[i].thread, NULL);
    pthread_mutex_destroy(&threads->one_job);
    free(threads);
}
