// Several ranks behind one model: the engine's thread is rank 0, each other rank has a thread of
// its own, which waits for the next job, does it on its rank's model and tells that it is done. A
// job is a launch or a sampling; rank 0 does its part and then waits for all, so that a batch may
// be reused when model_launch returns. What ranks exchange in between are the collectives of the
// forward pass (kernels/collective.h). Each rank samples whole rows with the same keys, and their
// results are compared at every step. A rank that fails ends the communicator, so that none waits
// for it: the error of the first that failed is the step's.
#include "runtime/model/group.h"

#include "base/arena.h"
#include "base/futex.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum job_kind { JOB_LAUNCH, JOB_SAMPLE, JOB_END };

struct job {
    enum job_kind kind;
    struct batch *batch;
    const uint32_t *masks;
    uint32_t mask_count;
};

struct group_rank {
    struct model_group *group;
    struct model *model;
    pthread_t thread; // of all but the first
    struct error err; // of the last job that failed
    enum status status;
};

struct model_group {
    const struct device_api *api;
    struct comm *comm;
    uint32_t size, started; // ranks; threads to join, and rank 0
    struct job job;
    _Atomic uint32_t posted; // jobs so far
    _Atomic uint32_t posted_sleepers;
    _Atomic uint32_t left; // ranks that are not done with the job
    _Atomic uint32_t left_sleepers;
    _Atomic uint32_t failed; // 1 + the first rank that failed, or 0
    struct group_rank ranks[RANKS_MAX];
};

static void job_do(struct group_rank *r, const struct job *job)
{
    struct model_group *group = r->group;
    r->status = job->kind == JOB_LAUNCH
                    ? rank_launch(r->model, job->batch, &r->err)
                    : rank_sample(r->model, job->masks, job->mask_count, &r->err);
    if (r->status == STATUS_OK)
        return;
    uint32_t none = 0;
    atomic_compare_exchange_strong(&group->failed, &none, 1 + (uint32_t)(r - group->ranks));
    group->api->comm_abort(group->comm);
}

static void *rank_main(void *argument)
{
    struct group_rank *r = argument;
    struct model_group *group = r->group;
    for (uint32_t done = 0;; done++) {
        futex_await(&group->posted, done, &group->posted_sleepers);
        if (group->job.kind == JOB_END)
            return NULL;
        job_do(r, &group->job);
        atomic_fetch_sub(&group->left, 1);
        futex_tell(&group->left, &group->left_sleepers);
    }
}

static void job_post(struct model_group *group, const struct job *job)
{
    group->job = *job;
    atomic_store(&group->left, group->size - 1);
    atomic_fetch_add(&group->posted, 1);
    futex_tell(&group->posted, &group->posted_sleepers);
}

// Returns when all ranks are done.
static enum status job_run(struct model_group *group, const struct job *job, struct error *err)
{
    job_post(group, job);
    job_do(&group->ranks[0], job);
    for (uint32_t left; (left = atomic_load(&group->left)) > 0;)
        futex_await(&group->left, left, &group->left_sleepers);
    uint32_t failed = atomic_load(&group->failed);
    if (failed == 0)
        return STATUS_OK;
    const struct group_rank *r = &group->ranks[failed - 1];
    *err = r->err;
    error_prefix(err, "rank %u of %u", failed - 1, group->size);
    return r->status;
}

enum status group_launch(struct model_group *group, struct batch *batch, struct error *err)
{
    return job_run(group, &(struct job){.kind = JOB_LAUNCH, .batch = batch}, err);
}

enum status group_sample(struct model_group *group, const uint32_t *masks, uint32_t count,
                         struct error *err)
{
    struct job job = {.kind = JOB_SAMPLE, .masks = masks, .mask_count = count};
    return job_run(group, &job, err);
}

// Ranks that computed the same have the same bits.
static bool outputs_equal(const struct model *m, const struct model_output *a,
                          const struct model_output *b)
{
    if (a->step != b->step || a->count != b->count)
        return false;
    if (m->facts.kind == MODEL_GENERATOR)
        return memcmp(a->results, b->results, a->count * sizeof *a->results) == 0;
    return memcmp(a->values, b->values,
                  (size_t)a->count * m->facts.output_width * sizeof *a->values) == 0;
}

enum status group_collect(struct model_group *group, struct model_output *out, uint64_t deadline_ns,
                          struct error *err)
{
    struct model_output other;
    enum status status = rank_collect(group->ranks[0].model, out, deadline_ns, err);
    for (uint32_t r = 1; r < group->size && status == STATUS_OK; r++) {
        status = rank_collect(group->ranks[r].model, &other, deadline_ns, err);
        if (status == STATUS_OK && !outputs_equal(group->ranks[0].model, out, &other))
            status = error_set(err, STATUS_DEVICE_FAULT,
                               "rank %u of %u has other results than rank 0 in step %llu", r,
                               group->size, (unsigned long long)out->step);
    }
    return status;
}

static enum status threads_start(struct model_group *group, struct error *err)
{
    for (group->started = 1; group->started < group->size; group->started++) {
        struct group_rank *r = &group->ranks[group->started];
        int failed = pthread_create(&r->thread, NULL, rank_main, r);
        if (failed != 0)
            return error_set(err, STATUS_NO_ROOM, "the thread of rank %u could not start: %s",
                             group->started, strerror(failed));
        char name[16];
        snprintf(name, sizeof name, "weft-rank-%u", group->started % 100);
        pthread_setname_np(r->thread, name);
    }
    return STATUS_OK;
}

enum status group_open(struct model *first, const struct model_plan *plan,
                       const struct weight_load_args *load, struct error *err)
{
    struct model_group *group = heap_take_zeroed(1, sizeof *group);
    struct stream *streams[RANKS_MAX] = {first->stream};
    enum status status = STATUS_OK;
    first->group = group;
    group->api = first->api;
    group->size = first->sizes.ranks;
    group->ranks[0] = (struct group_rank){.group = group, .model = first};
    for (uint32_t r = 1; r < group->size && status == STATUS_OK; r++) {
        const struct model_plan *other = plan->parts->others[r];
        uint64_t kv_bytes = other->facts.block_bytes * first->facts.block_count;
        group->ranks[r].group = group;
        status =
            model_open(&group->ranks[r].model, other, kv_bytes, load->progress, load->context, err);
        if (status == STATUS_OK)
            streams[r] = group->ranks[r].model->stream;
    }
    if (status == STATUS_OK)
        status = group->api->comm_open(&group->comm, streams, group->size, err);
    return status == STATUS_OK ? threads_start(group, err) : status;
}

void group_close(struct model_group *group)
{
    if (!group)
        return;
    if (group->started > 0)
        job_post(group, &(struct job){.kind = JOB_END});
    for (uint32_t r = 1; r < group->started; r++)
        pthread_join(group->ranks[r].thread, NULL);
    if (group->comm)
        group->api->comm_close(group->comm);
    for (uint32_t r = 1; r < group->size; r++)
        model_close(group->ranks[r].model);
    heap_give(group);
}
