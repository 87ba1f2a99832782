// SPDX-License-Identifier: Apache-2.0
// Shared by the files of test_simt_blas: a device with loaded weights of one shape, a product that
// is run as in a step or as at startup, and the file of tuned products. One thread; fixture_close
// frees what fixture_open allocated.
#pragma once

#include "kernels/device.h"
#include "tests/simt/control.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { N = 16, K = 32, ROWS = 1030, LAYERS = 3 };

struct fixture {
    const struct device_api *api;
    struct device *device;
    struct stream *stream;
    struct weight weight[LAYERS];
    void *x, *y;
};

extern char folder[];   // folder of the file of tuned products
extern char noted[512]; // last line that the device logged since the fixture was opened
extern uint32_t notes;  // number of those lines

const struct device_api *weft_device_plugin(void);
void fixture_open(struct fixture *w, bool exact);
void fixture_close(struct fixture *w);
// Runs a product, which must succeed without a report of the emulator, and returns its counts.
struct simt_counts gemm_counted(const struct device_api *api, struct stream *stream,
                                const struct gemm_args *args);
// Ends the recording of one product, launches the graph and checks that it has `nodes` nodes and
// that the wide kernel ran only if the library did not compute the product.
void recorded_check(const struct device_api *api, struct stream *stream, uint32_t nodes,
                    bool library);
// Runs a product as in a step. x begins `shift` bytes after the start of an allocation.
struct simt_counts serve_at(struct fixture *w, uint32_t rows, size_t shift);
struct simt_counts serve(struct fixture *w, uint32_t rows);
// Runs a product as at the startup of a model, when products are timed.
struct simt_counts run_at(struct fixture *w, uint32_t rows, size_t shift);
struct simt_counts run(struct fixture *w, uint32_t rows);
void cache_path(char path[300]); // path of the only file of tuned products
void cache_remove(void);

void test_own_kernels_and_the_library(void **state);
void test_every_choice_is_right(void **state);
void test_float32_is_the_library_s(void **state);
void test_exact_mode_times_nothing(void **state);

// blas_codes.c
void test_codes_for_the_library(void **state);
void test_codes_the_library_lacks(void **state);
void test_codes_are_timed(void **state);
void test_codes_memory(void **state);

// blas_fused.c
void test_fused_bits(void **state);
void test_fused_or_not(void **state);
void test_fused_graph(void **state);
void test_fused_timing(void **state);

// blas_strips.c
void test_strips_for_the_library(void **state);
void test_strips_are_timed(void **state);
void test_strips_memory(void **state);
