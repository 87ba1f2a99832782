// SPDX-License-Identifier: Apache-2.0
// modules.json of sentence-transformers: the parts of a model, each with a folder. Used to find the
// weights, the tokenizer and the pooling. Loading thread only.
#pragma once

#include "base/folder.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    MODULES_MAX = 16,
    MODULE_FOLDER_MAX = 3072, // bytes of a path
    FOLDER_JSON_BYTES_MAX = 4 << 20,
};

struct module {
    char kind[64]; // class name after its last dot: "Transformer"
    char folder[MODULE_FOLDER_MAX];
};

struct modules {
    bool listed; // true if modules.json exists
    uint32_t count;
    struct module at[MODULES_MAX];
};

// Reads modules.json; without the file `listed` is false and the status OK. A path that leads out
// of the folder is an error.
enum status modules_read(struct modules *out, const char *folder, struct error *err) MUST_USE;
// Returns the first module of this kind, or NULL.
const struct module *modules_find(const struct modules *modules, const char *kind);

// Writes FOLDER/NAME, or FOLDER if the name is empty. TOO_LARGE if it does not fit.
enum status folder_path(char out[MODULE_FOLDER_MAX], const char *folder, const char *name,
                        struct error *err) MUST_USE;

// Reads a JSON file of a folder or GGUF file; it must contain an object or a list (else INVALID),
// which the caller frees with json_decref. NaN and Infinity, which Python writes, are read as null
// and the largest double. If the file is absent, *out is NULL and the status is
// OK, or NOT_FOUND if the file is `needed`. A dangling link (an interrupted download) and a pipe
// (whose open would block) are errors in any case.
enum status folder_json(json_t **out, const char *folder, const char *name, bool needed,
                        struct error *err) MUST_USE;
