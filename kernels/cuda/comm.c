// SPDX-License-Identifier: Apache-2.0
// Communicators: the ranks of a model, each with its GPU, joined by NCCL. In exact mode the partial
// sums of all ranks are gathered and each rank adds them in the order of the ranks; NCCL's own sums
// depend on the number of elements and are used only with --no-exact.
//
// Threads: a rank's thread calls the collectives of its stream, the thread that waits for a stream
// calls comm_watch, and any thread may call comm_abort. A rank's lock is held while NCCL is called
// for it, while its graphs are launched and while its stream's `capturing` changes. The holder
// checks `aborted` before each call, so that no call reaches a communicator that may be destroyed.
//
// Recorded collectives have a communicator of their own from NCCL 2.29 on (decision 0075): only
// then NCCL need not order graphs and launched calls, which costs events around each collective.
//
// The buffers that ranks sum in place are registered with both communicators, if all ranks can
// (windows.h): NCCL must not get a window from one rank and other memory from another.
//
// If other processes hold ranks too (comm_link), NCCL's identifier of the communicator goes from
// the process of rank 0 to the others through the link, and each process joins its ranks under
// their numbers. NCCL notices a process that ends, but not one that hangs or cannot be reached, so
// comm_watch also queries the link.
//
// CommAbort ends the kernels of aborted ranks immediately, but returns only when the graphs that
// contain their collectives are closed. So a separate thread calls it, which comm_close joins.
#include "kernels/cuda/comm.h"

#include "base/clock.h"
#include "kernels/cuda/windows.h"
#include "kernels/ways.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

// Time for all ranks together to return from a call of NCCL before they are aborted inside it; far
// more than the first load of a kernel takes.
enum { ABORT_WAIT_MS = 1000 };

// Time in which the link may name the lost process after NCCL has reported an error of it.
#define LINK_WAIT_NS 2500000000u

struct comm {
    uint32_t size;                // ranks of this process
    uint32_t first, all;          // number of the first of them; ranks of all processes
    const struct comm_link *link; // NULL: all ranks are in this process
    _Atomic uint64_t error_ns;    // link: time of NCCL's first error, or 0
    const struct nccl *nccl;
    _Atomic bool aborted;
    bool aborting; // true if `aborter` was started
    pthread_t aborter;
    struct comm_rank {
        struct stream *stream;
        pthread_mutex_t lock;
        ncclComm_t nccl, recorded; // recorded: of collectives in graphs; NULL: `nccl`
    } ranks[RANKS_MAX];
    bool windowed; // true if the ranks have windows: of `nccl` and, if there is one, of `recorded`
    struct window windows[RANKS_MAX], windows_recorded[RANKS_MAX];
};

static struct comm_rank *rank_of(const struct stream *stream)
{
    return &stream->comm->ranks[stream->rank];
}

static ncclComm_t comm_of(const struct stream *stream)
{
    const struct comm_rank *rank = rank_of(stream);
    return stream->capturing && rank->recorded ? rank->recorded : rank->nccl;
}

bool comm_records_apart(const struct device *device)
{
    return device->nccl.CommSplit && device->nccl.version >= NCCL_GRAPH_USE &&
           !(device->options.ways & WAY_ONE_COMM);
}

static enum status streams_check(struct stream *const *streams, uint32_t count, uint32_t all,
                                 struct error *err)
{
    if (count == 0 || count > RANKS_MAX)
        return error_set(err, STATUS_INVALID, "a communicator has 1 to %d ranks, not %u", RANKS_MAX,
                         count);
    for (uint32_t i = 0; i < count; i++) {
        const struct device *device = streams[i]->device;
        check(device->options.ranks == all, "rank %u was opened for %u ranks", i,
              device->options.ranks);
        for (uint32_t j = 0; j < i; j++)
            if (streams[j]->device->options.index == device->options.index)
                return error_set(err, STATUS_INVALID, "ranks %u and %u are on one GPU", j, i);
    }
    return STATUS_OK;
}

static enum status join_error(const struct comm *comm, ncclResult_t result, struct error *err)
{
    if (result == ncclSuccess)
        return STATUS_OK;
    return error_set(err, STATUS_DEVICE_FAULT, "NCCL did not join %u GPUs: %s", comm->all,
                     comm->nccl->GetErrorString(result));
}

