// SPDX-License-Identifier: Apache-2.0
// The part of NCCL that the cuda device uses. It is declared here from its public documentation, so
// that a build needs neither NCCL's header nor the library; the library is opened at run time, only
// if ranks share a model.
#pragma once

#include "base/status.h"

#include <cuda_runtime_api.h>
#include <limits.h>

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct ncclComm *ncclComm_t;
typedef struct {
    char internal[128];
} ncclUniqueId; // identifies a communicator whose ranks are in several processes
typedef enum { ncclSuccess = 0, ncclInProgress = 7 } ncclResult_t; // other values are errors
typedef enum { ncclFloat16 = 6, ncclFloat32 = 7, ncclBfloat16 = 9 } ncclDataType_t;
typedef enum { ncclSum = 0 } ncclRedOp_t;
typedef struct ncclWindow_vidmem *ncclWindow_t; // memory that all ranks of a communicator can reach
enum { NCCL_WIN_COLL_SYMMETRIC = 1, NCCL_WINDOWS = 22700 }; // flag of windows; first version

// Configuration of a communicator as of NCCL 2.29; NCCL_NOT_SET: the library's default.
enum { NCCL_NOT_SET = INT_MIN, NCCL_ONE_GRAPH = 1, NCCL_GRAPH_USE = 22900 };
typedef struct {
    size_t size;
    unsigned magic, version; // 0xcafebeef; version of this struct
    int blocking, cga_size, ctas_min, ctas_max;
    const char *net;
    int split_share, traffic_class;
    const char *name;
    int collnet, cta_policy, shrink_share, nvls_ctas, net_channels, nvlink_sched;
    // NCCL_ONE_GRAPH: its collectives are recorded, and two graphs of them do not run at a time
    int graph_usage;
    int rma_contexts;
} ncclConfig_t;

// X(result, name, arguments)
// clang-format off
#define NCCL_LIST(X)                                                                               \
    X(ncclResult_t, GetVersion, (int *version))                                                    \
    X(const char *, GetErrorString, (ncclResult_t result))                                         \
    X(ncclResult_t, CommInitAll, (ncclComm_t *comms, int count, const int *devices))               \
    X(ncclResult_t, GetUniqueId, (ncclUniqueId *id))                                               \
    X(ncclResult_t, CommInitRank, (ncclComm_t *comm, int ranks, ncclUniqueId id, int rank))        \
    X(ncclResult_t, CommDestroy, (ncclComm_t comm))                                                \
    X(ncclResult_t, CommAbort, (ncclComm_t comm))                                                  \
    X(ncclResult_t, CommGetAsyncError, (ncclComm_t comm, ncclResult_t *error))                     \
    X(ncclResult_t, AllReduce, (const void *from, void *to, size_t count, ncclDataType_t type,     \
                                ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream))             \
    X(ncclResult_t, AllGather, (const void *from, void *to, size_t count, ncclDataType_t type,     \
                                ncclComm_t comm, cudaStream_t stream))                             \
    X(ncclResult_t, Broadcast, (const void *from, void *to, size_t count, ncclDataType_t type,     \
                                int root, ncclComm_t comm, cudaStream_t stream))                   \
    X(ncclResult_t, GroupStart, (void))                                                            \
    X(ncclResult_t, GroupEnd, (void))
// Functions of newer versions; NULL: the library is older.
#define NCCL_NEWER(X)                                                                              \
    X(ncclResult_t, CommSplit, (ncclComm_t comm, int color, int key, ncclComm_t *out,              \
                                ncclConfig_t *config))                                             \
    X(ncclResult_t, MemAlloc, (void **out, size_t bytes))                                          \
    X(ncclResult_t, MemFree, (void *at))                                                           \
    X(ncclResult_t, CommWindowRegister, (ncclComm_t comm, void *at, size_t bytes,                  \
                                         ncclWindow_t *out, int flags))                            \
    X(ncclResult_t, CommWindowDeregister, (ncclComm_t comm, ncclWindow_t window))
// clang-format on

struct nccl {
    void *library;
    int version; // 10000 * major + 100 * minor + patch
#define NCCL_FIELD(result, name, arguments) result(*name) arguments;
    NCCL_LIST(NCCL_FIELD)
    NCCL_NEWER(NCCL_FIELD)
#undef NCCL_FIELD
};

// Opens libnccl.so.2 and finds the functions. Returns NO_DEVICE with the reason if the library or
// one of its functions is missing, or if it is older than 2.18.
enum status nccl_open(struct nccl *out, struct error *err) MUST_USE;
// Closes the library; does nothing if it is not open.
void nccl_close(struct nccl *nccl);

#if defined(__cplusplus)
}
#endif
