// SPDX-License-Identifier: Apache-2.0
// Collectives between ranks that are threads of this process; each rank has a device and a stream.
// A rank stores its arguments in `comm.args` and waits until all ranks have done so. Then each rank
// reads what it needs from all of them, on its threads, and waits for the others again; after that
// inputs may be overwritten. A rank that waits spins, then sleeps on a futex.
//
// If other processes hold ranks too, each rank stores a piece of its input in `comm.pieces`, the
// first rank here exchanges the pieces with the other processes, and then each rank reads what it
// needs from the pieces of all. Sums are added in the order of the ranks in both cases.
#include "kernels/cpu/internal.h"

#include "base/futex.h"

#include <stdlib.h>
#include <string.h>

enum {
    ROUND_ABORTED = 1, // bit of comm.round
    ROUND_ONE = 2,
    LINK_FLOATS = 1 << 18, // most floats of a rank in one exchange: 1 MiB
};

struct comm {
    uint32_t size;
    struct stream *streams[RANKS_MAX];
    struct comm_args { // arguments of a rank in the current collective
        _Alignas(64) const float *in;
        void *out;
        uint64_t count, rows, stride, first;
    } args[RANKS_MAX];
    const struct comm_link *link; // NULL: all ranks are in this process
    float *pieces;                // link: inputs of all ranks in an exchange, in their order
    _Alignas(64) _Atomic uint32_t arrived; // ranks that have arrived at the current meeting
    // Futex word: ROUND_ONE for each meeting that has ended, and ROUND_ABORTED.
    _Alignas(64) _Atomic uint32_t round;
    _Atomic uint32_t sleepers;
};

// Connects the communicator to the ranks in other processes.
static enum status link_join(struct comm *comm, const struct comm_link *link, struct error *err)
{
    check(link->ranks <= RANKS_MAX && link->first + comm->size <= link->ranks,
          "ranks from %u of %u", link->first, link->ranks);
    comm->pieces = aligned_alloc(64, link->ranks * LINK_FLOATS * sizeof *comm->pieces);
    if (!comm->pieces)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a communicator");
    comm->link = link;
    return STATUS_OK;
}

enum status cpu_comm_open(struct comm **out, struct stream *const *streams, uint32_t count,
                          const struct comm_link *link, struct error *err)
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
    if (link && link_join(comm, link, err) != STATUS_OK) {
        free(comm);
        return STATUS_NO_MEMORY;
    }
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
    if (comm->link)
        comm->link->abort(comm->link->context);
}

