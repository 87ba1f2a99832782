// SPDX-License-Identifier: Apache-2.0
// Random blocks of each format and an independent reader of them; see codes.h. One thread.
#include "tests/conformance/codes.h"

#include <math.h>
#include <string.h>

static float f16_at(const uint8_t *at)
{
    return f16_to_f32((uint16_t)(at[0] + 256 * at[1]));
}

void blocks_random(struct trial *t, uint8_t *out, enum weight_format format, size_t count)
{
    const struct weight_format_facts *f = weight_format_facts(format);
    for (size_t i = 0; i < count * f->bytes; i++)
        out[i] = (uint8_t)trial_below(t, 256);
    for (size_t i = 0; i < count; i++) {
        uint8_t *block = out + i * f->bytes;
        uint8_t *at = block + (format == WEIGHT_Q6_K ? 208 : 0);
        for (int j = 0; j < (f->least ? 2 : 1); j++) {
            uint16_t bits = f32_to_f16(trial_normal(t) * (f->nested ? 0.001f : 0.02f));
            at[2 * j] = (uint8_t)bits;
            at[2 * j + 1] = (uint8_t)(bits >> 8);
        }
        if (format == WEIGHT_Q6_K && trial_below(t, 4) == 0) // extremes of scales and codes
            memset(block, trial_below(t, 2) ? 0 : 255, 192);
        if (format == WEIGHT_Q6_K && trial_below(t, 4) == 0)
            memset(block + 192, 128, 16);
        if (format == WEIGHT_Q8_0 && trial_below(t, 4) == 0)
            memset(block + 2, 128, 32);
    }
}

// Returns bits [first, first + count) of a string of bits, the lowest bit of a byte first.
static int bits_at(const uint8_t *bytes, uint32_t first, uint32_t count)
{
    int value = 0;
    for (uint32_t i = 0; i < count; i++)
        value |= (bytes[(first + i) / 8] >> (first + i) % 8 & 1) << i;
    return value;
}

static void small_block(struct block_group *out, enum weight_format format, const uint8_t *block)
{
    const struct weight_format_facts *f = weight_format_facts(format);
    const uint8_t *at = block + (f->least ? 4 : 2);
    const uint8_t *high = f->bits == 5 ? at : NULL;
    at += high ? 4 : 0;
    out->scale = f16_at(block);
    out->least = f->least ? f16_at(block + 2) : 0;
    for (uint32_t i = 0; i < 32; i++) {
        if (format == WEIGHT_Q8_0) {
            out->code[i] = (int8_t)at[i];
            continue;
        }
        int code = bits_at(at, i % 16 * 8 + i / 16 * 4, 4);
        code += high ? 16 * bits_at(high, i, 1) : 0;
        out->code[i] = code - f->zero;
    }
}

// Reads the 6-bit scale (which: 0) or minimum (1) of a group from 12 bytes.
static int six_bits(const uint8_t *s, uint32_t group, uint32_t which)
{
    if (group < 4)
        return bits_at(s, (4 * which + group) * 8, 6);
    return bits_at(s, (8 + group - 4) * 8 + 4 * which, 4) +
           16 * bits_at(s, (4 * which + group - 4) * 8 + 6, 2);
}

void block_group_read(struct block_group *out, enum weight_format format, const uint8_t *block,
                      uint32_t group)
{
    *out = (struct block_group){.half = {1, 1}};
    if (!weight_format_facts(format)->nested) {
        small_block(out, format, block);
        return;
    }
    if (format == WEIGHT_Q6_K) {
        out->scale = f16_at(block + 208);
        for (uint32_t i = 0; i < 32; i++) {
            uint32_t e = group * 32 + i, quarter = e % 128 / 32;
            int low =
                bits_at(block, (e / 128 * 64 + quarter % 2 * 32 + i) * 8 + quarter / 2 * 4, 4);
            int high = bits_at(block + 128, (e / 128 * 32 + i) * 8 + quarter * 2, 2);
            out->code[i] = low + 16 * high - 32;
        }
        out->half[0] = (int8_t)block[192 + 2 * group];
        out->half[1] = (int8_t)block[193 + 2 * group];
        return;
    }
    const uint8_t *low = block + (format == WEIGHT_Q5_K ? 48 : 16) + group / 2 * 32;
    out->scale = f16_at(block) * (float)six_bits(block + 4, group, 0);
    out->least = -(f16_at(block + 2) * (float)six_bits(block + 4, group, 1));
    for (uint32_t i = 0; i < 32; i++) {
        out->code[i] = bits_at(low, i * 8 + group % 2 * 4, 4);
        if (format == WEIGHT_Q5_K)
            out->code[i] += 16 * bits_at(block + 16, i * 8 + group, 1);
    }
}

