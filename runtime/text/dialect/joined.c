// SPDX-License-Identifier: Apache-2.0
// Reply reader: a name of a function that an end tag follows, because the tags between the name and
// a key or a value are missing; see read.h.
#include "runtime/text/dialect/read.h"

// Returns the number of bytes of the function's name if the text is the name of a tool and one of
// its parameters, in exactly one way; else 0.
static size_t joined_at(const struct reply *r, struct text joined)
{
    size_t found = 0;
    for (size_t i = 1; r->args.tools && i < joined.bytes; i++) {
        const json_t *schema;
        struct text key = text_span(joined.at + i, joined.bytes - i);
        if (!tool_schema(r->args.tools, text_span(joined.at, i), &schema) ||
            !tool_has_parameter(schema, key))
            continue;
        if (found > 0)
            return 0;
        found = i;
    }
    return found;
}

static bool has_no_parameters(const struct reply *r)
{
    json_t *names = tool_names(r->schema);
    bool none = r->args.tools && json_object_size(names) == 0;
    json_decref(names);
    return none;
}

void read_name_joined(struct reply *r, enum marker_role role)
{
    const json_t *schema;
    struct text joined = text_span(r->name, r->name_bytes);
    bool whole = r->args.tools && tool_schema(r->args.tools, joined, &schema);
    size_t split = role == ROLE_KEY_CLOSE && !whole ? joined_at(r, joined) : 0;
    if (split > 0) {
        r->key_bytes = (uint16_t)(joined.bytes - split);
        memcpy(r->key, joined.at + split, r->key_bytes);
        r->name_bytes = (uint8_t)split;
    }
    if (!read_commit(r))
        return;
    size_t key_bytes = r->key_bytes;
    read_parameters_begin(r);
    if (split > 0) {
        r->repaired = true;
        r->key_bytes = (uint16_t)key_bytes;
        read_key_over(r, ROLE_KEY_CLOSE);
    } else { // an end tag alone
        r->unread = role == ROLE_KEY_CLOSE || !has_no_parameters(r);
    }
}
