// Completes a JSON object that was cut off. Pure functions.
#pragma once

#include "base/json.h"

// Returns true if the text is a JSON object or the beginning of one.
bool json_begun(struct text text);

// Writes the longest beginning of the text that ends with a complete value or an opening bracket,
// then closes the open containers; writes {} if there is none. Requires json_begun(text).
void json_begun_put(struct json_buffer *out, struct text text);
