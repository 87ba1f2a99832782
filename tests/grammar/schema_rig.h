// SPDX-License-Identifier: Apache-2.0
// Compiles a JSON schema and tests which values the grammar can produce. A value is written in
// JSON's shortest form, with the keys of each object in any order that the grammar accepts.
#pragma once

#include "base/json.h"
#include "runtime/grammar/matcher.h"
#include "runtime/text/grammar/schema.h"

struct schema_rig {
    struct grammar *grammar; // NULL: the schema has no valid value, or it was refused
    struct mask_cache *cache;
    struct vocabulary *bytes;
    enum status status;
    struct error err;
    uint64_t ns; // time of the compile and grammar_finish, in ns
};

// Compiles the schema into the caller's `rig`. A refusal is stored in rig->status and rig->err.
void schema_rig_open(struct schema_rig *rig, const json_t *schema, enum schema_draft draft);
void schema_rig_compile(struct schema_rig *rig,
                        const struct schema_args *in); // other arguments too
// Frees the members of `rig`.
void schema_rig_close(struct schema_rig *rig);
// Returns true if the grammar can produce the value in some order of its keys.
bool schema_rig_fits(struct schema_rig *rig, const json_t *value);
// Returns true if the grammar can produce exactly this text.
bool schema_rig_matches(struct schema_rig *rig, struct text text);
