// Ops of all ranks of a communicator together: each rank calls the op on its own stream with the
// same counts and with pointers of its own, and none goes on before all have come. Names `send` and
// `recv` are reserved for stages of a pipeline.
//
// The order of a sum is that of the ranks, whatever the count, in float32 and rounded once; so a
// result is the same on all ranks and does not depend on the batch.
#pragma once

#include "kernels/dtype.h"

#include <stdint.h>

enum { RANKS_MAX = 8 }; // of a communicator

// out[i] = in of rank 0 [i] + in of rank 1 [i] + ...
struct all_reduce_args {
    enum dtype act;
    const float *in; // [count] f32
    void *out;       // [count] act; not in
    uint64_t count;
    uint32_t ranks; // of the communicator
};

// Columns of all ranks side by side: those of rank r end before ends[r], where those of r + 1
// begin.
struct all_gather_args {
    const float *in; // [rows][columns of this rank] f32
    float *out;      // [rows][stride] f32
    uint32_t rows, stride;
    uint32_t ranks; // of the communicator
    uint32_t ends[RANKS_MAX];
};

static inline uint32_t gather_first(const struct all_gather_args *args, uint32_t rank)
{
    return rank > 0 ? args->ends[rank - 1] : 0;
}

static inline uint32_t gather_count(const struct all_gather_args *args, uint32_t rank)
{
    return args->ends[rank] - gather_first(args, rank);
}
