// SPDX-License-Identifier: Apache-2.0
// Weights of the cpu device: packed once at load, in parallel, by the loading thread and the
// device's threads. The caller owns the memory; this file keeps no state.
//
// A product's matrix [n][k] is stored in slabs of 32 rows (output columns), rows padded with zeros:
//   f32, f16  [slab][k][32]
//   bf16      [slab][k / 32][2 panels][16 pairs][16 rows][2], K padded to 32: a panel is a tile
//   int8      [slab][k / 64][2 panels][16 quads][16 rows][4], K padded to 64, BYTE_ZERO added; then
//             float scale[slab][group of K][32 rows]; see bytes.h
// A table of rows has the layout of its source; an int8 table has that of a product. A vector is n
// floats. Weights held as codes are packed by codes.c.
#include "kernels/code_source.h"
#include "kernels/cpu/internal.h"
#include "kernels/philox.h"

#include "base/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 512 }; // elements converted at a time
_Static_assert(PIECE % 32 == 0 && BYTE_GROUP % 64 == 0, "pieces begin at the offsets' multiples");

uint32_t packed_depth(const struct weight_shape *shape)
{
    if (shape->dtype == DTYPE_I8)
        return byte_depth(shape->k);
    if (shape->dtype == DTYPE_BF16)
        return (uint32_t)round_up(shape->k, 32);
    return shape->k;
}

size_t packed_bytes(const struct weight_shape *shape)
{
    return round_up(shape->n, SLAB_COLUMNS) * packed_depth(shape) * dtype_bytes(shape->dtype);
}

// bf16: returns the offset, in elements, of column c + at from column c of the same row, where c is
// a multiple of 32.
static size_t pair_offset(uint32_t at)
{
    return (size_t)(at / 32) * 1024 + at % 32 / 2 * 32 + at % 2;
}

// int8: returns the offset, in bytes, of column c + at from column c of the same row, where c is a
// multiple of 64.
static size_t quad_offset(uint32_t at)
{
    return (size_t)(at / 64) * 2048 + at % 64 / 4 * 64 + at % 4;
}

size_t packed_index(const struct weight_shape *shape, uint32_t row, uint32_t column)
{
    size_t slab = (size_t)(row / SLAB_COLUMNS) * SLAB_COLUMNS * packed_depth(shape);
    uint32_t lane = row % 16;
    uint32_t panel = row / 16 % 2;
    if (shape->dtype == DTYPE_BF16)
        return slab + panel * 512 + lane * 2 + pair_offset(column);
    if (shape->dtype == DTYPE_I8)
        return slab + panel * 1024 + lane * 4 + quad_offset(column);
    return slab + (size_t)column * SLAB_COLUMNS + row % SLAB_COLUMNS;
}

size_t cpu_weight_bytes(const struct device *device, const struct weight_shape *shape)
{
    (void)device;
    size_t bytes;
    if (shape->part_count > 0) {
        bytes = code_weight_bytes(shape);
    } else if (shape->use == WEIGHT_VECTOR) {
        bytes = (size_t)shape->n * sizeof(float);
    } else if (shape->dtype == DTYPE_I8) {
        bytes = packed_bytes(shape) +
                round_up(shape->n, SLAB_COLUMNS) * byte_groups(shape->k) * sizeof(float);
    } else if (shape->use == WEIGHT_ROWS) {
        bytes = (size_t)shape->n * shape->k * dtype_bytes(shape->dtype);
    } else {
        bytes = packed_bytes(shape);
    }
    return round_up(bytes, 256);
}

struct put {
    const struct device *device;
    struct weight *weight;
    const struct weight_source *source;
    uint32_t first_row;
    uint32_t rows_each; // rows per chunk
    uint32_t skew;      // codes: rows of the first row's panel before it
};

