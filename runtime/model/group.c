// SPDX-License-Identifier: Apache-2.0
// Several ranks that share one model. Each rank has a thread, which waits for the next job,
// executes it on the rank's model and signals completion. A job is a launch, a sampling or, during
// model_open, a part of the start; the engine's thread posts it and sleeps until all ranks are
// done. The ranks exchange data only in the collectives of the forward pass (kernels/collective.h).
// Each rank samples complete rows with the same random keys, and their results are compared in
// every step.
//
// A rank that fails aborts the communicator, so that no rank waits for it; the error of the first
// rank that failed is the error of the step. If a rank hangs or is late, the engine's thread aborts
// the communicator, returns an error and touches nothing that the late rank may still use. No job
// is posted after a failure.
//
// If other processes hold ranks too (link.h), the group of node 0 sends each launch and sampling to
// them, and collects the hashes of their results. A failure on one node is reported to the others.
#include "runtime/model/group.h"

#include "base/arena.h"
#include "base/futex.h"
#include "base/patience.h"
#include "kernels/collective.h"
#include "runtime/model/link.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

// Time in which the ranks must return from the communicator that is aborted because a node is lost.
#define LOST_NS 3000000000u

enum job_kind { JOB_TUNE, JOB_WARM, JOB_RECORD, JOB_LAUNCH, JOB_SAMPLE };

struct job {
    enum job_kind kind;
    uint32_t mask_count;
    const uint32_t *masks;
};

struct group_rank {
    struct model_group *group;
    struct model *model;
    pthread_t thread;
    struct error err; // error of the job that failed
    enum status status;
    _Atomic uint32_t done; // number of jobs that this rank has finished
};

struct model_group {
    const struct device_api *api;
    struct comm *comm;
    const char *const *names;      // names of the ranks' devices, or NULL
    const struct model_link *link; // link to the ranks of other processes, or NULL
    uint64_t deadline_ns;          // time limit of a job
    uint32_t size, started;        // number of ranks here; number of threads to join
    struct batch *batch;           // batch of the current step; a late rank may read it at any time
    struct job job;
    enum status status; // status of the first job that failed; no further jobs then
    struct error err;
    uint32_t failed_rank;    // rank whose device failed; `size`: not known
    _Atomic bool ending;     // true: threads end; set before `posted` is raised the last time
    _Atomic uint32_t posted; // number of jobs posted so far
    _Atomic uint32_t posted_sleepers;
    _Atomic uint32_t left; // number of ranks that have not finished the job
    _Atomic uint32_t left_sleepers;
    _Atomic uint32_t failed; // 1 + the first rank that failed, or 0: none
    _Atomic uint32_t met;    // number of ranks that have come to the next meeting
    _Atomic uint32_t meetings, meetings_sleepers; // number of meetings; +1 when they end
    _Atomic bool
        parted; // true: no rank waits in a meeting any more; set before `meetings` is raised
    struct group_rank ranks[RANKS_MAX];
};

static enum status job_do(struct group_rank *r)
{
    struct model_group *group = r->group;
    const struct job *job = &group->job;
    switch (job->kind) {
    case JOB_TUNE:
        return rank_tune(r->model, &r->err);
    case JOB_WARM:
        return rank_warm(r->model, &r->err);
    case JOB_RECORD:
        return rank_record(r->model, &r->err);
    case JOB_LAUNCH:
        return rank_launch(r->model, group->batch, &r->err);
    default:
        return rank_sample(r->model, job->masks, job->mask_count, &r->err);
    }
}

static void meetings_raise(struct model_group *group)
{
    atomic_fetch_add(&group->meetings, 1);
    futex_notify(&group->meetings, &group->meetings_sleepers);
}

// Ends all meetings: a rank that has failed or is late will not come.
static void ranks_part(struct model_group *group)
{
    atomic_store(&group->parted, true);
    meetings_raise(group);
}

void group_meet(struct model_group *group)
{
    uint32_t meeting = atomic_load(&group->meetings);
    if (atomic_fetch_add(&group->met, 1) + 1 == group->size) {
        atomic_store(&group->met, 0);
        meetings_raise(group);
    } else if (!atomic_load(&group->parted)) {
        futex_await(&group->meetings, meeting, &group->meetings_sleepers);
    }
}

static void *rank_main(void *argument)
{
    struct group_rank *r = argument;
    struct model_group *group = r->group;
    uint32_t number = (uint32_t)(r - group->ranks);
    rank_begin(r->model);
    for (uint32_t seen = 0;; seen++) {
        futex_await(&group->posted, seen, &group->posted_sleepers);
        if (atomic_load(&group->ending))
            return NULL;
        r->status = job_do(r);
        if (r->status != STATUS_OK) {
            uint32_t none = 0;
            atomic_compare_exchange_strong(&group->failed, &none, 1 + number);
            ranks_part(group);
            group->api->comm_abort(group->comm);
        }
        atomic_store(&r->done, seen + 1); // before `left`: late_error finds the late rank by it
        if (atomic_fetch_sub(&group->left, 1) == 1)
            futex_notify(&group->left, &group->left_sleepers);
    }
}

