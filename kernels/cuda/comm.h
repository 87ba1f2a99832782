// SPDX-License-Identifier: Apache-2.0
// The communicator of the ranks' streams (comm.c, with NCCL), and the kernels that its collectives
// need in addition to NCCL's (ranks.cu).
#pragma once

#include "kernels/cuda/internal.h"

#if defined(__cplusplus)
extern "C" {
#endif

// The next three are those of struct device_api (kernels/device.h).
enum status comm_open(struct comm **out, struct stream *const *streams, uint32_t count,
                      const struct comm_link *link, struct error *err);
void comm_abort(struct comm *comm); // from any thread; does not block
void comm_close(struct comm *comm); // after the graphs of all ranks are closed
// Returns true if recorded collectives get a communicator of their own, which takes NCCL_BYTES too.
bool comm_records_apart(const struct device *device);
// Returns true after comm_abort. Any thread.
bool comm_aborted(const struct comm *comm);
// Called by the thread that waits for stream `own`. Returns DEVICE_FAULT if another process of the
// communicator is lost or has failed, if NCCL reports an error of a rank of this process, or if the
// stream of another rank of this process has failed; OK if no fault is known. With a link, NCCL's
// error is reported 2.5 s late, so that the link can name the lost process first.
enum status comm_watch(const struct stream *own, struct error *err);
// Acquire and release the lock of the stream's rank; they do nothing without a communicator. While
// the lock is held, comm_watch skips the rank, and an abort waits for the lock (at most one second
// for all ranks).
void comm_lock(struct stream *stream);
void comm_unlock(struct stream *stream);

// ranks.cu: to[i] = from[0][i] + from[1][i] + ..., rounded once.
struct ranks_add {
    const float *from; // [parts][count] f32
    void *to;          // [count] act
    uint32_t count, parts;
};
enum status ranks_sum(struct stream *stream, enum dtype act, const struct ranks_add *add);
// Copies the columns of all ranks to their places in the rows of args->out. from: for each rank, in
// the order of the ranks, [rows][columns of the rank] f32.
enum status columns_put(struct stream *stream, const struct all_gather_args *args,
                        const float *from);

#if defined(__cplusplus)
}
#endif
