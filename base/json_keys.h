// SPDX-License-Identifier: Apache-2.0
// Object keys that contain NUL: jansson 2.14 stores them, but can neither parse nor copy them
// completely.
#pragma once

#include <jansson.h>
#include <stdint.h>

// Replaces stand_in (a character with three bytes in UTF-8) by NUL in all keys of the value.
void json_keys_repair(json_t *value, uint32_t stand_in);

// Returns a new object that shares the values of `object`. Used in place of json_copy, which cuts
// keys at NUL.
json_t *json_object_copied(const json_t *object);
