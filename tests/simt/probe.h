// Small kernels that exercise each wrapper of dev.h on given input, and kernels with planted
// faults. The same source runs under the emulator and on a GPU (bench/gpu_words.py compares
// the two results).
#pragma once

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { PROBE_WORDS = 4096 };

// Each takes PROBE_WORDS input words and fills PROBE_WORDS output words (device memory).
enum probe {
    PROBE_MMA_BF16,
    PROBE_MMA_F16,
    PROBE_LDSM,
    PROBE_LDSM_T,
    PROBE_MOVM,
    PROBE_SHUFFLE,
    PROBE_BALLOT,
    PROBE_CP_ASYNC,
    PROBE_CONVERT,
    PROBE_APPROX,
    PROBE_ATOMIC,
    PROBE_VECTOR,
    PROBE_LAST_ARRIVER,
    PROBE_NAMED_BARRIER,
    PROBE_COUNT
};
const char *probe_name(enum probe probe);
void probe_run(enum probe probe, const uint32_t *in, uint32_t *out, cudaStream_t stream);

enum fault {
    FAULT_NONE,
    FAULT_NO_BARRIER,        // shared memory read by others without cta_sync
    FAULT_NO_WARP_SYNC,      // the same within a warp
    FAULT_SHARED_REUSED,     // written again before all have read
    FAULT_WEAK_WAIT,         // one cp.async group too few waited for
    FAULT_NO_BARRIER_ASYNC,  // waited for, but others' copies not ordered
    FAULT_SHARED_OVERRUN,    // past a shared array
    FAULT_GLOBAL_OVERRUN,    // past an allocation
    FAULT_DIVERGENT_BARRIER, // half the block
    FAULT_DIVERGENT_SHUFFLE, // half a warp
    FAULT_TWO_BLOCKS,        // two blocks write one word
    FAULT_NO_RELEASE,        // last arriver with a relaxed counter
    FAULT_MISALIGNED,        // 16-byte load at 8
    FAULT_UNWRITTEN,         // shared word that nobody wrote
    FAULT_ASYNC_UNWAITED,    // ends with a copy under way
    FAULT_LOCAL_OF_OTHER,    // a pointer to another thread's local
    FAULT_NO_GRID_WAIT,      // begins early and never waits for the kernel in front
    FAULT_LATE_GRID_WAIT,    // waits after its first read
    FAULT_PREFETCH_OVERRUN,  // a prefetch past an allocation
    FAULT_EARLY_AFTER_FILL,  // may begin early behind what is no kernel
    FAULT_COUNT
};
const char *fault_name(enum fault fault);
void fault_run(enum fault fault, uint32_t *words, uint32_t *counter, cudaStream_t stream);

// Shared-memory accesses with a stride of `stride` words, and global ones: for the lint's counts.
void lint_run(uint32_t *words, uint32_t stride, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