// Sends NCCL's identifier of the communicator from the process of rank 0 to the others.
static enum status id_exchange(const struct comm *comm, ncclUniqueId *id, struct error *err)
{
    const struct comm_link *link = comm->link;
    size_t ends[RANKS_MAX];
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < RANKS_MAX; i++) // all bytes are those of rank 0
        ends[i] = sizeof *id;
    if (comm->first == 0)
        status = join_error(comm, comm->nccl->GetUniqueId(id), err);
    if (status == STATUS_OK && link->exchange(link->context, id, ends) != STATUS_OK) {
        status = error_set(err, STATUS_DEVICE_FAULT, "the processes of the ranks were not joined");
        (void)link->failed(link->context, err); // names the process
    }
    return status;
}

// Joins the ranks of this process with those of others. Returns when all have come.
static enum status linked_join(const struct comm *comm, struct stream *const *streams,
                               ncclComm_t *joined, struct error *err)
{
    const struct nccl *nccl = comm->nccl;
    ncclUniqueId id = {{0}};
    enum status status = id_exchange(comm, &id, err);
    if (status != STATUS_OK)
        return status;
    ncclResult_t result = nccl->GroupStart();
    for (uint32_t i = 0; i < comm->size && result == ncclSuccess; i++) {
        // After a failure the group stays open: the end of an incomplete group waits for its ranks.
        if (call_status(cudaSetDevice((int)streams[i]->device->options.index)) != STATUS_OK)
            return error_set(err, STATUS_DEVICE_FAULT, "NCCL did not join %u GPUs: %s", comm->all,
                             call_failure());
        result = nccl->CommInitRank(&joined[i], (int)comm->all, id, (int)(comm->first + i));
    }
    if (result == ncclSuccess)
        result = nccl->GroupEnd();
    return join_error(comm, result, err);
}

static enum status ranks_join(const struct comm *comm, struct stream *const *streams,
                              ncclComm_t *joined, struct error *err)
{
    int devices[RANKS_MAX];
    if (comm->link)
        return linked_join(comm, streams, joined, err);
    for (uint32_t i = 0; i < comm->size; i++)
        devices[i] = (int)streams[i]->device->options.index;
    return join_error(comm, comm->nccl->CommInitAll(joined, (int)comm->size, devices), err);
}

// Makes the communicators of recorded collectives, if the library can and no other process has
// ranks.
static enum status recorded_join(struct comm *comm, struct stream *const *streams,
                                 struct error *err)
{
    const struct nccl *nccl = comm->nccl;
    const int none = NCCL_NOT_SET;
    ncclConfig_t config = {sizeof config, 0xcafebeef, NCCL_GRAPH_USE, none, none, none, none,
                           NULL,          none,       none,           NULL, none, none, none,
                           none,          none,       none,           none, none};
    config.graph_usage = NCCL_ONE_GRAPH;
    if (comm->link || !comm_records_apart(streams[0]->device))
        return STATUS_OK;
    ncclResult_t result = nccl->GroupStart();
    for (uint32_t i = 0; i < comm->size && result == ncclSuccess; i++)
        result = nccl->CommSplit(comm->ranks[i].nccl, 0, (int)(comm->first + i),
                                 &comm->ranks[i].recorded, &config);
    // After a failure the group stays open: the end of an incomplete group waits for its ranks.
    if (result == ncclSuccess)
        result = nccl->GroupEnd();
    return join_error(comm, result, err);
}

static void windows_drop(struct comm *comm)
{
    windows_remove(comm->nccl, comm->windows, comm->size);
    windows_remove(comm->nccl, comm->windows_recorded, comm->size);
}

// Removing a window unmaps it, so no kernel may still use it.
static void windows_close(struct comm *comm)
{
    for (uint32_t i = 0; i < comm->size && comm->windowed; i++) {
        const struct stream *stream = comm->ranks[i].stream;
        (void)call_status(cudaSetDevice((int)stream->device->options.index));
        (void)call_status(cudaStreamSynchronize(stream->cuda));
    }
    windows_drop(comm);
}

// Sets *yes to whether it is true in all processes.
static enum status all_agree(const struct comm *comm, bool *yes, struct error *err)
{
    const struct comm_link *link = comm->link;
    char answers[RANKS_MAX] = {0};
    size_t ends[RANKS_MAX];
    if (!link)
        return STATUS_OK;
    for (uint32_t i = 0; i < RANKS_MAX; i++)
        ends[i] = i < comm->all ? i + 1 : comm->all;
    for (uint32_t i = 0; i < comm->size; i++)
        answers[comm->first + i] = *yes;
    if (link->exchange(link->context, answers, ends) != STATUS_OK) {
        error_set(err, STATUS_DEVICE_FAULT, "the processes of the ranks were not joined");
        (void)link->failed(link->context, err); // names the process
        return STATUS_DEVICE_FAULT;
    }
    for (uint32_t i = 0; i < comm->all; i++)
        *yes = *yes && answers[i];
    return STATUS_OK;
}

