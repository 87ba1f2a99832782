// SPDX-License-Identifier: Apache-2.0
// A mask worker without a thread, linked in place of scheduler/mask_thread.c. Random numbers decide
// whether it works when jobs are posted or only when the engine waits for them: every order of the
// two occurs, and a run is reproducible. It also postpones rows without a reason.
#include "tests/sim/sim.h"

#include <string.h>

static struct dice worker_dice;
static uint64_t worker_ns;      // its clock: up to 4 s pass between two calls of mask_idle
static uint32_t worker_refuses; // percentage of masks that it postpones

void fake_worker_seed(uint64_t seed, uint32_t refuses)
{
    worker_dice.state = seed;
    worker_refuses = refuses;
}

static void work(struct mask_worker *w)
{
    uint32_t at = atomic_load(&w->ring.tail), end = atomic_load(&w->ring.head);
    mask_work(w);
    for (; at != end; at++) {
        const struct mask_job *job = &w->job[at & w->ring.mask];
        if (!job->words || job->sequence >= MASK_EVERY || !chance(&worker_dice, worker_refuses))
            continue;
        w->verdict[job->row] = MASK_POSTPONED;
        memset(job->words, 0, w->words * sizeof *job->words);
    }
}

enum status mask_thread_open(struct mask_worker *w, struct error *err)
{
    (void)w, (void)err;
    return STATUS_OK;
}

void mask_thread_close(struct mask_worker *w)
{
    (void)w;
}

static void look(struct mask_worker *w)
{
    worker_ns += 1000000000u * roll(&worker_dice, 5);
    mask_idle(w, worker_ns);
}

void mask_thread_post(struct mask_worker *w)
{
    if (chance(&worker_dice, 40))
        work(w);
    if (chance(&worker_dice, 40))
        look(w);
}

void mask_thread_wait(struct mask_worker *w)
{
    work(w);
    look(w);
}
