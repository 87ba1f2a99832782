// SPDX-License-Identifier: Apache-2.0
// Packs blocks or int4 arrays of a file into the layout of codes.h, straight from the mapped file,
// and reads rows back. Any thread; no state. Threads may pack different panels of a weight at the
// same time.
#include "kernels/cpu/codes.h"

#include "base/number.h"
#include "base/status.h"
#include "kernels/code_source.h"
#include "kernels/cpu/packed.h"

#define Q4_FUNCTION static
#define Q4_HALF(x) f16_to_f32(f32_to_f16(x))
#include "kernels/q4_round.h"

#include <math.h>
#include <string.h>

enum { QUADS = CODE_GROUP / 4 };

static uint32_t panels_of(uint32_t rows)
{
    return (rows + CODE_PANEL - 1) / CODE_PANEL;
}

// Returns the size in bytes of the panels of one matrix.
static size_t matrix_bytes(const struct weight_shape *shape)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < shape->part_count; i++)
        bytes +=
            panels_of(shape->parts[i].rows) * code_panel_bytes(shape->parts[i].format, shape->k);
    return bytes;
}

struct code_part code_part_at(const struct weight *weight, uint32_t matrix, uint32_t index)
{
    const struct weight_shape *shape = &weight->shape;
    struct code_part part = {.first = matrix * weight_matrix_rows(shape)};
    part.panels = (char *)weight->data + (matrix > 0 ? matrix * matrix_bytes(shape) : 0);
    for (uint32_t i = 0;; i++) {
        part.format = shape->parts[i].format;
        part.rows = shape->parts[i].rows;
        if (i == index)
            return part;
        part.first += part.rows;
        part.panels += panels_of(part.rows) * code_panel_bytes(part.format, shape->k);
    }
}

size_t code_weight_bytes(const struct weight_shape *shape)
{
    return weight_stack(shape) * matrix_bytes(shape);
}

// Returns the part that contains a row.
static struct code_part part_of_row(const struct weight *weight, uint32_t row)
{
    uint32_t matrix = row / weight_matrix_rows(&weight->shape);
    struct code_part part = code_part_at(weight, matrix, 0);
    for (uint32_t i = 1; i < weight->shape.part_count && row >= part.first + part.rows; i++)
        part = code_part_at(weight, matrix, i);
    return part;
}

uint32_t code_row_lane(const struct weight *weight, uint32_t row)
{
    return (row - part_of_row(weight, row).first) % CODE_PANEL;
}

static uint32_t word_at(const uint8_t *at)
{
    uint32_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

// Returns the bfloat16 bits of 2^(e - 128), half the scale of MXFP4.
static uint16_t e2m1_scale(uint8_t e)
{
    int bits = e == 255 ? 0x7FC0 : e > 1 ? (e - 1) << 7 : 0x20 << e;
    return (uint16_t)bits;
}

// Returns the bits of the scale of a row's group: float16, of MXFP4 bfloat16.
static uint16_t int4_scale(const struct weight_int4 *m, uint64_t row, uint32_t group)
{
    uint64_t at = code_int4_scale_at(m, row, group);
    return m->e2m1 ? e2m1_scale(((const uint8_t *)m->scales)[at]) : code_int4_scale(m, at);
}

// Returns four bytes, each 0 or 1: the low four bits of `bits`.
static uint32_t bits_spread(uint32_t bits)
{
    return (bits & 15u) * 0x00204081u & 0x01010101u;
}

#define NIBBLES 0x0F0F0F0Fu

// Reads the codes of group `g` of a block as eight quads.
static void group_codes(uint32_t q[QUADS], enum weight_format format, const uint8_t *b, uint32_t g)
{
    const uint8_t *at;
    uint32_t high;
    switch (format) {
    case WEIGHT_Q4_0:
    case WEIGHT_Q4_1:
    case WEIGHT_MXFP4:
        at = b + (format == WEIGHT_Q4_0 ? 2 : format == WEIGHT_MXFP4 ? 1 : 4);
        for (uint32_t i = 0; i < 4; i++) {
            q[i] = word_at(at + 4 * i) & NIBBLES;
            q[i + 4] = word_at(at + 4 * i) >> 4 & NIBBLES;
        }
        break;
    case WEIGHT_Q5_0:
    case WEIGHT_Q5_1:
        at = b + (format == WEIGHT_Q5_0 ? 2 : 4);
        high = word_at(at);
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t low = word_at(at + 4 + 4 * i);
            q[i] = (low & NIBBLES) | bits_spread(high >> 4 * i) << 4;
            q[i + 4] = (low >> 4 & NIBBLES) | bits_spread(high >> (16 + 4 * i)) << 4;
        }
        break;
    case WEIGHT_Q8_0:
        for (uint32_t i = 0; i < QUADS; i++)
            q[i] = word_at(b + 2 + 4 * i) ^ 0x80808080u;
        break;
    case WEIGHT_Q4_K:
    case WEIGHT_Q5_K:
        at = b + (format == WEIGHT_Q4_K ? 16 : 48) + g / 2 * 32;
        for (uint32_t i = 0; i < QUADS; i++) {
            q[i] = word_at(at + 4 * i) >> (g % 2 * 4) & NIBBLES;
            if (format == WEIGHT_Q5_K)
                q[i] |= (word_at(b + 16 + 4 * i) >> g & 0x01010101u) << 4;
        }
        break;
    default: // Q6_K
        for (uint32_t i = 0; i < QUADS; i++) {
            uint32_t low = word_at(b + g / 4 * 64 + g % 2 * 32 + 4 * i) >> (g % 4 < 2 ? 0 : 4);
            high = word_at(b + 128 + g / 4 * 32 + 4 * i) >> (g % 4 * 2) & 0x03030303u;
            q[i] = (low & NIBBLES) | high << 4;
        }
    }
}

