// SPDX-License-Identifier: Apache-2.0
// Weights as a device stores them, and the sources of their bytes. A device packs a weight once, at
// load, into the layout of its kernels; no other code reads `data`.
#pragma once

#include "kernels/dtype.h"
#include "kernels/format.h"

#include <stdbool.h>
#include <stdint.h>

enum weight_use {
    WEIGHT_PRODUCT, // right-hand side of ops->gemm: y = x W^T
    WEIGHT_ROWS,    // table of rows for ops->embed / embed_bert
    WEIGHT_TIED,    // both: an embedding table that is also the output head
    WEIGHT_VECTOR,  // norm weights and biases: n floats, always f32, k = 1
};

enum { WEIGHT_PARTS_MAX = 3 };

// Consecutive rows of a weight that are held as codes in one format.
struct weight_codes {
    enum weight_format format;
    uint32_t rows;
};

struct weight_shape {
    enum weight_use use;
    enum dtype dtype; // stored type; DTYPE_I8 is quantised at load: cpu as in kernels/cpu/bytes.h,
                      // cuda with scale = max|w| / 127 for each row n
    uint32_t n;       // output features, or rows of a table, or elements of a vector
    uint32_t k;       // input features, or width of a row
    // Number of parts; 0: the elements are of `dtype`. Otherwise the rows are held as codes with
    // scales, each part in its format, and `dtype` has no meaning. The device must have the format:
    // it has FP8 and FP8_128 if device_facts.e4m3 is true, and another format if its bit in
    // device_facts.codes is set. k is then a multiple of the elements of a block; vectors are never
    // held so. A weight of FP8 codes is a product and has one part. Its products with a row of x
    // are summed in the order of other products. FP8: the sum is multiplied by the row's scale.
    // FP8_128: each sum of 128 columns is multiplied by its scale, and these are added in order
    // within a part of 512 columns.
    uint32_t part_count;
    struct weight_codes parts[WEIGHT_PARTS_MAX]; // the sum of their rows is n, or n / stack
    // Number of matrices of n / stack rows each, one below the other, which all have these parts;
    // 0: one matrix. For ops->gemm_experts, with n / stack a multiple of EXPERT_ROWS_UNIT.
    uint32_t stack;
};

// Returns the number of matrices of a weight.
static inline uint32_t weight_stack(const struct weight_shape *shape)
{
    return shape->stack > 0 ? shape->stack : 1;
}

// Returns the number of rows of one matrix of a weight.
static inline uint32_t weight_matrix_rows(const struct weight_shape *shape)
{
    return shape->n / weight_stack(shape);
}

// A weight on a device. To load it: zero the struct, fill shape, let data point at weight_bytes()
// bytes of device memory (256-byte aligned), call weight_put for each source, then weight_finish
// once.
struct weight {
    struct weight_shape shape;
    void *data;   // device layout, with padding and the scales of int8 weights and of codes
    size_t bytes; // from weight_bytes()
    uint32_t own; // number that only the device reads; set by weight_finish
};

// Places of codes in the arrays of a checkpoint. Eight codes are a 32-bit word; G: groups of k.
enum weight_int4_order {
    // compressed-tensors: codes [n][k / 8], lowest bits first; scales [n][G]; zeros [n / 8][G],
    // eight rows in a word, lowest bits first
    INT4_BY_ROW,
    // GPTQ: codes [k / 8][n], lowest bits first; scales [G][n]; zeros [G][n / 8], eight rows in a
    // word, lowest bits first
    INT4_BY_COLUMN,
    // AWQ: codes [k][n / 8], eight rows in a word; scales [G][n]; zeros [G][n / 8]. Rows 0 to 7
    // are the nibbles 0, 4, 1, 5, 2, 6, 3, 7 of a word, from the lowest on
    INT4_AWQ,
};

