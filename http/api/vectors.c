// SPDX-License-Identifier: Apache-2.0
// Embedding vectors as JSON: see pieces.h.
#include "http/api/pieces.h"

#include <math.h>
#include <string.h>

// Values per piece. For base64 a multiple of 3 values: 12 bytes are 16 letters.
enum { FLOATS_A_PIECE = 96, BASE64_FLOATS_A_PIECE = 366 };

enum { FLOAT_BYTE_WORK = 12 }; // work per byte of a decimal number, in bytes of JSON parsed

// Little-endian IEEE float32 on every machine.
static void value_bytes(unsigned char out[4], float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    for (int i = 0; i < 4; i++)
        out[i] = (unsigned char)(bits >> (8 * i));
}

static void base64_put(struct json_buffer *out, const float *values, uint32_t count)
{
    unsigned char bytes[4 * BASE64_FLOATS_A_PIECE];
    for (uint32_t i = 0; i < count; i++)
        value_bytes(bytes + 4 * i, values[i]);
    json_put_base64(out, text_span((const char *)bytes, 4 * (size_t)count));
}

static void floats_put(struct json_buffer *out, const float *values, uint32_t count, bool first)
{
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0 || !first)
            json_put_literal(out, ",");
        json_put_float(out, values[i]);
    }
}

static void tail_put(struct vectors *v, struct json_buffer *out)
{
    json_put_member(out, "],\"model\":", text_of(v->model));
    json_put_format(out, ",\"usage\":{\"prompt_tokens\":%llu,\"total_tokens\":%llu}}",
                    (unsigned long long)v->tokens, (unsigned long long)v->tokens);
    v->ended = true;
}

bool vectors_put(struct vectors *v, struct json_buffer *out)
{
    uint32_t most = v->base64 ? BASE64_FLOATS_A_PIECE : FLOATS_A_PIECE;
    uint32_t left = v->width - v->column;
    uint32_t count = left < most ? left : most;
    if (!v->begun) {
        v->begun = true;
        json_put_literal(out, "{\"object\":\"list\",\"data\":[");
    }
    if (v->row == v->count) {
        tail_put(v, out);
        return false;
    }
    if (v->column == 0) {
        json_put_format(out, "%s{\"object\":\"embedding\",\"index\":%u,\"embedding\":%s",
                        v->row > 0 ? "," : "", v->row, v->base64 ? "\"" : "[");
    }
    const float *values = v->values + (size_t)v->row * v->width + v->column;
    if (v->base64)
        base64_put(out, values, count);
    else
        floats_put(out, values, count, v->column == 0);
    v->column += count;
    if (v->column == v->width) {
        json_put_literal(out, v->base64 ? "\"}" : "]}");
        v->row++;
        v->column = 0;
    }
    return true;
}

uint64_t vectors_length(const struct vectors *v, struct slice *slice)
{
    struct vectors copy = *v;
    struct json_buffer piece = {0};
    uint64_t length = 0;
    bool more = true;
    while (more) {
        piece.bytes = 0;
        more = vectors_put(&copy, &piece);
        length += piece.bytes;
        more = slice_spend(slice, piece.bytes * (v->base64 ? 1 : FLOAT_BYTE_WORK)) && more;
    }
    json_buffer_free(&piece);
    return length;
}

bool vectors_valid(const struct vectors *v)
{
    size_t n = (size_t)v->count * v->width;
    for (size_t i = 0; i < n; i++)
        if (!isfinite(v->values[i]))
            return false;
    return true;
}
