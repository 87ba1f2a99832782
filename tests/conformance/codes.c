// SPDX-License-Identifier: Apache-2.0
// Random blocks of each format and an independent reader of them, and random int4 arrays; see
// codes.h. One thread.
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
        if (format == WEIGHT_MXFP4) { // 2^-9 to 2^-2
            block[0] = (uint8_t)trial_range(t, 118, 125);
            continue;
        }
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
    static const int e2m1[] = {0, 1, 2, 3, 4, 6, 8, 12};
    const uint8_t *at = block + (f->least ? 4 : format == WEIGHT_MXFP4 ? 1 : 2);
    const uint8_t *high = f->bits == 5 ? at : NULL;
    at += high ? 4 : 0;
    out->scale = format == WEIGHT_MXFP4 ? ldexpf(1, block[0] - 128) : f16_at(block);
    out->least = f->least ? f16_at(block + 2) : 0;
    for (uint32_t i = 0; i < 32; i++) {
        if (format == WEIGHT_Q8_0) {
            out->code[i] = (int8_t)at[i];
            continue;
        }
        int code = bits_at(at, i % 16 * 8 + i / 16 * 4, 4);
        code += high ? 16 * bits_at(high, i, 1) : 0;
        out->code[i] = format != WEIGHT_MXFP4 ? code - f->zero
                       : code < 8             ? e2m1[code]
                                              : -e2m1[code - 8];
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

// Adds a value to a nibble of an array of 32-bit words.
static void nibble_add(uint8_t *words, size_t word, uint32_t nibble, int value)
{
    words[4 * word + nibble / 2] += (uint8_t)(value << nibble % 2 * 4);
}

// Returns the place of a row among the eight of a word.
static uint32_t nibble_of(enum weight_int4_order order, uint32_t row)
{
    static const uint32_t awq[] = {0, 4, 1, 5, 2, 6, 3, 7};
    return order == INT4_AWQ ? awq[row % 8] : row % 8;
}

// Writes a scale of the matrix's dtype. Returns it as float16 holds it.
static float scale_make(struct trial *t, uint8_t *scales, enum dtype dtype, size_t at)
{
    float scale = trial_normal(t) * 0.02f;
    uint16_t bits = f32_to_f16(scale);
    if (dtype == DTYPE_BF16) {
        bits = f32_to_bf16(fabsf(scale) < 0x1p-17f ? 0x1p-9f : scale);
        scale = bf16_to_f32(bits);
    }
    if (dtype == DTYPE_F32)
        memcpy(scales + at * sizeof scale, &scale, sizeof scale);
    else
        memcpy(scales + at * sizeof bits, &bits, sizeof bits);
    return f16_to_f32(f32_to_f16(scale));
}

// The arrays of a matrix while they are filled.
struct int4_arrays {
    uint8_t *codes, *scales, *zeros;
    size_t groups; // groups of a row
};

// Makes a matrix with rows and columns around those of the source; its arrays are empty.
static struct int4_arrays int4_open(struct trial *t, struct weight_int4 *m,
                                    struct weight_source *source)
{
    const struct weight_format_facts *f = weight_format_facts(source->format);
    uint32_t top = trial_below(t, 20), left = f->elements * trial_below(t, 3);
    *m = (struct weight_int4){.order = (enum weight_int4_order)trial_below(t, 3),
                              .zeros_add = trial_below(t, 2),
                              .scale_dtype = (enum dtype)trial_below(t, 3), // F32, BF16 or F16
                              .n = top + source->rows + trial_below(t, 9),
                              .k = left + source->cols + f->elements * trial_below(t, 2),
                              .e2m1 = source->format == WEIGHT_MXFP4};
    m->n = m->order == INT4_BY_ROW ? m->n : (m->n + 7) / 8 * 8;
    m->group = trial_below(t, 4) > 0 ? f->elements * trial_range(t, 1, 3) : m->k;
    struct int4_arrays a = {.groups = (m->k + m->group - 1) / m->group};
    a.codes = (uint8_t *)trial_heap(t, (size_t)(m->n + 7) * m->k / 2 + 1) + 1; // not aligned
    a.scales = (uint8_t *)trial_heap(t, m->n * a.groups * sizeof(float) + 1) + 1;
    a.zeros = (uint8_t *)trial_heap(t, (m->n + 7) * a.groups + 1) + 1;
    m->codes = a.codes;
    m->scales = a.scales;
    m->zeros = f->zeros && trial_below(t, 8) > 0 ? a.zeros : NULL;
    source->stride = m->k;
    source->first = (uint64_t)top * m->k + left;
    source->int4 = m;
    source->paired = 0;
    return a;
}

// Fills the group of a row that begins at column c, and writes what its elements mean.
static void int4_group(struct trial *t, const struct weight_int4 *m, const struct int4_arrays *a,
                       uint32_t r, uint32_t c, bool zeros, struct block_group *out)
{
    bool by_row = m->order == INT4_BY_ROW;
    size_t g = c / m->group, words = m->n / 8;
    static const int e2m1[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    int zero = m->zeros ? (int)trial_below(t, 16) : 8;
    size_t scale_at = by_row ? r * a->groups + g : g * m->n + r;
    float scale = 0;
    if (m->e2m1) {
        a->scales[scale_at] = (uint8_t)trial_range(t, 118, 125);
        scale = ldexpf(1, a->scales[scale_at] - 128);
    } else {
        scale = scale_make(t, a->scales, m->scale_dtype, scale_at);
    }
    nibble_add(a->zeros, by_row ? r / 8 * a->groups + g : g * words + r / 8, nibble_of(m->order, r),
               (zero + 16 - (int)m->zeros_add) % 16);
    for (; c < m->k && c / m->group == g; c++) {
        int code = (int)trial_below(t, 16);
        if (m->order == INT4_AWQ)
            nibble_add(a->codes, c * words + r / 8, nibble_of(m->order, r), code);
        else
            nibble_add(a->codes,
                       by_row ? (size_t)r * (m->k / 8) + c / 8 : (size_t)(c / 8) * m->n + r, c % 8,
                       code);
        struct block_group *at = &out[c / 32];
        at->half[0] = at->half[1] = 1;
        at->scale = scale;
        at->code[c % 32] = m->e2m1 ? e2m1[code] : zeros ? code : code - zero;
        at->least = zeros ? -(scale * (float)zero) : 0;
    }
}

// Makes int4 arrays for the source's rows and what they mean: groups [rows][k / 32].
static void int4_make(struct trial *t, struct weight_int4 *m, struct weight_source *source,
                      struct block_group *groups)
{
    struct int4_arrays arrays = int4_open(t, m, source);
    uint32_t k = source->cols, top = (uint32_t)(source->first / m->k);
    uint32_t left = (uint32_t)(source->first % m->k);
    bool zeros = weight_format_facts(source->format)->zeros;
    struct block_group *row = trial_heap(t, m->k / 32 * sizeof *row);
    for (uint32_t r = 0; r < m->n; r++) {
        for (uint32_t c = 0; c < m->k; c += m->group)
            int4_group(t, m, &arrays, r, c, zeros, row);
        if (r >= top && r < top + source->rows)
            memcpy(&groups[(size_t)(r - top) * (k / 32)], row + left / 32, k / 32 * sizeof *row);
    }
}

// Makes the blocks of the source's rows and what they mean: groups [rows][k / 32].
static void blocks_make(struct trial *t, struct weight_source *source, struct block_group *groups)
{
    const struct weight_format_facts *f = weight_format_facts(source->format);
    uint32_t rows = source->rows, k = source->cols;
    size_t row_bytes = (size_t)k / f->elements * f->bytes;
    uint8_t *bytes = (uint8_t *)trial_heap(t, rows * row_bytes + 1) + 1; // a file is not aligned
    blocks_random(t, bytes, source->format, (size_t)rows * k / f->elements);
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t g = 0; g < k / 32; g++) {
            const uint8_t *row = bytes + row_stored(r, source->paired > 0) * row_bytes;
            block_group_read(&groups[(size_t)r * (k / 32) + g], source->format,
                             row + (size_t)g * 32 / f->elements * f->bytes, g % (f->elements / 32));
        }
    source->map = bytes;
}

// Makes rows of one part and puts them in two sources, which meet in the middle of a panel.
static void part_make(struct trial *t, struct trial_codes *out, uint32_t part, uint32_t first,
                      bool paired)
{
    const struct weight_shape *shape = &out->device.shape;
    uint32_t rows = shape->parts[part].rows, k = shape->k;
    struct block_group *groups = &out->groups[(size_t)first * (k / 32)];
    struct weight_int4 int4;
    struct weight_source source = {.fd = -1,
                                   .rows = rows,
                                   .cols = k,
                                   .stride = k,
                                   .format = shape->parts[part].format,
                                   .paired = paired && rows % 16 == 0 ? 16 : 0};
    bool both = source.format == WEIGHT_Q4_0 || source.format == WEIGHT_MXFP4;
    bool arrays = both && trial_below(t, 2);
    if (arrays || weight_format_facts(source.format)->bytes == 0)
        int4_make(t, &int4, &source, groups);
    else
        blocks_make(t, &source, groups);
    float *floats = (float *)out->reference.data + (size_t)first * k;
    for (size_t i = 0; i < (size_t)rows * k; i++) {
        const struct block_group *group = &groups[i / 32];
        floats[i] =
            (float)((double)group->code[i % 32] * (double)group->scale * group->half[i % 32 / 16] +
                    (double)group->least);
    }
    struct error err = {0};
    uint32_t cut = rows / 3;
    for (int i = 0; i < 2; i++) {
        source.rows = i == 0 ? cut : rows - cut;
        if (source.rows == 0)
            continue;
        enum status status =
            t->api->weight_put(t->device, &out->device, first + (i ? cut : 0), &source, &err);
        check(status == STATUS_OK, "%s", err.text);
        source.first += (uint64_t)cut * source.stride;
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
    for (uint32_t i = 0; i < shape->part_count * weight_stack(shape); i++) {
        part_make(t, &out, i % shape->part_count, first, paired);
        first += shape->parts[i % shape->part_count].rows;
    }
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

bool codes_are_storage(const struct trial *t)
{
    return t->facts.activation[DTYPE_BF16] != DTYPE_F32;
}

bool codes_tried(const struct trial *t, enum dtype act)
{
    return t->facts.codes != 0 && (act != DTYPE_F32) == codes_are_storage(t);
}

enum weight_format codes_format(struct trial *t)
{
    for (;;) {
        uint32_t format = trial_range(t, 1, WEIGHT_FORMAT_COUNT - 1);
        if (t->facts.codes >> format & 1)
            return (enum weight_format)format;
    }
}

struct weight codes_floats(struct trial *t, struct trial_codes *w, enum dtype dtype)
{
    struct weight out = {.shape = w->device.shape};
    struct error err = {0};
    size_t count = (size_t)out.shape.n * out.shape.k;
    float *x = (float *)w->reference.data;
    for (size_t i = 0; i < count; i++)
        x[i] = dtype == DTYPE_F16 ? f16_to_f32(f32_to_f16(x[i])) : bf16_to_f32(f32_to_bf16(x[i]));
    out.shape.part_count = 0;
    out.shape.dtype = dtype;
    out.bytes = t->api->weight_bytes(t->device, &out.shape);
    out.data = trial_device(t, out.bytes);
    struct weight_source source = {
        .map = x, .fd = -1, .dtype = DTYPE_F32, .rows = out.shape.n, .cols = out.shape.k};
    enum status status = t->api->weight_put(t->device, &out, 0, &source, &err);
    check(status == STATUS_OK, "%s", err.text);
    check(t->api->weight_finish(t->device, &out, NULL) == STATUS_OK, "finish");
    return out;
}
