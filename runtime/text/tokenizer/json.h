// A small JSON tree for the files of a model folder: strings without escapes point into the file,
// so that a vocabulary of ten megabytes costs one pass. Request bodies are read by base.
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
        const struct jnode *items; // [count], of an object [2 * count]: key, value, key, ...
        double number;
    };
};

// name is used in the error sentence. Source and arena must live as long as the tree; the byte
// after the source must be readable and NUL.
enum status jtree_parse(const struct jnode **out, struct arena *arena, struct text source,
                        const char *name, struct error *err) MUST_USE;

// The value of a key (the last one wins), NULL if node is no object or has no such key.
const struct jnode *jtree_get(const struct jnode *node, const char *key);
struct text jtree_text(const struct jnode *node); // at == NULL: not a string
struct text jtree_get_text(const struct jnode *node, const char *key);
bool jtree_get_bool(const struct jnode *node, const char *key, bool otherwise);
// A whole number from 0 to maximum, else -1.
int64_t jtree_integer(const struct jnode *node, int64_t maximum);
bool jtree_is(const struct jnode *node, enum jtype type); // false for NULL
