// SPDX-License-Identifier: Apache-2.0
// A quantised module while its tensors are found (packed_find.c): the tensors next to its codes,
// and errors about them. Loading thread only.
#pragma once

#include "runtime/model/packed.h"
#include "runtime/model/packed_find.h"

struct packed_finder {
    struct tensor *list;
    uint32_t count;
    bool *taken;          // [count]: true for tensors that are parts of a module
    struct tensor **made; // [count]: the weight that replaces a tensor of codes, or NULL
    const struct packed_rules *rules;
    struct arena *arena;
    struct error *err;
    const float *e4m3, *int8; // values of the 256 codes of a type; NULL until they are needed
};

// A module while it is read.
struct module_find {
    struct packed_finder *f;
    struct text base;          // "model.layers.0.mlp.up_proj"
    const struct tensor *code; // tensor of the codes
    struct packed *p;
    uint32_t stack; // number of matrices in the tensor of codes; 0: one, without a dimension for it
};

// Compare a tensor's type, and its shape if it is a matrix.
bool tensor_type_is(const struct tensor *tensor, const char *type);
bool tensor_shape_is(const struct tensor *tensor, uint64_t rows, uint64_t cols);
uint64_t tensor_elements(const struct tensor *tensor);

// Returns the tensor BASE + tail, or NULL.
struct tensor *module_part(const struct module_find *m, const char *tail);
// Returns the tensor BASE + tail and marks it as a part of the module; NULL: there is none.
struct tensor *module_take(const struct module_find *m, const char *tail);
// Sets *out to the tensor BASE + tail as module_take does, or sets an error if it is absent.
enum status module_need(struct tensor **out, const struct module_find *m, const char *tail);

// Sets the INVALID error that the tensor BASE + tail is absent.
enum status module_lacks(const struct module_find *m, const char *tail);
// Sets the INVALID error about a tensor: its type, its shape, and what is expected.
enum status module_wrong(const struct module_find *m, const struct tensor *tensor,
                         const char *format, ...) __attribute__((format(printf, 3, 4)));

// Sets the size of the matrix, and of a module with one scale and one group.
enum status module_size_set(struct module_find *m, uint64_t n, uint64_t k);

// Reads the 4-bit codes of bitsandbytes (packed_blocks.c): the elements of the matrix in row-major
// order, with a scale for each block of them.
enum status module_blocks_read(struct module_find *m);
