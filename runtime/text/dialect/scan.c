// SPDX-License-Identifier: Apache-2.0
// Incremental scanners for JSON values and strings; see scan.h. Strict: the grammar of RFC 8259,
// with at most JSON_SCAN_DEPTH_MAX levels.
#include "runtime/text/dialect/scan.h"

#include "base/text.h"
#include "base/utf8.h"

enum {
    SCAN_VALUE,
    SCAN_OBJECT,
    SCAN_FIRST_VALUE, // value, or ]
    SCAN_FIRST_KEY,   // key, or }
    SCAN_KEY,
    SCAN_COLON,
    SCAN_AFTER, // , or the end of the container
    SCAN_STRING,
    SCAN_ESCAPE,
    SCAN_HEX,
    SCAN_WORD,
    SCAN_MINUS,
    SCAN_ZERO,
    SCAN_DIGITS,
    SCAN_POINT,
    SCAN_FRACTION,
    SCAN_E,
    SCAN_SIGN,
    SCAN_EXPONENT,
};

enum { UNESCAPE_PLAIN, UNESCAPE_BACKSLASH, UNESCAPE_HEX }; // UNESCAPE_HEX + n: n digits were read

static bool byte_is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static bool byte_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

void json_scan_begin(struct json_scan *s)
{
    *s = (struct json_scan){.state = SCAN_VALUE};
}

void json_scan_begin_object(struct json_scan *s)
{
    *s = (struct json_scan){.state = SCAN_OBJECT};
}

static enum json_scan_step value_over(struct json_scan *s)
{
    s->state = SCAN_AFTER;
    return s->depth == 0 ? JSON_SCAN_DONE : JSON_SCAN_MORE;
}

static enum json_scan_step container_open(struct json_scan *s, bool object)
{
    if (s->depth == JSON_SCAN_DEPTH_MAX)
        return JSON_SCAN_BAD;
    uint64_t bit = (uint64_t)1 << (s->depth % 64), *word = &s->objects[s->depth / 64];
    *word = object ? *word | bit : *word & ~bit;
    s->depth++;
    s->state = object ? SCAN_FIRST_KEY : SCAN_FIRST_VALUE;
    return JSON_SCAN_MORE;
}

static bool in_object(const struct json_scan *s)
{
    unsigned level = s->depth - 1u;
    return s->depth > 0 && (s->objects[level / 64] >> (level % 64) & 1) != 0;
}

static enum json_scan_step container_close(struct json_scan *s, char byte)
{
    if (s->depth == 0 || (byte == '}') != in_object(s))
        return JSON_SCAN_BAD;
    s->depth--;
    return value_over(s);
}

static enum json_scan_step string_begin(struct json_scan *s, bool key)
{
    s->key = key;
    s->state = SCAN_STRING;
    return JSON_SCAN_MORE;
}

static enum json_scan_step value_begin(struct json_scan *s, char c)
{
    static const char *const words[] = {"true", "false", "null"};
    if (byte_is_blank(c))
        return JSON_SCAN_MORE;
    if (s->state == SCAN_OBJECT && c != '{')
        return JSON_SCAN_BAD;
    if (c == '"')
        return string_begin(s, false);
    if (c == '{' || c == '[')
        return container_open(s, c == '{');
    if (c == ']' && s->state == SCAN_FIRST_VALUE)
        return container_close(s, c);
    for (unsigned i = 0; i < 3; i++) {
        if (c == words[i][0]) {
            s->word = words[i] + 1;
            s->state = SCAN_WORD;
            return JSON_SCAN_MORE;
        }
    }
    if (c != '-' && !byte_is_digit(c))
        return JSON_SCAN_BAD;
    s->state = c == '-' ? SCAN_MINUS : c == '0' ? SCAN_ZERO : SCAN_DIGITS;
    return JSON_SCAN_MORE;
}

static enum json_scan_step scan_after(struct json_scan *s, char c)
{
    if (byte_is_blank(c))
        return JSON_SCAN_MORE;
    if (c == ',' && s->depth > 0) {
        s->state = in_object(s) ? SCAN_KEY : SCAN_VALUE;
        return JSON_SCAN_MORE;
    }
    return c == '}' || c == ']' ? container_close(s, c) : JSON_SCAN_BAD;
}

static enum json_scan_step in_string(struct json_scan *s, char c)
{
    if (s->state == SCAN_ESCAPE) {
        s->state = c == 'u' ? SCAN_HEX : SCAN_STRING;
        s->left = 4;
        return c != 0 && strchr("\"\\/bfnrtu", c) ? JSON_SCAN_MORE : JSON_SCAN_BAD;
    }
    if (s->state == SCAN_HEX) {
        if (--s->left == 0)
            s->state = SCAN_STRING;
        return text_hex(c) >= 0 ? JSON_SCAN_MORE : JSON_SCAN_BAD;
    }
    if ((unsigned char)c < 0x20)
        return JSON_SCAN_BAD;
    if (c == '\\')
        s->state = SCAN_ESCAPE;
    if (c != '"')
        return JSON_SCAN_MORE;
    if (!s->key)
        return value_over(s);
    s->state = SCAN_COLON;
    return JSON_SCAN_MORE;
}

