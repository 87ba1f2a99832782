// SPDX-License-Identifier: Apache-2.0
// See load_watch.h. The thread runs while one model is loaded.
#include "cli/load_watch.h"

#include "cli/load_memory.h"
#include "cli/signals.h"
#include "base/futex.h"
#include "base/patience.h"
#include "runtime/model/link.h"

static _Noreturn void no_progress_fail(const struct load_watch *watch)
{
    const struct loaded_model *m = watch->model;
    uint32_t rank = model_plan_loading(m->plan);
    bool known = gpu_count(m) > 1 && rank < gpu_count(m);
    struct error err;
    if (m->link && rank >= m->link->count)
        error_set(
            &err, STATUS_TIMEOUT,
            "model '%s': the ranks of all nodes were not joined within %.1f s after this node "
            "had loaded its own: the logs of the other nodes show how far they are%s",
            m->spec.id, (double)watch->patience_ns * 1e-9,
            is_split_over_gpus(m) ? ", and NCCL_DEBUG=INFO shows the connections of NCCL, "
                                    "which a firewall may block"
                                  : "");
    else
        error_set(
            &err, STATUS_TIMEOUT,
            "model '%s': on %s nothing has been loaded for %.1f s: the device, its driver or the "
            "disk with the files hangs",
            m->spec.id, known ? m->choices[rank]->label : m->label,
            (double)watch->patience_ns * 1e-9);
    start_failed(&err);
}

static void *watch_main(void *argument)
{
    struct load_watch *watch = argument;
    struct patience patience = patience_of(watch->patience_ns);
    for (uint32_t seen = 0; atomic_load(&watch->over) == 0;) {
        uint32_t signs = atomic_load(&watch->signs);
        if (signs != seen)
            patience = patience_of(watch->patience_ns);
        else if (patience_ends(&patience))
            no_progress_fail(watch);
        seen = signs;
        futex_sleep(&watch->over, 0, &watch->over_sleepers, patience_next(&patience));
    }
    return NULL;
}

void load_watch_begin(struct load_watch *watch, const struct loaded_model *model, uint64_t start_ns)
{
    // time limit of the warm-up steps, which name a failed rank
    uint64_t steps_ns = start_ns > 0 ? start_ns : MODEL_START_NS;
    *watch = (struct load_watch){.model = model, .patience_ns = 5 * steps_ns};
    watch->running = pthread_create(&watch->thread, NULL, watch_main, watch) == 0;
}

void load_watch_sign(struct load_watch *watch)
{
    atomic_fetch_add(&watch->signs, 1);
}

void load_watch_end(struct load_watch *watch)
{
    atomic_store(&watch->over, 1);
    futex_notify(&watch->over, &watch->over_sleepers);
    if (watch->running)
        pthread_join(watch->thread, NULL);
}
