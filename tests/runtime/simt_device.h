// Device simt (the CUDA sources under the emulator) with switches for tests: exact mode and graphs
// on or off, replays counted, and the emulator's own counters. For tests; one device at a time, one
// thread. The library lies beside the test program. WEFT_TEST_DEVICE=cuda (and
// WEFT_TEST_DEVICE_LIBRARY=FILE) puts a real card in its place, without the emulator's counters.
#pragma once

#include "kernels/device.h"
#include "tests/simt/control.h"

#include <stdbool.h>

struct simt_device_counts {
    uint32_t graphs, replays;
    uint64_t blas_calls, reports; // the emulator's, as all that follow
    uint64_t blas_heuristics, blas_recorded, loads, loads_captured;
};

// False, with one line that says why, where the library is not there.
bool simt_device_usable(void);

// The api; counts start at zero. lazy: queued work runs only when something waits for it, shuffled
// by seed. Of the stand-in library's candidates the last is the fastest.
struct simt_device_switches {
    bool exact, graphs, lazy;
    uint32_t seed, blas_candidates;
    const char *cache_folder;
};
const struct device_api *simt_device(const struct simt_device_switches *switches);
struct simt_device_counts simt_device_read(void);
const char *simt_device_report(void); // the emulator's first, "" where there is none
