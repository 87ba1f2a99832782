// SPDX-License-Identifier: Apache-2.0
// Integers beyond int64 in jansson's values: reals that carry the digits they were written with.
#pragma once

#include "base/text.h"

#include <jansson.h>
#include <stdint.h>

// Replaces in *value each string that json_wide_put_mark wrote by the integer at that place of
// `from`, the text that was parsed. stand_in: the character of json_wide_put_mark.
void json_wide_restore(json_t **value, uint32_t stand_in, struct text from);

// Overwrites a number of `bytes` bytes at `at`, at least 19, with a JSON string of the same length:
// the escape \uXXXX of stand_in and the number's offset in the text, in decimal. stand_in: a
// character from U+0800 to U+FFFF that the text does not contain.
void json_wide_put_mark(char *at, size_t bytes, uint32_t stand_in, size_t offset);
