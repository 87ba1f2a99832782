// The API's document, docs/openapi.yaml, as JSON in the program. Its source is made by
// tools/openapi.py when weft is built.
#pragma once

#include <stddef.h>

extern const char openapi_json[];
extern const size_t openapi_json_bytes; // without the NUL
