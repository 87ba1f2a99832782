// The tensors of a checkpoint: one or many safetensors files of a folder, or a GGUF file whose
// tensors have the names of such a folder (gguf_tensors.h); mapped read-only. Every number of a
// header is checked against the file before a tensor can be found, so the bytes of a found
// tensor lie inside the mapping. Files are closed by tensors_close, after which no tensor may be
// touched. One thread (loading).
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
    TENSOR_HEADER_MAX = 100 << 20, // bytes of a header; the format's own limit
    TENSOR_INDEX_MAX = 16 << 20,   // bytes of an index file
    TENSOR_NAME_MAX = 512,
    TENSORS_MAX = 1 << 16,                // of a checkpoint: reading names takes microseconds each
    TENSOR_VALUES_MAX = 16 * TENSORS_MAX, // JSON values of a header
};

struct tensor {
    struct text name;
    uint64_t shape[TENSOR_DIMS_MAX];
    uint32_t dims;
    const char *type; // as the file says: "BF16", "I64", "Q4_K"
    int dtype;        // enum dtype, or -1: quantised blocks, or a type that no weight can have
    const struct gguf_type *blocks; // of quantised elements (dequantise.h); else NULL
    uint32_t rope_head; // rows of a head whose halves the file has row by row in turn; 0: in order
    const void *map;    // its bytes, not aligned
    uint64_t bytes;
    uint64_t offset;  // of the bytes in the file
    int fd;           // of the file
    const char *file; // name within the folder
};

struct tensors;

// A GGUF file, or of a folder model.safetensors, else the shards that model.safetensors.index.json
// names. NOT_FOUND where the folder has neither.
enum status tensors_open(struct tensors **out, const char *folder, struct error *err) MUST_USE;
// After reading: whether the files still have their bytes. A page that a cut takes away raises
// SIGBUS (mapping.h), but the rest of the last page reads as zeros.
enum status tensors_check(const struct tensors *tensors, struct error *err) MUST_USE;
// Tells checkpoints apart: names, types and shapes of all tensors, and some 2,000 pieces of 64
// bytes spread over them. The same in every process. Reading all would take as long as a second
// load.
struct hash tensors_hash(const struct tensors *tensors);
void tensors_close(struct tensors *tensors); // NULL is allowed

const struct tensor *tensors_find(const struct tensors *tensors, const char *name); // or NULL
// The same name as the file has it, for messages; in out where it is another.
const char *tensors_name_in_file(const struct tensors *tensors, const char *name,
                                 char out[TENSOR_NAME_MAX]);
// For messages: what says the shapes, which types are supported, and what to do.
struct tensors_words {
    const char *config, *types, *remedy;
};
const struct tensors_words *tensors_words(const struct tensors *tensors);
bool tensors_are_gguf(const struct tensors *tensors); // of a GGUF file, else of a folder
uint32_t tensors_count(const struct tensors *tensors);
const struct tensor *tensors_at(const struct tensors *tensors, uint32_t index);

// One header: the tensors of a file whose bytes are `file`; out points into the arena. The name of
// the file is for messages only. This is what the fuzzer calls.
enum status safetensors_parse(struct tensor **out, uint32_t *count, struct arena *arena,
                              struct text file, const char *name, struct error *err) MUST_USE;
