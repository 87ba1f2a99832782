// SPDX-License-Identifier: Apache-2.0
// The communicator of the ranks' streams (comm.c, with NCCL) and the kernels that its collectives
// need in addition (ranks.cu).
#pragma once

#include "kernels/cuda/internal.h"

#if defined(__cplusplus)
extern "C" {
#endif

enum status comm_open(struct comm **out, struct stream *const *streams, uint32_t count,
                      const struct comm_link *link, struct error *err);
void comm_abort(struct comm *comm); // from any thread; does not block
void comm_close(struct comm *comm); // after the graphs of all ranks are closed
bool comm_aborted(const struct comm *comm);
// Called by the thread that waits for stream `own`. Returns DEVICE_FAULT if another process of the
// communicator is lost, NCCL reports an error of a rank here or another rank's stream has failed;
// OK if no fault is known.
enum status comm_watch(const struct stream *own, struct error *err);
// Lock of the stream's rank, if it has a communicator. While it is held, comm_watch skips the rank
// and an abort waits for it (for a limited time).
void comm_lock(struct stream *stream);
void comm_unlock(struct stream *stream);

// ranks.cu: to[i] = from[0][i] + from[1][i] + ..., rounded once.
struct ranks_add {
    const float *from; // [parts][count]
    void *to;
    uint32_t count, parts;
};
enum status ranks_sum(struct stream *stream, enum dtype act, const struct ranks_add *add);
// Copies the columns of all ranks, stored rank after rank as [rows][columns of the rank], to
// complete rows of args->out.
enum status columns_put(struct stream *stream, const struct all_gather_args *args,
                        const float *from);

#if defined(__cplusplus)
}
#endif
