// SPDX-License-Identifier: Apache-2.0
// Open GGUF files. A file is mapped and its header parsed when its first user opens it, with the
// further parts of a model in several files; users of the same path share all of it until the last
// one closes it. Any thread.
#pragma once

#include "runtime/source/gguf.h"
#include "runtime/source/mapping.h"

struct model_source { // an open GGUF file; read-only for its users
    struct gguf gguf;
    struct mapping mapping;
    struct mapping *others; // [other_count] mappings of gguf.others
    uint32_t other_count;
    struct arena *arena; // memory of `gguf`
    struct text path;    // as the first user gave it, in the arena
    uint32_t users;
    struct model_source *next; // next open file
};

// Opens the file, of several the first, or adds a user to the open one of this path. The caller
// calls model_source_close.
enum status gguf_file_open(struct model_source **out, const char *path, struct error *err) MUST_USE;

// Returns the mapping of a part (gguf_tensor.part).
const struct mapping *gguf_file_mapping(const struct model_source *source, uint32_t part);

// Returns `status`, or the error of a file of the model that was truncated or changed after it was
// opened (mapping.h), which explains any other failure.
enum status gguf_file_check(const struct model_source *source, enum status status,
                            struct error *err) MUST_USE;

// Returns the length of the part of the path that is an open file: the entire path, or a part that
// is followed by a slash; 0: none.
size_t gguf_file_prefix(const char *path);
