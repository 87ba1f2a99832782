// SPDX-License-Identifier: Apache-2.0
// A pass that only reads the weights of a step's products, at the addresses where the products read
// them. Its time is a lower bound of the time of a step. Only for devices whose memory the host can
// read. One thread calls these functions.
#pragma once

#include "kernels/weight.h"

enum { READ_WEIGHTS_MAX = 1024 };

// The caller zeroes the struct and sets `threads`.
struct read_pass {
    struct weight weights[READ_WEIGHTS_MAX]; // borrowed from the model
    uint32_t count;                          // number of weights
    uint32_t threads; // number of threads, 1 to 64; each reads one contiguous part of every weight
    size_t bytes;     // sum of the sizes of the weights
};

// Adds a weight that one step reads once.
void read_pass_add(struct read_pass *pass, const struct weight *weight);
// Reads all weights with all threads. Returns the time in milliseconds, the start and end of the
// threads included.
double read_pass_ms(const struct read_pass *pass);