// A matrix of 4-bit codes in the arrays of a checkpoint: element (row, column) is
// (code - zero) * scale. It goes into parts of a weight that are held as Q4_0 or in an int4 format
// whose groups divide those of the matrix; with zeros only in a format with zero points. Scales are
// held as float16: bfloat16 and float32 are rounded, which is exact for bfloat16 from 2^-17 on, and
// weight_put refuses those above float16's largest number. If e2m1 is set, codes are E2M1, a scale
// is a byte e for 2^(e - 127) as in MXFP4, the part must be held as MXFP4, and zeros is NULL. The
// arrays may have any alignment.
struct weight_int4 {
    enum weight_int4_order order;
    const void *codes, *scales;
    const void *zeros;      // NULL: the zero of every element is 8
    uint32_t zeros_add;     // number added to a stored zero, modulo 16: 1 for GPTQ's "gptq", else 0
    enum dtype scale_dtype; // F32, BF16 or F16
    uint32_t n, k;          // number of rows and of columns of the matrix
    uint32_t group;         // number of columns with one scale; the last group may have fewer
    bool e2m1;              // true if codes are E2M1; scale_dtype is then not used
};

// The part of one checkpoint tensor that goes into a weight: rows x cols elements in host byte
// order. Element (r, c) is the tensor's element first + r * stride + c. The tensor is one of:
//
//   floats    `format` is WEIGHT_FLOATS, and map points at the tensor's first byte, at any
//             alignment. A weight held as FP8 gives each row the scale max|w| / 448 and rounds its
//             elements to the nearest code, ties to even.
//   random    map and int4 are NULL. Element i of the tensor is N(0, deviation) from
//             Philox4x32-10(key = seed, counter = i), equal on all devices.
//   blocks    `format` is a format whose blocks files store, and map points at them. `first` and
//             `stride` are multiples of a block's elements.
//   arrays    int4 is not NULL: the elements are those of its matrix, and map is not used. stride
//   is
//             its k, and first is a multiple of the elements of a group of `format`.
//   FP8       `format` is FP8 or FP8_128, map points at codes of one byte each, and `scales` has
//   the
//             scales of the source's rows. In FP8_128 a source begins and ends, except at the
//             weight's last row, at multiples of FP8_SCALE_ROWS.
//
// If `format` is not WEIGHT_FLOATS, the rows go into a part of the weight that has this format. fd
// and offset give the tensor's place in its file (a GPU reads it with O_DIRECT); fd is -1 if there
// is no file.
struct weight_source {
    const void *map;
    int fd;
    uint64_t offset;
    enum dtype dtype; // F32, BF16 or F16
    uint32_t rows;
    uint32_t cols;
    uint64_t seed;
    float deviation;
    uint32_t stride; // elements from one row to the next; 0: cols. Vectors have no gaps
    uint64_t first;
    enum weight_format format; // WEIGHT_FLOATS: elements of `dtype`
    const struct weight_int4 *int4;
    // FP8: [rows]; FP8_128: [rows / FP8_SCALE_ROWS, rounded up][cols / FP8_SCALE_COLUMNS]
    const float *scales;
    uint32_t paired; // rows per head if a head's rows are stored in pairs; 0: in order
    uint32_t rotary; // rows at the head's start that are stored in pairs; 0: all
};

// Returns the index of the row in a file that stores the two rows of a rotary pair as neighbours,
// where a model has them rotary / 2 rows apart. head: rows per head; 0: the file has the model's
// order. rotary: rows at the head's start to which this applies, the others are in order; 0: all.
static inline uint64_t weight_paired_row(uint64_t row, uint32_t head, uint32_t rotary)
{
    if (head == 0)
        return row;
    uint64_t inside = row % head, half = (rotary == 0 ? head : rotary) / 2;
    return inside < 2 * half ? row - inside + inside % half * 2 + inside / half : row;
}

// Returns the index of the tensor's element that begins row `row` of the source, in the tensor's
// order of rows.
static inline uint64_t weight_source_at(const struct weight_source *source, uint32_t row)
{
    return source->first + (uint64_t)row * (source->stride > 0 ? source->stride : source->cols);
}
