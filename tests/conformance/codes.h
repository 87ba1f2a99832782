// SPDX-License-Identifier: Apache-2.0
// Weights held as codes, for tests: random blocks and int4 arrays, what they mean according to the
// description of their format (kernels/format.h, kernels/weight.h), and weights made of them.
#pragma once

#include "tests/conformance/trial.h"

// 32 elements of a block: (code - zero) * scale * half of the element + least.
struct block_group {
    int code[32]; // without the zero; with zero points the code itself
    float scale;
    int half[2]; // int8 scales of the first and last 16 elements; 1 if the format has none
    float least; // 0 if the format has none; with zero points -(scale * zero point)
};

// Fills `count` blocks with random codes and small scales.
void blocks_random(struct trial *t, uint8_t *out, enum weight_format format, size_t count);
void block_group_read(struct block_group *out, enum weight_format format, const uint8_t *block,
                      uint32_t group);

struct trial_codes {
    struct weight device, reference; // the reference's elements are floats
    struct block_group *groups;      // [n][k / 32]
};

// Makes a weight of random blocks or int4 arrays. paired: the rows of each part of blocks whose
// number is a multiple of 16 are stored in the order of rotary pairs, in heads of 16.
struct trial_codes trial_codes_make(struct trial *t, const struct weight_shape *shape, bool paired);

// Rounds 32 elements of a row as the products do. Returns the scale.
float codes_round(int q[32], const float *x, uint32_t at, uint32_t k);

// Returns true if a device multiplies codes by activations of this type.
bool codes_tried(const struct trial *t, enum dtype act);
// Returns true if the device multiplies the elements rounded to the type of the activations, which
// are not rounded to int8 (the CPU's are).
bool codes_are_storage(const struct trial *t);
// Returns a random format that the device holds.
enum weight_format codes_format(struct trial *t);
// Rounds the reference's elements to a type, and returns a weight of that type made of them.
struct weight codes_floats(struct trial *t, struct trial_codes *w, enum dtype dtype);
