// SPDX-License-Identifier: Apache-2.0
// Reads the pickle of a file of torch.save: a dictionary from names to tensors. A pickle is a
// program for a stack machine (Python's module pickletools describes it). This machine has the
// instructions that such a dictionary needs, and knows collections.OrderedDict, the storage classes
// and torch._utils._rebuild_tensor_v2 as constants: it calls nothing. Loading thread only.
#pragma once

#include "runtime/model/tensors.h"

enum {
    PICKLE_BYTES_MAX = 100 << 20,         // bytes of a pickle; a tensor has about 150
    PICKLE_STACK_MAX = 1 << 16,           // Python stores the items of dictionaries by thousands
    PICKLE_VALUES_MAX = 32 * TENSORS_MAX, // values kept in memo, tuples and dictionaries
};

struct pickled_type {
    const char *name; // torch's name: "FloatStorage"
    const char *type; // name of safetensors: "F32"
    uint32_t bytes;   // bytes of an element
    int dtype;        // enum dtype, or -1 if no weight has it
};

struct pickled_tensor {
    struct text name;                // valid UTF-8, at most TENSOR_NAME_MAX bytes, a NUL after it
    const struct pickled_type *type; // type of the storage
    struct text key;                 // name of the storage; borrowed from the pickle
    uint64_t elements;               // number of elements of the storage
    uint64_t first;                  // element of the storage at which the tensor begins
    uint64_t shape[TENSOR_DIMS_MAX], strides[TENSOR_DIMS_MAX]; // in elements
    uint32_t dims;
};

// Reads a pickle; *out lies in the arena. `name` is the file's name for messages. The numbers of a
// tensor fit 63 bits and are not compared with each other. INVALID: the pickle is damaged.
// UNSUPPORTED: it needs other instructions, names or values. TOO_LARGE: over a limit of this file
// or TENSORS_MAX.
enum status pickle_read(struct pickled_tensor **out, uint32_t *count, struct arena *arena,
                        struct text pickle, const char *name, struct error *err) MUST_USE;
