// SPDX-License-Identifier: Apache-2.0
// A writer of msgpack (https://github.com/msgpack/msgpack/blob/master/spec.md): each function
// appends one value in its shortest form. An array or map is followed by its elements.
#pragma once

#include "base/json.h"

void msgpack_nil(struct json_buffer *out);
void msgpack_unsigned(struct json_buffer *out, uint64_t value);
void msgpack_real(struct json_buffer *out, double value); // 64 bits
void msgpack_text(struct json_buffer *out, const char *value);
void msgpack_array(struct json_buffer *out, uint32_t count); // number of elements
void msgpack_map(struct json_buffer *out, uint32_t count);   // number of pairs
