// SPDX-License-Identifier: Apache-2.0
// Creates model folders for tests in a temporary folder, from a golden file (its weights are a
// hash, see tools/golden.py) or tensor by tensor. One thread; every failure ends the test.
#pragma once

#include "kernels/dtype.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

// Creates a folder in /tmp and writes its path to the caller's array of at least 64 bytes.
void folder_make(char *path);
// Removes the folder and everything in it.
void folder_remove(const char *path);
// Writes a file of the folder. Creates the sub-folders in its name.
void file_write(const char *folder, const char *name, const void *bytes, size_t count);
void file_write_json(const char *folder, const char *name, const json_t *json);

// A safetensors file that is built in memory.
struct tensor_file {
    json_t *header;
    char *data;
    size_t bytes;
};

// Starts an empty file.
void tensor_file_begin(struct tensor_file *file);
// A tensor of a golden file. Each value is 1 + v / 128 if kind < 0, otherwise v / 2^kind, where v
// is an integer hash of seed, index and the position of the value.
struct golden_tensor {
    const char *name;
    const json_t *shape;
    uint64_t seed;
    uint32_t index;
    int kind;
};
// Returns the hash of the tensor's seed and index and of `position`.
uint64_t golden_noise(const struct golden_tensor *tensor, uint64_t position);
// Computes the values of the tensor and appends them in this dtype.
void tensor_file_add(struct tensor_file *file, const struct golden_tensor *tensor,
                     enum dtype dtype);
// Appends a tensor of a type of safetensors with elements of `each` bytes. Returns the memory of
// its elements, valid until the next call, and stores their number in *count.
char *tensor_file_extend(struct tensor_file *file, const char *name, const char *type,
                         const json_t *shape, size_t each, uint64_t *count);
// Writes the file to the folder and frees `file`.
void tensor_file_write(struct tensor_file *file, const char *folder, const char *name);

// Returns the contents of tests/golden/<name>.json, where `name` may begin with a folder; the
// caller owns the reference.
json_t *golden_read(const char *name);
// Removes the tensors of layers that config.json, which the caller may have changed, does not have.
void golden_layers_limit(json_t *golden);
// Writes the model folder of a golden file: config.json, its other files, and the weights in
// `shards` files, with an index if there are at least two.
void golden_folder_write(const char *folder, const json_t *golden, enum dtype dtype,
                         uint32_t shards);
// Creates a new folder with the model of tests/golden/<name>.json, its weights in one file.
void golden_folder(char *path, const char *name, enum dtype dtype);
