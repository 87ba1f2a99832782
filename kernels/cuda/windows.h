// SPDX-License-Identifier: Apache-2.0
// The buffer whose parts the ranks sum in place (stream_limits.sums_bytes). If the library can, it
// is memory of NCCL's allocator and is registered with the communicators as a window: NCCL then
// sums it by kernels that read and write the other ranks' memory directly (decision 0077).
// Otherwise it is ordinary memory. Used by the loading thread.
#pragma once

#include "kernels/cuda/comm.h"

// Returns true if the device's ranks can use windows: not in exact mode, and NCCL is new enough.
bool windows_wanted(const struct device *device);
// Returns the bytes that sums_open allocates for `bytes`.
uint64_t sums_planned(const struct device *device, uint64_t bytes);
// Returns the bytes that NCCL allocates for the windows of a communicator.
uint64_t windows_planned(const struct device *device, uint64_t bytes);

// Allocates stream->sums, filled with zeros; the stream exists.
cudaError_t sums_open(struct stream *stream, uint64_t bytes);
void sums_close(struct stream *stream);   // after its communicator
void *sums_buffer(struct stream *stream); // see struct device_api

// A rank of this process in one communicator. window: NULL if there is none.
struct window {
    struct stream *stream;
    ncclComm_t comm;
    ncclWindow_t window;
};

// Registers the buffers of `count` ranks, which are all ranks of this process in a communicator.
// All processes call it; it waits for them. Returns false, with no window of this process left, if
// the library has none for all of them.
bool windows_register(const struct nccl *nccl, struct window *windows, uint32_t count);
// Removes windows. The ranks' streams are idle and the communicator was not aborted.
void windows_remove(const struct nccl *nccl, struct window *windows, uint32_t count);