static void windows_note(const struct comm *comm, const struct stream *first, bool possible)
{
    const struct device *device = first->device;
    int version = device->nccl.version;
    const char *how = comm->windowed                          ? "in windows"
                      : device->options.ways & WAY_NO_WINDOWS ? "no windows: switched off"
                      : !windows_wanted(device)               ? "no windows: needs NCCL 2.27"
                      : possible ? "no windows: not possible between these GPUs"
                                 : "no windows: not possible on all ranks";
    char line[128];
    snprintf(line, sizeof line, "sums of ranks: NCCL %d.%d.%d, %s", version / 10000,
             version % 10000 / 100, version % 100, how);
    if (device->options.note)
        device->options.note(device->options.index, line);
}

// Registers the windows, if all ranks of all processes can. No process may begin if another one
// does not: the others would wait for it.
static enum status windows_open(struct comm *comm, struct stream *const *streams, struct error *err)
{
    const struct stream *first = streams[0];
    bool possible = true, registered = false;
    if (first->device->exact || first->limits.sums_bytes == 0)
        return STATUS_OK;
    for (uint32_t i = 0; i < comm->size; i++) {
        possible = possible && streams[i]->sums_shared;
        comm->windows[i] = (struct window){streams[i], comm->ranks[i].nccl, NULL};
        comm->windows_recorded[i] = (struct window){streams[i], comm->ranks[i].recorded, NULL};
    }
    enum status status = all_agree(comm, &possible, err);
    if (status == STATUS_OK && possible) {
        registered = windows_register(comm->nccl, comm->windows, comm->size);
        if (registered && comm->ranks[0].recorded)
            registered = windows_register(comm->nccl, comm->windows_recorded, comm->size);
        status = all_agree(comm, &registered, err);
    }
    comm->windowed = status == STATUS_OK && registered;
    if (!comm->windowed)
        windows_drop(comm);
    if (status == STATUS_OK)
        windows_note(comm, first, possible);
    return status;
}

enum status comm_open(struct comm **out, struct stream *const *streams, uint32_t count,
                      const struct comm_link *link, struct error *err)
{
    ncclComm_t joined[RANKS_MAX];
    uint32_t all = link ? link->ranks : count;
    *out = NULL;
    enum status status = streams_check(streams, count, all, err);
    if (status != STATUS_OK)
        return status;
    struct comm *comm = calloc(1, sizeof *comm);
    if (!comm)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a communicator");
    comm->size = count;
    comm->first = link ? link->first : 0;
    comm->all = all;
    comm->link = link;
    comm->nccl = &streams[0]->device->nccl;
    status = ranks_join(comm, streams, joined, err);
    if (status != STATUS_OK) {
        free(comm);
        return status;
    }
    for (uint32_t i = 0; i < count; i++)
        comm->ranks[i].nccl = joined[i];
    status = recorded_join(comm, streams, err);
    bool apart = status == STATUS_OK && comm->ranks[0].recorded;
    if (status == STATUS_OK)
        status = windows_open(comm, streams, err);
    if (status != STATUS_OK) {
        for (uint32_t i = 0; i < count && apart; i++)
            (void)comm->nccl->CommAbort(comm->ranks[i].recorded);
        for (uint32_t i = 0; i < count; i++)
            (void)comm->nccl->CommAbort(joined[i]);
        free(comm);
        return status;
    }
    for (uint32_t i = 0; i < count; i++) {
        comm->ranks[i].stream = streams[i];
        pthread_mutex_init(&comm->ranks[i].lock, NULL);
        streams[i]->comm = comm;
        streams[i]->rank = i;
    }
    *out = comm;
    return STATUS_OK;
}

// Waits until the rank's lock is free; a later holder sees `aborted`. Returns early when *wait_ms
// is used up: the rank is then inside a call of NCCL, which only CommAbort can end.
static void rank_leave(struct comm_rank *rank, int *wait_ms)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    while (pthread_mutex_trylock(&rank->lock) != 0) {
        if (--*wait_ms < 0)
            return;
        (void)nanosleep(&pause, NULL);
    }
    pthread_mutex_unlock(&rank->lock);
}

