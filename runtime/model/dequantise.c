// SPDX-License-Identifier: Apache-2.0
// Converts quantised blocks to float32, and reads rows of tensors; see dequantise.h.
#include "runtime/model/dequantise.h"

#include "base/status.h"
#include "runtime/model/packed.h"

#include <math.h>
#include <string.h>

static float half_at(const uint8_t *at)
{
    return f16_to_f32((uint16_t)(at[0] | at[1] << 8));
}

// 32 elements with one scale: d * q.
static void q8_0(float *out, const uint8_t *b)
{
    float d = half_at(b);
    for (int i = 0; i < 32; i++)
        out[i] = (float)(int8_t)b[2 + i] * d;
}

// Returns element i of 32: the low nibbles of 16 bytes are elements 0 to 15, the high ones 16 to
// 31.
static int nibble(const uint8_t *at, int i)
{
    return i < 16 ? at[i] & 15 : at[i - 16] >> 4;
}

// Returns bit 4 of element i, from a bit field of 32 bits.
static int fifth_bit(const uint8_t *at, int i)
{
    return (at[i / 8] >> i % 8 & 1) << 4;
}

static void q4_0(float *out, const uint8_t *b)
{
    float d = half_at(b);
    for (int i = 0; i < 32; i++)
        out[i] = (float)(nibble(b + 2, i) - 8) * d;
}

static void q4_1(float *out, const uint8_t *b)
{
    float d = half_at(b), least = half_at(b + 2);
    for (int i = 0; i < 32; i++)
        out[i] = (float)nibble(b + 4, i) * d + least;
}

static void q5_0(float *out, const uint8_t *b)
{
    float d = half_at(b);
    for (int i = 0; i < 32; i++)
        out[i] = (float)((nibble(b + 6, i) | fifth_bit(b + 2, i)) - 16) * d;
}

static void q5_1(float *out, const uint8_t *b)
{
    float d = half_at(b), least = half_at(b + 2);
    for (int i = 0; i < 32; i++)
        out[i] = (float)(nibble(b + 8, i) | fifth_bit(b + 4, i)) * d + least;
}

// Unpacks the scale and the minimum of a group: eight of each, 6 bits wide, in 12 bytes.
static void scale_of(const uint8_t *s, int group, float *scale, float *least)
{
    int a = s[group] & 63, b = s[group + 4] & 63;
    if (group >= 4) {
        a = (s[group + 4] & 15) | s[group - 4] >> 6 << 4;
        b = s[group + 4] >> 4 | s[group] >> 6 << 4;
    }
    *scale = (float)a;
    *least = (float)b;
}

// 256 elements in 8 groups: d * scale * q - dmin * least. high: the fifth bits, or NULL.
static void k_groups(float *out, const uint8_t *b, const uint8_t *high, const uint8_t *low)
{
    float d = half_at(b), dmin = half_at(b + 2);
    for (int group = 0; group < 8; group++) {
        float scale, least;
        scale_of(b + 4, group, &scale, &least);
        scale *= d;
        least *= dmin;
        for (int i = 0; i < 32; i++) {
            int byte = low[group / 2 * 32 + i];
            int q = group % 2 ? byte >> 4 : byte & 15;
            if (high)
                q |= (high[i] >> group & 1) << 4;
            out[group * 32 + i] = scale * (float)q - least;
        }
    }
}

static void q4_k(float *out, const uint8_t *b)
{
    k_groups(out, b, NULL, b + 16);
}

static void q5_k(float *out, const uint8_t *b)
{
    k_groups(out, b, b + 16, b + 48);
}

// 256 elements in 16 groups: four low bits, two high bits, and a scale of one byte.
static void q6_k(float *out, const uint8_t *b)
{
    float d = half_at(b + 208);
    for (int i = 0; i < 256; i++) {
        int half = i / 128, quarter = i % 128 / 32, at = i % 32;
        int low = b[half * 64 + quarter % 2 * 32 + at];
        int high = b[128 + half * 32 + at] >> 2 * quarter & 3;
        int q = ((quarter < 2 ? low & 15 : low >> 4) | high << 4) - 32;
        out[i] = d * (float)(int8_t)b[192 + i / 16] * (float)q;
    }
}

