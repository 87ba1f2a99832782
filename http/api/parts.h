// Content of a message of OpenAI's two chat interfaces: a string, or an array of parts that hold
// text. In on_prepare.
#pragma once

#include "http/api/fields.h"

// A part of this type has its text in this member.
struct part_kind {
    const char *type, *key;
};

// Appends the texts, joined with nothing between them. kinds end with a row without a type; the
// first is the one that messages about other types name.
void parts_read(struct json_buffer *out, struct fields *f, const json_t *content, const char *path,
                const struct part_kind *kinds);
