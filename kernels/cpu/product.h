// SPDX-License-Identifier: Apache-2.0
// Products of the cpu device: what the kernels of the ISA levels read, and what gemm and
// gemm_experts share (op_product.c).
#pragma once

#include "kernels/cpu/bytes.h"
#include "kernels/format.h"
#include "kernels/weight.h"

#include <stddef.h>
#include <stdint.h>

struct cpu_kernels;
struct stream;

enum {
    SLAB_COLUMNS = 32, // output columns that are packed and computed together
    PANEL_ROWS = 512,  // most rows of activations that are packed together
    SLAB_GROUP = 8,    // most slabs computed in one pass over the activations
};

// One product over rows that fit the scratch (see op_product.c). Slab s is columns 32 s .. 32 s+31.
struct product {
    const float *x;     // [rows][x_stride] f32; rows are read with product_row
    float *y;           // [rows][y_stride] f32
    const float *bias;  // [n] or NULL
    const void *weight; // packed as in weight.c
    const float *scale; // [slab][groups of K][32] int8 only
    void *panel;        // activations packed for tiles, or as bytes followed by their byte_scales
    float *scratch;     // [threads][SLAB_GROUP][PANEL_ROWS * 32] sums of slabs
    uint32_t rows, x_stride, y_stride, n, k;
    enum dtype dtype;          // dtype of the weights
    enum weight_format format; // format of their codes; WEIGHT_FLOATS: elements of `dtype`
    // NULL: row r of the product is row r of x. Else (experts) it is row order[r] / chosen, and
    // `pack` copies the rows of products that need no packing: [rows][k] f32 in the panel.
    const uint32_t *order;
    uint32_t chosen;
};

static inline const float *product_row(const struct product *p, uint32_t row)
{
    return p->x + (size_t)(p->order ? p->order[row] / p->chosen : row) * p->x_stride;
}

// Scales of 16 rows of activations in one group of K: y += (sum + offset) * scale * the column's
// scale. Entries of rows past the last row are not initialised; their sums are never stored to y.
struct byte_scales {
    float scale[16];
    int32_t offset[16]; // cancels what BYTE_ZERO of the weights adds to a sum
};

// Returns the scales of a tile of 16 rows, [groups]. They are in the panel after the bytes of all
// rows.
static inline struct byte_scales *byte_scales_of(const struct product *p, uint32_t tile)
{
    size_t rows = (p->rows + 15) / 16 * 16;
    char *end = (char *)p->panel + rows * byte_depth(p->k);
    return (struct byte_scales *)(void *)end + (size_t)tile * byte_groups(p->k);
}

static inline const float *byte_columns_of(const struct product *p, uint32_t slab) // [groups][32]
{
    return p->scale + (size_t)slab * byte_groups(p->k) * SLAB_COLUMNS;
}

// A matrix of a weight, as slabs (op_product.c).
struct product_slabs {
    const struct cpu_kernels *kernels;
    const struct weight *weight;
    uint32_t matrix; // index in the weight's stack
    uint32_t slabs;  // number of slabs of all parts
};

struct product_slabs product_slabs_of(const struct stream *, const struct weight *);
// Fills what a product reads of the matrix.
void product_weight(struct product *, const struct product_slabs *);
// Packs 16 rows of activations.
void product_pack(const struct product *, const struct product_slabs *, uint32_t tile);
// Computes slabs [first, end).
void product_run(const struct product *, const struct product_slabs *, uint32_t first, uint32_t end,
                 uint32_t worker);
// Returns the slabs of a chunk, if products of `rows` rows have `slabs` slabs in all.
uint32_t product_chunk(uint32_t rows, uint32_t slabs, uint32_t threads);
