// SPDX-License-Identifier: Apache-2.0
// Collective ops: every rank of a communicator calls the op, each on its own stream with equal
// counts and with its own pointers, and no rank continues before all have arrived. The names `send`
// and `recv` are reserved for pipeline stages.
//
// A sum is made in float32 in the order of the ranks and rounded once. So it is equal on all ranks
// and does not depend on the batch. (Exception: cuda with --no-exact, where NCCL chooses the order
// and may round partial sums to the activation type.)
#pragma once

#include "kernels/dtype.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RANKS_MAX = 8 }; // most ranks of a communicator

// out[i] = in of rank 0 [i] + in of rank 1 [i] + ...
struct all_reduce_args {
    enum dtype act;
    const float *in; // [count] f32
    void *out;       // [count] act; must not be `in`
    uint64_t count;
    uint32_t ranks; // ranks of the communicator
    // true: this rank's part is in `out`, in act, and `in` is not used. Only for devices whose
    // facts have sums_in_place.
    bool in_place;
};

// Puts the columns of all ranks side by side: the columns of rank r end before ends[r], where those
// of rank r + 1 begin.
struct all_gather_args {
    const float *in;       // [rows][columns of this rank] f32
    float *out;            // [rows][stride] f32
    uint32_t rows, stride; // stride: floats from one row of `out` to the next
    uint32_t ranks;        // ranks of the communicator
    uint32_t ends[RANKS_MAX];
};

// Connects the ranks of a communicator in this process with those in other processes. The ranks of
// a process have consecutive numbers, and all processes make the same calls in the same order.
struct comm_link {
    void *context;
    uint32_t first, ranks; // number of the first rank of this process; number of all ranks
    // Sends the bytes of the ranks of this process to the other processes and receives theirs.
    // pieces: bytes of all ranks; those of rank r end before ends[r], where those of rank r + 1
    // begin. Called by one thread at a time; blocks until all have arrived. DEVICE_FAULT if a
    // process is lost or sends another number of bytes, and after abort.
    enum status (*exchange)(void *context, void *pieces, const size_t ends[RANKS_MAX]);
    // Ends the exchange in progress and all later ones in this process. Any thread; does not block.
    void (*abort)(void *context);
    // Returns true if a process of the group is lost or has failed, and sets *err to a sentence
    // that names it. Any thread; does not block.
    bool (*failed)(void *context, struct error *err);
};

// Returns the first column of a rank.
static inline uint32_t gather_first(const struct all_gather_args *args, uint32_t rank)
{
    return rank > 0 ? args->ends[rank - 1] : 0;
}

// Returns the number of columns of a rank.
static inline uint32_t gather_count(const struct all_gather_args *args, uint32_t rank)
{
    return args->ends[rank] - gather_first(args, rank);
}
