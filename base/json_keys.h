// Object keys with NUL in them, which jansson stores but does not read.
#pragma once

#include <jansson.h>
#include <stdint.h>

// In all keys of the value each stand_in (of the basic plane, three bytes in UTF-8) becomes NUL.
void json_keys_mend(json_t *value, uint32_t stand_in);