// Returns the low two bits of element i of 256.
static int two_bits(const uint8_t *at, int i)
{
    return at[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
}

// 256 elements in 16 groups: d * scale * q - dmin * least, both factors in one byte.
static void q2_k(float *out, const uint8_t *b)
{
    float d = half_at(b + 80), dmin = half_at(b + 82);
    for (int i = 0; i < 256; i++) {
        float scale = d * (float)(b[i / 16] & 15), least = dmin * (float)(b[i / 16] >> 4);
        out[i] = scale * (float)two_bits(b + 16, i) - least;
    }
}

// 256 elements in 16 groups: two low bits, a bit that subtracts 4 if it is 0, and scales of 6 bits
// in 12 bytes.
static void q3_k(float *out, const uint8_t *b)
{
    float d = half_at(b + 108);
    const uint8_t *scales = b + 96;
    for (int i = 0; i < 256; i++) {
        int group = i / 16, low = group < 8 ? scales[group] & 15 : scales[group - 8] >> 4;
        int scale = low | (scales[8 + group % 4] >> group / 4 * 2 & 3) << 4;
        int q = two_bits(b + 32, i) - (b[i % 32] >> i / 32 & 1 ? 0 : 4);
        out[i] = d * (float)(scale - 32) * (float)q;
    }
}

// The values of the 16 codes of IQ4_NL and IQ4_XS, and twice the values of those of MXFP4 (E2M1).
static const int8_t iq4_values[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                    1,    13,   25,  38,  53,  69,  89,  113};
static const int8_t e2m1_values[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static void iq4_nl(float *out, const uint8_t *b)
{
    float d = half_at(b);
    for (int i = 0; i < 32; i++)
        out[i] = d * (float)iq4_values[nibble(b + 2, i)];
}

// 256 elements in 8 groups, whose scales have 6 bits: four in 4 bytes, two in 2 bytes.
static void iq4_xs(float *out, const uint8_t *b)
{
    float d = half_at(b);
    for (int i = 0; i < 256; i++) {
        int group = i / 32, low = b[4 + group / 2] >> group % 2 * 4 & 15;
        int high = b[2 + group / 4] >> group % 4 * 2 & 3;
        float scale = d * (float)((low | high << 4) - 32);
        out[i] = scale * (float)iq4_values[nibble(b + 8 + group * 16, i % 32)];
    }
}

// 32 elements with the scale 2^(e - 127). The table has twice the values, so d is half the scale.
static void mxfp4(float *out, const uint8_t *b)
{
    float d = ldexpf(1, b[0] - 128);
    for (int i = 0; i < 32; i++)
        out[i] = d * (float)e2m1_values[nibble(b + 1, i)];
}

// format: WEIGHT_FLOATS: no device holds these blocks as they are.
static const struct {
    enum gguf_type_id id;
    enum weight_format format;
    void (*block)(float *, const uint8_t *);
} formats[] = {
    {GGUF_TYPE_Q4_0, WEIGHT_Q4_0, q4_0},       {GGUF_TYPE_Q4_1, WEIGHT_Q4_1, q4_1},
    {GGUF_TYPE_Q5_0, WEIGHT_Q5_0, q5_0},       {GGUF_TYPE_Q5_1, WEIGHT_Q5_1, q5_1},
    {GGUF_TYPE_Q8_0, WEIGHT_Q8_0, q8_0},       {GGUF_TYPE_Q4_K, WEIGHT_Q4_K, q4_k},
    {GGUF_TYPE_Q5_K, WEIGHT_Q5_K, q5_k},       {GGUF_TYPE_Q6_K, WEIGHT_Q6_K, q6_k},
    {GGUF_TYPE_Q2_K, WEIGHT_FLOATS, q2_k},     {GGUF_TYPE_Q3_K, WEIGHT_FLOATS, q3_k},
    {GGUF_TYPE_IQ4_NL, WEIGHT_FLOATS, iq4_nl}, {GGUF_TYPE_IQ4_XS, WEIGHT_FLOATS, iq4_xs},
    {GGUF_TYPE_MXFP4, WEIGHT_MXFP4, mxfp4},
};

enum { FORMATS = sizeof formats / sizeof formats[0] };

bool dequantise_knows(const struct gguf_type *type)
{
    for (int i = 0; i < FORMATS; i++)
        if (formats[i].id == type->id)
            return true;
    return false;
}

enum weight_format dequantise_format(const struct gguf_type *type)
{
    for (int i = 0; type && i < FORMATS; i++)
        if (formats[i].id == type->id)
            return formats[i].format;
    return WEIGHT_FLOATS;
}

void dequantise_block(float *out, const struct gguf_type *type, const void *block)
{
    for (int i = 0; i < FORMATS; i++)
        if (formats[i].id == type->id) {
            formats[i].block(out, block);
            return;
        }
    check(false, "blocks of %s", type->name);
}

// Converts `count` elements from `first` on of a tensor of floats.
static void plain_read(float *out, const struct tensor *tensor, uint64_t first, uint32_t count)
{
    enum dtype dtype = (enum dtype)tensor->dtype;
    const char *at = (const char *)tensor->map + first * dtype_bytes(dtype);
    if (dtype == DTYPE_F32) {
        memcpy(out, at, count * sizeof *out);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, at + i * sizeof half, sizeof half);
        out[i] = dtype == DTYPE_BF16 ? bf16_to_f32(half) : f16_to_f32(half);
    }
}

// Converts `count` elements from `first` on of a quantised tensor. Blocks that are only partly in
// the range are converted to a temporary buffer.
static void blocks_read(float *out, const struct tensor *tensor, uint64_t first, uint32_t count)
{
    const struct gguf_type *type = tensor->blocks;
    float aside[BLOCK_ELEMENTS_MAX];
    for (uint64_t at = first; at < first + count;) {
        const char *block = (const char *)tensor->map + at / type->elements * type->bytes;
        uint32_t inside = (uint32_t)(at % type->elements), left = type->elements - inside;
        uint32_t taken = left < first + count - at ? left : (uint32_t)(first + count - at);
        bool whole = taken == type->elements;
        dequantise_block(whole ? out : aside, type, block);
        if (!whole)
            memcpy(out, aside + inside, taken * sizeof *out);
        out += taken;
        at += taken;
    }
}

// Reads a rectangle whose neighbouring columns are `step` elements apart, in bands of rows that
// share cache lines.
static void turned_read(float *out, const struct tensor *tensor, const struct tensor_place *place)
{
    float column[PACKED_TILE_ROWS];
    for (uint32_t done = 0; done < place->rows; done += PACKED_TILE_ROWS) {
        uint32_t left = place->rows - done,
                 rows = left < PACKED_TILE_ROWS ? left : PACKED_TILE_ROWS;
        for (uint32_t c = 0; c < place->cols; c++) {
            uint64_t at = place->skip + (uint64_t)c * place->step + place->first_col +
                          (uint64_t)(place->first_row + done) * place->stride;
            if (place->stride == 1)
                plain_read(column, tensor, at, rows);
            for (uint32_t r = 0; place->stride > 1 && r < rows; r++)
                plain_read(&column[r], tensor, at + (uint64_t)r * place->stride, 1);
            for (uint32_t r = 0; r < rows; r++)
                out[(uint64_t)(done + r) * place->cols + c] = column[r];
        }
    }
}

// Rows are those of the codes; several of them may count as one row of the rectangle.
static void packed_rows_read(float *out, const struct tensor *tensor,
                             const struct tensor_place *place)
{
    uint32_t row[PACKED_TILE_ROWS], k = tensor->packed->k;
    for (uint32_t done = 0; done < place->rows; done += PACKED_TILE_ROWS) {
        uint32_t left = place->rows - done;
        uint32_t rows = left < PACKED_TILE_ROWS ? left : PACKED_TILE_ROWS;
        for (uint32_t r = 0; r < rows; r++)
            row[r] = (uint32_t)((weight_paired_row((uint64_t)place->first_row + done + r,
                                                   tensor->rope_head, tensor->rope_rotary) *
                                     place->stride +
                                 place->first_col) /
                                k);
        packed_read(out + (uint64_t)done * place->cols, tensor->packed, row, rows,
                    place->first_col % k, place->cols);
    }
}

void tensor_rows_read(float *out, const struct tensor *tensor, const struct tensor_place *place)
{
    if (tensor->packed) {
        packed_rows_read(out, tensor, place);
        return;
    }
    if (place->step > 0) {
        turned_read(out, tensor, place);
        return;
    }
    for (uint32_t r = 0; r < place->rows; r++, out += place->cols) {
        uint64_t row = weight_paired_row((uint64_t)place->first_row + r, tensor->rope_head,
                                         tensor->rope_rotary);
        uint64_t first = row * place->stride + place->first_col;
        if (tensor->blocks)
            blocks_read(out, tensor, first, place->cols);
        else
            plain_read(out, tensor, first, place->cols);
    }
}
