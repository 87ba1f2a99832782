// SPDX-License-Identifier: Apache-2.0
// A small JSON tree for the files of a model folder. Strings without escapes point into the file,
// so that a vocabulary of 10 MB is read in one pass. Request bodies use base/json.h instead.
#pragma once

#include "base/status.h"
#include "base/arena.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

enum jtype { J_NULL, J_FALSE, J_TRUE, J_NUMBER, J_STRING, J_ARRAY, J_OBJECT };

struct jnode {
    enum jtype type;
    uint32_t count; // bytes of a string; items of an array; pairs of an object
    union {
        const char *at;
        const struct jnode *items; // [count]; of an object [2 * count]: key, value, key, ...
        double number;
    };
};

// Parses `source`; errors begin with `name`. Source and arena must outlive the tree; the byte after
// the source must be readable and NUL.
enum status jtree_parse(const struct jnode **out, struct arena *arena, struct text source,
                        const char *name, struct error *err) MUST_USE;

// Returns the value of a key (of the last one, if repeated), or NULL if node is not an object or
// lacks the key.
const struct jnode *jtree_get(const struct jnode *node, const char *key);
struct text jtree_text(const struct jnode *node); // at == NULL: not a string
struct text jtree_get_text(const struct jnode *node, const char *key);
bool jtree_get_bool(const struct jnode *node, const char *key, bool otherwise);
// Returns a whole number from 0 to maximum; -1: the node is anything else.
int64_t jtree_integer(const struct jnode *node, int64_t maximum);
bool jtree_is(const struct jnode *node, enum jtype type); // false if node is NULL
