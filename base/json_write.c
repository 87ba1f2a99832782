// SPDX-License-Identifier: Apache-2.0
// JSON writing into a growing buffer; see json.h. Numbers do not depend on the locale: digits are
// generated here, or snprintf's decimal sign is replaced.
#include "base/json.h"

#include "base/utf8.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_BYTES_MAX = 40 };

static void buffer_reserve(struct json_buffer *b, size_t more)
{
    size_t wanted = b->bytes + more;
    if (wanted <= b->bytes_allocated)
        return;
    size_t grown = b->bytes_allocated > 0 ? b->bytes_allocated : 256;
    while (grown < wanted)
        grown *= 2;
    b->at = heap_grow(b->at, grown);
    b->bytes_allocated = grown;
}

void json_buffer_free(struct json_buffer *b)
{
    heap_free(b->at);
    *b = (struct json_buffer){0};
}

void json_put_raw(struct json_buffer *b, struct text text)
{
    buffer_reserve(b, text.bytes);
    if (text.bytes > 0)
        memcpy(b->at + b->bytes, text.at, text.bytes);
    b->bytes += text.bytes;
}

void json_put_literal(struct json_buffer *b, const char *text)
{
    json_put_raw(b, text_of(text));
}

void json_put_format(struct json_buffer *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    int bytes = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (bytes > 0) {
        buffer_reserve(b, (size_t)bytes + 1);
        vsnprintf(b->at + b->bytes, (size_t)bytes + 1, format, again);
        b->bytes += (size_t)bytes;
    }
    va_end(again);
}

void json_put_unsigned(struct json_buffer *b, uint64_t value)
{
    char digits[NUMBER_BYTES_MAX];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    json_put_raw(b, text_span(digits + at, sizeof digits - at));
}

// Returns the letter of a byte's two-character escape, 0 if it needs none, 'u' for the long form.
static char escape_of(unsigned char c)
{
    switch (c) {
    case '"':
        return '"';
    case '\\':
        return '\\';
    case '\b':
        return 'b';
    case '\f':
        return 'f';
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    default:
        return c < 0x20 || c == 0x7F ? 'u' : 0;
    }
}

void json_put_escaped(struct json_buffer *b, struct text utf8)
{
    static const char hex[] = "0123456789abcdef";
    buffer_reserve(b, utf8.bytes * 6);
    char *to = b->at + b->bytes;
    for (size_t i = 0; i < utf8.bytes; i++) {
        unsigned char c = (unsigned char)utf8.at[i];
        char escape = escape_of(c);
        if (escape == 0) {
            *to++ = (char)c;
        } else if (escape == 'u') {
            memcpy(to, "\\u00", 4);
            to[4] = hex[c >> 4];
            to[5] = hex[c & 15];
            to += 6;
        } else {
            *to++ = '\\';
            *to++ = escape;
        }
    }
    b->bytes = (size_t)(to - b->at);
}

void json_put_lossy(struct json_buffer *b, struct text bytes)
{
    while (bytes.bytes > 0) {
        size_t whole = utf8_valid_prefix(bytes);
        json_put_escaped(b, text_span(bytes.at, whole));
        bytes = text_span(bytes.at + whole, bytes.bytes - whole);
        if (bytes.bytes == 0)
            return;
        size_t bad = utf8_bad_length(bytes.at, bytes.bytes);
        json_put_literal(b, "\xEF\xBF\xBD");
        bytes = text_span(bytes.at + bad, bytes.bytes - bad);
    }
}

void json_put_string(struct json_buffer *b, struct text utf8)
{
    json_put_literal(b, "\"");
    json_put_escaped(b, utf8);
    json_put_literal(b, "\"");
}

void json_put_member(struct json_buffer *b, const char *before, struct text utf8)
{
    json_put_literal(b, before);
    json_put_string(b, utf8);
}

