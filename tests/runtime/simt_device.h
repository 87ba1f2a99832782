// SPDX-License-Identifier: Apache-2.0
// Device simt (the CUDA sources under the emulator) with switches for tests: exact mode and graphs
// on or off, counts of replays, and the emulator's counters. One device at a time, one thread. The
// library is in the folder of the test program. WEFT_TEST_DEVICE=cuda (and
// WEFT_TEST_DEVICE_LIBRARY=FILE) uses a real GPU instead, without the emulator's counters.
#pragma once

#include "kernels/device.h"
#include "tests/simt/control.h"

#include <stdbool.h>

struct simt_device_counts {
    uint32_t graphs, replays;
    uint64_t blas_calls, reports; // counters of the emulator, like all members below
    uint64_t blas_heuristics, blas_recorded, loads, loads_captured;
};

// Returns false, and prints the reason in one line, if the library is not available.
bool simt_device_usable(void);

// lazy: queued work runs only when a call waits for it, in an order shuffled by seed.
// blas_candidates: number of algorithms that the stand-in for cuBLASLt offers; the last is the
// fastest.
struct simt_device_switches {
    bool exact, graphs, lazy;
    uint32_t seed, blas_candidates;
    const char *cache_folder;
};
// Returns the device's table with these switches and sets all counts to zero.
const struct device_api *simt_device(const struct simt_device_switches *switches);
// Returns the current counts.
struct simt_device_counts simt_device_read(void);
const char *simt_device_report(void); // the emulator's first report, "" if there is none