// Writes the codes of a group of one row. to: the group's first line, at the row's place.
static void codes_write(uint32_t *to, const uint32_t q[QUADS], uint32_t bits)
{
    if (bits == 4) {
        for (uint32_t i = 0; i < 4; i++)
            to[i * CODE_PANEL] = q[i] | q[i + 4] << 4;
        return;
    }
    if (bits == 8) {
        for (uint32_t i = 0; i < QUADS; i++)
            to[i * CODE_PANEL] = q[i];
        return;
    }
    for (uint32_t half = 0; half < QUADS; half += 4)
        for (uint32_t i = 0; i < 3; i++, to += CODE_PANEL)
            *to = q[half + i] | (q[half + 3] >> 2 * i & 0x03030303u) << 6;
}

// Reads the codes of a group of one row, as codes_write wrote them.
static void codes_read(uint32_t q[QUADS], const uint32_t *from, uint32_t bits)
{
    if (bits == 4) {
        for (uint32_t i = 0; i < 4; i++) {
            q[i] = from[i * CODE_PANEL] & NIBBLES;
            q[i + 4] = from[i * CODE_PANEL] >> 4 & NIBBLES;
        }
        return;
    }
    if (bits == 8) {
        for (uint32_t i = 0; i < QUADS; i++)
            q[i] = from[i * CODE_PANEL];
        return;
    }
    for (uint32_t half = 0; half < QUADS; half += 4) {
        q[half + 3] = 0;
        for (uint32_t i = 0; i < 3; i++, from += CODE_PANEL) {
            q[half + i] = *from & 0x3F3F3F3Fu;
            q[half + 3] |= (*from >> 6 & 0x03030303u) << 2 * i;
        }
    }
}

// Reads scale and minimum of group `g` of a Q4_K or Q5_K block: 6 bits each, eight of both in 12
// bytes.
static void nested_scales(uint8_t out[2], const uint8_t *s, uint32_t g)
{
    if (g < 4) {
        out[0] = s[g] & 63;
        out[1] = s[g + 4] & 63;
    } else {
        out[0] = (uint8_t)((s[g + 4] & 15) | s[g - 4] >> 6 << 4);
        out[1] = (uint8_t)(s[g + 4] >> 4 | s[g] >> 6 << 4);
    }
}

// Writes the scales of one row in a piece. b: the first block of the piece; blocks: how many there
// are, of one group each unless the format is nested.
static void scales_write(char *piece, uint32_t lane, enum weight_format format, const uint8_t *b,
                         uint32_t blocks)
{
    const struct weight_format_facts *f = weight_format_facts(format);
    if (f->e2m1) {
        for (uint32_t g = 0; g < blocks; g++, b += f->bytes) {
            uint16_t scale = e2m1_scale(b[0]);
            memcpy(piece + g * 32 + lane * 2, &scale, sizeof scale);
        }
        return;
    }
    if (!f->nested) {
        uint32_t step = f->least ? 64 : 32;
        for (uint32_t g = 0; g < blocks; g++, b += f->bytes) {
            memcpy(piece + g * step + lane * 2, b, 2);
            if (f->least)
                memcpy(piece + g * step + 32 + lane * 2, b + 2, 2);
        }
        return;
    }
    memcpy(piece + lane * 2, format == WEIGHT_Q6_K ? b + 208 : b, 2);
    if (f->least)
        memcpy(piece + 32 + lane * 2, b + 2, 2);
    for (uint32_t g = 0; g < 8; g++) {
        uint8_t pair[2];
        if (f->halves)
            memcpy(pair, b + 192 + 2 * g, 2);
        else
            nested_scales(pair, b + 4, g);
        memcpy(piece + 64 + g * 32 + lane, &pair[0], 1);
        memcpy(piece + 64 + g * 32 + 16 + lane, &pair[1], 1);
    }
}

