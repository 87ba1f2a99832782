// SPDX-License-Identifier: Apache-2.0
// Chooses the files of a repository that weft reads. Pure; the caller owns all texts.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "cli/hub/name.h"

#include <stdint.h>

struct hub_file {
    const char *path; // path in the repository
    uint64_t bytes;
    const char *etag; // name of the content: SHA-256 of a large file, else git's SHA-1; NULL: local
    bool large;       // true if the etag is a SHA-256
};

struct hub_listing {
    struct hub_file *files; // [count]
    size_t count, allocated;
};

void hub_listing_add(struct hub_listing *listing, struct hub_file file, struct arena *arena);
const struct hub_file *hub_listing_find(const struct hub_listing *listing, const char *path);

// Returns true if the model is read as a folder, not as a GGUF file: `name` has no quant, and the
// listing has safetensors or no GGUF file.
bool hub_is_folder(const struct hub_listing *listing, const struct hub_name *name);

// Returns the format of the weights of a folder, "safetensors" or "pytorch", for `weft list`.
const char *hub_format(const struct hub_listing *listing);

// Returns true for the JSON files and templates of a model folder, which are small. Returns true
// for pytorch_model.bin.index.json only if `listing`, the files of the repository or of its
// snapshot, has no safetensors.
bool hub_is_description(const struct hub_listing *listing, const char *path);

// Returns the path of the weights in `folder` ("" or a subfolder with a slash after it), or NULL:
// model.safetensors or its index, else pytorch_model.bin or its index. *is_index: true if it is the
// path of an index, which names the files of the weights.
const char *hub_weights_find(const struct hub_listing *listing, const char *folder, bool *is_index,
                             struct arena *arena);

// Appends the tokenizer's files and the weights of a model folder to *out. folder: "" or the
// subfolder with the weights, with a slash after it. index: the index that hub_weights_find returns
// as json_t, or NULL. UNSUPPORTED if the repository has no weights or no tokenizer that weft reads,
// NOT_FOUND if it lacks a file that the index names.
enum status hub_folder_select(struct hub_listing *out, const struct hub_listing *listing,
                              const struct hub_name *name, const char *folder, const void *index,
                              struct arena *arena, struct error *err) MUST_USE;

// Appends the parts of the GGUF file of name->quant to *out, in order. Without a quant it is
// Q4_K_M, or else the only file. NOT_FOUND if the choice is not clear (the sentence lists the
// files) or a part is missing.
enum status hub_gguf_select(struct hub_listing *out, const struct hub_listing *listing,
                            const struct hub_name *name, struct arena *arena,
                            struct error *err) MUST_USE;

// Returns UNSUPPORTED if the name of a GGUF file ends with a type of quantised blocks that weft
// does not read, such as IQ2_XS or TQ1_0.
enum status hub_quant_check(const char *path, const struct hub_name *name,
                            struct error *err) MUST_USE;
