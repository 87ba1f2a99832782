// SPDX-License-Identifier: Apache-2.0
// Small kernels that exercise each wrapper of dev.h on given input, and kernels with deliberate
// faults. The same source runs under the emulator and on a GPU (bench/gpu_words.py compares the two
// results).
#pragma once

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { PROBE_WORDS = 4096 };

// Each probe reads PROBE_WORDS words and writes PROBE_WORDS words in device memory.
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
    PROBE_E4M3,
    PROBE_FMA_BF16,
    PROBE_COUNT
};
const char *probe_name(enum probe probe);
void probe_run(enum probe probe, const uint32_t *in, uint32_t *out, cudaStream_t stream);

enum fault {
    FAULT_NONE,
    FAULT_NO_BARRIER,        // shared memory is read by other threads without cta_sync
    FAULT_NO_WARP_SYNC,      // shared memory is read by other lanes without warp_sync
    FAULT_SHARED_REUSED,     // shared memory is written again before all threads have read it
    FAULT_WEAK_WAIT,         // waits for one cp.async group too few
    FAULT_NO_BARRIER_ASYNC,  // copies of other threads are waited for but not ordered
    FAULT_SHARED_OVERRUN,    // access after the end of a shared array
    FAULT_GLOBAL_OVERRUN,    // access after the end of an allocation
    FAULT_DIVERGENT_BARRIER, // barrier by half the block
    FAULT_DIVERGENT_SHUFFLE, // shuffle by half a warp
    FAULT_TWO_BLOCKS,        // two blocks write the same word
    FAULT_NO_RELEASE,        // last arrival is determined by a relaxed counter
    FAULT_MISALIGNED,        // 16-byte load at an address that is a multiple of 8
    FAULT_UNWRITTEN,         // reads a shared word that no thread has written
    FAULT_ASYNC_UNWAITED,    // the kernel ends before its cp.async has arrived
    FAULT_LOCAL_OF_OTHER,    // access through a pointer to another thread's local memory
    FAULT_NO_GRID_WAIT,      // begins early and never calls grid_wait
    FAULT_LATE_GRID_WAIT,    // calls grid_wait after its first read
    FAULT_PREFETCH_OVERRUN,  // prefetch after the end of an allocation
    FAULT_EARLY_AFTER_FILL,  // launched to begin early after work that is no kernel
    FAULT_COUNT
};
const char *fault_name(enum fault fault);
void fault_run(enum fault fault, uint32_t *words, uint32_t *counter, cudaStream_t stream);

// Accesses shared memory with a stride of `stride` words, and global memory, for the counts of the
// lint.
void lint_run(uint32_t *words, uint32_t stride, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