void source_read(float *out, const struct device *device, const struct weight_source *source,
                 size_t at, uint32_t count)
{
    if (!source->map) {
        device->kernels.normal(out, source->seed, at, count, source->deviation);
        return;
    }
    // bytes of a file may be unaligned: elements are copied one by one
    const char *from = (const char *)source->map + at * dtype_bytes(source->dtype);
    if (source->dtype == DTYPE_F32) {
        memcpy(out, from, count * sizeof(float));
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint16_t bits;
        memcpy(&bits, from + (size_t)i * 2, sizeof bits);
        out[i] = source->dtype == DTYPE_BF16 ? bf16_to_f32(bits) : f16_to_f32(bits);
    }
}

static void element_write(void *data, enum dtype dtype, size_t at, float value)
{
    if (dtype == DTYPE_F32)
        ((float *)data)[at] = value;
    else
        ((uint16_t *)data)[at] = dtype == DTYPE_BF16 ? f32_to_bf16(value) : f32_to_f16(value);
}

// Writes columns [column, column + count) of a row of a weight that is not int8. column is a
// multiple of PIECE.
static void row_piece_write(const struct weight *weight, uint32_t row, uint32_t column,
                            const float *x, uint32_t count)
{
    const struct weight_shape *shape = &weight->shape;
    bool packed = shape->use == WEIGHT_PRODUCT || shape->use == WEIGHT_TIED;
    size_t at = packed ? packed_index(shape, row, column) : (size_t)row * shape->k + column;
    if (!packed || shape->dtype != DTYPE_BF16) {
        size_t step = packed ? SLAB_COLUMNS : 1;
        for (uint32_t i = 0; i < count; i++)
            element_write(weight->data, shape->dtype, at + i * step, x[i]);
        return;
    }
    uint16_t *to = (uint16_t *)weight->data + at;
    for (uint32_t i = 0; i < count; i++)
        to[pair_offset(i)] = f32_to_bf16(x[i]);
}

// Writes a row as int8, a group of K at a time.
static void row_write_bytes(const struct put *put, uint32_t row, size_t source_at)
{
    const struct weight_shape *shape = &put->weight->shape;
    uint8_t *bytes = put->weight->data;
    uint32_t depth = packed_depth(shape);
    float *scales = (float *)(void *)(bytes + packed_bytes(shape)) +
                    (size_t)(row / SLAB_COLUMNS) * byte_groups(shape->k) * SLAB_COLUMNS +
                    row % SLAB_COLUMNS;
    for (uint32_t c = 0; c < depth; c += BYTE_GROUP, scales += SLAB_COLUMNS) {
        float x[BYTE_GROUP] = {0};
        uint32_t padded = depth - c < BYTE_GROUP ? depth - c : BYTE_GROUP;
        source_read(x, put->device, put->source, source_at + c,
                    shape->k - c < BYTE_GROUP ? shape->k - c : BYTE_GROUP);
        int8_t group[BYTE_GROUP];
        float scale;
        int32_t offset;
        put->device->kernels.group_bytes(group, &scale, &offset, x, 0, BYTE_GROUP);
        uint8_t *to = bytes + packed_index(shape, row, c);
        for (uint32_t i = 0; i < padded; i += 4) {
            uint32_t quad;
            memcpy(&quad, group + i, sizeof quad);
            quad ^= 0x80808080u; // adds BYTE_ZERO to each byte
            memcpy(to + quad_offset(i), &quad, sizeof quad);
        }
        *scales = scale / BYTE_BLOCK;
    }
}

