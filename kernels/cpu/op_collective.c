// Collectives of ranks that are threads of this process, each with a device and a stream of its
// own. A rank leaves in `place` where its numbers lie and meets the others; then each reads what it
// needs from all of them and meets the others again, after which inputs may be overwritten. A rank
// that waits spins, then sleeps on a futex.
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
    struct comm_place { // what a rank brings to the collective under way
        _Alignas(64) const float *in;
        void *out;
        uint64_t count, rows, stride, first;
    } place[RANKS_MAX];
    _Alignas(64) _Atomic uint32_t arrived; // ranks at the meeting under way
    _Alignas(64) _Atomic uint32_t round;   // futex word: meetings that have ended, ROUND_ABORTED
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
    futex_tell(&comm->round, &comm->sleepers);
}

void cpu_comm_close(struct comm *comm)
{
    for (uint32_t i = 0; comm && i < comm->size; i++)
        comm->streams[i]->comm = NULL;
    free(comm);
}

// Returns when all ranks have come.
static enum status meet(struct comm *comm)
{
    uint32_t round = atomic_load(&comm->round);
    if (round & ROUND_ABORTED)
        return STATUS_DEVICE_FAULT;
    if (atomic_fetch_add(&comm->arrived, 1) + 1 == comm->size) {
        atomic_store(&comm->arrived, 0);
        atomic_fetch_add(&comm->round, ROUND_ONE);
        futex_tell(&comm->round, &comm->sleepers);
    } else {
        futex_await(&comm->round, round, &comm->sleepers);
    }
    return atomic_load(&comm->round) & ROUND_ABORTED ? STATUS_DEVICE_FAULT : STATUS_OK;
}

// Meets the others with what this rank brings. INVALID where they do not call the same op.
static enum status collective_begin(const struct stream *stream, uint32_t ranks,
                                    const struct comm_place *mine)
{
    struct comm *comm = stream->comm;
    if (!comm || comm->size != ranks)
        return STATUS_INVALID;
    comm->place[stream->rank] = *mine;
    enum status status = meet(comm);
    for (uint32_t r = 1; r < ranks && status == STATUS_OK; r++) {
        const struct comm_place *a = &comm->place[0], *b = &comm->place[r];
        bool sum = a->stride == 0;
        if (a->rows != b->rows || a->stride != b->stride || (sum && a->count != b->count))
            status = STATUS_INVALID;
    }
    return status;
}

// This rank's part of the sums, for all ranks.
static void sums_make(const struct comm *comm, uint32_t rank, uint64_t count)
{
    enum { PIECE = 1024 };
    uint64_t first = count * rank / comm->size, end = count * (rank + 1) / comm->size;
    float sum[PIECE];
    for (uint64_t at = first; at < end; at += PIECE) {
        uint32_t n = end - at < PIECE ? (uint32_t)(end - at) : PIECE;
        memcpy(sum, comm->place[0].in + at, n * sizeof *sum);
        for (uint32_t r = 1; r < comm->size; r++)
            for (uint32_t i = 0; i < n; i++)
                sum[i] += comm->place[r].in[at + i];
        for (uint32_t r = 0; r < comm->size; r++)
            memcpy((float *)comm->place[r].out + at, sum, n * sizeof *sum);
    }
}

enum status cpu_all_reduce(struct stream *stream, const struct all_reduce_args *args)
{
    struct comm_place mine = {.in = args->in, .out = args->out, .count = args->count};
    enum status status = collective_begin(stream, args->ranks, &mine);
    if (status != STATUS_OK)
        return status;
    sums_make(stream->comm, stream->rank, args->count);
    return meet(stream->comm);
}

enum status cpu_all_gather(struct stream *stream, const struct all_gather_args *args)
{
    struct comm_place mine = {.in = args->in,
                              .count = args->count,
                              .rows = args->rows,
                              .stride = args->stride,
                              .first = args->first};
    enum status status = collective_begin(stream, args->ranks, &mine);
    if (status != STATUS_OK)
        return status;
    for (uint32_t r = 0; r < args->ranks; r++) {
        const struct comm_place *from = &stream->comm->place[r];
        for (uint32_t row = 0; row < args->rows; row++)
            memcpy(args->out + (size_t)row * args->stride + from->first,
                   from->in + (size_t)row * from->count, from->count * sizeof(float));
    }
    return meet(stream->comm);
}
