// A mask worker without a thread, linked in place of scheduler/mask_thread.c. It works when jobs
// are posted or only when the engine waits for them, as its dice say, so that a run has every order
// of the two and is the same each time.
#include "tests/sim/sim.h"

static struct dice worker_dice;
static uint64_t worker_ns; // seconds pass between two looks

void fake_worker_seed(uint64_t seed)
{
    worker_dice.state = seed;
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
        mask_work(w);
    if (chance(&worker_dice, 40))
        look(w);
}

void mask_thread_wait(struct mask_worker *w)
{
    mask_work(w);
    look(w);
}
