// SPDX-License-Identifier: Apache-2.0
// Checks lists of schemas, each followed by texts that match it or do not. Include it after
// cmocka.h.
#pragma once

#include "tests/grammar/schema_rig.h"

#include <stdio.h>
#include <string.h>

enum { TEXTS_BYTES_MAX = 4096 };

// Copies a row to `out` and replaces ' by ", so that rows need no escaped quotes.
static inline void texts_read(char out[TEXTS_BYTES_MAX], const char *row)
{
    snprintf(out, TEXTS_BYTES_MAX, "%s", row);
    for (char *at = out; *at; at++)
        *at = *at == '\'' ? '"' : *at;
}

// Compiles the schema of a row into `rig`. The caller checks rig->status.
static inline void texts_open(struct schema_rig *rig, const char *row)
{
    char text[TEXTS_BYTES_MAX];
    struct error err;
    json_t *value;
    texts_read(text, row);
    if (json_parse(&value, text_of(text), &err) != STATUS_OK)
        fail_msg("%s: %s", text, err.text);
    schema_rig_open(rig, value, SCHEMA_DRAFT_AUTO);
    json_decref(value);
}

// Checks rows. A row that starts with = or ! is a text that the schema above it must accept (=) or
// reject (!); any other row is the next schema.
static inline void check_texts(const char *const *rows, size_t count)
{
    struct schema_rig rig = {0};
    const char *schema = "";
    for (size_t i = 0; i < count; i++) {
        char text[TEXTS_BYTES_MAX];
        texts_read(text, rows[i]);
        if (text[0] == '=' || text[0] == '!') {
            bool fits = schema_rig_matches(&rig, text_of(text + 1));
            if (fits != (text[0] == '='))
                fail_msg("%s: %s is %d", schema, text + 1, fits);
            continue;
        }
        schema_rig_close(&rig);
        schema = rows[i];
        texts_open(&rig, schema);
        if (rig.status != STATUS_OK)
            fail_msg("%s: %s", schema, rig.err.text);
    }
    schema_rig_close(&rig);
}
#define CHECK_TEXTS(rows) check_texts(rows, sizeof(rows) / sizeof *(rows))
