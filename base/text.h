// A borrowed piece of bytes with its length; never owns, never NUL-terminated by promise.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct text {
    const char *at;
    size_t bytes;
};

static inline struct text text_of(const char *string)
{
    return (struct text){string, strlen(string)};
}

static inline struct text text_span(const char *at, size_t bytes)
{
    return (struct text){at, bytes};
}

static inline bool text_is(struct text a, const char *string)
{
    size_t bytes = strlen(string);
    return a.bytes == bytes && memcmp(a.at, string, bytes) == 0;
}

static inline bool text_equal(struct text a, struct text b)
{
    return a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.at, b.at, a.bytes) == 0);
}

// Without the blanks at both ends.
static inline struct text text_trim(struct text in)
{
    while (in.bytes > 0 && (in.at[0] == ' ' || in.at[0] == '\t'))
        in = text_span(in.at + 1, in.bytes - 1);
    while (in.bytes > 0 && (in.at[in.bytes - 1] == ' ' || in.at[in.bytes - 1] == '\t'))
        in.bytes--;
    return in;
}

// The value of a hexadecimal digit, -1 for other characters.
static inline int text_hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// Bytes of the UTF-8 sequence at the beginning of a text that is not empty, with its code point; 0
// if there is none (overlong forms, surrogates and cut sequences are none).
static inline size_t text_utf8_first(struct text in, uint32_t *point)
{
    const unsigned char *p = (const unsigned char *)in.at;
    size_t bytes = p[0] < 0x80 ? 1 : p[0] < 0xC2 ? 0 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    if (bytes == 0 || p[0] > 0xF4 || bytes > in.bytes)
        return 0;
    uint32_t read = bytes == 1 ? p[0] : p[0] & (0x7Fu >> bytes);
    for (size_t i = 1; i < bytes; i++) {
        if ((p[i] & 0xC0) != 0x80)
            return 0;
        read = read << 6 | (p[i] & 0x3F);
    }
    bool overlong = (bytes == 3 && read < 0x800) || (bytes == 4 && read < 0x10000);
    *point = read;
    return overlong || (read >= 0xD800 && read < 0xE000) || read > 0x10FFFF ? 0 : bytes;
}
