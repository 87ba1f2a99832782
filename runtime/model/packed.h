// SPDX-License-Identifier: Apache-2.0
// Weights that a safetensors folder stores as codes with scales: FP8, AWQ, GPTQ,
// compressed-tensors, ModelOpt, bitsandbytes and the stacks of GPT-OSS. packed_find.h turns the
// tensors of such a module into one tensor `NAME.weight`, whose elements this file computes. All
// formats are one formula, in float32:
//
//   element (r, c) = (value of its code - zero point) * scale
//
// Pure functions of mapped bytes; any thread.
#pragma once

#include "kernels/weight.h"

#include <stdbool.h>
#include <stdint.h>

enum { PACKED_TILE_ROWS = 32 }; // rows to read at once; neighbours share words and cache lines

enum packed_number { PACKED_F32, PACKED_F16, PACKED_BF16, PACKED_E4M3, PACKED_E8M0 };

// Scales that are themselves codes of 8 bits (double quantisation of bitsandbytes):
// scale i = map[code i] * scales[i / block] + offset.
struct packed_nested {
    const float *map;   // [256]
    const void *scales; // f32
    uint32_t block;     // number of scales with one scale
    float offset;
};

// A matrix [n][k]. The arrays lie in mapped files and may have any alignment.
struct packed {
    char words[80];    // "AWQ, 4 bits, groups of 128"
    uint32_t n, k;     // number of rows and of columns
    uint32_t bits;     // bits of a code: 2, 3, 4 or 8
    const void *codes; // order INT4_BY_ROW: [n][k * bits / 8 bytes, rounded up], lowest bits first;
                       // INT4_BY_COLUMN: words [k * bits / 32][n]; INT4_AWQ: words [k][n / 8]
    enum weight_int4_order order;
    bool high_first;     // true if the high nibble of a byte is the first element; 4 bits by row
    const float *values; // [2 to the power of bits]; NULL: the code itself
    bool e4m3;           // true if the codes are FP8: bytes of `values` from packed_e4m3

    // The scale of (r, c) is number r / scale_rows * row_step + group * group_step, where group is
    // c / scale_cols (the last group may be shorter), or element c of group_of.
    const void *scales;
    enum packed_number scale_type;
    uint32_t scale_rows, scale_cols, row_step, group_step;
    const int32_t *group_of;            // [k], or NULL
    const struct packed_nested *nested; // NULL: the scales are numbers of scale_type
    float factor;                       // scales of scale_type are multiplied by it
    bool divide;                        // true if scales are divided by `factor` instead
    float last;                         // elements are multiplied by it

    // Zero points; NULL: all are `zero`. By row: words [n * bits / 32][groups], others: words
    // [groups][n * bits / 32], in the order of the codes; n * bits / 32 is rounded up. zero_bytes:
    // i8 [n][groups].
    const void *zeros;
    bool zero_bytes;
    uint32_t zeros_add; // number added to a stored zero point, modulo 2 to the power of bits
    float zero;
    uint32_t groups; // number of groups of a row
};

// Writes the values of the 256 codes of F8_E4M3: sign, exponent of 4 bits with bias 7, mantissa of
// 3 bits; two NaNs and no infinities.
void packed_e4m3(float values[256]);
// Returns the values of the 16 codes of E2M1.
const float *packed_e2m1(void);

// Writes columns [col, col + cols) of the rows `row[rows]` to out[rows][cols]. Few neighbouring
// rows at a time are fast.
void packed_read(float *out, const struct packed *p, const uint32_t *row, uint32_t rows,
                 uint32_t col, uint32_t cols);

// Returns the format in which a device can hold the codes without rounding them, or WEIGHT_FLOATS.
enum weight_format packed_format(const struct packed *p);
// Returns true if a matrix can be held in an FP8 format. One with a single scale fits both.
bool packed_fits_fp8(const struct packed *p, enum weight_format format);
// Writes the scales of rows and columns of a matrix that fits an FP8 format, as
// weight_source.scales has them. In FP8_128 the first row and column are multiples of what one
// scale is held for.
void packed_fp8_scales(float *out, const struct packed *p, enum weight_format format, uint32_t row,
                       uint32_t rows, uint32_t col, uint32_t cols);
// Returns the format of 4-bit integers with one scale for `group` columns, which a device holds in
// groups of 128, 64 or 32, or WEIGHT_FLOATS. zeros: true if groups have zero points.
enum weight_format packed_group_format(uint32_t group, bool zeros);
// Returns the matrix of a format that is neither WEIGHT_FLOATS nor FP8.
struct weight_int4 packed_int4(const struct packed *p);
