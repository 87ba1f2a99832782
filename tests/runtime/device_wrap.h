// A wrapper of device cpu that a test can inspect: counts the memory that is taken, says that one
// step may be in flight, and records and replays graphs as a GPU does (a recorded op keeps its
// arguments; the step record that they point to changes). For tests; one device at a time, one
// thread. The model does not know of it, so the code path of cuda runs on the CPU.
#pragma once

#include "kernels/device.h"

#include <stdint.h>

struct device_wrap_counts {
    uint64_t taken, given; // bytes of device and host memory
    uint32_t graphs, replays;
    uint32_t ops;                   // called since device_wrap_fail
    uint32_t first_rows, last_rows; // of the first and the last product that ran since then
    uint32_t loads;                 // calls while loading, since device_wrap_refuse
    uint32_t uploads;
    uint64_t uploaded;     // bytes, each upload right after the one before
    const char *upload_at; // where the first went
    uint64_t copied;       // bytes of the last copy_in
};

// The api; counts start at zero. flight: steps in flight; graphs: whether graph_* are there.
const struct device_api *device_wrap(uint32_t flight, bool graphs);
const struct device_wrap_counts *device_wrap_counts(void);
// A float32 checkpoint runs as this type from now on, as the device tells; device_wrap resets it.
void device_wrap_float32(enum dtype dtype);
// The op-th call of an op from now on fails; 0: none.
void device_wrap_fail(uint32_t op);
// Of the calls that load a model (memory, uploads, weights, a stream) the n-th from now on is
// refused with NO_MEMORY; 0: none.
void device_wrap_refuse(uint32_t n);
