// SPDX-License-Identifier: Apache-2.0
// See windows.h.
#include "kernels/cuda/windows.h"

#include "base/number.h"
#include "kernels/ways.h"

// WINDOW_UNIT: NCCL rounds an allocation up to the driver's granularity, 2 MiB for a GPU's memory.
// WINDOW_BYTES: buffers of its kernels for windows in a communicator: 8 MiB in NCCL 2.27, a MiB for
// each rank in 2.30, each rounded up, and tables.
#define WINDOW_UNIT ((uint64_t)2 << 20)
#define WINDOW_BYTES ((uint64_t)16 << 20)

bool windows_wanted(const struct device *device)
{
    const struct nccl *nccl = &device->nccl;
    return device->options.ranks > 0 && !device->exact && nccl->MemAlloc && nccl->MemFree &&
           nccl->CommWindowRegister && nccl->CommWindowDeregister &&
           nccl->version >= NCCL_WINDOWS && !(device->options.ways & WAY_NO_WINDOWS);
}

uint64_t sums_planned(const struct device *device, uint64_t bytes)
{
    return windows_wanted(device) ? round_up(bytes, WINDOW_UNIT) : bytes;
}

uint64_t windows_planned(const struct device *device, uint64_t bytes)
{
    return bytes > 0 && windows_wanted(device) ? WINDOW_BYTES : 0;
}

cudaError_t sums_open(struct stream *stream, uint64_t bytes)
{
    const struct device *device = stream->device;
    if (bytes == 0)
        return cudaSuccess;
    stream->sums_shared = windows_wanted(device) &&
                          device->nccl.MemAlloc(&stream->sums, bytes) == ncclSuccess &&
                          stream->sums;
    if (!stream->sums_shared) {
        (void)cudaGetLastError(); // clears the error of NCCL's allocation
        stream->sums = NULL;
    }
    cudaError_t code = stream->sums_shared ? cudaSuccess : cudaMalloc(&stream->sums, bytes);
    if (code == cudaSuccess)
        code = cudaMemsetAsync(stream->sums, 0, bytes, stream->cuda);
    return code == cudaSuccess ? cudaStreamSynchronize(stream->cuda) : code;
}

void sums_close(struct stream *stream)
{
    if (stream->sums_shared)
        (void)stream->device->nccl.MemFree(stream->sums);
    else
        (void)cudaFree(stream->sums);
    stream->sums = NULL;
}

void *sums_buffer(struct stream *stream)
{
    return stream->sums;
}

bool windows_register(const struct nccl *nccl, struct window *windows, uint32_t count)
{
    ncclResult_t result = nccl->GroupStart();
    bool all = result == ncclSuccess;
    for (uint32_t i = 0; i < count && all; i++) {
        const struct stream *stream = windows[i].stream;
        all = nccl->CommWindowRegister(windows[i].comm, stream->sums, stream->limits.sums_bytes,
                                       &windows[i].window, NCCL_WIN_COLL_SYMMETRIC) == ncclSuccess;
    }
    // After a failed call the end of the group does nothing, and returns its error.
    if (result == ncclSuccess)
        all = nccl->GroupEnd() == ncclSuccess && all;
    // Without peer access, for instance, the calls succeed and there are no windows.
    for (uint32_t i = 0; i < count; i++)
        all = all && windows[i].window;
    (void)cudaGetLastError(); // clears the error of failed calls
    if (!all)
        windows_remove(nccl, windows, count);
    return all;
}

void windows_remove(const struct nccl *nccl, struct window *windows, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (windows[i].window)
            (void)nccl->CommWindowDeregister(windows[i].comm, windows[i].window);
        windows[i].window = NULL;
    }
}
