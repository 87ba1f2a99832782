// Ranks that are joined: the communicator of a device's streams (comm.c, over NCCL) and the kernels
// beside its collectives (ranks.cu).
#pragma once

#include "kernels/cuda/internal.h"

#if defined(__cplusplus)
extern "C" {
#endif

enum status comm_open(struct comm **out, struct stream *const *streams, uint32_t count,
                      struct error *err);
void comm_abort(struct comm *comm); // from any thread; waits for nothing
void comm_close(struct comm *comm); // after the graphs of all ranks
bool comm_aborted(const struct comm *comm);
// From whoever waits for `own`: DEVICE_FAULT where NCCL reports an error of a rank or the stream of
// another one has failed; OK where nothing is known.
enum status comm_watch(const struct stream *own, struct error *err);
// The lock of the stream's rank, where it has one: nobody aborts it or asks how it is meanwhile.
void comm_lock(struct stream *stream);
void comm_unlock(struct stream *stream);

// ranks.cu: to[i] = from[0][i] + from[1][i] + ..., [parts][count] f32, rounded once.
struct ranks_add {
    const float *from;
    void *to;
    uint32_t count, parts;
};
enum status ranks_sum(struct stream *stream, enum dtype act, const struct ranks_add *add);
// Columns of ranks that lie one after the other, [rows][columns of the rank] each, to rows of all.
enum status columns_put(struct stream *stream, const struct all_gather_args *args,
                        const float *from);

#if defined(__cplusplus)
}
#endif
