// SPDX-License-Identifier: Apache-2.0
// Stores the words of codes.h, for the kernels that load weights. A thread writes complete words of
// codes, so rows can be written in any order.
#pragma once

#include "kernels/cuda/codes_math.h"
#include "kernels/cuda/loader.h"

// Returns a word of eight codes, the first in the lowest bits, in the order of codes.h.
static __device__ __forceinline__ uint32_t code_word_order(enum weight_format format, uint32_t word)
{
    if (format != WEIGHT_MXFP4)
        return word << 4 | word >> 28;
    uint32_t pair[4];
    for (uint32_t i = 0; i < 4; i++) { // as e2m1_pairs (codes_math.h) returns them
        uint32_t low = word >> 8 * i & 15u, high = word >> (8 * i + 4) & 15u;
        uint32_t both = low | high << 16;
        pair[i] = (both & 0x70007u) << 6 | (both & 0x80008u) << 12;
    }
    return pair[0] | pair[1] >> 10 | pair[1] << 22 | pair[2] >> 13 | pair[2] << 19 |
           (pair[3] >> 3 & 0x180018u) | (pair[3] >> 8 & 0x10001u) | (pair[3] >> 14 & 0x20002u);
}

// Stores columns [column, column + 8) of a row. row: counted from the first row of `to`.
static __device__ __forceinline__ void code_word_put(const code_rows &to, uint32_t row,
                                                     uint32_t column, uint32_t word)
{
    row += to.first;
    size_t slab = (size_t)(row / CODE_ROWS) * to.at.slabs + column / CODE_SLAB;
    uint32_t lane = row % 8 * 4 + column / 8 % 4;
    *(uint32_t *)(to.part + slab * CODE_SLAB_BYTES + lane * 8 + row / 8 % 2 * 4) =
        code_word_order(to.format, word);
}

// Returns the place of the words of a group of a row.
static __device__ __forceinline__ char *code_scale_place(const code_rows &to, uint32_t row,
                                                         uint32_t group)
{
    row += to.first;
    size_t at = ((size_t)(row / CODE_ROWS) * to.at.groups + group) * 8 + row % 8;
    return to.part + to.at.scales + at * 4 * to.at.scale_words;
}

// Stores the scale of a group and, if the format has them, its zero point or minimum.
static __device__ __forceinline__ void
code_scale_put(const code_rows &to, uint32_t row, uint32_t group, uint16_t scale, uint16_t other)
{
    uint16_t *at = (uint16_t *)code_scale_place(to, row, group) + (row + to.first) / 8 % 2;
    at[0] = scale;
    if (to.at.scale_words > 1)
        at[2] = other;
}

// Q4_K: stores scale and minimum of a group; d and dmin of the block if the group is its first.
static __device__ __forceinline__ void code_nested_put(const code_rows &to, uint32_t row,
                                                       uint32_t group, const uint8_t scale[2],
                                                       const uint16_t d[2])
{
    uint32_t inside = row + to.first, half = inside / 8 % 2;
    uint8_t *at = (uint8_t *)code_scale_place(to, row, group) + 2 * half;
    at[0] = scale[0];
    at[1] = scale[1];
    if (group % 8 != 0)
        return;
    size_t place = ((size_t)(inside / CODE_ROWS) * (to.columns / 256) + group / 8) * 8;
    uint16_t *super = (uint16_t *)(to.part + to.at.supers + (place + inside % 8) * 8);
    super[half] = d[0];
    super[2 + half] = d[1];
}
