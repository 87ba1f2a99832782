// SPDX-License-Identifier: Apache-2.0
// Finds quantised modules in a list of tensors; see packed_find.h. A module's codes are found by
// their name and type, its other tensors by the names next to it. All shapes and group numbers are
// checked here, so that packed.c reads inside the tensors only.
#include "runtime/model/packed_module.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Sets the size of a module whose codes are bytes [n, k]. kind: "FP8" or "int8", for the message.
static enum status bytes_size_set(struct module_find *m, const char *kind)
{
    if (m->code->dims != 2)
        return module_wrong(m, m->code, "%s weights are matrices", kind);
    return module_size_set(m, m->code->shape[0], m->code->shape[1]);
}

// Makes the weight that replaces the module's tensor of codes.
static void module_finish(struct module_find *m)
{
    struct tensor *t = arena_alloc(m->f->arena, sizeof *t);
    *t = *m->code;
    m->f->made[m->code - m->f->list] = t;
    t->name = arena_format(m->f->arena, m->stack > 0 ? "%.*s" : "%.*s.weight", (int)m->base.bytes,
                           m->base.at);
    t->dims = m->stack > 0 ? 3 : 2;
    t->shape[0] = m->stack;
    t->shape[t->dims - 2] = m->p->n / (m->stack > 0 ? m->stack : 1);
    t->shape[t->dims - 1] = m->p->k;
    t->type = m->p->words;
    t->dtype = -1;
    t->packed = m->p;
    // Ranges of activations, which a weight alone does not need, and the shape of the codes.
    static const char *const spare[] = {
        ".input_scale",   ".input_scale_ub", ".input_global_scale", ".activation_scale",
        ".weight_format", ".output_scale",   ".weight_shape"};
    for (size_t i = 0; i < sizeof spare / sizeof spare[0]; i++)
        module_take(m, spare[i]);
}

