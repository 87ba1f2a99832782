// SPDX-License-Identifier: Apache-2.0
// The slow path of slice_spend; see slice.h.
#include "base/slice.h"

#include <stddef.h>

bool slice_over(struct slice *slice, uint64_t work)
{
    while (!slice->stopped && work >= slice->left) {
        work -= slice->left;
        slice->left = slice->each;
        slice->pass(slice);
        // relaxed: only the flag itself is read, no data that was written before it
        slice->stopped =
            slice->unwanted && atomic_load_explicit(slice->unwanted, memory_order_relaxed);
    }
    slice->left = slice->stopped ? 0 : slice->left - work;
    return !slice->stopped;
}
