// SPDX-License-Identifier: Apache-2.0
// Bytes with their length, borrowed: the struct owns nothing, and the bytes need not end with a
// NUL.
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

static inline bool text_begins(struct text text, const char *begin)
{
    size_t bytes = strlen(begin);
    return text.bytes >= bytes && memcmp(text.at, begin, bytes) == 0;
}

static inline bool text_ends(struct text text, const char *end)
{
    size_t bytes = strlen(end);
    return text.bytes >= bytes && memcmp(text.at + text.bytes - bytes, end, bytes) == 0;
}

// Compares bytes; returns -1, 0 or 1. A prefix is less than the longer text.
static inline int text_order(struct text a, struct text b)
{
    size_t both = a.bytes < b.bytes ? a.bytes : b.bytes;
    int order = both > 0 ? memcmp(a.at, b.at, both) : 0;
    return order != 0 ? (order > 0) - (order < 0) : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

// Returns the text without spaces and tabs at both ends.
static inline struct text text_trim(struct text in)
{
    while (in.bytes > 0 && (in.at[0] == ' ' || in.at[0] == '\t'))
        in = text_span(in.at + 1, in.bytes - 1);
    while (in.bytes > 0 && (in.at[in.bytes - 1] == ' ' || in.at[in.bytes - 1] == '\t'))
        in.bytes--;
    return in;
}

// Returns the next word of a list separated by spaces, and moves *list after it; 0 bytes: no word
// is left.
static inline struct text text_word(const char **list)
{
    const char *at = *list + strspn(*list, " ");
    struct text word = {at, strcspn(at, " ")};
    *list = at + word.bytes;
    return word;
}

// Returns true if a list of words separated by spaces (NULL: none) contains the word.
static inline bool text_has_word(const char *list, const char *word)
{
    for (struct text next; list && (next = text_word(&list)).bytes > 0;)
        if (text_is(next, word))
            return true;
    return false;
}

// Returns the little-endian number in `bytes` bytes, at most 8.
static inline uint64_t text_number(const char *at, size_t bytes)
{
    uint64_t value = 0;
    while (bytes-- > 0)
        value = value << 8 | (unsigned char)at[bytes];
    return value;
}

// Returns the value of a hexadecimal digit, -1 for other characters.
static inline int text_hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// Returns the value of the first `digits` hexadecimal digits (at most 8); -1 if they are not all
// there.
static inline int64_t text_hex_read(struct text in, size_t digits)
{
    int64_t value = 0;
    for (size_t i = 0; i < digits; i++) {
        int digit = i < in.bytes ? text_hex(in.at[i]) : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

// Decodes %XX (RFC 3986) into out, which has space for in.bytes bytes; other bytes, also of
// malformed escapes, are copied. The result points into out.
static inline struct text text_percent_decode(struct text in, char *out)
{
    size_t bytes = 0;
    for (size_t i = 0; i < in.bytes; i++) {
        struct text rest = text_span(in.at + i + 1, in.bytes - i - 1);
        int64_t byte = in.at[i] == '%' ? text_hex_read(rest, 2) : -1;
        out[bytes++] = byte >= 0 ? (char)byte : in.at[i];
        i += byte >= 0 ? 2 : 0;
    }
    return text_span(out, bytes);
}