// Packs the blocks of one row that belong to a piece.
static void piece_write(char *piece, uint32_t lane, enum weight_format format, const uint8_t *b,
                        uint32_t blocks)
{
    const struct weight_format_facts *f = weight_format_facts(format);
    struct code_layout layout = code_layout_of(format);
    scales_write(piece, lane, format, b, blocks);
    uint32_t groups = blocks * f->elements / CODE_GROUP;
    for (uint32_t g = 0; g < groups; g++) {
        uint32_t q[QUADS];
        group_codes(q, format, f->nested ? b : b + (size_t)g * f->bytes, g);
        char *to = piece + layout.codes_at + g * layout.code_bytes;
        codes_write((uint32_t *)(void *)to + lane, q, f->bits);
    }
}

// Returns the shift of the code of a row in the word that eight rows share.
static uint32_t int4_shift(const struct weight_int4 *m, uint64_t row)
{
    static const uint8_t awq[] = {0, 16, 4, 20, 8, 24, 12, 28};
    return m->order == INT4_AWQ ? awq[row % 8] : (uint32_t)(row % 8) * 4;
}

// Returns the zero point of a row's group.
static uint8_t int4_zero(const struct weight_int4 *m, uint64_t row, uint32_t group)
{
    if (!m->zeros)
        return 8;
    uint64_t rows = (m->n + 7) / 8, groups = (m->k + m->group - 1) / m->group;
    uint64_t at = m->order == INT4_BY_ROW ? row / 8 * groups + group : group * rows + row / 8;
    uint32_t word = word_at((const uint8_t *)m->zeros + at * 4);
    return (uint8_t)(((word >> int4_shift(m, row)) + m->zeros_add) & 15u);
}

// Returns four bytes: the low four nibbles of `bits`.
static uint32_t nibbles_spread(uint32_t bits)
{
    bits = (bits | bits << 8) & 0x00FF00FFu;
    return (bits | bits << 4) & NIBBLES;
}

// Reads the codes of 32 columns of a row as eight quads. column: a multiple of 32.
static void int4_codes(uint32_t q[QUADS], const struct weight_int4 *m, uint64_t row,
                       uint32_t column)
{
    const uint8_t *codes = m->codes;
    if (m->order == INT4_AWQ) {
        uint32_t words = (m->n + 7) / 8, shift = int4_shift(m, row);
        const uint8_t *at = codes + ((uint64_t)column * words + row / 8) * 4;
        memset(q, 0, QUADS * sizeof *q);
        for (uint32_t i = 0; i < CODE_GROUP; i++, at += (size_t)words * 4)
            q[i / 4] |= (word_at(at) >> shift & 15u) << i % 4 * 8;
        return;
    }
    for (uint32_t i = 0; i < CODE_GROUP / 8; i++) {
        uint64_t at = m->order == INT4_BY_ROW ? row * (m->k / 8) + column / 8 + i
                                              : (uint64_t)(column / 8 + i) * m->n + row;
        uint32_t word = word_at(codes + at * 4);
        q[2 * i] = nibbles_spread(word & 0xFFFFu);
        q[2 * i + 1] = nibbles_spread(word >> 16);
    }
}

// Packs columns [column, column + count) of a row of a matrix in a piece.
static void int4_write(char *piece, uint32_t lane, enum weight_format format,
                       const struct weight_int4 *m, uint64_t row, uint32_t column, uint32_t count)
{
    const struct weight_format_facts *f = weight_format_facts(format);
    struct code_layout layout = code_layout_of(format);
    char *scales = piece, *codes = piece + layout.codes_at;
    for (uint32_t c = 0; c < count; c += f->elements, scales += layout.scale_bytes) {
        uint16_t scale = int4_scale(m, row, (column + c) / m->group);
        uint8_t zero = int4_zero(m, row, (column + c) / m->group);
        memcpy(scales + lane * 2, &scale, sizeof scale);
        if (f->zeros)
            memcpy(scales + 32 + lane, &zero, sizeof zero);
    }
    for (uint32_t c = 0; c < count; c += CODE_GROUP, codes += layout.code_bytes) {
        uint32_t q[QUADS];
        int4_codes(q, m, row, column + c);
        codes_write((uint32_t *)(void *)codes + lane, q, f->bits);
    }
}

