// SPDX-License-Identifier: Apache-2.0
// Finds the tensors of a quantised module; see packed_module.h.
#include "runtime/model/packed_module.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tensor_type_is(const struct tensor *tensor, const char *type)
{
    return strcmp(tensor->type, type) == 0;
}

bool tensor_shape_is(const struct tensor *tensor, uint64_t rows, uint64_t cols)
{
    return tensor->dims == 2 && tensor->shape[0] == rows && tensor->shape[1] == cols;
}

uint64_t tensor_elements(const struct tensor *tensor)
{
    uint64_t elements = 1;
    for (uint32_t i = 0; i < tensor->dims; i++)
        elements *= tensor->shape[i]; // safetensors_parse has refused overflows
    return elements;
}

struct tensor *module_part(const struct module_find *m, const char *tail)
{
    char name[TENSOR_NAME_MAX + 64];
    snprintf(name, sizeof name, "%.*s%s", (int)m->base.bytes, m->base.at, tail);
    const struct tensor key = {.name = text_of(name)};
    return bsearch(&key, m->f->list, m->f->count, sizeof key, tensor_name_order);
}

struct tensor *module_take(const struct module_find *m, const char *tail)
{
    struct tensor *tensor = module_part(m, tail);
    if (tensor)
        m->f->taken[tensor - m->f->list] = true;
    return tensor;
}

enum status module_wrong(const struct module_find *m, const struct tensor *tensor,
                         const char *format, ...)
{
    char wanted[160], shape[96] = "";
    va_list args;
    va_start(args, format);
    vsnprintf(wanted, sizeof wanted, format, args);
    va_end(args);
    for (uint32_t i = 0, used = 0; i < tensor->dims && used < sizeof shape; i++)
        used += (uint32_t)snprintf(shape + used, sizeof shape - used, "%s%" PRIu64, i ? ", " : "",
                                   tensor->shape[i]);
    return error_set(m->f->err, STATUS_INVALID,
                     "%s: the tensor %s is %s [%s], but %s; the checkpoint is damaged or of a "
                     "variant that is not read, take another one",
                     tensor->file, tensor->name.at, tensor->type, shape, wanted);
}

enum status module_lacks(const struct module_find *m, const char *tail)
{
    return error_set(
        m->f->err, STATUS_INVALID,
        "%s: the tensor %s has codes, but %.*s%s is not in the checkpoint: download it "
        "again or take another one",
        m->code->file, m->code->name.at, (int)m->base.bytes, m->base.at, tail);
}

enum status module_need(struct tensor **out, const struct module_find *m, const char *tail)
{
    *out = module_take(m, tail);
    return *out ? STATUS_OK : module_lacks(m, tail);
}

enum status module_size_set(struct module_find *m, uint64_t n, uint64_t k)
{
    if (n == 0 || k == 0 || n > INT32_MAX || k > INT32_MAX)
        return module_wrong(m, m->code, "a weight has between 1 and 2^31 - 1 rows and columns");
    m->p->n = (uint32_t)n;
    m->p->k = (uint32_t)k;
    m->p->scale_rows = 1;
    m->p->scale_cols = m->p->k;
    m->p->factor = 1;
    m->p->last = 1;
    m->p->groups = 1;
    m->p->codes = m->code->map;
    return STATUS_OK;
}
