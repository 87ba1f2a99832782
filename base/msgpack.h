// SPDX-License-Identifier: Apache-2.0
// Writes msgpack (https://github.com/msgpack/msgpack/blob/master/spec.md): each function appends
// one value, integers and sizes in the shortest form. After the head of an array or map the caller
// appends its elements. Errors of memory are those of json_buffer.
#pragma once

#include "base/json.h"

void msgpack_nil(struct json_buffer *out);
void msgpack_unsigned(struct json_buffer *out, uint64_t value);
void msgpack_real(struct json_buffer *out, double value);      // float 64
void msgpack_text(struct json_buffer *out, const char *value); // UTF-8, ends with a NUL
void msgpack_array(struct json_buffer *out, uint32_t count);   // number of elements
void msgpack_map(struct json_buffer *out, uint32_t count);     // number of pairs