// Packs rows [first, end) of a source, which belong to one panel. at: place of the first row in the
// part. Rows are inside, because several share the words of a matrix.
static void int4_put(const struct code_part *part, const struct weight_source *source, uint32_t at,
                     uint32_t first, uint32_t end)
{
    struct code_layout layout = code_layout_of(part->format);
    uint32_t k = source->cols, column = (uint32_t)(source->first % source->int4->k);
    uint64_t top = source->first / source->int4->k; // rows of the matrix before the source's first
    char *piece = part->panels + at / CODE_PANEL * code_panel_bytes(part->format, k);
    for (uint32_t i = 0; i < k; i += layout.k, piece += layout.bytes)
        for (uint32_t r = first; r < end; r++)
            int4_write(piece, at % CODE_PANEL + r - first, part->format, source->int4,
                       weight_paired_row(top + r, source->paired, source->rotary), column + i,
                       k - i < layout.k ? k - i : layout.k);
}

// Returns the index of the tensor's element that begins row `row`, in the order of the file.
static uint64_t source_row(const struct weight_source *source, uint32_t row)
{
    uint32_t stride = source->stride > 0 ? source->stride : source->cols;
    uint64_t before = source->first / stride; // rows of the tensor before the source's first row
    uint64_t in_file = weight_paired_row(before + row, source->paired, source->rotary);
    return in_file * stride + source->first % stride;
}

// Rows of a panel, as places in the file.
struct panel_rows {
    const uint8_t *row[CODE_PANEL]; // first block of each row; NULL: not part of the source
};

static void panel_write(char *panel, enum weight_format format, uint32_t k,
                        const struct panel_rows *from)
{
    const struct weight_format_facts *f = weight_format_facts(format);
    struct code_layout layout = code_layout_of(format);
    uint32_t each = layout.k / f->elements, all = k / f->elements; // blocks
    for (uint32_t b = 0; b < all; b += each, panel += layout.bytes)
        for (uint32_t lane = 0; lane < CODE_PANEL; lane++)
            if (from->row[lane])
                piece_write(panel, lane, format, from->row[lane] + (size_t)b * f->bytes,
                            all - b < each ? all - b : each);
}

void code_block_make(uint8_t *block, enum weight_format format, const float x[CODE_GROUP])
{
    float top = 0, poison = 0;
    for (uint32_t i = 0; i < CODE_GROUP; i++) {
        top = fabsf(x[i]) > top ? fabsf(x[i]) : top;
        poison += x[i] * 0; // a NaN or an infinity spoils its block
    }
    if (format == WEIGHT_Q4_1) {
        struct q4_fit fit;
        q4_round(&fit, x);
        uint16_t bits[2] = {f32_to_f16(fit.scale), f32_to_f16(fit.least)};
        memcpy(block, bits, sizeof bits);
        for (uint32_t i = 0; i < 16; i++)
            block[4 + i] = (uint8_t)((uint32_t)fit.code[i] | (uint32_t)fit.code[i + 16] << 4);
        return;
    }
    uint16_t bits = f32_to_f16(top / 127.0f + poison);
    float scale = f16_to_f32(bits), inverse = scale > 0 ? 1.0f / scale : 0;
    memcpy(block, &bits, sizeof bits);
    for (uint32_t i = 0; i < CODE_GROUP; i++) {
        float q = rintf(x[i] * inverse);
        block[2 + i] = (uint8_t)(int8_t)(q > 127 ? 127 : q < -127 ? -127 : q);
    }
}

// Rounds rows of floats to one panel. at: place of the first row in the part.
static void floats_put(const struct device *device, const struct code_part *part, uint32_t k,
                       const struct weight_source *source, uint32_t at, uint32_t first,
                       uint32_t end)
{
    enum { BLOCK_BYTES = 34 };
    struct code_layout layout = code_layout_of(part->format);
    char *panel = part->panels + at / CODE_PANEL * code_panel_bytes(part->format, k);
    for (uint32_t r = first; r < end; r++)
        for (uint32_t i = 0; i < k; i += layout.k) {
            uint8_t blocks[2 * BLOCK_BYTES];
            uint32_t count = k - i < layout.k ? 1 : 2;
            for (uint32_t b = 0; b < count; b++) {
                float x[CODE_GROUP];
                source_read(x, device, source, weight_source_at(source, r) + i + b * CODE_GROUP,
                            CODE_GROUP);
                code_block_make(blocks + b * weight_format_facts(part->format)->bytes, part->format,
                                x);
            }
            piece_write(panel + i / layout.k * layout.bytes, at % CODE_PANEL + r - first,
                        part->format, blocks, count);
        }
}