// Returns the state after one more byte of a number; SCAN_AFTER: the byte does not belong to it.
static uint8_t number_next(uint8_t state, char c)
{
    bool e = c == 'e' || c == 'E';
    switch (state) {
    case SCAN_MINUS:
        return c == '0' ? SCAN_ZERO : byte_is_digit(c) ? SCAN_DIGITS : SCAN_AFTER;
    case SCAN_ZERO:
    case SCAN_DIGITS:
        if (byte_is_digit(c) && state == SCAN_DIGITS)
            return SCAN_DIGITS;
        return c == '.' ? SCAN_POINT : e ? SCAN_E : SCAN_AFTER;
    case SCAN_POINT:
        return byte_is_digit(c) ? SCAN_FRACTION : SCAN_AFTER;
    case SCAN_FRACTION:
        return byte_is_digit(c) ? SCAN_FRACTION : e ? SCAN_E : SCAN_AFTER;
    case SCAN_E:
        return byte_is_digit(c) ? SCAN_EXPONENT : c == '+' || c == '-' ? SCAN_SIGN : SCAN_AFTER;
    default: // SCAN_SIGN, SCAN_EXPONENT
        return byte_is_digit(c) ? SCAN_EXPONENT : SCAN_AFTER;
    }
}

bool json_scan_in_string(const struct json_scan *s)
{
    return s->state == SCAN_STRING || s->state == SCAN_ESCAPE || s->state == SCAN_HEX;
}

bool json_scan_number_ends(const struct json_scan *s)
{
    return s->depth == 0 && (s->state == SCAN_ZERO || s->state == SCAN_DIGITS ||
                             s->state == SCAN_FRACTION || s->state == SCAN_EXPONENT);
}

static enum json_scan_step scan_number(struct json_scan *s, char c)
{
    uint8_t next = number_next(s->state, c);
    if (next != SCAN_AFTER) {
        s->state = next;
        return JSON_SCAN_MORE;
    }
    bool whole = s->state == SCAN_ZERO || s->state == SCAN_DIGITS || s->state == SCAN_FRACTION ||
                 s->state == SCAN_EXPONENT;
    if (!whole)
        return JSON_SCAN_BAD;
    if (value_over(s) == JSON_SCAN_DONE)
        return JSON_SCAN_BEFORE;
    return scan_after(s, c);
}

enum json_scan_step json_scan_byte(struct json_scan *s, char c)
{
    switch (s->state) {
    case SCAN_VALUE:
    case SCAN_OBJECT:
    case SCAN_FIRST_VALUE:
        return value_begin(s, c);
    case SCAN_FIRST_KEY:
    case SCAN_KEY:
        if (c == '}' && s->state == SCAN_FIRST_KEY)
            return container_close(s, c);
        return byte_is_blank(c) ? JSON_SCAN_MORE : c == '"' ? string_begin(s, true) : JSON_SCAN_BAD;
    case SCAN_COLON:
        if (c == ':')
            s->state = SCAN_VALUE;
        return c == ':' || byte_is_blank(c) ? JSON_SCAN_MORE : JSON_SCAN_BAD;
    case SCAN_AFTER:
        return scan_after(s, c);
    case SCAN_STRING:
    case SCAN_ESCAPE:
    case SCAN_HEX:
        return in_string(s, c);
    case SCAN_WORD:
        if (c != *s->word)
            return JSON_SCAN_BAD;
        return *++s->word == 0 ? value_over(s) : JSON_SCAN_MORE;
    default:
        return scan_number(s, c);
    }
}

static uint32_t put_high(struct json_unescape *u, char *out)
{
    uint32_t bytes = u->high != 0 ? (uint32_t)utf8_write(0xFFFD, out) : 0;
    u->high = 0;
    return bytes;
}

static uint32_t put_unit(struct json_unescape *u, char *out)
{
    uint32_t value = u->value;
    if (value >= 0xDC00 && value <= 0xDFFF && u->high != 0) {
        uint32_t point = 0x10000 + (((uint32_t)u->high - 0xD800) << 10) + (value - 0xDC00);
        u->high = 0;
        return (uint32_t)utf8_write(point, out);
    }
    uint32_t bytes = put_high(u, out);
    if (value >= 0xD800 && value <= 0xDBFF) {
        u->high = (uint16_t)value;
        return bytes;
    }
    if (value >= 0xDC00 && value <= 0xDFFF)
        value = 0xFFFD;
    return bytes + (uint32_t)utf8_write(value, out + bytes);
}

enum json_unescape_step json_unescape_byte(struct json_unescape *u, char c, char out[8],
                                           uint32_t *bytes)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    *bytes = 0;
    if (u->state >= UNESCAPE_HEX) {
        if (text_hex(c) < 0)
            return JSON_UNESCAPE_BAD;
        u->value = u->value << 4 | (uint32_t)text_hex(c);
        if (++u->state < UNESCAPE_HEX + 4)
            return JSON_UNESCAPE_MORE;
        u->state = UNESCAPE_PLAIN;
        *bytes = put_unit(u, out);
        return JSON_UNESCAPE_MORE;
    }
    if (u->state == UNESCAPE_BACKSLASH && c == 'u') {
        u->state = UNESCAPE_HEX;
        u->value = 0;
        return JSON_UNESCAPE_MORE;
    }
    if (u->state == UNESCAPE_PLAIN && c == '\\') {
        u->state = UNESCAPE_BACKSLASH;
        return JSON_UNESCAPE_MORE;
    }
    *bytes = put_high(u, out);
    if (u->state == UNESCAPE_BACKSLASH) {
        const char *name = c != 0 ? strchr(names, c) : NULL;
        if (!name)
            return JSON_UNESCAPE_BAD;
        c = values[name - names];
    } else if (c == '"') {
        return JSON_UNESCAPE_END;
    } else if ((unsigned char)c < 0x20) {
        return JSON_UNESCAPE_BAD;
    }
    u->state = UNESCAPE_PLAIN;
    out[(*bytes)++] = c;
    return JSON_UNESCAPE_MORE;
}