static void put_chunk(void *job, uint32_t chunk, uint32_t worker)
{
    (void)worker;
    const struct put *put = job;
    const struct weight_shape *shape = &put->weight->shape;
    float piece[PIECE];
    uint32_t first = chunk * put->rows_each; // first row of the chunk, in the source
    for (uint32_t r = first; r < first + put->rows_each && r < put->source->rows; r++) {
        size_t source_at = weight_source_at(put->source, r);
        uint32_t row = put->first_row + r;
        if (shape->dtype == DTYPE_I8) {
            row_write_bytes(put, row, source_at);
            continue;
        }
        for (uint32_t c = 0; c < shape->k; c += PIECE) {
            uint32_t count = shape->k - c < PIECE ? shape->k - c : PIECE;
            source_read(piece, put->device, put->source, source_at + c, count);
            row_piece_write(put->weight, row, c, piece, count);
        }
    }
}

static void vector_chunk(void *job, uint32_t chunk, uint32_t worker)
{
    (void)chunk;
    (void)worker;
    const struct put *put = job;
    uint32_t count = put->source->rows * put->source->cols;
    source_read((float *)put->weight->data + put->first_row, put->device, put->source,
                put->source->first, count);
}

static void codes_chunk(void *job, uint32_t chunk, uint32_t worker)
{
    (void)worker;
    const struct put *put = job;
    uint32_t first = chunk * put->rows_each, end = first + put->rows_each;
    first = first > put->skew ? first - put->skew : 0; // chunks are complete panels
    end = end - put->skew < put->source->rows ? end - put->skew : put->source->rows;
    if (first < end)
        code_rows_put(put->device, put->weight, put->first_row, put->source, first, end);
}

static enum status codes_put(struct put *put, struct threads *threads, struct error *err)
{
    const struct weight_source *source = put->source;
    const char *wrong = code_source_check(&put->weight->shape, put->first_row, source);
    if (wrong)
        return error_set(err, STATUS_INVALID, "a weight of %u x %u at row %u: %s",
                         put->weight->shape.n, put->weight->shape.k, put->first_row, wrong);
    put->skew = code_row_lane(put->weight, put->first_row);
    uint32_t rows = source->rows + put->skew;
    threads_run(threads, codes_chunk, put, (rows + put->rows_each - 1) / put->rows_each);
    return STATUS_OK;
}

enum status cpu_weight_put(struct device *device, struct weight *weight, uint32_t first_row,
                           const struct weight_source *source, struct error *err)
{
    const struct weight_shape *shape = &weight->shape;
    bool vector = shape->use == WEIGHT_VECTOR;
    if (source->format != WEIGHT_FLOATS && shape->part_count == 0)
        return error_set(err, STATUS_UNSUPPORTED, "blocks of %s need a weight held as codes",
                         weight_format_facts(source->format)->name);
    if (source->dtype == DTYPE_I8 || source->dtype >= DTYPE_COUNT)
        return error_set(err, STATUS_UNSUPPORTED,
                         "a weight's source must be float32, bfloat16 or float16");
    uint64_t elements = (uint64_t)source->rows * source->cols;
    uint64_t rows = vector ? elements : source->rows;
    if (first_row + rows > shape->n || (!vector && source->cols != shape->k))
        return error_set(err, STATUS_INVALID,
                         "a source of %u x %u does not fit a weight of %u x %u at row %u",
                         source->rows, source->cols, shape->n, shape->k, first_row);
    struct put put = {device, weight, source, first_row, 1, 0};
    if (vector) {
        vector_chunk(&put, 0, 0);
        return STATUS_OK;
    }
    // ranks are loaded one after the other, so all threads work on each
    const struct device *all = device->parent ? device->parent : device;
    uint32_t each = 1 + (64 << 10) / (shape->k > 0 ? shape->k : 1);
    put.rows_each = (uint32_t)round_up(each, 32);
    if (shape->part_count > 0)
        return codes_put(&put, all->threads, err);
    threads_run(all->threads, put_chunk, &put, (source->rows + put.rows_each - 1) / put.rows_each);
    return STATUS_OK;
}

enum status cpu_weight_finish(struct device *device, struct weight *weight, struct error *err)
{
    (void)device;
    (void)weight;
    (void)err;
    return STATUS_OK; // padding is zero because device memory is zeroed
}
