// SPDX-License-Identifier: Apache-2.0
// See rank_load.h. Ranks that share a device's threads (cpu) load one after another: each uses all
// of these threads. Ranks on GPUs load at the same time: a thread per rank reads, decodes and
// copies the rank's part. Their reader and compute threads are divided among the ranks.
#include "runtime/model/rank_load.h"

#include "kernels/cpu/cgroups.h"

#include <pthread.h>
#include <string.h>

struct ranks_loading {
    const struct rank_load_args *args;
    uint64_t total; // bytes of all ranks
    pthread_mutex_t lock;
    uint64_t done;        // bytes loaded; guarded by `lock`
    uint32_t threads;     // threads with which a rank computes rows; 0: all
    _Atomic bool stopped; // true: a rank has failed, the others end
    struct rank_loading {
        struct ranks_loading *all;
        struct model *model;
        const struct model_plan *plan;
        uint64_t done; // bytes loaded by this rank
        pthread_t thread;
        bool started;
        enum status status;
        struct error err;
    } ranks[RANKS_MAX];
};

static void rank_progress(void *context, uint64_t done)
{
    struct rank_loading *r = context;
    struct ranks_loading *all = r->all;
    pthread_mutex_lock(&all->lock);
    all->done += done - r->done;
    r->done = done;
    if (all->args->progress)
        all->args->progress(all->args->context, all->done, all->total);
    pthread_mutex_unlock(&all->lock);
}

// Uses the packed weights of the model of options.copy_of; they are read-only, so models on one
// device can share them.
static void weights_share(struct model *m, const struct model_parts *parts)
{
    const struct model_parts *first = parts->options.copy_of->parts;
    uint32_t count = parts->weights.table_count;
    check(first->model && first->device == m->device && first->weights.table_count == count,
          "the weights of another model");
    memcpy(m->weights, first->model->weights, count * sizeof *m->weights);
}

static enum status rank_weights_load(struct rank_loading *r)
{
    struct model *m = r->model;
    struct model_parts *parts = r->plan->parts;
    const struct weight_load_args args = {
        .api = m->api,
        .device = m->device,
        .memory = m->weights_memory,
        .threads = r->all->threads,
        .progress = rank_progress,
        .context = r,
        .stopped = &r->all->stopped,
    };
    enum status status = STATUS_OK;
    atomic_store(&parts->busy, true);
    if (parts->options.copy_of)
        weights_share(m, parts);
    else
        status = weights_load(m->weights, &parts->weights, &args, &r->err);
    if (m->weights[MODEL_HEAD].shape.n == 0) // tied: the head is the embedding table
        m->weights[MODEL_HEAD] = m->weights[MODEL_EMBED];
    if (status != STATUS_OK)
        atomic_store(&r->all->stopped, true);
    atomic_store(&parts->busy, false);
    return status;
}

static void *rank_main(void *argument)
{
    struct rank_loading *r = argument;
    r->status = rank_weights_load(r);
    return NULL;
}

// Loads all ranks but the first on threads; those without one are left to this thread.
static void ranks_start(struct ranks_loading *all)
{
    uint32_t cores = cgroups_cores_usable(&cgroups_system), count = all->args->count;
    all->threads = cores > count ? cores / count : 1;
    for (uint32_t i = 1; i < count; i++) {
        struct rank_loading *r = &all->ranks[i];
        r->started = pthread_create(&r->thread, NULL, rank_main, r) == 0;
        if (r->started)
            pthread_setname_np(r->thread, "weft-load");
    }
}

enum status ranks_load(const struct rank_load_args *args, struct error *err)
{
    struct ranks_loading *all = heap_alloc_zeroed(1, sizeof *all);
    const struct rank_loading *failed = NULL;
    all->args = args;
    pthread_mutex_init(&all->lock, NULL);
    for (uint32_t i = 0; i < args->count; i++) {
        all->ranks[i].all = all;
        all->ranks[i].model = args->models[i];
        all->ranks[i].plan = args->plans[i];
        all->total += args->plans[i]->parts->weights.load_bytes;
    }
    if (args->count > 1 && !args->models[0]->api->threads)
        ranks_start(all);
    for (uint32_t i = 0; i < args->count; i++)
        if (!all->ranks[i].started && !atomic_load(&all->stopped))
            rank_main(&all->ranks[i]);
    for (uint32_t i = 0; i < args->count; i++)
        if (all->ranks[i].started)
            pthread_join(all->ranks[i].thread, NULL);
    for (uint32_t i = args->count; i-- > 0;)
        if (all->ranks[i].status != STATUS_OK && all->ranks[i].status != STATUS_UNWANTED)
            failed = &all->ranks[i];
    enum status status = failed ? failed->status : STATUS_OK;
    if (failed)
        *err = failed->err;
    pthread_mutex_destroy(&all->lock);
    heap_free(all);
    return status;
}
