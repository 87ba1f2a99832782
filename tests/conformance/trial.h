// SPDX-License-Identifier: Apache-2.0
// Shared by the op tests: a device under test, seeded random numbers, memory that is freed at the
// end of a case, weights in the device's form and as the reference's floats, and comparison. One
// thread.
#pragma once

#include "kernels/cpu/internal.h"
#include "tests/conformance/reference.h"
#include "kernels/device.h"

enum { TRIAL_PIECES = 512 };

struct trial {
    const struct device_api *api;
    struct device *device;
    struct stream *stream;
    struct device_facts facts;
    const char *name;   // name of the device, with its ISA level
    enum cpu_isa level; // cpu: the ISA level; other devices: CPU_ISA_COUNT
    struct stream_limits limits;
    uint64_t seed, state;
    uint32_t cases, failures;
    uint64_t bits; // hash of all fetched data; equal if two devices give equal bits
    uint32_t count;
    struct {
        void *at;
        size_t bytes;
        int kind; // 0: device memory, 1: host-visible memory, 2: heap
    } piece[TRIAL_PIECES];
};

// A weight on the device and the same numbers for the reference; int8 on the cpu also as rotated
// rows.
struct trial_weight {
    struct weight device, reference, rotated;
};

// trial_open_cpu and trial_open_plugin open a device: the cpu at an ISA level, or a plugin by its
// name or path. They return false if it is not available (and print a line), or if trial_only_level
// names another ISA level.
extern const char *trial_only_level; // name of the only ISA level to test; NULL: all
extern bool trial_fast; // true: devices are opened in the default mode, not in exact mode
// Largest number of shapes with which costly ops are tested; 0: all. If it is not 0, fewer numbers
// of ranks, and on a plugin only bfloat16 activations, are tested.
extern uint32_t trial_few;
static inline uint64_t trial_cases(uint64_t n)
{
    return trial_few > 0 && n > trial_few ? trial_few : n;
}
bool trial_open_cpu(struct trial *t, enum cpu_isa level, uint32_t threads);
bool trial_open_plugin(struct trial *t, const char *name, const char *path);
void trial_close(struct trial *t);

// Reopens the stream for this shape of attention.
void trial_shape(struct trial *t, const struct attn_shape *shape);

// Frees the memory of the previous case and begins a case with this seed.
void trial_begin(struct trial *t, uint64_t seed);
void trial_end(struct trial *t);

uint32_t trial_below(struct trial *t, uint32_t n);             // [0, n)
uint32_t trial_range(struct trial *t, uint32_t a, uint32_t b); // [a, b]
float trial_normal(struct trial *t);

void *trial_heap(struct trial *t, size_t bytes);   // zeroed heap memory
void *trial_device(struct trial *t, size_t bytes); // zeroed device memory
void *trial_host(struct trial *t, size_t bytes);   // zeroed host-visible memory
void *trial_put(struct trial *t, const void *from, size_t bytes);
void trial_fetch(struct trial *t, void *to, const void *from, size_t bytes);

// trial_floats returns random floats that the dtype can represent. trial_put_floats copies floats
// to the device in that dtype, trial_fetch_floats copies them back, trial_fetch_to into x[n].
float *trial_floats(struct trial *t, size_t n, enum dtype dtype, float deviation);
void *trial_put_floats(struct trial *t, const float *x, size_t n, enum dtype dtype);
float *trial_fetch_floats(struct trial *t, const void *from, size_t n, enum dtype dtype);
void trial_fetch_to(struct trial *t, float *x, const void *from, size_t n, enum dtype dtype);
float trial_rounded(float x, enum dtype dtype);

struct trial_weight trial_weight_make(struct trial *t, const struct weight_shape *shape,
                                      float deviation, float mean);

// Checks the relative Frobenius error of got against want; counts a failure if it exceeds bound or
// is a NaN.
void trial_close_to(struct trial *t, const char *what, const float *got, const float *want,
                    size_t n, double bound);
void trial_true(struct trial *t, const char *what, bool holds);

static inline double trial_bound(enum dtype act)
{
    return act == DTYPE_F32 ? 4e-6 : act == DTYPE_F16 ? 1e-3 : 5e-3;
}

// Tests sample with rows of logits whose outcome is known; called by try_sample.
void sample_edges(struct trial *t);

// The cases: one function per op, in cases_*.c.
#define TRIAL_CASE(name) void try_##name(struct trial *t, enum dtype act);
OP_LIST(TRIAL_CASE)
#undef TRIAL_CASE