void code_rows_put(const struct device *device, struct weight *weight, uint32_t row,
                   const struct weight_source *source, uint32_t first, uint32_t end)
{
    struct code_part part = part_of_row(weight, row);
    const struct weight_format_facts *f = weight_format_facts(part.format);
    size_t panel_bytes = code_panel_bytes(part.format, weight->shape.k);
    for (uint32_t r = first; r < end;) {
        uint32_t at = row + r - part.first, lane = at % CODE_PANEL;
        if (source->format == WEIGHT_FLOATS || source->int4) {
            uint32_t last = end - r < CODE_PANEL - lane ? end : r + CODE_PANEL - lane;
            if (source->int4)
                int4_put(&part, source, at, r, last);
            else
                floats_put(device, &part, weight->shape.k, source, at, r, last);
            r = last;
            continue;
        }
        struct panel_rows from = {{NULL}};
        for (; lane < CODE_PANEL && r < end; lane++, r++)
            from.row[lane] =
                (const uint8_t *)source->map + source_row(source, r) / f->elements * f->bytes;
        panel_write(part.panels + at / CODE_PANEL * panel_bytes, part.format, weight->shape.k,
                    &from);
    }
}

static float half_at(const char *at)
{
    uint16_t bits;
    memcpy(&bits, at, sizeof bits);
    return f16_to_f32(bits);
}

// Converts one group of a row to floats, with the arithmetic of runtime/model/dequantise.c.
static void group_read(float out[CODE_GROUP], enum weight_format format, const char *piece,
                       uint32_t g, uint32_t lane)
{
    const struct weight_format_facts *f = weight_format_facts(format);
    struct code_layout layout = code_layout_of(format);
    const char *codes = piece + layout.codes_at + g * layout.code_bytes;
    const char *scales = piece + layout.scales_at + (g >> layout.scale_shift) * layout.scale_bytes;
    union {
        uint32_t quad[QUADS];
        uint8_t code[CODE_GROUP];
    } q;
    codes_read(q.quad, (const uint32_t *)(const void *)codes + lane, f->bits);
    if (f->e2m1) {
        uint16_t bits;
        memcpy(&bits, scales + lane * 2, sizeof bits);
        for (uint32_t i = 0; i < CODE_GROUP; i++)
            out[i] = (float)weight_e2m1_twice(q.code[i]) * bf16_to_f32(bits);
        return;
    }
    float d = half_at((f->nested ? piece : scales) + lane * 2);
    if (f->halves) {
        for (uint32_t i = 0; i < CODE_GROUP; i++)
            out[i] = d * (float)(int8_t)scales[i / 16 * 16 + lane] * (float)(q.code[i] - f->zero);
        return;
    }
    float least = 0;
    int32_t zero = f->zeros ? (uint8_t)scales[32 + lane] : f->zero;
    if (f->nested) {
        d *= (float)(uint8_t)scales[lane];
        least = -(half_at(piece + 32 + lane * 2) * (float)(uint8_t)scales[16 + lane]);
    } else if (f->least && !f->zeros) {
        least = half_at(scales + 32 + lane * 2);
    }
    bool add = f->least && !f->zeros;
    for (uint32_t i = 0; i < CODE_GROUP; i++)
        out[i] = add ? (float)q.code[i] * d + least : (float)(q.code[i] - zero) * d;
}

void code_row_read(float *out, const struct weight *weight, uint32_t row)
{
    struct code_part part = part_of_row(weight, row);
    struct code_layout layout = code_layout_of(part.format);
    uint32_t k = weight->shape.k, at = row - part.first, lane = at % CODE_PANEL;
    const char *piece = part.panels + at / CODE_PANEL * code_panel_bytes(part.format, k);
    for (uint32_t i = 0; i < k; i += layout.k, piece += layout.bytes)
        for (uint32_t g = 0; g < layout.k / CODE_GROUP && i + g * CODE_GROUP < k; g++) {
            float group[CODE_GROUP];
            uint32_t from = i + g * CODE_GROUP, left = k - from;
            group_read(group, part.format, piece, g, lane);
            memcpy(out + from, group, (left < CODE_GROUP ? left : CODE_GROUP) * sizeof *out);
        }
}
