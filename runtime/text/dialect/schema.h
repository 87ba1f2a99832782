// SPDX-License-Identifier: Apache-2.0
// Types of tool parameters according to the schemas of a request: how the reader interprets a
// parameter whose text does not show its type, and how the grammar of calls must therefore write
// it. Pure functions; each looks at a bounded part of the schema and returns "unknown" beyond it.
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
// Sets *schema to the tool's `parameters`, else its `input_schema`, borrowed from `tools`; NULL if
// it has neither. Returns false and leaves *schema unchanged if there is no tool of this name.
bool tool_schema(const json_t *tools, struct text name, const json_t **schema);
// Returns the types of a schema, as bits of enum schema_type; 0: unknown. root: target of "#/...".
unsigned tool_types(const json_t *root, const json_t *schema);
// Return the schema of a property or of array items; NULL: unknown.
const json_t *tool_property(const json_t *root, const json_t *schema, struct text key);
const json_t *tool_items(const json_t *root, const json_t *schema);
// Returns true if some part of the schema names this key under "properties".
bool tool_has_parameter(const json_t *schema, struct text key);
// Returns the types of a parameter; key.at NULL: of one that the schema does not name. *work:
// number of schemas and list members visited.
unsigned tool_parameter(const json_t *schema, struct text key, unsigned *work);
// Returns an object whose keys are all names under "properties" in some part of the schema. The
// caller calls json_decref.
json_t *tool_names(const json_t *schema);
