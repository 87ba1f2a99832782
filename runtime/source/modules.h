// modules.json of sentence-transformers: the parts that a model folder consists of, each with a
// folder of its own. Read by whoever looks for the weights, the tokenizer or the pooling. Loading
// thread only.
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
    char kind[64]; // the class name after its last dot: "Transformer"
    char folder[MODULE_FOLDER_MAX];
};

struct modules {
    bool listed; // there is such a file
    uint32_t count;
    struct module at[MODULES_MAX];
};

// A path that leads out of the folder is an error.
enum status modules_read(struct modules *out, const char *folder, struct error *err) MUST_USE;
// The first one of this kind, or NULL.
const struct module *modules_find(const struct modules *modules, const char *kind);

// FOLDER/NAME, or FOLDER where the name is empty.
enum status folder_path(char out[MODULE_FOLDER_MAX], const char *folder, const char *name,
                        struct error *err) MUST_USE;

// A JSON file of a folder, an object or a list. *out is NULL where it is absent and not `needed`. A
// dangling link (an interrupted download) and a pipe (whose open would block) are errors.
enum status folder_json(json_t **out, const char *folder, const char *name, bool needed,
                        struct error *err) MUST_USE;