// Returns the type of a scale, or -1. E8M0 is also stored as U8.
static int number_of(const struct tensor *tensor)
{
    static const struct {
        const char *type;
        enum packed_number number;
    } types[] = {{"F32", PACKED_F32},      {"F16", PACKED_F16},      {"BF16", PACKED_BF16},
                 {"F8_E4M3", PACKED_E4M3}, {"F8_E8M0", PACKED_E8M0}, {"U8", PACKED_E8M0}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (tensor_type_is(tensor, types[i].type))
            return (int)types[i].number;
    return -1;
}

// Returns the values of the codes of a byte.
static const float *byte_values(struct packed_finder *f, bool integers)
{
    const float **values = integers ? &f->int8 : &f->e4m3;
    if (*values)
        return *values;
    float *made = arena_alloc(f->arena, 256 * sizeof *made);
    if (integers)
        for (int i = 0; i < 256; i++)
            made[i] = (float)(i < 128 ? i : i - 256);
    else
        packed_e4m3(made);
    *values = made;
    return made;
}

// Returns the columns of each of `groups` groups but the last, which may have fewer: the declared
// number if it fits, else equal parts. 0: parts are not equal, or no power of two and so misread.
static uint32_t group_columns(const struct module_find *m, uint64_t groups)
{
    uint32_t k = m->p->k, size = m->f->rules->group;
    if (size > 0 && size < k && (k + (uint64_t)size - 1) / size == groups)
        return size;
    uint32_t part = k % groups == 0 ? (uint32_t)(k / groups) : 0;
    return groups == 1 || (part & (part - 1)) == 0 ? part : 0;
}

// Reads scales that are stored by row: one for the matrix, one for each row, or one for each group
// of columns of a row. Writes to `each` which of these it is: "a scale per tensor".
static enum status scales_by_row(struct module_find *m, const struct tensor *scale, char each[32])
{
    struct packed *p = m->p;
    int type = number_of(scale);
    bool rows = tensor_shape_is(scale, p->n, scale->shape[1]);
    uint64_t groups = rows ? scale->shape[1] : 0;
    if (type < 0)
        return module_wrong(m, scale, "scales are F32, F16, BF16, F8_E4M3 or F8_E8M0");
    p->scales = scale->map;
    p->scale_type = (enum packed_number)type;
    if (tensor_elements(scale) == 1) {
        p->scale_rows = p->n;
        snprintf(each, 32, "a scale per tensor");
    } else if (groups == 1 || (scale->dims == 1 && scale->shape[0] == p->n)) {
        p->row_step = 1;
        snprintf(each, 32, "a scale per row");
    } else if (groups > 0 && group_columns(m, groups) > 0) {
        p->row_step = p->groups = (uint32_t)groups;
        p->scale_cols = group_columns(m, groups);
        p->group_step = 1;
        snprintf(each, 32, "groups of %u", p->scale_cols);
    } else {
        return module_wrong(m, scale,
                            "a weight of %u x %u has one scale, one a row, or groups of equal size",
                            p->n, p->k);
    }
    return STATUS_OK;
}

// Reads codes F8_E4M3 [n, k] with scales for blocks of 128 x 128 elements or scales by row. The
// tensor of scales has two names; under both of them the scales are factors.
static enum status fp8_read(struct module_find *m)
{
    struct tensor *scale = module_take(m, ".weight_scale_inv");
    struct packed *p = m->p;
    char each[32] = "blocks of 128 x 128";
    enum status status = STATUS_OK;
    if (!scale)
        scale = module_take(m, ".weight_scale");
    if (!scale)
        status = module_lacks(m, ".weight_scale (or weight_scale_inv)");
    if (status == STATUS_OK)
        status = bytes_size_set(m, "FP8");
    if (status != STATUS_OK)
        return status;
    uint64_t down = ((uint64_t)p->n + 127) / 128, across = ((uint64_t)p->k + 127) / 128;
    p->bits = 8;
    p->e4m3 = true;
    p->values = byte_values(m->f, false);
    if (tensor_shape_is(scale, down, across) && tensor_elements(scale) > 1 &&
        number_of(scale) >= 0) {
        p->scales = scale->map;
        p->scale_type = (enum packed_number)number_of(scale);
        p->scale_rows = p->scale_cols = 128;
        p->row_step = (uint32_t)across;
        p->group_step = 1;
    } else {
        status = scales_by_row(m, scale, each);
    }
    snprintf(p->words, sizeof p->words, "FP8, %s", each);
    return status;
}

// Reads codes I8 [n, k] of compressed-tensors with scales by row and zero points of their shape.
static enum status int8_read(struct module_find *m)
{
    struct tensor *scale, *zeros = module_take(m, ".weight_zero_point");
    char each[32];
    enum status status = module_need(&scale, m, ".weight_scale");
    if (status == STATUS_OK)
        status = bytes_size_set(m, "int8");
    if (status == STATUS_OK)
        status = scales_by_row(m, scale, each);
    if (status != STATUS_OK)
        return status;
    struct packed *p = m->p;
    p->bits = 8;
    p->values = byte_values(m->f, true);
    snprintf(p->words, sizeof p->words, "int8, %s", each);
    if (!zeros)
        return STATUS_OK;
    if (!tensor_type_is(zeros, "I8") || !tensor_shape_is(zeros, p->n, p->groups))
        return module_wrong(m, zeros, "the zero points of %u x %u weights are I8 [%u, %u]", p->n,
                            p->k, p->n, p->groups);
    p->zeros = zeros->map;
    p->zero_bytes = true;
    return STATUS_OK;
}

// Reads codes I8 [n, k] of bitsandbytes, which stores the largest magnitude of each row: the value
// of the code 127.
static enum status int8_rows_read(struct module_find *m, const struct tensor *scale)
{
    enum status status = bytes_size_set(m, "int8");
    if (status != STATUS_OK)
        return status;
    struct packed *p = m->p;
    if (!tensor_type_is(scale, "F32") || tensor_elements(scale) != p->n)
        return module_wrong(m, scale, "the scales of %u rows are F32 [%u]", p->n, p->n);
    p->bits = 8;
    p->values = byte_values(m->f, true);
    p->scales = scale->map;
    p->scale_type = PACKED_F32;
    p->row_step = 1;
    p->last = 1 / 127.0f;
    snprintf(p->words, sizeof p->words, "bitsandbytes, int8");
    return STATUS_OK;
}

// Reads codes E2M1 [n, k / 2], two in a byte, with a scale for each `group` columns. factor: a
// factor of all scales, or NULL.
static enum status fp4_read(struct module_find *m, const struct tensor *scale, uint32_t group,
                            const struct tensor *factor)
{
    struct packed *p = m->p;
    enum packed_number type = group == 16 ? PACKED_E4M3 : PACKED_E8M0;
    if (m->code->dims != 2 || !tensor_type_is(m->code, "U8") || m->code->shape[1] > INT32_MAX / 2)
        return module_wrong(m, m->code, "codes of 4 bits are U8 [rows, columns / 2]");
    enum status status = module_size_set(m, m->code->shape[0], m->code->shape[1] * 2);
    if (status != STATUS_OK)
        return status;
    if (number_of(scale) != (int)type || p->k % group != 0 ||
        !tensor_shape_is(scale, p->n, p->k / group))
        return module_wrong(m, scale, "%u x %u elements in groups of %u have %s scales [%u, %u]",
                            p->n, p->k, group, group == 16 ? "F8_E4M3" : "F8_E8M0 (U8)", p->n,
                            p->k / group);
    if (factor && (!tensor_type_is(factor, "F32") || tensor_elements(factor) != 1))
        return module_wrong(m, factor, "the factor of all scales is one F32");
    p->bits = 4;
    p->values = packed_e2m1();
    p->scales = scale->map;
    p->scale_type = type;
    p->scale_cols = group;
    p->group_step = 1;
    p->row_step = p->k / group;
    if (factor)
        memcpy(&p->factor, factor->map, sizeof p->factor);
    snprintf(p->words, sizeof p->words, "%s, groups of %u", group == 16 ? "NVFP4" : "MXFP4", group);
    return STATUS_OK;
}

// Reads a module whose codes are in NAME.weight. *found: false if the tensor has no codes, or lacks
// the scales next to it; then weights.c refuses its type.
static enum status weight_read(struct module_find *m, bool *found)
{
    struct tensor *scale, *factor;
    *found = true;
    if (tensor_type_is(m->code, "F8_E4M3"))
        return fp8_read(m);
    if (tensor_type_is(m->code, "I8") && (scale = module_take(m, ".SCB")) != NULL)
        return int8_rows_read(m, scale);
    if (tensor_type_is(m->code, "I8") && module_part(m, ".weight_scale"))
        return int8_read(m);
    if (tensor_type_is(m->code, "U8") && module_part(m, ".weight.quant_map"))
        return module_blocks_read(m);
    if (tensor_type_is(m->code, "U8") && (factor = module_take(m, ".weight_scale_2")) != NULL) {
        enum status status = module_need(&scale, m, ".weight_scale");
        return status == STATUS_OK ? fp4_read(m, scale, 16, factor) : status;
    }
    *found = false;
    return STATUS_OK;
}

// Sets the words of a module of integers: "AWQ, 4 bits, groups of 128".
static void integers_name(struct packed *p, const char *method)
{
    int used = snprintf(p->words, sizeof p->words, "%s, %u bits, ", method, p->bits);
    char *to = p->words + used;
    size_t left = sizeof p->words - (size_t)used;
    if (p->group_of)
        snprintf(to, left, "groups in activation order");
    else if (p->scale_cols == p->k)
        snprintf(to, left, p->scale_rows == 1 ? "a scale per row" : "a scale per tensor");
    else
        snprintf(to, left, "groups of %u", p->scale_cols);
}

// Returns true if the list has the groups of `each` columns in their order.
static bool order_usual(const struct tensor *order, uint32_t k, uint32_t each)
{
    bool usual = each > 0;
    for (uint32_t group, c = 0; c < k && usual; c++) {
        memcpy(&group, (const char *)order->map + c * sizeof group, sizeof group);
        usual = group == c / each;
    }
    return usual;
}

// Reads the group of each column. Groups in the usual order, and a list of -1, set no group_of.
static enum status order_read(struct module_find *m, const struct tensor *order, uint32_t groups)
{
    struct packed *p = m->p;
    uint32_t unset = 0;
    if (!tensor_type_is(order, "I32") || order->dims != 1 || order->shape[0] != p->k)
        return module_wrong(m, order, "the groups of %u columns are I32 [%u]", p->k, p->k);
    if (order_usual(order, p->k, group_columns(m, groups)))
        return STATUS_OK;
    // a copy, whose numbers stay below `groups` if the file is written to while it is loaded
    int32_t *groups_of = arena_alloc(m->f->arena, p->k * sizeof *groups_of);
    memcpy(groups_of, order->map, p->k * sizeof *groups_of);
    for (uint32_t c = 0; c < p->k; c++) {
        int32_t group = groups_of[c];
        unset += group == -1;
        if ((group < 0 || (uint32_t)group >= groups) && unset <= c)
            return module_wrong(m, order, "column %u is in group %d of %u", c, group, groups);
        if (group >= 0 && unset > 0)
            return module_wrong(m, order, "only some columns have a group");
    }
    p->group_of = unset == 0 ? groups_of : NULL;
    return STATUS_OK;
}

// Sets an error if a module without a list of its columns' groups needs one.
static enum status order_absent(const struct module_find *m, uint64_t groups)
{
    if (groups <= 1 || m->p->order == INT4_AWQ || !m->f->rules->ordered)
        return STATUS_OK;
    return error_set(m->f->err, STATUS_INVALID,
                     "%s: next to the tensor %s there is no list of its columns' groups (g_idx), "
                     "which quantization with desc_act or actorder needs: download the checkpoint "
                     "again or take another one",
                     m->code->file, m->code->name.at);
}

// Sets the groups of columns: those of neighbours, or those of the tensor `order` (NULL: absent).
static enum status groups_set(struct module_find *m, const struct tensor *scale,
                              const struct tensor *order, uint64_t groups)
{
    struct packed *p = m->p;
    if (groups == 0 || groups > p->k)
        return module_wrong(m, scale, "%u columns have between 1 and %u groups", p->k, p->k);
    p->groups = (uint32_t)groups;
    enum status status = order ? order_read(m, order, p->groups) : order_absent(m, p->groups);
    uint32_t each = group_columns(m, p->groups);
    if (status == STATUS_OK && each == 0 && !p->group_of)
        status = module_wrong(m, scale, "%u columns do not make %u equal groups", p->k, p->groups);
    p->scale_cols = p->group_of || each == 0 ? p->k : each;
    return status;
}

// Removes zero points that are all the middle of the codes, as symmetric checkpoints store them,
// and sets that number instead. words: number of words of zero points, all bits of which are used.
static void zeros_shorten(struct packed *p, uint64_t words)
{
    uint32_t first, middle = 1u << (p->bits - 1), each = 0;
    uint32_t stored = (middle - p->zeros_add) & ((1u << p->bits) - 1);
    if (32 % p->bits != 0)
        return;
    for (uint32_t i = 0; i < 32; i += p->bits)
        each |= stored << i;
    for (uint64_t i = 0; i < words; i++) {
        memcpy(&first, (const char *)p->zeros + i * 4, sizeof first);
        if (first != each)
            return;
    }
    p->zeros = NULL;
    p->zero = (float)middle;
}

// Reads a module of AWQ or GPTQ, whose codes are stored by column: qweight, qzeros, scales and, for
// GPTQ, g_idx.
static enum status columns_read(struct module_find *m, bool *found)
{
    struct tensor *zeros, *scale, *order = module_take(m, ".g_idx");
    const struct tensor *code = m->code;
    struct packed *p = m->p;
    *found = true;
    enum status status = module_need(&zeros, m, ".qzeros");
    if (status == STATUS_OK)
        status = module_need(&scale, m, ".scales");
    if (status == STATUS_OK && !m->f->rules->declared)
        status = error_set(m->f->err, STATUS_UNSUPPORTED,
                           "%s: the tensor %s has codes of AWQ or GPTQ, and neither "
                           "quantization_config in config.json nor quantize_config.json or "
                           "quant_config.json declares which: download the folder again",
                           code->file, code->name.at);
    if (status != STATUS_OK)
        return status;
    int type = number_of(scale);
    if (scale->dims != 2 || type < 0 || type > PACKED_BF16)
        return module_wrong(m, scale,
                            "the scales of AWQ and GPTQ are F16, BF16 or F32 [groups, rows]");
    uint64_t groups = scale->shape[0], n = scale->shape[1];
    if (code->dims != 2 || !tensor_type_is(code, "I32") || n == 0 || n > INT32_MAX)
        return module_wrong(m, code, "the codes of AWQ and GPTQ are I32 matrices");
    bool awq = code->shape[1] * 8 == n;
    uint64_t bits = awq                                        ? 4
                    : zeros->dims == 2 && zeros->shape[1] <= n ? zeros->shape[1] * 32 / n
                                                               : 0;
    bool known = bits == 2 || bits == 3 || bits == 4 || bits == 8;
    if (!awq && (code->shape[1] != n || !known || code->shape[0] * 32 % bits != 0))
        return module_wrong(
            m, code,
            "%" PRIu64 " rows in the layout gemm of AWQ are I32 [columns, %" PRIu64
            "], and in GPTQ's with 2, 3, 4 or 8 bits I32 [columns * bits / 32, %" PRIu64 "]",
            n, n / 8, n);
    status = module_size_set(m, n, awq ? code->shape[0] : code->shape[0] * 32 / bits);
    if (status != STATUS_OK)
        return status;
    if (!tensor_type_is(zeros, "I32") || !tensor_shape_is(zeros, groups, (n * bits + 31) / 32))
        return module_wrong(m, zeros,
                            "the zero points of %" PRIu64 " groups of %" PRIu64 " rows are I32 "
                            "[%" PRIu64 ", %" PRIu64 "]",
                            groups, n, groups, (n * bits + 31) / 32);
    p->bits = (uint32_t)bits;
    p->order = awq ? INT4_AWQ : INT4_BY_COLUMN;
    p->scales = scale->map;
    p->scale_type = (enum packed_number)type;
    p->row_step = 1;
    p->group_step = p->n;
    p->zeros = zeros->map;
    p->zeros_add = awq || m->f->rules->zeros_full ? 0 : 1;
    status = groups_set(m, scale, order, groups);
    if (status == STATUS_OK && n * bits % 32 == 0)
        zeros_shorten(p, groups * n * bits / 32);
    integers_name(p, awq ? "AWQ" : "GPTQ");
    return status;
}

// Reads the numbers of rows and columns that compressed-tensors stores.
static enum status shape_read(uint64_t out[2], struct module_find *m)
{
    struct tensor *shape;
    enum status status = module_need(&shape, m, ".weight_shape");
    if (status == STATUS_OK && (!tensor_type_is(shape, "I64") || tensor_elements(shape) != 2))
        status = module_wrong(m, shape, "the shape of a weight is I64 [2]");
    if (status == STATUS_OK)
        memcpy(out, shape->map, 2 * sizeof *out);
    return status;
}

// Reads zero points of compressed-tensors: words that rows share or, in older files, signed bytes.
// With bytes the value of a code is signed: code - 2^(bits - 1).
static enum status row_zeros_read(struct module_find *m, const struct tensor *zeros)
{
    struct packed *p = m->p;
    uint64_t words = ((uint64_t)p->n * p->bits + 31) / 32;
    p->zeros = zeros->map;
    if (tensor_type_is(zeros, "I8") && tensor_shape_is(zeros, p->n, p->groups)) {
        float *values = arena_alloc(m->f->arena, 256 * sizeof *values);
        for (int i = 0; i < 1 << p->bits; i++)
            values[i] = (float)(i - (1 << (p->bits - 1)));
        p->values = values;
        p->zero_bytes = true;
        return STATUS_OK;
    }
    if (tensor_type_is(zeros, "I32") && tensor_shape_is(zeros, words, p->groups))
        return STATUS_OK;
    return module_wrong(m, zeros,
                        "the zero points of %u groups of %u rows are I32 [%" PRIu64 ", %u]",
                        p->groups, p->n, words, p->groups);
}

// Reads a module of compressed-tensors whose codes are in NAME.weight_packed: integers in words, or
// E2M1.
static enum status rows_read(struct module_find *m, bool *found)
{
    struct tensor *scale, *factor, *zeros, *order;
    struct packed *p = m->p;
    uint64_t size[2];
    char each[32];
    *found = true;
    enum status status = module_need(&scale, m, ".weight_scale");
    if (status == STATUS_OK && !tensor_type_is(m->code, "I32")) {
        factor = module_take(m, ".weight_global_scale");
        status = fp4_read(m, scale, factor ? 16 : 32, factor);
        p->divide = true;
        return status;
    }
    if (status == STATUS_OK)
        status = shape_read(size, m);
    if (status == STATUS_OK)
        status = module_size_set(m, size[0], size[1]);
    if (status != STATUS_OK)
        return status;
    uint64_t words = m->code->dims == 2 ? m->code->shape[1] : 0;
    uint64_t bits = words <= p->k ? words * 32 / p->k : 0;
    bool whole = bits * p->k == words * 32 && (bits == 2 || bits == 4 || bits == 8);
    if (!whole || m->code->shape[0] != p->n)
        return module_wrong(m, m->code,
                            "%u x %u codes of 2, 4 or 8 bits are I32 [%u, columns * bits / "
                            "32]",
                            p->n, p->k, p->n);
    p->bits = (uint32_t)bits;
    p->zero = (float)(1u << (bits - 1));
    order = module_take(m, ".weight_g_idx");
    zeros = module_take(m, ".weight_zero_point");
    if (order && scale->dims == 2 && scale->shape[0] == p->n && number_of(scale) >= 0) {
        p->scales = scale->map;
        p->scale_type = (enum packed_number)number_of(scale);
        status = groups_set(m, scale, order, scale->shape[1]);
        p->row_step = p->groups;
        p->group_step = 1;
    } else {
        status = order_absent(m, scale->dims == 2 ? scale->shape[1] : 1);
        if (status == STATUS_OK)
            status = scales_by_row(m, scale, each);
    }
    if (status == STATUS_OK && zeros)
        status = row_zeros_read(m, zeros);
    integers_name(p, "compressed-tensors");
    return status;
}

// Stacks of GPT-OSS: codes E2M1 [experts, rows, columns / 32, 16] and scales [experts, rows,
// columns / 32].
static enum status stack_read(struct module_find *m, bool *found)
{
    const uint64_t *shape = m->code->shape;
    struct tensor *scale;
    *found = tensor_type_is(m->code, "U8") && m->code->dims == 4 && shape[3] == 16;
    if (!*found)
        return STATUS_OK;
    enum status status = module_need(&scale, m, "_scales");
    if (status == STATUS_OK)
        status = module_size_set(m, shape[0] * shape[1], shape[2] * 32);
    if (status != STATUS_OK)
        return status;
    struct packed *p = m->p;
    if (!tensor_type_is(scale, "U8") || scale->dims != 3 || scale->shape[0] != shape[0] ||
        scale->shape[1] != shape[1] || scale->shape[2] != shape[2])
        return module_wrong(
            m, scale, "the scales of these codes are U8 [%" PRIu64 ", %" PRIu64 ", %" PRIu64 "]",
            shape[0], shape[1], shape[2]);
    m->stack = (uint32_t)shape[0];
    p->bits = 4;
    p->values = packed_e2m1();
    p->scales = scale->map;
    p->scale_type = PACKED_E8M0;
    p->scale_cols = 32;
    p->group_step = 1;
    p->row_step = p->groups = (uint32_t)shape[2];
    snprintf(p->words, sizeof p->words, "MXFP4, groups of 32");
    return STATUS_OK;
}

// Reads the module of a tensor if the tensor holds codes.
static enum status module_read(struct packed_finder *f, const struct tensor *tensor)
{
    static const struct {
        const char *tail;
        enum status (*read)(struct module_find *m, bool *found);
    } kinds[] = {{".weight", weight_read},
                 {".qweight", columns_read},
                 {".weight_packed", rows_read},
                 {"_blocks", stack_read}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t tail = strlen(kinds[i].tail), bytes = tensor->name.bytes;
        if (bytes == tail || !text_ends(tensor->name, kinds[i].tail))
            continue;
        struct packed packed = {.bits = 0};
        struct module_find m = {f, {tensor->name.at, bytes - tail}, tensor, &packed, 0};
        bool found;
        enum status status = kinds[i].read(&m, &found);
        if (status != STATUS_OK || !found)
            return status;
        m.p = arena_alloc_zeroed(f->arena, 1, sizeof *m.p);
        *m.p = packed;
        module_finish(&m);
        return STATUS_OK;
    }
    return STATUS_OK;
}

enum status packed_find(struct tensor *list, uint32_t *count, const struct packed_rules *rules,
                        struct arena *arena, struct error *err)
{
    struct packed_finder f = {.list = list,
                              .count = *count,
                              .taken = heap_alloc_zeroed(*count + 1, sizeof *f.taken),
                              .made = heap_alloc_zeroed(*count + 1, sizeof *f.made),
                              .rules = rules,
                              .arena = arena,
                              .err = err};
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < *count && status == STATUS_OK; i++)
        if (!f.taken[i])
            status = module_read(&f, &list[i]);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < *count && status == STATUS_OK; i++) {
        if (f.taken[i])
            continue;
        struct tensor moved = list[kept]; // a taken tensor, or the same one
        list[kept] = f.made[i] ? *f.made[i] : list[i];
        if (kept < i)
            list[i] = moved;
        kept++;
    }
    heap_free(f.taken);
    heap_free(f.made);
    if (status == STATUS_OK)
        *count = kept;
    return status;
}
