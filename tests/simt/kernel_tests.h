// SPDX-License-Identifier: Apache-2.0
// Shared by the files of test_kernels: the device under test, arrays on it, waiting, and the tests
// of kernel_products.c and kernel_experts.c. One thread; the caller that allocates memory frees it.
#pragma once

#include "kernels/attn_tiles.h"
#include "kernels/cuda/internal.h" // for attn_work
#include "tests/simt/control.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include <cmocka.h>

// Defined only under the emulator.
__attribute__((weak)) void simt_configure(const struct simt_options *options);
__attribute__((weak)) void simt_read(struct simt_counts *out);

extern const struct device_api *api;
extern struct device *device;
extern bool small; // true: only shapes that are fast enough for the slow modes
extern uint32_t random_state;

float uniform(void);              // random number in [-1, 1)
void *device_alloc(size_t bytes); // allocates device memory
void device_free(void *at);
void *host_alloc(size_t bytes);
void wait_for(struct stream *stream);
void store(void *to, enum dtype dtype, size_t i, float value);
float load(const void *from, enum dtype dtype, size_t i);
// Returns a host array of random numbers that the type can represent (the caller frees it), and a
// device array of the same numbers.
void *random_array(enum dtype dtype, size_t count, float size, void **on_device);
void note(uint32_t index,
          const char *line); // the device's log function; counts lines about refused files

void test_products(void **state);
void test_staging(void **state);
void test_three_pieces(void **state);
void test_direct_refused(void **state);
void test_experts(void **state); // kernel_experts.c
