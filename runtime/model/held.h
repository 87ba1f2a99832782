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

enum { MODEL_PACKED_MAX = 8 };

// The modules of a quantised folder that are stored in one format, as rank 0 holds them.
struct model_packed {
    const char *words;          // "AWQ, 4 bits, groups of 128"
    char formats[FORMATS_TEXT]; // dtypes and formats, those with most elements first
};

// Fills out[] with the formats of a quantised folder, at most MODEL_PACKED_MAX, and returns their
// number; 0: the folder is not quantised. The words live as long as the plan.
uint32_t model_plan_packed(const struct model_plan *plan,
                           struct model_packed out[MODEL_PACKED_MAX]);

// Fills out[] and returns the number of kinds.
uint32_t model_plan_held(const struct model_plan *plan, struct model_held out[MODEL_HELD_MAX]);
