// SPDX-License-Identifier: Apache-2.0
// Computes elements of weights that are stored as codes with scales; see packed.h. Works on tiles
// of rows and columns, because several rows or columns share a word.
#include "runtime/model/packed.h"

#include "base/status.h"
#include "kernels/dtype.h"

#include <math.h>
#include <string.h>

enum {
    TILE_COLS = 128,
    ORDERED_GROUPS = 256, // most groups of a row whose scales are computed once
};

#define E2M1_HALF 0, 0.5f, 1, 1.5f, 2, 3, 4, 6
#define E2M1_MINUS -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6

const float *packed_e2m1(void)
{
    static const float values[16] = {E2M1_HALF, E2M1_MINUS};
    return values;
}

static float e4m3(uint32_t code)
{
    uint32_t sign = (code & 128) << 24, low = code & 127;
    float value = (float)low * 0x1p-9f; // exponent 0
    if (low >= 8) {
        uint32_t bits = sign | (low == 127 ? 0x7FC00000u : (low << 20) + (120u << 23));
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    return sign != 0 ? -value : value;
}

void packed_e4m3(float values[256])
{
    for (uint32_t i = 0; i < 256; i++)
        values[i] = e4m3(i);
}

static uint32_t word_at(const void *words, uint64_t index)
{
    uint32_t word;
    memcpy(&word, (const char *)words + index * 4, sizeof word);
    return word;
}

static float float_at(const void *floats, uint64_t index)
{
    float value;
    memcpy(&value, (const char *)floats + index * 4, sizeof value);
    return value;
}

static float number_at(const void *numbers, enum packed_number type, uint64_t index)
{
    uint16_t half;
    uint8_t byte;
    uint32_t bits;
    float value;
    switch (type) {
    case PACKED_F32:
        return float_at(numbers, index);
    case PACKED_F16:
    case PACKED_BF16:
        memcpy(&half, (const char *)numbers + index * 2, sizeof half);
        return type == PACKED_F16 ? f16_to_f32(half) : bf16_to_f32(half);
    case PACKED_E4M3:
    case PACKED_E8M0:
        memcpy(&byte, (const char *)numbers + index, sizeof byte);
        if (type == PACKED_E4M3)
            return e4m3(byte);
        bits = byte == 255 ? 0x7FC00000u : byte == 0 ? 0x00400000u : (uint32_t)byte << 23;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    return NAN;
}

static uint32_t group_at(const struct packed *p, uint32_t col)
{
    return p->group_of ? (uint32_t)p->group_of[col] : col / p->scale_cols;
}

static float scale_at(const struct packed *p, uint32_t row, uint32_t group)
{
    uint64_t at = (uint64_t)(row / p->scale_rows) * p->row_step + (uint64_t)group * p->group_step;
    if (p->nested) {
        const struct packed_nested *nested = p->nested;
        uint8_t code;
        memcpy(&code, (const char *)p->scales + at, sizeof code);
        float scale = nested->map[code] * float_at(nested->scales, at / nested->block);
        return scale + nested->offset;
    }
    float scale = number_at(p->scales, p->scale_type, at);
    return p->divide ? scale / p->factor : scale * p->factor;
}

// Returns the shift of a row's nibble in a word of AWQ.
static uint32_t awq_shift(uint32_t row)
{
    static const uint8_t shifts[] = {0, 16, 4, 20, 8, 24, 12, 28};
    return shifts[row % 8];
}

// Returns the code that begins at bit `at` of a sequence of words. Word i of the sequence is
// words[first + i * step].
static uint32_t code_at(const void *words, uint64_t first, uint64_t step, uint64_t at,
                        uint32_t bits)
{
    uint64_t index = first + at / 32 * step;
    uint32_t shift = (uint32_t)(at % 32);
    uint32_t code = word_at(words, index) >> shift;
    if (shift + bits > 32) // three bits in two words
        code |= word_at(words, index + step) << (32 - shift);
    return code & ((1u << bits) - 1);
}

static float zero_at(const struct packed *p, uint32_t row, uint32_t group)
{
    if (!p->zeros)
        return p->zero;
    if (p->zero_bytes) {
        int8_t zero;
        memcpy(&zero, (const char *)p->zeros + (uint64_t)row * p->groups + group, sizeof zero);
        return (float)zero;
    }
    uint64_t words = (uint64_t)p->n * p->bits / 32 + ((uint64_t)p->n * p->bits % 32 != 0);
    uint32_t zero;
    if (p->order == INT4_AWQ)
        zero = word_at(p->zeros, group * words + row / 8) >> awq_shift(row);
    else if (p->order == INT4_BY_ROW)
        zero = code_at(p->zeros, group, p->groups, (uint64_t)row * p->bits, p->bits);
    else
        zero = code_at(p->zeros, group * words, 1, (uint64_t)row * p->bits, p->bits);
    return (float)((zero + p->zeros_add) & ((1u << p->bits) - 1));
}

// Reads codes of one row that are stored by row.
static void codes_by_row(uint8_t *out, const struct packed *p, uint32_t row, uint32_t col,
                         uint32_t cols)
{
    const uint8_t *from = p->codes;
    if (p->bits == 8) {
        memcpy(out, from + (uint64_t)row * p->k + col, cols);
        return;
    }
    uint64_t bit = (uint64_t)col * p->bits;
    from += (uint64_t)row * (((uint64_t)p->k * p->bits + 7) / 8);
    if (p->bits == 4 && col % 2 == 0) {
        uint32_t low = p->high_first ? 4 : 0;
        from += col / 2;
        for (uint32_t i = 0; i + 1 < cols; i += 2) {
            out[i] = from[i / 2] >> low & 15;
            out[i + 1] = from[i / 2] >> (4 - low) & 15;
        }
        if (cols % 2 != 0)
            out[cols - 1] = from[cols / 2] >> low & 15;
        return;
    }
    for (uint32_t i = 0; i < cols; i++, bit += p->bits) { // bits divide 8, so no code straddles
        uint32_t shift = (uint32_t)(bit % 8) ^ (p->high_first ? 4 : 0);
        out[i] = (uint8_t)(from[bit / 8] >> shift & ((1u << p->bits) - 1));
    }
}

// Reads codes of a row whose words lie n apart: the codes that share a word lie in one row.
static void codes_by_column(uint8_t *out, const struct packed *p, uint32_t row, uint32_t col,
                            uint32_t cols)
{
    uint32_t each = 32 / p->bits, mask = (1u << p->bits) - 1;
    if (p->bits == 3 || col % each != 0) {
        for (uint32_t i = 0; i < cols; i++)
            out[i] = (uint8_t)code_at(p->codes, row, p->n, (uint64_t)(col + i) * p->bits, p->bits);
        return;
    }
    for (uint32_t i = 0; i < cols; i += each) {
        uint32_t word = word_at(p->codes, (uint64_t)((col + i) / each) * p->n + row);
        for (uint32_t c = 0; c < each && i + c < cols; c++, word >>= p->bits)
            out[i + c] = (uint8_t)(word & mask);
    }
}

static void codes_awq(uint8_t *out, const struct packed *p, uint32_t row, uint32_t col,
                      uint32_t cols)
{
    uint64_t words = p->n / 8;
    uint32_t shift = awq_shift(row);
    for (uint32_t i = 0; i < cols; i++)
        out[i] = word_at(p->codes, (col + i) * words + row / 8) >> shift & 15;
}

// Computes elements of one row from their codes.
static void row_values(float *out, const struct packed *p, const uint8_t *codes, uint32_t row,
                       uint32_t col, uint32_t cols)
{
    for (uint32_t i = 0; i < cols;) {
        uint32_t group = group_at(p, col + i), end = i + 1;
        if (!p->group_of) {
            uint32_t left = p->scale_cols - (col + i) % p->scale_cols;
            end = left < cols - i ? i + left : cols;
        }
        float scale = scale_at(p, row, group), zero = zero_at(p, row, group);
        uint32_t first = i;
        if (p->values)
            for (; i < end; i++)
                out[i] = (p->values[codes[i]] - zero) * scale;
        else
            for (; i < end; i++)
                out[i] = ((float)codes[i] - zero) * scale;
        for (uint32_t j = first; p->last != 1 && j < end; j++)
            out[j] *= p->last;
    }
}

static void codes_read(uint8_t *out, const struct packed *p, uint32_t row, uint32_t col,
                       uint32_t cols)
{
    if (p->order == INT4_BY_ROW)
        codes_by_row(out, p, row, col, cols);
    else if (p->order == INT4_BY_COLUMN)
        codes_by_column(out, p, row, col, cols);
    else
        codes_awq(out, p, row, col, cols);
}

// Computes columns of at most PACKED_TILE_ROWS rows whose groups are in any order, from the scales
// and zero points of all groups.
static void ordered_read(float *out, const struct packed *p, const uint32_t *row, uint32_t rows,
                         uint32_t col, uint32_t cols)
{
    float scales[PACKED_TILE_ROWS][ORDERED_GROUPS], zeros[PACKED_TILE_ROWS][ORDERED_GROUPS];
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t g = 0; g < p->groups; g++) {
            scales[r][g] = scale_at(p, row[r], g);
            zeros[r][g] = zero_at(p, row[r], g);
        }
    for (uint32_t left = 0; left < cols; left += TILE_COLS) {
        uint32_t width = cols - left < TILE_COLS ? cols - left : TILE_COLS;
        uint8_t codes[TILE_COLS];
        const int32_t *group = p->group_of + col + left;
        for (uint32_t r = 0; r < rows; r++) {
            float *to = out + (uint64_t)r * cols + left;
            codes_read(codes, p, row[r], col + left, width);
            for (uint32_t i = 0; i < width; i++)
                to[i] = ((float)codes[i] - zeros[r][group[i]]) * scales[r][group[i]];
        }
    }
}

void packed_read(float *out, const struct packed *p, const uint32_t *row, uint32_t rows,
                 uint32_t col, uint32_t cols)
{
    if (p->group_of && p->groups <= ORDERED_GROUPS && p->last == 1 && !p->values &&
        rows <= PACKED_TILE_ROWS) {
        ordered_read(out, p, row, rows, col, cols);
        return;
    }
    for (uint32_t left = 0; left < cols; left += TILE_COLS) {
        uint32_t width = cols - left < TILE_COLS ? cols - left : TILE_COLS;
        for (uint32_t r = 0; r < rows; r++) {
            uint8_t codes[TILE_COLS];
            codes_read(codes, p, row[r], col + left, width);
            row_values(out + (uint64_t)r * cols + left, p, codes, row[r], col + left, width);
        }
    }
}

bool packed_fits_fp8(const struct packed *p, enum weight_format format)
{
    if (!p->e4m3 || p->group_of || p->zeros || p->zero != 0 || p->last != 1)
        return false;
    bool tensor = p->scale_cols == p->k && p->scale_rows == p->n; // one scale
    if (format == WEIGHT_FP8)
        return tensor || (p->scale_cols == p->k && p->scale_rows == 1);
    bool blocks = p->scale_cols == FP8_SCALE_COLUMNS && p->scale_rows % FP8_SCALE_ROWS == 0;
    return format == WEIGHT_FP8_128 && p->k % FP8_SCALE_COLUMNS == 0 && (tensor || blocks);
}

void packed_fp8_scales(float *out, const struct packed *p, enum weight_format format, uint32_t row,
                       uint32_t rows, uint32_t col, uint32_t cols)
{
    bool blocks = format == WEIGHT_FP8_128;
    uint32_t down = blocks ? FP8_SCALE_ROWS : 1, across = blocks ? FP8_SCALE_COLUMNS : cols;
    for (uint32_t r = 0; r < rows; r += down)
        for (uint32_t c = 0; c < cols; c += across)
            *out++ = scale_at(p, row + r, (col + c) / p->scale_cols);
}

enum weight_format packed_group_format(uint32_t group, bool zeros)
{
    static const struct {
        uint32_t group;
        enum weight_format plain, zeros;
    } formats[] = {{128, WEIGHT_INT4_128, WEIGHT_INT4Z_128},
                   {64, WEIGHT_INT4_64, WEIGHT_INT4Z_64},
                   {32, WEIGHT_Q4_0, WEIGHT_INT4Z_32}};
    for (int i = 0; i < 3; i++)
        if (group % formats[i].group == 0)
            return zeros ? formats[i].zeros : formats[i].plain;
    return WEIGHT_FLOATS;
}

enum weight_format packed_format(const struct packed *p)
{
    if (p->e4m3)
        return packed_fits_fp8(p, WEIGHT_FP8)       ? WEIGHT_FP8
               : packed_fits_fp8(p, WEIGHT_FP8_128) ? WEIGHT_FP8_128
                                                    : WEIGHT_FLOATS;
    bool e2m1 = p->bits == 4 && p->values == packed_e2m1() && p->scale_type == PACKED_E8M0;
    if (e2m1 && p->order == INT4_BY_ROW && !p->high_first && p->factor == 1 && p->last == 1 &&
        p->scale_rows == 1 && p->scale_cols % 32 == 0 && !p->zeros && p->k % 32 == 0)
        return WEIGHT_MXFP4;
    bool integers = p->bits == 4 && !p->values && !p->group_of && !p->zero_bytes && !p->high_first;
    bool scales = p->scale_type <= PACKED_BF16 && p->factor == 1 && p->scale_rows == 1 &&
                  p->last == 1 && !p->nested;
    if (!integers || !scales || (!p->zeros && p->zero != 8))
        return WEIGHT_FLOATS;
    // The last group may be shorter. 2^n divides a | b if and only if it divides both.
    return packed_group_format(p->scale_cols | p->k, p->zeros != NULL);
}

struct weight_int4 packed_int4(const struct packed *p)
{
    static const enum dtype types[] = {
        [PACKED_F32] = DTYPE_F32, [PACKED_F16] = DTYPE_F16, [PACKED_BF16] = DTYPE_BF16};
    bool e2m1 = packed_format(p) == WEIGHT_MXFP4;
    check(packed_format(p) != WEIGHT_FLOATS && !p->e4m3, "codes of %s", p->words);
    return (struct weight_int4){.order = p->order,
                                .codes = p->codes,
                                .scales = p->scales,
                                .zeros = p->zeros,
                                .zeros_add = p->zeros_add,
                                .scale_dtype = e2m1 ? DTYPE_F32 : types[p->scale_type],
                                .e2m1 = e2m1,
                                .n = p->n,
                                .k = p->k,
                                .group = p->scale_cols};
}
