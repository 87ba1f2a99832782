// SPDX-License-Identifier: Apache-2.0
// Checks sources of codes; see code_source.h.
#include "kernels/code_source.h"

#include <string.h>

uint64_t code_int4_scale_at(const struct weight_int4 *m, uint64_t row, uint32_t group)
{
    uint32_t groups = (m->k + m->group - 1) / m->group;
    return m->order == INT4_BY_ROW ? row * groups + group : (uint64_t)group * m->n + row;
}

uint16_t code_int4_scale(const struct weight_int4 *m, uint64_t at)
{
    const char *from = (const char *)m->scales + at * dtype_bytes(m->scale_dtype);
    if (m->scale_dtype == DTYPE_F32) {
        float scale;
        memcpy(&scale, from, sizeof scale);
        return f32_to_f16(scale);
    }
    uint16_t bits;
    memcpy(&bits, from, sizeof bits);
    return m->scale_dtype == DTYPE_F16 ? bits : f32_to_f16(bf16_to_f32(bits));
}

// Returns true if a scale of the source's rows is infinite as float16.
static bool int4_scales_high(const struct weight_source *source)
{
    const struct weight_int4 *m = source->int4;
    uint64_t top = source->first / m->k;
    for (uint32_t r = 0; r < source->rows && m->scale_dtype != DTYPE_F16 && !m->e2m1; r++) {
        uint64_t row = weight_paired_row(top + r, source->paired, source->rotary);
        for (uint32_t g = 0; g * m->group < m->k; g++)
            if ((code_int4_scale(m, code_int4_scale_at(m, row, g)) & 0x7FFF) == 0x7C00)
                return true;
    }
    return false;
}

static const char *int4_check(const struct weight_format_facts *f,
                              const struct weight_source *source)
{
    const struct weight_int4 *m = source->int4;
    uint32_t stride = source->stride > 0 ? source->stride : source->cols;
    if (f->bits != 4 || f->nested || (f->least && !f->zeros))
        return "int4 arrays are held as Q4_0 or in an int4 format only";
    if (m->zeros && !f->zeros)
        return "the format of the part has no zero points";
    if (m->e2m1 != f->e2m1)
        return "codes of E2M1 are held as MXFP4 only";
    if (m->group == 0 || m->group % f->elements != 0)
        return "the groups of the part's format do not divide those of the matrix";
    if (m->k == 0 || stride != m->k || source->first % stride + source->cols > stride ||
        source->first / stride + source->rows > m->n)
        return "the source reaches beyond the matrix";
    if (m->scale_dtype == DTYPE_I8 || m->scale_dtype >= DTYPE_COUNT)
        return "scales are float32, bfloat16 or float16";
    return int4_scales_high(source) ? "a scale is above the largest float16 (--dtype bfloat16 "
                                      "converts the weights)"
                                    : NULL;
}

const char *code_source_check(const struct weight_shape *shape, uint32_t first_row,
                              const struct weight_source *source)
{
    uint32_t part = 0, row = first_row % weight_matrix_rows(shape), end = shape->parts[0].rows;
    while (part + 1 < shape->part_count && row >= end)
        end += shape->parts[++part].rows;
    enum weight_format format = shape->parts[part].format;
    const struct weight_format_facts *f = weight_format_facts(format);
    if (row + source->rows > end)
        return "the source does not lie in one part of the weight";
    if (source->format == WEIGHT_FLOATS && format != WEIGHT_Q4_1 && format != WEIGHT_Q8_0)
        return "floats are rounded to Q4_1 and Q8_0 only";
    if (source->format == WEIGHT_FLOATS)
        return NULL;
    if (source->format != format)
        return "the source has another format than the part of the weight";
    if (source->cols % f->elements != 0 || source->stride % f->elements != 0 ||
        source->first % f->elements != 0)
        return "the source does not begin and end with a block";
    if (source->int4)
        return int4_check(f, source);
    return !source->map || f->bytes == 0 ? "blocks need bytes" : NULL;
}