struct rank_words {
    char text[64];
};

static struct rank_words rank_words(const struct model_group *group, uint32_t rank)
{
    struct rank_words words;
    const struct model_link *link = group->link;
    bool named = group->names && group->names[rank];
    snprintf(words.text, sizeof words.text, "rank %u of %u%s%.24s%s",
             rank + (link ? link->comm.first : 0), link ? link->comm.ranks : group->size,
             named ? " (" : "", named ? group->names[rank] : "", named ? ")" : "");
    return words;
}

// Sets the error for a late rank: the unfinished rank that has started the fewest collectives. The
// others wait for it in a collective.
static enum status late_error(struct model_group *group, struct error *err)
{
    double seconds = (double)group->deadline_ns * 1e-9;
    uint32_t posted = atomic_load(&group->posted), late = 0;
    uint64_t fewest = UINT64_MAX;
    for (uint32_t i = 0; i < group->size; i++) {
        const struct group_rank *r = &group->ranks[i];
        uint64_t started = rank_collectives_started(r->model);
        if (atomic_load(&r->done) == posted || started >= fewest)
            continue;
        fewest = started;
        late = i;
    }
    group->failed_rank = late;
    if (group->link && group->link->fault_find(group->link->context, true, err))
        return err->status;
    static const char *const parts[] = {[JOB_TUNE] = "end the choice of its products",
                                        [JOB_WARM] = "end the warm-up steps",
                                        [JOB_RECORD] = "record its graphs"};
    if (group->job.kind <= JOB_RECORD)
        return error_set(err, STATUS_TIMEOUT, "%s did not %s within %.1f s",
                         rank_words(group, late).text, parts[group->job.kind], seconds);
    return error_set(err, STATUS_TIMEOUT, "%s did not end step %llu within %.1f s",
                     rank_words(group, late).text, (unsigned long long)group->batch->step, seconds);
}

static enum status failed_error(struct model_group *group, struct error *err)
{
    group->failed_rank = atomic_load(&group->failed) - 1;
    const struct group_rank *r = &group->ranks[group->failed_rank];
    if (group->link && group->link->fault_find(group->link->context, false, err))
        return err->status; // the rank has failed because it waited for that node
    *err = r->err;
    error_prefix(err, "%s", rank_words(group, group->failed_rank).text);
    return r->status;
}

// Returns true if another node is lost or has failed.
static bool node_is_lost(const struct model_group *group)
{
    struct error err;
    return group->link && group->link->fault_find(group->link->context, false, &err);
}

// Waits until all ranks have finished the job. Returns false if the deadline passes first; only
// time in which the process runs counts (base/patience.h). If a node is lost, aborts the
// communicator: a rank may wait for it inside a call of the device.
static bool ranks_await(struct model_group *group)
{
    struct patience patience = patience_of(group->deadline_ns);
    bool lost = false;
    for (uint32_t left; (left = atomic_load(&group->left)) > 0;) {
        if (!lost && node_is_lost(group)) {
            lost = true;
            group->api->comm_abort(group->comm);
            patience = patience_of(LOST_NS);
        }
        if (patience_ends(&patience))
            return atomic_load(&group->left) == 0;
        futex_sleep(&group->left, left, &group->left_sleepers, patience_next(&patience));
    }
    return true;
}

// Ends the group with the error in group->err: no rank waits for another one any more, and the
// other nodes end, too.
static enum status group_fail(struct model_group *group, enum status status)
{
    group->status = status;
    ranks_part(group);
    if (group->link)
        group->link->fail(group->link->context, &group->err);
    group->api->comm_abort(group->comm);
    return status;
}

// Posts a job and returns when all ranks have finished it, or at the deadline. After a failure it
// only returns the first error.
static enum status job_run(struct model_group *group, const struct job *job, struct error *err)
{
    if (group->status == STATUS_OK) {
        group->job = *job;
        atomic_store(&group->left, group->size);
        atomic_fetch_add(&group->posted, 1);
        futex_notify(&group->posted, &group->posted_sleepers);
        bool all = ranks_await(group);
        if (atomic_load(&group->failed) > 0)
            group_fail(group, failed_error(group, &group->err));
        else if (!all)
            group_fail(group, late_error(group, &group->err));
    }
    if (group->status != STATUS_OK)
        *err = group->err;
    return group->status;
}

enum status group_start(struct model_group *group, struct error *err)
{
    enum status status = STATUS_OK;
    for (enum job_kind kind = JOB_TUNE; kind <= JOB_RECORD && status == STATUS_OK; kind++)
        status = job_run(group, &(struct job){.kind = kind}, err);
    return status;
}

// Returns true on node 0 if the group has not failed: the other nodes get each job first.
static bool group_leads(const struct model_group *group)
{
    return group->status == STATUS_OK && group->link && group->link->leads;
}

enum status group_launch(struct model_group *group, struct batch *batch, struct error *err)
{
    if (group_leads(group) &&
        group->link->launch(group->link->context, batch, &group->err) != STATUS_OK)
        group_fail(group, group->err.status);
    if (group->status == STATUS_OK) // otherwise a late rank may still read it
        batch_copy(group->batch, batch);
    return job_run(group, &(struct job){.kind = JOB_LAUNCH}, err);
}

