// SPDX-License-Identifier: Apache-2.0
// UTF-8 without overlong forms, surrogates or code points above U+10FFFF. Pure functions.
#pragma once

#include "base/arena.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Returns the length of the character at `at`, from its first byte; the text must be valid UTF-8.
static inline size_t utf8_length(const char *at)
{
    unsigned char lead = (unsigned char)*at;
    return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

// Returns the character at `at` of valid UTF-8, and its length in *bytes.
static inline uint32_t utf8_read(const char *at, size_t *bytes)
{
    const unsigned char *u = (const unsigned char *)at;
    if (u[0] < 0x80) {
        *bytes = 1;
        return u[0];
    }
    if (u[0] < 0xE0) {
        *bytes = 2;
        return (u[0] & 0x1Fu) << 6 | (u[1] & 0x3Fu);
    }
    if (u[0] < 0xF0) {
        *bytes = 3;
        return (u[0] & 0x0Fu) << 12 | (u[1] & 0x3Fu) << 6 | (u[2] & 0x3Fu);
    }
    *bytes = 4;
    return (u[0] & 0x07u) << 18 | (u[1] & 0x3Fu) << 12 | (u[2] & 0x3Fu) << 6 | (u[3] & 0x3Fu);
}

// Returns the offset of the last character of at[0] to at[end - 1]; valid UTF-8, end > 0.
static inline size_t utf8_before(const char *at, size_t end)
{
    do
        end--;
    while (((unsigned char)at[end] & 0xC0) == 0x80);
    return end;
}

// Returns the length of the text without an incomplete character at its end. Everything before that
// must be valid UTF-8.
static inline size_t utf8_complete(const char *at, size_t bytes)
{
    size_t start = bytes;
    while (start > 0 && ((unsigned char)at[start - 1] & 0xC0) == 0x80)
        start--;
    return start > 0 && start - 1 + utf8_length(at + start - 1) > bytes ? start - 1 : bytes;
}

// Returns the first offset from `bytes` on at which no character of the text is cut. all: length of
// the text, which is valid UTF-8.
static inline size_t utf8_until(const char *at, size_t bytes, size_t all)
{
    while (bytes < all && ((unsigned char)at[bytes] & 0xC0) == 0x80)
        bytes++;
    return bytes;
}

// Writes the code point c, at most U+10FFFF and no surrogate. Returns the number of bytes, 1..4.
size_t utf8_write(uint32_t c, char *out);
// Returns the length of the valid character at `at`, 0 if the bytes there are not one.
size_t utf8_valid(const char *at, size_t bytes);
// Returns the length of the valid first character and stores it in *c; 0 if there is none.
size_t utf8_first(struct text in, uint32_t *c);
// Returns true if the bytes are an incomplete but so far valid character.
bool utf8_is_beginning(const char *at, size_t bytes);
// Returns how many bytes from the start are valid UTF-8.
size_t utf8_valid_prefix(struct text text);
// Returns the length of the invalid bytes at `at` that one U+FFFD replaces (a maximal subpart),
// 1..3. Call it where utf8_valid returns 0; bytes > 0.
size_t utf8_bad_length(const char *at, size_t bytes);
// Returns the text itself if it is valid, else a copy in the arena with U+FFFD for invalid bytes;
// at == NULL: the limit of the arena would be exceeded.
struct text utf8_lossy(struct arena *arena, struct text text);
