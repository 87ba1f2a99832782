// What there is of a JSON object that was cut. Pure.
#pragma once

#include "base/json.h"

// Whether the text may go on to be a JSON object.
bool json_begun(struct text text);

// The longest beginning of the text that ends after a value, or where nothing is in a container
// yet, with its open containers closed; {} where there is none. text: json_begun.
void json_begun_put(struct json_buffer *out, struct text text);
