// SPDX-License-Identifier: Apache-2.0
// Opens a tokenizer from texts in memory, with the functions that tokenizer_open uses for a folder.
#pragma once

#include "runtime/text/tokenizer/internal.h"

// config_json: tokenizer_config.json, or an empty text (at == NULL). The caller closes *out.
static inline enum status tokenizer_open_memory(struct tokenizer **out, struct text tokenizer_json,
                                                struct text config_json, struct error *err)
{
    struct tokenizer *t = tokenizer_create();
    struct text source = arena_copy(t->arena, tokenizer_json);
    enum status status = STATUS_OK;
    *out = NULL;
    if (config_json.at)
        status = jtree_parse(&t->config, t->arena, arena_copy(t->arena, config_json),
                             "tokenizer_config.json", err);
    if (status == STATUS_OK) {
        t->class = class_of(t->config, NULL);
        config_names_open(t);
        status = tokenizer_open_parts(t, source, "tokenizer.json", err);
    }
    if (status != STATUS_OK) {
        tokenizer_close(t);
        return status;
    }
    config_open(t);
    *out = t;
    return STATUS_OK;
}
