// SPDX-License-Identifier: Apache-2.0
// The definition of products with weights held as codes (kernels/format.h), shared by the packing
// of weights, all ISA levels and the reference.
//
// Activations are divided into groups of 32 elements of K and rounded to int8 with one scale per
// group, max |x| / 127. They are not rotated, because the codes of a file are not. For each column
//
//   y = sum over groups of  I * (scale w * scale x) + least * (scale x * sum of qx)
//   I = sum of (code - zero) * qx, an exact integer; Q6_K: each half times its own int8 scale
//
// in float32 with one fused multiply-add per term, in ascending K, so that all ISA levels give the
// same bits. The scale w of a nested format is d * s, which is exact in float32 (Q6_K: d); the
// least of a zero point is -(scale * zero), which is exact too.
//
// MXFP4's codes are held unchanged; the unsigned number that is multiplied is twice the code's
// value plus 16, so the zero is 16. Its scales are held as bfloat16, which is exact.
//
// Layout: a panel is 16 rows (output columns), a piece is a panel's part of K: 256 elements in
// nested formats, four blocks in formats with zero points, else two blocks. If K is no multiple of
// that, the last piece has the scales of a complete one and codes up to a multiple of 64 elements.
// Pieces and panels are stored without gaps, so a thread reads one stream. A piece consists of
//
//   not nested  per group with one scale: scale f16[16], then least f16[16] or zero points u8[16]
//               if there are any; then the codes
//   nested      d f16[16], dmin f16[16] (0 if unused); per group: s[16], m[16] (Q6_K: s of the two
//               halves); then the codes
//
// Codes of 32 elements are lines of 64 bytes, 16 rows of 4 bytes, a quad of K for each row:
//   4 bits        4 lines; the low nibbles of line l are quad l, the high ones quad l + 4
//   5 and 6 bits  two times 3 lines A, B, C, for quads 0 to 3 and 4 to 7: the low six bits are the
//                 first three quads; the top two bits of A, B and C are bits 0-1, 2-3 and 4-5 of
//                 the fourth
//   8 bits        8 lines
#pragma once

#include "kernels/format.h"

#include <stddef.h>

struct device;
struct weight;
struct weight_shape;
struct weight_source;

enum { CODE_GROUP = 32, CODE_PANEL = 16 };

// 32 elements of a row of activations.
struct code_x {
    int8_t q[CODE_GROUP];
    float scale;
    float scaled_sum; // scale * sum of q
    int32_t sum;      // sum of q
    int16_t half[2];  // sums of the first and of the last 16 elements of q
};

struct code_layout {
    uint32_t k;           // number of elements of K in a complete piece
    uint32_t bytes;       // bytes of a complete piece, a multiple of 64
    uint32_t codes_at;    // offset of the codes in a piece
    uint32_t code_bytes;  // bytes of the codes of 32 elements
    uint32_t scales_at;   // offset of the groups' scales in a piece
    uint32_t scale_bytes; // bytes from one group's scales to the next
    uint32_t scale_shift; // log2 of the number of groups of 32 elements that share a scale
};

static inline struct code_layout code_layout_of(enum weight_format format)
{
    const struct weight_format_facts *f = weight_format_facts(format);
    struct code_layout out = {.k = f->nested ? 256 : f->elements * (f->zeros ? 4 : 2)};
    uint32_t blocks = out.k / CODE_GROUP;
    out.code_bytes = CODE_PANEL * CODE_GROUP * (f->bits == 4 ? 4 : f->bits == 8 ? 8 : 6) / 8;
    out.scales_at = f->nested ? 64 : 0;
    out.scale_bytes = f->nested || !f->least ? 32 : f->zeros ? 48 : 64;
    out.scale_shift = f->nested || f->elements == 32 ? 0 : f->elements == 64 ? 1 : 2;
    out.codes_at = out.scales_at + (blocks >> out.scale_shift) * out.scale_bytes;
    out.bytes = out.codes_at + blocks * out.code_bytes;
    return out;
}

// Returns the number of groups of 32 in a row of k elements, padding to 64 elements included.
static inline uint32_t code_groups(uint32_t k)
{
    return (k + 63) / 64 * 2;
}

// Returns the size in bytes of a panel whose rows have k elements.
static inline size_t code_panel_bytes(enum weight_format format, uint32_t k)
{
    struct code_layout layout = code_layout_of(format);
    uint32_t rest = k % layout.k;
    return (size_t)(k / layout.k) * layout.bytes +
           (rest > 0 ? layout.codes_at + code_groups(rest) * layout.code_bytes : 0);
}

// A part of a weight, which all has one format.
struct code_part {
    enum weight_format format;
    uint32_t first, rows; // index of its first row in the weight; number of its rows
    char *panels;         // its first panel, in the memory of the weight
};

// Returns a part of one matrix of the weight's stack. index: below the weight's part_count.
struct code_part code_part_at(const struct weight *, uint32_t matrix, uint32_t index);
// Returns the size in bytes of the panels of all parts.
size_t code_weight_bytes(const struct weight_shape *);
// Returns the index (0 to 15) within its panel of a row of the weight.
uint32_t code_row_lane(const struct weight *, uint32_t row);
// Packs rows [first, end) of the source, which code_source_check of kernels/code_source.h has
// accepted. row: index in the weight of the source's row 0. Floats are rounded to the part's
// format, Q4_1 or Q8_0. Threads may pack different panels of a weight at the same time.
void code_rows_put(const struct device *, struct weight *, uint32_t row,
                   const struct weight_source *, uint32_t first, uint32_t end);
// Rounds 32 floats to a block of Q4_1 or Q8_0 (decision 0054) and writes its bytes.
void code_block_make(uint8_t *block, enum weight_format, const float x[CODE_GROUP]);
// Reads a row of the weight as floats: out[k].
void code_row_read(float *out, const struct weight *, uint32_t row);
