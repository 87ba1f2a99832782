// Model folders for tests, made in a temporary folder: from a golden file (whose weights are a
// hash, see tools/golden.py) or tensor by tensor. For tests; one thread; every failure ends the
// test.
#pragma once

#include "kernels/dtype.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

// A new folder below TMPDIR or /tmp; the path is the caller's array of at least 64 bytes.
void folder_make(char *path);
// The folder and everything in it.
void folder_remove(const char *path);
void file_write(const char *folder, const char *name, const void *bytes, size_t count);
void file_write_json(const char *folder, const char *name, const json_t *json);

// One safetensors file, built up in memory.
struct tensor_file {
    json_t *header;
    char *data;
    size_t bytes;
};

void tensor_file_begin(struct tensor_file *file);
// Values of a golden tensor: kind < 0: 1 + v / 128, else v / 2^kind, with v from the hash.
struct golden_tensor {
    const char *name;
    const json_t *shape;
    uint64_t seed;
    uint32_t index;
    int kind;
};
void tensor_file_add(struct tensor_file *file, const struct golden_tensor *tensor,
                     enum dtype dtype);
void tensor_file_write(struct tensor_file *file, const char *folder, const char *name);

// The golden file of a family, tests/golden/<name>.json; the reference is the caller's.
json_t *golden_read(const char *name);
// The whole folder of a golden file: config.json, its other files, weights in `shards` files (with
// an index from two on).
void golden_folder_write(const char *folder, const json_t *golden, enum dtype dtype,
                         uint32_t shards);
// The same of a family in a new folder, one file of weights.
void golden_folder(char *path, const char *name, enum dtype dtype);