// Writes digits (`count` of them, no trailing zeros) times ten to the power of scale as a JSON
// number. Returns the number of bytes.
static size_t write_decimal(char *to, bool negative, const char *digits, int count, int scale)
{
    char *at = to;
    int point = count + scale; // number of digits before the decimal point
    if (negative)
        *at++ = '-';
    if (point > 0 && point <= 16) {
        for (int i = 0; i < point; i++)
            *at++ = i < count ? digits[i] : '0';
        *at++ = '.';
        if (count <= point)
            *at++ = '0';
        for (int i = point; i < count; i++)
            *at++ = digits[i];
    } else if (point <= 0 && point > -5) {
        *at++ = '0';
        *at++ = '.';
        for (int i = point; i < 0; i++)
            *at++ = '0';
        for (int i = 0; i < count; i++)
            *at++ = digits[i];
    } else {
        *at++ = digits[0];
        if (count > 1)
            *at++ = '.';
        for (int i = 1; i < count; i++)
            *at++ = digits[i];
        at += snprintf(at, 8, "e%d", point - 1);
    }
    return (size_t)(at - to);
}

// Writes snprintf's "%.*e" text as a JSON number, independent of the locale's decimal sign.
static size_t write_exponent_form(char *to, const char *text)
{
    char digits[24];
    int count = 0;
    bool negative = *text == '-';
    const char *e = strchr(text, 'e');
    for (const char *at = text; at < e; at++)
        if (*at >= '0' && *at <= '9')
            digits[count++] = *at;
    int scale = (int)strtol(e + 1, NULL, 10) - (count - 1);
    while (count > 1 && digits[count - 1] == '0') {
        count--;
        scale++;
    }
    return write_decimal(to, negative, digits, count, scale);
}

// Writes the shortest decimal of a positive float in a middle range. Tries digits with increasing
// precision and accepts them if they are within 0.4999 of the gap to the neighbour on their side, a
// margin that rounding errors of the long double arithmetic (2^-60) cannot cross. Returns 0 if this
// does not decide; the caller then uses strtof.
static size_t float_fast(char *to, float value, bool negative)
{
    static const long double ten[] = {1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,
                                      1e7L,  1e8L,  1e9L,  1e10L, 1e11L, 1e12L, 1e13L,
                                      1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L};
    if (!(value >= 1e-9f && value < 1e9f))
        return 0;
    int exponent = 0; // power of ten: value is in [10^exponent, 10^(exponent + 1))
    if (value >= 1.0f)
        while (exponent < 9 && value >= ten[exponent + 1])
            exponent++;
    else
        while (value * ten[-exponent] < 1.0L)
            exponent--;
    for (int precision = 6; precision <= 9; precision++) {
        int shift = precision - 1 - exponent; // digits = value * 10^shift
        long double scaled = shift >= 0 ? value * ten[shift] : value / ten[-shift];
        uint64_t whole = (uint64_t)(scaled + 0.5L);
        long double back = shift >= 0 ? whole / ten[shift] : whole * ten[-shift];
        float neighbour = nextafterf(value, back > value ? INFINITY : 0.0f);
        long double part = fabsl((back - value) / ((long double)neighbour - value));
        if (part > 0.5001L)
            continue;
        if (part > 0.4999L) // too close to decide here
            return 0;
        while (whole % 10 == 0) {
            whole /= 10;
            shift--;
        }
        char digits[24];
        int count = 0;
        for (uint64_t rest = whole; rest > 0; rest /= 10)
            count++;
        for (int i = count - 1; i >= 0; i--, whole /= 10)
            digits[i] = (char)('0' + whole % 10);
        return write_decimal(to, negative, digits, count, -shift);
    }
    return 0;
}

void json_put_float(struct json_buffer *b, float value)
{
    check(isfinite(value), "a JSON number must be finite");
    buffer_reserve(b, NUMBER_BYTES_MAX);
    char *to = b->at + b->bytes;
    if (value == 0.0f) {
        json_put_literal(b, "0.0");
        return;
    }
    bool negative = value < 0;
    size_t bytes = float_fast(to, fabsf(value), negative);
    // starts at 0: subnormals are short
    for (int precision = 0; bytes == 0 && precision <= 8; precision++) {
        char text[NUMBER_BYTES_MAX];
        snprintf(text, sizeof text, "%.*e", precision, (double)value);
        if (precision == 8 || strtof(text, NULL) == value)
            bytes = write_exponent_form(to, text);
    }
    b->bytes += bytes;
}

