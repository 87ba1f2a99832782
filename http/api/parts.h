// Reads the content of a message of chat completions or Responses: a string, or an array of parts
// that contain text. Runs in on_prepare.
#pragma once

#include "http/api/fields.h"

// A type of part, and the member that contains its text.
struct part_kind {
    const char *type, *key;
};

// Appends the texts of all parts without a separator. kinds: the accepted types, ended by a row
// whose type is NULL; error messages about other types name the first one.
void parts_read(struct json_buffer *out, struct fields *f, const json_t *content, const char *path,
                const struct part_kind *kinds);
