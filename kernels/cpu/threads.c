// The thread pool; see threads.h. No barrier anywhere: the caller waits for chunks that were
// taken, never for threads. How chunks are taken: ticket.h.
#include "kernels/cpu/threads.h"

#include "kernels/cpu/groups.h"
#include "kernels/cpu/ticket.h"
#include "base/clock.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    POOL_THREADS_MAX = 1024,
    SPIN_NS = 60000,    // how long an idle worker stays awake
    SPIN_PAUSES = 4,    // between two looks at the ticket, about 0.2 microseconds
    CALLER_LOOKS = 200, // before the caller sleeps, too
};

struct worker {
    struct pool *pool;
    pthread_t thread;
    uint32_t number;
};

struct pool {
    struct ticket_box box;
    _Alignas(64) _Atomic uint32_t caller_sleeps;
    _Alignas(64) _Atomic uint32_t epoch; // futex word of the workers: raised by each job
    _Atomic uint32_t sleepers;
    _Atomic bool stop;
    pthread_mutex_t one_job; // callers in turn
    uint32_t threads;
    uint32_t started; // workers to join
    struct worker worker[];
};

static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static void pause_some(void)
{
    for (int i = 0; i < SPIN_PAUSES; i++)
        __builtin_ia32_pause();
}

// Takes and runs chunks until none is left.
static void pool_drain(struct pool *pool, uint32_t number)
{
    struct ticket_seen seen;
    while (ticket_look(&pool->box, &seen)) {
        ticket_read(&pool->box, &seen);
        if (!ticket_take(&pool->box, &seen))
            continue;
        seen.work(seen.job, ticket_chunk(&seen), number);
        if (ticket_finish(&pool->box) && atomic_load(&pool->caller_sleeps) != 0)
            futex_wake(&pool->box.unfinished, 1);
    }
}

static bool pool_has_work(struct pool *pool)
{
    return (uint32_t)atomic_load(&pool->box.ticket) != 0 || atomic_load(&pool->stop);
}

static void worker_wait(struct pool *pool)
{
    uint64_t until = clock_ns() + SPIN_NS;
    do {
        for (int i = 0; i < 32; i++) { // then a look at the clock
            if (pool_has_work(pool))
                return;
            pause_some();
        }
    } while (clock_ns() < until);
    // A publisher raises epoch, then reads sleepers; we raise sleepers, then read the ticket:
    // sequential consistency lets at least one of us see the other.
    uint32_t seen = atomic_load(&pool->epoch);
    atomic_fetch_add(&pool->sleepers, 1);
    if (!pool_has_work(pool))
        futex_wait(&pool->epoch, seen);
    atomic_fetch_sub(&pool->sleepers, 1);
}

static void *worker_main(void *argument)
{
    struct worker *worker = argument;
    struct pool *pool = worker->pool;
    while (!atomic_load(&pool->stop)) {
        worker_wait(pool);
        pool_drain(pool, worker->number);
    }
    return NULL;
}

static void caller_wait(struct pool *pool)
{
    for (int i = 0; i < CALLER_LOOKS; i++) {
        if (atomic_load_explicit(&pool->box.unfinished, memory_order_acquire) == 0)
            return;
        pause_some();
    }
    // The last worker lowers unfinished, then reads caller_sleeps; we do the reverse.
    atomic_store(&pool->caller_sleeps, 1);
    for (;;) {
        uint32_t left = atomic_load(&pool->box.unfinished);
        if (left == 0)
            break;
        futex_wait(&pool->box.unfinished, left);
    }
    atomic_store(&pool->caller_sleeps, 0);
}

void pool_run(struct pool *pool, pool_work *work, void *job, uint32_t chunks)
{
    if (chunks == 0)
        return;
    if (pool->threads == 1 || chunks == 1) {
        // no lock: scratch of worker 0 belongs to the calling stream
        for (uint32_t i = 0; i < chunks; i++)
            work(job, i, 0);
        return;
    }
    pthread_mutex_lock(&pool->one_job);
    ticket_fill(&pool->box, work, job, chunks);
    uint32_t number = atomic_load_explicit(&pool->epoch, memory_order_relaxed) + 1;
    ticket_publish(&pool->box, number, chunks);
    atomic_store(&pool->epoch, number);
    uint32_t sleepers = atomic_load(&pool->sleepers);
    if (sleepers > 0)
        futex_wake(&pool->epoch, (int)(chunks - 1 < sleepers ? chunks - 1 : sleepers));
    pool_drain(pool, 0);
    caller_wait(pool);
    pthread_mutex_unlock(&pool->one_job);
}

uint32_t pool_threads(const struct pool *pool)
{
    return pool->threads;
}

// Cores that this process may run on, and no more than its control groups pay for: threads beyond
// a quota spend it spinning and then all stand still together.
static uint32_t cores_usable(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t cores = online > 0 ? (uint32_t)online : 1;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        cores = (uint32_t)CPU_COUNT(&set);
    uint32_t paid = groups_cores(&groups_system);
    return paid < cores ? paid : cores;
}

enum status pool_open(struct pool **out, uint32_t threads, struct error *err)
{
    *out = NULL;
    if (threads == 0)
        threads = cores_usable();
    if (threads > POOL_THREADS_MAX)
        return error_set(err, STATUS_INVALID, "%u threads asked for, at most %u are possible",
                         threads, (unsigned)POOL_THREADS_MAX);
    size_t bytes = sizeof(struct pool) + threads * sizeof(struct worker);
    struct pool *pool = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
    if (!pool)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a pool of %u threads", threads);
    memset(pool, 0, bytes);
    pool->threads = threads;
    pthread_mutex_init(&pool->one_job, NULL);
    for (uint32_t i = 1; i < threads; i++) {
        struct worker *worker = &pool->worker[i];
        worker->pool = pool;
        worker->number = i;
        int failed = pthread_create(&worker->thread, NULL, worker_main, worker);
        if (failed != 0) {
            pool_close(pool);
            return error_set(err, STATUS_NO_ROOM, "thread %u of %u could not start: %s", i, threads,
                             strerror(failed));
        }
        pool->started = i;
        char name[16];
        snprintf(name, sizeof name, "weft-cpu-%u", i % 100000);
        pthread_setname_np(worker->thread, name);
    }
    *out = pool;
    return STATUS_OK;
}

void pool_close(struct pool *pool)
{
    if (!pool)
        return;
    atomic_store(&pool->stop, true);
    atomic_fetch_add(&pool->epoch, 1);
    futex_wake(&pool->epoch, POOL_THREADS_MAX);
    for (uint32_t i = 1; i <= pool->started; i++)
        pthread_join(pool->worker[i].thread, NULL);
    pthread_mutex_destroy(&pool->one_job);
    free(pool);
}
