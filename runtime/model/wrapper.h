// SPDX-License-Identifier: Apache-2.0
// The table of multimodal checkpoints of which the text part is served: published name -> where
// config.json describes the text part, names of its tensors, and names of the tensors of the other
// parts, which are not loaded. The text part is a decoder of arch.h. Constant data; loading thread
// only.
#pragma once

#include "base/status.h"
#include "runtime/model/arch.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WRAPPER_NAMES_MAX = 4 };

struct wrapper {
    const char *name;  // as published in config.json "architectures"
    const char *media; // inputs that are not served: "images and videos"
    // Type of the text part if text_config names none (model_type). fixed: true if the class
    // determines the type, whatever text_config names.
    const char *text_type;
    bool fixed;
    bool flat;      // true if older files have the fields of text_config in config.json itself
    bool text_ties; // true if tie_word_embeddings of text_config ties the head as well
    // Prefix of the text part's tensors, and the name of its head, in each form of the checkpoint;
    // ends with NULL.
    struct {
        const char *prefix, *head;
    } names[WRAPPER_NAMES_MAX];
    // Tensors of other parts: names, and prefixes of names that end with a dot; separated by
    // spaces.
    const char *others;
};

// Returns the wrapper of this published name, or NULL.
const struct wrapper *wrapper_find(const char *name);

// Returns row i of the table, or NULL after the last one.
const struct wrapper *wrapper_at(uint32_t i);

// Writes the families of all wrappers ("Gemma3, Llava") to `out`, and truncates at `bytes`.
void wrapper_list(char *out, size_t bytes);

// Finds the architecture of the text part, and makes its config.json from that of the wrapper: a
// new object in *out, with the defaults of the reference's configuration class. Errors name the
// type of the text part or the field.
enum status wrapper_text(json_t **out, const struct architecture **arch,
                         const struct wrapper *wrapper, const json_t *config,
                         struct error *err) MUST_USE;

// Returns true for a tensor that is not of the text part. name: as in the file.
bool wrapper_other(const struct wrapper *wrapper, const char *name);

// Returns true if this is a name of the output head.
bool wrapper_head(const struct wrapper *wrapper, const char *name);

// Returns the name of the architecture of text type i that the wrapper may have, or NULL after the
// last one.
const char *wrapper_text_at(const struct wrapper *wrapper, uint32_t i);
