// SPDX-License-Identifier: Apache-2.0
// The thread of the mask worker. Both sides sleep on wakers: the worker until jobs are posted, the
// engine until they are done. tests/sim replaces this file and works without a thread.
#include "scheduler/masks.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/waker.h"

#include <pthread.h>
#include <string.h>

enum { LOOK_MS = 10000 }; // 10 s between two checks for unused caches

struct mask_thread {
    struct mask_worker *worker;
    struct waker *posted, *done;
    _Atomic uint32_t ends; // 1: the thread ends; set before the last wake
    pthread_t thread;
};

static void *worker_main(void *context)
{
    struct mask_thread *t = context;
    // Relaxed: the waker orders the store before this load.
    while (!atomic_load_explicit(&t->ends, memory_order_relaxed)) {
        mask_work(t->worker);
        waker_raise(t->done);
        bool idle = mask_idle(t->worker, clock_ns());
        waker_wait(t->posted, idle ? LOOK_MS : -1);
    }
    return NULL;
}

enum status mask_thread_open(struct mask_worker *w, struct error *err)
{
    struct mask_thread *t = heap_alloc_zeroed(1, sizeof *t);
    t->worker = w;
    enum status status = waker_open(&t->posted, err);
    if (status == STATUS_OK)
        status = waker_open(&t->done, err);
    int failed = status == STATUS_OK ? pthread_create(&t->thread, NULL, worker_main, t) : 0;
    if (failed != 0)
        status = error_thread(err, failed, "the thread for masks");
    if (status == STATUS_OK) {
        w->thread = t;
        return STATUS_OK;
    }
    waker_close(t->posted);
    waker_close(t->done);
    heap_free(t);
    return status;
}

void mask_thread_close(struct mask_worker *w)
{
    struct mask_thread *t = w->thread;
    if (!t)
        return;
    atomic_store_explicit(&t->ends, 1, memory_order_relaxed);
    waker_raise(t->posted);
    pthread_join(t->thread, NULL);
    waker_close(t->posted);
    waker_close(t->done);
    heap_free(t);
    w->thread = NULL;
}

void mask_thread_post(struct mask_worker *w)
{
    waker_raise(w->thread->posted);
}

// `done` may still be raised from an earlier step, so the ring is checked after each wake.
void mask_thread_wait(struct mask_worker *w)
{
    while (masks_pending(w))
        waker_wait(w->thread->done, -1);
}
