// SPDX-License-Identifier: Apache-2.0
// The tensors of a checkpoint, mapped read-only: one or several safetensors files or files of
// torch.save of a folder, or a GGUF file, whose tensors get the names that such a folder uses
// (gguf_tensors.h). Every number of a header is checked against the file before a tensor can be
// found, so the bytes of a found tensor lie inside the mapping. tensors_close closes the files;
// after it no tensor may be used. Loading thread only.
#pragma once

#include "kernels/dtype.h"
#include "base/status.h"
#include "base/arena.h"
#include "base/hash.h"
#include "base/text.h"
#include "runtime/source/gguf.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    TENSOR_DIMS_MAX = 8,
    TENSOR_FILES_MAX = 1024,
    TENSOR_INDEX_MAX = 128 << 20, // bytes of an index file
    TENSOR_NAME_MAX = 512,
    // Number of tensors of a checkpoint. The largest mixtures of experts have over 200,000; reading
    // a name takes microseconds.
    TENSORS_MAX = 1 << 19,
};

struct tensor {
    struct text name;
    uint64_t shape[TENSOR_DIMS_MAX];
    uint32_t dims;
    const char *type; // type name of the file: "BF16", "I64", "Q4_K"; packed: what it is in words
    int dtype;        // enum dtype, or -1: quantised blocks, or a type that no weight can have
    const struct gguf_type *blocks; // type of quantised blocks (dequantise.h), or NULL
    const struct packed *packed;    // codes with scales in arrays of a folder (packed.h), or NULL
    uint32_t rope_head; // rows per head if the file interleaves the head's two halves; 0: in order
    uint32_t rope_rotary; // rows at the head's start that are interleaved; 0: all
    const void *map;      // first byte in the mapping, not aligned
    uint64_t bytes;
    uint64_t offset;               // offset of the bytes in the file
    int fd;                        // descriptor of the file; -1 while parsing
    const struct mapping *mapping; // mapping of the file; NULL while parsing
    const char *file;              // name of the file within the folder
    uint32_t part; // file of a GGUF model in several files, from 0 (gguf_tensor.part)
};

// Compares the names of two tensors, for qsort and bsearch.
int tensor_name_order(const void *a, const void *b);

struct tensors;

// Opens a GGUF file, or model.safetensors of a folder, or else the shards that its
// model.safetensors.index.json names, or else pytorch_model.bin or the shards that its
// pytorch_model.bin.index.json names. NOT_FOUND if the folder has none of these. The tensors of a
// quantised module of a folder become one (packed_find.h).
enum status tensors_open(struct tensors **out, const char *folder, struct error *err) MUST_USE;
// Returns `status`, or the error of a file that was truncated or changed after tensors_open
// (mapping.h), which explains any other failure. Needed after reading, before its result is used.
enum status tensors_check(const struct tensors *tensors, enum status status,
                          struct error *err) MUST_USE;
// Returns a hash that distinguishes checkpoints, the same in every process: of the names, types and
// shapes of all tensors and of some 2,000 pieces of 64 bytes spread over them. Hashing all bytes
// would take as long as a second load.
struct hash tensors_hash(const struct tensors *tensors);
void tensors_close(struct tensors *tensors); // NULL is allowed

// Returns the tensor of this name, or NULL.
const struct tensor *tensors_find(const struct tensors *tensors, const char *name);
// Returns the name that the file uses for a tensor, for messages; writes to `out` if it differs.
const char *tensors_name_in_file(const struct tensors *tensors, const char *name,
                                 char out[TENSOR_NAME_MAX]);
// Parts of messages: the source of the expected shapes, the supported types, and the advice to the
// user.
struct tensors_words {
    const char *config, *types, *remedy;
    const char *absent; // remedy for a tensor that is not in the files
};
const struct tensors_words *tensors_words(const struct tensors *tensors);
// Returns true for a GGUF file, false for a folder.
bool tensors_are_gguf(const struct tensors *tensors);
// Returns a tensor whose elements are codes of a folder (struct packed), or NULL if there is none.
const struct tensor *tensors_packed(const struct tensors *tensors);
// Returns the number of tensors.
uint32_t tensors_count(const struct tensors *tensors);
// Returns a tensor by index; the tensors are sorted by name.
const struct tensor *tensors_at(const struct tensors *tensors, uint32_t index);
