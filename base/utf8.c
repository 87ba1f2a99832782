// SPDX-License-Identifier: Apache-2.0
// UTF-8 validation and writing; see utf8.h.
#include "base/utf8.h"

#include <string.h>

size_t utf8_write(uint32_t c, char *out)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xC0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xE0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3F));
        out[2] = (char)(0x80 | (c & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3F));
    out[2] = (char)(0x80 | (c >> 6 & 0x3F));
    out[3] = (char)(0x80 | (c & 0x3F));
    return 4;
}

// Returns true if the second byte may follow the first (no overlong forms, no surrogates).
static bool second_fits(unsigned char lead, unsigned char second)
{
    unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    return second >= low && second <= high;
}

// Returns the length of a character with this first byte; 0: no character begins with it.
static size_t length_wanted(unsigned char lead)
{
    if (lead < 0x80)
        return 1;
    if (lead < 0xC2 || lead > 0xF4)
        return 0;
    return lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

size_t utf8_bad_length(const char *at, size_t bytes)
{
    const unsigned char *u = (const unsigned char *)at;
    size_t wanted = length_wanted(u[0]);
    size_t have = 1;
    while (have < wanted && have < bytes &&
           (have == 1 ? second_fits(u[0], u[1]) : (u[have] & 0xC0) == 0x80))
        have++;
    return have;
}

size_t utf8_valid(const char *at, size_t bytes)
{
    if (bytes == 0)
        return 0;
    size_t wanted = length_wanted((unsigned char)*at);
    if (wanted <= 1)
        return wanted;
    return utf8_bad_length(at, bytes) == wanted ? wanted : 0;
}

size_t utf8_first(struct text in, uint32_t *c)
{
    size_t bytes = utf8_valid(in.at, in.bytes);
    if (bytes > 0)
        *c = utf8_read(in.at, &bytes);
    return bytes;
}

bool utf8_is_beginning(const char *at, size_t bytes)
{
    return bytes > 0 && bytes < length_wanted((unsigned char)*at) &&
           utf8_bad_length(at, bytes) == bytes;
}

size_t utf8_valid_prefix(struct text text)
{
    size_t i = 0;
    while (i < text.bytes) {
        uint64_t eight;
        if (text.bytes - i >= 8) {
            memcpy(&eight, text.at + i, 8);
            if ((eight & 0x8080808080808080u) == 0) {
                i += 8;
                continue;
            }
        }
        size_t length = utf8_valid(text.at + i, text.bytes - i);
        if (length == 0)
            break;
        i += length;
    }
    return i;
}

struct text utf8_lossy(struct arena *arena, struct text text)
{
    size_t good = utf8_valid_prefix(text);
    if (good == text.bytes)
        return text;
    char *out = arena_alloc(arena, good + (text.bytes - good) * 3);
    if (!out)
        return (struct text){NULL, 0};
    memcpy(out, text.at, good);
    size_t n = good;
    for (size_t i = good; i < text.bytes;) {
        size_t length = utf8_valid(text.at + i, text.bytes - i);
        if (length > 0) {
            memcpy(out + n, text.at + i, length);
            n += length;
            i += length;
        } else {
            n += utf8_write(0xFFFD, out + n);
            i += utf8_bad_length(text.at + i, text.bytes - i);
        }
    }
    return text_span(out, n);
}
