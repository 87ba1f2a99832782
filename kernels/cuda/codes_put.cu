// SPDX-License-Identifier: Apache-2.0
// Repacks codes of a checkpoint into the layout of codes.h. The staged arrays of a band of rows are
// in the order of the file.
#include "kernels/cuda/codes_put.h"

static __device__ __forceinline__ uint32_t byte_pair(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8;
}

// Returns the shift of the code or zero point of a row in the word that eight rows share.
static __device__ __forceinline__ uint32_t word_shift(const codes_band &b, uint32_t row)
{
    uint32_t at = row % 8;
    return b.order != INT4_AWQ ? 4 * at : 4 * (at / 2 + at % 2 * 4);
}

// Reads the codes of columns [column, column + 8) of a staged row.
static __device__ __forceinline__ uint32_t codes_of(const codes_band &b, uint32_t row,
                                                    uint32_t column)
{
    if (b.block_bytes > 0) {
        // Q4_K has two groups of 32 in 32 bytes, the others have two halves of 32 in 16.
        bool nested = b.elements == 256;
        const uint8_t *block = b.codes + (size_t)row * b.row_bytes +
                               (size_t)(column / b.elements) * b.block_bytes + b.codes_at;
        uint32_t inside = column % b.elements, half = nested ? 32 : 16;
        block += inside / (2 * half) * half + inside % half;
        uint32_t shift = inside / half % 2 * 4, word = 0;
        for (uint32_t i = 0; i < 8; i++)
            word |= (uint32_t)(block[i] >> shift & 15) << 4 * i;
        return word;
    }
    const uint32_t *words = (const uint32_t *)b.codes;
    if (b.order == INT4_BY_ROW)
        return words[(size_t)row * (b.columns / 8) + column / 8];
    if (b.order == INT4_BY_COLUMN)
        return words[(size_t)(column / 8) * b.rows + row];
    uint32_t word = 0, shift = word_shift(b, row), each = (b.rows + 7) / 8;
    for (uint32_t i = 0; i < 8; i++)
        word |= (words[(size_t)(column + i) * each + row / 8] >> shift & 15u) << 4 * i;
    return word;
}

// Returns the bits of bfloat16 of the scale 2^(e - 127) of MXFP4.
static __device__ __forceinline__ uint16_t power_bits(uint32_t e)
{
    return (uint16_t)(e == 255 ? 0x7FC0 : e == 0 ? 0x40 : e << 7);
}

// Stores the scales of the group of a row that begins at a column, from a block of GGUF.
static __device__ __forceinline__ void block_scale(const codes_band &b, uint32_t row, uint32_t to,
                                                   uint32_t column)
{
    const uint8_t *block =
        b.codes + (size_t)row * b.row_bytes + (size_t)(column / b.elements) * b.block_bytes;
    uint32_t group = column / CODE_SLAB, g = group % 8;
    if (b.to.format == WEIGHT_MXFP4) {
        code_scale_put(b.to, to, group, power_bits(block[0]), 0);
        return;
    }
    if (b.elements == 32) {
        code_scale_put(b.to, to, group, (uint16_t)byte_pair(block),
                       (uint16_t)(b.codes_at > 2 ? byte_pair(block + 2) : 0));
        return;
    }
    const uint8_t *s = block + 4; // eight scales and minima of 6 bits in 12 bytes
    uint8_t pair[2] = {(uint8_t)(s[g % 4] & 63), (uint8_t)(s[g % 4 + 4] & 63)};
    if (g >= 4) {
        pair[0] = (uint8_t)((s[g + 4] & 15) | s[g - 4] >> 6 << 4);
        pair[1] = (uint8_t)(s[g + 4] >> 4 | s[g] >> 6 << 4);
    }
    uint16_t d[2] = {(uint16_t)byte_pair(block), (uint16_t)byte_pair(block + 2)};
    code_nested_put(b.to, to, group, pair, d);
}

// Stores the scale of the group of a row that begins at a column, from arrays. The groups of the
// file contain those of the format.
static __device__ __forceinline__ void array_scale(const codes_band &b, uint32_t row, uint32_t to,
                                                   uint32_t column)
{
    uint32_t from = (b.column + column) / b.group - b.column / b.group;
    bool by_row = b.order == INT4_BY_ROW;
    size_t at = by_row ? (size_t)row * b.groups + from : (size_t)from * b.rows + row;
    uint16_t scale, zero = 8;
    if (b.e2m1)
        scale = power_bits(b.scales[at]);
    else if (b.scale_dtype == DTYPE_F16)
        scale = ((const uint16_t *)b.scales)[at];
    else if (b.scale_dtype == DTYPE_BF16)
        scale = float_to_f16(bf16_to_float(((const uint16_t *)b.scales)[at]));
    else
        scale = float_to_f16(((const float *)b.scales)[at]);
    if (b.zeros) {
        size_t word = by_row ? (size_t)(row / 8) * b.groups + from
                             : (size_t)from * ((b.rows + 7) / 8) + row / 8;
        uint32_t shift = word_shift(b, row);
        zero = (uint16_t)(((((const uint32_t *)b.zeros)[word] >> shift) + b.zeros_add) & 15u);
    }
    code_scale_put(b.to, to, column / b.elements, scale, zero);
}

// A block is one row. Bound: memory.
static __global__ void __launch_bounds__(128) put_band(codes_band b)
{
    uint32_t to = blockIdx.x, row = b.row[to];
    uint32_t group = b.to.format == WEIGHT_Q4_K ? 32 : b.elements;
    for (uint32_t column = threadIdx.x * 8; column < b.columns; column += 128 * 8) {
        code_word_put(b.to, to, column, codes_of(b, row, column));
        if (column % group == 0 && b.block_bytes > 0)
            block_scale(b, row, to, column);
        else if (column % group == 0)
            array_scale(b, row, to, column);
    }
}

enum status codes_put_band(cudaStream_t stream, const struct codes_band *band)
{
    LAUNCH(put_band, dim3(band->count), dim3(128), 0, stream, *band);
    return launch_status();
}
