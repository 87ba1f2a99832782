// What the files of test_simt_blas share: a device with loaded weights of one shape, a product on
// it as in a step or as at a start, and the file of choices. One thread; a world gives back what it
// took.
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

struct world {
    const struct device_api *api;
    struct device *device;
    struct stream *stream;
    struct weight weight[LAYERS];
    void *x, *y;
};

extern char folder[];   // of the file of choices
extern char noted[512]; // the last line that a device has noted since a world was opened
extern uint32_t notes;  // and how many

void world_open(struct world *w, bool exact);
void world_close(struct world *w);
// As in a step. x begins `shift` bytes after the start of an allocation.
struct simt_counts serve_at(struct world *w, uint32_t rows, size_t shift);
struct simt_counts serve(struct world *w, uint32_t rows);
// As at the start of a model.
struct simt_counts run_at(struct world *w, uint32_t rows, size_t shift);
struct simt_counts run(struct world *w, uint32_t rows);
void cache_path(char path[300]); // of the only file of choices
void cache_remove(void);

void test_ours_beside_the_library(void **state);
void test_every_way_is_right(void **state);
void test_float32_is_the_library_s(void **state);
void test_exact_mode_times_nothing(void **state);