enum status group_sample(struct model_group *group, const uint32_t *masks, uint32_t count,
                         struct error *err)
{
    struct job job = {.kind = JOB_SAMPLE, .masks = masks, .mask_count = count};
    if (group_leads(group) &&
        group->link->sample(group->link->context, masks, count, &group->err) != STATUS_OK)
        group_fail(group, group->err.status);
    return job_run(group, &job, err);
}

// Returns true if two ranks have bit-identical results.
static bool outputs_equal(const struct model_facts *facts, const struct model_output *a,
                          const struct model_output *b)
{
    if (a->step != b->step || a->count != b->count)
        return false;
    if (facts->kind == MODEL_GENERATOR)
        return memcmp(a->results, b->results, a->count * sizeof *a->results) == 0;
    return memcmp(a->values, b->values,
                  (size_t)a->count * facts->output_width * sizeof *a->values) == 0;
}

struct hash model_output_hash(const struct model_facts *facts, const struct model_output *out)
{
    static const uint64_t key[2] = {0};
    if (facts->kind == MODEL_GENERATOR)
        return hash_bytes(key, out->results, out->count * sizeof *out->results);
    return hash_bytes(key, out->values,
                      (size_t)out->count * facts->output_width * sizeof *out->values);
}

enum status group_collect(struct model_group *group, struct model_output *out, uint64_t deadline_ns,
                          struct error *err)
{
    struct model_output other;
    const struct model_facts *facts = model_facts(group->ranks[0].model);
    if (group->status != STATUS_OK) {
        *err = group->err;
        return group->status;
    }
    enum status status = rank_collect(group->ranks[0].model, out, deadline_ns, err);
    for (uint32_t r = 1; r < group->size && status == STATUS_OK; r++) {
        status = rank_collect(group->ranks[r].model, &other, deadline_ns, err);
        if (status == STATUS_OK && !outputs_equal(facts, out, &other))
            status = error_set(err, STATUS_DEVICE_FAULT,
                               "%s has other results than rank %u in step %llu",
                               rank_words(group, r).text, group->link ? group->link->comm.first : 0,
                               (unsigned long long)out->step);
    }
    if (status == STATUS_TIMEOUT && group->link &&
        group->link->fault_find(group->link->context, true, err))
        status = err->status;
    if (status == STATUS_OK && group_leads(group)) {
        struct hash own = model_output_hash(facts, out);
        status = group->link->agree(group->link->context, out->step, &own, deadline_ns, err);
    }
    if (status != STATUS_OK) { // the other ranks may still wait for each other
        group->err = *err;
        group_fail(group, status);
    }
    return status;
}

static enum status threads_start(struct model_group *group, struct error *err)
{
    for (; group->started < group->size; group->started++) {
        struct group_rank *r = &group->ranks[group->started];
        int failed = pthread_create(&r->thread, NULL, rank_main, r);
        if (failed != 0)
            return error_thread(err, failed, "the thread of rank %u", group->started);
        char name[16];
        snprintf(name, sizeof name, "weft-rank-%u", group->started % 100);
        pthread_setname_np(r->thread, name);
    }
    return STATUS_OK;
}

enum status group_open(struct model_group **out, const struct group_args *args, struct error *err)
{
    struct model_group *group = heap_alloc_zeroed(1, sizeof *group);
    const struct step_limits *limits = &model_facts(args->models[0])->limits;
    *group = (struct model_group){.api = args->api,
                                  .comm = args->comm,
                                  .names = args->names,
                                  .link = args->link,
                                  .deadline_ns = MODEL_START_NS,
                                  .size = args->size,
                                  .failed_rank = args->size};
    group->batch = heap_alloc(batch_bytes(limits));
    batch_init(group->batch, limits);
    for (uint32_t r = 0; r < args->size; r++)
        group->ranks[r] = (struct group_rank){.group = group, .model = args->models[r]};
    enum status status = threads_start(group, err);
    if (status != STATUS_OK) {
        group_close(group);
        return status;
    }
    *out = group;
    return STATUS_OK;
}

void group_close(struct model_group *group)
{
    if (!group)
        return;
    atomic_store(&group->ending, true);
    atomic_fetch_add(&group->posted, 1);
    futex_notify(&group->posted, &group->posted_sleepers);
    for (uint32_t r = 0; r < group->started; r++)
        pthread_join(group->ranks[r].thread, NULL);
    heap_free(group->batch);
    heap_free(group);
}

bool group_hangs(const struct model_group *group)
{
    return atomic_load(&group->left) > 0;
}

uint32_t group_failed_rank(const struct model_group *group)
{
    return group->failed_rank;
}

void group_abort(struct model_group *group)
{
    if (group->status != STATUS_OK)
        return;
    group_fail(group, error_set(&group->err, STATUS_DEVICE_FAULT,
                                "the model cannot be used after a failed step"));
}

void group_deadline(struct model_group *group, uint64_t ns)
{
    group->deadline_ns = ns;
}
