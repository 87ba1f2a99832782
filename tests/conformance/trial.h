// What the op tests share: a device under test, seeded random numbers, memory that goes back at the
// end, weights in the device's form and as the twin's plain floats, and comparison. One thread.
#pragma once

#include "kernels/cpu/internal.h"
#include "tests/conformance/twin.h"
#include "kernels/device.h"

enum { TRIAL_PIECES = 512 };

struct trial {
    const struct device_api *api;
    struct device *device;
    struct stream *stream;
    struct device_facts facts;
    const char *name;   // of the device, with its level
    enum cpu_isa level; // cpu only; CPU_ISA_COUNT elsewhere
    struct stream_limits limits;
    uint64_t seed, state;
    uint32_t cases, failures;
    uint64_t bits; // of all that was fetched: equal where two devices give equal bits
    uint32_t count;
    struct {
        void *at;
        size_t bytes;
        int kind; // 0 device, 1 host-visible, 2 heap
    } piece[TRIAL_PIECES];
};

// A weight on the device, and the same numbers for the twin; int8 on the cpu: also as rotated rows.
struct trial_weight {
    struct weight device, twin, rotated;
};

// Opens the device: cpu at a level, or a plugin by name or path. false: not there (a line on stdout
// says so), or another level than the one asked for by name.
extern const char *trial_only_level; // NULL: all
extern bool trial_few;               // bfloat16 and at most four shapes of the costly ops
static inline uint64_t trial_cases(uint64_t n)
{
    return trial_few && n > 4 ? 4 : n;
}
bool trial_open_cpu(struct trial *t, enum cpu_isa level, uint32_t threads);
bool trial_open_plugin(struct trial *t, const char *name, const char *path);
void trial_close(struct trial *t);

// Opens the stream anew for this shape of attention.
void trial_shape(struct trial *t, const struct attn_shape *shape);

// Begins a case with a seed of its own, after giving back what the last one took.
void trial_begin(struct trial *t, uint64_t seed);
void trial_end(struct trial *t);

uint32_t trial_below(struct trial *t, uint32_t n);             // [0, n)
uint32_t trial_range(struct trial *t, uint32_t a, uint32_t b); // [a, b]
float trial_normal(struct trial *t);

void *trial_heap(struct trial *t, size_t bytes);   // zeroed
void *trial_device(struct trial *t, size_t bytes); // zeroed device memory
void *trial_host(struct trial *t, size_t bytes);   // host-visible
void *trial_put(struct trial *t, const void *from, size_t bytes);
void trial_fetch(struct trial *t, void *to, const void *from, size_t bytes);

// Random floats that a dtype can hold; the same on the device in that dtype; and back.
float *trial_floats(struct trial *t, size_t n, enum dtype dtype, float deviation);
void *trial_put_floats(struct trial *t, const float *x, size_t n, enum dtype dtype);
float *trial_fetch_floats(struct trial *t, const void *from, size_t n, enum dtype dtype);
float trial_rounded(float x, enum dtype dtype);

struct trial_weight trial_weight_make(struct trial *t, const struct weight_shape *shape,
                                      float deviation, float mean);

// Relative Frobenius error of got against want; counts a failure above bound or at a NaN.
void trial_close_to(struct trial *t, const char *what, const float *got, const float *want,
                    size_t n, double bound);
void trial_true(struct trial *t, const char *what, bool holds);

static inline double trial_bound(enum dtype act)
{
    return act == DTYPE_F32 ? 4e-6 : act == DTYPE_F16 ? 1e-3 : 5e-3;
}

// Rows of logits whose outcome is known, for try_sample.
void sample_edges(struct trial *t);

// The cases, one function for each op; split over cases_*.c.
#define TRIAL_CASE(name) void try_##name(struct trial *t, enum dtype act);
OP_LIST(TRIAL_CASE)
#undef TRIAL_CASE
