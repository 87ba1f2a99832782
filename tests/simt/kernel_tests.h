// What the files of test_kernels share: the device that is tested, arrays on it, waiting, and the
// tests of kernel_products.c. One thread; whoever takes memory gives it back.
#pragma once

#include "kernels/attn_tiles.h"
#include "kernels/cuda/internal.h" // attn_work
#include "tests/simt/control.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include <cmocka.h>

// There only under the emulator.
__attribute__((weak)) void simt_configure(const struct simt_options *options);
__attribute__((weak)) void simt_read(struct simt_counts *out);

extern const struct device_api *api;
extern struct device *device;
extern bool small; // only shapes that the slow modes can afford
extern uint32_t random_state;

float uniform(void);      // in [-1, 1)
void *take(size_t bytes); // device memory
void give(void *at);
void *host_alloc(size_t bytes);
void wait_for(struct stream *stream);
void store(void *to, enum dtype dtype, size_t i, float value);
float load(const void *from, enum dtype dtype, size_t i);
// A host array (to be freed) of random numbers of a type, and a device array of the same.
void *random_array(enum dtype dtype, size_t count, float size, void **on_device);
void note(const char *line); // of the device: that a file was refused, counted

void test_products(void **state);
void test_staging(void **state);
void test_three_pieces(void **state);
void test_direct_refused(void **state);