static void *ranks_abort(void *argument)
{
    struct comm *comm = argument;
    int wait_ms = ABORT_WAIT_MS;
    for (uint32_t i = 0; i < comm->size; i++)
        rank_leave(&comm->ranks[i], &wait_ms);
    for (uint32_t i = 0; i < comm->size; i++)
        (void)comm->nccl->CommAbort(comm->ranks[i].nccl);
    for (uint32_t i = 0; i < comm->size && comm->ranks[i].recorded; i++)
        (void)comm->nccl->CommAbort(comm->ranks[i].recorded);
    return NULL;
}

void comm_abort(struct comm *comm)
{
    if (atomic_exchange(&comm->aborted, true))
        return;
    comm->aborting = pthread_create(&comm->aborter, NULL, ranks_abort, comm) == 0;
    if (comm->link)
        comm->link->abort(comm->link->context);
}

void comm_close(struct comm *comm)
{
    if (!comm)
        return;
    if (comm->aborting)
        pthread_join(comm->aborter, NULL);
    else if (comm_aborted(comm))
        ranks_abort(comm);   // the aborting thread did not start
    if (!comm_aborted(comm)) // an abort ends the windows, too
        windows_close(comm);
    for (uint32_t i = 0; i < comm->size; i++) {
        struct comm_rank *rank = &comm->ranks[i];
        if (!comm_aborted(comm) && rank->recorded)
            (void)comm->nccl->CommDestroy(rank->recorded);
        if (!comm_aborted(comm))
            (void)comm->nccl->CommDestroy(rank->nccl);
        pthread_mutex_destroy(&rank->lock);
        rank->stream->comm = NULL;
    }
    free(comm);
}

// Returns true after NCCL's first error of a communicator with a link, until LINK_WAIT_NS have
// passed: NCCL may notice that a process has ended before the link does, but cannot name it.
static bool link_may_know(struct comm *comm)
{
    uint64_t now = clock_ns(), first = 0;
    if (!comm->link)
        return false;
    if (atomic_compare_exchange_strong(&comm->error_ns, &first, now))
        return true;
    return now - first < LINK_WAIT_NS;
}

static enum status rank_watch(struct comm *comm, uint32_t rank, struct error *err)
{
    const struct comm_rank *r = &comm->ranks[rank];
    ncclResult_t result = ncclSuccess;
    if (comm_aborted(comm) || comm->nccl->CommGetAsyncError(r->nccl, &result) != ncclSuccess ||
        (result == ncclSuccess && r->recorded &&
         comm->nccl->CommGetAsyncError(r->recorded, &result) != ncclSuccess) ||
        result == ncclSuccess || result == ncclInProgress || link_may_know(comm))
        return STATUS_OK;
    return error_set(err, STATUS_DEVICE_FAULT, "NCCL reports: %s",
                     comm->nccl->GetErrorString(result));
}

enum status comm_watch(const struct stream *own, struct error *err)
{
    struct comm *comm = own->comm;
    enum status status = STATUS_OK;
    if (comm->link && comm->link->failed(comm->link->context, err))
        return STATUS_DEVICE_FAULT;
    for (uint32_t i = 0; i < comm->size && status == STATUS_OK; i++) {
        const struct stream *stream = comm->ranks[i].stream;
        bool idle;
        if (pthread_mutex_trylock(&comm->ranks[i].lock) != 0)
            continue; // it is in a call of NCCL, or `capturing` changes: the next comm_watch
                      // queries it
        status = rank_watch(comm, i, err);
        // querying a stream that is capturing would invalidate the capture
        if (status == STATUS_OK && stream != own && !stream->capturing)
            status = stream_query(stream, &idle, err);
        pthread_mutex_unlock(&comm->ranks[i].lock);
        if (status != STATUS_OK)
            error_prefix(err, "rank %u of %u", comm->first + i, comm->all);
    }
    return status;
}

void comm_lock(struct stream *stream)
{
    if (stream->comm)
        pthread_mutex_lock(&rank_of(stream)->lock);
}

void comm_unlock(struct stream *stream)
{
    if (stream->comm)
        pthread_mutex_unlock(&rank_of(stream)->lock);
}

bool comm_aborted(const struct comm *comm)
{
    return atomic_load(&comm->aborted);
}

// --- collectives --------------------------------------------------------------------------------

// Acquires the rank's lock; collective_end releases it.
static enum status collective_begin(struct stream *stream, uint32_t ranks)
{
    stream->after_kernel = false; // the next kernel waits for the collective's kernels to end
    if (!stream->comm || stream->comm->all != ranks)
        return STATUS_INVALID;
    comm_lock(stream);
    return STATUS_OK;
}

static enum status collective_end(struct stream *stream, enum status status)
{
    comm_unlock(stream);
    return status;
}

