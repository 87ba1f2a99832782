// SPDX-License-Identifier: Apache-2.0
// The interface by which tests control the emulator and read its counts and reports. C, so that
// cmocka programs can include it.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

struct simt_options {
    uint32_t seed; // 0: threads, blocks and streams run in order; otherwise seed of a random order
    bool lazy;     // true: queued work runs only when something waits for it
    bool quiet;    // true: reports are counted and kept, not printed
    bool lint;     // true: counts bank conflicts and sectors (race build only)
    bool no_image; // true: the device can run none of the kernels
    // number of devices in addition to the first; 7 until the first simt_configure
    uint32_t devices;
    bool no_nccl;           // true: NCCL cannot be opened
    uint32_t nccl_version;  // version of NCCL; 0: the oldest that weft accepts
    uint64_t nccl_stops_at; // number of the collective (from 1, per rank) that never ends and of
                            // which NCCL reports an error; 0: none
    uint32_t nccl_stops;    // number of ranks, the last ones, to which that happens; 0: all
    uint64_t nccl_stays_at; // number of the collective (from 1, per rank) whose call returns only
                            // when its rank is aborted; 0: none
    bool nccl_no_windows;   // true: NCCL's windows are not possible, as without peer access
    uint64_t nccl_window_fails; // number of the call (from 1) that registers a window and fails; 0:
                                // none
    uint32_t patience; // pauses of 0.1 ms for which a drained stream waits for late ranks; 0: 2
                       // minutes. If set, also limits how long an abort waits for graphs.
    uint32_t blas_candidates;   // number of algorithms that the stand-in cuBLASLt returns for a
                                // product; 0: one
    uint32_t blas_best;         // index of the one that is fastest by the emulated events
    uint32_t blas_slow;         // factor of the emulated time of products; 0: 1
    uint32_t blas_refuses;      // row count that every algorithm but the first refuses
    uint32_t small_ms, wide_ms; // emulated time of a product by weft's kernels; 0: 5
    bool blas_none;             // true: the library returns no algorithm
    bool blas_no_rows, blas_no_blocks; // true: the library has no FP8 products with such scales
    bool blas_bad_first;  // true: the first algorithm's state reports that it does not run
    uint64_t fail_at;     // number of the call that fails, counted from simt_reset; 0: none
    uint32_t major;       // major compute capability of the device; 0: 9
    uint64_t memory;      // bytes of a device's memory; 0: 1 GiB
    uint32_t shared_most; // most bytes of shared memory per block; 0: those of an H100
};

// Counts since the last simt_reset.
struct simt_counts {
    uint64_t reports, launches, blocks, blas_calls;
    uint64_t ldsm, ldsm_conflicts;              // ldmatrix phases, and phases beyond one per matrix
    uint64_t shared_requests, shared_conflicts; // lint: requests of warps, and extra passes
    // lint: requests, sectors, and the least possible sectors
    uint64_t global_requests, global_sectors, global_sectors_least;
    uint64_t device_bytes; // bytes of device memory allocated now
    uint64_t live;  // allocations, streams, events, graphs and cuBLASLt objects that exist now
    uint64_t calls; // number of calls that fail_at can make fail
    // weights: calls with another weight than the previous call
    uint64_t blas_heuristics, blas_descriptors, blas_weights;
    uint32_t blas_algorithm; // algorithm of the last product
    uint64_t copied_bytes;   // bytes copied between host and device
    uint64_t graph_nodes;    // nodes of the launched graphs
    uint64_t blas_codes;     // products of FP8 codes (part of blas_calls)
    uint64_t blas_recorded;  // products that were recorded into a graph (part of blas_calls)
    uint64_t small_products, wide_products; // launches of weft's product kernels
    // Kernels and algorithms used for the first time since simt_configure (a card would load them
    // then), and those of them used while a stream captured.
    uint64_t loads, loads_captured;
    uint64_t early;                  // launches that began before the previous kernel had ended
    uint64_t prefetches, prefetched; // prefetches into L2, and bytes (1 of each that is not bulk)
    uint64_t carveouts;              // preferred divisions of an SM's memory that were set
    uint64_t nccl_sums, nccl_copies; // collectives that ended, over all ranks
    uint64_t nccl_recorded;          // calls to communicators of graphs
    uint64_t nccl_windows, nccl_windowed; // windows that exist now; calls on data in windows
    uint64_t nccl_registered;             // calls that register a window
    uint64_t nccl_stays; // ranks that stayed in a call until they were aborted, or still do
};

// Counts of the lint for one kernel since the last simt_reset: passes over shared memory beyond the
// first of each request, and 32-byte sectors of global memory of all requests.
struct simt_lint {
    uint64_t launches;
    uint64_t shared_requests, shared_conflicts;
    uint64_t global_requests, global_sectors;
};

void simt_configure(const struct simt_options *options);
void simt_reset(void);
void simt_read(struct simt_counts *out);
const char *simt_first_report(void); // first report; "": there is none
int simt_device_of(const void *at);  // device of the allocation at this address; -1: none
// Reads the counts of all kernels whose name begins with `kernel`; type arguments follow the name
// in brackets.
void simt_lint_read(const char *kernel, struct simt_lint *out);
bool simt_checks_races(void); // returns true if this build has the access hooks
bool simt_run_pending(void);  // runs one queued piece of work; false: none can run

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
