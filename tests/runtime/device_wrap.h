// SPDX-License-Identifier: Apache-2.0
// A wrapper of device cpu for tests, which makes the model take the code path of cuda on the CPU.
// It counts allocated memory and uploads, reports the given number of steps in flight, and records
// and replays graphs like a GPU: a recorded op keeps its arguments, while the step record that they
// point to changes. Supports one device at a time, on one thread.
#pragma once

#include "kernels/device.h"

#include <stdint.h>

struct device_wrap_counts {
    uint64_t taken, given; // bytes of device and host memory, allocated and freed
    uint32_t graphs, replays;
    uint32_t ops;                   // ops called since device_wrap_fail
    uint32_t first_rows, last_rows; // rows of the first and the last product since device_wrap_fail
    uint32_t loads;                 // calls of the load path since device_wrap_refuse
    uint32_t uploads;
    uint64_t uploaded;     // total bytes; each upload must continue the one before
    const char *upload_at; // target address of the first upload
    uint64_t copied;       // size of the last copy_in
};

// Returns the device's table and sets all counts to zero. flight: number of steps in flight that it
// reports. graphs: whether it supports graphs.
const struct device_api *device_wrap(uint32_t flight, bool graphs);
// Returns the counts, which later calls update.
const struct device_wrap_counts *device_wrap_counts(void);
// Sets the dtype in which the device runs float32 checkpoints. device_wrap resets it to float32.
void device_wrap_float32(enum dtype dtype);
// Makes the op-th call of an op from now on fail with STATUS_DEVICE_FAULT; 0: none fails.
void device_wrap_fail(uint32_t op);
// Makes the n-th call of the load path (memory, uploads, weights, streams) from now on fail with
// STATUS_NO_MEMORY; 0: none fails.
void device_wrap_refuse(uint32_t n);