static uint32_t row_stored(uint32_t row, bool paired) // heads of 16 rows
{
    uint32_t inside = row % 16;
    return paired ? row - inside + (inside < 8 ? 2 * inside : 2 * (inside - 8) + 1) : row;
}

// Makes rows of one part and puts them in two sources, which meet in the middle of a panel.
static void part_make(struct trial *t, struct trial_codes *out, uint32_t part, uint32_t first,
                      bool paired)
{
    const struct weight_shape *shape = &out->device.shape;
    enum weight_format format = shape->parts[part].format;
    const struct weight_format_facts *f = weight_format_facts(format);
    uint32_t rows = shape->parts[part].rows, k = shape->k;
    size_t row_bytes = (size_t)k / f->elements * f->bytes;
    uint8_t *bytes = (uint8_t *)trial_heap(t, rows * row_bytes + 1) + 1; // a file is not aligned
    paired = paired && rows % 16 == 0;
    blocks_random(t, bytes, format, (size_t)rows * k / f->elements);
    float *floats = (float *)out->reference.data + (size_t)first * k;
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t g = 0; g < k / 32; g++) {
            struct block_group *group = &out->groups[(size_t)(first + r) * (k / 32) + g];
            const uint8_t *row = bytes + row_stored(r, paired) * row_bytes;
            block_group_read(group, format, row + (size_t)g * 32 / f->elements * f->bytes,
                             g % (f->elements / 32));
            for (uint32_t i = 0; i < 32; i++)
                floats[(size_t)r * k + g * 32 + i] =
                    (float)((double)group->code[i] * (double)group->scale * group->half[i / 16] +
                            (double)group->least);
        }
    struct weight_source source = {
        .map = bytes, .fd = -1, .cols = k, .format = format, .paired = paired ? 16 : 0};
    struct error err = {0};
    uint32_t cut = rows / 3;
    for (int i = 0; i < 2; i++) {
        source.rows = i == 0 ? cut : rows - cut;
        source.first = i == 0 ? 0 : (uint64_t)cut * k;
        if (source.rows == 0)
            continue;
        enum status status =
            t->api->weight_put(t->device, &out->device, first + (i ? cut : 0), &source, &err);
        check(status == STATUS_OK, "%s", err.text);
    }
}

struct trial_codes trial_codes_make(struct trial *t, const struct weight_shape *shape, bool paired)
{
    struct trial_codes out = {.device.shape = *shape, .reference.shape = *shape};
    out.reference.shape.part_count = 0;
    out.reference.data = trial_heap(t, (size_t)shape->n * shape->k * sizeof(float));
    out.groups = trial_heap(t, (size_t)shape->n * (shape->k / 32) * sizeof *out.groups);
    out.device.bytes = t->api->weight_bytes(t->device, shape);
    out.device.data = trial_device(t, out.device.bytes);
    uint32_t first = 0;
    for (uint32_t i = 0; i < shape->part_count; first += shape->parts[i].rows, i++)
        part_make(t, &out, i, first, paired);
    check(t->api->weight_finish(t->device, &out.device, NULL) == STATUS_OK, "finish");
    return out;
}

float codes_round(int q[32], const float *x, uint32_t at, uint32_t k)
{
    float top = 0, poison = 0;
    for (uint32_t i = 0; i < 32 && at + i < k; i++) {
        top = fabsf(x[at + i]) > top ? fabsf(x[at + i]) : top;
        poison += x[at + i] * 0;
    }
    float scale = top / 127.0f + poison;
    float inverse = byte_inverse(scale);
    for (uint32_t i = 0; i < 32; i++)
        q[i] = at + i < k ? (int)lrintf(x[at + i] * inverse) : 0;
    return scale;
}
