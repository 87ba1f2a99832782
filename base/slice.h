// SPDX-License-Identifier: Apache-2.0
// Divides long work into slices. The work counts itself in units of about one byte of JSON parsed;
// when a slice is used up, `pass` lets other work run. Work is counted and not timed, so that the
// same work is always divided at the same points.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct slice {
    uint64_t each;                // units of one slice, at least 1
    uint64_t left;                // units left in the current slice
    const _Atomic bool *unwanted; // set to true when the result is not needed; NULL: always needed
    void (*pass)(struct slice *slice); // lets other work run; returns when this work may continue
    bool stopped;                      // true once `unwanted` was found set
};

// The part of slice_spend for work that ends the slice. Returns false if the result is not needed.
bool slice_over(struct slice *slice, uint64_t work);

// Counts units of work that were done. Work larger than a slice calls `pass` several times. Returns
// false if the result is not needed: the work should then end immediately. slice NULL: nothing is
// counted, always true.
static inline bool slice_spend(struct slice *slice, uint64_t work)
{
    if (!slice)
        return true;
    if (work >= slice->left)
        return slice_over(slice, work);
    slice->left -= work;
    return true;
}
