// SPDX-License-Identifier: Apache-2.0
// How the weights of a planned model are held: memory and formats by kind of tensor. Loading
// thread.
#pragma once

#include "kernels/format.h"

#include <stdint.h>

struct model_plan;

enum { MODEL_HELD_MAX = 5 };

// The weights of one kind of tensor, as rank 0 holds them.
struct model_held {
    const char *kind;           // "attention"
    char formats[FORMATS_TEXT]; // dtypes and formats, those with most elements first
    uint64_t bytes;
};

// Fills out[] and returns the number of kinds.
uint32_t model_plan_held(const struct model_plan *plan, struct model_held out[MODEL_HELD_MAX]);
