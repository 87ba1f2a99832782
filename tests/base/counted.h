// SPDX-License-Identifier: Apache-2.0
// Counts the slices of a piece of work and ends it after a given number. For one piece of work at a
// time.
#pragma once

#include "base/slice.h"

static struct {
    uint32_t passes, stop_at; // slices so far; number to stop at, 0: never
    _Atomic bool unwanted;
} counted;

static void counted_pass(struct slice *slice)
{
    (void)slice;
    counted.unwanted = ++counted.passes == counted.stop_at;
}

static struct slice counted_begin(uint64_t each, uint32_t stop_at)
{
    counted.passes = 0;
    counted.stop_at = stop_at;
    counted.unwanted = false;
    return (struct slice){
        .each = each, .left = each, .unwanted = &counted.unwanted, .pass = counted_pass};
}
