// SPDX-License-Identifier: Apache-2.0
// The file of `weft serve --config`, and JSON objects that describe a model. Main thread.
#pragma once

#include "cli/settings.h"

#include <jansson.h>

struct config_tables {
    const struct option_table *tables; // [count]
    void *const *fields;               // [count]
    uint32_t count;
};
// Sets the options of the object's members in the fields of the tables, as options_parse does;
// texts are copied to the arena. models: receives the member "models", a list borrowed from config,
// or NULL. INVALID for another member or a wrong value.
enum status config_read(const struct config_tables *tables, const json_t *config,
                        const json_t **models, struct arena *arena, struct error *err) MUST_USE;

// Reads an entry of the list: a text in the form of the command line, or an object with "model",
// optionally "name", and options of the model. all: the settings for all models.
enum status config_model_read(struct model_spec *out, const json_t *entry,
                              const struct model_settings *all, struct arena *arena,
                              struct error *err) MUST_USE;
