// SPDX-License-Identifier: Apache-2.0
// Reads the 4-bit codes of bitsandbytes, which a JSON text in a tensor describes; see
// packed_module.h.
#include "runtime/model/packed_module.h"

#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// Reads the JSON in which bitsandbytes describes a matrix; it is stored as a tensor of bytes.
static enum status state_read(json_t **out, struct module_find *m)
{
    struct tensor *state = module_take(m, ".weight.quant_state.bitsandbytes__nf4");
    enum status status = STATUS_OK;
    if (!state)
        status = module_need(&state, m, ".weight.quant_state.bitsandbytes__fp4");
    if (status == STATUS_OK && !tensor_type_is(state, "U8"))
        status = module_wrong(m, state, "it is JSON in bytes, U8");
    if (status == STATUS_OK)
        status = json_parse(out, text_span(state->map, state->bytes), m->f->err);
    if (status == STATUS_OK && !json_is_object(*out)) {
        status = module_wrong(m, state, "it is a JSON object in bytes");
        json_decref(*out);
        *out = NULL;
    }
    return status;
}

// Returns a count of the JSON, or 0 if it is none.
static uint32_t state_count(const json_t *value)
{
    int64_t count;
    bool valid = json_is_integer(value) && json_integer_exact(value, &count);
    return valid && count > 0 && count <= INT32_MAX ? (uint32_t)count : 0;
}

// Returns a copy of the tensor's floats, or NULL if it does not have `count` of them.
static const float *floats_copy(struct module_find *m, const struct tensor *tensor, uint32_t count)
{
    if (!tensor_type_is(tensor, "F32") || tensor_elements(tensor) != count)
        return NULL;
    float *copy = arena_alloc(m->f->arena, count * sizeof *copy);
    memcpy(copy, tensor->map, count * sizeof *copy);
    return copy;
}

// Reads scales that are codes of 8 bits.
static enum status nested_read(struct module_find *m, const struct tensor *scale,
                               const json_t *state)
{
    struct tensor *map, *scales;
    struct packed_nested *nested = arena_alloc_zeroed(m->f->arena, 1, sizeof *nested);
    enum status status = module_need(&map, m, ".weight.nested_quant_map");
    if (status == STATUS_OK)
        status = module_need(&scales, m, ".weight.nested_absmax");
    if (status != STATUS_OK)
        return status;
    nested->block = state_count(json_object_get(state, "nested_blocksize"));
    nested->offset = (float)json_number_value(json_object_get(state, "nested_offset"));
    nested->map = floats_copy(m, map, 256);
    nested->scales = scales->map;
    if (!nested->map)
        return module_wrong(m, map, "the values of 8-bit scales are F32 [256]");
    uint64_t blocks = nested->block;
    uint64_t count = blocks > 0 ? (tensor_elements(scale) + blocks - 1) / blocks : 0;
    if (!tensor_type_is(scales, "F32") || tensor_elements(scales) != count || count == 0)
        return module_wrong(m, scales,
                            "%" PRIu64 " scales in blocks of %" PRIu64 " have F32 [%" PRIu64 "]",
                            tensor_elements(scale), blocks, count);
    m->p->nested = nested;
    return STATUS_OK;
}

enum status module_blocks_read(struct module_find *m)
{
    struct tensor *scale, *map;
    struct packed *p = m->p;
    json_t *state = NULL;
    enum status status = module_need(&map, m, ".weight.quant_map");
    if (status == STATUS_OK)
        status = module_need(&scale, m, ".weight.absmax");
    if (status == STATUS_OK)
        status = state_read(&state, m);
    if (status != STATUS_OK)
        return status;
    const json_t *shape = json_object_get(state, "shape");
    uint32_t n = state_count(json_array_get(shape, 0)), k = state_count(json_array_get(shape, 1));
    uint32_t block = state_count(json_object_get(state, "blocksize"));
    status = module_size_set(m, n, k);
    if (status == STATUS_OK && (block == 0 || k % block != 0 || k % 2 != 0 ||
                                tensor_elements(m->code) != (uint64_t)n * k / 2))
        status = module_wrong(m, m->code,
                              "%u x %u codes of 4 bits in blocks of %u elements of a row "
                              "are %" PRIu64 " bytes",
                              n, k, block, (uint64_t)n * k / 2);
    if (status == STATUS_OK && tensor_elements(scale) != (uint64_t)n * k / block)
        status = module_wrong(m, scale, "%u x %u elements have %" PRIu64 " scales", n, k,
                              (uint64_t)n * k / block);
    p->values = floats_copy(m, map, 16);
    if (status == STATUS_OK && !p->values)
        status = module_wrong(m, map, "the values of codes of 4 bits are F32 [16]");
    if (status == STATUS_OK && tensor_type_is(scale, "U8"))
        status = nested_read(m, scale, state);
    else if (status == STATUS_OK && !tensor_type_is(scale, "F32"))
        status = module_wrong(m, scale, "scales are F32 or U8");
    json_decref(state);
    if (status != STATUS_OK)
        return status;
    bool nf4 = module_part(m, ".weight.quant_state.bitsandbytes__nf4") != NULL;
    p->bits = 4;
    p->high_first = true;
    p->scales = scale->map;
    p->scale_cols = block;
    p->row_step = k / block;
    p->group_step = 1;
    snprintf(p->words, sizeof p->words, "bitsandbytes %s, blocks of %u", nf4 ? "NF4" : "FP4",
             block);
    return STATUS_OK;
}
