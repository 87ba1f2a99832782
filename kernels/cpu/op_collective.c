// SPDX-License-Identifier: Apache-2.0
// Collectives between ranks that are threads of this process; each rank has a device and a stream.
// A rank stores its arguments in `comm.args` and waits until all ranks have done so. Then each rank
// reads what it needs from all of them, on its threads, and waits for the others again; after that
// inputs may be overwritten. A rank that waits spins, then sleeps on a futex.
#include "kernels/cpu/internal.h"

#include "base/futex.h"

#include <stdlib.h>
#include <string.h>

enum {
    ROUND_ABORTED = 1, // bit of comm.round
    ROUND_ONE = 2,
};

struct comm {
    uint32_t size;
    struct stream *streams[RANKS_MAX];
    struct comm_args { // arguments of a rank in the current collective
        _Alignas(64) const float *in;
        void *out;
        uint64_t count, rows, stride, first;
    } args[RANKS_MAX];
    _Alignas(64) _Atomic uint32_t arrived; // ranks that have arrived at the current meeting
    // Futex word: ROUND_ONE for each meeting that has ended, and ROUND_ABORTED.
    _Alignas(64) _Atomic uint32_t round;
    _Atomic uint32_t sleepers;
};

enum status cpu_comm_open(struct comm **out, struct stream *const *streams, uint32_t count,
                          struct error *err)
{
    *out = NULL;
    if (count == 0 || count > RANKS_MAX)
        return error_set(err, STATUS_INVALID, "a communicator has 1 to %d ranks, not %u", RANKS_MAX,
                         count);
    struct comm *comm = aligned_alloc(64, sizeof *comm);
    if (!comm)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a communicator");
    memset(comm, 0, sizeof *comm);
    comm->size = count;
    for (uint32_t i = 0; i < count; i++) {
        comm->streams[i] = streams[i];
        streams[i]->comm = comm;
        streams[i]->rank = i;
    }
    *out = comm;
    return STATUS_OK;
}

void cpu_comm_abort(struct comm *comm)
{
    atomic_fetch_or(&comm->round, ROUND_ABORTED);
    futex_notify(&comm->round, &comm->sleepers);
}

void cpu_comm_close(struct comm *comm)
{
    for (uint32_t i = 0; comm && i < comm->size; i++)
        comm->streams[i]->comm = NULL;
    free(comm);
}

// Returns OK when all ranks have arrived, DEVICE_FAULT if the communicator is aborted.
static enum status ranks_meet(struct comm *comm)
{
    uint32_t round = atomic_load(&comm->round);
    if (round & ROUND_ABORTED)
        return STATUS_DEVICE_FAULT;
    if (atomic_fetch_add(&comm->arrived, 1) + 1 == comm->size) {
        atomic_store(&comm->arrived, 0);
        atomic_fetch_add(&comm->round, ROUND_ONE);
        futex_notify(&comm->round, &comm->sleepers);
    } else {
        futex_await(&comm->round, round, &comm->sleepers);
    }
    return atomic_load(&comm->round) & ROUND_ABORTED ? STATUS_DEVICE_FAULT : STATUS_OK;
}

// Publishes this rank's arguments and waits for those of the others. Returns INVALID if they do not
// match.
static enum status collective_begin(const struct stream *stream, uint32_t ranks,
                                    const struct comm_args *mine)
{
    struct comm *comm = stream->comm;
    if (!comm || comm->size != ranks)
        return STATUS_INVALID;
    comm->args[stream->rank] = *mine;
    enum status status = ranks_meet(comm);
    for (uint32_t r = 1; r < ranks && status == STATUS_OK; r++) {
        const struct comm_args *a = &comm->args[0], *b = &comm->args[r];
        bool sum = a->stride == 0;
        if (a->rows != b->rows || a->stride != b->stride || (sum && a->count != b->count))
            status = STATUS_INVALID;
    }
    return status;
}

// Work that is cut into chunks for the rank's threads.
struct collective_job {
    const struct stream *stream;
    const struct all_gather_args *gather; // NULL: all_reduce
    uint64_t first, end, each;            // range of elements or pieces of rows; size of a chunk
};

static void sums_make(void *opaque, uint32_t chunk, uint32_t worker)
{
    enum { PIECE = 1024 };
    (void)worker;
    const struct collective_job *job = opaque;
    const struct comm *comm = job->stream->comm;
    uint64_t from = job->first + chunk * job->each;
    uint64_t end = job->end - from < job->each ? job->end : from + job->each;
    float sum[PIECE];
    for (uint64_t at = from; at < end; at += PIECE) {
        uint32_t n = end - at < PIECE ? (uint32_t)(end - at) : PIECE;
        memcpy(sum, comm->args[0].in + at, n * sizeof *sum);
        for (uint32_t r = 1; r < comm->size; r++)
            for (uint32_t i = 0; i < n; i++)
                sum[i] += comm->args[r].in[at + i];
        for (uint32_t r = 0; r < comm->size; r++)
            memcpy((float *)comm->args[r].out + at, sum, n * sizeof *sum);
    }
}

static void rows_gather(void *opaque, uint32_t chunk, uint32_t worker)
{
    (void)worker;
    const struct collective_job *job = opaque;
    const struct all_gather_args *args = job->gather;
    uint64_t from = chunk * job->each;
    uint64_t end = job->end - from < job->each ? job->end : from + job->each;
    for (uint64_t at = from; at < end; at++) {
        const struct comm_args *source = &job->stream->comm->args[at % args->ranks];
        uint64_t row = at / args->ranks;
        memcpy(args->out + row * args->stride + source->first, source->in + row * source->count,
               source->count * sizeof(float));
    }
}

static void job_run(threads_work *work, struct collective_job *job)
{
    uint64_t chunks = (job->end - job->first + job->each - 1) / job->each;
    threads_run(job->stream->device->threads, work, job, (uint32_t)chunks);
}

enum status cpu_all_reduce(struct stream *stream, const struct all_reduce_args *args)
{
    struct comm_args mine = {.in = args->in, .out = args->out, .count = args->count};
    enum status status = collective_begin(stream, args->ranks, &mine);
    if (status != STATUS_OK)
        return status;
    // each rank computes its part of the sums and writes it to all ranks
    uint64_t count = args->count, rank = stream->rank;
    struct collective_job job = {.stream = stream,
                                 .first = count * rank / args->ranks,
                                 .end = count * (rank + 1) / args->ranks,
                                 .each = ROWS_CHUNK};
    job_run(sums_make, &job);
    return ranks_meet(stream->comm);
}

enum status cpu_all_gather(struct stream *stream, const struct all_gather_args *args)
{
    struct comm_args mine = {.in = args->in,
                             .count = gather_count(args, stream->rank),
                             .rows = args->rows,
                             .stride = args->stride,
                             .first = gather_first(args, stream->rank)};
    enum status status = collective_begin(stream, args->ranks, &mine);
    if (status != STATUS_OK)
        return status;
    struct collective_job job = {.stream = stream,
                                 .gather = args,
                                 .end = (uint64_t)args->rows * args->ranks,
                                 .each = 1 + ROWS_CHUNK * args->ranks / (args->stride + 1)};
    job_run(rows_gather, &job);
    return ranks_meet(stream->comm);
}
