// Object keys with NUL in them, which jansson 2.14 stores but neither reads nor copies whole.
#pragma once

#include <jansson.h>
#include <stdint.h>

// In all keys of the value each stand_in (of the basic plane, three bytes in UTF-8) becomes NUL.
void json_keys_mend(json_t *value, uint32_t stand_in);

// A new object with the members of an object, in place of json_copy, which cuts keys at NUL.
json_t *json_object_copied(const json_t *object);
