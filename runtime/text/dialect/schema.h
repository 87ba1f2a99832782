// What the schemas of a request's tools say of types: how the reader of replies takes a parameter
// that does not say itself what it is, and so how the grammar of calls has it written. Nothing is
// kept; each question looks at a bounded part of the schema and says nothing beyond it.
#pragma once

#include "base/text.h"

#include <jansson.h>
#include <stdbool.h>

enum schema_type {
    SCHEMA_STRING = 1,
    SCHEMA_NUMBER = 2,
    SCHEMA_BOOLEAN = 4,
    SCHEMA_NULL = 8,
    SCHEMA_OBJECT = 16,
    SCHEMA_ARRAY = 32,
};
// The tool's parameters; false: there is no such tool. *schema may be NULL all the same.
bool tool_schema(const json_t *tools, struct text name, const json_t **schema);
// Bits of enum schema_type. root: where "#/..." leads. 0: nothing is said.
unsigned tool_types(const json_t *root, const json_t *schema);
const json_t *tool_property(const json_t *root, const json_t *schema, struct text key);
const json_t *tool_items(const json_t *root, const json_t *schema);
// The types of a parameter; key.at NULL: of one that no part of the schema names. *work: schemas
// and members of lists that were looked at.
unsigned tool_parameter(const json_t *schema, struct text key, unsigned *work);
// An object whose keys are all names that a part of the schema has under "properties"; to be given
// back.
json_t *tool_names(const json_t *schema);
