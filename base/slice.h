// Long work in slices. The work counts itself in units of about one byte of JSON parsed; when a
// slice is used up, others get their turn. It is counted and not timed, so that the same work
// always falls into the same slices.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct slice {
    uint64_t each;                     // work of one slice
    uint64_t left;                     // of the present one
    const _Atomic bool *unwanted;      // nobody waits for the result; NULL: it is wanted
    void (*pass)(struct slice *slice); // gives the turn away, returns when it is back
    bool stopped;                      // it was seen to be unwanted
};

bool slice_over(struct slice *slice, uint64_t work);

// Counts work that was done. Work larger than a slice gives the turn away several times. False: the
// result is unwanted, so end at once. slice NULL: the work is not shared and nothing is counted.
static inline bool slice_spend(struct slice *slice, uint64_t work)
{
    if (!slice)
        return true;
    if (work >= slice->left)
        return slice_over(slice, work);
    slice->left -= work;
    return true;
}
