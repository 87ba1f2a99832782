// Compiles schemas and asks whether a value is producible: in JSON's shortest form, with the keys
// of each object in some order that the grammar takes.
#pragma once

#include "base/json.h"
#include "runtime/grammar/matcher.h"
#include "runtime/text/grammar/schema.h"

struct schema_rig {
    struct grammar *grammar; // NULL: nothing is valid, or an error
    struct mask_cache *cache;
    struct vocabulary *bytes;
    enum status status;
    struct error err;
    uint64_t ns; // of the compile, with grammar_finish
};

void schema_rig_open(struct schema_rig *rig, const json_t *schema, enum schema_draft draft);
void schema_rig_close(struct schema_rig *rig);
bool schema_rig_fits(struct schema_rig *rig, const json_t *value);
bool schema_rig_matches(struct schema_rig *rig, struct text text); // this very text
