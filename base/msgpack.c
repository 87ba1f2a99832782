// SPDX-License-Identifier: Apache-2.0
// Writes msgpack; see msgpack.h. Numbers are big-endian after a byte for their type.
#include "base/msgpack.h"

#include <string.h>

enum { // bytes of types: of the shortest form of a size, and of the form with 8 bits or 16 bits
    NIL = 0xC0,
    REAL64 = 0xCB,
    UNSIGNED8 = 0xCC, // 0xCD to 0xCF: 16, 32, 64 bits
    TEXT_SHORT = 0xA0,
    TEXT8 = 0xD9,
    ARRAY_SHORT = 0x90,
    ARRAY16 = 0xDC,
    MAP_SHORT = 0x80,
    MAP16 = 0xDE,
};

// Appends a type byte and the low `bytes` bytes of a number.
static void put(struct json_buffer *out, int type, uint64_t value, uint32_t bytes)
{
    char at[9] = {(char)type};
    for (uint32_t i = 0; i < bytes; i++)
        at[1 + i] = (char)(value >> 8 * (bytes - 1 - i));
    json_put_raw(out, text_span(at, 1 + bytes));
}

void msgpack_nil(struct json_buffer *out)
{
    put(out, NIL, 0, 0);
}

void msgpack_unsigned(struct json_buffer *out, uint64_t value)
{
    if (value < 128)
        put(out, (int)value, 0, 0);
    else if (value <= UINT8_MAX)
        put(out, UNSIGNED8, value, 1);
    else if (value <= UINT16_MAX)
        put(out, UNSIGNED8 + 1, value, 2);
    else if (value <= UINT32_MAX)
        put(out, UNSIGNED8 + 2, value, 4);
    else
        put(out, UNSIGNED8 + 3, value, 8);
}

void msgpack_real(struct json_buffer *out, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put(out, REAL64, bits, 8);
}

// Appends the head of an array or map: up to 15 elements, 16 bits, 32 bits.
static void head_put(struct json_buffer *out, int type_short, int type16, uint32_t count)
{
    if (count < 16)
        put(out, type_short + (int)count, 0, 0);
    else if (count <= UINT16_MAX)
        put(out, type16, count, 2);
    else
        put(out, type16 + 1, count, 4);
}

void msgpack_array(struct json_buffer *out, uint32_t count)
{
    head_put(out, ARRAY_SHORT, ARRAY16, count);
}

void msgpack_map(struct json_buffer *out, uint32_t count)
{
    head_put(out, MAP_SHORT, MAP16, count);
}

void msgpack_text(struct json_buffer *out, const char *value)
{
    struct text text = text_of(value);
    if (text.bytes < 32)
        put(out, TEXT_SHORT + (int)text.bytes, 0, 0);
    else if (text.bytes <= UINT8_MAX)
        put(out, TEXT8, text.bytes, 1);
    else if (text.bytes <= UINT16_MAX)
        put(out, TEXT8 + 1, text.bytes, 2);
    else
        put(out, TEXT8 + 2, text.bytes, 4);
    json_put_raw(out, text);
}
