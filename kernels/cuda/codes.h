// SPDX-License-Identifier: Apache-2.0
// Layout of weights held as 4-bit codes (kernels/format.h) on the cuda device, for C and kernels.
//
// A part of a matrix is stored in panels of 16 rows; the last panel is padded with rows of zeros. A
// slab is 32 columns of a panel, 256 bytes, in the order in which the lanes of a warp multiply it
// (gemm.h): lane l = 4r + t has a word for row r, then one for row r + 8, each with the codes of
// columns 8t to 8t + 7. A panel has an even number of slabs, the last of which may be zeros. The
// order of the codes in a word needs the fewest instructions to read (codes_math.h): the lowest
// four bits have the code of column 8t + 7, then follow those of 8t to 8t + 6. A word of MXFP4 has
// the bit order that e2m1_pairs (codes_math.h) reads. After the panels follow the scales:
//
//   [panel][group][r < 8]  u32: of row r in the low half, of row r + 8 in the high half; float16,
//                          for MXFP4 bfloat16 (2^(e - 127)). With zero points or minima a second
//                          u32 of the same form: zero points (0 to 15), or minima in float16
//   Q4_K                   the u32 has four bytes: scale and minimum of r, then those of r + 8
//   Q4_K, after these: [panel][block of 256][r < 8]  u64, d of r and r + 8, dmin of r and r + 8
#pragma once

#include "kernels/weight.h"

enum { CODE_ROWS = 16, CODE_SLAB = 32, CODE_SLAB_BYTES = 256 };

// How an element is computed from its code.
enum code_kind {
    CODES_EIGHT, // (code - 8) * scale
    CODES_ZERO,  // (code - zero) * scale
    CODES_LEAST, // code * scale + least
    CODES_E2M1,  // E2M1 of the code * scale
    CODES_NESTED // code * (d * s) - dmin * m
};

// Bit f is set if the device holds codes of format f.
enum {
    CODES_HELD = 1 << WEIGHT_Q4_0 | 1 << WEIGHT_Q4_1 | 1 << WEIGHT_Q4_K | 1 << WEIGHT_INT4_64 |
                 1 << WEIGHT_INT4_128 | 1 << WEIGHT_INT4Z_32 | 1 << WEIGHT_INT4Z_64 |
                 1 << WEIGHT_INT4Z_128 | 1 << WEIGHT_MXFP4
};

static inline enum code_kind code_kind_of(enum weight_format format)
{
    const struct weight_format_facts *f = weight_format_facts(format);
    return f->nested  ? CODES_NESTED
           : f->e2m1  ? CODES_E2M1
           : f->zeros ? CODES_ZERO
           : f->least ? CODES_LEAST
                      : CODES_EIGHT;
}

// Places in the memory of a part.
struct code_places {
    uint32_t slabs;        // slabs of a panel
    uint32_t groups;       // groups of a row, each with one scale
    uint32_t group_shift;  // log2 of the slabs of a group
    uint32_t scale_words;  // words of two rows in a group
    size_t scales, supers; // byte offsets of the scales, and of d and dmin of Q4_K
    size_t bytes;          // bytes of the part
};

static inline struct code_places code_places_of(enum weight_format format, uint32_t rows,
                                                uint32_t k)
{
    const struct weight_format_facts *f = weight_format_facts(format);
    uint32_t group = f->nested ? (uint32_t)CODE_SLAB : f->elements;
    size_t panels = (rows + CODE_ROWS - 1) / CODE_ROWS;
    struct code_places p;
    p.slabs = (k + 2 * CODE_SLAB - 1) / (2 * CODE_SLAB) * 2;
    p.groups = k / group;
    p.group_shift = group == 32 ? 0 : group == 64 ? 1 : 2;
    p.scale_words = f->least && !f->nested ? 2 : 1;
    p.scales = panels * p.slabs * CODE_SLAB_BYTES;
    p.supers = p.scales + panels * p.groups * 32 * p.scale_words;
    p.bytes = p.supers + (f->nested ? panels * (k / f->elements) * 64 : 0);
    p.bytes = (p.bytes + 255) & ~(size_t)255;
    return p;
}

// A part of a matrix: its first row in it, and its byte offset in the memory of the matrix.
struct code_span {
    enum weight_format format;
    uint32_t first, rows;
    size_t at;
};

// Returns the part that contains a row of a matrix.
static inline struct code_span code_span_of(const struct weight_shape *shape, uint32_t row)
{
    struct code_span span = {shape->parts[0].format, 0, shape->parts[0].rows, 0};
    for (uint32_t i = 1; i < shape->part_count && row >= span.first + span.rows; i++) {
        span.at += code_places_of(span.format, span.rows, shape->k).bytes;
        span.first += span.rows;
        span.format = shape->parts[i].format;
        span.rows = shape->parts[i].rows;
    }
    return span;
}

// Returns the bytes of one matrix.
static inline size_t code_matrix_bytes(const struct weight_shape *shape)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < shape->part_count; i++)
        bytes += code_places_of(shape->parts[i].format, shape->parts[i].rows, shape->k).bytes;
    return bytes;
}

// Where rows of codes are written.
struct code_rows {
    enum weight_format format;
    char *part;              // memory of the part
    struct code_places at;   // places in it
    uint32_t first, columns; // first row in the part; columns of the weight
};

// Returns the place of a row of a weight and of those after it, up to the end of the part.
static inline struct code_rows code_rows_of(const struct weight_shape *shape, void *data,
                                            uint32_t row)
{
    uint32_t rows = weight_matrix_rows(shape), matrix = row / rows;
    struct code_span span = code_span_of(shape, row - matrix * rows);
    struct code_rows out;
    out.format = span.format;
    out.part = (char *)data + matrix * code_matrix_bytes(shape) + span.at;
    out.at = code_places_of(span.format, span.rows, shape->k);
    out.first = row - matrix * rows - span.first;
    out.columns = shape->k;
    return out;
}
