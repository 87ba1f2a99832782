// docs/openapi.yaml as JSON, compiled into the program. The build generates its source with
// tools/openapi.py.
#pragma once

#include <stddef.h>

extern const char openapi_json[];
extern const size_t openapi_json_bytes; // without the terminating NUL
