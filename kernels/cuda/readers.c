// SPDX-License-Identifier: Apache-2.0
// Threads that read weights: a piece of a file is divided among them and the loading thread, so
// that a disk gets several requests at once. The loading thread posts a piece and waits for its
// end; between two pieces the threads sleep.
#include "kernels/cuda/readers.h"

#include "base/futex.h"

#include <pthread.h>
#include <stdlib.h>

struct readers {
    uint32_t parts, started; // threads, the loading thread included; those started
    bool ending;             // true: threads end; set before `posted` is raised the last time
    void (*run)(void *context, uint32_t part, uint32_t parts);
    void *context;
    // seq_cst, because base/futex.h asks for it: a thread would miss a piece, or its end
    _Atomic uint32_t posted, posted_sleepers; // pieces posted so far
    _Atomic uint32_t left, left_sleepers;     // threads that have not ended their part
    struct reading_thread {
        struct readers *all;
        pthread_t thread;
    } readers[READERS - 1];
};

static void *reader_main(void *argument)
{
    struct reading_thread *r = argument;
    struct readers *all = r->all;
    uint32_t part = 1 + (uint32_t)(r - all->readers);
    for (uint32_t seen = 0;; seen++) {
        futex_await(&all->posted, seen, &all->posted_sleepers);
        if (all->ending)
            return NULL;
        all->run(all->context, part, all->parts);
        if (atomic_fetch_sub(&all->left, 1) == 1)
            futex_notify(&all->left, &all->left_sleepers);
    }
}

static uint32_t parts_of(uint32_t ranks)
{
    uint32_t share = READERS_ALL / (ranks > 0 ? ranks : 1);
    return share < READERS ? share : READERS;
}

static struct readers *readers_open(uint32_t parts)
{
    struct readers *all = calloc(1, sizeof *all);
    if (all)
        all->parts = parts;
    for (; all && all->started < parts - 1; all->started++) {
        struct reading_thread *r = &all->readers[all->started];
        r->all = all;
        if (pthread_create(&r->thread, NULL, reader_main, r) != 0)
            break;
        pthread_setname_np(r->thread, "weft-reader");
    }
    return all;
}

static void piece_post(struct readers *all)
{
    atomic_store(&all->left, all->started);
    atomic_fetch_add(&all->posted, 1);
    futex_notify(&all->posted, &all->posted_sleepers);
}

void readers_run(struct readers **readers, uint32_t ranks,
                 void (*run)(void *context, uint32_t part, uint32_t parts), void *context)
{
    uint32_t parts = parts_of(ranks);
    struct readers *all = *readers = *readers ? *readers : readers_open(parts);
    uint32_t started = all ? all->started : 0;
    if (started > 0) {
        all->run = run;
        all->context = context;
        piece_post(all);
    }
    run(context, 0, parts);
    for (uint32_t part = 1 + started; part < parts; part++)
        run(context, part, parts);
    for (uint32_t left; started > 0 && (left = atomic_load(&all->left)) > 0;)
        futex_await(&all->left, left, &all->left_sleepers);
}

void readers_close(struct readers *readers)
{
    if (!readers)
        return;
    readers->ending = true;
    piece_post(readers);
    for (uint32_t i = 0; i < readers->started; i++)
        pthread_join(readers->readers[i].thread, NULL);
    free(readers);
}