// Evaluates the call of NCCL only if the communicator is not aborted.
#define NCCL_CALL(stream, call)                                                                    \
    (comm_aborted((stream)->comm) ? STATUS_DEVICE_FAULT : nccl_status(call))

static enum status nccl_status(ncclResult_t result)
{
    return result == ncclSuccess || result == ncclInProgress ? STATUS_OK : STATUS_DEVICE_FAULT;
}

// Sums pieces that fit ranks_scratch. In exact mode the size of the pieces does not affect the
// sums.
static enum status sums_make(struct stream *stream, const struct all_reduce_args *args)
{
    const struct nccl *nccl = stream->comm->nccl;
    ncclComm_t comm = comm_of(stream);
    uint32_t parts = stream->device->exact ? args->ranks : 1;
    uint64_t most = stream->ranks_scratch_bytes / sizeof(float) / parts;
    enum status status = STATUS_OK;
    for (uint64_t at = 0; at < args->count && status == STATUS_OK; at += most) {
        uint64_t n = args->count - at < most ? args->count - at : most;
        const float *in = args->in + at;
        float *scratch = stream->ranks_scratch;
        status = NCCL_CALL(
            stream,
            parts > 1 ? nccl->AllGather(in, scratch, n, ncclFloat32, comm, stream->cuda)
                      : nccl->AllReduce(in, scratch, n, ncclFloat32, ncclSum, comm, stream->cuda));
        struct ranks_add add = {scratch, (char *)args->out + at * dtype_bytes(args->act),
                                (uint32_t)n, parts};
        if (status == STATUS_OK)
            status = ranks_sum(stream, args->act, &add);
    }
    return status;
}

// NCCL sums the parts in their type: half the bytes of float32 for 16-bit types, and no launch of a
// kernel that rounds.
static enum status sums_in_place(struct stream *stream, const struct all_reduce_args *args)
{
    static const ncclDataType_t types[] = {
        [DTYPE_F32] = ncclFloat32, [DTYPE_BF16] = ncclBfloat16, [DTYPE_F16] = ncclFloat16};
    return NCCL_CALL(stream, stream->comm->nccl->AllReduce(args->out, args->out, args->count,
                                                           types[args->act], ncclSum,
                                                           comm_of(stream), stream->cuda));
}

enum status cuda_all_reduce(struct stream *stream, const struct all_reduce_args *args)
{
    if (args->in_place && stream->device->exact)
        return STATUS_UNSUPPORTED;
    enum status status = collective_begin(stream, args->ranks);
    if (status != STATUS_OK || args->count == 0)
        return status == STATUS_OK ? collective_end(stream, status) : status;
    return collective_end(stream,
                          args->in_place ? sums_in_place(stream, args) : sums_make(stream, args));
}

// Ranks may have unequal columns, so each rank broadcasts its columns to all others, in one group.
static enum status columns_send(struct stream *stream, const struct all_gather_args *args,
                                float *scratch)
{
    const struct nccl *nccl = stream->comm->nccl;
    ncclComm_t comm = comm_of(stream);
    uint32_t own = stream->comm->first + stream->rank;
    enum status status = NCCL_CALL(stream, nccl->GroupStart());
    if (status != STATUS_OK)
        return status;
    for (uint32_t r = 0; r < args->ranks && status == STATUS_OK; r++) {
        size_t count = (size_t)args->rows * gather_count(args, r);
        float *to = scratch + (size_t)args->rows * gather_first(args, r);
        const float *from = r == own ? args->in : to;
        if (count > 0)
            status = NCCL_CALL(
                stream, nccl->Broadcast(from, to, count, ncclFloat32, (int)r, comm, stream->cuda));
    }
    // After an abort the group stays open, because this thread makes no further call of NCCL.
    enum status ended = NCCL_CALL(stream, nccl->GroupEnd());
    return status == STATUS_OK ? ended : status;
}

// Uses the logits buffer of sampling, which runs later in the stream.
enum status cuda_all_gather(struct stream *stream, const struct all_gather_args *args)
{
    size_t capacity = (size_t)stream->limits.step.rows_max * stream->limits.step.vocab;
    size_t needed = (size_t)args->rows * args->ends[args->ranks - 1];
    enum status status = needed > capacity ? STATUS_INVALID : collective_begin(stream, args->ranks);
    if (status != STATUS_OK || needed == 0)
        return status == STATUS_OK ? collective_end(stream, status) : status;
    status = columns_send(stream, args, stream->logits);
    if (status == STATUS_OK)
        status = columns_put(stream, args, stream->logits);
    return collective_end(stream, status);
}