void cpu_comm_close(struct comm *comm)
{
    for (uint32_t i = 0; comm && i < comm->size; i++)
        comm->streams[i]->comm = NULL;
    if (comm)
        free(comm->pieces);
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
    if (!comm || (comm->link ? comm->link->ranks : comm->size) != ranks)
        return STATUS_INVALID;
    comm->args[stream->rank] = *mine;
    enum status status = ranks_meet(comm);
    for (uint32_t r = 1; r < comm->size && status == STATUS_OK; r++) {
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
    // all_reduce: partial sums of all ranks; where the ranks of this process get the sum
    const float *in[RANKS_MAX];
    float *out[RANKS_MAX];
    uint32_t ins, outs;
    uint64_t first, end, each; // range of elements or pieces of rows; size of a chunk
};

static void sums_make(void *opaque, uint32_t chunk, uint32_t worker)
{
    enum { PIECE = 1024 };
    (void)worker;
    const struct collective_job *job = opaque;
    uint64_t from = job->first + chunk * job->each;
    uint64_t end = job->end - from < job->each ? job->end : from + job->each;
    float sum[PIECE];
    for (uint64_t at = from; at < end; at += PIECE) {
        uint32_t n = end - at < PIECE ? (uint32_t)(end - at) : PIECE;
        memcpy(sum, job->in[0] + at, n * sizeof *sum);
        for (uint32_t r = 1; r < job->ins; r++)
            for (uint32_t i = 0; i < n; i++)
                sum[i] += job->in[r][at + i];
        for (uint32_t r = 0; r < job->outs; r++)
            memcpy(job->out[r] + at, sum, n * sizeof *sum);
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

// Exchanges the pieces of all processes, after all ranks here have stored theirs. The first rank
// does it for the others, which wait.
static enum status pieces_exchange(const struct stream *stream, const size_t ends[RANKS_MAX])
{
    struct comm *comm = stream->comm;
    enum status status = ranks_meet(comm);
    if (status == STATUS_OK && stream->rank == 0)
        status = comm->link->exchange(comm->link->context, comm->pieces, ends);
    if (status != STATUS_OK) {
        cpu_comm_abort(comm);
        return status;
    }
    return ranks_meet(comm);
}

// Makes the sums of elements `at` to `at + count` if other processes hold ranks.
static enum status linked_sums(struct stream *stream, const struct all_reduce_args *args,
                               uint64_t at, uint64_t count)
{
    struct comm *comm = stream->comm;
    uint64_t rank = stream->rank, own = comm->link->first + rank;
    struct collective_job job = {.stream = stream,
                                 .ins = args->ranks,
                                 .outs = comm->size,
                                 .first = count * rank / comm->size,
                                 .end = count * (rank + 1) / comm->size,
                                 .each = ROWS_CHUNK};
    size_t ends[RANKS_MAX] = {0};
    for (uint32_t r = 0; r < args->ranks; r++) {
        job.in[r] = comm->pieces + r * count;
        ends[r] = (r + 1) * count * sizeof(float);
    }
    for (uint32_t r = 0; r < comm->size; r++)
        job.out[r] = (float *)comm->args[r].out + at;
    memcpy(comm->pieces + own * count, args->in + at, count * sizeof(float));
    enum status status = pieces_exchange(stream, ends);
    if (status != STATUS_OK)
        return status;
    job_run(sums_make, &job);
    return ranks_meet(comm);
}

enum status cpu_all_reduce(struct stream *stream, const struct all_reduce_args *args)
{
    if (args->in_place)
        return STATUS_UNSUPPORTED;
    struct comm_args mine = {.in = args->in, .out = args->out, .count = args->count};
    enum status status = collective_begin(stream, args->ranks, &mine);
    if (status != STATUS_OK)
        return status;
    struct comm *comm = stream->comm;
    uint64_t count = args->count, rank = stream->rank;
    if (comm->link) {
        for (uint64_t at = 0; at < count && status == STATUS_OK; at += LINK_FLOATS)
            status = linked_sums(stream, args, at,
                                 count - at < LINK_FLOATS ? count - at : (uint64_t)LINK_FLOATS);
        return status;
    }
    // each rank computes its part of the sums and writes it to all ranks
    struct collective_job job = {.stream = stream,
                                 .ins = args->ranks,
                                 .outs = args->ranks,
                                 .first = count * rank / args->ranks,
                                 .end = count * (rank + 1) / args->ranks,
                                 .each = ROWS_CHUNK};
    for (uint32_t r = 0; r < args->ranks; r++) {
        job.in[r] = comm->args[r].in;
        job.out[r] = comm->args[r].out;
    }
    job_run(sums_make, &job);
    return ranks_meet(comm);
}

// Copies elements `at` to `at + count` of a rank's columns, row by row, to their places in the
// rows.
static void columns_put(const struct all_gather_args *args, uint32_t rank, const float *from,
                        uint64_t at, uint64_t count)
{
    uint64_t columns = gather_count(args, rank);
    for (uint64_t done = 0, run; done < count; done += run) {
        uint64_t row = (at + done) / columns, column = (at + done) % columns;
        run = columns - column < count - done ? columns - column : count - done;
        memcpy(args->out + row * args->stride + gather_first(args, rank) + column, from + done,
               run * sizeof(float));
    }
}

// Gathers the elements from `at` on, at most LINK_FLOATS of each rank, if other processes hold
// ranks.
static enum status linked_columns(struct stream *stream, const struct all_gather_args *args,
                                  uint64_t at)
{
    struct comm *comm = stream->comm;
    uint32_t own = comm->link->first + stream->rank;
    uint64_t filled = 0, counts[RANKS_MAX] = {0};
    size_t ends[RANKS_MAX] = {0};
    for (uint32_t r = 0; r < args->ranks; r++) {
        uint64_t all = (uint64_t)args->rows * gather_count(args, r), left = all > at ? all - at : 0;
        counts[r] = left < LINK_FLOATS ? left : (uint64_t)LINK_FLOATS;
        if (r == own)
            memcpy(comm->pieces + filled, args->in + at, counts[r] * sizeof(float));
        filled += counts[r];
        ends[r] = filled * sizeof(float);
    }
    enum status status = pieces_exchange(stream, ends);
    if (status != STATUS_OK)
        return status;
    for (uint32_t r = 0; r < args->ranks; r++)
        columns_put(args, r, comm->pieces + ends[r] / sizeof(float) - counts[r], at, counts[r]);
    return ranks_meet(comm);
}

enum status cpu_all_gather(struct stream *stream, const struct all_gather_args *args)
{
    const struct comm *comm = stream->comm;
    uint32_t own = stream->rank + (comm && comm->link ? comm->link->first : 0);
    struct comm_args mine = {.in = args->in,
                             .count = gather_count(args, own),
                             .rows = args->rows,
                             .stride = args->stride,
                             .first = gather_first(args, own)};
    enum status status = collective_begin(stream, args->ranks, &mine);
    if (status != STATUS_OK)
        return status;
    if (comm->link) {
        uint64_t most = 0; // elements of the rank with most columns
        for (uint32_t r = 0; r < args->ranks; r++)
            if ((uint64_t)args->rows * gather_count(args, r) > most)
                most = (uint64_t)args->rows * gather_count(args, r);
        for (uint64_t at = 0; at < most && status == STATUS_OK; at += LINK_FLOATS)
            status = linked_columns(stream, args, at);
        return status;
    }
    struct collective_job job = {.stream = stream,
                                 .gather = args,
                                 .end = (uint64_t)args->rows * args->ranks,
                                 .each = 1 + ROWS_CHUNK * args->ranks / (args->stride + 1)};
    job_run(rows_gather, &job);
    return ranks_meet(stream->comm);
}