void json_put_double(struct json_buffer *b, double value)
{
    check(isfinite(value), "a JSON number must be finite");
    buffer_reserve(b, NUMBER_BYTES_MAX);
    if (value == 0.0) {
        json_put_literal(b, "0.0");
        return;
    }
    for (int precision = 14; precision <= 16; precision++) {
        char text[NUMBER_BYTES_MAX];
        snprintf(text, sizeof text, "%.*e", precision, value);
        if (precision < 16 && strtod(text, NULL) != value)
            continue;
        b->bytes += write_exponent_form(b->at + b->bytes, text);
        return;
    }
}

static bool put_text(struct json_buffer *b, struct text text, size_t bytes_max)
{
    if (text.bytes > bytes_max || b->bytes > bytes_max - text.bytes)
        return false;
    json_put_string(b, text);
    return true;
}

// Recursive; the depth is at most the parser's JSON_DEPTH_MAX.
static bool put_container(struct json_buffer *b, const json_t *value, size_t bytes_max)
{
    json_t *object = (json_t *)value; // iterating does not change it
    const char *comma = "";
    bool fits = true;
    json_put_literal(b, json_is_object(value) ? "{" : "[");
    for (void *at = json_object_iter(object); at && fits; at = json_object_iter_next(object, at)) {
        struct text key = text_span(json_object_iter_key(at), json_object_iter_key_len(at));
        json_put_literal(b, comma);
        fits = put_text(b, key, bytes_max);
        json_put_literal(b, ":");
        fits = fits && json_put_value_within(b, json_object_iter_value(at), bytes_max);
        comma = ",";
    }
    for (size_t i = 0; i < json_array_size(value) && fits; i++) {
        json_put_literal(b, i > 0 ? "," : "");
        fits = json_put_value_within(b, json_array_get(value, i), bytes_max);
    }
    json_put_literal(b, json_is_object(value) ? "}" : "]");
    return fits;
}

bool json_put_value_within(struct json_buffer *b, const json_t *value, size_t bytes_max)
{
    struct text digits;
    switch (json_typeof(value)) {
    case JSON_STRING:
        return put_text(b, text_span(json_string_value(value), json_string_length(value)),
                        bytes_max) &&
               b->bytes <= bytes_max;
    case JSON_INTEGER:
        json_put_format(b, "%lld", (long long)json_integer_value(value));
        break;
    case JSON_REAL:
        digits = json_integer_digits(value);
        if (digits.at)
            json_put_raw(b, digits);
        else
            json_put_double(b, json_real_value(value));
        break;
    case JSON_TRUE:
        json_put_literal(b, "true");
        break;
    case JSON_FALSE:
        json_put_literal(b, "false");
        break;
    case JSON_NULL:
        json_put_literal(b, "null");
        break;
    default:
        return put_container(b, value, bytes_max) && b->bytes <= bytes_max;
    }
    return b->bytes <= bytes_max;
}

void json_put_value(struct json_buffer *b, const json_t *value)
{
    (void)json_put_value_within(b, value, SIZE_MAX);
}

void json_put_base64(struct json_buffer *b, struct text bytes)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *at = (const unsigned char *)bytes.at;
    for (size_t i = 0; i < bytes.bytes; i += 3) {
        size_t left = bytes.bytes - i;
        uint32_t three = (uint32_t)at[i] << 16 | (left > 1 ? (uint32_t)at[i + 1] << 8 : 0) |
                         (left > 2 ? at[i + 2] : 0u);
        char four[4] = {letters[three >> 18], letters[three >> 12 & 63],
                        left > 1 ? letters[three >> 6 & 63] : '=',
                        left > 2 ? letters[three & 63] : '='};
        json_put_raw(b, text_span(four, sizeof four));
    }
}
