// How tests steer the emulator and read what it found. C, so that cmocka programs include it.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

struct simt_options {
    uint32_t seed;          // 0: threads, blocks and streams in order; else shuffled by it
    bool lazy;              // queued work runs only when something waits for it
    bool quiet;             // reports are counted and kept, not printed
    bool lint;              // count bank conflicts and sectors (race build only)
    bool no_image;          // the device can run none of the kernels
    uint32_t devices;       // more than the first; 7 until the first simt_configure
    bool no_nccl;           // there is no library for ranks
    uint32_t nccl_version;  // of that library, as its number; 0: the oldest that is taken
    uint64_t nccl_stops_at; // the collective, counted from 1 for each rank, that never ends and
                            // of which the library reports an error; 0: none
    uint32_t nccl_stops;    // ranks, the last ones, to which that happens; 0: all
    uint64_t nccl_stays_at; // the call of a collective, counted likewise, that returns when its
                            // rank is aborted; 0: none
    uint32_t patience; // pauses of 0.1 ms that a drained stream waits for late ranks; 0: 2 min;
                       // and where it is set, that aborting waits for graphs
    uint32_t blas_candidates;   // algorithms the stand-in library names for a product; 0: one
    uint32_t blas_best;         // which of them is the fastest by the emulated events
    uint32_t blas_slow;         // how many times longer products pretend to take; 0: once
    uint32_t blas_refuses;      // rows that every algorithm but the first refuses
    uint32_t small_ms, wide_ms; // what a product of our kernels pretends to take; 0: 5
    bool blas_none;             // the library names no algorithm
    bool blas_bad_first;        // the first named one does not run, as its state says
    uint64_t fail_at;           // the call that fails, counted from simt_reset on; 0: none
    uint32_t major;             // compute capability of the device; 0: 9
    uint32_t shared_most;       // bytes of shared memory a block may have; 0: those of an H100
};

// Counts since the last simt_reset.
struct simt_counts {
    uint64_t reports, launches, blocks, blas_calls;
    uint64_t ldsm, ldsm_conflicts;              // ldmatrix phases and those above one a matrix
    uint64_t shared_requests, shared_conflicts; // lint: warp requests; extra passes
    uint64_t global_requests, global_sectors, global_sectors_least; // lint
    uint64_t device_bytes;                                          // taken now
    uint64_t live;  // allocations, streams, events, graphs and the library's objects now
    uint64_t calls; // that fail_at may let fail
    uint64_t blas_heuristics, blas_descriptors, blas_weights; // weights: changes between calls
    uint32_t blas_algorithm;                                  // of the last product
    uint64_t copied_bytes;                                    // by copies between host and device
    uint64_t graph_nodes;                                     // of the graphs that were launched
    uint64_t blas_recorded;                 // products that a graph took up, of blas_calls
    uint64_t small_products, wide_products; // launches of our kernels
    // Kernels and algorithms used for the first time since simt_configure, which a card loads then;
    // and those of them while a stream captured.
    uint64_t loads, loads_captured;
    uint64_t early;                  // of the launches: before the kernel in front has ended
    uint64_t nccl_sums, nccl_copies; // collectives that ended, of all ranks
    uint64_t nccl_stays;             // ranks that stayed in a call until they were aborted, or stay
};

// What the lint counted of one kernel since the last simt_reset: of shared memory the passes beyond
// the first of a request, of global memory the 32-byte sectors of all requests.
struct simt_lint {
    uint64_t launches;
    uint64_t shared_requests, shared_conflicts;
    uint64_t global_requests, global_sectors;
};

void simt_configure(const struct simt_options *options);
void simt_reset(void);
void simt_read(struct simt_counts *out);
const char *simt_first_report(void); // "" where there is none
int simt_device_of(const void *at);  // which device's allocation; -1: none
// Of all kernels whose name begins so; its type arguments follow in brackets.
void simt_lint_read(const char *kernel, struct simt_lint *out);
bool simt_checks_races(void); // this build has the access hooks
bool simt_run_pending(void);  // runs one queued piece of work; false: none could run

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
