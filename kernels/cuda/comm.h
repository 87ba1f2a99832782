// Ranks that are joined: the communicator of a device's streams (comm.c, over NCCL) and the kernels
// beside its collectives (ranks.cu).
#pragma once

#include "kernels/cuda/internal.h"

#if defined(__cplusplus)
extern "C" {
#endif

// device.c: DEVICE_FAULT where the stream has failed. comm.c: the same of all ranks, or what NCCL
// reports of them.
enum status stream_ask(const struct stream *stream, struct error *err);
enum status comm_watch(struct comm *comm, struct error *err);
// Until comm_let no other rank asks the stream: while `capturing` changes.
void comm_hold(struct stream *stream);
void comm_let(struct stream *stream);
bool comm_aborted(const struct comm *comm);
enum status comm_open(struct comm **out, struct stream *const *streams, uint32_t count,
                      struct error *err);
void comm_abort(struct comm *comm);
void comm_close(struct comm *comm);

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
